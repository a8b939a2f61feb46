"""Do further inputs and other actions help? The default network with and without, in simulated markets.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/further_inputs.py [--seeds 3]

Free markets of the usual family alone, equal work, the same scored books for all. Trainings are
kept in out/further_inputs.jsonl, and a call goes on where the last one ended; the page is written
when all are there: docs/results/further_inputs.md and .json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from se_rl.baselines.passive_grid import best_constant
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.executors.training_settings import training_worlds_of
from se_rl.modules.agent_interface import (
    FURTHER_INPUTS,
    USUAL_INTERFACE,
    AgentInterface,
    further_width,
)
from se_rl.modules.defaults import Modules, Network
from se_rl.records.files import write_text
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl.rl.training_worlds import dynamic_worlds, make_worlds
from se_rl.scoring.score import ScoreRule, Scores, contributions, difference
from se_rl.scoring.simulated_orders import SimulatedOrders
from se_rl_benchmarks.markdown_tables import interval, signed, table
from se_rl_benchmarks.real_sets import ROOT

QUEUE = ("own_lots", "lots_ahead")
FLOWS = tuple(name for name in FURTHER_INPUTS if "_flow_" in name)
BOOK = ("deep_queues", "spread_age")
BEFORE = ("book_before",)
DESIGNS = {
    "default": USUAL_INTERFACE,
    "own queue": AgentInterface(QUEUE),
    "flows": AgentInterface(FLOWS),
    "deep book": AgentInterface(BOOK),
    "book before": AgentInterface(BEFORE),
    "book before, flows": AgentInterface((*BEFORE, *FLOWS)),
    "drift": AgentInterface(("drift",)),
    "all inputs": AgentInterface((*QUEUE, *FLOWS, *BOOK, *BEFORE, "drift")),
    "actions ratio": AgentInterface(actions="ratio"),
    "actions slices": AgentInterface(actions="slices"),
}
WORLDS = replace(training_worlds_of(RunConfig()), worlds="dynamic", bank=2048)
RULE = ScoreRule({"static": 0.0, "dynamic": 1.0}, 0.0)
SCORED_SEED = 20_000
KEPT = ROOT / "out" / "further_inputs.jsonl"
OUT = ROOT / "docs" / "results" / "further_inputs.md"
HEAD = """# Further inputs and other actions, in simulated markets

Made by `python benchmarks/further_inputs.py`; do not edit. The default network and reward, trained in
free markets of the usual family alone: {work:g} work units, {seeds} seeds, the same {orders} scored orders
(both sides of {books} books that no training saw) for all. bps saved against TWAP, each cell with
the same weight; 95 % by the jackknife over books and seeds; differences to the default are paired
by seed and book. What an input costs to compute is no part of the work, what it adds to the
network is. {words}
"""


@dataclass(frozen=True)
class Shared:
    """What all trainings have in common: simulated episodes by horizon, and the neutral schedule."""

    banks: Mapping[int, EpisodeBank]
    neutral: Neutral

    @classmethod
    def made(cls) -> Shared:
        """Simulate the episodes, and find the best constant schedule on some of them."""
        worlds = dynamic_worlds(WORLDS)
        banks = {world.horizon: world.filled_bank() for world in worlds}
        best = best_constant(worlds, np.random.default_rng(0))
        return cls(banks, Neutral(best.multiple, best.offset))


def network_of(asked: AgentInterface) -> type[Network]:
    """The default network with another interface."""
    if asked == USUAL_INTERFACE:
        return Network
    return type("Network", (Network,), {"inputs": asked.inputs, "actions": asked.actions})


def trained(asked: AgentInterface, seed: int, work: float, shared: Shared) -> Trained:
    """One training."""
    modules = Modules(network=network_of(asked))
    worlds = make_worlds(modules, WORLDS, data=None, banks=shared.banks)
    return train(
        modules,
        worlds.train,
        TrainConfig(budget=work),
        seed=seed,
        neutral={"dynamic": shared.neutral},
        held_back=worlds.held_back,
    )


def read_kept(work: float, orders: int) -> dict[tuple[str, int], Scores]:
    """Trainings of earlier calls with the same settings."""
    found: dict[tuple[str, int], Scores] = {}
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    for row in map(json.loads, lines):
        if (row["work"], row["orders"]) == (work, orders):
            scores = {name: np.array(values) for name, values in row["scores"].items()}
            found[row["design"], row["seed"]] = scores
    return found


def page(
    found: Mapping[tuple[str, int], Scores], cells: Sequence[str], facts: dict[str, float]
) -> tuple[str, str]:
    """The page and the same as JSON."""
    seeds = range(int(facts["seeds"]))
    default = [found["default", seed] for seed in seeds]
    rows: list[list[str]] = []
    ahead: list[str] = []
    whole: dict[str, dict[str, float | list[float]]] = {}
    for name, asked in DESIGNS.items():
        own = [found[name, seed] for seed in seeds]
        saved = contributions(own, RULE, cells=cells).estimate()
        over = difference(own, default, RULE, cells=cells).estimate()
        row: dict[str, float | list[float]] = {"saved": saved.mean, "ci95": list(saved.ci95)}
        shown = [name, str(further_width(asked.inputs)), signed(saved.mean), interval(saved.ci95)]
        if name != "default":
            row |= {"over": over.mean, "over_ci95": list(over.ci95), "p": over.p_value}
            shown += [signed(over.mean), interval(over.ci95), f"{over.p_value:.2g}"]
            ahead += [name] if over.p_value < 0.05 else []
        rows.append([*shown, "", "", ""][:7])
        whole[name] = row
    head = ("design", "numbers added", "saved", "95 %", "over the default", "95 %", "p")
    words = f"Apart from the default at 5 %: {', '.join(ahead) or 'none of them'}."
    books = facts["orders"] / 2
    text = HEAD.format(**facts, books=int(books), words=words) + "\n" + table(head, rows) + "\n"
    return text, json.dumps({"facts": facts, "designs": whole}, indent=1)


def main() -> None:
    """Train what is missing, then write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=float, default=7.2, help="work units per training")
    parser.add_argument("--seeds", type=int, default=3, help="trainings per design")
    parser.add_argument("--orders", type=int, default=1600, help="scored orders")
    parser.add_argument("--minutes", type=float, default=23.0, help="start nothing after these")
    options = parser.parse_args()
    until = time.monotonic() + 60.0 * options.minutes
    scored = SimulatedOrders(RunConfig(), None, None, seed=SCORED_SEED, orders=options.orders)
    shared = Shared.made()
    found = read_kept(options.work, options.orders)
    KEPT.parent.mkdir(exist_ok=True)
    for seed in range(options.seeds):
        for name, asked in DESIGNS.items():
            if (name, seed) in found or time.monotonic() > until:
                continue
            started = time.process_time()
            made = trained(asked, seed, options.work, shared)
            scores = scored.scores(lambda world, *_, made=made: made.runner(world))
            found[name, seed] = scores
            keep(KEPT, name, seed, options.work, options.orders, scores)
            gained = contributions([scores], RULE, cells=scored.cells).score
            print(
                name, seed, f"{gained:.3f} bps, {time.process_time() - started:.0f} s", flush=True
            )
    if len(found) < options.seeds * len(DESIGNS):
        print(f"{len(found)} trainings are there; call again for the rest")
        return
    facts = {"work": options.work, "seeds": options.seeds, "orders": options.orders}
    text, whole = page(found, scored.cells, facts)
    print(text)
    write_text(OUT, text)
    write_text(OUT.with_suffix(".json"), whole + "\n")


def keep(path: Path, name: str, seed: int, work: float, orders: int, scores: Scores) -> None:
    """Add a training to those that later calls read."""
    row = {"design": name, "seed": seed, "work": work, "orders": orders}
    values = {key: np.round(value, 6).tolist() for key, value in scores.items()}
    with path.open("a") as lines:
        lines.write(json.dumps(row | {"scores": values}) + "\n")


if __name__ == "__main__":
    main()
