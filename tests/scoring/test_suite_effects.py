"""Effects of designs on tasks, and their pool, in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from se_rl.scoring.score import ScoreRule, Scores
from se_rl.scoring.statistics import t_quantile
from se_rl.scoring.suite_effects import (
    TOGETHER,
    DesignScores,
    TaskScores,
    pooled,
    scale_of,
    suite_result,
    task_effects,
)

RETURNS = ScoreRule({"static": 0.0, "dynamic": 1.0}, 0.0)
EPISODES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
"""A variance of 2.5."""


def returned(*means: float) -> DesignScores:
    """Trainings whose episodes differ from the others' by a constant alone."""
    return DesignScores({seed: {"dynamic": EPISODES + mean} for seed, mean in enumerate(means)})


def task(name: str, default: DesignScores, **designs: DesignScores) -> TaskScores:
    return TaskScores(name, "ticks", RETURNS, default, designs)


def test_an_effect_is_the_paired_difference_over_the_spread_of_the_defaults_orders() -> None:
    (one,) = task_effects(task("a", returned(0.0, 1.0, 2.0), own=returned(1.0, 1.0, 4.0)))
    by_seed = np.array([1.0, 0.0, 2.0])
    assert (one.seeds, one.difference) == (3, pytest.approx(1.0))
    assert one.scale == pytest.approx(math.sqrt(2.5))
    assert one.effect == pytest.approx(1.0 / math.sqrt(2.5))
    # all episodes differ alike, so seeds are the whole error
    se = by_seed.std(ddof=1) / math.sqrt(3) / math.sqrt(2.5)
    assert one.se == pytest.approx(se)
    half = se * t_quantile(0.975, 2)
    assert one.ci95 == pytest.approx((one.effect - half, one.effect + half))


def test_days_of_history_are_the_units_and_single_pairs_of_orders_the_scale() -> None:
    rng = np.random.default_rng(2)
    day = np.repeat(np.arange(4.0), 10)

    def scores(gain: float) -> Scores:
        orders = rng.normal(gain, 5.0, 40)
        return {"static": orders, "static_total": np.zeros(40), "static_day": day}

    own, default = scores(1.0), scores(0.0)
    history = ScoreRule({"static": 1.0, "dynamic": 0.0}, 0.02)
    found = TaskScores(
        "a", "bps", history, DesignScores({0: default}), {"own": DesignScores({0: own})}
    )
    (one,) = task_effects(found)
    assert one.difference == pytest.approx((own["static"] - default["static"]).mean())
    assert one.scale == pytest.approx(default["static"].std(ddof=1))


def test_one_training_has_an_effect_and_no_interval() -> None:
    (one,) = task_effects(task("a", returned(0.0), own=returned(0.5)))
    assert one.difference == pytest.approx(0.5)
    assert math.isnan(one.se) and all(map(math.isnan, one.ci95))


def test_the_default_itself_is_exactly_nothing() -> None:
    (one,) = task_effects(task("a", returned(0.0, 0.3), own=returned(0.0, 0.3)))
    assert (one.effect, one.se, one.ci95) == (0.0, 0.0, (0.0, 0.0))


def test_tasks_are_the_unit_of_a_pool() -> None:
    tasks = []
    for name, gain in (("a", 1.0), ("b", 2.0), ("c", -1.5)):
        tasks.append(task(name, returned(0.0, 0.0), own=returned(gain, gain)))
    (pool,) = suite_result(tasks, seeds=2).pools
    effects = np.array([1.0, 2.0, -1.5]) / math.sqrt(2.5)
    assert (pool.tasks, pool.ahead, pool.behind) == (3, 2, 1)
    assert pool.effect == pytest.approx(effects.mean())
    se = effects.std(ddof=1) / math.sqrt(3)
    assert pool.se == pytest.approx(se)
    half = se * t_quantile(0.975, 2)
    assert pool.ci95 == pytest.approx((effects.mean() - half, effects.mean() + half))


def test_what_has_no_figure_says_why_and_is_in_no_pool() -> None:
    found = [
        task("a", returned(0.0, 0.0), own=returned(1.0, 1.0)),
        task("b", returned(0.0, 0.0), own=DesignScores({}, "it diverged")),
    ]
    result = suite_result(found, seeds=2)
    assert [one.reason for one in result.effects] == ["", "it diverged"]
    assert result.pools[0].tasks == 1
    assert (result.made, result.planned) == (6, 8)


def test_several_designs_have_a_mean_with_an_error_of_its_own() -> None:
    found = task(
        "a",
        returned(0.0, 0.0),
        up=returned(1.0, 2.0),
        down=returned(-1.0, -2.0),
        late=DesignScores({}, "not trained yet"),
    )
    effects = task_effects(found)
    assert [one.design for one in effects] == ["up", "down", "late", TOGETHER]
    assert effects[-1].effect == pytest.approx(0.0) and effects[-1].se == pytest.approx(0.0)
    assert [pool.design for pool in pooled(effects)] == ["up", "down", TOGETHER]


def test_void_orders_are_no_part_of_the_scale() -> None:
    assert scale_of([{"dynamic": np.array([1.0, np.nan, 3.0])}]) == pytest.approx(math.sqrt(2.0))
