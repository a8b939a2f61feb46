"""A seeded synthetic market history, shipped as code: what to run on when there is no data.

Bars hold mid prices, not rounded to ticks, so closes carry no bid-ask bounce. A minute is STEPS
moves

    price *= 1 + beta * market + specific - pull / STEPS,

market and specific each being a symmetric normal draw x time-of-day shape x exp(log volatility at
three time scales) x a Student-t scale shared by the minute. Volumes, scales and silent minutes
depend on the sizes of moves, never on signs, and a price stands still in a silent minute: without
the pull the price is an exact martingale given the past.

The predictable structure is the pull, made for each stock from its own past (over the stocks it
averages out). Impact decays fast at first and slowly later, so there are two memories m, of 5 and
of 60 minutes:

    pull_t = sum of u_{m,t} / m,    u_{m,t+1} = u_{m,t} - u_{m,t} / m + 0.08 * min(v_t, 3) *
    specific_t,    u_m = 0 after the first minute,

v_t being the minute's volume over its mean: 8 % of a stock-specific move, up to 24 % of one on high
volume, is undone within a quarter of an hour, and as much again over the next hours. The market's
own moves are never undone. A cross-sectional ridge forecast on 60 sessions x 100 names gains about
1.5 to 3 bps over TWAP at 240 minutes from it, and nothing without it.

Sealed days. The days of a universe after its train split can follow from a run's seal: the train
days stay as they are bit for bit, whatever the seal, and later days are drawn by the same generator
from new random streams (HMAC of the seal). Prices and volatilities carry over from the last train
day; what a name is like (liquidity, beta, usual volume) is the same for all seals.

Spread: the larger of one tick (0.01) and 6 to 2 bps (least to most liquid name) x the root of the
volatility's shape. Size at the best price: 0.08 % of a usual day's shares divided by the spread in
ticks, with lognormal noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import CHINA, US, session_grid
from se_rl.data.market_data import Array, DataError, MarketData, Provenance
from se_rl.data.synthetic_draws import (
    STEPS,
    TAIL_DEGREES,
    Both,
    MinuteDraws,
    NameDraws,
    SealedDays,
)
from se_rl.data.synthetic_prices import log_volatilities, print_bars
from se_rl.data.venues import QUANTILES, VENUES, Venue
from se_rl.seal import seal_digest

REVERSAL = 0.08
"""Share of a stock-specific move on mean volume that each memory undoes later."""
_SURPRISE_CAP = 3.0
_VOLATILITY_MINUTES = np.array([5.0, 100.0, 2_000.0])
_TAIL_CAP = 5.0  # symmetric, as the limit of a move: no drift comes from them
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
    With `scored_days` a market that is loaded by name has so many sealed days for validation, and
    as many for the test, after the train share of its sessions; None splits the sessions by share.
    """

    exchange: str = US
    bar_minutes: int = 1
    symbols: int = 100
    sessions: int = 60
    seed: int = 0
    predictable: bool = True
    scored_days: int | None = None

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


SCORED_DAYS = 120
"""Days of a universe to validate on, and as many to test on."""
UNIVERSES: dict[str, SyntheticConfig] = {
    "csi100": SyntheticConfig(exchange=CHINA, scored_days=SCORED_DAYS),
    "csi100-fair": SyntheticConfig(exchange=CHINA, predictable=False, scored_days=SCORED_DAYS),
    "nasdaq100": SyntheticConfig(exchange=US, scored_days=SCORED_DAYS),
    "nasdaq100-fair": SyntheticConfig(exchange=US, predictable=False, scored_days=SCORED_DAYS),
}
"""The ready-made universes: 100 made-up names each, shaped like the two markets; `-fair` has
nothing to predict."""


def synthetic_market(
    config: SyntheticConfig = UNIVERSES["nasdaq100"],
    *,
    name: str = "synthetic",
    sealed: SealedDays | None = None,
) -> MarketData:
    """The market of a configuration, bit for bit the same each time; symbol k does not depend on
    how many there are. Days that are `sealed` follow from their seal."""
    venue = VENUES[config.exchange]
    grid = session_grid(config.exchange, bar_minutes=config.bar_minutes)
    sessions = sealed.sessions if sealed else config.sessions
    shape = (config.symbols, sessions, len(grid))
    bars, spreads, sizes = np.empty((6, *shape)), np.empty(shape), np.empty((2, *shape, 1))
    rng = np.random.default_rng((config.seed, 0))
    places = (rng.random(2) + np.outer(np.arange(config.symbols), _SPREAD_OUT)) % 1.0
    market = _market(config, rng, sealed)
    for k, (liquidity, dearness) in enumerate(places):
        price = np.exp(np.interp(dearness, QUANTILES, np.log(venue.first_price)))
        day_shares = np.exp(np.interp(liquidity, QUANTILES, np.log(venue.day_money))) / price
        draws = _name_draws(config, k, len(grid), sealed)
        _fill_bars(
            bars[:, k], draws, market=market, price=price, day_shares=day_shares, config=config
        )
        spreads[k] = _spread(
            bars[3, k], venue, spread_bps=6.0 - 4.0 * liquidity, bar_minutes=config.bar_minutes
        )
        depth = 8e-4 * day_shares * _TICK / spreads[k]
        noise = np.exp(_SIZE_NOISE_SD * draws.used.sizes)
        sizes[:, k, :, :, 0] = venue.lot * np.ceil(depth * noise / venue.lot)
    open_, high, low, close, volume, amount = bars
    return MarketData(
        tuple(f"SYN{k:03d}" for k in range(config.symbols)),
        business_days(sessions),
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
        provenance=Provenance(name, synthetic=True, adjusted=True, notes=_notes(config, sealed)),
    )


def _notes(config: SyntheticConfig, sealed: SealedDays | None) -> tuple[str, ...]:
    structure = (
        "on (stock-specific reversal)" if config.predictable else "off (prices are a martingale)"
    )
    made = (
        f"synthetic {config.exchange} market, seed {config.seed}, predictable structure {structure}"
    )
    if sealed is None:
        return (made,)
    return (
        made,
        f"days from session {sealed.first + 1} on follow from seal {seal_digest(sealed.seal)[:8]}",
    )


def business_days(count: int) -> npt.NDArray[np.int32]:
    """The dates of the first so many sessions of every synthetic market."""
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


def _market(
    config: SyntheticConfig, rng: np.random.Generator, sealed: SealedDays | None
) -> Both[_Minutes]:
    """The moves that all names share."""
    venue = VENUES[config.exchange]
    draws = MinuteDraws.draw(rng, config.sessions, venue.minutes)
    public = _minutes(venue, venue.market_bps, draws)
    if sealed is None:
        return Both(public, public)
    until = sealed.first
    for stream, sessions in sealed.streams(config.exchange, config.seed, 0):
        draws = draws.until(until, MinuteDraws.draw(stream, sessions, venue.minutes))
        until += sessions
    return Both(_minutes(venue, venue.market_bps, draws), public)


def _name_draws(
    config: SyntheticConfig, k: int, bars: int, sealed: SealedDays | None
) -> Both[NameDraws]:
    """The draws of symbol k."""
    minutes = VENUES[config.exchange].minutes
    rng = np.random.default_rng((config.seed, k + 1))
    used = public = NameDraws.draw(rng, config.sessions, minutes, bars=bars)
    if sealed is None:
        return Both(public, public)
    until = sealed.first
    for stream, sessions in sealed.streams(config.exchange, config.seed, k + 1):
        used = used.until(until, NameDraws.draw(stream, sessions, minutes, bars=bars))
        until += sessions
    return Both(used, public)


def _minutes(
    venue: Venue, move_bps: float, draws: MinuteDraws, *, common: Array | float = 0.0
) -> _Minutes:
    """Symmetric moves of about `move_bps` a minute.

    `common` is log volatility shared with others.
    """
    shape = draws.gamma.shape
    shocks = draws.shocks.reshape(-1, len(_VOLATILITY_MINUTES))
    own = log_volatilities(shocks, np.exp(-1 / _VOLATILITY_MINUTES), np.array(venue.volatility_sds))
    log_volatility = own.reshape(shape) + common
    tail = np.sqrt((TAIL_DEGREES / 2 - 1) / draws.gamma)
    np.minimum(tail, _TAIL_CAP, out=tail)
    # The first step after a break is the break's move: the gap shows in the open, before any print.
    steps = np.repeat(venue.shape(venue.volatility)[:, None] / np.sqrt(STEPS), STEPS, axis=1)
    for minute, scale in venue.gaps.items():
        steps[minute, 0] = scale
    moves = draws.moves * steps
    moves *= (1e-4 * move_bps * tail * np.exp(log_volatility))[:, :, None]
    return _Minutes(moves, log_volatility, tail)


def _fill_bars(
    bars: Array,
    draws: Both[NameDraws],
    *,
    market: Both[_Minutes],
    price: float,
    day_shares: float,
    config: SyntheticConfig,
) -> None:
    """Write the bars of one name.

    [open, high, low, close, volume, amount] x session x bar.
    """
    venue = VENUES[config.exchange]
    move_bps, beta = np.array([venue.specific_bps, 1.0]) * np.exp([0.3, 0.25] * draws.public.traits)
    own, surprise = _surprise(venue, move_bps, draws.used, market.used)
    usual_surprise = surprise.mean()
    if draws.is_sealed:  # scales come from the market without a seal: no train day moves with one
        usual_surprise = _surprise(venue, move_bps, draws.public, market.public)[1].mean()
    surprise /= usual_surprise
    profile = venue.shape(venue.volume)
    usual = day_shares * profile / profile.sum()
    step_shares = venue.lot * np.ceil(usual * surprise / STEPS / venue.lot)
    silent = draws.used.silence < np.exp(-usual * price / _MONEY_PER_PRINT)
    silent[:, 0] = False  # the opening auction always prints
    step_shares[silent] = 0.0
    undone = (REVERSAL if config.predictable else 0.0) * np.minimum(surprise, _SURPRISE_CAP)
    print_bars(
        bars, price, beta, market.used.moves, own.moves, step_shares, undone, config.bar_minutes
    )


def _surprise(
    venue: Venue, move_bps: float, draws: NameDraws, market: _Minutes
) -> tuple[_Minutes, Array]:
    """A name's own moves, and its volume [session, minute] over the usual one, up to a scale: a
    size, free of signs, which tells nothing about where prices go."""
    own = _minutes(venue, move_bps, draws.minutes, common=0.5 * market.log_volatility)
    return own, own.tail * np.exp(own.log_volatility + _VOLUME_NOISE_SD * draws.volumes)
