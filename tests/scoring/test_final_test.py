"""What is said after a search: the correction for having chosen, the interval of days and seeds, and the verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit
from test_ladder import (
    CONFIG,
    DEFAULT_DESIGN,
    EFFECTS,
    TrainingPool,
    climbed,
    designs,
    gate,
    ladder_of,
)

from se_rl.records.entries import Evaluation
from se_rl.records.gains import NO_GAIN, NO_SCORE_GAIN, Gain, ScoreSummary
from se_rl.records.method_rows import MethodRow
from se_rl.records.results import (
    NO_IMPROVEMENT,
    NO_VALID_DESIGN,
    OURS,
    STRONG,
    DataFacts,
    DesignCounts,
    FinalMetrics,
    RunResults,
)
from se_rl.scoring.final_test import (
    final_scores,
    finalists_table,
    kept_metrics,
    learning,
    over,
    seeds_of,
    selection,
    verdict,
)
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.score import SEED_SD, contributions, difference
from se_rl.scoring.score_summary import gain_of
from se_rl.scoring.statistics import clustered_mean


def screened(effects: dict[str, Any], **how: Any) -> Ladder:
    ladder, _ = ladder_of(TrainingPool(effects, **how))
    ladder.run(designs(effects), CONFIG.rungs.screen, [0])
    return ladder


def test_spa_is_large_where_nothing_is_better_and_small_where_something_is() -> None:
    quiet = gate.World(
        shared_sd=0.5, own_day_sd=0.1, seed_sd=0.0
    )  # SPA knows days, not the luck of trainings
    nothing = {f"d{i}": (-0.3 - i / 10,) * 3 for i in range(12)}
    found = selection(screened(nothing, world=quiet), DEFAULT_DESIGN.id, proposed=14)
    assert found.spa_p_over_default > 0.5 and (found.tried, found.scored) == (14, 12)
    assert math.isnan(found.hurdle_bps) and math.isnan(found.score_minus_hurdle_bps)
    better = selection(screened({**nothing, "good": (3.0,) * 3}, world=quiet), "good", proposed=14)
    assert better.spa_p_over_default < 0.01 and better.spa_p_over_twap < 0.01


def test_the_hurdle_is_what_the_best_of_so_many_worthless_ones_would_show() -> None:
    ladder = screened({"a": (1.0,) * 3})
    found, standing = selection(ladder, "a", proposed=50), ladder.standings["a", 0]
    top = (1 - 0.5772156649) * ndtri(1 - 1 / 50) + 0.5772156649 * ndtri(1 - 1 / (50 * math.e))
    assert found.hurdle_bps == pytest.approx(standing.se * top) and top == pytest.approx(
        2.28, abs=0.01
    )
    assert found.score_minus_hurdle_bps == pytest.approx(standing.score - standing.se * top)


def test_a_design_that_does_what_the_default_does_is_no_evidence() -> None:
    class Copy(TrainingPool):
        def scores(self, name: str, rung: int, seed: int, *, block: int) -> Any:
            found = super().scores(
                DEFAULT_DESIGN.id if name == "copy" else name, rung, seed, block=block
            )
            return found | ({"dynamic": found["dynamic"] + 1e-15} if name == "copy" else {})

    for seed in (1, 2):
        values = []
        for effects in ({"a": (-1.0,) * 3}, {"a": (-1.0,) * 3, "copy": (0.0,) * 3}):
            ladder, _ = ladder_of(training_pool := Copy(effects))
            training_pool.seed = seed
            ladder.run(designs(effects), CONFIG.rungs.screen, [0])
            values.append(selection(ladder, DEFAULT_DESIGN.id, proposed=2).spa_p_over_default)
        assert values[0] == values[1] > 0.3
    ladder, _ = ladder_of(Copy({"copy": (0.0,) * 3}))
    ladder.run(designs({"copy": 0}), CONFIG.rungs.screen, [0])
    assert selection(ladder, DEFAULT_DESIGN.id, proposed=1).spa_p_over_default == 1.0


def test_selection_without_history_or_scores() -> None:
    ladder = screened({"a": (0.0,) * 3}, fails=[("a", 0, 0)])
    found = selection(ladder, DEFAULT_DESIGN.id, proposed=1)
    assert found.scored == 0 and math.isnan(found.spa_p_over_default)

    class Simulated(TrainingPool):
        def arrays(self, evaluation: Evaluation) -> Any:
            found = super().arrays(evaluation)
            return {name: found[name] for name in ("dynamic", "dynamic_cell")}

        def regimes(self, rung: int) -> Any:
            return {}

    ladder, _ = ladder_of(Simulated({"a": (1.0,) * 3}), replace(CONFIG, worlds="dynamic"))
    ladder.run(designs({"a": 0}), CONFIG.rungs.screen, [0])
    chosen = selection(ladder, "a", proposed=1)  # episodes are the units then
    assert chosen.scored == 1 and chosen.spa_p_over_default < 0.05


def test_an_interval_of_days_and_seeds_by_hand() -> None:
    rng, dates = np.random.default_rng(0), np.repeat(np.arange(10), 6)
    ours, theirs = rng.normal(1, 2, (3, 60)), rng.normal(0, 2, (3, 60))
    found = over(list(ours), list(theirs), dates)
    by_day = clustered_mean((ours - theirs).mean(axis=0), dates)
    luck = (ours - theirs).mean(axis=1).var(ddof=1) / 3
    variance = by_day.se**2 + luck
    degrees = int(variance**2 / (by_day.se**4 / 9 + luck**2 / 2))
    half = stdtrit(degrees, 0.975) * math.sqrt(variance)
    assert found.mean == pytest.approx((ours - theirs).mean()) and found.se == pytest.approx(
        math.sqrt(variance)
    )
    assert (
        found.ci95 == pytest.approx((found.mean - half, found.mean + half)) and 2 <= degrees <= 11
    )


def test_the_ends_of_the_interval() -> None:
    rng, dates = np.random.default_rng(0), np.repeat(np.arange(10), 6)
    ours, theirs = rng.normal(1, 2, 60), rng.normal(0, 2, 60)
    by_day = clustered_mean(ours - theirs, dates)
    alone = over(
        [ours], [theirs], dates
    )  # of one training nobody knows how lucky it was: what is usual
    assert alone.se == pytest.approx(math.hypot(by_day.se, SEED_SD))
    assert over([ours, ours], [ours, ours], dates) == NO_GAIN
    same = over([ours, ours], [theirs, theirs], dates)
    assert same.ci95 == pytest.approx(
        by_day.ci95
    )  # trainings that agree leave the error of the days
    assert math.isnan(
        over([ours, ours + 1], [theirs, theirs], np.zeros(60, np.int64)).ci95[0]
    )  # one day


def test_the_interval_covers_a_design_and_not_its_luck() -> None:
    rng, dates, covered, by_days = np.random.default_rng(0), np.repeat(np.arange(30), 5), 0, 0
    for _ in range(300):
        ours, theirs = (rng.normal(rng.normal(0, 0.5, (4, 1)), 1, (4, 150)) for _ in range(2))
        low, high = over(list(ours), list(theirs), dates).ci95
        covered += low <= 0.0 <= high
        low, high = clustered_mean((ours - theirs).mean(axis=0), dates).ci95
        by_days += low <= 0.0 <= high
    assert 0.92 < covered / 300 < 0.99 and by_days / 300 < 0.6


def test_the_score_on_the_sealed_days() -> None:
    """Over TWAP and over the default, from the same trainings; by day it is the same number."""
    pool = TrainingPool({"a": (1.0,) * 3})
    rule = ladder_of(pool)[0].rule
    trainings = {}
    for method, name in ((OURS, "a"), (STRONG, DEFAULT_DESIGN.id)):
        trainings[method] = [pool.scores(name, 2, seed, block=3) for seed in range(4)]
    found = final_scores(trainings, rule, cells=gate.SIZES, days=40)
    assert found.over_default.score == gain_of(difference(*trainings.values(), rule))
    assert set(found.over_default.cells) == set(gate.SIZES) and set(found.over_TWAP) == {
        OURS,
        STRONG,
    }
    for name, own in trainings.items():
        assert np.mean(found.by_day[name]) == pytest.approx(contributions(own, rule).score)
        assert len(found.by_day[name]) == 40


def test_a_rival_is_held_against_the_default_and_changes_nothing_else() -> None:
    pool = TrainingPool({"a": (1.0,) * 3, "b": (-0.5,) * 3})
    rule = ladder_of(pool)[0].rule
    names = {OURS: "a", STRONG: DEFAULT_DESIGN.id, "worse": "b", "twin": DEFAULT_DESIGN.id}
    trainings = {}
    for method, name in names.items():
        trainings[method] = [pool.scores(name, 2, seed, block=3) for seed in range(4)]
    alone = final_scores(trainings, rule, cells=gate.SIZES, days=40)
    found = final_scores(trainings, rule, rivals=("worse", "twin"), cells=gate.SIZES, days=40)
    assert (found.over_default, found.over_TWAP) == (alone.over_default, alone.over_TWAP)
    assert alone.rivals == {} and set(alone.by_day) == {OURS, STRONG}
    assert found.rivals["twin"].score.mean == 0.0
    assert found.by_day["twin"] == found.by_day[STRONG] == alone.by_day[STRONG]
    gain = difference(trainings["worse"], trainings[STRONG], rule)
    assert found.rivals["worse"].score == gain_of(gain)
    by_day = np.array(found.by_day["worse"]) - np.array(found.by_day[STRONG])
    assert by_day.mean() == pytest.approx(gain.score)


def results(mean: float, ci95: tuple[float, float], *, synthetic: bool = True) -> RunResults:
    metrics = FinalMetrics(
        over_default=Gain(0.2, ci95=(-0.3, 0.7)),
        over_TWAP=Gain(0.5, ci95=(0.1, 0.9)),
        score_over_default=ScoreSummary(Gain(mean, ci95=ci95)),
    )
    data = DataFacts("mine", synthetic, test_days=12)
    counts = DesignCounts(proposed=20, valid=18, scored=17, repeated=1)
    return RunResults(best="abc", data=data, designs=counts, final_metrics=metrics)


@pytest.mark.parametrize(
    ("mean", "ci95", "state"),
    [
        (0.4, (0.1, 0.7), "Shown: "),
        (0.4, (-0.1, 0.9), "Not shown: "),
        (-0.4, (-0.7, -0.1), "Worse than the default: "),
        (0.4, (math.nan, math.nan), "Not shown (too few days): "),
        (0.4, (0.0, 0.8), "Not shown: "),
    ],
)
def test_a_verdict(mean: float, ci95: tuple[float, float], state: str) -> None:
    said = verdict(results(mean, ci95))
    assert said.startswith(
        f"{state}design abc scores {mean:+.2f} [{ci95[0]:.2f}, {ci95[1]:.2f}] bps "
        "over the default PPO on "
    )
    assert "12 sealed days of mine (SYNTHETIC)" in said and said.endswith(
        "price advantage +0.20 [-0.30, 0.70] over the default, +0.50 [0.10, 0.90] over TWAP."
    )
    assert "\n" not in said and "SYNTHETIC" not in verdict(results(mean, ci95, synthetic=False))


def test_the_verdict_where_the_default_was_kept() -> None:
    none = replace(results(0.0, (0.0, 0.0)), outcome=NO_IMPROVEMENT)
    said = verdict(none)
    assert said.startswith("No improvement found: of 17 scored designs none stood out")
    assert said.endswith("the 12 sealed days of mine (SYNTHETIC) were not opened.")
    assert "hown" not in said and "bps" not in said
    assert verdict(replace(none, test_openings=1)).endswith("were opened once.")
    lost = DesignCounts(proposed=6, valid=2, repeated=1)
    said = verdict(replace(none, outcome=NO_VALID_DESIGN, designs=lost))
    assert said.startswith("No valid design: none of 6 proposed designs could be scored (3 refused")
    assert "1 repeated, 2 failed in training" in said


def test_the_default_gains_nothing_over_itself() -> None:
    metrics = kept_metrics({STRONG: MethodRow(PA=1.5, WR=0.6, over_TWAP=Gain(0.7))})
    assert (metrics.PA, metrics.WR, metrics.over_TWAP.mean) == (1.5, 0.6, 0.7)
    assert metrics.over_default.mean == 0.0 and metrics.score_over_default == NO_SCORE_GAIN


def test_finalists_and_how_they_learnt() -> None:
    ladder, training_pool, _, finalists = climbed()
    rows = {row.candidate: row for row in finalists_table(ladder, finalists)}
    assert set(rows) == {"good", "slow"}
    for name, row in rows.items():
        last = ladder.standings[name, CONFIG.rungs.last.index]
        assert (row.score, row.se, row.ci95) == (last.score, last.se, last.ci95)
        assert row.rungs == {str(rung): ladder.standings[name, rung].score for rung in range(3)}
        assert len(row.by_seed) == CONFIG.rungs.last.seeds and set(row.by_world) == {
            "static",
            "dynamic",
        }
    assert (
        rows["slow"].rungs["2"] > rows["slow"].rungs["0"]
    )  # learning speed is one thing, the end another

    found = learning(ladder, "slow")
    budgets = CONFIG.rungs[1:]  # a screen is as long as a race, which counts its trainings
    assert found.work == tuple(rung.work for rung in budgets)
    for place, rung in enumerate(budgets):
        for who, name in (("best", "slow"), ("default", DEFAULT_DESIGN.id)):
            trained = ladder.trainings.at(name, rung).values()
            done = [training_pool.arrays(e) for e in trained]
            assert len(done) == 3
            assert getattr(found, who)[place] == contributions(done, ladder.rule).score
    gained = [best - default for best, default in zip(found.best, found.default, strict=True)]
    levels = [ladder.standings["slow", rung.index].score for rung in budgets]
    assert gained == pytest.approx(levels)
    assert learning(ladder, "none").work == (CONFIG.rungs.screen.work,) and set(EFFECTS) >= {"none"}


def test_training_seeds_that_count() -> None:
    made = {2: "ok", 0: "ok", 1: "failed"}
    assert seeds_of({seed: Evaluation("a", 2, seed, status) for seed, status in made.items()}) == [
        0,
        2,
    ]
