"""Every snippet in README and docs runs; every relative link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from se_rl.main import main

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(language, text, id=f"{page.name}-{number}-{language}")
    for page in PAGES
    for number, (language, text) in enumerate(re.findall(r"```(\w+)\n(.*?)```", page.read_text(), re.DOTALL))
]
OUTSIDE = ("make", "git", "pip", "cd")
"""Commands that make the environment these tests already run in."""


@pytest.mark.parametrize("language, text", SNIPPETS)
def test_snippet_runs(language: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for folder in ("examples", "configs"):
        (tmp_path / folder).symlink_to(REPOSITORY / folder)
    if language == "python":
        exec(compile(text, "snippet", "exec"), {"__name__": "__main__"})
        return
    assert language == "bash", f"snippets are python or bash, not {language}"
    for line in text.splitlines():
        command, *arguments = shlex.split(line, comments=True) or [""]
        if command == "se-rl":
            assert main(arguments) == 0, line
        else:
            assert command in ("", *OUTSIDE), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


def test_readme_figures_are_those_of_the_results_page() -> None:
    results = (REPOSITORY / "docs" / "results" / "baselines.md").read_text()
    for line in (REPOSITORY / "README.md").read_text().splitlines():
        row = re.match(r"\| ((?:us|cn)_\w+) \| (\d+) \| (\d+) \| \+([\d.]+) \| (\[.*?\]) \| ([\d.]+) \|", line)
        if not row:
            continue
        name, symbols, days, gain, bounds, spa = row.groups()
        section = next(part for part in results.split("## ") if part.startswith(f"{name}, "))
        assert f"{symbols} symbols, {days} days" in section
        assert f"| XS ridge | {gain} | {gain} | {bounds} |" in section
        assert f"beats TWAP: {spa}." in section


def test_readme_figures_of_learning_are_those_of_the_results_page() -> None:
    results = (REPOSITORY / "docs" / "results" / "learning.md").read_text()
    text = (REPOSITORY / "README.md").read_text()
    claimed = " ".join(text[text.index("What training adds") : text.index("Speeds, each")].split())
    rows = [[cell.strip() for cell in line.split("|")] for line in results.splitlines() if line.startswith("| ")]
    figures = {cell.removeprefix("+") for row in rows for cell in row}
    found = re.findall(r"\[[-\d., ]+\]|-?\d+\.\d+", claimed)
    assert len(found) >= 9
    for figure in found:
        assert figure in figures or any(figure in other for other in found if other.startswith("[")), figure
