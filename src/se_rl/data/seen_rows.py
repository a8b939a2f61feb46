"""Rows of a dataframe that were read before, and whether a later frame still has the same.

A feed hands over the same frame again and again, a few rows longer. Reading rows is slow beside
comparing them, so what came of them may be used again, but only where every value is the same to
the bit: nothing is taken from a frame's identity, which a change in place leaves as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.calendar import TIME_ZONES
from se_rl.data.columns import TIME_NAMES

if TYPE_CHECKING:
    import pandas as pd

Index = npt.NDArray[np.int64]


def frame_stamps(frame: pd.DataFrame) -> pd.DatetimeIndex | None:
    """The times of a frame's rows as `frame_columns` reads them, at no cost.

    None where they must be read first (texts, numbers, two header rows).
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame) or frame.columns.nlevels > 1:
        return None
    if isinstance(frame.index, pd.DatetimeIndex):
        return frame.index
    if any(name is not None for name in frame.index.names):
        return None
    names = [str(name).lower() for name in frame.columns]
    timed = [names.index(name) for name in TIME_NAMES if name in names]
    if not timed or len(set(names)) < len(names):
        return None
    values = frame.iloc[:, timed[0]]
    if not pd.api.types.is_datetime64_any_dtype(values):
        return None
    return pd.DatetimeIndex(values)


def clock_moment(
    stamps: pd.DatetimeIndex, exchange: str, day: int, *, minute: int = 0, days: int = 0
) -> int:
    """A minute of a day (or of one so many `days` later) on the exchange's clock, as the whole
    number that `stamps.asi8` has for it."""
    import pandas as pd

    clock = pd.Timestamp(str(day)) + pd.Timedelta(days=days, minutes=minute)
    if stamps.tz is not None:
        clock = clock.tz_localize(TIME_ZONES[exchange]).tz_convert("UTC").tz_localize(None)
    return int(clock.to_datetime64().astype(f"M8[{stamps.unit}]").astype(np.int64))


@dataclass(frozen=True, eq=False)
class FrameArrays:
    """The columns of a frame as arrays, its times first; `kinds` says what they are."""

    kinds: tuple[Any, ...]
    columns: tuple[Any, ...]

    @classmethod
    def of(cls, frame: pd.DataFrame, stamps: pd.DatetimeIndex) -> FrameArrays:
        """The arrays of a frame whose rows have these times; nothing is copied."""
        arrays = [stamps.asi8]
        kinds: list[Any] = [stamps.dtype]
        for name, column in frame.items():
            arrays.append(_array(column))
            kinds.append((name, column.dtype))
        return cls(tuple(kinds), tuple(arrays))

    def rows(self, rows: Index) -> FrameArrays:
        """Copies of some rows, by position."""
        return FrameArrays(self.kinds, tuple(column.take(rows) for column in self.columns))

    def holds(self, rows: Index, seen: FrameArrays) -> bool:
        """Whether these rows are what was seen before: the same values, in the same order."""
        if len(rows) != len(seen.columns[0]) or self.kinds != seen.kinds:
            return False
        pairs = zip(self.columns, seen.columns, strict=True)
        return all(_same(new, old, rows) for new, old in pairs)


def _array(column: pd.Series[Any]) -> Any:
    """A column's numbers and times as whole numbers of 64 bits, where a missing one equals itself;
    anything else as it is."""
    import pandas as pd

    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(column).asi8
    if column.dtype.kind in "fiuM" and column.dtype == column.to_numpy().dtype:
        values = column.to_numpy()
        return values.view(np.int64) if values.dtype.itemsize == 8 else values
    return column.array


def _same(new: Any, old: Any, rows: Index) -> bool:
    """Whether `new` has in these rows what `old` holds."""
    if not isinstance(new, np.ndarray):
        return bool(new.take(rows).equals(old))
    if new.dtype == np.int64:
        return bool(_same_numbers(new, old, rows))
    return bool(np.array_equal(new[rows], old))


@njit(cache=True, nogil=True)
def _same_numbers(new, old, rows):  # type: ignore[no-untyped-def]
    place = 0
    while place < rows.shape[0] and new[rows[place]] == old[place]:
        place += 1
    return place == rows.shape[0]
