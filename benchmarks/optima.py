"""PPO against known optima: what its policy costs over the closed form, in three worlds.

    python benchmarks/optima.py [--json] [--seeds 5] [--only NAME]

One thread, one block of settings for all worlds. `ratio` is cost / optimum, so 1 is perfect;
`seconds` count training and measuring. In Bertsimas-Lo the optimum may sell back what it bought,
which no policy with ratios in [0, 1] can: `constrained_ratio` is the best that such a policy could
reach.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from se_rl.environments.closed_forms import CLOSED_FORMS, BertsimasLo, ClosedForm, Observation
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules, TwoLayers
from se_rl.rl.trainer import TrainConfig, Trained, train

BARS = {"almgren_chriss": 1.01, "obizhaeva_wang": 1.02, "bertsimas_lo": 1.02}


@dataclass(frozen=True)
class TunedNetwork:
    """The default network with learning constants of its own, as any design may set them.

    Whole returns (lambda 1): these worlds have little noise, and a first block pays only many steps
    later. Wide first noise and a small bonus for keeping it: narrowed early, a policy stops short
    of the corners that Bertsimas-Lo needs.
    """

    learning_rate: float = 1e-3
    exploration: float = 1.0
    gae_lambda: float = 1.0
    entropy_bonus: float = 0.003

    def __call__(self, obs_dim: int, history: int) -> nn.Module:
        return TwoLayers(obs_dim, history)


MODULES = Modules(reward=lambda step: step.reward, network=TunedNetwork())
CONFIG = TrainConfig(budget=6.0)


def policy_cost(world: ClosedForm, trained: Trained) -> float:
    """Expected cost of the policy without its noise."""
    runner = trained.runner("static")

    def rule(observation: Observation, steps_left: int) -> np.ndarray:
        if steps_left == world.horizon:
            runner.start(len(observation), world.horizon)
        return runner.act(observation)[0]

    return world.cost_of(rule).mean


def measure(name: str, *, seeds: int) -> dict[str, Any]:
    """Train and measure with each seed."""
    world = CLOSED_FORMS[name]()
    ratios = []
    seconds = []
    for seed in range(seeds):
        start = time.perf_counter()
        # Training asks a world for no record of its fills, and this one keeps none.
        trained = train(MODULES, {"static": cast(World, world)}, CONFIG, seed=seed)
        if trained.reason:
            print(f"{name}, seed {seed}: {trained.reason}", file=sys.stderr)
        ratios.append(round(policy_cost(world, trained) / world.optimum(), 5))
        seconds.append(round(time.perf_counter() - start, 2))
        print(f"... {name}, seed {seed}: {ratios[-1]:.4f} in {seconds[-1]:.1f} s", file=sys.stderr)
    result = {
        "ratio": ratios,
        "seconds": seconds,
        "bar": BARS[name],
        "optimum": round(world.optimum(), 6),
    }
    result["twap_ratio"] = round(world.twap_cost() / world.optimum(), 5)
    if isinstance(world, BertsimasLo):
        result["constrained_ratio"] = round(world.constrained_optimum() / world.optimum(), 5)
    return result


def main() -> None:
    """Measure the worlds asked for and print JSON or a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0")
    parser.add_argument("--only", choices=sorted(CLOSED_FORMS), help="one world alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = [arguments.only] if arguments.only else list(CLOSED_FORMS)
    results = {name: measure(name, seeds=arguments.seeds) for name in names}
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{'world':16}{'bar':>7}{'worst':>9}{'mean':>9}{'TWAP':>9}{'slowest':>10}")
    for name, row in results.items():
        mean = float(np.mean(row["ratio"]))
        ratios = f"{max(row['ratio']):9.4f}{mean:9.4f}{row['twap_ratio']:9.4f}"
        print(f"{name:16}{row['bar']:7.2f}{ratios}{max(row['seconds']):8.1f} s")


if __name__ == "__main__":
    main()
