"""What training brings: docs/results/learning.md, every figure from this command.

    python benchmarks/learned_tables.py [--scale 1.0] [--workers 2] [--only history|market|hybrid] [--keep DIR]

History: the default PPO on real minute bars (../shared/data or SE_RL_SHARED_DATA) beside TWAP and XS ridge. Simulated
market: naive and strong default, the grid's constant schedule and TWAP, at 10 and 25 % of volume, with market and with limit
orders. Hybrid: one world alone against both. All on days or episodes that no training saw, five seeds, 1x and 3x budget.
Budgets count work, so a busy machine changes the time this takes (about half an hour on two cores), not the figures.
Finished parts are kept as JSON in `--keep`, so that an interrupted run goes on and parts may come from several machines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("SE_RL_SHARED_DATA", ROOT.parent / "shared" / "data"))
SETS = ("us_minute_2025", "us_minute_2018")
SEEDS, BUDGET = 5, 6.0
TIMES = (1, 3)
DESIGNS = ("PPO strong", "PPO naive")


def on_history(name: str, design: str, budget: float) -> dict[str, Any]:
    """One design on one set's test days: over TWAP and over XS ridge, paired on the same orders."""
    import torch

    from se_rl.baselines import table
    from se_rl.baselines.learned import DESIGNS as MODULES
    from se_rl.baselines.learned import learned_on_history
    from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
    from se_rl.scoring.order_scores import Score

    torch.set_num_threads(1)
    dataset, trial = table.open_trial(BaselinesConfig(data=str(DATA / f"{name}.parquet")))
    fitted = table.fit_on_train(dataset)
    assert fitted.ridge is not None and fitted.scales is not None
    ridge = trial.score(
        "XS ridge",
        fitted.ridge.schedule(trial.orders, fitted.ridge.forecast(trial.data, fitted.scales)),
    )
    twap = trial.score("TWAP", table.schedules.twap(trial.orders))
    learned = learned_on_history(
        trial.data,
        trial.orders,
        fitted.scales,
        train_dates=dataset.dates("train"),
        config=LearnedConfig(budget=budget, seeds=SEEDS),
        designs={design: MODULES[design]},
    )[0]
    score = Score(design, trial.panel, learned.record)
    over_ridge = score.estimate(score.pa() - ridge.pa())
    rows = {s.name: s.row(twap) for s in (twap, ridge, score)}
    ridged = {"mean": over_ridge.mean, "ci95": list(over_ridge.ci95)}
    return {
        "rows": rows,
        "over_ridge": ridged,
        "seeds": learned.seeds(),
        "orders": len(trial.orders),
    }


def simulated(
    participation: float, takes_price: bool, from_grid: bool, budget: float
) -> dict[str, Any]:
    """The table of one simulated market."""
    import torch

    from se_rl.baselines.learned import dynamic_rows
    from se_rl.baselines.settings import LearnedConfig

    torch.set_num_threads(1)
    config = LearnedConfig(budget=budget, seeds=SEEDS, participation=participation)
    return dynamic_rows(config, takes_price=takes_price, from_grid=from_grid)


def hybrid(worlds: Literal["both", "static", "dynamic"], budget: float) -> dict[str, Any]:
    """The strong default trained in one world or both, scored in both."""
    import numpy as np
    import torch

    from se_rl.baselines.learned import FRESH_SEED, LearnedBaseline
    from se_rl.baselines.passive_grid import best_constant
    from se_rl.baselines.settings import BaselinesConfig
    from se_rl.baselines.table import fit_on_train, open_trial
    from se_rl.environments.dynamic_world import DynamicWorld
    from se_rl.environments.static_world import StaticWorld
    from se_rl.environments.worlds import Episodes
    from se_rl.modules.defaults import Modules
    from se_rl.rl.policy import Neutral
    from se_rl.rl.trainer import TrainConfig, train
    from se_rl.rl.training_worlds import TrainingWorldsConfig, make_worlds
    from se_rl.scoring.execution import execute

    torch.set_num_threads(1)
    dataset, trial = open_trial(BaselinesConfig(data="nasdaq100"))
    scales = fit_on_train(dataset).scales
    ground = TrainingWorldsConfig(worlds=worlds)
    grounds = make_worlds(Modules(), ground, data=dataset.split("train"), scales=scales)
    market = DynamicWorld(takes_price=True, seed=1)
    constant = best_constant(market, np.random.default_rng(0))
    neutral = {"dynamic": Neutral(constant.multiple, constant.offset)}
    trained = [
        train(Modules(), grounds, TrainConfig(budget=budget), seed=seed, neutral=neutral)
        for seed in range(SEEDS)
    ]
    history = StaticWorld(trial.data, horizon=trial.orders.horizon, scales=scales)
    day = trial.orders.row % len(trial.data.dates)
    fresh = DynamicWorld(takes_price=True, seed=FRESH_SEED, bank=1000)
    episodes = fresh.draw(np.random.default_rng(0), 2000)
    result: dict[str, Any] = {"alpha": [float(t.curve[-1]["alpha"]) for t in trained]}
    places = (("static", history, Episodes(trial.orders), day), ("dynamic", fresh, episodes, None))
    for where, world, orders, clusters in places:
        runs = tuple(execute(world, t.runner(where), orders, clusters=clusters) for t in trained)
        learned = LearnedBaseline(worlds, tuple(trained), runs)
        result[where] = learned.whole.summary() | learned.seeds()
    return result


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor on all budgets, to try the script out"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", choices=("history", "market", "hybrid"), help="run one part and write no page"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / "out" / "learned_tables",
        help="where finished parts lie",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "learning.md")
    options = parser.parse_args()
    unit = BUDGET * options.scale
    jobs = {key: job for key, job in all_jobs(unit).items() if options.only in (None, key[0])}
    if any(key[0] == "history" for key in jobs) and not DATA.exists():
        sys.exit(f"real data not found in {DATA}; set SE_RL_SHARED_DATA to its folder")
    done = run(jobs, options.keep / f"{unit:g}", workers=options.workers)
    if options.only is None:
        options.out.write_text(page(done, unit))
        print(options.out)


def all_jobs(unit: float) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What is to be trained, by key: the function and its arguments."""
    jobs: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for times in TIMES:
        for name in SETS:
            jobs |= {
                ("history", name, d, times): (on_history, name, d, unit * times) for d in DESIGNS
            }
        for share in (0.10, 0.25):
            for price, grid in ((False, True), (True, True), (True, False)):
                jobs["market", share, price, grid, times] = (
                    simulated,
                    share,
                    price,
                    grid,
                    unit * times,
                )
    return jobs | {
        ("hybrid", worlds): (hybrid, worlds, unit) for worlds in ("static", "dynamic", "both")
    }


def run(
    jobs: dict[tuple[Any, ...], tuple[Any, ...]], keep: Path, *, workers: int
) -> dict[tuple[Any, ...], Any]:
    """The results of all jobs; those that lie in `keep` are not run again."""
    keep.mkdir(parents=True, exist_ok=True)
    files = {key: keep / f"{'-'.join(map(str, key)).replace(' ', '_')}.json" for key in jobs}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(*job): key for key, job in jobs.items() if not files[key].exists()}
        for count, future in enumerate(as_completed(running), 1):
            files[running[future]].write_text(json.dumps(future.result()))
            print(f"... {count}/{len(running)} {' '.join(map(str, running[future]))}", flush=True)
    return {key: json.loads(file.read_text()) for key, file in files.items()}


def page(done: dict[tuple[Any, ...], Any], unit: float) -> str:
    """The results as Markdown."""
    parts = [HEAD.format(last=SEEDS - 1, one=unit, three=3 * unit)]
    for name in SETS:
        parts.append(
            _history(
                name, {key: value for key, value in done.items() if key[:2] == ("history", name)}
            )
        )
    parts.append("## Simulated market\n" + MARKET)
    for share in (0.10, 0.25):
        for price in (False, True):
            chosen = {
                key: value
                for key, value in done.items()
                if key[0] == "market" and key[1:3] == (share, price)
            }
            parts.append(_market(share, price, chosen))
    parts.append(_hybrid({key[1]: value for key, value in done.items() if key[0] == "hybrid"}))
    return "\n".join(parts)


HEAD = """# What training brings

Made by `python benchmarks/learned_tables.py`: seeds 0 to {last} a row, budgets of {one:g} work units (1x) and
{three:g} (3x); a unit is about a second of one core. An order is split equally among the seeds' policies; `seed SD` is the
spread of the seeds' means. The default reward and its constants were chosen on the valid days of the synthetic nasdaq100 universe
and on other simulated episodes, after one look at an earlier default on that universe's test days, which the hybrid table uses.

## History
Minute bars, T=240, test days, both sides, no costs, bps over TWAP, 95 % intervals by day.
"""
MARKET = """
Free markets of the default profile, 40 steps, 2,000 fresh orders, costs in bps of the arrival price with the news taken out,
paired with TWAP (market orders) on the same seeds. "from grid": an output of 0 means the grid's constant schedule, as in
the product; "from TWAP": it means TWAP's slice, at the touch with limit orders.
"""

HYBRID = """The strong default at 1x, the same budget in all: test days of the SYNTHETIC nasdaq100 universe (bps over TWAP,
intervals by day) and fresh simulated episodes with limit orders (bps saved against TWAP, from the grid's schedule).
"""


def _history(name: str, done: dict[tuple[Any, ...], Any]) -> str:
    some = next(iter(done.values()))
    ridge = some["rows"]["XS ridge"]
    rows = [["XS ridge", "-", *_over_twap(ridge), "0", "", "-"]]
    for (_, _, design, times), value in sorted(
        done.items(), key=lambda item: (item[0][2], item[0][3])
    ):
        over, spread = value["over_ridge"], f"{value['seeds']['seed_sd']:.2f}"
        own = _over_twap(value["rows"][design])
        rows.append([design, f"{times}x", *own, _mean(over), _interval(over["ci95"]), spread])
    head = [
        "method",
        "budget",
        "over TWAP",
        "95 % CI",
        "specific",
        "over XS ridge",
        "95 % CI",
        "seed SD",
    ]
    detectable = max(
        value["rows"][key[2]]["over_TWAP"]["detectable"] for key, value in done.items()
    )
    small = f"Effects below {detectable:.1f} bps cannot be shown on these days."
    return f"\n### {name} ({some['orders']:,} orders)\n\n{_table(head, rows)}\n\n{small}\n"


def _over_twap(row: dict[str, Any]) -> list[str]:
    return [
        _mean(row["over_TWAP"]),
        _interval(row["over_TWAP"]["ci95"]),
        _mean(row["over_TWAP_specific"]),
    ]


def _market(share: float, price: bool, done: dict[tuple[Any, ...], Any]) -> str:
    first = next(iter(done.values()))
    rows = [_market_row("TWAP", "-", first["TWAP"])]
    rows.append(
        _market_row("grid constant", first["grid constant"]["schedule"], first["grid constant"])
    )
    for (_, _, _, grid, times), found in sorted(
        done.items(), key=lambda item: (not item[0][3], item[0][4])
    ):
        start = f"{'grid' if grid else 'TWAP'}, {times}x"
        rows += [_market_row(design, start, found[design]) for design in DESIGNS]
    head = [
        "method",
        "from, budget",
        "cost",
        "saved",
        "95 % CI",
        "saved",
        "passive",
        "forced",
        "seed SD",
    ]
    return f"\n### {share:.0%} of volume, {'limit' if price else 'market'} orders\n\n{_table(head, rows)}"


def _market_row(name: str, start: str, row: dict[str, Any]) -> list[str]:
    spread = f"{row['seed_sd']:.2f}" if "seed_sd" in row else "-"
    costs = [f"{row['cost_bps']:.2f}", f"{row['saved_bps']:+.2f}", _interval(row["saved_ci95"])]
    return [
        name,
        start,
        *costs,
        f"{100 * row['saved_share']:+.1f} %",
        f"{row['passive']:.2f}",
        f"{row['forced']:.3f}",
        spread,
    ]


def _hybrid(done: dict[str, Any]) -> str:
    rows = []
    for worlds, value in done.items():
        alpha = ", ".join(f"{a:.2f}" for a in value["alpha"]) if worlds == "both" else "-"
        places = [value["static"], value["dynamic"]]
        rows.append(
            [
                worlds,
                *(
                    x
                    for p in places
                    for x in (f"{p['saved_bps']:+.2f}", _interval(p["saved_ci95"]))
                ),
                alpha,
            ]
        )
    head = [
        "trained in",
        "history: over TWAP",
        "95 % CI",
        "market: saved",
        "95 % CI",
        "alpha at the end, by seed",
    ]
    return f"\n\n## Static, dynamic, hybrid\n\n{HYBRID}\n{_table(head, rows)}\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _mean(estimate: dict[str, Any]) -> str:
    return f"{estimate['mean']:+.2f}"


def _interval(pair: Any) -> str:
    return f"[{pair[0]:.2f}, {pair[1]:.2f}]"


if __name__ == "__main__":
    main()
