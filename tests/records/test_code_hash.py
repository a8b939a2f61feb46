"""The digest of the code: what blocks the resume of a run, and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from se_rl.records.code_hash import EXCEPT, PACKAGE, SCORES_DEPEND_ON, code_hash

STANDING = "scoring/score.py"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package to edit."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "se_rl"))


def edited(package: Path, name: str, old: str, new: str) -> str:
    """The digest after one edit."""
    path = package / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    code_hash.cache_clear()
    return code_hash(package)


def test_words_and_layout_do_not_count(package: Path) -> None:
    before = code_hash()
    assert code_hash(package) == before
    docstring = '"""The score of a design'
    assert edited(package, STANDING, docstring, '"""How well a design does') == before
    assert (
        edited(package, STANDING, "\n    @property", "\n    # a comment\n\n    @property") == before
    )
    about = (
        "Trainings of the default vary less (`benchmarks/aa_test.py`); other designs may vary more."
    )
    assert edited(package, STANDING, about, "") == before
    show = "report/live.py"
    assert edited(package, show, "REFRESH_SECONDS = 0.5", "REFRESH_SECONDS = 0.7") == before


def test_what_scores_depend_on_counts(package: Path) -> None:
    before = code_hash(package)
    after = edited(package, STANDING, "SEED_SD = 0.15", "SEED_SD = 0.4")
    assert after != before
    assert edited(package, STANDING, "SEED_SD = 0.4", "SEED_SD = 0.15") == before
    assert edited(package, "llm/templates/macro.txt", "", "One more word. ") != before


def test_the_lists_name_what_is_there() -> None:
    for name in (*SCORES_DEPEND_ON, *EXCEPT):
        assert (PACKAGE / name).exists(), name
    assert any(name.startswith("core/") for name in EXCEPT) and "report" not in SCORES_DEPEND_ON
