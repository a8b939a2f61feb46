"""Standings: paired differences with errors of orders and seeds, and scores that are shrunken before they are ranked."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.scoring.score import SEED_SD, Array, ScoreRule, difference
from se_rl.scoring.standing import (
    CERTAIN,
    SEED_PRIOR,
    SeedSpread,
    Standing,
    pooled_seed_spread,
    shrunken,
    standing,
)

DAY = np.repeat(np.arange(5.0), 4)
RULE = ScoreRule({"static": 0.6, "dynamic": 0.4}, 0.02)
CALM = np.arange(20) % 2 == 0
REGIMES = {"calm": CALM, "wild": ~CALM}


def scores(seed: int, *, static: float = 0.0, dynamic: float = 0.0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "static": rng.normal(static, 5, 20),
        "static_total": rng.normal(static, 9, 20),
        "static_day": DAY,
        "dynamic": rng.normal(dynamic, 5, 12),
        "dynamic_cell": np.arange(12.0) % 3,
    }


def named(name: str, score: float, se: float) -> Standing:
    return Standing(name, 0, score, se, CERTAIN, {}, {}, (score,))


def level(one: dict[str, Array], rows: Any = slice(None)) -> tuple[float, float, list[float]]:
    """Gain, risk's cost and the cells of one training, by hand."""
    day, chosen = one["static_day"][rows], np.unique(one["static_day"][rows])
    specific = [one["static"][rows][day == d].mean() for d in chosen]
    whole = [one["static_total"][rows][day == d].mean() for d in chosen]
    cells = [float(one["dynamic"][cell::3].mean()) for cell in range(3)]
    return float(np.mean(specific)), 0.01 * float(np.var(whole, ddof=1)), cells


def test_a_cell_with_one_episode_has_no_error_and_is_stored_all_the_same() -> None:
    own, default = [scores(1)], [scores(3)]
    for one in (*own, *default):
        one["dynamic_cell"] = np.array([0.0, *[1.0] * 11])
    found = standing("x", 2, own, default, rule=RULE, regimes={}, cells=("lone", "usual"))
    assert "lone" in found.by_part and set(found.part_se) == {"specific", "risk", "usual"}
    json.dumps(dict(found.part_se), allow_nan=False)
    # of one training: the spread over episodes, and the usual spread of trainings
    episodes = (own[0]["dynamic"] - default[0]["dynamic"])[1:]
    error = math.hypot(episodes.std(ddof=1) / math.sqrt(11), SEED_SD)
    assert found.part_se["usual"] == pytest.approx(error)


def test_a_standing_by_hand() -> None:
    own = [scores(i, static=1.0, dynamic=2.0) for i in (1, 2)]
    default = [scores(i) for i in (3, 4)]
    names = ("small", "usual", "large")
    spread = SeedSpread(0.5, 8.0)
    found = standing("x", 2, own, default, rule=RULE, regimes=REGIMES, cells=names, spread=spread)
    parts = np.mean(
        [[gain, -cost, *cells] for gain, cost, cells in map(level, own)], axis=0
    ) - np.mean([[gain, -cost, *cells] for gain, cost, cells in map(level, default)], axis=0)
    assert list(found.by_part) == ["specific", "risk", *names]
    assert list(found.by_part.values()) == pytest.approx(parts.tolist())
    history, simulated = parts[0] + parts[1], parts[2:].mean()
    assert found.by_world == {
        "static": pytest.approx(history),
        "dynamic": pytest.approx(simulated),
    }
    assert found.score == pytest.approx(0.6 * history + 0.4 * simulated)
    error = difference(own, default, RULE).shared_order_error()
    assert found.order_se == pytest.approx(math.sqrt(error.variance))
    assert found.se == pytest.approx(math.hypot(found.order_se, 0.5 / math.sqrt(2)))
    low, high = found.ci95
    assert low + high == pytest.approx(2 * found.score) and high - low > 2 * 1.96 * found.se
    assert list(found.by_regime) == ["all", "calm", "wild", "simulated"]
    for name, rows in REGIMES.items():
        gains = [
            np.mean([gain - cost for gain, cost, _ in (level(one, rows) for one in side)])
            for side in (own, default)
        ]
        assert found.by_regime[name] == pytest.approx(gains[0] - gains[1])
    assert (found.candidate, found.rung, found.seeds) == ("x", 2, 2)
    assert np.mean(found.by_seed) == pytest.approx(found.score) == found.by_regime["all"]


def test_orders_are_paired() -> None:
    """Noise that both designs share is no error: the same orders, moved by one basis point."""
    default = [scores(0)]
    own = [
        {
            name: values + ("_day" not in name and "_cell" not in name)
            for name, values in one.items()
        }
        for one in default
    ]
    found = standing("x", 0, own, default, rule=RULE, regimes=REGIMES, spread=CERTAIN)
    assert found.score == pytest.approx(1.0) and found.se == pytest.approx(0.0, abs=1e-12)
    assert list(found.by_regime.values()) == pytest.approx([1.0] * 4)
    other = [scores(1, static=1.0, dynamic=1.0)]
    alone = standing("x", 0, other, default, rule=RULE, regimes={}, spread=CERTAIN)
    assert alone.se > 0.5


def test_void_orders_do_not_count() -> None:
    own, default = scores(1, dynamic=1.0), scores(2)
    whole = standing("x", 0, [own], [default], rule=RULE, regimes={})
    own["dynamic"][3] = default["dynamic"][7] = np.nan
    found = standing("x", 0, [own], [default], rule=RULE, regimes={})
    assert found.by_world["dynamic"] != whole.by_world["dynamic"]
    assert found.by_world["static"] == whole.by_world["static"] and math.isfinite(found.se)
    own["dynamic"][1:] = np.nan
    assert math.isnan(standing("x", 0, [own], [default], rule=RULE, regimes={}).score)


@pytest.mark.parametrize("world", ["static", "dynamic"])
def test_a_world_alone(world: str) -> None:
    rule = ScoreRule({"static": 0.0, "dynamic": 0.0, world: 1.0}, 0.02)
    own, default = scores(1), scores(2)
    for each in (own, default):
        del each["dynamic" if world == "static" else "static"]
    regimes = REGIMES if world == "static" else {}
    found = standing("x", 0, [own], [default], rule=rule, regimes=regimes)
    assert found.score == found.by_world[world] == found.by_seed[0]
    assert list(found.by_world) == [world] and ("simulated" in found.by_regime) == (
        world == "dynamic"
    )


def test_seeds_differ_by_a_pooled_guess_that_goes_as_trainings_come() -> None:
    trained = [
        replace(named("x", 0.0, 0.1), by_seed=by_seed)
        for by_seed in ((0.0,), (1.0, 3.0), (0.0, 1.0, 2.0))
    ]
    for nothing in ([], trained[:1]):
        found = pooled_seed_spread(nothing)
        assert found.sd == pytest.approx(SEED_SD) and found.degrees == SEED_PRIOR
    squares = (SEED_PRIOR - 3) * SEED_SD**2 + 2.0 + 2.0
    assert pooled_seed_spread(trained).sd == pytest.approx(math.sqrt(squares / SEED_PRIOR))
    twice = pooled_seed_spread([*trained, *trained])
    assert twice.sd == pytest.approx(math.sqrt(8.0 / 6.0)) and twice.degrees == 6
    many = [
        replace(named(str(i), 0.0, 0.1), by_seed=tuple(np.random.default_rng(i).normal(0, 2, 5)))
        for i in range(200)
    ]
    assert pooled_seed_spread(many).sd == pytest.approx(2.0, rel=0.08)


def test_futility_needs_certainty() -> None:
    assert named("a", -1.0, 0.6).futile() and not named("a", -1.0, 0.62).futile()
    assert not named("a", 0.5, 0.1).futile() and named("a", 0.5, 0.1).futile(0.7)


SCORED = st.lists(st.tuples(st.floats(-3, 3), st.floats(0.05, 2)), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(SCORED)
def test_shrinkage_pulls_everything_to_one_centre(found: list[tuple[float, float]]) -> None:
    standings = [named(str(i), score, se) for i, (score, se) in enumerate(found)]
    shrunk = shrunken(standings)
    assert list(shrunk) == [s.candidate for s in standings] and all(
        map(math.isfinite, shrunk.values())
    )
    low, high = min(0.0, *(s for s, _ in found), 0.0), max(0.0, *(s for s, _ in found), 0.0)
    values = np.array(list(shrunk.values()))
    assert (values >= low - 1e-9).all() and (values <= high + 1e-9).all()
    raw = np.array([score for score, _ in found])
    assert np.ptp(values) <= np.ptp([0.0, *raw]) + 1e-9
    reversed_too = shrunken(standings[::-1])
    assert all(
        reversed_too[name] == pytest.approx(value, abs=1e-9) for name, value in shrunk.items()
    )


def test_shrinkage_by_hand_and_at_its_ends() -> None:
    assert shrunken([]) == {}
    assert shrunken([named("a", 0.2, 0.3)]) == {
        "a": 0.0
    }  # no larger than its error: nothing is left of it
    alone = shrunken([named("a", 2.0, 1.0)])["a"]
    real = (4.0 - 1.0) / 2  # spread of 2 and 0, less their mean noise
    kept = real / (real + 1.0)
    centre = 2.0 * kept / (1.0 + kept)
    assert alone == pytest.approx(centre + kept * (2.0 - centre)) and 0.0 < alone < 2.0
    assert shrunken([named("a", 2.0, 1e-9)])["a"] == pytest.approx(2.0)
    noise = np.random.default_rng(0).normal(0, 0.3, 64)
    pure = shrunken([named(str(i), value, 0.3) for i, value in enumerate(noise)])
    assert max(pure.values()) < 0.25 * noise.max()
    equal = shrunken([named(name, 1.0, 0.2) for name in "abcdef"])
    assert len(set(equal.values())) == 1 and 0.0 < equal["a"] <= 1.0


def test_of_equal_scores_the_surer_keeps_more() -> None:
    rest = [named(str(i), value, 0.3) for i, value in enumerate((-1.0, -0.5, 0.0, 0.5, 1.0))]
    errors = (0.05, 0.3, 0.6, 1.2)
    values = [
        shrunken([*rest, *(named(f"x{se}", 2.0, se) for se in errors)])[f"x{se}"] for se in errors
    ]
    assert values == sorted(values, reverse=True) and values[0] > 1.9 and values[-1] < 1.5


def test_shrinkage_is_right_on_average() -> None:
    """Of the best of many the raw score promises too much; the shrunken one does not."""
    rng, raw, kept = np.random.default_rng(1), [], []
    for _ in range(400):
        truth = rng.normal(0, 0.6, 32)
        seen = truth + rng.normal(0, 0.4, 32)
        shrunk = shrunken([named(str(i), value, 0.4) for i, value in enumerate(seen)])
        best = int(np.argmax(seen))
        raw.append(seen[best] - truth[best])
        kept.append(shrunk[str(best)] - truth[best])
    assert np.mean(raw) > 0.3 and abs(np.mean(kept)) < 0.06
