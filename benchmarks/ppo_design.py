"""One default design trained and scored in both worlds, in a process of its own: time, memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import torch

from se_rl.data.features import FeatureScales
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules
from se_rl.rl.trainer import TrainConfig, train
from se_rl_benchmarks.ppo_contenders import HORIZON, acting, make_data, over_twap


def quick_design(seed: int = 0, *, budget: float = 2.0) -> dict[str, float]:
    """The default design at a small budget in both worlds, scored on fresh orders of both.

    Seconds are those of training and scoring together, with the episodes of the simulated world
    made on the way; data and tables serve many designs and do not count.
    """
    # The environment variable is not enough: the simulator's threads share torch's runtime.
    torch.set_num_threads(1)
    past, later = make_data(seed)
    worlds: dict[str, World] = {
        "static": StaticWorld(past, horizon=HORIZON),
        "dynamic": DynamicWorld(bank=1024, seed=1),
    }
    fresh: tuple[World, World] = (
        StaticWorld(later, horizon=HORIZON, scales=FeatureScales.fit(past)),
        DynamicWorld(bank=256, seed=2),
    )
    wall = time.perf_counter()
    cpu = time.process_time()
    trained = train(Modules(), worlds, TrainConfig(budget=budget), seed=seed)
    result: dict[str, float] = {}
    for world in fresh:
        episodes = world.draw(np.random.default_rng(seed), 512)
        clusters = episodes.orders.row if episodes.seeds is None else episodes.seeds
        act = acting(trained.runner(world.name), world)
        gain, error = over_twap(world, act, episodes, clusters=clusters)
        result[f"gain over TWAP in bps, {world.name}"] = gain
        result[f"its error, {world.name}"] = error
    result["wall seconds"] = time.perf_counter() - wall
    result["CPU seconds"] = time.process_time() - cpu
    result["peak memory in MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def design_in_fresh_process(*, threads: int = 2) -> dict[str, object]:
    """`quick_design` where nothing else has used memory; a tiny one first loads compiled code."""
    code = (
        f"import json; from {__name__} import quick_design as q;"
        " q(budget=0.01); print(json.dumps(q()))"
    )
    limits = {"NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | limits, capture_output=True, text=True
    )
    if done.returncode:
        return {"quick design": f"failed: {done.stderr.strip().splitlines()[-1]}"}
    figures = json.loads(done.stdout)
    return {f"quick design on {threads} threads, {name}": figures[name] for name in figures}
