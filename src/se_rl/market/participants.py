"""The participants of the simulated market: how often each acts, and where each of its numbers
stands.

One block per participant, and nothing is counted by hand: accounts, random streams, events, the
integers that the kernel reads of a profile and the columns of a market's state are taken from
layouts. A new participant needs its numbers in profile.py, a block below the others here, and its
behaviour in traders.py; with a rate of 0 it leaves every existing market as it is, bit for bit.

The kernel sees integers only (values in 1/FIXED ticks), so that a market is the same to the last
bit on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.layout import Layout
from se_rl.market.profile import FIXED, PROBABILITY, MarketProfile

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


class Sim(NamedTuple):
    """B markets beside their books: few arrays, since every array costs compile and call time."""

    state: Array  # [B, STATE_FIELDS + agents] int64; the agents' order slots come last
    numbers: Array  # [profiles, NUMBERS] int64: the integers that the kernel reads of each profile


class ParticipantEvent(NamedTuple):
    """Something that happens at random: events per unit, and the column of its threshold.

    The rate takes the profile and the number of order slots in a book.
    """

    name: str
    rate: Callable[[MarketProfile, int], float]
    below: int


_accounts = Layout()
_streams = Layout()
_state = Layout()
_numbers = Layout()
_events: list[ParticipantEvent] = []
_parameters: dict[int, Callable[[MarketProfile], float]] = {}
_tables: dict[int, Callable[[MarketProfile], Float]] = {}


def _event(name: str, rate: Callable[[MarketProfile, int], float]) -> int:
    """Declare an event; the column of the draw below which it happens (and no earlier one does)."""
    column = _numbers.take()
    _events.append(ParticipantEvent(name, rate, column))
    return column


def _parameter(value: Callable[[MarketProfile], float]) -> int:
    """Declare a number that the kernel reads, as a function of the profile; its column."""
    column = _numbers.take()
    _parameters[column] = value
    return column


def _table(length: int, values: Callable[[MarketProfile], Float]) -> int:
    """Declare a lookup table of `length` numbers, as a function of the profile.

    Its first column.
    """
    column = _numbers.take(length)
    _tables[column] = values
    return column


def _middles(count: int) -> Float:
    """The middles of `count` equal parts of the unit interval."""
    return (np.arange(count) + 0.5) / count


def _normal(profile: MarketProfile) -> Float:
    from scipy.special import ndtri

    return ndtri(_middles(NORMALS)) * 4096


def _fat_tail(profile: MarketProfile) -> Float:
    """Quantiles of Student's t, scaled to a variance of 1."""
    from scipy.special import stdtrit

    tail = stdtrit(profile.news_tail, _middles(NORMALS))
    return tail / tail.std() * 4096


def _pareto(exponent: float, largest: int, count: int) -> Float:
    """`count` quantiles of a Pareto law in whole numbers, cut at `largest`."""
    return np.minimum(np.floor(_middles(count) ** (-1.0 / exponent)), largest)


def _skew(profile: MarketProfile) -> Float:
    """Shift of a maker's quotes = skew * inventory ** power."""
    inventory = np.arange(LONGEST_SKEW, dtype=np.float64)
    return profile.maker_skew * inventory**profile.maker_skew_power * FIXED


def _volatility(profile: MarketProfile) -> Float:
    """exp(x - s**2): the mean of exp(2x) is divided out, so that clustering adds no volatility."""
    log_volatility = (np.arange(VOLATILITIES) - VOLATILITIES // 2) / 64.0
    return np.exp(log_volatility - profile.news_clustering**2) * 4096


def _news_memory(profile: MarketProfile) -> float:
    return max(1.0, profile.news_memory)


# The market as a whole: its clock says who acts, and every bar keeps its counters.
CLOCK = _streams.take()
PROFILE = _state.take()  # the market's row in `numbers`
BROKEN = _state.take()  # 1 once a side of the book was empty at a bar's end
SIGNED_VOLUME = _state.take()  # of the last bar: lots bought less lots sold by takers
MESSAGES = _state.take()
TRADED = _state.take()  # lots
TRADED_CASH = _state.take()  # ticks x lots
BAR_OPEN = _state.take()  # mids are kept twice, in ticks
BAR_HIGH = _state.take()
BAR_LOW = _state.take()
BAR_BID = _state.take()  # best prices at the bar's end in ticks, 0 where a side is empty
BAR_ASK = _state.take()
LAST_MID = _state.take()
NORMALS = 1024
DRAWS = 1024
NORMAL = _table(NORMALS, _normal)  # quantiles of a normal variable, 1/4096
SIZES = _table(DRAWS, lambda p: _pareto(p.size_tail, 50, DRAWS))  # order sizes in lots

# Noise traders, some of whose market orders are slices of hidden parent orders.
NOISE = _accounts.take()
NOISE_STREAM = _streams.take()
MARKET_BELOW = _event("noise_market", lambda p, pool: p.noise_market_rate)
LIMIT_BELOW = _event(
    "noise_limit", lambda p, pool: 2.0 * p.noise_limit_rate * round(p.noise_limit_ticks)
)
# a cancel looks at one of `pool` order slots, so that each resting order has the same hazard
CANCEL_BELOW = _event("noise_cancel", lambda p, pool: p.noise_cancel_rate * pool)
LIMIT_TICKS = _parameter(lambda p: round(p.noise_limit_ticks))
PARENT_BELOW = _parameter(lambda p: p.parent_share * PROBABILITY)
IMBALANCE_TILT = _parameter(lambda p: p.imbalance_response * 1024)
LENGTH_DRAWS = 4096  # more than of sizes: rare long parents make the memory
LENGTHS = _table(LENGTH_DRAWS, lambda p: _pareto(p.parent_tail, 10_000, LENGTH_DRAWS))
PARENTS = _parameter(lambda p: round(p.parents))
MOST_PARENTS = 32
PARENT = _state.take(2 * MOST_PARENTS)  # slices left and side of each hidden parent

# Market makers.
MAX_MAKERS = 3
MAX_LEVELS = 16
FIRST_MAKER = _accounts.take(MAX_MAKERS)
MAKER_STREAM = _streams.take()
MAKER_BELOW = _event("maker", lambda p, pool: p.maker_wake_rate * round(p.makers))
MAKERS = _parameter(lambda p: round(p.makers))
LEVELS = _parameter(lambda p: round(p.maker_levels))
LOTS = _parameter(lambda p: round(p.maker_lots))
HALF_SPREAD = _parameter(lambda p: p.maker_half_spread * FIXED)
LAG_DIVISOR = _parameter(lambda p: max(1.0, p.maker_lag * p.maker_wake_rate) * 16)
FORGET_DIVISOR = _parameter(lambda p: max(1.0, p.maker_memory * p.maker_wake_rate))
IMBALANCE_SHIFT = _parameter(lambda p: p.maker_imbalance * FIXED)
LONGEST_SKEW = 2048
SKEW = _table(LONGEST_SKEW, _skew)  # shift of the quotes (1/FIXED ticks) by inventory in lots
REFERENCE = _state.take(MAX_MAKERS)  # what each maker quotes around, 1/FIXED ticks
MEMORY = _state.take(MAX_MAKERS)  # each maker's decaying inventory, 1/FIXED lots
SEEN_SHARES = _state.take(MAX_MAKERS)  # the shares each had when it last woke
EXTRA_SPREAD = _state.take()  # what a twin adds to the half-spread, 1/FIXED ticks
EXTRA_LOTS = _state.take()  # what a twin adds to the lots on a level
QUOTES = MAX_MAKERS * 2 * MAX_LEVELS
QUOTE = _state.take(QUOTES)  # order slots by maker, side, and price modulo levels

# Informed traders.
INFORMED = _accounts.take()
INFORMED_STREAM = _streams.take()
INFORMED_BELOW = _event("informed", lambda p, pool: p.informed_rate)
INFORMED_THRESHOLD = _parameter(lambda p: p.informed_threshold * FIXED)
INFORMED_NOISE = _parameter(lambda p: p.informed_noise * FIXED)

# Momentum traders.
MOMENTUM = _accounts.take()
MOMENTUM_STREAM = _streams.take()
MOMENTUM_BELOW = _event("momentum", lambda p, pool: p.momentum_rate)
MOMENTUM_THRESHOLD = _parameter(lambda p: p.momentum_threshold * FIXED)
MOMENTUM_DIVISOR = _parameter(lambda p: max(1.0, p.momentum_memory))
TREND = _state.take()  # the slow mean of the mid, 1/FIXED ticks

# The news, once a unit: it moves the public value, volatility and the regime, and trades nothing.
NEWS_STREAM = _streams.take()
NEWS_BELOW = _event("news", lambda p, pool: 1.0)
NEWS_STEP = _parameter(lambda p: p.news_volatility * FIXED)
VOL_DIVISOR = _parameter(_news_memory)
VOL_STEP = _parameter(lambda p: p.news_clustering * np.sqrt(2.0 / _news_memory(p)) * FIXED)
LEARN_DIVISOR = _parameter(lambda p: 1.0 / p.learning if p.learning > 0 else 2.0**40)
STRESS_BELOW = _parameter(lambda p: p.stress_rate * PROBABILITY)
CALM_BELOW = _parameter(lambda p: p.calm_rate * PROBABILITY)
STRESS_SPREAD = _parameter(lambda p: p.stress_spread * FIXED)
STRESS_DEPTH = _parameter(lambda p: p.stress_depth * 1024)
STRESS_VOLATILITY = _parameter(lambda p: p.stress_volatility * 4096)
FAT_TAIL = _table(NORMALS, _fat_tail)  # quantiles of the news, 1/4096
VOLATILITIES = 513
VOLATILITY = _table(VOLATILITIES, _volatility)  # factors (1/4096) by log volatility in 1/64
VALUE = _state.take()  # the public value, 1/FIXED ticks
NEWS = _state.take()  # the sum of all news, 1/FIXED ticks
LOG_VOLATILITY = _state.take()  # 1/FIXED
STRESSED = _state.take()  # 1 while the market is stressed

# Patient traders, once a unit: their pressure shows in the makers' sizes at once, and the quotes
# follow it with a lag. It trades nothing, and nothing that anybody does moves it.
PRESSURE_STREAM = _streams.take()
PRESSURE_DIVISOR = _parameter(lambda p: max(1.0, p.pressure_memory))
PRESSURE_STEP = _parameter(lambda p: np.sqrt(2.0 / max(1.0, p.pressure_memory)) * FIXED)
PRESSURE_LEAN = _parameter(lambda p: p.pressure_lean * 1024)
LEANING_LEVELS = 5  # the deeper book stays, so that pressure never empties a side
PRESSURE_SHIFT = _parameter(lambda p: p.pressure_shift * FIXED)
PRESSURE_LAG = _parameter(lambda p: max(1.0, p.pressure_lag))
PRESSURE = _state.take()  # in its standard deviations, positive for buyers, 1/FIXED
FOLLOWED = _state.take()  # the pressure that the quotes have followed so far, 1/FIXED

# Executing agents come after all others: each has an account and the slot of its order.
FIRST_AGENT = _accounts.width
STREAMS = _streams.width
STREAM = _state.take(STREAMS)
LAST_STATE = 2**63 - 1
"""A stream's state is a whole number from 1 to this one, and no state leads to another's cycle."""
AGENT_SLOT = STATE_FIELDS = _state.width
NUMBERS = _numbers.width
EVENTS = tuple(_events)

_wish = Layout()
KIND = _wish.take()
WISH_SIDE = _wish.take()
WISH_PRICE = _wish.take()  # ticks
WISH_LOTS = _wish.take()
WISH_FIELDS = _wish.width
"""Columns of `wishes` [book, agent]: what an agent wants in a bar."""
NO_ORDER, TAKE, POST = range(3)
"""Kinds of wishes: nothing (a resting order is withdrawn), a market order, a limit order."""

_answer = Layout()
ANSWERED = _answer.take()  # lots filled in the bar
PASSIVE = _answer.take()  # of these, lots filled while they rested
SPENT = _answer.take()  # ticks x lots
RESTING = _answer.take()  # lots still in the book
ANSWER_FIELDS = _answer.width
"""Columns of `answers` [book, agent]: what became of a wish."""


def event_rates(profile: MarketProfile, pool: int) -> dict[str, float]:
    """Events per unit by name, in books of `pool` order slots."""
    return {event.name: event.rate(profile, pool) for event in EVENTS}


def numbers(profile: MarketProfile, *, pool: int) -> Int:
    """The row of integers that the kernel reads for a profile [NUMBERS]."""
    row = np.zeros(NUMBERS)
    rates = event_rates(profile, pool)
    # an event happens where the clock's draw is below its threshold and no earlier one's
    shares = np.cumsum(list(rates.values())) / sum(rates.values())
    for event, share in zip(EVENTS, shares, strict=True):
        row[event.below] = share * PROBABILITY
    for column, value in _parameters.items():
        row[column] = value(profile)
    for first, values in _tables.items():
        table = values(profile)
        row[first : first + len(table)] = table
    return np.rint(row).astype(np.int64)
