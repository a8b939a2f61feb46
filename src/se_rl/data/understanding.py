"""What was understood of bars, for their owner to compare with what he knows, and whether a run can
use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from se_rl.data.calendar import CONTINUOUS
from se_rl.data.catalog import read_any
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.read_options import INFER_ALL, ReadOptions
from se_rl.data.splits import split_dates

LEAST_DAYS = {"train": 1, "valid": 2, "test": 1}
"""Days of each split without which a run cannot score."""
WITHOUT_VOLUME = (
    "no volume: orders are held against the window's TWAP instead of its VWAP, their sizes count no "
    "shares, volume is observed as 0, and participation caps are refused"
)
_LABELS = {
    "start": "labelled by their start",
    "end": "labelled by their end",
    "open+end": "labelled by their end, with a bar for the opening print",
}


@dataclass(frozen=True)
class Understood:
    """Bars in a few facts; `run_fault` says why `se-rl run` cannot use them, "" where it can."""

    symbols: tuple[str, ...]
    days: int
    first_date: int
    last_date: int
    exchange: str
    time_zone: str
    bar_minutes: int
    bar_label: str
    session_bars: int
    has_volume: bool
    has_quotes: bool
    train_days: int
    valid_days: int
    test_days: int
    run_fault: str

    @classmethod
    def of(cls, data: MarketData) -> Understood:
        """The facts of these bars."""
        splits = split_dates(data.dates, data.provenance.split)
        return cls(
            symbols=data.symbols,
            days=len(data.dates),
            first_date=int(data.dates[0]),
            last_date=int(data.dates[-1]),
            exchange=data.grid.exchange,
            time_zone=data.grid.time_zone,
            bar_minutes=data.grid.bar_minutes,
            bar_label=data.grid.label,
            session_bars=len(data.grid),
            has_volume=data.volume is not None,
            has_quotes=data.bid is not None,
            train_days=len(splits["train"]),
            valid_days=len(splits["valid"]),
            test_days=len(splits["test"]),
            run_fault=_run_fault(data),
        )

    def words(self) -> dict[str, str]:
        """The facts for a person, one line each."""
        names = ", ".join(self.symbols[:5]) + (", ..." if len(self.symbols) > 5 else "")
        split = f"{self.train_days} train, {self.valid_days} validation, {self.test_days} test days"
        can_run = f"yes: {split}, orders of at most {self.session_bars} bars (--horizon)"
        return {
            "symbols": f"{len(self.symbols)}: {names}",
            "days": f"{self.days}, {self.first_date} to {self.last_date}",
            "bars": f"{self.bar_minutes} min, {self.session_bars} a session, "
            f"{_LABELS[self.bar_label]}",
            "exchange": self.exchange,
            "time zone": self.time_zone,
            "volume": "yes" if self.has_volume else WITHOUT_VOLUME.removeprefix("no volume: "),
            "quotes": "yes" if self.has_quotes else "none",
            "se-rl run": f"no: {self.run_fault}" if self.run_fault else can_run,
        }


def understood(path: Path, options: ReadOptions = INFER_ALL) -> Understood | None:
    """What a file says where its faulty rows are mended; None where it cannot be read at all."""
    try:
        return Understood.of(read_any(path, replace(options, repair=True)))
    except DataError:
        return None


def _run_fault(data: MarketData) -> str:
    """Why a run cannot use bars; "" where it can."""
    if data.grid.exchange == CONTINUOUS:
        return "the bars follow no exchange's hours, so they have no days; give --exchange"
    splits = split_dates(data.dates, data.provenance.split)
    for name, least in LEAST_DAYS.items():
        if len(splits[name]) < least:
            have = (
                f"{len(data.dates)} days leave {len(splits[name])} {name} days, {least} are needed"
            )
            return f"{have}; give 15 days or more"
    return ""
