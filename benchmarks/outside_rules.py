"""Rules without learning in markets that others built: plans, and the best simple rules known there.

`baselines/outside.py` has those that the papers published.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from se_rl.baselines.outside import LOT_STRATEGIES, QUEUE_STRATEGIES, Rule, submit_and_leave
from se_rl.baselines.schedules import almgren_chriss_inventory
from se_rl.environments.outside.lot_world import DECISIONS, PLACES, LotWorld
from se_rl.environments.outside.queue_reactive_world import UNITS, QueueReactiveWorld
from se_rl.environments.outside.task import OutsideWorld
from se_rl.market.outside.lot_numbers import FIRST_ASK, FIRST_BID

MARKET = 0
"""The place of what is sold at once."""
PUBLISHED = {
    (strategy.market, strategy.name): strategy.rule
    for strategy in (*QUEUE_STRATEGIES, *LOT_STRATEGIES)
    if strategy.rule is not None
}


def almgren_chriss(urgency: float) -> Rule:
    """At market down to what the plan has left after each decision."""

    def rule(world: OutsideWorld) -> None:
        after = almgren_chriss_inventory(world.horizon, urgency)[world.step_index + 1]
        order = world.order if isinstance(world, LotWorld) else UNITS
        wanted = np.maximum(world.remaining - np.rint(after * order).astype(np.int64), 0)
        if isinstance(world, LotWorld):
            shares = np.zeros((len(wanted), PLACES))
            shares[:, MARKET] = wanted / np.maximum(world.remaining, 1)
            world.spread(shares)
        else:
            assert isinstance(world, QueueReactiveWorld)
            world.buy(wanted)

    return rule


def constant_offers(*, tenths: float, ticks: int, enforced: float) -> Rule:
    """So many tenths of the order at `ticks` above the bid, after what is behind this share of an
    even schedule is sold at market.
    """

    def rule(world: OutsideWorld) -> None:
        assert isinstance(world, LotWorld)
        left = world.remaining.astype(np.float64)
        due = enforced * world.order * world.step_index / DECISIONS
        at_market = np.clip(due - (world.order - left), 0.0, left)
        lots = np.zeros((len(left), PLACES))
        lots[:, MARKET] = at_market
        lots[:, ticks] = np.minimum(tenths * world.order / DECISIONS, left - at_market)
        world.spread(lots / np.maximum(left, 1.0)[:, None])

    return rule


def sell_the_fall(world: OutsideWorld) -> None:
    """All at market once the mid is below where the market opened, else wait."""
    assert isinstance(world, LotWorld)
    shares = np.zeros((len(world.remaining), PLACES))
    fallen = world.best_bid + world.best_ask < FIRST_BID + FIRST_ASK
    shares[fallen, MARKET] = 1.0
    world.spread(shares)


BEST_RULES: Mapping[str, tuple[str, Rule]] = {
    "qrm": ("50 % of the best queue every 2nd time", PUBLISHED["qrm", "50 % every 2nd time"]),
    "cw-noise-20": ("submit and leave", submit_and_leave),
    "cw-noise-60": (
        "all offered 2 ticks above the bid, 80 % of an even schedule enforced",
        constant_offers(tenths=10.0, ticks=2, enforced=0.8),
    ),
    "cw-tactical-20": ("a tenth offered at every decision", PUBLISHED["cw-tactical-20", "TWAP"]),
    "cw-tactical-60": (
        "a tenth offered 1 tick above the bid, an even schedule enforced",
        constant_offers(tenths=1.0, ticks=1, enforced=1.0),
    ),
    "cw-strategic-20": ("all at market when the mid has fallen, else wait", sell_the_fall),
    "cw-strategic-60": ("all at market when the mid has fallen, else wait", sell_the_fall),
}
"""The best rule known in each market, in words, and how it acts."""
