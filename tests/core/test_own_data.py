"""A run on a user's file, which is known by its content."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from se_rl.core.framework import default_folder

TINY: Any = import_module("tiny_run")


def test_the_default_folder_follows_the_content(tmp_path: Path) -> None:
    for name in ("a/bars.csv", "b/bars.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("the same\n")
    (tmp_path / "c.csv").write_text("something else\n")
    one, two, other = (
        default_folder(TINY.tiny_config(data=str(tmp_path / name)))
        for name in ("a/bars.csv", "b/bars.csv", "c.csv")
    )
    assert one == two != other and one.name.startswith("bars-")
