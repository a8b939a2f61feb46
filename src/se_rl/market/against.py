"""The simulated market beside a real one: the same statistics of both, and Wasserstein distances of
two distributions.

A simulated tick has no size in money: it is given the one at which both markets have the same daily
volatility.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.data.books import EXECUTION, BookHistory
from se_rl.data.market_data import DataError, MarketData
from se_rl.market.evidence import SIGN_EDGES, SIGN_LAGS, Evidence, sign_autocorrelation
from se_rl.market.facts import LAGS, autocorrelation, hill, kurtosis

Float = npt.NDArray[np.float64]

BPS = 1e4
LEAST_RETURNS = 300


class Real(NamedTuple):
    """A real market: 1-bar returns [series, bars] in bps, spreads with weights, depth over trade
    size, signs of trades."""

    name: str
    returns: Float
    spread_bps: Float
    weights: Float
    depth_in_trades: float
    signs: Float


@dataclass(frozen=True)
class ComparedNumber:
    """One statistic of both markets."""

    name: str
    real: float
    simulated: float


@dataclass(frozen=True)
class MarketComparison:
    """The simulated market beside a real one; a tick counts as `bps_per_tick`."""

    name: str
    bps_per_tick: float
    rows: tuple[ComparedNumber, ...]
    wasserstein: dict[str, float]


def against(evidence: Evidence, data: MarketData | BookHistory) -> MarketComparison:
    """The same statistics of both markets; the simulated side is scaled to the real volatility."""
    real = _from_book(data) if isinstance(data, BookHistory) else _from_bars(data)
    moves = np.diff(evidence.mid)
    bps_per_tick = float(real.returns.std() / moves.std())
    rows: list[ComparedNumber] = []
    ours = _shape(moves)
    for name, value in _shape(real.returns).items():
        rows.append(ComparedNumber(name, value, ours[name]))
    distances = {"standardised returns": _distance(_standard(real.returns), _standard(moves))}
    if len(real.spread_bps):
        spread = evidence.spread * bps_per_tick
        mean = float(np.average(real.spread_bps, weights=real.weights))
        rows.append(ComparedNumber("spread, bps", mean, float(spread.mean())))
        distances["spread, bps"] = _distance(real.spread_bps, spread, weights=real.weights)
    if np.isfinite(real.depth_in_trades):
        depth = float(evidence.depth[..., 0].mean() / evidence.trade_lots.mean())
        rows.append(ComparedNumber("best size, in trades", real.depth_in_trades, depth))
    if len(real.signs) > 4 * SIGN_EDGES[-1]:
        theirs = sign_autocorrelation(real.signs)
        for lag, real_acf, acf in zip(
            SIGN_LAGS, theirs, evidence.sign_acf.mean(axis=0), strict=True
        ):
            name = f"sign autocorrelation near lag {lag:.0f}"
            rows.append(ComparedNumber(name, float(real_acf), float(acf)))
    return MarketComparison(real.name, bps_per_tick, tuple(rows), distances)


def _shape(moves: Float) -> dict[str, float]:
    """What does not depend on the unit of the moves."""
    shape = {
        "tail index, top 2 %": hill(moves, 0.02),
        "kurtosis, 1 bar": kurtosis(moves),
        "autocorrelation of r, lag 1": float(autocorrelation(moves, 1)[0]),
    }
    for lag, value in zip(LAGS, autocorrelation(abs(moves), LAGS), strict=True):
        shape[f"autocorrelation of |r|, lag {lag}"] = float(value)
    return shape


def _distance(real: Float, ours: Float, *, weights: Float | None = None) -> float:
    from scipy.stats import wasserstein_distance

    # a seventh of our values is plenty, and faster
    return float(wasserstein_distance(real.ravel(), ours.ravel()[::7], weights))


def _standard(moves: Float) -> Float:
    return (moves - moves.mean()) / moves.std()


def _from_book(book: BookHistory) -> Real:
    """Mids at the minutes' ends, time-weighted spreads, visible executions with equal times merged
    into one trade."""
    bars = book.bars()
    assert bars.bid is not None and bars.ask is not None  # a book always has quotes
    mid = ((bars.bid + bars.ask) / 2.0)[0]
    ranges = book.bar_ranges()
    inside = slice(ranges[0], ranges[-1])
    bid, ask = book.bid_e4[inside, 0].astype(float), book.ask_e4[inside, 0].astype(float)
    quoted = (book.bid_size[inside, 0] > 0) & (book.ask_size[inside, 0] > 0)
    spread = BPS * np.divide(ask - bid, (ask + bid) / 2.0, out=np.zeros_like(bid), where=quoted)
    lasted = np.diff(book.time_ns[inside], append=book.time_ns[inside][-1]).astype(float)
    executed = np.flatnonzero(book.kind == EXECUTION)
    times, first = np.unique(book.time_ns[executed], return_index=True)
    best = (book.bid_size[inside, 0] + book.ask_size[inside, 0])[quoted] / 2.0
    return Real(
        f"{book.symbol} {book.date}",
        BPS * np.diff(np.log(mid)),
        spread[quoted],
        lasted[quoted],
        float(best.mean() * len(times) / max(1, book.size[executed].sum())),
        -book.direction[executed][first].astype(float),  # LOBSTER names the resting side
    )


def _from_bars(data: MarketData) -> Real:
    """Returns of closes inside sessions, each symbol scaled to the mean volatility; quotes where
    the data has them."""
    series = data.close[data.has_session]
    returns = BPS * np.diff(np.log(series))
    if returns.size < LEAST_RETURNS:
        raise DataError(
            f"{data.provenance.name} has {returns.size} returns; "
            f"a comparison needs {LEAST_RETURNS} or more"
        )
    symbol = np.nonzero(data.has_session)[0]
    scale = np.array([returns[symbol == s].std() for s in range(len(data.symbols))])
    level = scale[scale > 0].mean()
    returns = returns[scale[symbol] > 0] * (level / scale[symbol][scale[symbol] > 0])[:, None]
    spread = np.empty(0)
    if data.bid is not None and data.ask is not None:
        bid, ask = data.bid[data.has_session], data.ask[data.has_session]
        quoted = (bid > 0) & (ask > bid)
        spread = BPS * 2.0 * (ask - bid)[quoted] / (ask + bid)[quoted]
    return Real(
        data.provenance.label, returns, spread, np.ones(len(spread)), float("nan"), np.empty(0)
    )
