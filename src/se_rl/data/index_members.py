"""Who belongs to the CSI 100 and the NASDAQ-100: asked from a vendor, else from a dated list.

No vendor here can be asked for the NASDAQ-100. Its list is a file of the user's: JSON as in
`{"NAME": {"source": "where and of which day", "tickers": ["AAPL", ...]}}`, the name beginning with
`ndx100`. Where none is named, `universe.json` is looked for beside the sets.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from se_rl.data.home import data_home
from se_rl.data.market_data import DataError
from se_rl.data.vendor_clients import library_of, one_line

CSI_100 = "000903"
"""The index's number at China Securities Index."""
LIST_FILE, NASDAQ = "universe.json", "ndx100"
TODAY_S = "today's members, so names that left the index before are missing"


@dataclass(frozen=True)
class Members:
    """The symbols of an index, and in words where and of which day they are."""

    symbols: tuple[str, ...]
    source: str


def index_members(universe: str, *, say: Callable[[str], None] = lambda _: None) -> Members:
    """The members of `csi100` or `nasdaq100`; `say` hears one line for each source that failed."""
    asks = ASKS.get(universe)
    if asks is None:
        raise DataError(f"universe {universe!r} is unknown; use one of {', '.join(ASKS)}")
    for vendor, ask in asks:
        try:
            return ask()
        except Exception as error:  # a vendor's library may raise anything
            say(f"members of {universe} not had from {vendor}: {one_line(error)}")
    vendors = " and ".join(vendor for vendor, _ in asks)
    raise DataError(
        f"{vendors} gave no members of {universe}; try again later, or name them with --symbols"
    )


def _of_akshare() -> Members:
    """The CSI 100 as China Securities Index publishes it, by way of akshare."""
    frame = library_of("akshare", "akshare").index_stock_cons_csindex(symbol=CSI_100)
    codes = sorted({str(code).zfill(6) for code in frame["成分券代码"]})
    if not codes:
        raise DataError("an empty list came")
    day = str(frame["日期"].iloc[0])[:10]
    return Members(tuple(codes), f"CSI 100 of {day} from akshare ({TODAY_S})")


def _of_baostock() -> Members:
    """The CSI 300, which holds the CSI 100: baostock has no list of the smaller index."""
    library = library_of("baostock", "baostock")
    with redirect_stdout(io.StringIO()):  # the library prints what it does
        _require_ok(library.login())
        try:
            answer = library.query_hs300_stocks()
            _require_ok(answer)
            rows = []
            while answer.next():
                rows.append(answer.get_row_data())
        finally:
            library.logout()
    if not rows:
        raise DataError("an empty list came")
    day, codes = rows[0][0], sorted(row[1] for row in rows)
    return Members(tuple(codes), f"CSI 300 of {day} from baostock, not the CSI 100 ({TODAY_S})")


def _require_ok(answer: Any) -> None:
    if answer.error_code != "0":
        raise DataError(f"error {answer.error_code}: {answer.error_msg}")


def _of_file() -> Members:
    """The list of the first `universe.json` that is found."""
    for folder in member_folders():
        path = folder / LIST_FILE
        if path.is_file():
            return listed_members(path)
    raise DataError(f"no {LIST_FILE} beside the sets; name a list with --members FILE")


def member_folders() -> list[Path]:
    """Where lists of members are looked for: the folders of real data and of imported sets."""
    told = os.environ.get("SE_RL_SHARED_DATA")
    places = [Path(told)] if told else []
    return [*places, Path("..") / "shared" / "data", data_home()]


def listed_members(path: Path) -> Members:
    """The NASDAQ-100 of a list, with what the list says of its own day."""
    try:
        lists = json.loads(path.read_text())
        name = max(key for key in lists if key.startswith(NASDAQ))
        source, tickers = str(lists[name]["source"]), lists[name]["tickers"]
        symbols = tuple(sorted({str(ticker) for ticker in tickers}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is no list of members ({one_line(error)}); see `se-rl data fetch --help`"
        ) from None
    if not symbols:
        raise DataError(f"{path} lists no member; give another list")
    return Members(symbols, f"NASDAQ-100 as listed by {source} (names that came or left are not)")


ASKS: dict[str, tuple[tuple[str, Callable[[], Members]], ...]] = {
    "csi100": (("akshare", _of_akshare), ("baostock", _of_baostock)),
    "nasdaq100": (("a dated list", _of_file),),
}
"""For each universe whom to ask, best first."""
