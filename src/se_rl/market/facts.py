"""The twelve stylised facts of the realism card, each defined once, with its band beside it.

A fact is one or more numbers computed from `Evidence`, a sample of markets; all must lie in their
bands. Standard errors come from leaving out one group of markets at a time (jackknife). The bands
are those of research on real books and minute bars: 1-minute returns of mids, days of 390 bars,
sizes as shares of daily volume.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.evidence import GROUPS, SIGN_LAGS, Evidence
from se_rl.market.impact import ORDER_BARS, SHARES, SMALL_SHARES

Float = npt.NDArray[np.float64]

LAGS = (1, 5, 20, 50)
PULSE_BARS = np.array([1, 2, 4, 8, 16, 32, 64])
LARGE = len(SMALL_SHARES) + 2  # sizes from here on: their path and decay stand clear of noise


class Fact(NamedTuple):
    """A fact's name, the bands of its numbers by label, and the function that computes them in that
    order."""

    name: str
    bands: dict[str, tuple[float, float]]
    measure: Callable[[Evidence], tuple[float, ...]]


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


@dataclass(frozen=True)
class FactNumber:
    """One number of a fact with its standard error and band."""

    label: str
    value: float
    se: float
    low: float
    high: float

    @property
    def ok(self) -> bool:
        """The number lies in its band."""
        return bool(self.low <= self.value <= self.high)

    def as_dict(self) -> dict[str, str | float | bool]:
        """What the card's JSON holds of it."""
        return {**asdict(self), "ok": self.ok}


@dataclass(frozen=True)
class FactResult:
    """One row of the card: a fact passes where all its numbers lie in their bands."""

    name: str
    numbers: tuple[FactNumber, ...]

    @property
    def headline(self) -> FactNumber:
        """The number that stands for the fact."""
        return self.numbers[0]

    @property
    def ok(self) -> bool:
        """All numbers lie in their bands."""
        return all(number.ok for number in self.numbers)


def measure(fact: Fact, evidence: Evidence, *, rest: list[Evidence] | None = None) -> FactResult:
    """One row of the card; standard errors from `rest`, the evidence without each group."""
    values = fact.measure(evidence)
    others = np.array([fact.measure(part) for part in rest or []])
    errors = np.full(len(values), np.nan)
    if len(others):
        # jackknife: se = sqrt(groups - 1) * sd over the groups
        errors = others.std(axis=0) * np.sqrt(GROUPS - 1)
    numbers: list[FactNumber] = []
    for (label, (low, high)), value, se in zip(fact.bands.items(), values, errors, strict=True):
        numbers.append(FactNumber(label, value, float(se), low, high))
    return FactResult(fact.name, tuple(numbers))
