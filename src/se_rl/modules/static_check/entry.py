"""The top level of a source, and the entry that the framework calls."""

from __future__ import annotations

import ast
import re

from se_rl.modules.allowed_names import words
from se_rl.modules.errors import SourceRefused
from se_rl.modules.kinds.kind import ModuleKind
from se_rl.modules.static_check.scopes import names_of_scope
from se_rl.modules.static_check.syntax import RANDOM

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_CONSTANT_PARTS = (
    ast.Constant,
    ast.UnaryOp,
    ast.BinOp,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Call,
    ast.keyword,
    ast.Starred,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.comprehension,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)
_MAKERS = words(
    "abs bool dict enumerate float frozenset int len list max min range round set sorted sum tuple"
    " zip"
)
"""Builtins that a constant may be made with."""


def check_top_level(tree: ast.Module) -> None:
    """Only imports, constants, functions and classes."""
    names = TopNames(tree)
    for node in tree.body:
        if isinstance(node, _DEFINITIONS) or _is_text(node) or is_constant(node, names):
            continue
        raise SourceRefused(
            node.lineno,
            "only imports, constants, functions and classes may stand at the top level; move this"
            " into a function",
        )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class TopNames:
    """The names that a source binds and imports at its top level."""

    def __init__(self, tree: ast.Module) -> None:
        self.own = names_of_scope(tree.body)
        self.imported = _imported(tree)


def is_constant(node: ast.stmt, names: TopNames) -> bool:
    """An assignment to plain names of numbers, lambdas, layers and the like: it calls nothing but
    a library's functions and a few builtins, and draws nothing."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if not all(isinstance(target, ast.Name) for target in targets):
        return False
    if node.value is None:
        return True
    queue: list[ast.AST] = [node.value]
    while queue:
        part = queue.pop()
        if isinstance(part, ast.Lambda):
            continue  # it runs later, if at all
        if not isinstance(part, _CONSTANT_PARTS):
            return False
        if isinstance(part, ast.Call) and not _makes_constants(part.func, names):
            return False
        queue.extend(ast.iter_child_nodes(part))
    return True


def _imported(tree: ast.Module) -> set[str]:
    """Names that a source imports at its top, those of random draws left out."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            kept = [alias for alias in node.names if alias.name not in RANDOM]
            names.update(alias.asname or alias.name for alias in kept)
    return names


def _makes_constants(function: ast.expr, names: TopNames) -> bool:
    """Whether a call at the top level is of a library's function or a plain builtin."""
    if isinstance(function, ast.Name):
        return function.id in (_MAKERS | names.imported) - names.own
    root = function
    while isinstance(root, ast.Attribute):
        if root.attr in RANDOM:
            return False
        root = root.value
    return (
        isinstance(function, ast.Attribute)
        and isinstance(root, ast.Name)
        and root.id not in names.own
    )


def check_entry(tree: ast.Module, kind: ModuleKind) -> None:
    """The function or class that the framework calls is there and takes the arguments of the
    contract."""
    contract = kind.contract
    wanted = dict(re.findall(r"(\w+)\(([^)]*)\)", contract.signature))
    wanted_node = ast.ClassDef if contract.is_class else ast.FunctionDef
    found = {node.name: node for node in tree.body if isinstance(node, wanted_node)}
    entry = found.get(contract.entry)
    if entry is None:
        raise SourceRefused(
            None, f"`{contract.entry}` is missing; write `{contract.signature}` at the top level"
        )
    if isinstance(entry, ast.FunctionDef):
        _check_arguments(entry, wanted[contract.entry])
    else:
        _check_class(entry, tree, wanted=wanted)
    kind.check_entry(entry)


def _check_class(entry: ast.ClassDef, tree: ast.Module, *, wanted: dict[str, str]) -> None:
    """A class has a base, and its methods take the arguments of the contract."""
    if not entry.bases:
        raise SourceRefused(
            entry.lineno, f"{entry.name} has no base class; write `class {entry.name}(nn.Module):`"
        )
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    methods, outside = _methods(entry, classes)
    for name in list(wanted)[1:]:
        if name in methods:
            _check_arguments(methods[name], wanted[name])
        elif not outside:
            raise SourceRefused(
                entry.lineno,
                f"{entry.name} has no method {name}; write `def {name}({wanted[name]}):`",
            )


def _methods(
    entry: ast.ClassDef, classes: dict[str, ast.ClassDef]
) -> tuple[dict[str, ast.FunctionDef], bool]:
    """The methods of a class and of its bases in the same source; whether a base other than
    nn.Module may add some."""
    own = {node.name: node for node in entry.body if isinstance(node, ast.FunctionDef)}
    others = {name: node for name, node in classes.items() if node is not entry}
    outside = False
    for base in entry.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if name in others:
            inherited, beyond = _methods(others[name], others)
            own = {**inherited, **own}
            outside = outside or beyond
        else:
            outside = outside or name != "Module"
    return own, outside


def _check_arguments(function: ast.FunctionDef, wanted: str) -> None:
    """A call with so many positional arguments fits."""
    arguments = function.args
    count = len([name for name in wanted.split(",") if name.strip()])
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    keywords = any(default is None for default in arguments.kw_defaults)
    if keywords or least > count or (most < count and arguments.vararg is None):
        raise SourceRefused(
            function.lineno,
            f"{function.name} must take ({wanted}); write `def {function.name}({wanted}):`",
        )
