"""Train the default design on earlier days, and hold it against TWAP on later ones.

python examples/train_a_policy.py
"""

from __future__ import annotations

import numpy as np

from se_rl import (
    Modules,
    StaticWorld,
    SyntheticConfig,
    TrainConfig,
    execute,
    synthetic_market,
    train,
)

WORK = 1.0  # work units: about a second each on one core


def main(work: float = WORK, orders: int = 1000) -> None:
    """Train, then execute orders on days that the training did not see."""
    bars = synthetic_market(SyntheticConfig(symbols=10, sessions=30))
    past = StaticWorld(bars, horizon=60, dates=bars.dates[:20])
    later = StaticWorld(bars, horizon=60, dates=bars.dates[20:], scales=past.scales)
    trained = train(Modules(), {"static": past}, TrainConfig(budget=work), seed=0)
    drawn = later.draw(np.random.default_rng(0), orders)
    gain = execute(later, trained.runner("static"), drawn).over_twap()
    print(f"over TWAP on later days: {gain.mean:+.2f} ± {gain.se:.2f} bps")


if __name__ == "__main__":
    main()
