"""Which names a source binds, and where."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

_NESTED = (
    ast.FunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
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


def names_of_scope(body: Sequence[ast.AST]) -> set[str]:
    """Names that a function's body binds in its own scope."""
    return set(bound_names(own_nodes(body)))


def own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a function that bind names in its own scope: not those of what is nested."""
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, _NESTED):
            queue.extend(ast.iter_child_nodes(node))


def methods_of(tree: ast.Module) -> set[ast.FunctionDef]:
    """The functions that stand directly in a class."""
    methods: set[ast.FunctionDef] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods.update(child for child in node.body if isinstance(child, ast.FunctionDef))
    return methods


def names_set_on_self(tree: ast.Module) -> Iterator[str]:
    """Attributes that the source itself gives to its objects."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
            continue
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr
