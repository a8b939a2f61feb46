"""The inner loop on a GPU, beside all cores of the same machine: `docs/results/gpu.md`.

    python -m se_rl_benchmarks.gpu_tables [--out docs/results]

Both sides do the same trainings of the default design with the same seeds: one process per core on
the CPU, all at once on the GPU. Data, episodes and compiled code are made before the clocks start.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.modules.defaults import Modules
from se_rl.records.files import to_json
from se_rl.rl.policy import Neutral
from se_rl.rl.trained import Trained
from se_rl.rl.trainer import TrainConfig, train
from se_rl.rl.training_worlds import TrainingWorlds, TrainingWorldsConfig, make_worlds
from se_rl.rl.world_sampler import orders_of_batch
from se_rl_benchmarks.bench_market import bench_market
from se_rl_benchmarks.markdown_tables import table

THREADS, CORES, CUDA = SIDES = ("threads", "cores", "cuda")
"""Markets on all threads; trainings, one process per core; both on the GPU."""
DATA = SyntheticConfig(symbols=20, sessions=40)
WORLDS = TrainingWorldsConfig(bank=1024)
NEUTRAL = {"dynamic": Neutral(multiple=1.5, offset=1.0)}
WARM_UP = 0.2
"""Work of the trainings that load and compile all there is."""


class Call(NamedTuple):
    """Trainings in some worlds: their work, and how many are run at once on the GPU."""

    worlds: tuple[str, ...]
    work: float
    at_once: int


CALLS = {
    "static": Call(("static",), 1.2, 256),
    "dynamic": Call(("dynamic",), 1.2, 256),
    "both": Call(("static", "dynamic"), 3.6, 128),
}


@dataclass(frozen=True)
class GpuFigures:
    """Trainings of one side in one kind of world: their wall seconds, steps and last scores."""

    side: str
    worlds: str
    work: float
    trainings: int
    seconds: float
    order_steps: int
    scores: tuple[float, ...]
    """On held-back orders, by seed, in bps."""
    machine: str

    @property
    def steps_per_second(self) -> float:
        """Order steps of rollout, reward, advantages, update and judging."""
        return self.order_steps / self.seconds

    @property
    def per_minute(self) -> float:
        """Trainings a minute."""
        return 60.0 * self.trainings / self.seconds


def all_worlds() -> TrainingWorlds:
    """Worlds of the default settings on synthetic bars, every simulated episode known."""
    made = make_worlds(Modules(), WORLDS, data=synthetic_market(DATA))
    for world in made.train["dynamic"]:
        assert isinstance(world, DynamicWorld)
        world.filled_bank()
    return made


def some_worlds(made: TrainingWorlds, names: Sequence[str]) -> TrainingWorlds:
    """Those of these names alone."""
    train = {name: made.train[name] for name in names}
    return TrainingWorlds(train, {name: made.held_back[name] for name in names})


class Ended(NamedTuple):
    """What is kept of a training: its batches, and its last score on held-back orders."""

    batches: int
    score: float

    @classmethod
    def of(cls, trained: Trained) -> Ended:
        """Refused where it ended early."""
        if trained.reason is not None:
            raise RuntimeError(trained.reason)
        judged = [row.held_back for row in trained.curve if np.isfinite(row.held_back)]
        batches = sum(len(row.rewards) for row in trained.curve)
        return cls(batches, judged[-1] if judged else float("nan"))


def on_cuda(worlds: TrainingWorlds, seeds: Sequence[int], work: float) -> list[Ended]:
    """All seeds at once on the GPU."""
    from se_rl.rl.on_device.together import train_together

    trained = train_together(
        [Modules()] * len(seeds),
        worlds.train,
        TrainConfig(budget=work),
        seeds=seeds,
        neutral=NEUTRAL,
        held_back=worlds.held_back,
    )
    return [Ended.of(one) for one in trained]


def on_cores(worlds: TrainingWorlds, seeds: Sequence[int], work: float) -> list[Ended]:
    """One process per core, forked with the worlds in it."""
    global _ALONE
    _ALONE = partial(_alone, worlds, work)
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        return pool.map(_forked, seeds, chunksize=1)


_ALONE: Callable[[int], Ended]


def _forked(seed: int) -> Ended:
    return _ALONE(seed)


def _alone(worlds: TrainingWorlds, work: float, seed: int) -> Ended:
    config = TrainConfig(budget=work)
    trained = train(
        Modules(), worlds.train, config, seed=seed, neutral=NEUTRAL, held_back=worlds.held_back
    )
    return Ended.of(trained)


def figures(side: str, which: str, made: TrainingWorlds) -> GpuFigures:
    """Train and take the time; short trainings first."""
    call = CALLS[which]
    worlds = some_worlds(made, call.worlds)
    seeds = range(call.at_once if side == CUDA else 2 * (os.cpu_count() or 1))
    if side == CUDA:
        on_cuda(worlds, seeds, WARM_UP)
    else:
        _alone(worlds, WARM_UP, 0)
    started = time.perf_counter()
    found = (on_cuda if side == CUDA else on_cores)(worlds, seeds, call.work)
    seconds = time.perf_counter() - started
    batch = orders_of_batch(TrainConfig().samples, 240, 1) * 240  # of other horizons a few more
    steps = batch * sum(one.batches for one in found)
    scores = tuple(one.score for one in found)
    return GpuFigures(side, which, call.work, len(found), seconds, steps, scores, _machine(side))


def _machine(side: str) -> str:
    """What the figures are of."""
    cores = f"{os.cpu_count()} cores"
    return f"{torch.cuda.get_device_name(0)} beside {cores}" if side == CUDA else cores


def market_rate(side: str) -> float:
    """Order messages a second of whole markets."""
    if side == "cuda":
        found = bench_market(device="cuda")
        if not found.detail["equal to the CPU bit for bit"]:
            raise RuntimeError("the GPU's markets are not the CPU's")
        return found.value
    detail = bench_market().detail
    return float(str(detail[f"{os.cpu_count()} threads"]))


def measure(side: str, out: Path) -> None:
    """Write the figures of a side to its file, a line of JSON for each as it comes."""
    with (out / f"gpu_{side}.jsonl").open("w") as file:
        if side != CORES:
            print(json.dumps({"market": market_rate(side)}), file=file, flush=True)
        if side != THREADS:
            made = all_worlds()
            for which in CALLS:
                print(json.dumps(asdict(figures(side, which, made))), file=file, flush=True)


def measure_all(out: Path) -> None:
    """Every side in a process of its own: forks, threads and a GPU's driver do not go together."""
    for side in SIDES:
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        if side != THREADS:
            environment["NUMBA_NUM_THREADS"] = "1"
        command = [sys.executable, "-m", "se_rl_benchmarks.gpu_tables"]
        subprocess.run([*command, "--side", side, "--out", str(out)], env=environment, check=True)


def read_figures(folder: Path) -> tuple[dict[str, float], list[GpuFigures]]:
    """What all sides wrote: order messages a second by side, and their trainings."""
    rates, found = {}, []
    for side in SIDES:
        for line in map(json.loads, (folder / f"gpu_{side}.jsonl").read_text().splitlines()):
            if "market" in line:
                rates[side] = line["market"]
            else:
                found.append(GpuFigures(**line | {"scores": tuple(line["scores"])}))
    return rates, found


def page(rates: dict[str, float], found: Sequence[GpuFigures]) -> str:
    """The tables as Markdown."""
    rows = [_beside("markets alone: order messages/s", rates[THREADS], rates[CUDA])]
    by_side = {(one.side, one.worlds): one for one in found}
    agreement = []
    for which, call in CALLS.items():
        cores, cuda = by_side[CORES, which], by_side[CUDA, which]
        title = f"{which}, {call.work:g} work units, {call.at_once} at once"
        rows.append(
            _beside(f"{title}: order steps/s", cores.steps_per_second, cuda.steps_per_second)
        )
        rows.append(_beside(f"{title}: trainings a minute", cores.per_minute, cuda.per_minute))
        agreement.append([which, *_agreement(cores.scores, cuda.scores)])
    speed = table(["what", "all cores", "GPU", "ratio"], rows)
    head = ["worlds", "seeds", "cores", "spread of seeds", "GPU", "mean difference"]
    return (
        "# The inner loop on a GPU\n\n"
        f"`python -m se_rl_benchmarks.gpu_tables` on {by_side[CUDA, 'both'].machine}: trainings of "
        "the default design on synthetic bars (20 symbols, 40 days) in the worlds of the default "
        "settings, one process per core on the CPU, all at once on the GPU, and whole markets of the "
        "default profile (`se-rl bench market`), equal to the last bit. Steps count rollout, "
        f"reward, advantages, update and judging.\n\n{speed}\n\n"
        "Scores on held-back orders of trainings with the same seeds, in bps; the mean difference "
        "has two standard errors. Both sides draw the same numbers and differ in the last bits of "
        f"sums, which a training makes larger.\n\n{table(head, agreement)}\n"
    )


def _beside(name: str, cores: float, cuda: float) -> list[str]:
    return [name, f"{cores:,.0f}", f"{cuda:,.0f}", f"{cuda / cores:.1f}"]


def _agreement(cores: Sequence[float], cuda: Sequence[float]) -> list[str]:
    count = min(len(cores), len(cuda))
    ours, theirs = np.array(cores[:count]), np.array(cuda[:count])
    apart = theirs - ours
    error = 2.0 * apart.std(ddof=1) / np.sqrt(count)
    numbers = [f"{ours.mean():.2f}", f"{ours.std(ddof=1):.2f}", f"{theirs.mean():.2f}"]
    return [str(count), *numbers, f"{apart.mean():+.2f} +- {error:.2f}"]


def main() -> None:
    """Measure all sides, or read what they measured, and write page and JSON."""
    parser = argparse.ArgumentParser(description="the inner loop on a GPU beside all cores")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--side", choices=SIDES, help="measure one side alone, and write no page")
    parser.add_argument("--measured", type=Path, help="the folder of sides measured one by one")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.side:
        measure(options.side, options.out)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.measured or Path(scratch)
        if not options.measured:
            measure_all(folder)
        rates, found = read_figures(folder)
    content = {"market": rates, "trainings": [asdict(one) for one in found]}
    (options.out / "gpu.json").write_text(to_json(content) + "\n")
    (options.out / "gpu.md").write_text(page(rates, found))


if __name__ == "__main__":
    main()
