"""Prospects: what foresight and a surprise make together, and that the last rung has the last word."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from se_rl.modules.derivation import derivation
from se_rl.modules.edits import single_edits
from se_rl.modules.kinds import KINDS
from se_rl.records.rungs import Rung, Rungs
from se_rl.records.settings import preset
from se_rl.scoring.prospects import BankForesight, expected, nothing_known, prospects
from se_rl.scoring.standing import SeedSpread, Standing, shrunken

RUNGS = Rungs.of(4.2, seeds=(1, 1, 3), episodes=(1, 1, 1))
SCORES = st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=1, max_size=6)


def stands(name: str, rung: Rung, score: float, se: float = 0.2) -> Standing:
    return Standing(name, rung.index, score, se, SeedSpread(0.0, 1.0), {}, {}, (score,))


def at_search(scores: list[float]) -> dict[tuple[str, int], Standing]:
    found = {}
    for place, score in enumerate(scores):
        found[f"d{place}", 1] = stands(f"d{place}", RUNGS.search, score)
    return found


def ahead(name: str, rung: Rung) -> float:
    """Nothing is expected of short trainings, and .5 bps of long ones."""
    return 0.5 if rung.fresh else 0.0


@settings(max_examples=50, deadline=None)
@given(SCORES)
def test_without_foresight_prospects_are_shrunken_scores(scores: list[float]) -> None:
    known = at_search(scores)
    found = prospects(known, RUNGS, nothing_known, at=RUNGS.last)
    assert found == approx(shrunken(list(known.values())))


@settings(max_examples=50, deadline=None)
@given(SCORES)
def test_a_reading_as_expected_leaves_what_was_expected_of_long_trainings(
    scores: list[float],
) -> None:
    def exactly(name: str, rung: Rung) -> float:
        return 1.0 if rung.fresh else scores[int(name[1:])]

    found = prospects(at_search(scores), RUNGS, exactly, at=RUNGS.last)
    assert found == approx(dict.fromkeys(found, 1.0))


@settings(max_examples=50, deadline=None)
@given(SCORES)
def test_what_pays_in_the_long_run_is_added_to_the_surprise(scores: list[float]) -> None:
    known = at_search(scores)
    usual = prospects(known, RUNGS, nothing_known, at=RUNGS.last)
    found = prospects(known, RUNGS, ahead, at=RUNGS.last)
    assert found == approx({name: value + 0.5 for name, value in usual.items()})


def test_nothing_is_expected_of_free_python() -> None:
    weights = preset("quick").weights
    free = KINDS["reward"].default_source + "# by hand\n"
    free = free.replace("return ", "return 1.0 * ")
    assert derivation(free, "reward") is None
    assert expected({"reward": free}, weights) == approx(0.0)
    wider = single_edits(KINDS["network"].default_source, "network", np.random.default_rng(0))[0]
    alone = expected({"network": wider}, weights)
    assert expected({"reward": free, "network": wider}, weights) == approx(alone)


def test_the_highest_rung_counts() -> None:
    known = {**at_search([2.0, -2.0]), ("d0", 2): stands("d0", RUNGS.last, -1.0, se=0.01)}
    found = prospects(known, RUNGS, nothing_known, at=RUNGS.last)
    assert found["d0"] < -0.8 and -2.0 <= found["d1"] < 0.0


def test_the_bank_knows_that_some_choices_pay_later_and_nothing_of_the_default() -> None:
    default = KINDS["network"].default_source
    edits = single_edits(default, "network", np.random.default_rng(0))
    sources = {"default": {}, **{str(k): {"network": text} for k, text in enumerate(edits)}}
    foresight = BankForesight(sources, preset("quick").weights)
    assert foresight("default", RUNGS.search) == foresight("default", RUNGS.last) == approx(0.0)
    later = {name: foresight(name, RUNGS.last) - foresight(name, RUNGS.search) for name in sources}
    assert max(later.values()) > 0.0 > min(later.values())
    long = Rungs.of(18.0, seeds=(1, 1, 3), episodes=(1, 1, 1))
    assert foresight("0", long.search) == foresight("0", long.last)
