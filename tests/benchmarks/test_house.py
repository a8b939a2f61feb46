"""The house's measures count what they say they count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from se_rl_benchmarks import house

SOURCE = '''"""A module."""
import os  # a comment


class Public:
    def method(self):
        return [x for x in (1, 2)]

    @property
    def documented(self):
        """Yes."""
        return {k: v for k, v in {}.items()}


def factory(payload: dict[str, Any]):
    """Makes one."""

    def inner():
        a = 1
        b = 2
        return a + b

    return inner


def _private():
    return "{long}"
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for room in ("one", "two"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "code.py").write_text(SOURCE.replace("{long}", "x" * 120))
    return tmp_path


def figures(package: Path, *, name: str = "") -> dict[str, float]:
    return {m.name: m.value for m in house.measures(house.read_package(package, name=name))}


def test_every_measure_counts_its_thing(package: Path) -> None:
    found = figures(package, name="one")
    lines = len(SOURCE.splitlines())
    assert found["lines over 100 columns, %"] == pytest.approx(100 / lines)
    assert found["comprehensions per 1,000 lines"] == pytest.approx(2000 / lines)
    assert found["comments per 1,000 lines"] == pytest.approx(1000 / lines)
    assert found["dict[str, Any]"] == 1
    assert found["public names without docstring"] == 2  # the class and its method
    assert found["longest function, lines"] == 5  # the factory, less the function inside it
    assert found["class names used twice"] == 0
    assert figures(package)["class names used twice"] == 1


def test_a_long_file_and_a_long_function_break_their_limits(tmp_path: Path) -> None:
    body = "\n".join(f"    x = {n}" for n in range(320))
    (tmp_path / "long.py").write_text(f'"""Long."""\n\n\ndef long():\n    """Long."""\n{body}\n')
    broken = [m.name for m in house.measures(house.read_package(tmp_path)) if not m.ok]
    assert broken == ["files over 300 lines", "longest function, lines"]


def test_the_command_prints_json_and_says_by_its_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, package: Path
) -> None:
    monkeypatch.setattr(house.read_package, "__defaults__", (package,))
    assert house.main(["--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows if not row["ok"]] == [
        "lines over 100 columns, %",
        "comprehensions per 1,000 lines",
        "class names used twice",
        "public names without docstring",
    ]
    assert house.main(["--report-only", "--rooms", "--list"]) == 0
    assert "one" in capsys.readouterr().out
