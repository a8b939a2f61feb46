"""A seeded synthetic market history, shipped as code: what to run on when there is no data.

Bars hold mid prices, not rounded to ticks, so closes carry no bid-ask bounce. A minute is STEPS
moves

    price *= 1 + beta * market + specific - pull / STEPS,

market and specific each being a symmetric normal draw x time-of-day shape x exp(log volatility at
three time scales) x a Student-t scale shared by the minute. Volumes, scales and silent minutes
depend on the sizes of moves, never on signs, and a price stands still in a silent minute: without
the pull the price is an exact martingale given the past.

The predictable structure is the pull, made for each stock from its own past (over the stocks it
averages out):

    pull_t = u_t / 5,    u_{t+1} = u_t - pull_t + 0.11 * min(v_t, 3) * specific_t,    u = 0 after
    the first minute,

v_t being the minute's volume over its mean: 11 % of a stock-specific move, up to 33 % of one on
high volume, is undone, most of it within a quarter of an hour. The market's own moves are never
undone. A cross-sectional ridge forecast on 60 sessions x 100 names gains about 1 to 1.7 bps over
TWAP at 240 minutes from it, and nothing without it.

Spread: the larger of one tick (0.01) and 6 to 2 bps (least to most liquid name) x the root of the
volatility's shape. Size at the best price: 0.08 % of a usual day's shares divided by the spread in
ticks, with lognormal noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.calendar import CHINA, US, session_grid
from se_rl.data.market_data import Array, DataError, MarketData, Provenance
from se_rl.data.venues import QUANTILES, VENUES, Venue

STEPS = 5
"""Price moves, and prints, inside a minute."""
REVERSAL = 0.11
"""Share of a stock-specific move on mean volume that is undone later."""
_REVERSAL_MINUTES, _SURPRISE_CAP = 5.0, 3.0
_VOLATILITY_MINUTES = np.array([5.0, 100.0, 2_000.0])
_TAIL_DEGREES = 7.0
_TAIL_CAP = 5.0  # this limit and the next are symmetric: no drift comes from them
_MOVE_LIMIT = 0.1
_VOLUME_NOISE_SD, _SIZE_NOISE_SD = 0.55, 0.7
# a minute that usually trades x times this is silent with probability exp(-x)
_MONEY_PER_PRINT = 100e3
_TICK = 0.01
_FIRST_DAY = np.datetime64("2024-01-02")
# steps of a sequence that fills the unit square evenly
_SPREAD_OUT = (0.7548776662466927, 0.5698402909980532)


@dataclass(frozen=True, kw_only=True)
class SyntheticConfig:
    """What to generate: exchange (XNYS, 390 minutes, or XSHG, 240), bar length, numbers of symbols
    and sessions, seed.

    `predictable=False` leaves out the stock-specific reversal, and then no policy may show an edge.
    """

    exchange: str = US
    bar_minutes: int = 1
    symbols: int = 100
    sessions: int = 60
    seed: int = 0
    predictable: bool = True

    def __post_init__(self) -> None:
        if self.exchange not in VENUES:
            raise DataError(
                f"exchange {self.exchange!r} has no synthetic market; "
                f"use one of {', '.join(VENUES)}"
            )
        unbroken = gcd(VENUES[self.exchange].minutes, *VENUES[self.exchange].gaps)
        if self.bar_minutes < 1 or unbroken % self.bar_minutes:
            raise DataError(
                f"bar_minutes {self.bar_minutes} does not divide {unbroken} minutes; "
                "use 1, 5, 15 or 30"
            )
        for name, least in (("symbols", 1), ("sessions", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise DataError(f"{name} is {getattr(self, name)}; use {least} or more")


UNIVERSES: dict[str, SyntheticConfig] = {
    "csi100": SyntheticConfig(exchange=CHINA),
    "csi100-fair": SyntheticConfig(exchange=CHINA, predictable=False),
    "nasdaq100": SyntheticConfig(exchange=US),
    "nasdaq100-fair": SyntheticConfig(exchange=US, predictable=False),
}
"""The ready-made universes: 100 made-up names each, shaped like the two markets; `-fair` has
nothing to predict."""


def synthetic_market(
    config: SyntheticConfig = UNIVERSES["nasdaq100"], *, name: str = "synthetic"
) -> MarketData:
    """The market of a configuration, bit for bit the same each time; symbol k does not depend on
    how many there are."""
    venue = VENUES[config.exchange]
    grid = session_grid(config.exchange, bar_minutes=config.bar_minutes)
    shape = (config.symbols, config.sessions, len(grid))
    bars, spreads, sizes = np.empty((6, *shape)), np.empty(shape), np.empty((2, *shape, 1))
    rng = np.random.default_rng((config.seed, 0))
    places = (rng.random(2) + np.outer(np.arange(config.symbols), _SPREAD_OUT)) % 1.0
    market = _minutes(venue, venue.market_bps, rng, sessions=config.sessions)
    for k, (liquidity, dearness) in enumerate(places):
        rng = np.random.default_rng((config.seed, k + 1))
        price = np.exp(np.interp(dearness, QUANTILES, np.log(venue.first_price)))
        day_shares = np.exp(np.interp(liquidity, QUANTILES, np.log(venue.day_money))) / price
        _fill_bars(
            bars[:, k],
            rng,
            venue=venue,
            market=market,
            price=price,
            day_shares=day_shares,
            config=config,
        )
        spreads[k] = _spread(
            bars[3, k], venue, spread_bps=6.0 - 4.0 * liquidity, bar_minutes=config.bar_minutes
        )
        depth = 8e-4 * day_shares * _TICK / spreads[k]
        noise = np.exp(_SIZE_NOISE_SD * rng.standard_normal((2, *shape[1:])))
        sizes[:, k, :, :, 0] = venue.lot * np.ceil(depth * noise / venue.lot)
    open_, high, low, close, volume, amount = bars
    return MarketData(
        tuple(f"SYN{k:03d}" for k in range(config.symbols)),
        _business_days(config.sessions),
        grid,
        open_,
        high,
        low,
        close,
        volume > 0,
        volume=volume,
        amount=amount,
        bid=close - spreads / 2,
        ask=close + spreads / 2,
        bid_sizes=sizes[0],
        ask_sizes=sizes[1],
        provenance=Provenance(name, synthetic=True, adjusted=True, notes=(_note(config),)),
    )


def _note(config: SyntheticConfig) -> str:
    structure = (
        "on (stock-specific reversal)" if config.predictable else "off (prices are a martingale)"
    )
    return (
        f"synthetic {config.exchange} market, seed {config.seed}, predictable structure {structure}"
    )


def _business_days(count: int) -> npt.NDArray[np.int32]:
    days = np.busday_offset(_FIRST_DAY, np.arange(count))
    return np.char.replace(days.astype(str), "-", "").astype(np.int32)


def _spread(close: Array, venue: Venue, *, spread_bps: float, bar_minutes: int) -> Array:
    """Full spread in money at each bar's end."""
    shape = np.sqrt(venue.shape(venue.volatility))[bar_minutes - 1 :: bar_minutes]
    return np.maximum(_TICK, 1e-4 * spread_bps * shape * close)


@dataclass(frozen=True)
class _Minutes:
    """The draws behind one price: moves [session, minute, step], log volatility and tail scale
    [session, minute]."""

    moves: Array
    log_volatility: Array
    tail: Array


def _minutes(
    venue: Venue,
    move_bps: float,
    rng: np.random.Generator,
    *,
    sessions: int,
    common: Array | float = 0.0,
) -> _Minutes:
    """Symmetric moves of about `move_bps` a minute.

    `common` is log volatility shared with others.
    """
    shape = (sessions, venue.minutes)
    shocks = rng.standard_normal((sessions * venue.minutes, len(_VOLATILITY_MINUTES)))
    own = _log_volatility(shocks, np.exp(-1 / _VOLATILITY_MINUTES), np.array(venue.volatility_sds))
    log_volatility = own.reshape(shape) + common
    tail = np.sqrt((_TAIL_DEGREES / 2 - 1) / rng.standard_gamma(_TAIL_DEGREES / 2, shape))
    np.minimum(tail, _TAIL_CAP, out=tail)
    # The first step after a break is the break's move: the gap shows in the open, before any print.
    steps = np.repeat(venue.shape(venue.volatility)[:, None] / np.sqrt(STEPS), STEPS, axis=1)
    for minute, scale in venue.gaps.items():
        steps[minute, 0] = scale
    moves = rng.standard_normal((*shape, STEPS))
    moves *= steps
    moves *= (1e-4 * move_bps * tail * np.exp(log_volatility))[:, :, None]
    return _Minutes(moves, log_volatility, tail)


@njit(cache=True)
def _log_volatility(shocks: Array, persistence: Array, sds: Array) -> Array:
    """Sum of stationary first-order autoregressions, one for each column of shocks."""
    state = sds * shocks[0]
    innovation = sds * np.sqrt(1.0 - persistence**2)
    total = np.empty(len(shocks))
    for n in range(len(shocks)):
        total[n] = 0.0
        for j in range(len(state)):
            if n:
                state[j] = persistence[j] * state[j] + innovation[j] * shocks[n, j]
            total[n] += state[j]
    return total


def _fill_bars(
    bars: Array,
    rng: np.random.Generator,
    *,
    venue: Venue,
    market: _Minutes,
    price: float,
    day_shares: float,
    config: SyntheticConfig,
) -> None:
    """Draw one name and write its bars.

    [open, high, low, close, volume, amount] x session x bar.
    """
    move_bps, beta = np.array([venue.specific_bps, 1.0]) * np.exp(
        [0.3, 0.25] * rng.standard_normal(2)
    )
    own = _minutes(
        venue, move_bps, rng, sessions=config.sessions, common=0.5 * market.log_volatility
    )
    noise = rng.standard_normal(own.tail.shape)
    surprise = own.tail * np.exp(own.log_volatility + _VOLUME_NOISE_SD * noise)
    surprise /= surprise.mean()  # a size, free of signs: it tells nothing about where prices go
    profile = venue.shape(venue.volume)
    usual = day_shares * profile / profile.sum()
    step_shares = venue.lot * np.ceil(usual * surprise / STEPS / venue.lot)
    silent = rng.random(surprise.shape) < np.exp(-usual * price / _MONEY_PER_PRINT)
    silent[:, 0] = False  # the opening auction always prints
    step_shares[silent] = 0.0
    undone = (REVERSAL if config.predictable else 0.0) * np.minimum(surprise, _SURPRISE_CAP)
    _print_bars(bars, price, beta, market.moves, own.moves, step_shares, undone, config.bar_minutes)


@njit(cache=True)
def _print_bars(
    bars: Array,
    price: float,
    beta: float,
    market: Array,
    specific: Array,
    step_shares: Array,
    undone: Array,
    bar_minutes: int,
) -> None:
    """Walk the price through every step; `undone` is the share of a minute's specific move that the
    pull takes back."""
    for day in range(specific.shape[0]):
        transient = 0.0
        for minute in range(specific.shape[1]):
            bar = minute // bar_minutes
            if minute % bar_minutes == 0:
                bars[:4, day, bar] = price
                bars[4:, day, bar] = 0.0
            shares = step_shares[day, minute]
            if shares == 0.0:
                continue
            pull = transient / _REVERSAL_MINUTES
            own = 0.0
            for step in range(STEPS):
                own += specific[day, minute, step]
                move = beta * market[day, minute, step] + specific[day, minute, step] - pull / STEPS
                price *= 1.0 + min(max(move, -_MOVE_LIMIT), _MOVE_LIMIT)
                if bars[4, day, bar] == 0.0:
                    bars[:3, day, bar] = price
                bars[1, day, bar] = max(bars[1, day, bar], price)
                bars[2, day, bar] = min(bars[2, day, bar], price)
                bars[3, day, bar] = price
                bars[4, day, bar] += shares
                bars[5, day, bar] += shares * price
            # The overnight move, which sits in the first minute, is not taken back.
            transient = transient - pull + undone[day, minute] * own if minute else 0.0
