"""What one call of a policy costs: an order executed bar by bar, as docs/deploy.md shows it.

    python benchmarks/act_cost.py RUN [--symbols 100] [--sessions 60] [--calls 40]

The bars are synthetic, of one minute. Before each call the frame is cut at the bar that opens, as a
feed would hand it over; the clock runs for the call alone.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from se_rl.core.deploy import LoadedPolicy, UnlikeTraining, load_policy
from se_rl.core.parent_order import ParentOrder
from se_rl.data.synthetic import SyntheticConfig, synthetic_market

FIRST_BAR = 30


@dataclass(frozen=True)
class ActCost:
    """Milliseconds of the first call of an order, and of each call after it."""

    rows: int
    first: float
    later: tuple[float, ...]

    @property
    def line(self) -> str:
        """The figures in one line."""
        middle, most = np.quantile(self.later, (0.5, 0.95))
        return (
            f"{self.rows:,} rows: first call {self.first:.0f} ms; {len(self.later)} calls after it "
            f"{middle:.1f} ms in the middle, {most:.1f} ms at the 95th percentile"
        )


def act_cost(policy: LoadedPolicy, bars: pd.DataFrame, calls: int) -> ActCost:
    """An order's first calls, in the first symbol of some bars, half an hour after the open."""
    horizon = policy.origin.horizons[0]
    own = bars[bars["symbol"] == bars["symbol"].iloc[0]]
    today = own[own["timestamp"] >= own["timestamp"].max().normalize()]
    start = today["timestamp"].iloc[FIRST_BAR]
    order = ParentOrder(
        "sell",
        0.05 * horizon * float(own["volume"].mean()),
        horizon,
        symbol=own["symbol"].iloc[0],
        start=start,
    )
    taken: list[float] = []
    while not order.is_over and len(taken) < calls:
        passed = pd.Timedelta(minutes=policy.origin.bars.bar_minutes * len(taken))
        known = bars[bars["timestamp"] < start + passed]
        asked = time.perf_counter()
        action = policy.act(known, order)
        taken.append(1e3 * (time.perf_counter() - asked))
        order = order.after(action.shares)
    return ActCost(len(known), taken[0], tuple(taken[1:]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure with all sessions in the frame, and with those that docs/deploy.md passes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--calls", type=int, default=40)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UnlikeTraining)
    made = synthetic_market(SyntheticConfig(symbols=given.symbols, sessions=given.sessions, seed=0))
    for sessions in sorted({min(7, given.sessions), given.sessions}):
        bars = made.select(dates=made.dates[-sessions:]).to_frame()
        with load_policy(given.run) as policy:
            cost = act_cost(policy, bars, given.calls)
        print(f"{given.symbols} symbols, {sessions} sessions, {cost.line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
