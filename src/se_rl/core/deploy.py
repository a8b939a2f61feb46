"""A run's policy in a user's hands: bars so far and an order in, the next trade out.

An action is the one that scoring would have had the policy take on the same bars: the observation
comes from the same formulas, and the policy is asked in the same way. What a call read and showed is
used again by the next where it is the same to the bit, so that a call is quick; an answer does not
depend on it, so a desk may stop and start at any time.
"""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from se_rl.config import ConfigError
from se_rl.core.bar_memory import BarMemory
from se_rl.core.live_bars import LiveBars
from se_rl.core.open_policy import OpenPolicy
from se_rl.core.parent_order import ParentOrder
from se_rl.core.saved_policy import SavedPolicy
from se_rl.environments.fills import TICK
from se_rl.environments.limit_units import whole_ticks
from se_rl.environments.static_core import StaticCore
from se_rl.environments.task import SIDES, Orders
from se_rl.rl.policy_origin import PolicyOrigin

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadedPolicy", "ParentOrder", "PolicyAction", "UnlikeTraining", "load_policy"]

WorldName = Literal["static", "dynamic"]


class UnlikeTraining(UserWarning):
    """A policy is used on something that it was not trained on."""


@dataclass(frozen=True)
class PolicyAction:
    """The trade of the next bar: `share` of what is left, which is `shares`.

    `limit` is its price; None where the policy trades at market. `offset_ticks` is how far the
    limit lies from the own-side touch, positive on the passive side.
    """

    share: float
    shares: float
    limit: float | None
    offset_ticks: float


class LoadedPolicy:
    """A policy that can be asked what to do next; use it in a `with` block, or `close()` it.

    `origin` says what it was trained on and for.
    """

    def __init__(self, saved: SavedPolicy, origin: PolicyOrigin, *, world: WorldName) -> None:
        self.origin = origin
        self.world = world
        self._saved = saved
        self._bars = BarMemory(origin)
        self._policy = OpenPolicy(saved, world)
        self._end = weakref.finalize(self, _end, self._policy, saved)
        self._warned: set[str] = set()

    @property
    def name(self) -> str:
        """The design's name."""
        return self._saved.name

    @property
    def path(self) -> Path:
        """The file that it was loaded from."""
        return self._saved.path

    @property
    def sources(self) -> dict[str, str]:
        """The source of each module that was designed; those not named here are the default's."""
        return dict(self._saved.facts.get("design") or {})

    @property
    def takes_price(self) -> bool:
        """Whether the policy was trained to set a limit, in the world that it is used as in."""
        return self.world == "dynamic" or self.origin.costs.fills != "price_taker"

    def act(self, bars: pd.DataFrame, order: ParentOrder) -> PolicyAction:
        """What to trade in the next bar of an order, given the bars so far.

        `bars` is a frame as `bars_from_frame` takes it, with the last sessions before today where
        there are some and all symbols of the universe where there are several; rows of the next bar
        and later ones are not looked at.
        """
        if order.is_over:
            raise ConfigError("the order is over: nothing is left of it, or no bar to trade in")
        live = self._bars.read(bars, order)
        orders = live.orders(order)
        self._warn(live, orders)
        core = StaticCore(live.data, observations=live.observations())
        core.reset(orders, further=live.further(self._saved.interface.inputs))
        seen = [
            core.seen_at(step, np.array([left])).copy()
            for step, left in enumerate(order.left_before)
        ]
        ratio, offset = self._policy.answer(seen, order.horizon)
        if not self.takes_price:
            return PolicyAction(ratio, ratio * order.left, None, 0.0)
        volatility = live.volatility(live.start + len(order.filled))
        ticks = whole_ticks(
            np.array(offset),
            "volatility" if self.world == "dynamic" else "ticks",
            volatility_ticks=volatility * core.arrival / TICK,
        ).item()
        limit = float(core.touch()[0]) + SIDES[order.side] * ticks * TICK
        return PolicyAction(ratio, ratio * order.left, limit, ticks)

    def close(self) -> None:
        """End the process in which designed code runs. May be called twice."""
        self._end()

    def __enter__(self) -> LoadedPolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warn(self, live: LiveBars, orders: Orders) -> None:
        """Say once how bars and order differ from what the policy was trained on."""
        origin, data = self.origin, live.data
        found = origin.differences(data.grid, horizon=orders.horizon, world=self.world)
        if live.symbol not in origin.scales.symbols:
            found.append(
                f"{live.symbol} was not among the {len(origin.scales.symbols)} symbols that the "
                "policy was trained on: its usual volume and volatility are taken as their median"
            )
        if data.volume is None and origin.bars.has_volume:
            found.append("bars without volume, but the policy was trained on bars with volume")
        if data.bid is None and max(origin.scales.spread_bps) > 0:
            found.append("bars without quotes, but the policy was trained on bars with quotes")
        size = float(orders.size[0])
        least, most = origin.sizes
        if not least * (1 - 1e-9) <= size <= most * (1 + 1e-9):
            found.append(
                f"an order of {size:.2%} of the usual volume, but the policy was trained on "
                f"{least:.0%} to {most:.0%}"
            )
        for difference in found:
            if difference not in self._warned:
                self._warned.add(difference)
                warnings.warn(f"{self.path.name}: {difference}", UnlikeTraining, stacklevel=3)


def _end(policy: OpenPolicy, saved: SavedPolicy) -> None:
    """What is left to do when a policy is closed, or forgotten."""
    policy.close()
    saved.close()


def load_policy(
    place: str | Path, *, world: WorldName | None = None, unsafe: bool = False
) -> LoadedPolicy:
    """The policy of a run's folder, or of a policy file.

    A policy that was trained in both worlds acts as on history: it trades at market, unless the fill
    model took limits, and sees 0 for further inputs of a book. `world="dynamic"` has it act as in
    simulated markets, with limits. What a language model designed runs in a locked process; `unsafe`
    runs it without one where the machine has none.
    """
    saved = SavedPolicy(Path(place).expanduser(), unsafe=unsafe)
    origin = saved.origin
    trained = str(saved.facts.get("world"))
    if origin is None:
        saved.close()
        raise ConfigError(
            f"{saved.path} does not say what it was trained on, so bars cannot be scaled for it; "
            "load the policy of a run that this version of se-rl made"
        )
    known: tuple[WorldName, ...] = ("static", "dynamic")
    if trained in known and world not in (None, trained):
        saved.close()
        raise ConfigError(f"{saved.path} was trained in the {trained} world alone; leave world out")
    if world is None:
        world = "dynamic" if trained == "dynamic" else "static"
    if world not in known:
        saved.close()
        raise ConfigError(f"world is {world!r}; use 'static' or 'dynamic'")
    if world == "dynamic" and saved.interface.inputs:
        saved.close()
        raise ConfigError(
            f"{saved.path} asks to see {', '.join(saved.interface.inputs)}, which bars do not tell; "
            "leave world out to use it as on history, or load a policy of a design without `inputs`"
        )
    return LoadedPolicy(saved, origin, world=world)
