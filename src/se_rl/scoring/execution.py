"""Run a policy in a world and keep what scoring needs: fills, gains, and TWAP's beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from se_rl.environments.limit_units import LimitUnit
from se_rl.environments.metrics import BPS
from se_rl.environments.task import ExecutionRecord
from se_rl.environments.worlds import Episodes, World, showing
from se_rl.scoring.statistics import Estimate, clustered_mean

Array = npt.NDArray[np.float64]
_SLICE_STEPS = 1000
"""Steps in which traded shares are told apart, for each TWAP slice."""


class Actor(Protocol):
    """A policy in use, wherever it lives: in this process or in a locked one."""

    def start(self, n: int, horizon: int) -> None:
        """Forget everything; `n` orders of `horizon` steps begin."""
        ...

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """Ratios of what is left and limit offsets, [order] each, for the next step."""
        ...

    def close(self) -> None:
        """End the policy and its process, if it has one."""
        ...


Actions = tuple[Array, Array]
"""Ratios of what is left and limit offsets in the world's unit, [order] each."""


@runtime_checkable
class Deferring(Protocol):
    """An actor that computes elsewhere: it can be asked now and heard later."""

    def begin(self, observation: npt.NDArray[np.float32]) -> Callable[[], Actions]:
        """Hand the observation over; what is returned waits for the answer."""
        ...


@runtime_checkable
class AskingForInputs(Protocol):
    """An actor that must be shown more than the usual observation."""

    inputs: tuple[str, ...]


def inputs_of(actor: Actor) -> tuple[str, ...]:
    """The further inputs that an actor asks for."""
    return actor.inputs if isinstance(actor, AskingForInputs) else ()


def begin(actor: Actor, observation: npt.NDArray[np.float32]) -> Callable[[], Actions]:
    """Ask any actor; one that computes in this process does so when its answer is fetched."""
    if isinstance(actor, Deferring):
        return actor.begin(observation)
    return lambda: actor.act(observation)


class ConstantSchedule:
    """A multiple of the TWAP slice of what is left, at an offset from the touch in the world's unit."""

    def __init__(self, multiple: float = 1.0, offset: float = 0.0) -> None:
        self.multiple = multiple
        self.offset = offset

    def words(self, takes_price: bool, *, unit: LimitUnit = "ticks") -> str:
        """The schedule for a person."""
        name = "ticks" if unit == "ticks" else "half volatilities"
        place = f", limit {self.offset:+g} {name} from the touch" if takes_price else ", at market"
        return f"{self.multiple:g}x the TWAP slice{place}"

    def start(self, n: int, horizon: int) -> None:
        """Begin `n` orders of `horizon` steps."""
        self._n = n
        self._left = horizon

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """The same for everybody."""
        ratio = min(1.0, self.multiple / self._left)
        self._left -= 1
        return np.full(self._n, ratio), np.full(self._n, self.offset)

    def close(self) -> None:
        """Nothing to end."""


@dataclass(frozen=True, eq=False)
class Executed:
    """A finished batch; gains are bps of the arrival price, NaN where the market broke.

    `gain` is the order's, `twap_gain` TWAP's on the same episode; both have the news taken out:
    what the price did to the inventory that nobody could have timed (a control variate: it changes
    the error of a mean, not the mean). `slices` are the distinct actions, in TWAP slices of what
    was left.
    """

    record: ExecutionRecord
    gain: Array
    twap_gain: Array
    forced: Array
    passive: Array
    slices: frozenset[float]
    clusters: npt.NDArray[np.int64]

    @property
    def distinct_actions(self) -> int:
        """How many different slices were traded: 1 for a policy that collapsed to a schedule."""
        return len(self.slices)

    def over_twap(self) -> Estimate:
        """Mean gain over TWAP with its error.

        The two sides of one market, or one day, are one observation.
        """
        difference = self.gain - self.twap_gain
        known = np.isfinite(difference)
        return clustered_mean(difference[known], self.clusters[known])

    def twap(self) -> Executed:
        """TWAP by market orders on the same episodes, as if it had been executed."""
        zeros = np.zeros_like(self.forced)
        return replace(
            self, gain=self.twap_gain, forced=zeros, passive=zeros, slices=frozenset({1.0})
        )

    def summary(self) -> dict[str, Any]:
        """Costs in bps (lower is better) and what the policy does."""
        cost = -np.nanmean(self.gain)
        twap = -np.nanmean(self.twap_gain)
        gain = self.over_twap()
        return {
            "cost_bps": float(cost),
            "twap_cost_bps": float(twap),
            "saved_bps": gain.mean,
            "saved_se": gain.se,
            "saved_ci95": list(gain.ci95),
            "saved_share": float(gain.mean / twap) if twap > 0 else float("nan"),
            "passive": float(self.passive.mean()),
            "forced": float(self.forced.mean()),
            "AFI": float(np.mean(self.record.leftover)),
            "distinct_actions": self.distinct_actions,
            "broken": int(np.isnan(self.gain).sum()),
            "orders": len(self.gain),
        }


def execute(
    world: World, actor: Actor, episodes: Episodes, *, clusters: npt.NDArray[np.int64] | None = None
) -> Executed:
    """Play the episodes to the end; the world shows what the actor asks for.

    `clusters` says which orders belong together; by default the orders of one seed do.
    """
    n = len(episodes)
    world = showing(world, inputs_of(actor))
    names = world.field_names
    actor.start(n, world.horizon)
    observation = world.reset(episodes)
    fields = np.zeros((len(names), n), np.float32)  # [field, order], filled by each step
    at = {name: fields[i] for i, name in enumerate(names)}
    gain = np.zeros(n)
    twap_gain = np.zeros(n)
    forced = np.zeros(n)
    passive = np.zeros(n)
    fills = np.empty((n, world.horizon))  # [order, step]
    traded = np.zeros(world.horizon * _SLICE_STEPS + 1, np.bool_)  # by slices, in thousandths
    for step in range(world.horizon):
        ratio, offset = actor.act(observation)
        observation = world.step(ratio, offset if world.takes_price else None, fields)
        news = at["news"].astype(np.float64)
        # gain = sum over steps of share (price / arrival - 1) - inventory left * news
        gain += at["traded_share"] * (at["fill_price"] - 1.0) - at["inventory_left"] * news
        twap_traded = at["twap_traded_share"] * (at["twap_fill_price"] - 1.0)
        twap_gain += twap_traded - at["twap_inventory_left"] * news
        forced += at["forced_share"]
        passive += at["passive_share"]
        fills[:, step] = at["traded_share"] - at["forced_share"]
        slices = np.clip(ratio, 0.0, 1.0) * (world.horizon - step)
        traded[np.rint(slices * _SLICE_STEPS).astype(np.int64)] = True
    record = world.record()
    void = world.broken
    return Executed(
        replace(record, fills=fills),
        np.where(void, np.nan, BPS * gain),
        np.where(void, np.nan, BPS * twap_gain),
        forced,
        passive,
        frozenset((np.flatnonzero(traded) / _SLICE_STEPS).tolist()),
        _by_seed(episodes, n) if clusters is None else clusters,
    )


def _by_seed(episodes: Episodes, n: int) -> npt.NDArray[np.int64]:
    if episodes.seeds is None:
        return np.arange(n) % (n // 2)  # a buy and a sell of the same window
    return np.repeat(episodes.seeds, n // len(episodes.seeds))
