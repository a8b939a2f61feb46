"""The real data sets that tables are made on, with the dates their description splits them by.

The files lie in SE_RL_SHARED_DATA or ../shared/data; none of their data enters the repository.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SE_RL_SHARED_DATA", ROOT.parent / "shared" / "data"))
BEFORE_ALL = "2000-01-01"
"""Ends the train and valid days of a set that has test days alone."""


@dataclass(frozen=True)
class RealSet:
    """A file, the last train and valid day, the usual horizon, the market, and which other sets'
    train days a ridge for it is fitted on too."""

    file: str
    train_until: str
    valid_until: str
    horizon: int | Literal["session"]
    market: str
    fit_with: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return FOLDER / f"{self.file}.parquet"

    @property
    def fit_on(self) -> tuple[str, ...]:
        """The other sets to fit on, as `se-rl baselines --fit-on` takes them."""
        others = [REAL_SETS[name] for name in self.fit_with]
        return tuple(f"{other.path}@{other.train_until}" for other in others)


REAL_SETS = {
    "us_2015": RealSet("us_minute_2015", "2015-12-14", "2016-01-06", 240, "US"),
    "us_2018": RealSet("us_minute_2018", "2018-03-13", "2018-03-21", 240, "US", ("us_2025",)),
    "us_2022": RealSet("us_minute_2022", BEFORE_ALL, BEFORE_ALL, 240, "US", ("us_2018", "us_2025")),
    "us_2025": RealSet("us_minute_2025", "2025-02-05", "2025-02-18", 240, "US", ("us_2018",)),
    "us_2026": RealSet("us_minute_2026", BEFORE_ALL, BEFORE_ALL, 240, "US", ("us_2018", "us_2025")),
    "cn_15min_2025": RealSet("cn_15min_2025", "2025-08-07", "2025-10-23", "session", "China"),
    "cn_15min_2025_all": RealSet(
        "cn_15min_2025_all", "2025-08-07", "2025-10-23", "session", "China"
    ),
    "cn_5min_2018": RealSet("cn_5min_2018", "2018-11-13", "2019-01-15", "session", "China"),
    "in_15min_2024": RealSet("in_15min_2024", "2024-12-20", "2025-04-07", "session", "India"),
}
