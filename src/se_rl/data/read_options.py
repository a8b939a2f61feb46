"""What a user may say about a source of bars that does not say it about itself."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from se_rl.data.calendar import LABELS, TIME_ZONES
from se_rl.data.frame_layouts import ColumnMap, check_column_map
from se_rl.data.market_data import DataError


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a source does not say about itself; None means inferred. `repair` mends rows and counts
    what it did.

    `columns` are pairs of a name that is known here (`time`, `close`, ...) and the source's own.
    """

    exchange: str | None = None
    bar_minutes: int | None = None
    bar_label: str | None = None
    time_zone: str | None = None
    adjusted: bool | None = None
    symbol: str | None = None
    columns: ColumnMap = ()
    repair: bool = False

    def __post_init__(self) -> None:
        if self.exchange is not None and self.exchange not in TIME_ZONES:
            raise DataError(
                f"exchange {self.exchange!r} is unknown; use one of {', '.join(TIME_ZONES)}"
            )
        if self.bar_label is not None and self.bar_label not in LABELS:
            raise DataError(
                f"bar label {self.bar_label!r} is unknown; use one of {', '.join(LABELS)}"
            )
        if self.bar_minutes is not None and self.bar_minutes < 1:
            raise DataError(f"a bar of {self.bar_minutes} minutes cannot be; use 1 or more")
        check_column_map(self.columns)
        try:
            ZoneInfo(self.time_zone or "UTC")
        except (KeyError, ValueError, OSError):
            raise DataError(
                f"time zone {self.time_zone!r} is unknown; use a name such as America/New_York"
            ) from None


INFER_ALL = ReadOptions()
"""The default options: strict, everything inferred."""
