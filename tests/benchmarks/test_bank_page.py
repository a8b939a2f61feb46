"""The bank is packed: one file, a page and its twin, from raw lines alone."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from se_rl.modules.design_bank.seed_luck import LONG, LONG_AGAIN, USUAL, seed_luck
from se_rl.modules.design_bank.storage import DesignBank, read_bank
from se_rl.modules.design_bank.surrogate import STRENGTHS, Strengths
from se_rl_benchmarks import bank_strengths
from se_rl_benchmarks.bank_figures import (
    FOLDS,
    GROUPS,
    KNOWN_BEFORE,
    bank_figures,
    edit_gains,
    folds,
    group_figures,
    held_out,
    ranked,
)
from se_rl_benchmarks.bank_lines import write_lines
from se_rl_benchmarks.bank_page import page
from se_rl_benchmarks.design_bank import pack

sys.path.append(str(Path(__file__).resolve().parents[1] / "modules"))
tiny_bank = import_module("tiny_bank")
BANK = tiny_bank.tiny_bank(80, luck=0.05)
EQUAL = {"static": 0.5, "dynamic": 0.5}


def test_a_packed_bank_has_a_page_and_a_twin(tmp_path: Path) -> None:
    raw, place = tmp_path / "raw.jsonl", tmp_path / "bank.parquet"
    write_lines(raw, tiny_bank.HEAD, BANK.lines)
    said = pack(raw, place, tmp_path)
    assert said.startswith(f"{len(BANK.designs)} designs, {len(BANK.lines)} trainings")
    assert read_bank(place).head == tiny_bank.HEAD
    told = json.loads((tmp_path / "bank.json").read_text())
    assert told["designs"] == len(BANK.designs) and told["failed"] == 1
    twice = told["agreement"]["two seeds, search training"]
    assert twice["n"] == len(BANK.designs) - 2 and twice["over_all"] > 0.9
    assert told["luck"]["pairs"] == twice["n"]
    page = (tmp_path / "bank.md").read_text()
    assert f"| two seeds, search training | {twice['n']} |" in page
    assert page.count("\n| reward |") + page.count("\n| network |") == min(20, len(told["edits"]))
    assert "NaN" not in page


def test_luck_is_measured_by_pairs_and_else_the_usual() -> None:
    found = seed_luck(tiny_bank.tiny_bank(300).designs)
    assert found.history == pytest.approx(0.05, rel=0.25)
    # both halves have the same luck here, so the score's is taken for less than it is
    assert found.of_score(EQUAL) == pytest.approx(found.history / 2.0**0.5, rel=1e-6)
    few = seed_luck(BANK.designs[:5])
    assert few.pairs == 0 and few.of_score(EQUAL) == pytest.approx(USUAL)


def test_chains_are_left_out_as_a_whole() -> None:
    fold = folds(BANK.designs)
    assert set(fold) <= set(range(FOLDS))
    by_chain: dict[str, set[int]] = {}
    for one, number in zip(BANK.designs, fold, strict=True):
        by_chain.setdefault(one.design.chain, set()).add(int(number))
    assert all(len(numbers) == 1 for numbers in by_chain.values())


def test_held_out_designs_are_ranked_by_what_is_known_of_others() -> None:
    found = held_out(BANK, EQUAL)
    for one in found.values():
        ranks = one.ranks()
        assert ranks.n == pytest.approx(len(BANK.designs) - 1, abs=1)
        assert ranks.over_all > 0.5 and one.error > 0.0
        parts = [one.ranks(kinds).n for kinds in GROUPS.values()]
        assert sum(parts) == ranks.n and min(parts) > 0
    # a design's own shorter trainings tell more than its neighbours
    assert found[KNOWN_BEFORE].error < 0.5 * found["last rung"].error


def test_groups_have_their_own_luck() -> None:
    lines = []
    for line in BANK.lines:
        if line.seed == LONG:  # the last rung once more, half a basis point better
            score = line.score and replace(line.score, gain=line.score.gain + 0.5)
            lines.append(replace(line, seed=LONG_AGAIN, score=score))
    bank = DesignBank(BANK.head, (*BANK.lines, *lines))
    found = group_figures(bank, EQUAL, held_out(bank, EQUAL))
    for one in found.values():
        first, second = one.last_by_seed
        assert second - first == pytest.approx(0.5)
        assert one.held_out.keys() == {"search training", "last rung", KNOWN_BEFORE}


def test_strengths_are_climbed_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw.jsonl"
    write_lines(raw, tiny_bank.HEAD, tiny_bank.tiny_lines(12))
    assert bank_strengths.main([str(raw), "--seconds", "0.5", "--workers", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["after"] > told["before"]
    chosen = Strengths(**told["strengths"])
    assert chosen != STRENGTHS and 0.0 < chosen.agreement <= 1.0 and chosen.family > 0.0


def test_ranks_of_the_better_half() -> None:
    true = np.arange(10.0)
    found = ranked([*true[:5], *true[5:][::-1]], true)
    assert (found.n, found.better_half) == (10, pytest.approx(-1.0)) and found.over_all > 0.0
    assert np.isnan(ranked([1.0], [1.0]).over_all)


def test_edits_are_told_with_errors_best_first() -> None:
    found = edit_gains(BANK, EQUAL)
    gains = [one.last for one in found]
    assert gains == sorted(gains, reverse=True) and len(found) == sum(
        one.design.kind == "scan" for one in BANK.designs
    )
    assert all(one.se > 0.05 and " -> " in one.change for one in found)


def test_the_page_says_whose_default_all_gains_are_over() -> None:
    figures = bank_figures(BANK, EQUAL)
    assert "own default is that of today" in page(tiny_bank.HEAD, figures)
    former = replace(tiny_bank.HEAD, default={**tiny_bank.HEAD.default, "network": "former"})
    assert "which this bank has not trained" in page(former, figures)
    known = replace(figures, today={"4.2 units, seed 0": 0.5})
    assert "+0.50 (4.2 units, seed 0)" in " ".join(page(former, known).split())
