"""Days in time order: train, valid and test, and the folds of a walk forward through them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError, SplitDates

Dates = npt.NDArray[np.int32]
SPLITS = ("all", "train", "valid", "test")
SHARES = (0.6, 0.2)
"""Of the sessions for train and valid where nobody gave dates; test takes the rest."""
GAP_SESSIONS = 1
"""Sessions left out between two parts that follow from shares or from a walk forward."""


def split_dates(dates: Dates, at: SplitDates | None = None) -> dict[str, Dates]:
    """Train, valid and test dates, in this order of time; by share with a gap unless the dates are
    given."""
    if at is not None:
        later = dates[dates > at.valid_until]
        between = dates[(dates > at.train_until) & (dates <= at.valid_until)]
        return {
            "train": dates[dates <= at.train_until],
            "valid": between[at.gap :],
            "test": later[at.gap :],
        }
    first = int(len(dates) * SHARES[0])
    second = int(len(dates) * (SHARES[0] + SHARES[1]))
    return {
        "train": dates[:first],
        "valid": dates[first + GAP_SESSIONS : second],
        "test": dates[second + GAP_SESSIONS :],
    }


def given_split(train_until: str | None, valid_until: str | None) -> SplitDates | None:
    """The split that a user's two dates ask for; None where none is given."""
    if train_until is None and valid_until is None:
        return None
    if train_until is None or valid_until is None:
        given, missing = ("valid", "train") if train_until is None else ("train", "valid")
        raise DataError(
            f"--{given}-until is given without --{missing}-until; give both, or neither"
        )
    return SplitDates(day_number(train_until), day_number(valid_until))


def day_number(text: str) -> int:
    """20250131 from 2025-01-31 or 20250131."""
    for form in ("%Y-%m-%d", "%Y%m%d"):
        try:
            return int(datetime.strptime(text, form).strftime("%Y%m%d"))
        except (TypeError, ValueError):
            continue
    raise DataError(f"date {text!r} cannot be read; write it as YYYY-MM-DD")


@dataclass(frozen=True, eq=False)
class Fold:
    """One step of a walk forward: the days to fit on, and the block that comes after them."""

    past: Dates
    block: Dates


def walk_forward(dates: Dates, blocks: int, *, at: SplitDates | None = None) -> list[Fold]:
    """The days after the train days in `blocks` equal blocks, each with all days before it as its
    past but for a gap; no day is in two blocks.
    """
    first = len(split_dates(dates, at)["train"])
    later = len(dates) - first - GAP_SESSIONS
    if blocks < 1 or later < 2 * blocks or not first:
        raise DataError(
            f"{len(dates)} sessions, {first} of them train days, make no {blocks} blocks of 2 days "
            "or more; give fewer blocks, or an earlier --train-until"
        )
    edges = np.linspace(first + GAP_SESSIONS, len(dates), blocks + 1).astype(np.int64)
    folds = []
    for begin, end in pairwise(edges):
        folds.append(Fold(dates[: begin - GAP_SESSIONS], dates[begin:end]))
    return folds
