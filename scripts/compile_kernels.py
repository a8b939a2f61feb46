"""Compile the kernels of both worlds once, into numba's cache, before many processes ask for them.

python scripts/compile_kernels.py
"""

from __future__ import annotations

import numpy as np

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.market.simulation import Markets
from se_rl.modules.defaults import Modules
from se_rl.rl.trainer import TrainConfig, train
from se_rl.scoring.execution import ConstantSchedule, execute

if __name__ == "__main__":
    for parallel in (False, True):
        Markets(2, parallel=parallel)
    bars = synthetic_market(SyntheticConfig(symbols=2, sessions=3))
    for world in (StaticWorld(bars, horizon=4), DynamicWorld(horizon=4, bank=16)):
        execute(world, ConstantSchedule(), world.draw(np.random.default_rng(0), 4))
    history = StaticWorld(bars, horizon=4)
    train(Modules(), {"static": history}, TrainConfig(budget=1e-4, samples=64))
