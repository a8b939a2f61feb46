"""Bars from a vendor over the network: alpaca, baostock, yfinance and akshare behind one table.

A vendor is a row of `VENDOR_TABLE` (what it serves) and a function of `vendor_clients` (how one
request is put); splitting, retries, partial success and tidying are common to all and live here
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from se_rl.data.calendar import TIME_ZONES, SessionGrid, session_grid
from se_rl.data.market_data import PRICE_FIELDS, DataError
from se_rl.data.vendor_clients import Ask, Stop, one_line, status_of
from se_rl.data.vendor_table import VENDOR_TABLE, VENDORS, VendorBars, codes_of

if TYPE_CHECKING:
    import pandas as pd

TRIES = 3
_COLUMNS = ("symbol", "timestamp", *PRICE_FIELDS, "volume")
_PASSING = {
    "ConnectionError",
    "TimeoutError",
    "Timeout",
    "ProxyError",
    "gaierror",
    "ChunkedEncodingError",
} | {
    # akshare reads the page of a busy server as JSON without a look at its status
    "JSONDecodeError",
    "YFRateLimitError",
}


@dataclass(frozen=True, kw_only=True)
class FetchRequest:
    """What to download: symbols, first and last day (YYYY-MM-DD, both inclusive) and the bar
    length."""

    symbols: tuple[str, ...]
    start: str
    end: str
    bar_minutes: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.symbols, str) or not self.symbols:
            raise DataError(f"symbols is {self.symbols!r}; give a tuple with at least one symbol")
        if len(set(self.symbols)) != len(self.symbols):
            raise DataError(f"a symbol is named twice in {', '.join(self.symbols)}; name each once")
        if _day(self.start) > _day(self.end):
            raise DataError(f"start {self.start} is after end {self.end}; swap them")


@dataclass(frozen=True, eq=False)
class Fetched:
    """Bars as they came, put in order: symbol, timestamp (exchange time), open, high, low, close,
    volume [, amount].

    `bar_label` is one of `se_rl.data.calendar.LABELS`; `notes` tell what was left out, replaced or
    not fetched, `failed` why for each symbol.
    """

    frame: pd.DataFrame
    exchange: str
    bar_label: str
    bar_minutes: int
    adjusted: bool
    notes: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)


def fetch_bars(
    vendor: str,
    request: FetchRequest,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    today: date | None = None,
    wrap: Callable[[Ask], Ask] = lambda ask: ask,
) -> Fetched:
    """Download unadjusted bars of the regular session; `progress` gets (symbol, requests done,
    requests in all). `wrap` may put something between us and the vendor, kept answers for example.

    What some symbols lack is told in the notes; a DataError is raised where nothing came.
    """
    if vendor not in VENDOR_TABLE:
        raise DataError(f"vendor {vendor!r} is unknown; use one of {', '.join(VENDORS)}")
    row = VENDOR_TABLE[vendor]
    bars = row.bars.get(request.bar_minutes)
    if bars is None:
        lengths = ", ".join(map(str, row.bars))
        raise DataError(
            f"{vendor} has no {request.bar_minutes}-minute bars; use bar_minutes {lengths}"
        )
    codes = codes_of(vendor, request.symbols)
    spans = _spans(
        vendor, request, bars, today or datetime.now(ZoneInfo(TIME_ZONES[row.exchange])).date()
    )
    with row.connect() as ask:
        frames, failed = _collect(
            vendor, wrap(ask), request, spans=spans, codes=codes, progress=progress, sleep=sleep
        )
    asked = f"{request.bar_minutes}-minute bars from {request.start} to {request.end}"
    if not frames:
        raise DataError(
            f"{vendor} gave no {asked}: {_listed(failed)}; check symbols and dates ({row.hint})"
        )
    grid = session_grid(row.exchange, bar_minutes=request.bar_minutes, label=bars.label)
    frame, notes = _tidy(frames, request, grid)
    came = set(frame["symbol"])
    if not came:
        raise DataError(
            f"{vendor} gave no usable {asked}: {'; '.join(notes)}; choose other dates ({row.hint})"
        )
    failed |= {
        symbol: "no usable bars" for symbol in request.symbols if symbol not in came | set(failed)
    }
    if failed:
        notes.append(f"not fetched: {_listed(failed)}")
    return Fetched(
        frame,
        row.exchange,
        bars.label,
        request.bar_minutes,
        adjusted=False,
        notes=(*row.notes, *notes),
        failed=failed,
    )


def _collect(
    vendor: str,
    ask: Ask,
    request: FetchRequest,
    *,
    spans: list[tuple[date, date]],
    codes: Mapping[str, str],
    progress: Callable[[str, int, int], None] | None,
    sleep: Callable[[float], None],
) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """All frames that came, and why the other symbols failed. Ends early where the vendor is out of
    reach."""
    frames: list[pd.DataFrame] = []
    failed: dict[str, str] = {}
    for i, symbol in enumerate(request.symbols):
        came = len(frames)
        for j, (first, last) in enumerate(spans):
            try:
                part = _patiently(
                    partial(ask, codes[symbol], first, last, request.bar_minutes), sleep
                )
                if len(part):
                    frames.append(
                        part.assign(symbol=symbol)[
                            [*_COLUMNS, *part.columns.intersection(["amount"])]
                        ]
                    )
            except Stop as stop:
                if not frames:
                    raise DataError(f"{vendor} {stop}") from None
                rest = dict.fromkeys(request.symbols[i + 1 :], "not asked for")
                return frames, failed | {symbol: f"from {first} on, {vendor} {stop}"} | rest
            except (
                Exception
            ) as error:  # a vendor's library may raise anything; it costs one symbol, not the rest
                failed[symbol] = f"from {first} on, {one_line(error)}"
                break
            if progress:
                progress(symbol, i * len(spans) + j + 1, len(request.symbols) * len(spans))
        if len(frames) == came:
            failed.setdefault(symbol, "no bars")
    return frames, failed


def _patiently(ask: Callable[[], pd.DataFrame], sleep: Callable[[float], None]) -> pd.DataFrame:
    """Put one request, again after 2 and 4 seconds where the fault may pass (connection, 429,
    5xx).
    """
    for attempt in range(1, TRIES + 1):
        try:
            return ask()
        except Exception as error:
            status = status_of(error)
            if status in (401, 403):
                raise Stop(
                    f"refused the request ({one_line(error)}); "
                    "check the keys and what the plan allows"
                ) from None
            names = {kind.__name__ for kind in type(error).__mro__}
            may_pass = status == 429 or status >= 500 or (not status and names & _PASSING)
            if not may_pass:
                raise
            reason = f"HTTP status {status}" if status else type(error).__name__
        if attempt < TRIES:
            sleep(2.0**attempt)
    raise Stop(
        f"did not answer in {TRIES} tries ({reason}); "
        "check the network and proxy, or try again later"
    )


def _tidy(
    frames: list[pd.DataFrame], request: FetchRequest, grid: SessionGrid
) -> tuple[pd.DataFrame, list[str]]:
    """One sorted frame on the session grid, and a note for each thing that was left out or
    replaced."""
    import pandas as pd

    notes: list[str] = []

    def keep(rows: pd.Series[bool], what: str) -> pd.DataFrame:
        if not rows.all():
            notes.append(f"{int((~rows).sum())} {what} left out")
        return frame[rows]

    def local(part: pd.DataFrame) -> pd.DataFrame:
        at = pd.to_datetime(part["timestamp"]).dt.as_unit("ns").dt
        return part.assign(
            timestamp=at.tz_convert(grid.time_zone)
            if at.tz is not None
            else at.tz_localize(grid.time_zone)
        )

    frame = pd.concat(map(local, frames), ignore_index=True)
    numbers = list(frame.columns[2:])
    frame[numbers] = frame[numbers].apply(pd.to_numeric, errors="coerce").astype("float64")
    frame = frame.sort_values(["symbol", "timestamp"], kind="stable")
    frame = keep(~frame.duplicated(["symbol", "timestamp"], keep="last"), "repeated bars")
    first, last = (
        pd.Timestamp(_day(text), tz=grid.time_zone) for text in (request.start, request.end)
    )
    within = frame["timestamp"].between(first, last + pd.DateOffset(days=1), inclusive="left")
    frame = keep(within, "bars of other days")
    at = frame["timestamp"].dt
    on_grid = (grid.positions[(at.hour * 60 + at.minute).to_numpy()] >= 0) & (at.second == 0)
    frame = keep(on_grid, "bars outside the regular session")
    priced = (frame[["high", "low", "close"]] > 0).all(axis=1)
    frame = keep(
        priced & (frame["open"] >= 0) & (frame["volume"] >= 0), "bars without a price or volume"
    )
    zero = frame["open"] == 0
    if zero.any():
        # The true open lies within [low, high]; the previous close, or a first bar's own, is
        # brought there.
        before = frame.groupby("symbol")["close"].shift().fillna(frame["close"])
        frame = frame.assign(
            open=frame["open"].mask(zero, before.clip(frame["low"], frame["high"]))
        )
        notes.append(
            f"{int(zero.sum())} zero opens replaced by the previous close, held within low and high"
        )
    if "amount" in frame and frame["amount"].isna().any():
        notes.append(f"amount left out: {int(frame['amount'].isna().sum())} bars lack it")
        frame = frame.drop(columns="amount")
    return frame.reset_index(drop=True), notes


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except (TypeError, ValueError):
        raise DataError(f"date {text!r} cannot be read; write it as YYYY-MM-DD") from None


def _spans(
    vendor: str, request: FetchRequest, bars: VendorBars, today: date
) -> list[tuple[date, date]]:
    """The days of the request, cut to what the vendor gives at a time."""
    first, last = _day(request.start), _day(request.end)
    if first < today - timedelta(days=bars.days_back):
        earliest = today - timedelta(days=bars.days_back)
        kept = f"{vendor} keeps {request.bar_minutes}-minute bars for {bars.days_back} days"
        raise DataError(f"{kept}, start {first} is too early; use start {earliest} or later")
    step = timedelta(days=bars.days_per_request)
    starts = [first + k * step for k in range((last - first) // step + 1)]
    return [(start, min(start + step - timedelta(days=1), last)) for start in starts]


def _listed(failed: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for symbol, reason in failed.items():
        by_reason.setdefault(reason, []).append(symbol)
    return ", ".join(f"{' '.join(symbols)} ({reason})" for reason, symbols in by_reason.items())
