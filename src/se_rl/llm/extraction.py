"""Take a module out of whatever a language model answered.

Answers come with fences or none, prose around, thoughts before, odd quotes. Only what belongs to a
module is taken: imports, constants, functions and classes. A sample call that a model adds behind
its function is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from se_rl.modules.contracts import LIMITS, Contract
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check.entry import TopNames, is_constant
from se_rl.modules.static_check.reading import UNREADABLE, syntax_tree
from se_rl.modules.static_check.scopes import names_of_scope
from se_rl.records.secrets import INVISIBLE

_THOUGHTS = re.compile(
    r"<think(?:ing)?>.*?</think(?:ing)?>|^.*</think(?:ing)?>|<think(?:ing)?>.*$",
    re.DOTALL | re.IGNORECASE,
)
_MARKS = re.compile(r"`{3,}|~{3,}")
_STARTS = ("def ", "class ", "import ", "from ")
_INVISIBLE = dict.fromkeys(map(ord, INVISIBLE))
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
    blocks = [text, *fenced_blocks(text)]
    holding = [block for block in blocks if entry.search(block)]
    if not holding:
        return Extraction(
            None, f"no `{contract.entry}` in the answer; write {wanted} in one ```python block"
        )
    reason = ""
    for block in reversed(holding):
        plain = _at_margin(block.expandtabs(4), entry)
        for candidate in dict.fromkeys((plain, plain.translate(_STRAIGHT))):
            source = _module(candidate, contract) or _module(_code_alone(candidate), contract)
            if source:
                return Extraction(source)
        reason = reason or _syntax_error(plain.translate(_STRAIGHT))
    return Extraction(
        None, reason or f"`{contract.entry}` is not at the top level; write {wanted} there"
    )


def fenced_blocks(text: str) -> Iterator[str]:
    """What stands between fences of backticks or tildes, in one pass over the text.

    A fence opens where a language or nothing follows on its line, or code does at once. It closes
    with as many marks of the same kind at the end of a line, or with the text.
    """
    opened = 0  # where the open block begins
    fence = ""
    for mark in _MARKS.finditer(text):
        run = mark.group()
        if not fence:
            begin = _code_begin(text, mark.end())
            if begin is not None:
                opened = begin
                fence = run
        elif run.startswith(fence) and _ends_line(text, mark.end()):
            yield text[opened : mark.end() - len(fence)]
            fence = ""
    if fence:
        yield text[opened:]


def _code_begin(text: str, place: int) -> int | None:
    """Where the code behind an opening fence begins; None where no fence opens."""
    word = _skip(text, place, _is_blank)
    word_end = _skip(text, word, _is_of_language)
    after = _skip(text, word_end, _is_blank)
    if text.startswith("\n", after):
        return after + 1
    if text.startswith(_STARTS, after):
        return after
    for start in _STARTS:  # the language and the code without a blank between
        begin = word_end - len(start) + 1
        if begin >= word and text.startswith(start, begin):
            return begin
    return None


def _ends_line(text: str, place: int) -> bool:
    end = _skip(text, place, _is_blank)
    return end == len(text) or text[end] == "\n"


def _skip(text: str, place: int, skipped: Callable[[str], bool]) -> int:
    while place < len(text) and skipped(text[place]):
        place += 1
    return place


def _is_blank(letter: str) -> bool:
    return letter in " \t"


def _is_of_language(letter: str) -> bool:
    return letter.isalnum() or letter in "_+-"


def normal_form(source: str) -> str:
    """Equal for modules that differ only in comments, docstrings, blanks and quotes.

    What is not Python is its own normal form.
    """
    from se_rl.llm.prompts import module_text

    return module_text(source) or source


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None where there is none."""
    try:
        return syntax_tree(source)
    except UNREADABLE:
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
    kept = _kept(tree)
    if len(kept) == len(tree.body):
        return source
    lines = source.split("\n")
    taken: list[str] = []
    for node in kept:
        taken += lines[_first_line(node) - 1 : node.end_lineno]
    return "\n".join(taken) + "\n"


def _kept(tree: ast.Module) -> list[ast.stmt]:
    """The statements that belong to a module and need nothing of those that do not."""
    kept: list[ast.stmt] = []
    dropped: set[str] = set()
    names = TopNames(tree)
    for node in tree.body:
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        is_sample = isinstance(node, ast.Assign | ast.AnnAssign) and used & dropped
        if _belongs(node, names) and not is_sample:
            kept.append(node)
        else:
            dropped |= names_of_scope([node])
    return kept


def _belongs(node: ast.stmt, names: TopNames) -> bool:
    """Definitions and constants do; calls, loops and values of own calls are samples of use."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        has_call = any(isinstance(part, ast.Call) for part in ast.walk(node))
        return not has_call or is_constant(node, names)
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
    parts: list[list[str]] = []  # the lines of each piece
    for line in text.split("\n"):
        decorated = bool(parts) and parts[-1][-1].startswith("@")
        continues = not line.strip() or line[0] in " )]}" or decorated
        if continues and parts:
            parts[-1].append(line)
        else:
            parts.append([line])
    pieces = ["\n".join(lines) for lines in parts]
    kept: list[str] = []
    for piece in pieces:
        tree = parse(piece)
        if tree and tree.body and len(_kept(tree)) == len(tree.body):
            kept.append(piece.rstrip())
    return "\n".join(kept) + "\n"


def _syntax_error(source: str) -> str:
    """What Python says about a source that does not parse; "" for one that does."""
    try:
        syntax_tree(source)
    except SyntaxError as error:
        near = (error.text or "").strip()[:80]
        return f"line {error.lineno}: {error.msg}, near `{near}`; write complete, valid Python"
    except UNREADABLE:
        return "the source cannot be read; write shorter expressions in plain text"
    return ""
