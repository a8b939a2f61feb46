"""Tables as people have them, brought to the layout that is read: one row a bar, under known names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from se_rl.data.market_data import PRICE_FIELDS, DataError

if TYPE_CHECKING:
    import pandas as pd

ColumnMap = tuple[tuple[str, str], ...]
"""Pairs of a name that is known here and the column of a source that holds it."""
KNOWN_COLUMNS = (
    "time",
    "symbol",
    *PRICE_FIELDS,
    "volume",
    "amount",
    "bid",
    "ask",
    "bid_size",
    "ask_size",
)
"""What a column of a source may be said to hold."""
_READ_AS = {"time": "timestamp"}


def column_map(texts: Iterable[str]) -> ColumnMap:
    """The pairs that texts such as `time=Date Time` say."""
    pairs = []
    for text in texts:
        ours, mark, theirs = text.partition("=")
        if not mark or not theirs.strip():
            raise DataError(f'column {text!r} maps nothing; write it as time="Date Time"')
        pairs.append((ours.strip().lower(), theirs.strip()))
    return tuple(pairs)


def check_column_map(pairs: ColumnMap) -> None:
    """Refuse a name that is unknown here, or mapped twice."""
    seen = set()
    for ours, _ in pairs:
        if ours not in KNOWN_COLUMNS:
            raise DataError(f"column {ours!r} is unknown; map one of {', '.join(KNOWN_COLUMNS)}")
        if ours in seen:
            raise DataError(f"column {ours!r} is mapped twice; leave one of them out")
        seen.add(ours)


def our_names(names: Sequence[Any], pairs: ColumnMap, source: str) -> list[Any]:
    """Column names with the mapped ones under ours; another column of such a name steps aside."""
    if not pairs:
        return list(names)
    known = [str(name).strip().lower() for name in names]
    renamed = list(names)
    taken = {_READ_AS.get(ours, ours) for ours, _ in pairs}
    for place, name in enumerate(known):
        if name in taken:
            renamed[place] = f"{names[place]} (not used)"
    for ours, theirs in pairs:
        if theirs.lower() not in known:
            found = ", ".join(str(name) for name in names[:8])
            raise DataError(f"{source} has no column {theirs!r} for {ours}; it has {found}")
        renamed[known.index(theirs.lower())] = _READ_AS.get(ours, ours)
    return renamed


def long_frame(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """A frame with two header rows, prices and tickers in either order, as one row a bar and symbol.

    Such frames come from yfinance; a ticker without a bar at some time has no row there.
    """
    import pandas as pd

    if frame.columns.nlevels == 1:
        return frame
    prices = _price_level(frame, source)
    parts = []
    for ticker in frame.columns.get_level_values(1 - prices).unique():
        part = pd.DataFrame(frame.xs(ticker, axis=1, level=1 - prices))
        held = [name for name in part.columns if str(name).lower() in PRICE_FIELDS]
        parts.append(part.dropna(subset=held, how="all").assign(symbol=str(ticker)))
    return pd.concat(parts)


def _price_level(frame: pd.DataFrame, source: str) -> int:
    """Which of the two header rows names open, high, low and close."""
    if frame.columns.nlevels == 2:
        for level in (0, 1):
            names = {str(name).lower() for name in frame.columns.get_level_values(level)}
            if set(PRICE_FIELDS) <= names:
                return level
    raise DataError(
        f"{source} has {frame.columns.nlevels} header rows, none of which names open, high, low and "
        "close; give one header row, or prices and tickers"
    )
