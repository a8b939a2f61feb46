"""MarketData: bars of one or many symbols on one session grid, checked when it is made.

Everything downstream (features, worlds, metrics) reads these arrays; what cannot be trusted never
gets in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import SessionGrid

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]
PRICE_FIELDS = ("open", "high", "low", "close")


class DataError(ValueError):
    """The user's data cannot be used; the message is one line that says what was wrong and how to
    mend it."""


@dataclass(frozen=True)
class SplitDates:
    """The last train day and the last valid day, as yyyymmdd; test days come after it.

    `gap` sessions are left out between two parts.
    """

    train_until: int
    valid_until: int
    gap: int = 0

    def __post_init__(self) -> None:
        if self.valid_until < self.train_until:
            raise DataError(
                f"valid days end on {self.valid_until}, before train days do "
                f"({self.train_until}); give the dates in order"
            )


@dataclass(frozen=True)
class Provenance:
    """Where the numbers came from: shown in every output that used them.

    `split` is how the set's owner wants its days split; None leaves it to the shares.
    """

    name: str
    sha256: str = ""
    synthetic: bool = False
    adjusted: bool | None = None
    notes: tuple[str, ...] = ()
    split: SplitDates | None = None

    @property
    def label(self) -> str:
        """The name, with the word SYNTHETIC where no market ever printed these prices."""
        return f"{self.name} (SYNTHETIC)" if self.synthetic else self.name


@dataclass(frozen=True, eq=False)
class MarketData:
    """Bars as arrays of shape [symbol, session, bar] on the full grid.

    `traded` is False where no bar was printed: such a bar is flat at the last close (before the
    first bar of the session: at its open) with volume 0. A symbol without any bar on a date has no
    session there (NaN prices). `volume` and `amount` (money traded) are None where the source has
    none; quotes are those at the bar's end, `bid_sizes` and `ask_sizes` have a last axis of levels,
    best first.
    """

    symbols: tuple[str, ...]
    dates: npt.NDArray[np.int32]
    grid: SessionGrid
    open: Array
    high: Array
    low: Array
    close: Array
    traded: npt.NDArray[np.bool_]
    volume: Array | None = None
    amount: Array | None = None
    bid: Array | None = None
    ask: Array | None = None
    bid_sizes: Array | None = None
    ask_sizes: Array | None = None
    provenance: Provenance = field(default_factory=lambda: Provenance("unnamed"))

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_values()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(symbols, sessions, bars per session)."""
        return len(self.symbols), len(self.dates), len(self.grid)

    @cached_property
    def has_session(self) -> npt.NDArray[np.bool_]:
        """[symbol, session]: the symbol traded that day."""
        return np.asarray(self.traded.any(axis=2))

    @cached_property
    def first_bar(self) -> npt.NDArray[np.int64]:
        """[symbol, session]: the first bar that really printed; nothing about the day is known
        before it closes."""
        return self.traded.argmax(axis=2)

    @cached_property
    def price(self) -> Array:
        """The bar price p_t: amount/volume where the data has the amount, else (high + low +
        close)/3."""
        typical = (self.high + self.low + self.close) / 3.0
        if self.amount is None or self.volume is None:
            return typical
        return np.divide(self.amount, self.volume, out=typical, where=self.volume > 0)

    def require_volume(self, purpose: str) -> Array:
        """The volume, or a DataError: it is never invented."""
        if self.volume is None:
            raise DataError(
                f"{self.provenance.name} has no volume, which {purpose} needs; "
                "use a data set with volume"
            )
        return self.volume

    def symbol_index(self, symbol: str) -> int:
        """Position of a symbol, or a DataError that names a few of those there are."""
        try:
            return self.symbols.index(symbol)
        except ValueError:
            known = ", ".join(self.symbols[:5]) + (", ..." if len(self.symbols) > 5 else "")
            raise DataError(
                f"symbol {symbol!r} is not in {self.provenance.name}; it has {known}"
            ) from None

    def select(
        self,
        *,
        symbols: Iterable[str] | None = None,
        dates: npt.NDArray[np.integer] | Iterable[int] | None = None,
    ) -> MarketData:
        """The same data for some symbols and/or some dates (views where possible)."""
        rows = slice(None) if symbols is None else np.array([self.symbol_index(s) for s in symbols])
        days = (
            slice(None)
            if dates is None
            else np.flatnonzero(np.isin(self.dates, np.asarray(list(dates))))
        )
        if not isinstance(days, slice) and len(days) and np.all(np.diff(days) == 1):
            days = slice(int(days[0]), int(days[-1]) + 1)
        arrays: dict[str, Any] = {
            f.name: value[rows][:, days]
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), np.ndarray) and value.ndim >= 3
        }
        names = self.symbols if isinstance(rows, slice) else tuple(self.symbols[i] for i in rows)
        return replace(self, symbols=names, dates=self.dates[days], **arrays)

    def to_frame(self) -> pd.DataFrame:
        """The printed bars as a long frame: symbol, timestamp (exchange time), prices, and volume,
        amount and the best quotes where there are some.
        """
        import pandas as pd

        symbol, day, bar = np.nonzero(self.traded)
        days = pd.to_datetime(self.dates[day].astype(str), format="%Y%m%d")
        minutes = pd.to_timedelta(np.asarray(self.grid.minutes)[bar], unit="min")
        frame = pd.DataFrame(
            {"symbol": np.array(self.symbols, dtype=object)[symbol], "timestamp": days + minutes}
        )
        for name in (*PRICE_FIELDS, "volume", "amount", "bid", "ask"):
            values = getattr(self, name)
            if values is not None:
                frame[name] = values[self.traded]
        for name in ("bid", "ask"):
            sizes = getattr(self, f"{name}_sizes")
            if sizes is not None:
                frame[f"{name}_size"] = sizes[self.traded][:, 0]
        return frame

    def session(self, symbol: str, date: int) -> MarketData:
        """One symbol on one date."""
        day = self.dates == date
        if not self.has_session[self.symbol_index(symbol), day].any():
            raise DataError(f"{symbol} has no session on {date} in {self.provenance.name}")
        return self.select(symbols=[symbol], dates=[date])

    def _check_shapes(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray) and value.ndim >= 3 and value.shape[:3] != self.shape:
                raise DataError(
                    f"{f.name} has shape {value.shape}, expected {self.shape} = symbols x "
                    "sessions x bars"
                )
        if len(set(self.symbols)) != len(self.symbols):
            raise DataError("a symbol appears twice; merge or rename it")
        if np.any(np.diff(self.dates) <= 0):
            raise DataError("session dates are not strictly increasing; sort the data by date")

    def _check_values(self) -> None:
        live = self.has_session
        if not live.any():
            raise DataError(
                f"{self.provenance.name} holds no session; "
                "check the file, the symbols and the dates"
            )
        prices = {name: getattr(self, name)[live] for name in PRICE_FIELDS}
        for name, values in prices.items():
            self._refuse(
                ~(values > 0) | ~np.isfinite(values), f"{name} is not a positive number", live
            )
        slack = 1e-9 * prices["close"]
        top = np.maximum(prices["open"], prices["close"]) > prices["high"] + slack
        bottom = np.minimum(prices["open"], prices["close"]) < prices["low"] - slack
        self._refuse(top | bottom, "open or close lies outside [low, high]", live)
        for name in ("volume", "amount"):
            values = getattr(self, name)
            if values is not None:
                self._refuse(
                    ~(values[live] >= 0) | ~np.isfinite(values[live]),
                    f"{name} is negative or not finite",
                    live,
                )
        if self.bid is not None and self.ask is not None:
            self._refuse(self.bid[live] > self.ask[live], "bid is above ask", live)

    def _refuse(self, bad: npt.NDArray[np.bool_], what: str, live: npt.NDArray[np.bool_]) -> None:
        """Raise for the first bad bar (rows of `bad` are the live sessions), naming symbol, date
        and minute."""
        if not bad.any():
            return
        row, bar = np.argwhere(bad)[0]
        symbol, day = np.argwhere(live)[row]
        raise DataError(
            f"{what} for {self.symbols[symbol]} on {self.dates[day]} at minute "
            f"{self.grid.minutes[bar]} "
            f"({int(bad.sum())} bars in all); `se-rl data check` lists every defect"
        )
