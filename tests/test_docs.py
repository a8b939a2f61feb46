"""Every snippet in README and docs runs; every relative link leads somewhere.

A snippet has a folder of its own, except those about runs (they name out/demo, or the file that they are): these share one,
in which the demo has been run. There each command is run as it stands; what is smaller than a reader's is the preset
`quick`, the bars behind `nasdaq100` and the model behind `smollm2`. Everywhere, universes have a tenth of their names and days.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from se_rl.data.synthetic import UNIVERSES
from se_rl.llm import adapter_file
from se_rl.llm.catalog import MANIFEST
from se_rl.main import main
from se_rl.records.entries import sha256
from se_rl.records.settings import PRESETS
from se_rl.sandbox.lockdown import isolation_level

sys.path.append(str(Path(__file__).resolve().parent / "core"))
tiny_run = import_module("tiny_run")

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(language, text, id=f"{page.name}-{number}-{language}")
    for page in PAGES
    for number, (language, text) in enumerate(
        re.findall(r"```(\w+)\n(.*?)```", page.read_text(), re.DOTALL)
    )
]
FILE = re.compile(r"# (\w+\.py)\n")
"""The first line of a snippet that is a file."""
ABOUT_RUNS = [s for s in SNIPPETS if "out/demo" in str(s.values[1]) or FILE.match(str(s.values[1]))]
OUTSIDE = ("make", "git", "pip", "cd", "source")
"""Commands that make the environment these tests already run in."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a reader stands who has cloned the repository."""
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, universe in UNIVERSES.items():
        monkeypatch.setitem(UNIVERSES, name, replace(universe, symbols=10, sessions=24))
    for name in ("examples", "configs"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    return tmp_path


def run_snippet(language: str, text: str) -> None:
    """Run it here; one that is a file is written down, too."""
    if language == "python":
        if named := FILE.match(text):
            Path(named[1]).write_text(text)
        exec(compile(text, "snippet", "exec"), {"__name__": "__main__"})
        return
    assert language == "bash", f"snippets are python or bash, not {language}"
    for line in text.splitlines():
        command, *arguments = shlex.split(line, comments=True) or [""]
        if command == "se-rl":
            assert main(arguments) == 0, line
        else:
            assert command in ("", *OUTSIDE), line


@pytest.mark.parametrize("language, text", [s for s in SNIPPETS if s not in ABOUT_RUNS])
def test_snippet_runs(language: str, text: str, folder: Path) -> None:
    run_snippet(language, text)


@pytest.mark.timeout(900)
def test_snippets_about_runs_run_after_the_demo(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    monkeypatch.setenv("SE_RL_CACHE", str(folder / "cache"))
    small = {name: value for name, value in tiny_run.SMALL.items() if name not in ("data", "arm")}
    monkeypatch.setitem(
        PRESETS,
        "quick",
        {**PRESETS["tiny"], **small, "seeds": (1, 1, 1), "iterations": 1, "siblings": 3},
    )
    tiny_run.make_data(folder / "home")
    (folder / "home" / "data" / f"{tiny_run.DATA}.parquet").rename(
        folder / "home" / "data" / "nasdaq100.parquet"
    )
    model = folder / "cache" / "models" / "smollm2"
    tiny_run.make_model(model)
    monkeypatch.setattr(adapter_file, "SHIPPED_FOLDER", folder)  # what ships is of the real model
    files = {
        p.name: {"bytes": p.stat().st_size, "sha256": sha256(p.read_bytes())}
        for p in model.iterdir()
    }
    (model / MANIFEST).write_text(json.dumps({"base_sha256": "0" * 64, "files": files}))
    assert main(shlex.split("run --preset quick --out out/demo")) == 0
    for snippet in ABOUT_RUNS:
        run_snippet(*map(str, snippet.values))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


def test_readme_figures_are_those_of_the_pages_it_names() -> None:
    text = (REPOSITORY / "README.md").read_text()
    found = text[text.index("## What it found") : text.index("## Where to go next")]
    pages = {REPOSITORY / page for page in re.findall(r"\]\((docs/[\w/]+\.md)\)", found)}
    known = "\n".join(page.read_text() for page in sorted(pages))
    figures = re.findall(r"\[[-\d., ]+\]|(?<![\w.])-?\d+\.\d+", re.sub(r"\]\(.*?\)", "", found))
    assert len(figures) >= 4
    for figure in figures:
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", known), figure
