"""Source to syntax tree: what cannot be read, or is nested too deeply to be judged, is refused."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import unicodedata
import warnings

from se_rl.modules.contracts import LIMITS
from se_rl.modules.errors import SourceRefused

_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufeff]")
_CODING = re.compile(r"(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
MOST_DOTS = 50
"""Parts of a dotted name; Python joins those of an import anew with each further one."""
_LONG_DOTTED = re.compile(rf"(?<!\w)(?:\w++[\s\\]*+\.[\s\\]*+){{{MOST_DOTS}}}")
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
"""What reading a stranger's text may end in."""


def read_source(source: str | bytes) -> ast.Module:
    """The syntax tree of a source; SourceRefused where there is none."""
    text = _decode(source)
    _check_characters(text)
    tokens_fine = _check_tokens(text)
    tree = _parse(text)
    if not tokens_fine or _depth(tree) > 2 * LIMITS.nesting:
        raise SourceRefused(
            None, "the source is too deeply nested; write shorter expressions, on several lines"
        )
    return tree


def _decode(source: str | bytes) -> str:
    try:
        data = source.encode() if isinstance(source, str) else source
        text = data.decode("utf-8")
    except UnicodeError:
        raise SourceRefused(None, "the source is not UTF-8; write plain text") from None
    if len(data) > LIMITS.source_bytes:
        raise SourceRefused(
            None, f"the source has {len(data)} bytes; write at most {LIMITS.source_bytes}"
        )
    return text


def _check_characters(text: str) -> None:
    """No control characters, and no coding but UTF-8."""
    if strange := _CONTROL.search(text):
        line = text.count("\n", 0, strange.start()) + 1
        raise SourceRefused(
            line, f"the control character {strange.group()!r} is not allowed; leave it out"
        )
    coding = _CODING.match(text)
    if coding and coding.group(1).lower() not in ("utf-8", "utf8"):
        raise SourceRefused(
            1, f"the coding {coding.group(1)!r} is not allowed; leave the comment out"
        )


def _check_tokens(text: str) -> bool:
    """Brackets nested within the limit and identifiers as Python will read them; False where tokens
    could not be read."""
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
            if depth > LIMITS.nesting:
                raise SourceRefused(
                    token.start[0],
                    f"more than {LIMITS.nesting} open brackets; write shorter expressions",
                )
            if token.type == tokenize.NAME:
                _check_letters(token)
    except (tokenize.TokenError, SyntaxError, RecursionError):
        return False
    return True


def _check_letters(token: tokenize.TokenInfo) -> None:
    if unicodedata.normalize("NFKC", token.string) != token.string:
        raise SourceRefused(
            token.start[0], f"the name {token.string!r} uses look-alike letters; use plain ones"
        )


def syntax_tree(text: str) -> ast.Module:
    """The tree of a stranger's text, read in time that grows with its length only.

    What cannot be read ends in one of `UNREADABLE`.
    """
    if len(text) > LIMITS.source_bytes:
        raise ValueError(f"more than {LIMITS.source_bytes} characters")
    if _LONG_DOTTED.search(text):
        raise ValueError(f"a name of more than {MOST_DOTS} parts")
    with warnings.catch_warnings():
        # an odd escape in a comment string is no reason to refuse
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _parse(text: str) -> ast.Module:
    try:
        return syntax_tree(text)
    except SyntaxError as error:
        near = (error.text or "").strip()[:80]
        raise SourceRefused(
            error.lineno, f"syntax error, {error.msg}, near `{near}`; write complete, valid Python"
        ) from None
    except UNREADABLE:
        raise SourceRefused(
            None, "the source is too deeply nested to read; write shorter expressions"
        ) from None


def _depth(tree: ast.AST) -> int:
    """Levels of the tree; counted without recursion, which a deep tree would exhaust."""
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        below: list[ast.AST] = []
        for node in level:
            below.extend(ast.iter_child_nodes(node))
        level = below
    return depth
