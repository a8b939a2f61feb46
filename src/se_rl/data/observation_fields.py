"""The observed numbers, each stated once: name, unit, how it turns with the side, and its formulas.

A public field has two formulas that mean the same: `on_history` for all bars of replayed sessions,
`in_book` for the present moment of simulated markets. A private field is the agent's own order's;
the worlds write it. Everything else (positions, turning tables, the width of an observation) is
derived from `FIELDS` in `features.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from se_rl.data.book_view import BookView
from se_rl.data.known import Known, known_last

Array = npt.NDArray[np.float64]

RETURN_MINUTES = (1, 5, 15, 30, 60)
VOLUME_MINUTES = (1, 5)
"""Spans whose volume is observed; some of RETURN_MINUTES."""
BOOK_LEVELS = 5
_BIDS, _ASKS = 0, 1


OnHistory = Callable[[Known], Array]
"""Of all sessions at once; broadcasts to [symbol, session, bar + 1], NaN where it is unknown."""
InBook = Callable[[BookView], Array]
"""Of all simulated markets at one moment: [market]."""


@dataclass(frozen=True)
class ObservationField:
    """One observed number. `negated` and `mirror` say what a buyer sees in its place.

    A buyer sees the market upside down: minus the number where it is `negated`, and the number of
    the field called `mirror` where there is one. Public fields are 0 until the session has printed,
    except those that are `known_early`. A field without formulas is private.
    """

    name: str
    unit: str
    on_history: OnHistory | None = None
    in_book: InBook | None = None
    negated: bool = False
    mirror: str | None = None
    known_early: bool = False

    @property
    def private(self) -> bool:
        """Whether the number is the agent's own order's instead of the market's."""
        return self.on_history is None


def _spread(known: Known) -> Array:
    """Log of the quoted spread over the symbol's usual one; 0 without quotes."""
    if known.data.bid is None or known.data.ask is None:
        return np.zeros(1)
    bid = known_last(known.data.bid)
    ask = known_last(known.data.ask)
    spread_bps = 2e4 * (ask - bid) / (ask + bid)
    return np.log((spread_bps + 0.01) / (known.scales.spread_bps[:, None, None] + 0.01))


def _size(side: int, level: int, known: Known) -> Array:
    """Log of the displayed size of a level over the symbol's usual best size; 0 without sizes."""
    sizes = known.displayed_sizes
    if sizes is None or level >= sizes[side].shape[-1]:
        return np.zeros(1)
    usual = known.scales.best_size[:, None, None]
    return np.log((sizes[side][..., level] + 1.0) / (usual + 1.0))


def _shown_size(row: int, view: BookView) -> Array:
    return view.log_sizes[row]


def _imbalance(known: Known) -> Array:
    """(bids - asks) / (bids + asks) of all displayed sizes; 0 without sizes."""
    sizes = known.displayed_sizes
    if sizes is None:
        return np.zeros(1)
    bids = sizes[_BIDS].sum(axis=-1)
    asks = sizes[_ASKS].sum(axis=-1)
    return (bids - asks) / np.maximum(bids + asks, 1.0)


def _volatility(known: Known) -> Array:
    """Log of today's volatility estimate over the symbol's in train."""
    usual = np.sqrt(np.maximum(known.scales.variance, 1e-12))
    return np.log(known.sigma / usual[:, None, None])


def _return(minutes: int, known: Known) -> Array:
    return known.clipped_return(minutes)


def _shown_return(entry: int, view: BookView) -> Array:
    return view.returns[entry]


def _specific_return(minutes: int, known: Known) -> Array:
    return known.specific_return(minutes)


def _shown_specific_return(entry: int, view: BookView) -> Array:
    return view.specific_returns[entry]


def _volume(minutes: int, known: Known) -> Array:
    """Log of the last minutes' volume over what the profile expects; 0 without volume."""
    if known.data.volume is None:
        return np.zeros(1)
    return known.log_volume_ratio(known.bars_of(minutes))


def _shown_volume(entry: int, view: BookView) -> Array:
    return view.log_volume_ratio(entry)


def _time_of_day(known: Known) -> Array:
    bars = len(known.data.grid)
    return np.arange(bars + 1) / bars


def _spread_field() -> ObservationField:
    return ObservationField(
        "spread",
        "log of the spread over the symbol's median in train",
        on_history=_spread,
        in_book=lambda view: view.log_spread_ratio,
    )


def _size_fields() -> tuple[ObservationField, ...]:
    """Displayed sizes of both sides, bids first, best level first, and their imbalance."""
    fields = []
    for side, name, other in ((_BIDS, "bid", "ask"), (_ASKS, "ask", "bid")):
        for level in range(BOOK_LEVELS):
            row = side * BOOK_LEVELS + level
            field = ObservationField(
                f"{name}_size_{level + 1}",
                "log of the displayed size over the symbol's median best size",
                on_history=partial(_size, side, level),
                in_book=partial(_shown_size, row),
                mirror=f"{other}_size_{level + 1}",
            )
            fields.append(field)
    imbalance = ObservationField(
        "imbalance",
        "(bids - asks) / (bids + asks) of the displayed sizes",
        on_history=_imbalance,
        in_book=lambda view: view.imbalance,
        negated=True,
    )
    return *fields, imbalance


def _return_fields() -> tuple[ObservationField, ...]:
    """Returns of the last minutes, then the same returns less the universe's."""
    returns = []
    specific = []
    for entry, minutes in enumerate(RETURN_MINUTES):
        whole = ObservationField(
            f"return_{minutes}",
            "log return of the last minutes in its standard deviations",
            on_history=partial(_return, minutes),
            in_book=partial(_shown_return, entry),
            negated=True,
        )
        own = ObservationField(
            f"specific_return_{minutes}",
            "the same minus the universe's mean of that minute",
            on_history=partial(_specific_return, minutes),
            in_book=partial(_shown_specific_return, entry),
            negated=True,
        )
        returns.append(whole)
        specific.append(own)
    return *returns, *specific


def _day_fields() -> tuple[ObservationField, ...]:
    """Where the day stands: price, volatility, volume and clock."""
    since_open = ObservationField(
        "return_since_open",
        "log return since the open in its standard deviations",
        on_history=lambda known: known.return_since_open,
        in_book=lambda view: view.return_since_open,
        negated=True,
    )
    range_position = ObservationField(
        "range_position",
        "place in the day's range, -1 to 1",
        on_history=lambda known: known.range_position(),
        in_book=lambda view: view.range_position,
        negated=True,
    )
    volatility = ObservationField(
        "volatility",
        "log of today's volatility estimate over the symbol's in train",
        on_history=_volatility,
        in_book=lambda view: view.log_volatility_ratio,
    )
    volumes = []
    for minutes in VOLUME_MINUTES:
        entry = RETURN_MINUTES.index(minutes)
        volume = ObservationField(
            f"volume_{minutes}",
            "log of the last minutes' volume over what the profile expects",
            on_history=partial(_volume, minutes),
            in_book=partial(_shown_volume, entry),
        )
        volumes.append(volume)
    time_of_day = ObservationField(
        "time_of_day",
        "share of the session gone",
        on_history=_time_of_day,
        in_book=lambda view: view.time_of_day,
        known_early=True,
    )
    return since_open, range_position, volatility, *volumes, time_of_day


FIELDS: tuple[ObservationField, ...] = (
    ObservationField("order_size", "log of the order's share of the usual volume over 10 %"),
    ObservationField("horizon", "log of the order's length in bars over 60"),
    _spread_field(),
    *_size_fields(),
    *_return_fields(),
    *_day_fields(),
    ObservationField("time_left", "share of the order's horizon left, (T - t) / T"),
    ObservationField("inventory_left", "share of the order left to trade, I_t / I_0"),
)
"""All observed numbers in order: what the agent's own order is, the market, and what is left of the
order."""
