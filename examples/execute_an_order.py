"""One order on your own bars, bar by bar: sell 5,000 shares in an hour, as TWAP would.

python examples/execute_an_order.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from se_rl import ExecutionEnvConfig, StaticEnvironment

BARS = Path(__file__).with_name("bars.csv")
STEPS = 12  # bars of five minutes


def main() -> None:
    """Execute it and print what every bar did."""
    bars = pd.read_csv(BARS, parse_dates=["timestamp"])
    config = ExecutionEnvConfig(initial_inventory=5000, total_time=STEPS, transaction_cost=0.0002)
    env = StaticEnvironment(bars, config, render_mode="human")
    _, order = env.reset(seed=0, options={"side": "sell", "start": 6})
    print(f"selling {order['symbol']} on {order['session']}")
    for step in range(STEPS):
        ratio = 1.0 / (STEPS - step)  # an equal slice of what is left
        *_, info = env.step(np.array([ratio]))
    print(f"PA {info['PA']:+.2f} bps against the window's {order['benchmark'].upper()}")


if __name__ == "__main__":
    main()
