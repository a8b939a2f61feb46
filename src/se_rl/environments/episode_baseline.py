"""What an episode of the simulated market would be without the policy: nobody in it, and TWAP."""

from __future__ import annotations

from copy import copy

import numpy as np

from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.episode_bank import Baseline
from se_rl.environments.worlds import Bool, Episodes, Fields
from se_rl.market.profile import FIXED


def simulate_baseline(core: DynamicCore, traded: Episodes, idle: Episodes) -> Baseline:
    """TWAP in the books of `traded`, nobody in those of `idle`.

    These are the same books, or their first half for both. The core's own orders are lost.
    """
    core = copy(core)
    core.inputs = ()
    steps = traded.orders.horizon
    mid, news, idle_broken = _simulate_idle(core, idle)
    core.reset(traded.orders, seeds=traded.seeds)
    fill = np.empty((len(traded), steps), np.float32)
    left = np.empty((len(traded), steps), np.float32)
    for step in range(steps):
        core.step(np.full(len(traded), 1.0 / (steps - step)))
        fill[:, step] = core.fill_price / core.arrival - 1.0
        left[:, step] = core.remaining / core.orders.quantity
    copies = len(traded) // len(idle)
    void = core.broken | np.tile(np.repeat(idle_broken, core.agents), copies)
    order_mid = np.tile(np.repeat(mid[:, 1:], core.agents, axis=0), (copies, 1))
    fill[void] = order_mid[void]
    left[void] = 1.0 - np.arange(1, steps + 1) / steps
    return Baseline(mid, news, fill, left, void)


def _simulate_idle(core: DynamicCore, idle: Episodes) -> tuple[Fields, Fields, Bool]:
    """Mids and news [book, step + 1] with nobody executing, as moves from the arrival price.

    And the books that broke.
    """
    core.reset(idle.orders, seeds=idle.seeds)
    arrival = core.arrival[:: core.agents]
    news_before = core.books.news_ticks
    bars = core.books.run_without_orders()
    moves = core.price(bars["close"] / 2.0) / arrival - 1.0
    tick = core.script.reference * core.script.tick / arrival
    news = (bars["news"] / FIXED - news_before) * tick
    start = np.zeros((1, len(arrival)))
    mid_path = np.concatenate([start, moves]).T.astype(np.float32)
    news_path = np.concatenate([start, news]).T.astype(np.float32)
    return mid_path, news_path, core.markets.broken.copy()
