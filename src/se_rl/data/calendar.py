"""Session grids: which bar labels one trading day has, by exchange, bar length and labelling.

A grid is data, not a calendar of holidays: `exchange_calendars` answers which days exist
(data/checks.py), this file answers which minutes a day has. All times are exchange time; a label is
minutes after midnight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

US, CHINA, INDIA, CONTINUOUS = "XNYS", "XSHG", "XNSE", "continuous"
LABELS = ("start", "end", "open+end")
"""How a bar is named: by its first minute, by its last, or by its last with one extra bar for the
opening print."""

_HOURS = {US: ((570, 960),), CHINA: ((570, 690), (780, 900)), INDIA: ((555, 930),)}
TIME_ZONES = {
    US: "America/New_York",
    CHINA: "Asia/Shanghai",
    INDIA: "Asia/Kolkata",
    CONTINUOUS: "UTC",
}
HOLIDAYS_OF = {INDIA: "XBOM"}
"""Exchanges whose trading days `exchange_calendars` lists under another name: Bombay's here."""
SPECIAL_SESSIONS = {INDIA: (20240120, 20250201)}
"""Full sessions on Saturdays that the lists of trading days lack."""


@dataclass(frozen=True)
class SessionGrid:
    """The bars of one session: exchange (`XNYS`, `XSHG`, `XNSE`, `continuous`), bar length in minutes and
    their labels."""

    exchange: str
    bar_minutes: int
    label: str
    minutes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.minutes)

    @cached_property
    def positions(self) -> npt.NDArray[np.int64]:
        """Bar index by minute of the day (-1: not a bar of this grid); serves as a lookup table of
        1,441 entries."""
        table = np.full(24 * 60 + 1, -1, dtype=np.int64)
        table[np.asarray(self.minutes)] = np.arange(len(self.minutes))
        return table

    @property
    def time_zone(self) -> str:
        """The exchange's time zone."""
        return TIME_ZONES[self.exchange]


def session_grid(exchange: str, *, bar_minutes: int = 1, label: str = "start") -> SessionGrid:
    """The grid of a full session, e.g. `session_grid("XNYS")` has 390 bars and
    `session_grid("XSHG")` 240."""
    if exchange not in _HOURS:
        raise ValueError(
            f"exchange {exchange!r} has no fixed hours here; use one of {', '.join(_HOURS)}"
        )
    if label not in LABELS:
        raise ValueError(f"bar label {label!r} is unknown; use one of {', '.join(LABELS)}")
    shift = 0 if label == "start" else bar_minutes
    minutes = [
        m + shift for first, last in _HOURS[exchange] for m in range(first, last, bar_minutes)
    ]
    if label == "open+end":
        minutes.insert(0, _HOURS[exchange][0][0])
    return SessionGrid(exchange, bar_minutes, label, tuple(minutes))


def infer_grid(
    minutes: npt.NDArray[np.integer], *, bar_minutes: int | None = None
) -> SessionGrid | None:
    """The known grid that holds these minute labels with the fewest bars to spare, or None if no
    grid holds 99 % of them."""
    labels, counts = np.unique(minutes, return_counts=True)
    labels, counts = (
        labels[(labels >= 0) & (labels <= 1440)],
        counts[(labels >= 0) & (labels <= 1440)],
    )
    lengths = (bar_minutes,) if bar_minutes else (15, 5, 1)
    best: tuple[tuple[int, int], SessionGrid] | None = None
    for exchange in _exchanges_open_at(labels):
        for length in lengths:
            for label in LABELS:
                grid = session_grid(exchange, bar_minutes=length, label=label)
                inside = grid.positions[labels] >= 0
                if counts[inside].sum() < 0.99 * counts.sum():
                    continue
                rank = (int(counts[~inside].sum()), len(grid))
                if best is None or rank < best[0]:
                    best = (rank, grid)
    return best[1] if best else None


def _exchanges_open_at(labels: npt.NDArray[np.integer]) -> list[str]:
    """The exchanges that labels may come from.

    Mumbai trades in New York's hours but for its first and New York's last: only a label before
    New York opens tells it from a New York day that was cut short.
    """
    before_others = bool(np.any(labels < _HOURS[US][0][0]))
    return [exchange for exchange in _HOURS if exchange != INDIA or before_others]
