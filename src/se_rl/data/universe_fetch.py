"""`se-rl data fetch csi100|nasdaq100`: the members, the vendor that has their bars, and a download
that can be broken off and taken up again.

Every answer that can no longer change is kept in a folder; the same command asks only for what is
not there. Requests keep the pause that the vendor's limits ask for.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from se_rl.data.calendar import TIME_ZONES
from se_rl.data.index_members import index_members, listed_members
from se_rl.data.market_data import DataError
from se_rl.data.vendor_clients import Ask
from se_rl.data.vendor_table import VENDOR_TABLE
from se_rl.data.vendors import Fetched, FetchRequest, fetch_bars

if TYPE_CHECKING:
    import pandas as pd

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class UniverseRequest:
    """A whole universe from one day to another (None: today); None elsewhere leaves the choice to
    us."""

    universe: str
    start: str
    end: str | None = None
    vendor: str | None = None
    bar_minutes: int | None = None
    symbols: tuple[str, ...] = ()
    members: Path | None = None


def fetch_universe(
    wanted: UniverseRequest,
    keep: Path,
    *,
    say: Say = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    today: date | None = None,
) -> Fetched:
    """Download a universe, keeping finished answers under `keep` until all is there."""
    vendor = wanted.vendor or _vendor_of(wanted.universe)
    if vendor not in VENDOR_TABLE:
        raise DataError(f"vendor {vendor!r} is unknown; use one of {', '.join(VENDOR_TABLE)}")
    row = VENDOR_TABLE[vendor]
    day = today or datetime.now(ZoneInfo(TIME_ZONES[row.exchange])).date()
    notes: tuple[str, ...] = ()
    symbols = wanted.symbols
    if not symbols:
        members = (
            listed_members(wanted.members)
            if wanted.members
            else index_members(wanted.universe, say=say)
        )
        symbols = members.symbols
        notes = (f"members: {members.source}",)
        say(f"{len(symbols)} {notes[0]}")
    request = FetchRequest(
        symbols=symbols,
        start=wanted.start,
        end=wanted.end or f"{day}",
        bar_minutes=wanted.bar_minutes or min(row.bars),
    )
    folder = keep / vendor
    fetched = fetch_bars(
        vendor,
        request,
        progress=lambda symbol, done, total: say(f"{symbol} ({done}/{total})"),
        sleep=sleep,
        today=day,
        wrap=lambda ask: _kept(_paced(ask, row.pause_s, sleep), folder, day),
    )
    if not fetched.failed:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(fetched, notes=(*notes, *fetched.notes))


def _vendor_of(universe: str) -> str:
    """Who has a universe's bars: alpaca reaches back years but wants keys."""
    if universe == "csi100":
        return "baostock"
    return "alpaca" if os.environ.get("APCA_API_KEY_ID") else "yfinance"


def _paced(ask: Ask, pause: float, sleep: Callable[[float], None]) -> Ask:
    """The same requests with a pause after each."""

    def slowly(code: str, first: date, last: date, bar_minutes: int) -> pd.DataFrame:
        try:
            return ask(code, first, last, bar_minutes)
        finally:
            sleep(pause)

    return slowly


def _kept(ask: Ask, folder: Path, today: date) -> Ask:
    """The same answers, from the folder where they lie there already."""

    def looked_up(code: str, first: date, last: date, bar_minutes: int) -> pd.DataFrame:
        import pandas as pd

        key = hashlib.sha256(f"{code} {first} {last} {bar_minutes}".encode()).hexdigest()[:24]
        path = folder / f"{key}.parquet"
        if path.exists():
            try:
                return pd.read_parquet(path)
            except (OSError, ValueError):
                path.unlink()  # cut short: ask again
        answer = ask(code, first, last, bar_minutes)
        if len(answer) and last < today:
            folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            answer.to_parquet(part, index=False)
            part.replace(path)
        return answer

    return looked_up
