"""The static stage: reads a module's source without running it, and says in one line what to write instead.

It is a quality filter with messages that a language model can act on. It is not the wall: that is the locked process in
which the source later runs. Whatever is not known to be needed is refused: node types, imports, attributes of modules.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import io
import re
import string
import tokenize
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from se_rl.modules.contracts import CONTRACTS, LIMITS, REWARD_FIELDS, Contract
from se_rl.modules.loading import (
    IMPORTS,
    PREIMPORTED,
    REFUSED_ATTRIBUTES,
    SAFE_BUILTINS,
    public_names,
    words,
)

ALLOWED_NODES = words(
    "Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If With Raise Try Assert Import "
    "ImportFrom Nonlocal Expr Pass Break Continue BoolOp NamedExpr BinOp UnaryOp Lambda IfExp Dict Set ListComp "
    "SetComp DictComp GeneratorExp Yield YieldFrom Compare Call FormattedValue JoinedStr Constant Attribute Subscript "
    "Starred Name List Tuple Slice Load Store Del And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor "
    "BitAnd FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn comprehension ExceptHandler "
    "arguments arg keyword alias withitem Match match_case MatchValue MatchSingleton MatchSequence MatchStar MatchAs "
    "MatchOr"
)
REFUSED_NODES = {
    **dict.fromkeys(
        words("AsyncFunctionDef AsyncFor AsyncWith Await"), "async code; write an ordinary function"
    ),
    **dict.fromkeys(words("MatchClass MatchMapping"), "this kind of pattern; use isinstance or if"),
    **dict.fromkeys(
        words("TypeAlias TypeVar ParamSpec TypeVarTuple"), "type parameters; leave them out"
    ),
    **dict.fromkeys(words("TemplateStr Interpolation"), "template strings; use an f-string"),
    "Global": "global; keep state in self, or return it",
    "TryStar": "except*; use except",
}
"""Every node type of `ast` stands in one of these two; a test fails when Python grows another."""

ALLOWED_DUNDERS = words("__init__ __call__ __repr__ __name__ __post_init__")

NEVER = words(
    "eval exec compile open getattr setattr delattr globals locals vars input breakpoint memoryview"
)
RANDOM = words(
    "rand randn randint randperm normal bernoulli multinomial poisson rand_like randn_like randint_like normal_ "
    "uniform_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_"
)


@dataclass(frozen=True)
class Problem:
    """Why a module was refused: at which stage, and one line that says where, what, and what to write instead."""

    stage: str
    message: str


class _SourceRefused(Exception):
    def __init__(self, line: int | None, message: str) -> None:
        where = f"line {line}: " if line else ""
        super().__init__(" ".join(f"{where}{message}".split())[:400])


def check_source(source: str | bytes, code_type: str) -> Problem | None:
    """What is wrong with a module's source, or None; nothing of it is run."""
    contract = CONTRACTS[code_type]
    try:
        tree = _parse(source)
        walk = _Walk(tree, code_type)
        _check_top_level(tree)
        walk.visit(tree)
        _check_entry(tree, contract)
    except _SourceRefused as refused:
        return Problem("static", str(refused))
    return None


def _parse(source: str | bytes) -> ast.Module:
    try:
        data = source.encode() if isinstance(source, str) else source
        text = data.decode("utf-8")
    except UnicodeError:
        raise _SourceRefused(None, "the source is not UTF-8; write plain text") from None
    if len(data) > LIMITS.source_bytes:
        raise _SourceRefused(
            None, f"the source has {len(data)} bytes; write at most {LIMITS.source_bytes}"
        )
    if strange := re.search("[\x00-\x08\x0b\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufeff]", text):
        line = text.count("\n", 0, strange.start()) + 1
        raise _SourceRefused(
            line, f"the control character {strange.group()!r} is not allowed; leave it out"
        )
    cookie = re.match(r"(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", text)
    if cookie and cookie.group(1).lower() not in ("utf-8", "utf8"):
        raise _SourceRefused(
            1, f"the coding {cookie.group(1)!r} is not allowed; leave the comment out"
        )
    tokens_fine = _check_tokens(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # an odd escape in a comment string is no reason to refuse
            tree = ast.parse(text)
    except SyntaxError as error:
        near = (error.text or "").strip()[:80]
        raise _SourceRefused(
            error.lineno, f"syntax error, {error.msg}, near `{near}`; write complete, valid Python"
        ) from None
    except (RecursionError, MemoryError, ValueError, OverflowError):
        raise _SourceRefused(
            None, "the source is too deeply nested to read; write shorter expressions"
        ) from None
    if not tokens_fine or _depth(tree) > 2 * LIMITS.nesting:
        raise _SourceRefused(
            None, "the source is too deeply nested; write shorter expressions, on several lines"
        )
    return tree


def _check_tokens(text: str) -> bool:
    """Brackets nested within the limit and identifiers as Python will read them; False where tokens could not be read."""
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            depth += (
                (token.string in "([{") - (token.string in ")]}")
                if token.type == tokenize.OP
                else 0
            )
            if depth > LIMITS.nesting:
                raise _SourceRefused(
                    token.start[0],
                    f"more than {LIMITS.nesting} open brackets; write shorter expressions",
                )
            if (
                token.type == tokenize.NAME
                and unicodedata.normalize("NFKC", token.string) != token.string
            ):
                raise _SourceRefused(
                    token.start[0],
                    f"the name {token.string!r} uses look-alike letters; use plain ones",
                )
    except (tokenize.TokenError, SyntaxError, RecursionError):
        return False
    return True


def _depth(tree: ast.AST) -> int:
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _check_top_level(tree: ast.Module) -> None:
    """Only imports, constants, functions and classes."""
    literal = (
        ast.Constant,
        ast.UnaryOp,
        ast.BinOp,
        ast.Tuple,
        ast.List,
        ast.Dict,
        ast.Set,
        ast.Name,
        ast.Attribute,
    )
    parts = (ast.operator, ast.unaryop, ast.expr_context)
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values = ast.walk(node.value) if node.value else iter(())
            if all(isinstance(t, ast.Name) for t in targets) and all(
                isinstance(v, (*literal, *parts)) for v in values
            ):
                continue
        raise _SourceRefused(
            node.lineno,
            "only imports, constants, functions and classes may stand at the top level; move this"
            " into a function",
        )


def _check_entry(tree: ast.Module, contract: Contract) -> None:
    """The function or class that the framework calls is there and takes the arguments of the contract."""
    wanted = dict(re.findall(r"(\w+)\(([^)]*)\)", contract.signature))
    kind = ast.ClassDef if contract.signature.startswith("class") else ast.FunctionDef
    found = {node.name: node for node in tree.body if isinstance(node, kind)}
    entry = found.get(contract.entry)
    if entry is None:
        raise _SourceRefused(
            None, f"`{contract.entry}` is missing; write `{contract.signature}` at the top level"
        )
    if isinstance(entry, ast.FunctionDef):
        _check_arguments(entry, wanted[contract.entry])
        if contract.code_type == "reward":
            _check_fields(entry)
        return
    if not entry.bases:
        raise _SourceRefused(
            entry.lineno, f"{entry.name} has no base class; write `class {entry.name}(nn.Module):`"
        )
    methods, outside = _methods(
        entry, {k: v for k, v in found.items() if isinstance(v, ast.ClassDef)}
    )
    for name in list(wanted)[1:]:
        if name in methods:
            _check_arguments(methods[name], wanted[name])
        elif not outside:
            raise _SourceRefused(
                entry.lineno,
                f"{entry.name} has no method {name}; write `def {name}({wanted[name]}):`",
            )


def _methods(
    entry: ast.ClassDef, classes: dict[str, ast.ClassDef]
) -> tuple[dict[str, ast.FunctionDef], bool]:
    """The methods of a class and of its bases in the same source; whether a base other than nn.Module may add some."""
    own = {node.name: node for node in entry.body if isinstance(node, ast.FunctionDef)}
    outside = False
    for base in entry.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        local = classes.get(name)
        if local is not None and local is not entry:
            inherited, beyond = _methods(
                local, {k: v for k, v in classes.items() if v is not entry}
            )
            own, outside = {**inherited, **own}, outside or beyond
        else:
            outside = outside or name != "Module"
    return own, outside


def _check_arguments(function: ast.FunctionDef, wanted: str) -> None:
    arguments = function.args
    count = len([name for name in wanted.split(",") if name.strip()])
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    keywords = any(default is None for default in arguments.kw_defaults)
    if keywords or least > count or (most < count and arguments.vararg is None):
        raise _SourceRefused(
            function.lineno,
            f"{function.name} must take ({wanted}); write `def {function.name}({wanted}):`",
        )


def _check_fields(function: ast.FunctionDef) -> None:
    """A reward reads only fields that a step has."""
    step = (function.args.posonlyargs + function.args.args)[0].arg
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id == step
        ):
            raise _SourceRefused(
                node.lineno, f"{step} is no dictionary; write `{step}.fill_price` for a field"
            )
        if not (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == step
        ):
            continue
        if node.attr not in REWARD_FIELDS:
            raise _SourceRefused(
                node.lineno, f"{step} has no field {node.attr}{_instead(node.attr, REWARD_FIELDS)}"
            )
        if not isinstance(node.ctx, ast.Load):
            raise _SourceRefused(
                node.lineno,
                f"{step}.{node.attr} may not be changed; assign to a variable of your own",
            )


def _instead(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.75)
    return f"; perhaps {' or '.join(close)}" if close else "; use only what the contract names"


class _Walk(ast.NodeVisitor):
    """Visits every node once; knows which names stand for modules and which are local to a function."""

    def __init__(self, tree: ast.Module, code_type: str) -> None:
        self.code_type = code_type
        self.modules = dict(PREIMPORTED)
        self.scopes: list[set[str]] = []
        self.stored = frozenset(_bound(ast.walk(tree)))
        self.bound = set(self.stored)
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        self.methods = {
            child for node in classes for child in node.body if isinstance(child, ast.FunctionDef)
        }
        self.own_names = {method.name for method in self.methods} | set(_set_on_self(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node, inside=node not in tree.body)

    def visit(self, node: ast.AST) -> None:
        name = type(node).__name__
        if name not in ALLOWED_NODES:
            raise _SourceRefused(
                getattr(node, "lineno", None), f"do not use {REFUSED_NODES.get(name, name)}"
            )
        super().visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom, *, inside: bool) -> None:
        refused = _SourceRefused(
            node.lineno, f"`{ast.unparse(node)}` is not allowed; use only torch, nn, F and math"
        )
        package = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and (
            node.level or package not in {*IMPORTS, "__future__"}
        ):
            raise refused
        for alias in node.names:
            dotted = f"{package}.{alias.name}" if package else alias.name
            name = alias.asname or (alias.name if package else alias.name.split(".")[0])
            module = dotted if alias.asname or package else name
            if dotted not in IMPORTS and package not in IMPORTS | {"__future__"}:
                raise refused
            if (
                dotted not in IMPORTS
                and package in IMPORTS
                and alias.name not in public_names(package)
            ):
                raise refused
            wanted = module if dotted in IMPORTS else None
            taken = self.modules.setdefault(name, module) if wanted else self.modules.get(name)
            if taken != wanted or name.startswith("__") or (inside and name in self.stored):
                raise _SourceRefused(
                    node.lineno,
                    f"the name {name} already stands for something; import under another name",
                )
            self.bound.add(name)

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def _module(self, node: ast.expr) -> str | None:
        """The module that an expression stands for, if it does."""
        if isinstance(node, ast.Name):
            return None if self._is_local(node.id) else self.modules.get(node.id)
        base = self._module(node.value) if isinstance(node, ast.Attribute) else None
        return f"{base}.{node.attr}" if base and f"{base}.{node.attr}" in IMPORTS else None  # type: ignore[attr-defined]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        _check_dunder(node.name, node.lineno)
        for outer in [*node.decorator_list, *([node.returns] if node.returns else [])]:
            self.visit(outer)
        self._function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, [node.body])

    def _function(
        self, node: ast.FunctionDef | ast.Lambda, body: list[ast.stmt] | list[ast.expr]
    ) -> None:
        """Defaults and annotations belong to the scope outside, the body to a new one."""
        self.visit(node.args)
        names = {
            child.arg for child in ast.iter_child_nodes(node.args) if isinstance(child, ast.arg)
        }
        first = (
            [a.arg for a in (node.args.posonlyargs + node.args.args)[:1]]
            if node in self.methods
            else []
        )
        if misused := {"self", "cls"} & (names | set(_bound(_own_nodes(body)))) - set(first):
            name = misused.pop()
            raise _SourceRefused(
                node.lineno,
                f"only a method's first argument may be called {name}; use another name",
            )
        self.scopes.append(names | set(_bound(_own_nodes(body))))
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        _check_dunder(node.name, node.lineno)
        if node.keywords:
            raise _SourceRefused(
                node.lineno, f"class {node.name} has keywords; write base classes only"
            )
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        _check_dunder(name, node.lineno)
        if self._is_local(name):
            return
        if name in self.modules:
            loaded = isinstance(node.ctx, ast.Load)
            what = "use its functions by name" if loaded else "call your variable something else"
            raise _SourceRefused(
                node.lineno, f"{name} stands for the module {self.modules[name]}; {what}"
            )
        if name not in NEVER and (name in SAFE_BUILTINS - {"type"} or name in self.bound):
            return
        if name == "type":
            raise _SourceRefused(
                node.lineno, "type may only be asked for one object's type; write a class statement"
            )
        if hasattr(builtins, name):
            raise _SourceRefused(
                node.lineno, f"{name} is not allowed; write it with torch, or plainly without it"
            )
        raise _SourceRefused(
            node.lineno,
            f"the name {name} is not defined{_instead(name, self.bound | SAFE_BUILTINS)}",
        )

    def visit_Attribute(self, node: ast.Attribute) -> None:
        base, name = self._module(node.value), node.attr
        if module := self._module(node):
            raise _SourceRefused(node.lineno, f"{module} is a module; use its functions by name")
        if base is not None:
            if not isinstance(node.ctx, ast.Load):
                raise _SourceRefused(
                    node.lineno,
                    f"{base}.{name} may not be changed; assign to a variable of your own",
                )
            if name not in public_names(base):
                raise _SourceRefused(
                    node.lineno, f"{base}.{name} is not allowed{_instead(name, public_names(base))}"
                )
            return
        self._check_attribute(node)
        self.visit(node.value)

    def _check_attribute(self, node: ast.Attribute) -> None:
        name, owner = node.attr, node.value
        _check_dunder(name, node.lineno)
        private = name.startswith("_") and name not in ALLOWED_DUNDERS
        of_self = (
            isinstance(owner, ast.Name) and owner.id in ("self", "cls") and name in self.own_names
        )
        of_self = of_self and name not in _module_internals()
        if (
            name in REFUSED_ATTRIBUTES
            or re.fullmatch("register_.*hook", name)
            or (private and not of_self)
        ):
            raise _SourceRefused(
                node.lineno, f"the attribute {name} is not allowed; use public functions of torch"
            )
        if name == "format" and not _is_plain_format(owner):
            raise _SourceRefused(
                node.lineno,
                "format is only allowed on a text with plain {} fields; use an f-string",
            )
        if isinstance(node.ctx, ast.Load):
            return
        root = owner
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        whose = root.id if isinstance(root, ast.Name) and self._is_local(root.id) else None
        own = whose == "self" or (whose is not None and name not in _library_methods())
        if isinstance(node.ctx, ast.Del) or not own:
            raise _SourceRefused(
                node.lineno,
                f"{ast.unparse(node)} may not be set or deleted here; keep state in self",
            )

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name == "Generator":
            raise _SourceRefused(node.lineno, "do not make a Generator; use the one handed in")
        of_torch = isinstance(function, ast.Attribute) and (
            self._module(function.value) or name.endswith("_")
        )
        drawn = name in RANDOM and (
            of_torch or (isinstance(function, ast.Name) and name not in self.stored)
        )
        if drawn and self.code_type == "reward":
            raise _SourceRefused(
                node.lineno, f"{name} draws random numbers; a reward must be deterministic"
            )
        if (
            drawn
            and self.code_type == "imagination"
            and not any(k.arg == "generator" for k in node.keywords)
        ):
            raise _SourceRefused(
                node.lineno,
                f"{name} draws from no generator; write torch.{name.removesuffix('_like')}(shape,"
                " generator=generator)",
            )
        if isinstance(function, ast.Call) and getattr(function.func, "id", "") == "type":
            raise _SourceRefused(
                node.lineno, "a type may not be called through type(...); write a class statement"
            )
        if (
            name != "type"
            or isinstance(function, ast.Attribute)
            or len(node.args) != 1
            or node.keywords
        ):
            self.visit(function)
        for child in [*node.args, *node.keywords]:
            self.visit(child)


def _set_on_self(tree: ast.Module) -> Iterator[str]:
    """Attributes that the source itself gives to its objects."""
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and isinstance(node.value, ast.Name) and node.value.id == "self":  # type: ignore[attr-defined]
            yield node.attr  # type: ignore[attr-defined]


def _check_dunder(name: str, line: int) -> None:
    if name.startswith("__") and name.endswith("__") and name not in ALLOWED_DUNDERS:
        raise _SourceRefused(
            line,
            f"{name} is not allowed; of such names use only {', '.join(sorted(ALLOWED_DUNDERS))}",
        )


@lru_cache
def _module_internals() -> frozenset[str]:
    from torch import nn

    return frozenset(name for name in [*dir(nn.Module), *vars(nn.Module())] if name.startswith("_"))


@lru_cache
def _library_methods() -> frozenset[str]:
    """Methods of layers and tensors: setting one on a class would change it for everybody."""
    from torch import Tensor, nn

    return frozenset(
        name
        for kind in (nn.Module, Tensor)
        for name in dir(kind)
        if callable(getattr(kind, name, None))
    )


def _is_plain_format(owner: ast.expr) -> bool:
    if not (isinstance(owner, ast.Constant) and isinstance(owner.value, str)):
        return False
    try:
        fields = [field or "" for _, field, _, _ in string.Formatter().parse(owner.value)]
    except ValueError:
        return False
    return not any("." in field or "[" in field for field in fields)


def _own_nodes(body: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    """The nodes of a function that bind names in its own scope: not those of what is nested in it."""
    nested = (
        ast.FunctionDef,
        ast.Lambda,
        ast.ClassDef,
        ast.ListComp,
        ast.SetComp,
        ast.DictComp,
        ast.GeneratorExp,
    )
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, nested):
            queue.extend(ast.iter_child_nodes(node))


def _bound(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """Names that nodes bind, imports left out."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(
            node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
        ):
            yield node.name or ""
