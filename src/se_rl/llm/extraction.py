"""Take a module out of whatever a language model answered.

Answers come with fences or none, prose around, thoughts before, odd quotes. Only what belongs to a
module is taken: imports, constants, functions and classes. A sample call that a model adds behind
its function is left out.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from se_rl.modules.contracts import LIMITS, Contract
from se_rl.modules.kinds import KINDS

_THOUGHTS = re.compile(
    r"<think(?:ing)?>.*?</think(?:ing)?>|^.*</think(?:ing)?>|<think(?:ing)?>.*$",
    re.DOTALL | re.IGNORECASE,
)
_FENCE = re.compile(
    r"(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*(?:\n|(?=def |class |import |from ))(.*?)"
    r"(?:\1[ \t]*(?=\n|\Z)|\Z)",
    re.DOTALL,
)
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
_STRAIGHT = str.maketrans("\u201c\u201d\u2018\u2019\u00a0\u2212\u202f", "\"\"'' - ")
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_MOST_CHARACTERS = 4 * LIMITS.source_bytes


@dataclass(frozen=True)
class Extraction:
    """A module's source, or why there is none, in one line that a model can act on."""

    source: str | None
    reason: str = ""


def extract(answer: str, code_type: str) -> Extraction:
    """The module in an answer.

    Of several blocks the last that holds the entry counts: models correct themselves.
    """
    contract = KINDS[code_type].contract
    wanted = f"`{contract.signature}`"
    if len(answer) > _MOST_CHARACTERS:
        return Extraction(None, f"the answer has {len(answer)} characters; write {wanted} alone")
    text = _THOUGHTS.sub("", answer.replace("\r\n", "\n").replace("\r", "\n")).translate(_INVISIBLE)
    entry = re.compile(rf"^([ \t]*)(?:def|class)\s+{contract.entry}\b", re.MULTILINE)
    blocks = [text, *(found.group(3) for found in _FENCE.finditer(text))]
    holding = [block for block in blocks if entry.search(block)]
    if not holding:
        return Extraction(
            None, f"no `{contract.entry}` in the answer; write {wanted} in one ```python block"
        )
    reason = ""
    for block in reversed(holding):
        plain = _at_margin(block.expandtabs(4), entry)
        for candidate in (plain, plain.translate(_STRAIGHT)):
            source = _module(candidate, contract) or _module(_code_alone(candidate), contract)
            if source:
                return Extraction(source)
        reason = reason or _syntax_error(plain.translate(_STRAIGHT))
    return Extraction(
        None, reason or f"`{contract.entry}` is not at the top level; write {wanted} there"
    )


def normal_form(source: str) -> str:
    """Equal for modules that differ only in comments, docstrings, blanks and quotes.

    What is not Python is its own normal form.
    """
    from se_rl.llm.prompts import module_text

    return module_text(source) or source


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes are the static stage's affair
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _at_margin(text: str, entry: re.Pattern[str]) -> str:
    """The text moved left until the entry stands at the margin."""
    found = entry.search(text)
    indent = found.group(1) if found else ""
    return re.sub(rf"^{indent}", "", text.strip("\n"), flags=re.MULTILINE) + "\n"


def _module(source: str, contract: Contract) -> str | None:
    """The source without statements that no module has, if it parses and defines the entry."""
    tree = parse(source)
    if tree is None or not any(getattr(node, "name", "") == contract.entry for node in tree.body):
        return None
    kept = [node for node in tree.body if _belongs(node)]
    if len(kept) == len(tree.body):
        return source
    lines = source.split("\n")
    taken: list[str] = []
    for node in kept:
        taken += lines[_first_line(node) - 1 : node.end_lineno]
    return "\n".join(taken) + "\n"


def _belongs(node: ast.stmt) -> bool:
    """Definitions and constants do; calls, loops and values of calls are samples of use."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(part, ast.Call) for part in ast.walk(node))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node, _DEFINITIONS)


def _first_line(node: ast.stmt) -> int:
    """The line where a statement begins, its decorators included."""
    first = node.lineno
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        for decorator in node.decorator_list:
            first = min(first, decorator.lineno)
    return first


def _code_alone(text: str) -> str:
    """Of text in which prose and code alternate, the pieces that parse as code.

    Each piece begins at the left margin.
    """
    pieces: list[str] = []
    for line in text.split("\n"):
        decorated = pieces and pieces[-1].split("\n")[-1].startswith("@")
        continues = not line.strip() or line[0] in " )]}" or decorated
        if continues and pieces:
            pieces[-1] += f"\n{line}"
        else:
            pieces.append(line)
    kept: list[str] = []
    for piece in pieces:
        tree = parse(piece)
        if tree and tree.body and all(map(_belongs, tree.body)):
            kept.append(piece.rstrip())
    return "\n".join(kept) + "\n"


def _syntax_error(source: str) -> str:
    """What Python says about a source that does not parse; "" for one that does."""
    try:
        compile(source, "answer", "exec", ast.PyCF_ONLY_AST)
    except SyntaxError as error:
        near = (error.text or "").strip()[:80]
        return f"line {error.lineno}: {error.msg}, near `{near}`; write complete, valid Python"
    except (ValueError, RecursionError, MemoryError):
        return "the source cannot be read; write shorter expressions in plain text"
    return ""
