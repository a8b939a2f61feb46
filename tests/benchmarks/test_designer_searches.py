"""Whole searches of designers against the surrogate: curves, areas, and lines that are kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from se_rl_benchmarks import designer_searches
from se_rl_benchmarks.designer_searches import (
    DesignerSearch,
    figures,
    read_kept,
    search_once,
)
from se_rl_benchmarks.designers_page import page

EMPTY = {"valid": {}, "one_step": {}}


def made(designer: str, seed: int, *best: float) -> DesignerSearch:
    spent = tuple(10 * (place + 1) for place in range(len(best)))
    return DesignerSearch(designer, seed, spent, best, best, 1.0)


def test_an_iteration_counts_from_the_training_that_ends_it() -> None:
    assert made("local", 0, 0.3, 0.6, 0.9).area == pytest.approx((0.0 + 0.3 + 0.6) / 3)
    assert made("local", 0, 0.5).area == 0.0


def test_designers_are_held_against_others_seed_by_seed() -> None:
    found = [made("local", 0, 0.0, 0.1), made("local", 1, 0.0, 0.3)]
    found += [made("shipped", 0, 0.2, 0.4), made("shipped", 1, 0.3, 0.3)]
    found += [made("learning", 0, 0.0, 0.1)]
    told = figures(found)
    assert list(told) == ["local", "shipped", "learning"]
    over = told["shipped"]["over"]
    assert over["local"]["mean"] == pytest.approx(0.125)  # (0.1 + 0.15) / 2
    assert over["local"]["pairs"] == 2 and list(over) == ["local"]
    assert told["local"]["over"]["shipped"]["mean"] == pytest.approx(-0.125)
    assert told["shipped"]["trainings_to_local_end"] == 10.0  # 0.25 after one, local ends at 0.2
    assert told["learning"]["trainings_to_local_end"] is None
    assert told["learning"]["over"] == {}  # one pair has no error
    text = page({**EMPTY, "search": told})
    assert "| shipped | 2 | +0.125 [" in text and "| learning | 1 | +0.000 [-, -] | - |" in text


def test_a_search_that_asks_no_model_is_made_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(designer_searches, "finished", lambda jobs, _: map(search_once, jobs))
    options = ["--searches", "2", "--preset", "tiny", "--designers", "local"]
    options += ["--keep", str(tmp_path / "kept.jsonl"), "--results", str(tmp_path)]
    assert designer_searches.main(options) == 0
    found = read_kept(tmp_path / "kept.jsonl")
    assert [one.seed for one in found] == [0, 1] and found[0].trainings[-1] > 2
    assert search_once(("tiny", 0.1, "local", 1)).best == found[1].best
    assert found[0].best[-1] >= found[0].best[0] >= 0.0, "the default is among the designs tried"
    told = json.loads((tmp_path / "designers.json").read_text())
    assert told["search"]["local"]["runs"] == 2
    before = [asdict(one) for one in found]
    assert designer_searches.main(options) == 0
    assert [asdict(one) for one in read_kept(tmp_path / "kept.jsonl")] == before
