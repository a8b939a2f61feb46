"""What the simulated markets have to offer: TWAP, the best constant, the ceiling, the default.

    python benchmarks/ceiling.py [--policy FILE] [--generations 100] [--processes 1]
        [--ceilings docs/results/ceiling.json]

A cell is a size of order, a profile of the family, and a free market or a twin. In each one an
evolution strategy looks for the best linear and the best small tanh policy of the observations; the
better of the two, chosen on the grid's episodes, is the ceiling. The default is the default design
trained in both worlds, of all kinds and sizes at once: `--policy` hands one in, else it is trained
here. Everything is measured on episodes that nobody searched or trained on.

Writes docs/results/ceiling.md and ceiling.json. What is finished is kept in `--folder`: a second
call goes on where the first one stopped. `--ceilings` takes constants and ceilings from an earlier
table, if the markets are still the same, and measures the default alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from se_rl.baselines.passive_grid import best_constant
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import World
from se_rl.market.family import FAMILY, MarketKind
from se_rl.modules.defaults import Modules
from se_rl.records.files import write_text
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import read_policy, save_policy
from se_rl.rl.trainer import TrainConfig, train
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl_benchmarks.ceiling_cells import (
    HORIZON,
    SEED,
    Cell,
    CellOutcome,
    Found,
    entries,
    measure,
    measure_default,
    search,
)
from se_rl_benchmarks.evolution_strategy import Strategy
from se_rl_benchmarks.markdown_tables import line

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "docs" / "results"
NEIGHBOURS = {0.10: None, 0.05: 0.10, 0.02: 0.05, 0.20: 0.10, 0.30: 0.20}
"""The sizes of order in the order of their search, and whose weights each begins with."""
HISTORY_BARS = 240
WORK = 36.0
"""Of the default's training: ten times the search's first rung at `standard`."""
ASKED_AT = 0.10
ASKED_DISTANCE = 0.12
ASKED_REACHED = 0.8
ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
HEAD = """# What there is to gain in the simulated markets

Made by `python benchmarks/ceiling.py`; do not edit. Bps saved against TWAP by market orders, on
orders that no search and no training saw. The constant is the best one of that very cell; the
ceiling is what an evolution strategy finds with a linear or small tanh policy of the observations:
what can surely be had, not the most that could be had. Distance: how far the ceiling lies above the
constant, as a share of TWAP's cost. Reached: how much of it the default gets, trained with
{budget:g} work units in both worlds on orders of all sizes and markets of all kinds at once. Errors
are those of the gain over the constant, by book.
"""


def train_default(data: MarketData, path: Path, budget: float) -> None:
    """The default design in both worlds: history, and simulated markets of all kinds and sizes."""
    torch.set_num_threads(1)
    kinds: list[MarketKind] = []
    for name, profile in FAMILY.items():
        kinds += [MarketKind(name, profile), MarketKind(name, profile, twin=True)]
    dynamic = DynamicWorld(
        data, kinds=kinds, horizon=HORIZON, takes_price=True, limit_unit="volatility", seed=1
    )
    static = StaticWorld(data, horizon=HISTORY_BARS)
    constant = best_constant([dynamic], np.random.default_rng(0), episodes=512)
    neutral = {"dynamic": Neutral(constant.multiple, constant.offset)}
    worlds: dict[str, World | tuple[World, ...]] = {"static": static, "dynamic": dynamic}
    trained = train(Modules(), worlds, TrainConfig(budget=budget), neutral=neutral)
    save_policy(path, trained, design={}, facts={})


def cells() -> list[Cell]:
    """All of them, market by market."""
    found: list[Cell] = []
    for profile in FAMILY:
        for kind in ("free", "twin"):
            found += [Cell(share, profile, kind) for share in NEIGHBOURS]
    return found


@dataclass(frozen=True)
class _Job:
    """The cells of a market, for a process of its own, and where to keep what is found."""

    profile: str
    kind: str
    data: MarketData
    strategy: Strategy
    folder: Path
    policy: Path
    known: Mapping[Cell, CellOutcome]

    def run(self) -> str:
        """Search and measure what is not kept yet, each size from the weights of its neighbour."""
        default = read_policy(self.policy, Modules())[0].runner("dynamic")
        if self.known:
            for share in NEIGHBOURS:
                cell = Cell(share, self.profile, self.kind)
                outcome = measure_default(cell, self.data, self.known[cell], default)
                path = measured_path(cell, self.folder, self.policy)
                write_text(path, json.dumps(asdict(outcome)))
            return f"{self.profile}, {self.kind}"
        for share, neighbour in NEIGHBOURS.items():
            cell = Cell(share, self.profile, self.kind)
            near = None if neighbour is None else Cell(neighbour, self.profile, self.kind)
            self._search(cell, near)
        for share in NEIGHBOURS:
            cell = Cell(share, self.profile, self.kind)
            path = measured_path(cell, self.folder, self.policy)
            if not path.exists():
                outcome = measure(cell, self.data, self._kept(cell), default)
                write_text(path, json.dumps(asdict(outcome)))
        return f"{self.profile}, {self.kind}"

    def _search(self, cell: Cell, near: Cell | None) -> None:
        path = self.folder / cell.file_name
        if not path.exists():
            start = None if near is None else self._kept(near)
            found = search(cell, self.data, self.strategy, start)
            write_text(path, json.dumps(asdict(found)))

    def _kept(self, cell: Cell) -> Found:
        return Found(**json.loads((self.folder / cell.file_name).read_text()))


def measured_path(cell: Cell, folder: Path, policy: Path) -> Path:
    """Where a cell's outcome is kept; it holds the default's too."""
    return folder / f"{policy.stem}_{cell.file_name}"


def read_ceilings(path: Path) -> dict[Cell, CellOutcome]:
    """The cells of an earlier table."""
    found = {}
    for row in json.loads(path.read_text())["cells"]:
        outcome = CellOutcome(**row)
        found[Cell(outcome.participation, outcome.profile, outcome.kind)] = outcome
    return found


def find_all(data: MarketData, policy: Path, options: argparse.Namespace) -> list[CellOutcome]:
    """Every cell, as many markets at a time as there are processes."""
    strategy = Strategy(generations=options.generations)
    known = read_ceilings(options.ceilings) if options.ceilings else {}
    jobs: list[_Job] = []
    for profile in FAMILY:
        for kind in ("free", "twin"):
            jobs.append(_Job(profile, kind, data, strategy, options.folder, policy, known))
    world = Cell(0.10, next(iter(FAMILY)), "free").world(data, books=4)
    execute(world, ConstantSchedule(), entries(world, 0, 2))  # compiles before the fork
    started = time.monotonic()
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for market in pool.imap_unordered(_Job.run, jobs, chunksize=1):
            seconds = time.monotonic() - started
            print(f"{seconds:.0f} s: {market}", file=sys.stderr, flush=True)
    outcomes: list[CellOutcome] = []
    for cell in sorted(cells(), key=lambda cell: (cell.profile, cell.kind, cell.participation)):
        text = measured_path(cell, options.folder, policy).read_text()
        outcomes.append(CellOutcome(**json.loads(text)))
    return outcomes


def table(outcomes: Sequence[CellOutcome]) -> list[str]:
    """One row per cell."""
    head = [
        "market",
        "size",
        "TWAP costs",
        "constant",
        "ceiling",
        "±",
        "distance",
        "default",
        "±",
        "reached",
    ]
    lines = [line(head), "|---|" + "--:|" * (len(head) - 1)]
    for row in outcomes:
        distance = row.ceiling - row.constant
        cells = [
            row.market,
            f"{row.participation:.0%}",
            f"{row.twap_cost:.2f}",
            f"{row.constant:.2f}",
        ]
        cells += [f"{row.ceiling:.2f}", f"{row.se:.2f}", f"{distance / row.twap_cost:.1%}"]
        cells += [f"{row.default:.2f}", f"{row.default_se:.2f}", f"{row.reached:.0%}"]
        lines.append(line(cells))
    return lines


def bars(outcomes: Sequence[CellOutcome]) -> list[str]:
    """What was asked of the markets and of the default, and what was seen."""
    lines = ["", f"## At {ASKED_AT:.0%} of volume, and in all cells", ""]
    for row in outcomes:
        if row.participation != ASKED_AT:
            continue
        distance = row.ceiling - row.constant
        share = distance / row.twap_cost
        words = f"- {row.market}: the ceiling lies {share:.1%} ± {row.se / row.twap_cost:.1%} of"
        words += f" TWAP's cost above the constant (asked {ASKED_DISTANCE:.0%});"
        words += f" the default reaches {row.reached:.0%} of it (asked {ASKED_REACHED:.0%})."
        lines.append(words)
    behind = [row for row in outcomes if row.default <= row.constant]
    surely = [row for row in outcomes if row.default - row.constant > 2.0 * row.default_se]
    names = ", ".join(f"{row.market} {row.participation:.0%}" for row in behind) or "none"
    lines.append(
        f"- The default is ahead of the cell's own best constant in "
        f"{len(outcomes) - len(behind)} of {len(outcomes)} cells, beyond two errors in "
        f"{len(surely)}; behind in: {names}."
    )
    return lines


def main() -> None:
    """Search, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--policy", type=Path, help="policy file of the default design")
    parser.add_argument("--ceilings", type=Path, help="an earlier table: measure the default alone")
    parser.add_argument("--budget", type=float, default=WORK)
    parser.add_argument("--generations", type=int, default=Strategy().generations)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "out" / "ceiling")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    data = synthetic_market(SyntheticConfig(symbols=10, sessions=20, seed=SEED))
    policy = options.policy or options.folder / f"default_{options.budget:g}.safetensors"
    if not policy.exists():
        train_default(data, policy, options.budget)
    outcomes = find_all(data, policy, options)
    lines = [*table(outcomes), *bars(outcomes)]
    print("\n".join(lines))
    head = HEAD.format(budget=options.budget)
    write_text(RESULTS / "ceiling.md", "\n".join([head, *lines, ""]))
    whole = {"cells": [asdict(row) for row in outcomes], "work": options.budget}
    write_text(RESULTS / "ceiling.json", json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    # one process per core, every library on one thread: they read this when they are loaded
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
