"""The twelve stylised facts of the realism card, each defined once, with its band beside it.

A fact is one or more numbers computed from `Evidence`, a sample of markets; all must lie in their
bands. Standard errors come from leaving out one group of markets at a time (jackknife). The bands
are those of research on real books and minute bars: 1-minute returns of mids, days of 390 bars,
sizes as shares of daily volume.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.impact import (
    DAY_BARS,
    ORDER_BARS,
    SHARES,
    SMALL_SHARES,
    Start,
    meta_orders,
    news_ticks,
    pulse,
)
from se_rl.market.participants import FIRST_MAKER, INFORMED, MAX_MAKERS
from se_rl.market.price_levels import CASH, LOG_QUANTITY, LOGGED, TAKER_SIDE
from se_rl.market.price_levels import SHARES as HELD
from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets

Float = npt.NDArray[np.float64]

QUIET_BARS, LOOK_BARS = 4 * DAY_BARS, 26
GROUPS, LAGS = 16, (1, 5, 20, 50)
SIGN_EDGES = np.geomspace(10, 1000, 9).astype(np.int64)
SIGN_LAGS = np.sqrt(SIGN_EDGES[:-1] * SIGN_EDGES[1:])
PULSE_BARS = np.array([1, 2, 4, 8, 16, 32, 64])
BEST_LEVELS = 5
LARGE = len(SMALL_SHARES) + 2  # sizes from here on: their path and decay stand clear of noise


class Evidence(NamedTuple):
    """What the facts are computed from; axis 0 of every array is the market.

    mid [n, bars] ticks; spread [n, bars] ticks; volume [n, bars] lots; depth [n, looks, levels]
    lots at the best prices; wealth [n, (informed, makers)] ticks x lots; sign_acf [m, lags] of
    trade signs, trade_lots [m] mean size of a trade; response [k, sizes, bars] and pulse [k, bars]
    in ticks, NaN where an order failed.
    """

    mid: Float
    spread: Float
    volume: Float
    depth: Float
    wealth: Float
    sign_acf: Float
    trade_lots: Float
    response: Float
    pulse: Float

    def without(self, group: int) -> Evidence:
        """The same without every GROUPS-th market, counted from `group`."""
        return Evidence(*(part[np.arange(len(part)) % GROUPS != group] for part in self))

    @property
    def daily_volume(self) -> float:
        """Mean lots traded in a day."""
        return float(self.volume.mean()) * DAY_BARS

    @property
    def daily_sd_ticks(self) -> float:
        """Standard deviation of a day's move, from 1-minute moves."""
        return float(np.diff(self.mid).std() * np.sqrt(DAY_BARS))


class Fact(NamedTuple):
    """A fact's name, the bands of its numbers by label, and the function that computes them in that
    order."""

    name: str
    bands: dict[str, tuple[float, float]]
    measure: Callable[[Evidence], tuple[float, ...]]


def gather(
    profile: MarketProfile, *, seed: int, effort: float = 1.0
) -> tuple[Evidence, Start, dict[str, Any]]:
    """Run the markets behind the facts; also the settled markets of the meta-orders, and counts for
    the card."""
    n, traced, orders = (
        max(least, round(size * effort)) for least, size in ((48, 600), (24, 96), (96, 4000))
    )
    quiet, quiet_counts = _quiet_run(n, profile, seed=seed)
    daily_volume = float(quiet["volume"].mean()) * DAY_BARS
    signs = _sign_run(
        traced, profile, seed=seed, log=round(daily_volume / DAY_BARS * QUIET_BARS * 1.5)
    )
    start = Start(orders, profile, seed=seed)
    tried, single = (probe(start, daily_volume=daily_volume) for probe in (meta_orders, pulse))
    evidence = Evidence(
        **quiet,
        **signs,
        response=np.where(tried.kept[:, :, None], tried.response, np.nan),
        pulse=np.where(single.kept, single.response[:, 0], np.nan),
    )
    messages = quiet_counts["messages"] + tried.messages + single.messages
    return evidence, start, quiet_counts | {"messages": messages, "orders": tried}


def _quiet_run(
    n: int, profile: MarketProfile, *, seed: int
) -> tuple[dict[str, Float], dict[str, int]]:
    """Markets that nobody disturbs."""
    seeds = np.random.default_rng([seed, 1]).integers(2**40, size=n)
    markets = Markets(n, profile, seeds=seeds, warm_up_bars=100)
    kept: dict[str, list[Float]] = {"mid": [], "spread": [], "volume": [], "depth": []}
    counts = {"messages": 0, "crossed": 0}
    wealth = np.zeros((n, 2))
    for _ in range(QUIET_BARS // LOOK_BARS):  # in pieces: the full record would fill the memory
        earned, news = _worth(markets), news_ticks(markets)
        held = markets.books.book.owners[..., HELD].copy()
        bars, _answers = markets.run(LOOK_BARS)
        # holding through news earns 0 on average: taken out, so that skill shows
        earned = _worth(markets) - earned - held * (news_ticks(markets) - news)[:, None]
        makers = earned[:, FIRST_MAKER : FIRST_MAKER + MAX_MAKERS].sum(axis=1)
        wealth += np.stack([earned[:, INFORMED], makers], axis=1)
        kept["mid"].append(bars["close"].T / 2.0)
        kept["spread"].append((bars["ask"] - bars["bid"]).T.astype(float))
        kept["volume"].append(bars["volume"].T.astype(float))
        kept["depth"].append(markets.books.depth(BEST_LEVELS)[..., 1].mean(axis=1)[:, None])
        counts["messages"] += int(bars["messages"].sum())
        counts["crossed"] += int(
            ((bars["ask"] <= bars["bid"]) & (bars["bid"] > 0) & (bars["ask"] > 0)).sum()
        )
    counts["broken"] = int(markets.broken.sum())
    arrays = {name: np.concatenate(parts, axis=1) for name, parts in kept.items()}
    return arrays | {"wealth": wealth}, counts


def _worth(markets: Markets) -> Float:
    """Every account marked at the mid, in ticks x lots [n, owners]."""
    owners = markets.books.book.owners
    return owners[..., CASH] + owners[..., HELD] * markets.mid_ticks[:, None]


def _sign_run(n: int, profile: MarketProfile, *, seed: int, log: int) -> dict[str, Float]:
    """Autocorrelation of the signs of trades, from the trade log."""
    seeds = np.random.default_rng([seed, 2]).integers(2**40, size=n)
    markets = Markets(n, profile, seeds=seeds, log=log)
    markets.books.clear_log()
    markets.run(QUIET_BARS, record=False)
    acfs, sizes = [], []
    for b in range(n):
        trades = markets.books.trades(b)[: min(log, markets.books.total(LOGGED)[b])]
        acfs.append(sign_autocorrelation(1.0 - 2.0 * trades[:, TAKER_SIDE]))
        sizes.append(trades[:, LOG_QUANTITY].mean())
    return {"sign_acf": np.array(acfs), "trade_lots": np.array(sizes)}


def sign_autocorrelation(signs: Float) -> Float:
    """Autocorrelation of +-1 averaged between SIGN_EDGES, about their true mean 0: under long
    memory the mean of one market's signs is far from 0, and taking it out would hide the memory."""
    size = 2 ** int(np.ceil(np.log2(len(signs) + SIGN_EDGES[-1])))
    spectrum = abs(np.fft.rfft(signs, size)) ** 2
    acf = np.fft.irfft(spectrum)[: SIGN_EDGES[-1]] / (len(signs) - np.arange(SIGN_EDGES[-1]))
    return np.array([acf[low:high].mean() for low, high in pairwise(SIGN_EDGES)])


def autocorrelation(values: Float, lags: npt.ArrayLike) -> Float:
    """Autocorrelation along the last axis, pooled over rows, about the mean of all values."""
    x = values - values.mean()
    scale = (x**2).mean()
    return np.array(
        [(x[..., lag:] * x[..., : x.shape[-1] - lag]).mean() / scale for lag in np.atleast_1d(lags)]
    )


def kurtosis(moves: Float) -> float:
    """Fourth moment over the squared second one: 3 for a normal variable."""
    centred = moves - moves.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def power(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Slope of log y on log x by least squares; NaN where some y is not positive."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if np.min(y) > 0 else float("nan")


def hill(moves: Float, share: float) -> float:
    """Hill's estimate of the tail index from the largest `share` of absolute moves, all ties
    included.

    Its threshold lies half-way to the next smaller value: mids move in half ticks, and each stands
    for what is around it.
    """
    size = np.sort(abs(moves), axis=None)
    first = np.searchsorted(size, size[-max(2, int(share * size.size))])
    threshold = (size[first] + size[max(0, first - 1)]) / 2
    return float(1.0 / np.log(size[first:] / threshold).mean())


def tail_index(e: Evidence) -> tuple[float, ...]:
    """Hill's index of 1-minute moves, top 2 % and top 1 %."""
    moves = np.diff(e.mid)
    return hill(moves, 0.02), hill(moves, 0.01)


def kurtosis_by_scale(e: Evidence) -> tuple[float, ...]:
    """Kurtosis of 1-minute moves, and its fall to 5 and on to 30 minutes."""
    one, five, thirty = (kurtosis(np.diff(e.mid[:, ::k])) for k in (1, 5, 30))
    return one, five / one, thirty / five


def linear_memory(e: Evidence) -> tuple[float, ...]:
    """Autocorrelation of 1-minute moves at lag 1."""
    return (float(autocorrelation(np.diff(e.mid), 1)[0]),)


def variance_ratio(e: Evidence) -> tuple[float, ...]:
    """Variance of k-minute moves over k times that of 1-minute moves, k = 10, 30, 60."""
    one = np.diff(e.mid).var()
    return tuple(float((e.mid[:, k:] - e.mid[:, :-k]).var() / (k * one)) for k in (10, 30, 60))


def clustering(e: Evidence) -> tuple[float, ...]:
    """Autocorrelation of absolute moves: at lag 1, the least of all lags, and the exponent of its
    decay."""
    acf = autocorrelation(abs(np.diff(e.mid)), LAGS)
    return float(acf[0]), float(acf.min()), -power(LAGS, acf)


def sign_memory(e: Evidence) -> tuple[float, ...]:
    """Exponent of the decay of the autocorrelation of trade signs, 10 to 1000 trades."""
    return (-power(SIGN_LAGS, e.sign_acf.mean(axis=0)),)


def impact_size(e: Evidence) -> tuple[float, ...]:
    """d of I = Y s_D (Q/V)^d by least squares over all sizes, and the least and largest Y for d =
    1/2."""
    shares, peak = np.array(SHARES), _peaks(e)[len(SMALL_SHARES) :]
    y = peak / (e.daily_sd_ticks * np.sqrt(shares))
    return power(shares, peak), float(y.min()), float(y.max())


def crossover(e: Evidence) -> tuple[float, ...]:
    """Size in % of daily volume at which the line through the smallest size meets the power law of
    the impact exponent."""
    peak = _peaks(e)
    steepness, law = peak[0] / SMALL_SHARES[0], peak[len(SMALL_SHARES) :]
    if not (np.min(law) > 0 and steepness > 0):
        return (float("nan"),)
    slope, level = np.polyfit(np.log(SHARES), np.log(law), 1)
    return (
        float(100.0 * (np.exp(level) / steepness) ** (1.0 / (1.0 - slope)))
        if slope < 1
        else float("inf"),
    )


def impact_path(e: Evidence) -> tuple[float, ...]:
    """Impact half-way through an order worked at a constant rate, over that at its end; orders of 1
    % and more."""
    path = _path(e)
    return (float(path[ORDER_BARS // 2 - 1] / path[ORDER_BARS - 1]),)


def decay(e: Evidence) -> tuple[float, ...]:
    """Share of the peak left one and three order lengths after the end; orders of 1 % and more."""
    path = _path(e)
    return tuple(float(path[k * ORDER_BARS - 1] / path[ORDER_BARS - 1]) for k in (2, 4))


def propagator(e: Evidence) -> tuple[float, ...]:
    """Exponent of the decay of the response to one small market order, 1 to 64 minutes."""
    return (-power(PULSE_BARS, mean_of_kept(e.pulse[:, PULSE_BARS - 1])),)


def spread_and_depth(e: Evidence) -> tuple[float, ...]:
    """Mean spread over daily volatility, in % (AAPL 2.8, AMZN 4.0), and lots at the best price over
    those of a trade."""
    return (
        float(100.0 * e.spread.mean() / e.daily_sd_ticks),
        float(e.depth[..., 0].mean() / e.trade_lots.mean()),
    )


def mean_of_kept(values: Float) -> Float:
    """Mean over markets of what is not NaN; NaN where nothing is left."""
    kept = np.isfinite(values)
    count = kept.sum(axis=0)
    return np.divide(
        np.where(kept, values, 0.0).sum(axis=0),
        count,
        out=np.full(count.shape, np.nan),
        where=count > 0,
    )


def _peaks(e: Evidence) -> Float:
    return mean_of_kept(e.response[:, :, ORDER_BARS - 1])


def _path(e: Evidence) -> Float:
    """Mean response after each bar, summed over the large sizes."""
    return mean_of_kept(e.response[:, LARGE:]).sum(axis=0)


FACTS = (
    Fact("tail index", {"top 2 %": (2.5, 4.5), "top 1 %": (2.5, 4.5)}, tail_index),
    Fact(
        "kurtosis by scale",
        {"1 min": (5, 20), "5 min / 1 min": (0, 1), "30 min / 5 min": (0, 1)},
        kurtosis_by_scale,
    ),
    Fact("linear autocorrelation", {"lag 1": (-0.05, 0.05)}, linear_memory),
    Fact(
        "variance ratio",
        {"10 min": (0.75, 1.2), "30 min": (0.75, 1.2), "60 min": (0.75, 1.2)},
        variance_ratio,
    ),
    Fact(
        "volatility clustering",
        {"lag 1": (0.08, 1), "least to 50": (0, 1), "exponent": (0.2, 0.6)},
        clustering,
    ),
    Fact("sign memory", {"exponent": (0.3, 0.7)}, sign_memory),
    Fact(
        "impact exponent",
        {"exponent": (0.4, 0.7), "least Y": (0.4, 1.2), "largest Y": (0.4, 1.2)},
        impact_size,
    ),
    Fact("crossover", {"% of daily volume": (0, 0.5)}, crossover),
    Fact("impact path", {"I(T/2) / I(T)": (0.62, 0.78)}, impact_path),
    Fact("decay", {"left at +1T": (0.5, 0.85), "left at +3T": (0.3, 0.7)}, decay),
    Fact("propagator", {"exponent": (0.15, 0.5)}, propagator),
    Fact(
        "spread and depth",
        {"spread, % of daily sd": (2, 5), "depth in trades": (0.7, 4)},
        spread_and_depth,
    ),
)
"""The card's facts; the first number of each is its headline value."""


def measure(
    fact: Fact, evidence: Evidence, *, rest: list[Evidence] | None = None
) -> dict[str, Any]:
    """One row of the card; standard errors from `rest`, the evidence without each group."""
    values = fact.measure(evidence)
    others = np.array([fact.measure(part) for part in rest or []])
    errors = (
        others.std(axis=0) * np.sqrt(GROUPS - 1) if len(others) else np.full(len(values), np.nan)
    )
    parts = [
        {
            "label": label,
            "value": value,
            "se": float(se),
            "low": low,
            "high": high,
            "ok": bool(low <= value <= high),
        }
        for (label, (low, high)), value, se in zip(fact.bands.items(), values, errors, strict=True)
    ]
    head = {key: parts[0][key] for key in ("value", "se", "low", "high")}
    return {"name": fact.name, **head, "ok": all(part["ok"] for part in parts), "parts": parts}
