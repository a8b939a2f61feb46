"""The parts of the language that a module may use, and the names that it may not."""

from __future__ import annotations

import ast
import string
from functools import lru_cache

from se_rl.modules.allowed_names import words
from se_rl.modules.errors import SourceRefused

ALLOWED_NODES = words(
    "Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If With Raise "
    "Try Assert Import ImportFrom Nonlocal Expr Pass Break Continue BoolOp NamedExpr BinOp UnaryOp "
    "Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp Yield YieldFrom Compare Call "
    "FormattedValue JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice Load "
    "Store Del And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd FloorDiv "
    "Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn comprehension ExceptHandler "
    "arguments arg keyword alias withitem Match match_case MatchValue MatchSingleton MatchSequence "
    "MatchStar MatchAs MatchOr"
)
REFUSED_NODES = {
    "AsyncFunctionDef": "async code; write an ordinary function",
    "AsyncFor": "async code; write an ordinary function",
    "AsyncWith": "async code; write an ordinary function",
    "Await": "async code; write an ordinary function",
    "MatchClass": "this kind of pattern; use isinstance or if",
    "MatchMapping": "this kind of pattern; use isinstance or if",
    "TypeAlias": "type parameters; leave them out",
    "TypeVar": "type parameters; leave them out",
    "ParamSpec": "type parameters; leave them out",
    "TypeVarTuple": "type parameters; leave them out",
    "TemplateStr": "template strings; use an f-string",
    "Interpolation": "template strings; use an f-string",
    "Global": "global; keep state in self, or return it",
    "TryStar": "except*; use except",
}
"""Every node type of `ast` stands in one of these two; a test fails when Python grows another."""

ALLOWED_DUNDERS = words("__init__ __call__ __repr__ __name__ __post_init__")

NEVER = words(
    "eval exec compile open getattr setattr delattr globals locals vars input breakpoint memoryview"
)
"""Builtins that stay forbidden even where a source binds their names."""

RANDOM = words(
    "rand randn randint randperm normal bernoulli multinomial poisson rand_like randn_like "
    "randint_like normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_"
)
"""Functions of torch that draw random numbers."""


def check_dunder(name: str, line: int) -> None:
    """Of the names with double underscores only the usual ones of a class."""
    if is_dunder(name) and name not in ALLOWED_DUNDERS:
        allowed = ", ".join(sorted(ALLOWED_DUNDERS))
        raise SourceRefused(line, f"{name} is not allowed; of such names use only {allowed}")


def is_dunder(name: str) -> bool:
    """Whether a name has double underscores at both ends."""
    return name.startswith("__") and name.endswith("__")


def is_plain_format(owner: ast.expr) -> bool:
    """Whether `format` is called on a text whose fields reach no attribute and no item, and whose
    format specifications hold no fields themselves."""
    if not (isinstance(owner, ast.Constant) and isinstance(owner.value, str)):
        return False
    try:
        fields = list(string.Formatter().parse(owner.value))
    except ValueError:
        return False
    for _, field, specification, _ in fields:
        if "." in (field or "") or "[" in (field or "") or "{" in (specification or ""):
            return False
    return True


@lru_cache
def module_internals() -> frozenset[str]:
    """Private attributes of nn.Module."""
    from torch import nn

    names = [*dir(nn.Module), *vars(nn.Module())]
    return frozenset(name for name in names if name.startswith("_"))


@lru_cache
def module_names() -> frozenset[str]:
    """Public attributes of nn.Module: no class of a source replaces them, forward aside."""
    from torch import nn

    names = [*dir(nn.Module), *vars(nn.Module())]
    return frozenset(name for name in names if not name.startswith("_"))
