"""What an agent sees of simulated markets: the public observation fields, bar by bar.

The fields and their formulas are those of `data.observation_fields`; this class keeps the running
state that the formulas read. Sums and extremes go on from what was known before the window, so
that an observation in the middle of a session looks the same in both worlds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.features import (
    BOOK_LEVELS,
    CLIP,
    FIRST_PUBLIC,
    PUBLIC_FIELDS,
    PUBLIC_RECORDS,
    TURNED_FIELD,
    TURNED_SIGN,
)
from se_rl.environments.market_pool import LOOKBACK_BARS
from se_rl.environments.metrics import BPS
from se_rl.environments.scripted_markets import ScriptedMarkets
from se_rl.market.price_levels import BUY, SELL

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]

QUIET_VOLUME = 1e-3
"""A bar without trades counts as this share of the usual volume, as in the static world."""


class MarketView:
    """Some markets from the start of their windows on: a `data.observation_fields.BookView`."""

    def __init__(self, books: ScriptedMarkets, *, horizon: int) -> None:
        script = books.script
        usual = books.usual
        n = books.count
        log_mid = np.log(books.price(books.mid_ticks))
        self._books = books
        self._script = script
        self._bar = 0
        self._log_open = script.log_open
        self._usual_spread_bps = usual.spread_ticks * script.tick * BPS
        self._log_usual_lots = np.log(usual.best_lots + 1.0)
        self._log_usual_volatility = np.log(script.usual_volatility)
        self._path = np.empty((LOOKBACK_BARS + 1 + horizon, n))  # log mids [bar, market]
        self._path[: LOOKBACK_BARS + 1] = script.log_path
        self._path[LOOKBACK_BARS] = log_mid
        # volume over the usual one, summed up to each bar's start [bar, market]
        self._volume = np.zeros((LOOKBACK_BARS + 1 + horizon, n))
        np.cumsum(script.volume, axis=0, out=self._volume[1 : LOOKBACK_BARS + 1])
        self._columns = np.arange(n)
        self._return_root = np.sqrt(script.return_bars)  # [return, market]
        self._high = np.maximum(script.log_high, log_mid)
        self._low = np.minimum(script.log_low, log_mid)
        self._squared = script.squared_sum.copy()
        self._has_universe = ~np.isnan(script.universe_return[0])
        self.returns = np.zeros((len(script.return_bars), n))
        self.specific_returns = np.zeros_like(self.returns)
        self._table = np.zeros((len(PUBLIC_FIELDS), n))
        self._measure()

    def add(
        self, *, log_mid: Array, log_high: Array, log_low: Array, relative_volume: Array
    ) -> None:
        """One more bar has closed."""
        self._bar += 1
        now = self._now
        self._path[now] = log_mid
        np.add(self._volume[now - 1], relative_volume, out=self._volume[now])
        self._squared += np.square(log_mid - self._path[now - 1])
        np.maximum(self._high, log_high, out=self._high)
        np.minimum(self._low, log_low, out=self._low)
        self._measure()

    def show(self, side: npt.NDArray[np.int8], observation: Observation) -> None:
        """Write the public fields of each order's market [order, field], turned for its side."""
        agents = self._books.agents
        _turn(self.fields(), side, agents, TURNED_FIELD, TURNED_SIGN, FIRST_PUBLIC, observation)

    def fields(self) -> Array:
        """The public fields [field, market] of the books as they stand now."""
        self._look()
        table = self._table
        for row, field in enumerate(PUBLIC_RECORDS):
            assert field.in_book is not None  # a public field has both formulas
            table[row] = field.in_book(self)
        return np.clip(table, -CLIP, CLIP, out=table)

    @property
    def log_spread_ratio(self) -> Array:
        """Log of the spread over the usual one, a hundredth of a basis point added to both."""
        return np.log((self.spread_bps + 0.01) / (self._usual_spread_bps + 0.01))

    @property
    def return_since_open(self) -> Array:
        """Log return since the open, in units of its standard deviation."""
        bars_known = np.maximum(self._script.bars_known + self._bar, 1.0)
        return (self._path[self._now] - self._log_open) / (self.volatility * np.sqrt(bars_known))

    @property
    def range_position(self) -> Array:
        """Where the mid lies in the day's log range, from -1 to 1; 0 where there is no range."""
        width = self._high - self._low
        place = 2.0 * (self._path[self._now] - self._low) / np.maximum(width, 1e-12) - 1.0
        return np.where(width > 0, place, 0.0)

    @property
    def log_volatility_ratio(self) -> Array:
        """Log of the volatility over the symbol's usual one."""
        return np.log(self.volatility) - self._log_usual_volatility

    @property
    def time_of_day(self) -> Array:
        """Share of the session gone."""
        return self._script.time_of_day[self._bar]

    def log_volume_ratio(self, entry: int) -> Array:
        """Log of the volume over the usual one, in the bars of one entry of RETURN_MINUTES."""
        bars = self._script.return_bars[entry]
        traded = self._volume[self._now] - self._volume[self._now - bars, self._columns]
        return np.log(np.maximum(traded, 0.0) / bars + QUIET_VOLUME)

    @property
    def _now(self) -> int:
        return LOOKBACK_BARS + self._bar

    def _measure(self) -> None:
        """Volatility per bar, as a share of the price."""
        weight = self._script.squared_weight + self._bar
        self.volatility: Array = np.sqrt(np.maximum(self._squared / weight, 1e-12))

    def _look(self) -> None:
        """Take in the book as it stands now; where a side is empty, the mid is its best price."""
        books = self._books
        depth = books.markets.books.depth(BOOK_LEVELS)[: books.count]
        lots = depth[..., 1]  # [market, side, level]
        mid = books.mid_ticks
        bid = books.price(np.where(lots[:, BUY, 0] > 0, depth[:, BUY, 0, 0], mid))
        ask = books.price(np.where(lots[:, SELL, 0] > 0, depth[:, SELL, 0, 0], mid))
        self.bid = bid
        self.ask = ask
        self.half_spread = (ask - bid) / (ask + bid)
        # where a side is empty, the last mid may lie beyond the other side
        self.spread_bps = 2.0 * BPS * np.maximum(ask - bid, 0.0) / (ask + bid)
        self.log_sizes = np.log(lots.reshape(len(lots), -1).T + 1.0) - self._log_usual_lots
        bids, asks = lots.sum(axis=2).T
        self.imbalance = (bids - asks) / np.maximum(bids + asks, 1)
        self._measure_returns()

    def _measure_returns(self) -> None:
        """Log returns in their standard deviations, and the same minus the universe's.

        The specific returns stay 0 in markets that have no universe.
        """
        returns = self.returns
        now = self._now
        np.subtract(
            self._path[now], self._path[now - self._script.return_bars, self._columns], out=returns
        )
        returns /= self.volatility * self._return_root
        np.clip(returns, -CLIP, CLIP, out=returns)
        universe = self._script.universe_return[self._bar]
        np.subtract(returns, universe, out=self.specific_returns, where=self._has_universe)


@njit(cache=True, nogil=True, error_model="numpy")
def _turn(table, side, agents, turned_field, turned_sign, first, observation):  # type: ignore[no-untyped-def]
    """Each order's column of the table as its row; positions are arguments, since caches keep them."""
    for i in range(side.shape[0]):
        market = i // agents
        for k in range(table.shape[0]):
            if side[i] > 0:
                observation[i, first + k] = table[k, market]
            else:
                observation[i, first + k] = turned_sign[k] * table[turned_field[k], market]
