"""After the search: the sealed test set is opened once, by this process, and the result is stated with its doubts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from se_rl.baselines.learned import LearnedBaseline
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.table import BaselineTask, Fitted, run_baselines
from se_rl.data.catalog import DataSet
from se_rl.data.features import FeatureScales
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.records.entries import Candidate, Evaluation
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.order_scores import Score
from se_rl.scoring.standing import SEED_SD, Array
from se_rl.scoring.statistics import (
    Estimate,
    clustered_mean,
    day_means,
    selection_hurdle,
    spa_p_value,
)
from se_rl.scoring.validation import TEST_SEED, Open, play, simulated

OURS, STRONG, NAIVE = "SE-RL (best design)", "PPO strong", "PPO naive"
Policies = Mapping[str, Sequence[Open]]
"""For each method the policies of its training seeds."""


def history_table(
    config: RunConfig,
    policies: Policies,
    *,
    agents: int = 1,
    benchmark: Literal["vwap", "twap"] = "vwap",
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The test days: our design, the default and the naive one beside the classical strategies, under all self-checks."""

    by_seed: dict[str, list[Array]] = {}
    specific: dict[str, list[Array]] = {}

    def others(trial: BaselineTask, dataset: DataSet, fitted: Fitted) -> list[LearnedBaseline]:
        scales = fitted.scales or FeatureScales.fit(dataset.split("train"))
        world = StaticWorld(trial.data, horizon=trial.orders.horizon, scales=scales)
        orders = Episodes(trial.orders)
        runs = {
            name: [play(world, orders, seed, agents=agents) for seed in seeds]
            for name, seeds in policies.items()
        }
        for name, done in runs.items():
            scores = [Score(name, trial.panel, run.record) for run in done]
            by_seed[name], specific[name] = (
                [s.pa() for s in scores],
                [s.specific_pa() for s in scores],
            )
        return [LearnedBaseline(name, (), tuple(done)) for name, done in runs.items()]

    table = BaselinesConfig(
        data=config.data, split="test", horizon=config.horizon, benchmark=benchmark
    )
    found = run_baselines(table, others=others, per_order=True, say=say)
    found.pop("policies")
    by_order = found.pop("per_order")
    ours = by_seed[OURS]
    for name, row in found["methods"].items():
        if name != OURS:
            row["ours_over"] = over(
                ours, by_seed.get(name) or [by_order[f"{name}: PA"]] * len(ours), by_order["date"]
            )
        if name in specific:
            row["ours_over_specific"] = over(specific[OURS], specific[name], by_order["date"])
    return found


def final_metrics(table: Mapping[str, Any], *, is_default: bool) -> dict[str, Any]:
    """Our row of the test days, and what it gains over the default PPO: exactly nothing where it is the default."""
    names = (
        "PA",
        "PA_std",
        "WR",
        "GLR",
        "AFI",
        "ci95",
        "over_TWAP",
        "over_TWAP_specific",
        "over_TWAP_common",
    )
    nothing = {"mean": 0.0, "se": 0.0, "ci95": [0.0, 0.0]}
    strong = table["methods"][STRONG]
    gains = {
        f"over_default{part}": nothing if is_default else strong[f"ours_over{part}"]
        for part in ("", "_specific")
    }
    return {name: table["methods"][OURS][name] for name in names} | gains


def over(
    ours: Sequence[Array], theirs: Sequence[Array], dates: npt.NDArray[np.integer]
) -> dict[str, Any]:
    """What trainings of one design gain per order over another's, seed by seed: the errors of days and of seeds together.

    Days alone would speak of these very policies: of a lucky training, not of a design (degrees of freedom: Welch).
    """
    pairs = list(zip(ours, theirs, strict=False))
    by_day = clustered_mean(np.mean([a - b for a, b in pairs], axis=0), dates)
    seeds = np.array([a.mean() - b.mean() for a, b in pairs])
    luck = float(np.var(seeds, ddof=1)) / len(seeds) if len(seeds) > 1 else SEED_SD**2
    variance = by_day.se**2 + luck
    doubt = by_day.se**4 / max(1, by_day.days - 1) + (
        luck**2 / (len(seeds) - 1) if len(seeds) > 1 else 0.0
    )
    degrees = int(variance**2 / doubt) if doubt > 0.0 else by_day.days - 1
    found = Estimate(by_day.mean, math.sqrt(variance), degrees + 1)
    return {"mean": found.mean, "se": found.se, "ci95": list(found.ci95)}


def market_tables(
    config: RunConfig,
    agents: int,
    policies: Policies,
    grid: ConstantSchedule,
    *,
    say: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    """Fresh simulated episodes, at the usual size and at twice that, beside TWAP and the grid's constant schedule."""
    tables: dict[str, dict[str, Any]] = {}
    for impact in (1, 2):
        say(f"simulated markets, orders of {impact}x the usual size")
        world, episodes = simulated(
            config, agents, seed=TEST_SEED, orders=config.rungs.last.episodes, impact=impact
        )
        constant = execute(world, grid, episodes)
        rows = {"TWAP": constant.twap().summary(), "grid constant": constant.summary()}
        rows["grid constant"]["schedule"] = grid.words(world.takes_price)
        for name, seeds in policies.items():
            learned = LearnedBaseline(
                name, (), tuple(play(world, episodes, seed) for seed in seeds)
            )
            rows[name] = learned.whole.summary() | learned.seeds()
        tables[f"x{impact}"] = rows
    return tables


def selection(ladder: Ladder, champion: str, *, proposed: int) -> dict[str, Any]:
    """What the choice among so many designs must be held against, on the validation days that the search saw.

    SPA: the chance that no design is better than the benchmark, corrected for having looked at all of them. The hurdle is
    what the best of as many worthless designs is expected to show.
    """
    columns, default = [], None
    for (name, rung), by_seed in ladder.evaluations.items():
        if rung == ladder.rungs.screen.index and all(e.ok for e in by_seed.values()):
            scores = [ladder.scores(e) for e in by_seed.values()]
            if "static" not in scores[0]:
                continue
            by_day = day_means(
                np.mean([s["static"] for s in scores], axis=0),
                scores[0]["static_day"].astype(np.int64),
            )
            if name == ladder.default.id:
                default = by_day
            else:
                columns.append(by_day)
    nothing = float("nan")
    over_twap = over_default = nothing
    if columns and default is not None:
        over_twap, over_default = (
            _spa(benchmark, columns) for benchmark in (np.zeros(len(default)), default)
        )
    standing = ladder.longest(champion)
    hurdle = (
        selection_hurdle(standing.se, proposed)
        if standing and champion != ladder.default.id
        else nothing
    )
    return {
        "tried": proposed,
        "scored": len(columns),
        "hurdle_bps": hurdle,
        "score_minus_hurdle_bps": standing.score - hurdle if standing else nothing,
        "spa_p_over_twap": over_twap,
        "spa_p_over_default": over_default,
        "on": "validation days of the search, history, specific part",
    }


def _spa(benchmark: Array, columns: Sequence[Array]) -> float:
    """SPA among the designs that do differ from the benchmark: rounding errors have no variance to studentise by."""
    unlike = [column for column in columns if not np.allclose(column, benchmark)]
    return spa_p_value(benchmark, np.stack(unlike, axis=1)) if unlike else 1.0


def finalists_table(ladder: Ladder, names: Sequence[str]) -> list[dict[str, Any]]:
    """How the finalists stood at every rung: learning speed at the first two, what is left of it at the last."""
    rows = []
    for name in names:
        last = ladder.standings[name, ladder.rungs.last.index]
        rungs = {
            str(rung.index): ladder.standings[name, rung.index].score
            for rung in ladder.rungs
            if (name, rung.index) in ladder.standings
        }
        rows.append(
            {
                "candidate": name,
                "score": last.score,
                "se": last.se,
                "ci95": list(last.ci95),
                "by_seed": list(last.by_seed),
                "by_world": dict(last.by_world),
                "rungs": rungs,
            }
        )
    return rows


def learning(ladder: Ladder, name: str) -> dict[str, list[float]]:
    """Gain over TWAP at each budget, of a design and of the default: the score's own weights, all seeds."""
    weights = ladder.config.weights

    def level(of: str, rung: int) -> float:
        done = [e.scores for e in ladder.evaluations.get((of, rung), {}).values() if e.ok]
        parts = {"static": ["static"], "dynamic": ["dynamic"]}
        means = {
            w: np.mean([s[n] for s in done for n in names if n in s])
            for w, names in parts.items()
            if weights[w] and done
        }
        return float(sum(weights[w] * m for w, m in means.items())) if means else float("nan")

    rungs = [rung for rung in ladder.rungs if (name, rung.index) in ladder.evaluations]
    return {
        "work": [rung.work for rung in rungs],
        "best": [level(name, rung.index) for rung in rungs],
        "default": [level(ladder.default.id, rung.index) for rung in rungs],
    }


def verdict(results: Mapping[str, Any], champion: Candidate, default: str) -> str:
    """The result in one sentence, doubts first."""
    days, data = results["data"]["test_days"], results["data"]
    where = f"{days} sealed days of {data['name']}" + (" (SYNTHETIC)" if data["synthetic"] else "")
    if champion.id == default:
        tried = results["designs"]["scored"]
        none = f"No design beat the default: of {tried} scored ones none stood out above it at three times the search's budget"
        return f"{none}; the {where} were opened for the default."
    over = results["final_metrics"]["over_default"]
    low, high = over["ci95"]
    if not math.isfinite(low):
        state = "Not shown (too few days)"
    else:
        state = "Shown" if low > 0 else "Worse than the default" if high < 0 else "Not shown"
    claim = f"design {champion.id} {over['mean']:+.2f} [{low:.2f}, {high:.2f}] bps over the default PPO on {where}"
    twap = results["final_metrics"]["over_TWAP"]
    return f"{state}: {claim}; over TWAP {twap['mean']:+.2f} [{twap['ci95'][0]:.2f}, {twap['ci95'][1]:.2f}]."


def seeds_of(evaluations: Mapping[int, Evaluation]) -> list[int]:
    """The training seeds that gave a policy, in order: none is left out for its score."""
    return [seed for seed, e in sorted(evaluations.items()) if e.ok]
