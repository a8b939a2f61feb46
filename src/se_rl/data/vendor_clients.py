"""How each vendor's library is asked for bars, and how it spells a symbol: one context manager per
vendor.

Each yields `ask`; the libraries are optional, imported only when asked for, and their own retries,
printing and hidden exceptions are switched off, so that `se_rl.data.vendors` alone decides what
happens after a fault.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from functools import partial
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from se_rl.data.calendar import TIME_ZONES, US
from se_rl.data.market_data import DataError

if TYPE_CHECKING:
    import pandas as pd

TIMEOUT_S = 30.0
_KEYS = ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY")

Ask = Callable[[str, date, date, int], "pd.DataFrame"]
"""(vendor's code, first day, last day, bar minutes) -> timestamp, open, high, low, close, volume [,
amount]."""


class Stop(Exception):
    """The vendor will answer no further request; the message completes '<vendor> ...'."""


@contextmanager
def alpaca() -> Iterator[Ask]:
    """US minutes; the keys come from the environment and go nowhere else."""
    library = library_of("alpaca", "alpaca.data")
    missing = [name for name in _KEYS if not os.environ.get(name)]
    if missing:
        raise DataError(f"alpaca needs keys: set the environment variables {' and '.join(missing)}")
    client = library.StockHistoricalDataClient(*(os.environ[name] for name in _KEYS))
    client._retry = 0  # tries are counted in `se_rl.data.vendors` alone
    client._session.request = partial(
        client._session.request, timeout=TIMEOUT_S
    )  # the library sets none

    def ask(code: str, first: date, last: date, bar_minutes: int) -> pd.DataFrame:
        zone = ZoneInfo(TIME_ZONES[US])
        start = datetime.combine(first, clock(9, 30), zone)
        end = min(
            datetime.combine(last, clock(16), zone), datetime.now(UTC) - timedelta(minutes=16)
        )
        wanted = library.StockBarsRequest(
            symbol_or_symbols=code,
            timeframe=library.TimeFrame(bar_minutes, library.TimeFrameUnit.Minute),
            start=start,
            end=max(start, end),
            adjustment=library.Adjustment("raw"),
            feed=library.DataFeed("sip"),
        )
        frame = client.get_stock_bars(wanted).df.reset_index()
        return frame.assign(amount=frame["vwap"] * frame["volume"]) if "vwap" in frame else frame

    yield ask


@contextmanager
def baostock() -> Iterator[Ask]:
    """China from 5 minutes up; every call answers with an error code and strings."""
    import pandas as pd

    library = library_of("baostock", "baostock")
    fields = "date,time,code,open,high,low,close,volume,amount"
    logged_in = False

    def check(answer: Any) -> None:
        nonlocal logged_in
        code = answer.error_code
        if code == "10001001" or code.startswith(
            "10002"
        ):  # logged out, or the network: this socket is of no more use
            logged_in = False
            raise ConnectionError(code)
        if code != "0":
            raise DataError(f"error {code}: {answer.error_msg}")
        logged_in = True

    def log_in() -> None:
        try:
            check(library.login())
        except DataError as error:
            raise Stop(
                f"refused the login ({error}); try again later, or update baostock"
            ) from None

    def ask(code: str, first: date, last: date, bar_minutes: int) -> pd.DataFrame:
        days = {"start_date": f"{first}", "end_date": f"{last}"}
        rows = []
        with redirect_stdout(io.StringIO()):  # the library prints what it does
            if not logged_in:
                log_in()
            answer = library.query_history_k_data_plus(
                code, fields, frequency=f"{bar_minutes}", adjustflag="3", **days
            )
            while answer.error_code == "0" and answer.next():
                rows.append(answer.get_row_data())
        check(answer)
        frame = pd.DataFrame(rows, columns=fields.split(","))
        return frame.assign(timestamp=pd.to_datetime(frame["time"].str[:14], format="%Y%m%d%H%M%S"))

    usual = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_S)  # the library's socket would wait for ever
    try:
        yield ask
    finally:
        with redirect_stdout(io.StringIO()):
            if logged_in:
                library.logout()
        socket.setdefaulttimeout(usual)


@contextmanager
def yfinance() -> Iterator[Ask]:
    """US, recent days only."""
    import pandas as pd

    library = library_of("yfinance", "yfinance")

    def ask(code: str, first: date, last: date, bar_minutes: int) -> pd.DataFrame:
        days: dict[str, Any] = {"start": f"{first}", "end": f"{last + timedelta(days=1)}"}
        try:  # not `download`, which gives an empty frame for every fault and only logs what it was
            frame = library.Ticker(code).history(
                interval=f"{bar_minutes}m",
                auto_adjust=False,
                actions=False,
                timeout=TIMEOUT_S,
                **days,
            )
        except Exception as error:
            if type(error).__name__ in ("YFPricesMissingError", "YFTzMissingError"):
                return pd.DataFrame()
            raise
        return frame.rename(columns=str.lower).rename_axis("timestamp").reset_index()

    options, logger = library.config.debug, logging.getLogger("yfinance")
    usual = options.hide_exceptions, logger.disabled
    options.hide_exceptions, logger.disabled = False, True
    try:
        yield ask
    finally:
        options.hide_exceptions, logger.disabled = usual


@contextmanager
def akshare() -> Iterator[Ask]:
    """China, recent days only; Chinese column names."""
    import pandas as pd

    library = library_of("akshare", "akshare")
    names = {"时间": "timestamp", "开盘": "open", "最高": "high", "最低": "low", "收盘": "close"}
    names |= {"成交量": "volume", "成交额": "amount"}

    def ask(code: str, first: date, last: date, bar_minutes: int) -> pd.DataFrame:
        days = {"start_date": f"{first} 00:00:00", "end_date": f"{last} 23:59:59"}
        try:
            frame = library.stock_zh_a_hist_min_em(
                symbol=code, period=f"{bar_minutes}", adjust="", **days
            )
        except (
            TypeError,
            KeyError,
            ValueError,
        ) as error:  # what the library makes of an answer without data
            if isinstance(error, JSONDecodeError):
                raise
            return pd.DataFrame()
        frame = frame.rename(columns=names)
        # Lots of 100 as a rule; money over (volume x price) tells lots (100) from shares (1).
        unit = (frame["amount"] / (frame["volume"] * frame["close"])).median()
        return frame.assign(volume=frame["volume"] * (100 if unit > 10 else 1))

    yield ask


def us_code(symbol: str, *, separator: str) -> str | None:
    """AAPL, or a share class with the vendor's separator (BRK.B at alpaca, BRK-B at Yahoo)."""
    found = re.fullmatch(r"([A-Z]{1,5})(?:[.-]([A-Z]{1,2}))?", symbol)
    return separator.join(part for part in found.groups() if part) if found else None


def china_code(symbol: str) -> str | None:
    """sh.600519 from SH600519, sh.600519, 600519.SH or 600519; the first digit tells a bare
    number's exchange."""
    found = re.fullmatch(r"(?:(sh|sz)\.?)?(\d{6})|(\d{6})\.(sh|ss|sz)", symbol.lower())
    if not found:
        return None
    digits = found[2] or found[3]
    bare = "sh" if re.match("[56]|90", digits) else "sz" if digits[0] in "0123" else None
    market = (found[1] or found[4] or bare or "").replace("ss", "sh")
    return f"{market}.{digits}" if market else None


def a_share_code(symbol: str) -> str | None:
    """Six digits for akshare, which takes a code from Shanghai if, and only if, it begins with
    6.
    """
    market, _, digits = (china_code(symbol) or "").partition(".")
    return digits if digits and (market == "sh") == digits.startswith("6") else None


def library_of(vendor: str, module: str) -> Any:
    """A vendor's library, or a DataError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(
            f'{vendor} needs the extra: pip install "se-rl[vendors]" ({one_line(error)})'
        ) from None


def one_line(error: Exception) -> str:
    """An error in one short line, without the user's keys."""
    name = "" if isinstance(error, DataError) else f"{type(error).__name__}: "
    text = " ".join(f"{name}{error}".split())
    for key in _KEYS:
        text = text.replace(os.environ.get(key) or "\0", "***")
    return text[:160]


def status_of(error: Exception) -> int:
    """The HTTP status an error carries, 0 if none."""
    return (
        getattr(error, "status_code", None)
        or getattr(getattr(error, "response", None), "status_code", None)
        or 0
    )
