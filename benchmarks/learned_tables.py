"""What training brings: docs/results/learning.md, every figure from this command.

    python benchmarks/learned_tables.py [--scale 1.0] [--workers 2] [--only history|market|hybrid]
        [--keep DIR]

History: the default PPO on real minute bars (../shared/data or SE_RL_SHARED_DATA) beside TWAP and
XS ridge. Simulated market: naive and strong default, the grid's constant schedule and TWAP, at 10
and 25 % of volume, with market and with limit orders. Hybrid: one world alone against both. All on
days or episodes that no training saw, five seeds, 1x and 3x budget. Budgets count work, so a busy
machine changes the time this takes (about half an hour on two cores), not the figures. Finished
parts stay as JSON in `--keep`, so that an interrupted run resumes and parts may come from several
machines.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from se_rl_benchmarks.learned_trainings import SEEDS, hybrid, on_history, simulated
from se_rl_benchmarks.markdown_tables import interval, table
from se_rl_benchmarks.real_sets import FOLDER, ROOT

SETS = ("us_2025", "us_2018")
BUDGET = 6.0
TIMES = (1, 3)
SHARES = (0.10, 0.25)
DESIGNS = ("PPO strong", "PPO naive")
Key = tuple[Any, ...]
Job = tuple[Any, ...]
Done = Mapping[Key, Any]
"""Finished parts by key, as read from their JSON files."""

HEAD = """# What training brings

Made by `python benchmarks/learned_tables.py`: seeds 0 to {last} a row, budgets of {one:g} work
units (1x) and {three:g} (3x); a unit is about a second of one core. An order is split equally among
the seeds' policies; `seed SD` is the spread of the seeds' means. The default reward and its
constants were chosen on the valid days of the synthetic nasdaq100 universe (seal `public`) and on
other simulated episodes, after one look at an earlier default on that universe's test days, which
the hybrid table uses.

## History
Minute bars, T=240, test days, both sides, no costs, bps over TWAP, 95 % intervals by day.
"""
MARKET = """
Free markets of the default profile, 40 steps, 2,000 fresh orders, costs in bps of the arrival price
with the news taken out, paired with TWAP (market orders) on the same seeds. "from grid": an output
of 0 means the grid's constant schedule, as in the product; "from TWAP": it means TWAP's slice, at
the touch with limit orders.
"""
HYBRID = """The strong default at 1x, the same budget in all: test days of the SYNTHETIC nasdaq100
universe, seal `public` (bps over TWAP, intervals by day), and fresh simulated episodes with limit orders (bps saved
against TWAP, from the grid's schedule).
"""


def main() -> None:
    """Run everything and write the page."""
    options = _options()
    unit = BUDGET * options.scale
    jobs = {key: job for key, job in all_jobs(unit).items() if options.only in (None, key[0])}
    if any(key[0] == "history" for key in jobs) and not FOLDER.exists():
        sys.exit(f"real data not found in {FOLDER}; set SE_RL_SHARED_DATA to its folder")
    done = run(jobs, options.keep / f"{unit:g}", workers=options.workers)
    if options.only is None:
        options.out.write_text(page(done, unit))
        print(options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor on all budgets, to try the script out"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", choices=("history", "market", "hybrid"), help="run one part and write no page"
    )
    keep = ROOT / "out" / "learned_tables"
    parser.add_argument("--keep", type=Path, default=keep, help="where finished parts lie")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "learning.md")
    return parser.parse_args()


def all_jobs(unit: float) -> dict[Key, Job]:
    """What is to be trained, by key: the function and its arguments."""
    jobs: dict[Key, Job] = {}
    for times in TIMES:
        budget = unit * times
        for name in SETS:
            for design in DESIGNS:
                jobs["history", name, design, times] = (on_history, name, design, budget)
        for share in SHARES:
            for price, grid in ((False, True), (True, True), (True, False)):
                job = (simulated, share, price, grid, budget)
                jobs["market", share, price, grid, times] = job
    for worlds in ("static", "dynamic", "both"):
        jobs["hybrid", worlds] = (hybrid, worlds, unit)
    return jobs


def run(jobs: Mapping[Key, Job], keep: Path, *, workers: int) -> dict[Key, Any]:
    """The results of all jobs; those that lie in `keep` are not run again."""
    keep.mkdir(parents=True, exist_ok=True)
    files = {key: keep / f"{'-'.join(map(str, key)).replace(' ', '_')}.json" for key in jobs}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(*job): key for key, job in jobs.items() if not files[key].exists()}
        for count, future in enumerate(as_completed(running), 1):
            files[running[future]].write_text(json.dumps(future.result()))
            print(f"... {count}/{len(running)} {' '.join(map(str, running[future]))}", flush=True)
    return {key: json.loads(file.read_text()) for key, file in files.items()}


def page(done: Done, unit: float) -> str:
    """The results as Markdown."""
    parts = [HEAD.format(last=SEEDS - 1, one=unit, three=3 * unit)]
    for name in SETS:
        parts.append(_history(name, _part(done, "history", name)))
    parts.append("## Simulated market\n" + MARKET)
    for share in SHARES:
        for price in (False, True):
            parts.append(_market(share, price, _part(done, "market", share, price)))
    parts.append(_hybrid(_part(done, "hybrid")))
    return "\n".join(parts)


def _part(done: Done, *start: Any) -> dict[Key, Any]:
    """The parts whose keys begin like this."""
    return {key: value for key, value in done.items() if key[: len(start)] == start}


def _history(name: str, done: Done) -> str:
    some = next(iter(done.values()))
    ridge = some["rows"]["XS ridge"]
    rows = [["XS ridge", "-", *_over_twap(ridge), "0", "", "-"]]
    detectable = 0.0
    for key in sorted(done, key=lambda key: (key[2], key[3])):
        _, _, design, times = key
        value = done[key]
        own = value["rows"][design]
        over = value["over_ridge"]
        spread = f"{value['seeds']['seed_sd']:.2f}"
        against = [_mean(over), interval(over["ci95"])]
        rows.append([design, f"{times}x", *_over_twap(own), *against, spread])
        detectable = max(detectable, own["over_TWAP"]["detectable"])
    head = ["method", "budget", "over TWAP", "95 % CI", "specific"]
    head += ["over XS ridge", "95 % CI", "seed SD"]
    small = f"Effects below {detectable:.1f} bps cannot be shown on these days."
    return f"\n### {name} ({some['orders']:,} orders)\n\n{table(head, rows)}\n\n{small}\n"


def _over_twap(row: Mapping[str, Any]) -> list[str]:
    over = row["over_TWAP"]
    return [_mean(over), interval(over["ci95"]), _mean(row["over_TWAP_specific"])]


def _market(share: float, price: bool, done: Done) -> str:
    first = next(iter(done.values()))
    grid = first["grid constant"]
    rows = [_market_row("TWAP", "-", first["TWAP"])]
    rows.append(_market_row("grid constant", grid["schedule"], grid))
    for key in sorted(done, key=lambda key: (not key[3], key[4])):
        start = f"{'grid' if key[3] else 'TWAP'}, {key[4]}x"
        for design in DESIGNS:
            rows.append(_market_row(design, start, done[key][design]))
    head = ["method", "from, budget", "cost", "saved", "95 % CI"]
    head += ["saved", "passive", "forced", "seed SD"]
    title = f"{share:.0%} of volume, {'limit' if price else 'market'} orders"
    return f"\n### {title}\n\n{table(head, rows)}"


def _market_row(name: str, start: str, row: Mapping[str, Any]) -> list[str]:
    return [
        name,
        start,
        f"{row['cost_bps']:.2f}",
        f"{row['saved_bps']:+.2f}",
        interval(row["saved_ci95"]),
        f"{100 * row['saved_share']:+.1f} %",
        f"{row['passive']:.2f}",
        f"{row['forced']:.3f}",
        f"{row['seed_sd']:.2f}" if "seed_sd" in row else "-",
    ]


def _hybrid(done: Done) -> str:
    rows = []
    for (_, worlds), value in done.items():
        row = [worlds]
        for place in (value["static"], value["dynamic"]):
            row += [f"{place['saved_bps']:+.2f}", interval(place["saved_ci95"])]
        alpha = ", ".join(f"{share:.2f}" for share in value["alpha"])
        rows.append([*row, alpha if worlds == "both" else "-"])
    head = ["trained in", "history: over TWAP", "95 % CI", "market: saved", "95 % CI"]
    head.append("alpha at the end, by seed")
    return f"\n\n## Static, dynamic, hybrid\n\n{HYBRID}\n{table(head, rows)}\n"


def _mean(estimate: Mapping[str, Any]) -> str:
    return f"{estimate['mean']:+.2f}"


if __name__ == "__main__":
    main()
