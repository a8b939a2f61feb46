"""The same order in a simulated order book, all at once and in slices: what haste costs.

python examples/move_a_market.py
"""

from __future__ import annotations

import numpy as np

from se_rl import DynamicVectorEnv, ExecutionEnvConfig

STEPS = 20


def cost(env: DynamicVectorEnv, ratios: list[float]) -> float:
    """Mean price advantage in bps, over all markets, of trading these shares of what is left."""
    env.reset(seed=0)
    for ratio in ratios:
        *_, info = env.step(np.full((env.num_envs, 1), ratio, np.float32))
    return float(np.nanmean(info["PA"]))


def main(markets: int = 256) -> None:
    """Execute both ways in the same markets."""
    config = ExecutionEnvConfig(total_time=STEPS, transaction_cost=0.0, participation=0.1)
    env = DynamicVectorEnv(None, config, num_envs=markets)
    slices = [1.0 / (STEPS - step) for step in range(STEPS)]
    at_once = [1.0] + [0.0] * (STEPS - 1)
    print(f"in {STEPS} slices: {cost(env, slices):+.2f} bps against the market's VWAP")
    print(f"all at once:   {cost(env, at_once):+.2f} bps")


if __name__ == "__main__":
    main()
