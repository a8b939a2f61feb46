"""Data sets by name or path: where they are, how their dates are split, what a model for them may
be fitted on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data import books, ticks
from se_rl.data.books import BookHistory
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.readers import ReadOptions, read_bars
from se_rl.data.store import write_bars
from se_rl.data.synthetic import UNIVERSES, SealedDays, synthetic_market
from se_rl.seal import PUBLIC

Dates = npt.NDArray[np.int32]
SPLITS = ("all", "train", "valid", "test")
SHARES = (
    0.6,
    0.2,
)  # of the sessions for train and valid where a set has no dates of its own; test takes the rest
GAP_SESSIONS = 1
PRACTICE = f"practice days: all days follow from the seal {PUBLIC!r}, which everybody knows"
"""What is said of a synthetic set without a seal of its own."""


@dataclass(frozen=True)
class KnownSet:
    """Last train date, last valid date, and the sets (beside it in its folder) whose train days
    models are fitted on."""

    train_until: int
    valid_until: int
    fit_on: tuple[str, ...]


KNOWN_SETS = {
    "us_minute_2018": KnownSet(20180313, 20180321, ("us_minute_2018", "us_minute_2025")),
    "us_minute_2022": KnownSet(0, 0, ("us_minute_2018", "us_minute_2025")),
    "us_minute_2025": KnownSet(20250205, 20250218, ("us_minute_2018", "us_minute_2025")),
    "us_minute_2026": KnownSet(0, 0, ("us_minute_2018", "us_minute_2025")),
    "cn_15min_2025": KnownSet(20250807, 20251023, ("cn_15min_2025",)),
}


@dataclass(frozen=True, eq=False)
class DataSet:
    """Bars with their splits by date; `path` is None for synthetic bars."""

    data: MarketData
    path: Path | None = None

    @property
    def name(self) -> str:
        """The set's name: a file's stem, or the universe's name."""
        return self.data.provenance.name

    def dates(self, split: str) -> Dates:
        """The dates of a split; an empty one is refused."""
        if split not in SPLITS:
            raise DataError(f"split {split!r} is unknown; use one of {', '.join(SPLITS)}")
        dates = (
            self.data.dates
            if split == "all"
            else split_dates(self.data.dates, KNOWN_SETS.get(self.name))[split]
        )
        if not len(dates):
            raise DataError(
                f"split {split!r} of {self.name} is empty ({len(self.data.dates)} sessions in "
                "all); use --split all"
            )
        return dates

    def has(self, split: str) -> bool:
        """Whether the split has any date."""
        return (
            split == "all"
            or len(split_dates(self.data.dates, KNOWN_SETS.get(self.name))[split]) > 0
        )

    def split(self, split: str) -> MarketData:
        """The bars of a split alone."""
        return self.data.select(dates=self.dates(split))

    def companions(self) -> list[DataSet]:
        """The sets that models for this one are fitted on: itself, or the known ones that lie
        beside it."""
        known = KNOWN_SETS.get(self.name)
        if known is None or self.path is None:
            return [self] if self.has("train") else []
        places = {name: self.path.with_name(f"{name}{self.path.suffix}") for name in known.fit_on}
        return [
            self if name == self.name else load_dataset(str(p))
            for name, p in places.items()
            if p.exists()
        ]


def split_dates(dates: Dates, known: KnownSet | None = None) -> dict[str, Dates]:
    """Train, valid and test dates, in this order of time; by share with a gap of one session unless
    the set is known."""
    if known is not None:
        train, valid = dates <= known.train_until, dates <= known.valid_until
        return {"train": dates[train], "valid": dates[valid & ~train], "test": dates[~valid]}
    first, second = int(len(dates) * SHARES[0]), int(len(dates) * (SHARES[0] + SHARES[1]))
    return {
        "train": dates[:first],
        "valid": dates[first + GAP_SESSIONS : second],
        "test": dates[second + GAP_SESSIONS :],
    }


def data_home() -> Path:
    """Where imported and fetched sets live: SE_RL_HOME, else ~/.local/share/se-rl."""
    return Path(os.environ.get("SE_RL_HOME", Path.home() / ".local" / "share" / "se-rl")) / "data"


def load_dataset(spec: str, options: ReadOptions | None = None, *, seal: str = PUBLIC) -> DataSet:
    """A set by path, by the name it was imported under, or `csi100`/`nasdaq100` (synthetic unless
    imported). The days of a synthetic set after its train days follow from the seal."""
    path = Path(spec).expanduser()
    if path.suffix or path.exists():
        return DataSet(read_any(path, options or ReadOptions()), path)
    imported = data_home() / f"{spec}.parquet"
    if imported.exists():
        return DataSet(read_any(imported, options or ReadOptions()), imported)
    if spec in UNIVERSES:
        return DataSet(_universe(spec, seal))
    known = ", ".join(sorted({*UNIVERSES, *imported_names()}))
    raise DataError(
        f"data {spec!r} is neither a file nor a known set; give a path, or one of: {known}"
    )


def _universe(name: str, seal: str) -> MarketData:
    """A synthetic universe, sealed after its train days; the public seal leaves all days as its
    own seed makes them, and says so."""
    config = UNIVERSES[name]
    if seal != PUBLIC:
        days = np.arange(config.sessions, dtype=np.int32)
        sealed = SealedDays(len(split_dates(days)["train"]), seal)
        return synthetic_market(config, name=name, sealed=sealed)
    market = synthetic_market(config, name=name)
    notes = (*market.provenance.notes, PRACTICE)
    return replace(market, provenance=replace(market.provenance, notes=notes))


def imported_names() -> list[str]:
    """Names of the sets in the data home."""
    return sorted(p.stem for p in data_home().glob("*.parquet"))


def list_datasets() -> list[dict[str, Any]]:
    """Every set that can be named, and whether its name stands for imported or for synthetic
    bars.
    """
    rows = [
        {"name": name, "kind": "imported", "path": str(data_home() / f"{name}.parquet")}
        for name in imported_names()
    ]
    taken = {row["name"] for row in rows}
    rows += [
        {"name": name, "kind": "SYNTHETIC", "path": "made when used"}
        for name in UNIVERSES
        if name not in taken
    ]
    return rows


def import_bars(data: MarketData, name: str, *, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Store bars in the data home under a name; returns what was stored."""
    if not name.isidentifier():
        raise DataError(
            f"name {name!r} cannot be a set's name; use letters, digits and underscores"
        )
    path = data_home() / f"{name}.parquet"
    stored_notes = write_bars(data, path, notes=notes)
    symbols, sessions, _ = data.shape
    return {
        "name": name,
        "path": str(path),
        "symbols": symbols,
        "sessions": sessions,
        "bars": int(data.traded.sum()),
        "notes": list(stored_notes),
    }


def read_book_or_bars(spec: str) -> MarketData | BookHistory:
    """A LOBSTER day as the book it is, anything else as bars."""
    path = Path(spec).expanduser()
    return books.read_lobster(path) if "_message" in path.stem.lower() else load_dataset(spec).data


def read_any(path: Path, options: ReadOptions) -> MarketData:
    """Bars from any file we read; its name says whether LOBSTER messages or ticks make them."""
    stem = path.stem.lower()
    if "_message" in stem:
        return books.read_lobster(path).bars()
    if "_trades_" in stem:
        quotes = path.with_name(path.name.replace("_trades_", "_bbo_"))
        standing = ticks.read_quotes(quotes) if quotes.exists() else None
        return ticks.bars_from_ticks(ticks.read_trades(path), standing)
    return read_bars(path, options)
