"""The simulated markets of a batch of orders: started warm, told what to do from outside.

A script (`twin.py`) says where each market's value goes and how fast it trades. Prices are whole
ticks inside a market; here they become currency. With `shadow` every market exists a second time,
on the same random numbers and without our orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.market_pool import WarmPool, trade_bar, widen
from se_rl.environments.task import Orders
from se_rl.environments.twin import Script, SessionTwin, free_script
from se_rl.market import participants as at
from se_rl.market.family import SMALL_TICK, MarketKind
from se_rl.market.profile import FIXED, MarketProfile

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


class ScriptedMarkets:
    """Markets of several kinds in one batch, free or twins of the sessions of `data`.

    `agents` orders share a market; its kind is that of the first of them.
    """

    def __init__(
        self,
        data: MarketData | None,
        *,
        kinds: Sequence[MarketKind],
        scales: FeatureScales | None,
        agents: int,
        shadow: bool,
    ) -> None:
        self._is_twin = np.array([kind.twin for kind in kinds])
        if data is None and self._is_twin.any():
            raise DataError("a twin follows a session of the data, and there is none; give data")
        self.twin = SessionTwin(data, scales) if data is not None and self._is_twin.any() else None
        self.pool = WarmPool(kinds, agents=agents)
        self.agents = agents
        self.shadow = shadow
        self.markets = self.pool.markets(1)

    def beside(self, *, shadow: bool | None = None) -> ScriptedMarkets:
        """The same kinds of markets once more, to be run beside these; with shadows if asked for."""
        other = copy(self)
        other.shadow = self.shadow if shadow is None else shadow
        other.markets = self.pool.markets(1)
        return other

    def start(self, orders: Orders, seeds: Int) -> None:
        """Copy warm states into the markets (the same ones into their shadows), write scripts."""
        self.count = len(seeds)
        both = np.tile(seeds, 2) if self.shadow else seeds.copy()
        if self.markets.n != len(both):
            self.markets = self.pool.markets(len(both))
        leads = orders.take(np.arange(self.count) * self.agents)
        kind = np.tile(leads.kind, len(both) // self.count)
        warm = self.pool.start(self.markets, both, kind)[: self.count]
        self.usual = self.pool.usual.of(leads.kind)
        self.script = self._script(leads, warm)
        widen(
            self.markets,
            self.usual,
            spread_ticks=self.script.spread,
            best_lots=self.script.best_lots,
        )
        copies = (1, len(both) // self.count)
        path = np.rint(self.script.value_ticks * FIXED).astype(np.int64)
        pace = self.script.activity * self.markets.events_per_bar[: self.count]
        self.drift = np.tile(np.diff(path, axis=0, prepend=0), copies)
        self.events = np.tile(np.rint(pace).astype(np.int64), copies)

    @property
    def mid_ticks(self) -> Array:
        """The mids of our markets."""
        return self.markets.mid_ticks[: self.count]

    @property
    def news_ticks(self) -> Array:
        """How far the news has moved the public value of our markets since they began."""
        return self.markets.sim.state[: self.count, at.NEWS] / FIXED

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Orders whose market broke."""
        return self.per_order(self.markets.broken[: self.count])

    def price(self, ticks: Array) -> Array:
        """Ticks [..., market] in currency."""
        return self.script.reference * (1.0 + (ticks - self.anchor) * self.script.tick)

    def order_price(self, ticks: Array) -> Array:
        """Ticks [order] in currency."""
        by_market = ticks.reshape(self.count, self.agents).T
        return self.price(by_market).T.ravel()

    def order_ticks(self, price: Array, *, farthest: int) -> Int:
        """Currency [order] as whole ticks, at most `farthest` from the anchor."""
        reference = self.per_order(self.script.reference)
        away = (price / reference - 1.0) / self.per_order(self.script.tick)
        ticks = self.per_order(self.anchor) + np.clip(away, -farthest, farthest)
        return np.rint(ticks).astype(np.int64)

    def tick_currency(self) -> Array:
        """One tick of each order's market in currency."""
        return self.per_order(self.script.tick * self.script.reference)

    def per_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values per market as values per order."""
        return values if self.agents == 1 else np.repeat(values, self.agents, axis=0)

    def wishes(self) -> tuple[Int, Int]:
        """Empty wishes [market, agent, wish], and a view of our orders' rows; shadows get none."""
        whole = np.zeros((self.markets.n, self.agents, at.WISH_FIELDS), np.int64)
        return whole, whole[: self.count].reshape(-1, at.WISH_FIELDS)

    def trade(self, wishes: Int, *, step: int) -> tuple[dict[str, Array], Int]:
        """One bar: its record by name [market], and the answers [order, answer] to our wishes."""
        now = slice(step, step + 1)
        bars, answers = trade_bar(
            self.markets, wishes, drift=self.drift[now], events=self.events[now]
        )
        record = {name: values[0].astype(np.float64) for name, values in bars.items()}
        return record, self._own(answers)

    def trade_at_once(self, wishes: Int) -> Int:
        """Our wishes alone, without any event of the market: the answers [order, answer].

        A side that our own order empties is no broken market: that order is dear, not void.
        """
        nothing = np.zeros((1, self.markets.n), np.int64)
        broken = self.markets.sim.state[:, at.BROKEN].copy()
        answers = trade_bar(self.markets, wishes, drift=nothing, events=nothing)[1]
        self.markets.sim.state[:, at.BROKEN] = broken
        return self._own(answers)

    def go_on(self) -> tuple[float, float]:
        """One bar after the window's end, without drift or orders: the mids of the first market and
        of its shadow, in currency.
        """
        still = np.zeros((1, self.markets.n), np.int64)
        pace = self.markets.events_per_bar[None].copy()
        bars = trade_bar(self.markets, self.wishes()[0], drift=still, events=pace)[0]
        close = bars["close"][0] / 2.0  # mids are recorded in half ticks
        ours, shadows = self.price(close[: self.count]), self.price(close[-self.count :])
        return float(ours[0]), float(shadows[0])

    def run_without_orders(self) -> dict[str, Int]:
        """The window from a fresh start with nobody executing: bars [step, market] by name."""
        return self.markets.run(len(self.drift), drift=self.drift, events=self.events)[0]

    def _own(self, answers: Int) -> Int:
        """[order, answer] of the answers [bar, market, agent, answer] of one bar."""
        return answers[0, : self.count].reshape(-1, answers.shape[-1])

    def _script(self, leads: Orders, warm: Int) -> Script:
        """Free markets have the past of their warm states, twins that of their sessions."""
        pool, usual = self.pool, self.usual
        self.anchor = self.mid_ticks
        script = free_script(
            pool.mid_ticks[:, warm],
            pool.volume_lots[:, warm] / usual.volume_lots,
            horizon=leads.horizon,
            volatility_ticks=usual.volatility_ticks,
        )
        twins = np.flatnonzero(self._is_twin[leads.kind])
        if self.twin is None or not len(twins):
            return script
        self.anchor[twins] = self.markets.sim.state[twins, at.VALUE] / FIXED
        followed = self.twin.script(
            leads.take(twins),
            volatility_ticks=usual.volatility_ticks[twins],
            usual_volume_lots=usual.volume_lots[twins],
        )
        return script.replaced(twins, followed)


def default_kind(data: MarketData | None, profile: MarketProfile | None = None) -> MarketKind:
    """The one kind of market of those who name none: a twin where there is data to follow."""
    twin = data is not None
    if profile is None:
        return MarketKind(SMALL_TICK, MarketProfile(), twin=twin)
    return MarketKind("own profile", profile, twin=twin)
