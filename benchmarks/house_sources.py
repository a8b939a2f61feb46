"""Reads Python files for the house's measures: lines, functions, classes, comments, docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "se_rl"
COLUMNS = 100
OPEN_DICTIONARY = "dict[str, Any]"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """What one file contributes; `functions` and `classes` are (name, lines) and names."""

    path: str
    lines: int
    long_lines: tuple[int, ...]
    comprehensions: int
    comments: int
    open_dictionaries: int
    classes: tuple[str, ...]
    functions: tuple[tuple[str, int], ...]
    undocumented: tuple[str, ...]


def read_source(path: Path, *, name: str) -> SourceFile:
    """Measure one file."""
    text = path.read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    nodes = list(ast.walk(tree))
    return SourceFile(
        path=name,
        lines=len(lines),
        long_lines=tuple(n for n, line in enumerate(lines, 1) if len(line) > COLUMNS),
        comprehensions=sum(isinstance(node, COMPREHENSIONS) for node in nodes),
        comments=_comments(text),
        open_dictionaries=text.count(OPEN_DICTIONARY),
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        functions=tuple(_functions(nodes, name)),
        undocumented=tuple(_undocumented(tree, name)),
    )


def read_package(package: Path = PACKAGE, *, name: str = "") -> list[SourceFile]:
    """Every file of the package, or of the one room or file that is named."""
    files = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).as_posix()
        if not name or inside == name or inside.startswith(f"{name.rstrip('/')}/"):
            files.append(read_source(path, name=inside))
    return files


def _comments(text: str) -> int:
    """Comments, whole lines and trailing ones."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def _functions(nodes: Sequence[ast.AST], name: str) -> Iterator[tuple[str, int]]:
    """Each function with its lines, less those of the functions inside it."""
    for node in nodes:
        if isinstance(node, Function):
            inner = sum(_span(child) for child in _functions_inside(node))
            yield f"{name}:{node.name}", _span(node) - inner


def _functions_inside(node: ast.AST) -> Iterator[Function]:
    """The functions directly inside a node, not those inside them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from _functions_inside(child)


def _span(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _undocumented(tree: ast.Module, name: str) -> Iterator[str]:
    """The module, public classes, functions and methods that have no docstring."""
    if ast.get_docstring(tree) is None:
        yield name
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [(name, tree)]
    while scopes:
        place, scope = scopes.pop()
        for node in scope.body:
            if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                scopes.append((f"{place}:{node.name}", node))
            if ast.get_docstring(node) is None and not _repeats_a_name(node):
                yield f"{place}:{node.name}"


def _repeats_a_name(node: ast.ClassDef | Function) -> bool:
    """Whether a decorator says that the docstring stands elsewhere: a setter, or an overload."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(word.endswith((".setter", "overload")) for word in decorators)
