"""A digest of the code that scores depend on: runs of equal digest may share evaluations."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent
SCORES_DEPEND_ON = (
    "config.py",
    "seal.py",
    "data",
    "market",
    "environments",
    "modules",
    "sandbox/forkserver.py",
    "sandbox/message.py",
    "sandbox/policy_server.py",
    "sandbox/worker.py",
    "records/entries.py",
    "records/jobs.py",
    "records/rungs.py",
    "records/settings.py",
    "rl",
    "llm",
    "scoring",
    "executors",
    "baselines",
    "core",
)
"""Files and folders of the package that decide designs, train them or score them."""
EXCEPT = (
    "modules/contracts_page.py",
    "llm/commands.py",
    "llm/fetching.py",
    "scoring/comparable.py",
    "scoring/compared_runs.py",
    "scoring/comparison.py",
    "scoring/run_groups.py",
    "scoring/sealed_draws.py",
    "scoring/future_blind.py",
    "scoring/suite_effects.py",
    "core/bar_memory.py",
    "core/by_hand.py",
    "core/deploy.py",
    "core/evaluate.py",
    "core/framework.py",
    "core/iteration_summary.py",
    "core/live_bars.py",
    "core/open_policy.py",
    "core/parent_order.py",
    "core/replay.py",
    "core/saved_policy.py",
    "core/suite/designs.py",
    "core/suite/running.py",
    "core/suite/tasks.py",
)
"""Files among them that only show, fetch, compare or repeat."""


@lru_cache
def code_hash(
    package: Path = PACKAGE,
    parts: tuple[str, ...] = SCORES_DEPEND_ON,
    without: tuple[str, ...] = EXCEPT,
) -> str:
    """A digest of the code that scores depend on, of the prompts' templates and the design bank.

    Docstrings, comments and layout do not count, and neither does code that only shows, fetches or
    compares: such a change does not keep a run from going on.
    """
    digest = hashlib.sha256()
    for path in _files(package, parts, without):
        digest.update(path.relative_to(package).as_posix().encode())
        is_python = path.suffix == ".py"
        digest.update(_meaning(path.read_text()).encode() if is_python else path.read_bytes())
    return digest.hexdigest()


def _files(package: Path, parts: tuple[str, ...], without: tuple[str, ...]) -> Iterator[Path]:
    """The files of these parts, in a fixed order."""
    left_out = {package / name for name in without}
    for name in parts:
        place = package / name
        if place.is_file():
            yield place
            continue
        for path in sorted(place.rglob("*")):
            if path.suffix in (".py", ".txt", ".parquet") and left_out.isdisjoint(
                (path, *path.parents)
            ):
                yield path


def _meaning(source: str) -> str:
    """A program as text without docstrings, comments and layout."""
    return _node_text(ast.parse(source))


def _node_text(value: Any) -> str:
    if isinstance(value, list):
        kept = [_node_text(one) for one in value if not _is_docstring(one)]
        return f"[{','.join(kept)}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    parts = [type(value).__name__]
    for name, field in ast.iter_fields(value):
        if field is not None and field != []:  # versions of Python differ in what they leave out
            parts.append(f"{name}={_node_text(field)}")
    return f"({' '.join(parts)})"


def _is_docstring(node: Any) -> bool:
    """Whether a statement is a bare text: a docstring, also that of a constant."""
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)
