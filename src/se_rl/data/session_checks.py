"""What looks wrong with the sessions of a market: volumes, gaps, days, and moves between days."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import HOLIDAYS_OF, SPECIAL_SESSIONS
from se_rl.data.frames import early_closes
from se_rl.data.market_data import MarketData
from se_rl.data.row_defects import Mask


@dataclass(frozen=True)
class Finding:
    """One kind of fault: its severity (`error`, `warning`, `info`), how often, where first, how to
    mend it."""

    kind: str
    severity: str
    count: int
    example: str
    mend: str


DAY_VOLUME_LIMIT = 3.0
DAY_VOLUME_WINDOW = 20
DAY_VOLUME_LEAST = 5


SPIKE_SHARE, SPIKE_MEDIANS = 0.1, 50.0
"""A spike inside the session holds more than this share of its day and more than this many median
bars."""


MISSING_LIMIT = 0.25
OVERNIGHT_LIMIT = 0.11


def _day_volume(data: MarketData) -> Iterator[Finding]:
    if data.volume is None:
        return
    days = np.where(data.has_session, data.volume.sum(axis=2), np.nan)
    high = np.zeros(days.shape, dtype=bool)
    for day in range(DAY_VOLUME_LEAST, days.shape[1]):
        before = days[:, max(0, day - DAY_VOLUME_WINDOW) : day]
        known = np.sum(~np.isnan(before), axis=1) >= DAY_VOLUME_LEAST
        high[known, day] = days[known, day] > DAY_VOLUME_LIMIT * np.nanmedian(before[known], axis=1)
    yield from _sessions(
        data,
        high,
        "day_volume",
        f"volume over {DAY_VOLUME_LIMIT:g} x its 20-day median",
        "news or bad volume?",
    )


def _spikes(data: MarketData) -> Iterator[Finding]:
    """Bars inside the session (the first and last carry the auctions) that dwarf their day."""
    if data.volume is None or len(data.grid) < 3:
        return
    day = data.volume.sum(axis=2, keepdims=True)
    median = np.nanmedian(
        np.where(data.has_session[..., None], data.volume, 0.0), axis=2, keepdims=True
    )
    spike = (
        (data.volume > SPIKE_SHARE * day) & (data.volume > SPIKE_MEDIANS * median) & (median > 0)
    )
    spike[:, :, [0, -1]] = False
    if spike.any():
        symbol, session, bar = np.argwhere(spike)[0]
        example = (
            f"first {data.symbols[symbol]} {data.dates[session]} {clock(data.grid.minutes[bar])}: "
        )
        example += (
            f"{data.volume[symbol, session, bar]:,.0f} of the day's {day[symbol, session, 0]:,.0f}"
        )
        yield Finding(
            "bar_volume",
            "warning",
            int(spike.sum()),
            example,
            "a block print? set it to the day's median",
        )


def _early(data: MarketData) -> Iterator[Finding]:
    early = early_closes(data)
    if early.any() and not early.all():
        example = f"no print in the last fifth of {_few(data.dates[early])}"
        yield Finding(
            "early_close",
            "warning",
            int(early.sum()),
            example,
            "read_bars leaves them out unless the file states its own hours",
        )


def _missing_minutes(data: MarketData) -> Iterator[Finding]:
    missing = np.where(data.has_session, np.sum(~data.traded, axis=2), 0)
    if not missing.any():
        return
    share = missing.sum() / (data.has_session.sum() * len(data.grid))
    symbol, session = np.unravel_index(missing.argmax(), missing.shape)
    example = (
        f"{share:.1%} of all minutes; "
        f"most: {data.symbols[symbol]} {data.dates[session]} lacks {missing.max()}"
    )
    severity = "warning" if share > MISSING_LIMIT else "info"
    yield Finding(
        "missing_minutes",
        severity,
        int(missing.sum()),
        example,
        "filled flat at the last close with volume 0",
    )


def _calendar(data: MarketData) -> Iterator[Finding]:
    """Days that the exchange was open and the file lacks, and days of the file that it was not."""
    first, last = _iso(data.dates[0]), _iso(data.dates[-1])
    exchange = data.grid.exchange
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the calendar package is behind pandas' deprecations
        import exchange_calendars

        try:
            listed_as = HOLIDAYS_OF.get(exchange, exchange)
            calendar = exchange_calendars.get_calendar(listed_as, start=first, end=last)
            sessions, short = calendar.sessions, calendar.early_closes
        except ValueError as error:
            seen = f"{' '.join(str(error).split())[:120]}"
            yield Finding(
                "calendar", "info", len(data.dates), f"days not checked ({seen})", "none needed"
            )
            return
    open_days, short_days = _as_numbers(sessions), _as_numbers(short)
    # Prints after an early close hide it from the reader, which only sees that the day goes on.
    hidden = np.intersect1d(short_days, data.dates[~early_closes(data)])
    missing, strange = np.setdiff1d(open_days, data.dates), np.setdiff1d(data.dates, open_days)
    strange = np.setdiff1d(strange, SPECIAL_SESSIONS.get(exchange, ()))
    if len(missing):
        yield Finding(
            "missing_days",
            "warning",
            len(missing),
            _few(missing),
            "get these days, or mind the gap",
        )
    if len(hidden):
        example = f"the exchange closed early on {_few(hidden)}, yet later bars are there"
        yield Finding("early_close", "warning", len(hidden), example, "leave these sessions out")
    if len(strange):
        yield Finding(
            "closed_days",
            "warning",
            len(strange),
            _few(strange),
            "the exchange was closed: check the dates",
        )


def _iso(day: int) -> str:
    """20240102 as 2024-01-02."""
    return f"{day // 10000}-{day // 100 % 100:02d}-{day % 100:02d}"


def _as_numbers(days: Iterable[datetime]) -> npt.NDArray[np.int64]:
    """Days as numbers like 20240102."""
    return np.array([int(day.strftime("%Y%m%d")) for day in days])


def _overnight(data: MarketData) -> Iterator[Finding]:
    """Moves from a symbol's last close to the next session's first open."""
    rows = np.arange(len(data.symbols))
    opens = np.take_along_axis(data.open, data.first_bar[..., None], axis=2)[..., 0]
    moved, last = np.zeros(data.has_session.shape, dtype=bool), np.full(len(rows), np.nan)
    for day in range(len(data.dates)):
        live = data.has_session[:, day]
        moved[:, day] = live & (np.abs(opens[:, day] / last - 1) > OVERNIGHT_LIMIT)
        last = np.where(live, data.close[:, day, -1], last)
    yield from _sessions(
        data,
        moved,
        "overnight",
        f"overnight move over {OVERNIGHT_LIMIT:.0%}",
        "an unadjusted split?",
    )


def _sessions(data: MarketData, found: Mask, kind: str, what: str, mend: str) -> Iterator[Finding]:
    """One warning for the symbol-sessions found, naming the first."""
    if found.any():
        symbol, session = np.argwhere(found)[0]
        names = len(np.flatnonzero(found.any(axis=1)))
        example = f"{what}: {names} symbols, first {data.symbols[symbol]} {data.dates[session]}"
        yield Finding(kind, "warning", int(found.sum()), example, mend)


def _few(dates: npt.NDArray[np.integer]) -> str:
    return ", ".join(str(d) for d in dates[:5]) + (", ..." if len(dates) > 5 else "")


def clock(minute: int) -> str:
    """A minute after midnight as hours and minutes."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


SESSION_CHECKS = (_day_volume, _spikes, _early, _missing_minutes, _calendar, _overnight)
"""Every check of whole sessions, in the order in which a report lists them."""
