"""What people hand in as data: bars, a frame of them, a historical book, or where a set is found."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from se_rl.data.books import BookHistory
from se_rl.data.home import data_home
from se_rl.data.market_data import MarketData

if TYPE_CHECKING:
    import pandas as pd

GivenBars: TypeAlias = Union[MarketData, BookHistory, "pd.DataFrame"]
"""Bars in memory."""
GivenData: TypeAlias = Union[str, Path, MarketData, "pd.DataFrame"]
"""A set by file or name, or bars in memory."""
FRAMES = "frames"
"""The folder of the data home that holds bars which came as frames, named by what they hold."""


def as_market_data(data: GivenBars) -> MarketData:
    """MarketData as it is, a historical book as its minute bars, a pandas frame as read."""
    if isinstance(data, MarketData):
        return data
    if isinstance(data, BookHistory):
        return data.bars()
    from se_rl.data.frames import bars_from_frame

    return bars_from_frame(data)


def as_data_name(data: GivenData) -> str:
    """The file or name by which settings know a set.

    Bars in memory are written down first: a run that is resumed or repeated must find them again.
    The same bars have the same file.
    """
    if isinstance(data, str | Path):
        return str(data)
    from se_rl.data.store import write_bars

    folder = data_home() / FRAMES
    written = folder / f"new-{os.getpid()}.parquet"
    write_bars(as_market_data(data), written)
    digest = hashlib.sha256(written.read_bytes()).hexdigest()
    return str(written.replace(folder / f"bars-{digest[:16]}.parquet"))
