"""What each vendor serves: its bar lengths, how it writes symbols, and what its data lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from se_rl.data import vendor_clients as clients
from se_rl.data.calendar import CHINA, US
from se_rl.data.market_data import DataError
from se_rl.data.vendor_clients import Ask


@dataclass(frozen=True)
class VendorBars:
    """How a vendor names bars of one length, how many days it gives at a time, and how many it
    keeps."""

    label: str
    days_per_request: int
    days_back: int = 36_500


@dataclass(frozen=True)
class Vendor:
    """One row of the table; `bars` is by bar length in minutes."""

    exchange: str
    connect: Callable[[], AbstractContextManager[Ask]]
    bars: Mapping[int, VendorBars]
    code: Callable[[str], str | None]
    example: str
    hint: str
    notes: tuple[str, ...] = ()
    pause_s: float = 0.5  # between two requests of a long download


VENDOR_TABLE = {
    "alpaca": Vendor(
        US,
        clients.alpaca,
        {1: VendorBars("start", 30), 5: VendorBars("start", 120), 15: VendorBars("start", 360)},
        partial(clients.us_code, separator="."),
        "AAPL or BRK.B",
        "the exchange may have been closed",
        (
            "SIP feed without the last 16 minutes before the download",
            "amount is the vendor's VWAP times volume",
        ),
        pause_s=0.35,  # 200 requests a minute are free
    ),
    # A page of baostock has 2,000 rows and a lost second page goes untold: so a request stays
    # within one page.
    "baostock": Vendor(
        CHINA,
        clients.baostock,
        {5: VendorBars("end", 40), 15: VendorBars("end", 120)},
        clients.china_code,
        "sh.600519 or sz.000001",
        "indices have no minute bars",
        pause_s=0.1,
    ),
    "yfinance": Vendor(
        US,
        clients.yfinance,
        {
            1: VendorBars("start", 7, 29),
            5: VendorBars("start", 60, 59),
            15: VendorBars("start", 60, 59),
        },
        partial(clients.us_code, separator="-"),
        "AAPL or BRK-B",
        "the exchange may have been closed",
        ("Yahoo itself restates prices for splits",),
    ),
    "akshare": Vendor(
        CHINA,
        clients.akshare,
        {
            1: VendorBars("open+end", 36_500),
            5: VendorBars("end", 36_500),
            15: VendorBars("end", 36_500),
        },
        clients.a_share_code,
        "600519 or 000001",
        "1-minute bars reach back 5 trading days, longer ones some weeks",
        ("volume is in shares, also where the source counts lots of 100",),
    ),
}


VENDORS: tuple[str, ...] = tuple(VENDOR_TABLE)
"""The vendors `fetch_bars` knows."""


def codes_of(vendor: str, symbols: Iterable[str]) -> dict[str, str]:
    """The symbols as the vendor writes them; one that it cannot read is refused."""
    row = VENDOR_TABLE[vendor]
    codes = {}
    for symbol in symbols:
        code = row.code(symbol)
        if code is None:
            raise DataError(
                f"{vendor} cannot read the symbol {symbol!r}; write it as {row.example}"
            )
        codes[symbol] = code
    return codes
