"""Data sets by name or path: where they are, how their dates are split, what a model for them may
be fitted on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.data import books, ticks
from se_rl.data.books import BookHistory
from se_rl.data.frames import bars_from_frame
from se_rl.data.home import data_home
from se_rl.data.market_data import Array, DataError, MarketData, Provenance, SplitDates
from se_rl.data.readers import ReadOptions, read_bars
from se_rl.data.splits import GAP_SESSIONS, SPLITS, Dates, day_number, split_dates
from se_rl.data.store import write_bars
from se_rl.data.synthetic import (
    UNIVERSES,
    SealedDays,
    SyntheticConfig,
    business_days,
    synthetic_market,
)
from se_rl.seal import PUBLIC, seal_digest

if TYPE_CHECKING:
    import pandas as pd

PRACTICE = f"practice days: all days follow from the seal {PUBLIC!r}, which everybody knows"
"""What is said of a synthetic set without a seal of its own."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Bars with their splits by date; `path` is None for synthetic bars.

    `closed` are days that belong to the set and whose bars are not here: sealed test days.
    """

    data: MarketData
    path: Path | None = None
    closed: Dates = field(default_factory=lambda: np.array([], np.int32))

    @property
    def name(self) -> str:
        """The set's name: a file's stem, or the universe's name."""
        return self.data.provenance.name

    @property
    def all_dates(self) -> Dates:
        """Every day of the set, closed ones too."""
        return np.concatenate([self.data.dates, self.closed])

    def dates(self, split: str) -> Dates:
        """The dates of a split; an empty one is refused."""
        if split not in SPLITS:
            raise DataError(f"split {split!r} is unknown; use one of {', '.join(SPLITS)}")
        dates = self._dates_of(split)
        if not len(dates):
            raise DataError(
                f"split {split!r} of {self.name} is empty ({len(self.all_dates)} sessions in "
                "all); use --split all"
            )
        return dates

    def has(self, split: str) -> bool:
        """Whether the split has any date."""
        return len(self._dates_of(split)) > 0

    def split(self, split: str) -> MarketData:
        """The bars of a split alone."""
        dates = self.dates(split)
        if np.isin(dates, self.closed).any():
            raise DataError(f"the {split} days of {self.name} are closed here; open the set anew")
        return self.data.select(dates=dates)

    def without_test_days(self) -> DataSet:
        """The same set with its test days closed: none of their bars is in it."""
        closed = np.union1d(self.closed, self._dates_of("test"))
        kept = self.data.select(dates=np.setdiff1d(self.data.dates, closed))
        return replace(self, data=kept, closed=closed)

    def _dates_of(self, split: str) -> Dates:
        if split == "all":
            return self.all_dates
        return split_dates(self.all_dates, self.data.provenance.split)[split]


def load_dataset(
    spec: str,
    options: ReadOptions | None = None,
    *,
    seal: str = PUBLIC,
    split: SplitDates | None = None,
    scored_days: int | None = None,
    with_test: bool = True,
) -> DataSet:
    """A set by path, by the name it was imported under, or `csi100`/`nasdaq100` (synthetic unless
    imported).

    `split` says how its days are split (None: as its own file says, else by share). The days of a
    synthetic set after its train days follow from the seal; `scored_days` of them are for
    validation and as many for the test. Without `with_test` the bars of test days are left out.
    """
    dataset = _found(spec, options or ReadOptions(), seal, scored_days, with_test=with_test)
    if split is not None:
        provenance = replace(dataset.data.provenance, split=split)
        dataset = replace(dataset, data=replace(dataset.data, provenance=provenance))
    return dataset if with_test else dataset.without_test_days()


def _found(
    spec: str, options: ReadOptions, seal: str, scored_days: int | None, *, with_test: bool
) -> DataSet:
    path = Path(spec).expanduser()
    if path.suffix or path.exists():
        return DataSet(read_any(path, options), path)
    imported = data_home() / f"{spec}.parquet"
    if imported.exists():
        return DataSet(read_any(imported, options), imported)
    if spec not in UNIVERSES:
        known = ", ".join(sorted({*UNIVERSES, *imported_names()}))
        raise DataError(
            f"data {spec!r} is neither a file nor a known set; give a path, or one of: {known}"
        )
    config = UNIVERSES[spec]
    if config.scored_days is None:
        return DataSet(_by_share(config, spec, seal))
    return _with_scored_days(
        config, spec, seal, scored_days or config.scored_days, with_test=with_test
    )


def load_data(
    source: str | Path | pd.DataFrame | MarketData, options: ReadOptions | None = None
) -> MarketData:
    """Bars from whatever holds them: a file, the name of a set, a dataframe, or bars already read.

    A set by name is the public practice draw where it is synthetic; runs draw days of their own.
    """
    if isinstance(source, MarketData):
        return source
    if isinstance(source, str | Path):
        return load_dataset(str(source), options).data
    return bars_from_frame(source, options or ReadOptions())


def load_train_days(spec: str) -> DataSet:
    """A set to fit on, written SET@DATE: its days up to that date are train days, no others."""
    place, mark, text = spec.rpartition("@")
    if not mark:
        raise DataError(
            f"{spec!r} does not say until when to fit on it; write it as SET@YYYY-MM-DD"
        )
    until = day_number(text)
    dataset = load_dataset(place, split=SplitDates(until, until))
    if not dataset.has("train"):
        raise DataError(f"{place} has no day until {text} to fit on; give a later date")
    return dataset


def _by_share(config: SyntheticConfig, name: str, seal: str) -> MarketData:
    """A synthetic market split by share, sealed after its train days; the public seal leaves all
    days as its own seed makes them, and says so."""
    first = _train_sessions(config)
    sealed = None if seal == PUBLIC else SealedDays(first, seal, (config.sessions - first,))
    market = synthetic_market(config, name=name, sealed=sealed)
    digest = _digest(config, market.close[:, :first], seal, 0)
    return _told(market, replace(market.provenance, sha256=digest), seal)


def _with_scored_days(
    config: SyntheticConfig, name: str, seal: str, days: int, *, with_test: bool
) -> DataSet:
    """A universe: its train days, then two sealed blocks of `days`, for validation and test."""
    first = _train_sessions(config)
    block = GAP_SESSIONS + days
    dates = business_days(first + 2 * block)
    sealed = SealedDays(first, seal, (block, block) if with_test else (block,))
    market = synthetic_market(config, name=name, sealed=sealed)
    split = SplitDates(int(dates[first - 1]), int(dates[first + block - 1]), GAP_SESSIONS)
    digest = _digest(config, market.close[:, :first], seal, days)
    market = _told(market, replace(market.provenance, sha256=digest, split=split), seal)
    return DataSet(market, closed=dates[len(market.dates) :])


def _train_sessions(config: SyntheticConfig) -> int:
    return len(split_dates(np.arange(config.sessions, dtype=np.int32))["train"])


def _digest(config: SyntheticConfig, train_closes: Array, seal: str, days: int) -> str:
    """A name for a synthetic set's bars, the same whether its test days are open or closed."""
    digest = hashlib.sha256(f"{config} {seal_digest(seal)} {days}".encode())
    digest.update(np.ascontiguousarray(train_closes).tobytes())
    return digest.hexdigest()


def _told(market: MarketData, provenance: Provenance, seal: str) -> MarketData:
    """The market with its provenance, which says where everybody knows all of its days."""
    notes = (*provenance.notes, PRACTICE) if seal == PUBLIC else provenance.notes
    return replace(market, provenance=replace(provenance, notes=notes))


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
    """Store bars in the data home under a name, with the split that their provenance states;
    returns what was stored."""
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
