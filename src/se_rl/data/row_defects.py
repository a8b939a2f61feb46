"""What can be wrong with single rows of bars: found, refused, or mended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from se_rl.data.columns import Columns
from se_rl.data.market_data import PRICE_FIELDS, DataError

Index = npt.NDArray[np.int64]


Mask = npt.NDArray[np.bool_]


DEFECTS = {
    "no_time": ("rows without a readable time", "dropped"),
    "nan_price": ("rows with a missing or infinite price", "dropped"),
    "non_positive_price": ("rows with a price of 0 or less", "dropped"),
    "bad_volume": ("rows with a missing or negative volume or amount", "dropped"),
    "ohlc_order": ("rows whose open or close lies outside [low, high]", "high and low widened"),
    "crossed_quote": ("rows with the bid above the ask", "quote taken as missing"),
    "unsorted": ("rows out of time order", "sorted"),
    "duplicate": ("duplicate (symbol, time) rows", "the last one kept"),
}
"""What can be wrong with one row (kind: what it is, how a repair mends it); see `row_defects`."""


_DROPPED = ("no_time", "nan_price", "non_positive_price", "bad_volume")


def row_defects(columns: Columns) -> dict[str, Mask]:
    """The rows at fault by kind (keys of DEFECTS), all kinds always present, in the order of the
    source."""
    prices = np.stack([getattr(columns, name) for name in PRICE_FIELDS])
    opens, highs, lows, closes = prices
    finite, month, day = (
        np.isfinite(prices).all(axis=0),
        columns.date // 100 % 100,
        columns.date % 100,
    )
    dated = (
        (columns.date >= 18000101)
        & (columns.date <= 22000101)
        & (month - 1 < 12)
        & (day - 1 < 31)
        & (month * day > 0)
    )
    found = {
        "no_time": ~dated,
        "nan_price": ~finite,
        "non_positive_price": (prices <= 0).any(axis=0),
    }
    amounts = [v for v in (columns.volume, columns.amount) if v is not None]
    found["bad_volume"] = (
        np.any([~(v >= 0) | np.isinf(v) for v in amounts], axis=0)
        if amounts
        else np.zeros_like(finite)
    )
    slack = 1e-9 * np.abs(closes)
    outside = (np.maximum(opens, closes) > highs + slack) | (
        np.minimum(opens, closes) < lows - slack
    )
    found["ohlc_order"] = outside & finite & ~found["non_positive_price"]
    crossed = (
        None
        if columns.bid is None or columns.ask is None
        else (columns.bid > columns.ask) & (columns.ask > 0)
    )
    found["crossed_quote"] = np.zeros_like(finite) if crossed is None else crossed
    order = np.argsort(columns.code, kind="stable")
    found["unsorted"] = _stepped(columns, order, dated) < 0
    if found["unsorted"].any():
        order = np.lexsort((columns.time, columns.code))
    found["duplicate"] = _stepped(columns, order, dated) == 0
    return found


def _stepped(columns: Columns, order: Index, dated: Mask) -> npt.NDArray[np.int8]:
    """Per row the sign of its time less that of the row before it (in this order) of its symbol; 1
    where none is."""
    time, code, known = columns.time[order], columns.code[order], dated[order]
    sign = np.ones(len(order), dtype=np.int8)
    same = (code[1:] == code[:-1]) & known[1:] & known[:-1]
    sign[order[1:][same]] = np.sign(time[1:][same] - time[:-1][same])
    return sign


def refuse_defects(columns: Columns, name: str) -> None:
    """Raise a DataError for the first kind of defect there is, naming its first row."""
    for kind, rows in row_defects(columns).items():
        if rows.any():
            raise DataError(
                f"{name} has {int(rows.sum()):,} {DEFECTS[kind][0]}, first "
                f"{columns.describe(int(rows.argmax()))}; "
                "`se-rl data import FILE --repair` mends this"
            )


def repair_rows(columns: Columns) -> Columns:
    """The rows with every defect of DEFECTS mended; `notes` says how many of each there were."""
    found = row_defects(columns)
    notes = [
        f"repaired {int(m.sum()):,} {DEFECTS[k][0]}: {DEFECTS[k][1]}"
        for k, m in found.items()
        if m.any()
    ]
    if not notes:
        return columns
    if columns.bid is not None:
        columns = replace(columns, bid=np.where(found["crossed_quote"], 0.0, columns.bid))
    kept = columns.take(~np.any([found[kind] for kind in _DROPPED], axis=0))
    kept = kept.take(np.lexsort((kept.time, kept.code)))
    newest = np.ones(len(kept), dtype=bool)
    newest[:-1] = (np.diff(kept.code) != 0) | (np.diff(kept.time) != 0)
    kept = kept.take(newest)
    prices = [getattr(kept, name) for name in PRICE_FIELDS]
    high, low = np.max(prices, axis=0), np.min(prices, axis=0)
    return replace(kept, high=high, low=low, notes=columns.notes + tuple(notes))
