"""Meta-orders in the simulated market: what an order of a given size does to the price, measured
against no order.

Own impact is a paired difference: the same seeds run with and without the order. The run without
it, less the news, is the control variate: under a random sign its mean is 0, so its coefficient may
be fitted without bias.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.participants import (
    ANSWERED,
    KIND,
    NEWS,
    NO_ORDER,
    SPENT,
    TAKE,
    WISH_FIELDS,
    WISH_LOTS,
    WISH_SIDE,
)
from se_rl.market.price_levels import BUY, SELL
from se_rl.market.profile import FIXED, MarketProfile
from se_rl.market.simulation import Markets

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

DAY_BARS = 390
"""Bars (minutes) of a simulated day."""
ORDER_BARS = 40
"""T: bars over which a meta-order is worked, about a tenth of a day."""
SMALL_SHARES = (0.001, 0.002)
"""Sizes below the power law, for its crossover to linear impact; as shares of daily volume."""
SHARES = (0.004, 0.007, 0.012, 0.02, 0.035, 0.06)
"""Sizes of meta-orders as shares of daily volume: 1.2 decades."""
PULSE_SHARE = 0.001
"""Size of the single market order behind the propagator."""
SETTLE_BARS = 60
"""Bars before a measurement: the book, inventories and volatility have forgotten their start."""


class Paths(NamedTuple):
    """Markets run under given schedules: mid and news [n, bars + 1] in ticks, lots filled and cash
    [n, bars], health [n]."""

    mid: Float
    news: Float
    filled: Int
    cash: Int
    broken: npt.NDArray[np.bool_]
    messages: int


class MetaOrders(NamedTuple):
    """Signed responses [n, sizes, bars] of the mid in ticks after each bar, per order; `kept` are
    orders that count.

    An order counts where it was filled whole and no book was ever one-sided; the others are
    failures, never free.
    """

    shares: Float
    lots: Int
    sign: Int
    response: Float
    kept: npt.NDArray[np.bool_]
    messages: int


class Start:
    """Settled markets to which every experiment returns: common random numbers for all of them."""

    def __init__(self, n: int, profile: MarketProfile, *, seed: int) -> None:
        rng = np.random.default_rng([seed, n])
        self.n, self.sign = n, np.where(rng.permutation(n) % 2 == 0, 1, -1)
        seeds = rng.integers(2**40, size=n)
        # few markets stepped bar by bar would spend their time on waking threads
        self.markets = Markets(n, profile, seeds=seeds, warm_up_bars=SETTLE_BARS, parallel=n >= 256)
        self._state = self.markets.copy_state()

    def again(self) -> Markets:
        """The markets as they were when settled."""
        self.markets.restore_state(self._state)
        return self.markets

    def run(self, lots: Int) -> Paths:
        """Market orders of `lots` [n, bars] at the start of each bar: positive buys, negative
        sells."""
        markets, bars = self.again(), lots.shape[1]
        wishes = np.zeros((bars, self.n, 1, WISH_FIELDS), np.int64)
        wishes[:, :, 0, KIND] = np.where(lots.T != 0, TAKE, NO_ORDER)
        wishes[:, :, 0, WISH_SIDE] = np.where(lots.T > 0, BUY, SELL)
        wishes[:, :, 0, WISH_LOTS] = abs(lots.T)
        before, news_before = markets.mid_ticks, news_ticks(markets)
        record, answers = markets.run(bars, wishes)
        mid, news = record["close"].T / 2.0, record["news"].T / FIXED
        return Paths(
            mid=np.concatenate([before[:, None], mid], axis=1),
            news=np.concatenate([news_before[:, None], news], axis=1),
            filled=answers[:, :, 0, ANSWERED].T,
            cash=answers[:, :, 0, SPENT].T,
            broken=markets.broken.copy(),
            messages=int(record["messages"].sum()),
        )


def even_slices(lots: int, *, bars: int, after: int = 0) -> Int:
    """`lots` in `bars` slices as equal as whole lots can be, then `after` bars without any."""
    steps = np.rint(np.linspace(0, lots, bars + 1)).astype(np.int64)
    return np.concatenate([np.diff(steps), np.zeros(after, np.int64)])


def meta_orders(
    start: Start, *, daily_volume: float, shares: tuple[float, ...] = SMALL_SHARES + SHARES
) -> MetaOrders:
    """Orders of every size on the same seeds with random signs: T bars of equal slices, then 3 T
    bars of decay."""
    lots = np.array([max(1, round(share * daily_volume)) for share in shares])
    slices = [even_slices(size, bars=ORDER_BARS, after=3 * ORDER_BARS) for size in lots]
    return _paired(start, np.stack(slices), daily_volume=daily_volume)


def pulse(start: Start, *, daily_volume: float, bars: int = 100) -> MetaOrders:
    """One small market order and what is left of its effect after each bar."""
    schedule = np.zeros((1, bars), np.int64)
    schedule[0, 0] = max(1, round(PULSE_SHARE * daily_volume))
    return _paired(start, schedule, daily_volume=daily_volume)


def _paired(start: Start, schedules: Int, *, daily_volume: float) -> MetaOrders:
    """Run every schedule [sizes, bars] and none at all, and take the difference."""
    quiet = start.run(np.zeros((start.n, schedules.shape[1]), np.int64))
    lots = schedules.sum(axis=1)
    sign = start.sign[:, None]
    control = sign * _own_move(quiet)
    response = np.empty((start.n, *schedules.shape))
    kept = np.empty((start.n, len(lots)), bool)
    messages = quiet.messages
    for k, schedule in enumerate(schedules):
        paths = start.run(sign * schedule)
        kept[:, k] = (paths.filled.sum(axis=1) == lots[k]) & ~paths.broken & ~quiet.broken
        response[:, k] = less_control(sign * _own_move(paths), control)
        messages += paths.messages
    return MetaOrders(lots / daily_volume, lots, start.sign, response, kept, messages)


def less_control(values: Float, control: Float) -> Float:
    """`values` less the fitted multiple of a control whose true mean is 0, row by row of a sample
    along axis 0."""
    spread = (control**2).sum(axis=0)
    slope = np.divide(
        (values * control).sum(axis=0), spread, out=np.zeros_like(spread), where=spread > 0
    )
    return values - slope * control


def _own_move(paths: Paths) -> Float:
    """How far the mid has moved beyond the news since the start, after each bar [n, bars]."""
    beyond = paths.mid - paths.news
    return beyond[:, 1:] - beyond[:, :1]


def news_ticks(markets: Markets) -> Float:
    """The sum of news so far in each market."""
    return markets.sim.state[:, NEWS] / FIXED


class RoundTrips(NamedTuple):
    """Profits [n] in ticks x lots per lot bought, of random schedules that end flat; `shape` [n, 2]
    are bars to buy, to sell."""

    profit: Float
    shape: Int
    kept: npt.NDArray[np.bool_]
    messages: int


def round_trips(
    start: Start, *, daily_volume: float, rng: np.random.Generator, bars: int = 60
) -> RoundTrips:
    """Random net-zero schedules of market orders: in over some bars, out over others, and wild ones
    with many turns.

    The gain from holding through news has mean 0 and is taken out, so that small systematic profits
    would show.
    """
    lots, shape = _net_zero(rng, start.n, bars=bars, daily_volume=daily_volume)
    paths = start.run(lots)
    bought = np.maximum(lots, 0).sum(axis=1)
    cash = -(np.sign(lots) * paths.cash).sum(axis=1)
    luck = (lots.cumsum(axis=1) * np.diff(paths.news, axis=1)).sum(axis=1)
    kept = np.all(paths.filled == abs(lots), axis=1) & ~paths.broken
    return RoundTrips((cash - luck) / bought, shape, kept, paths.messages)


def _net_zero(
    rng: np.random.Generator, n: int, *, bars: int, daily_volume: float
) -> tuple[Int, Int]:
    """[n, bars] signed lots that sum to 0, and the numbers of bars in and out (0, 0 for the wild
    ones)."""
    lots, shape = np.zeros((n, bars), np.int64), np.zeros((n, 2), np.int64)
    sizes = np.maximum(
        2, daily_volume * np.exp(rng.uniform(np.log(0.0005), np.log(0.01), n))
    ).astype(np.int64)
    for i, size in enumerate(sizes):
        if i % 2:
            lots[i] = rng.multinomial(size, np.full(bars, 1 / bars)) - rng.multinomial(
                size, np.full(bars, 1 / bars)
            )
            continue
        way_in, way_out = np.exp(rng.uniform(0, np.log(bars / 2), 2)).astype(np.int64)
        rest = int(rng.integers(bars - way_in - way_out + 1))
        lots[i, :way_in] = even_slices(size, bars=way_in)
        lots[i, way_in + rest : way_in + rest + way_out] = -even_slices(size, bars=way_out)
        shape[i] = way_in, way_out
    lots[:, :] *= rng.choice([-1, 1], n)[:, None]
    empty = ~lots.any(axis=1)
    lots[empty, :2] = 1, -1
    return lots, shape


def estimate(values: Any) -> tuple[float, float]:
    """Mean and standard error of a sample along its only axis."""
    sample = np.asarray(values, float)
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample)))
