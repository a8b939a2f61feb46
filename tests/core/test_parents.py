"""Places of the regimes: one holder each, none by a tie, and the best over all is never lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.core.parents import ParetoParents
from se_rl.scoring.standing import SeedSpread, Standing

REGIMES = ("all", "calm", "wild", "simulated")
LEVELS = st.floats(-3, 3, allow_subnormal=False)


def stands(name: str, by_regime: dict[str, float], se: float = 0.3) -> Standing:
    certain = SeedSpread(0.0, 1.0)
    return Standing(name, 0, by_regime["all"], se, certain, {}, by_regime, (by_regime["all"],))


@st.composite
def populations(draw: st.DrawFn) -> tuple[list[Standing], dict[str, float]]:
    """Designs in order of proposal, and their shrunken scores."""
    n = draw(st.integers(0, 8))
    kept, found = draw(st.floats(0, 1)), []
    for i in range(n):
        by_regime = {regime: draw(LEVELS) for regime in REGIMES}
        found.append(stands(f"d{i}", by_regime, draw(st.floats(0.01, 1))))
    return found, {one.candidate: kept * one.score for one in found}


def values(standings: list[Standing], shrunk: dict[str, float], regime: str) -> dict[str, float]:
    return {s.candidate: s.by_regime[regime] - s.score + shrunk[s.candidate] for s in standings}


@settings(max_examples=150, deadline=None)
@given(populations())
def test_every_place_has_one_holder_who_earned_it(
    population: tuple[list[Standing], dict[str, float]],
) -> None:
    standings, shrunk = population
    parents = ParetoParents("default")
    parents.rank(standings, shrunk)
    assert set(parents.holders) == (set(REGIMES) if standings else set())
    se = {one.candidate: one.se for one in standings}
    for regime, holder in parents.holders.items():
        level = values(standings, shrunk, regime)
        best = max(level, key=lambda name: level[name])
        if holder == "default":
            assert level[best] <= 1e-9  # nobody is above it there
        else:
            assert level[holder] > -1e-9
            assert (
                best == holder or level[best] <= level[holder] + se[best] + 1e-9
            )  # the best, or as good as it


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(5)), st.floats(0.05, 0.9))
def test_the_order_of_proposal_decides_ties_alone(order: list[int], margin: float) -> None:
    apart = [
        stands(f"d{i}", dict.fromkeys(REGIMES, 1.0 + i * (margin + 0.01)), margin) for i in range(5)
    ]
    tied = [stands(f"d{i}", dict.fromkeys(REGIMES, 1.0 + i * margin / 5), margin) for i in range(5)]
    for designs, wanted in ((apart, "d4"), (tied, f"d{order[0]}")):
        parents = ParetoParents("default")
        parents.rank([designs[i] for i in order], {one.candidate: one.score for one in designs})
        assert set(parents.holders.values()) == {wanted}


def test_a_tie_takes_no_place_and_a_specialist_does() -> None:
    first = stands("first", {"all": 1.0, "calm": 1.0, "wild": 1.0})
    copy = stands("copy", {"all": 1.2, "calm": 1.2, "wild": 1.2})
    calm = stands("calm", {"all": 0.2, "calm": 2.0, "wild": -1.6})
    parents = ParetoParents("default")
    parents.rank([first, copy, calm], {"first": 1.0, "copy": 1.2, "calm": 0.2})
    assert parents.holders == {"all": "first", "calm": "calm", "wild": "first"}
    parents.rank([copy], {})  # without a shrunken score it is not in the running
    assert set(parents.holders.values()) == {"default"}


def test_what_is_not_a_number_holds_nothing() -> None:
    parents = ParetoParents("default")
    odd = stands("odd", {"all": 1.0, "calm": float("nan")})
    parents.rank([odd, stands("plain", {"all": 0.5, "calm": 0.5})], {"odd": 1.0, "plain": 0.5})
    assert parents.holders == {"all": "odd", "calm": "plain"}


def test_parents_are_drawn_by_the_places_they_hold() -> None:
    parents = ParetoParents(
        "default", {"all": "a", "calm": "b", "wild": "a", "simulated": "default"}
    )
    rng = np.random.default_rng(0)
    drawn = Counter(parents.choose(rng) for _ in range(4000))
    assert {name: count / 4000 for name, count in drawn.items()} == {
        "a": pytest.approx(0.5, abs=0.03),
        "b": pytest.approx(0.25, abs=0.03),
        "default": pytest.approx(0.25, abs=0.03),
    }
    assert ParetoParents("default").choose(rng) == "default"
    again, other = (np.random.default_rng(1) for _ in range(2))
    assert [parents.choose(again) for _ in range(20)] == [parents.choose(other) for _ in range(20)]


def test_the_leader_is_the_parent_every_other_time_even_without_a_place() -> None:
    calm = {"all": 1.0, "calm": 3.0, "wild": 3.0, "simulated": 3.0}
    parents = ParetoParents("default")
    parents.rank([stands("a", calm), stands("b", {**calm, "all": 1.1})], {"a": 1.0, "b": 1.1})
    assert "b" not in parents.holders.values()  # not ahead by its error
    rng = np.random.default_rng(0)
    chosen = Counter(parents.choose(rng) for _ in range(2000))
    assert chosen["b"] == pytest.approx(1000, abs=100) and set(chosen) == {"a", "b"}
