"""Vendors: hand-made answers in the shapes of the real libraries, none of which is needed here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from json import JSONDecodeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from se_rl.data.calendar import session_grid
from se_rl.data.market_data import DataError
from se_rl.data.vendors import VENDORS, Fetched, FetchRequest, fetch_bars

KEY, SECRET = "PK-test-key-id", "test/secret+value"
TODAY = date(2026, 3, 31)
OHLC = ["open", "high", "low", "close"]


def request_of(
    *symbols: str, start: str = "2026-03-23", end: str = "2026-03-24", bar_minutes: int = 1
) -> FetchRequest:
    return FetchRequest(symbols=symbols, start=start, end=end, bar_minutes=bar_minutes)


def fetch(
    vendor: str, request: FetchRequest, naps: list[float] | None = None, **options: Any
) -> Fetched:
    naps = [] if naps is None else naps
    return fetch_bars(vendor, request, sleep=naps.append, today=TODAY, **options)


def refusal(vendor: str, request: FetchRequest, naps: list[float] | None = None) -> str:
    """The DataError's message, which must be one line and must not hold the user's keys."""
    with pytest.raises(DataError) as caught:
        fetch(vendor, request, naps)
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message
    assert KEY not in message and SECRET not in message
    return message


class APIError(Exception):
    """As alpaca raises it: the body as text, the status as a property."""

    def __init__(self, body: str, status: int) -> None:
        super().__init__(body)
        self.status_code = status


class Alpaca:
    """`alpaca.data` with its client: `answer` gives a list of (UTC time, price) or raises, by request."""

    def __init__(self, answer: Callable[[Any], list[tuple[str, float]]]) -> None:
        self.requests: list[Any] = []
        self.answer = answer
        self.module = SimpleNamespace(
            StockHistoricalDataClient=self.client,
            StockBarsRequest=SimpleNamespace,
            TimeFrame=lambda amount, unit: (amount, unit),
            TimeFrameUnit=SimpleNamespace(Minute="Min"),
            Adjustment=str,
            DataFeed=str,
        )

    def client(self, api_key: str, secret_key: str) -> SimpleNamespace:
        assert (api_key, secret_key) == (KEY, SECRET)
        session = SimpleNamespace(request=lambda **options: options)
        self.opened = SimpleNamespace(
            _session=session, _retry=3, get_stock_bars=self.get_stock_bars
        )
        return self.opened

    def get_stock_bars(self, request: Any) -> SimpleNamespace:
        assert self.opened._retry == 0 and self.opened._session.request()["timeout"] > 0
        self.requests.append(request)
        rows = self.answer(request)
        if not rows:
            return SimpleNamespace(
                df=pd.DataFrame()
            )  # what BarSet.df gives for no bars: not even columns
        at = pd.to_datetime([t for t, _ in rows], utc=True)
        index = pd.MultiIndex.from_arrays(
            [[request.symbol_or_symbols] * len(rows), at], names=["symbol", "timestamp"]
        )
        price = np.array([p for _, p in rows])
        columns = {
            "open": price,
            "high": price + 1,
            "low": price - 1,
            "close": price,
            "volume": 200.0,
        }
        return SimpleNamespace(
            df=pd.DataFrame(columns | {"trade_count": 3.0, "vwap": price + 0.25}, index=index)
        )


@pytest.fixture
def alpaca(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Alpaca]:
    def install(answer: Callable[[Any], list[tuple[str, float]]]) -> Alpaca:
        fake = Alpaca(answer)
        monkeypatch.setitem(sys.modules, "alpaca", SimpleNamespace(data=fake.module))
        monkeypatch.setitem(sys.modules, "alpaca.data", fake.module)
        monkeypatch.setenv("APCA_API_KEY_ID", KEY)
        monkeypatch.setenv("APCA_API_SECRET_KEY", SECRET)
        return fake

    return install


OPEN_UTC = "2026-03-23T13:30:00Z"


def test_alpaca_keeps_the_regular_session_in_exchange_time(alpaca: Callable[..., Alpaca]) -> None:
    bars = [("2026-03-23T12:00:00Z", 99.0), ("2026-03-23T13:31:00Z", 101.0), (OPEN_UTC, 100.0)]
    fake = alpaca(lambda request: [*bars, ("2026-03-23T20:00:00Z", 102.0)])
    fetched = fetch("alpaca", request_of("BRK-B"))
    assert (fetched.exchange, fetched.bar_label, fetched.adjusted) == ("XNYS", "start", False)
    assert list(fetched.frame.columns) == ["symbol", "timestamp", *OHLC, "volume", "amount"]
    assert [str(t) for t in fetched.frame["timestamp"]] == [
        "2026-03-23 09:30:00-04:00",
        "2026-03-23 09:31:00-04:00",
    ]
    assert list(fetched.frame["open"]) == [100.0, 101.0]
    assert list(fetched.frame["amount"]) == [100.25 * 200, 101.25 * 200]
    assert "2 bars outside the regular session left out" in fetched.notes
    (sent,) = fake.requests
    assert (sent.symbol_or_symbols, sent.timeframe, sent.adjustment) == ("BRK.B", (1, "Min"), "raw")
    assert [t.isoformat() for t in (sent.start, sent.end)] == [
        "2026-03-23T09:30:00-04:00",
        "2026-03-24T16:00:00-04:00",
    ]
    assert set(fetched.frame["symbol"]) == {"BRK-B"}


def test_alpaca_is_not_asked_for_the_minutes_a_free_plan_lacks(
    alpaca: Callable[..., Alpaca],
) -> None:
    fake = alpaca(lambda request: [])
    now = datetime.now(UTC)
    start, end = (str((now + timedelta(days=shift)).date()) for shift in (-4, 2))
    refusal("alpaca", request_of("AAPL", start=start, end=end))
    assert (
        fake.requests[0].start < fake.requests[0].end <= datetime.now(UTC) - timedelta(minutes=15)
    )


def test_a_bar_still_in_the_making_is_left_out(alpaca: Callable[..., Alpaca]) -> None:
    alpaca(lambda request: [(OPEN_UTC, 100.0), ("2026-03-23T13:31:17Z", 100.0)])
    assert len(fetch("alpaca", request_of("AAPL")).frame) == 1


def test_requests_are_split_without_gap_or_overlap_and_progress_counts_them(
    alpaca: Callable[..., Alpaca],
) -> None:
    fake = alpaca(lambda request: [(OPEN_UTC, 100.0)] if request.start.month == 3 else [])
    seen: list[tuple[str, int, int]] = []
    request = request_of("AAPL", "MSFT", start="2026-01-01", end="2026-03-31")
    fetch("alpaca", request, progress=lambda *step: seen.append(step))
    spans = [(r.start.date().isoformat(), r.end.date().isoformat()) for r in fake.requests[:3]]
    assert spans == [
        ("2026-01-01", "2026-01-30"),
        ("2026-01-31", "2026-03-01"),
        ("2026-03-02", "2026-03-31"),
    ]
    assert seen == [("AAPL" if k <= 3 else "MSFT", k, 6) for k in range(1, 7)]


def test_symbols_that_fail_are_named_and_the_rest_is_kept(alpaca: Callable[..., Alpaca]) -> None:
    def answer(request: Any) -> list[tuple[str, float]]:
        if request.symbol_or_symbols == "BAD":
            raise APIError('{"message":\n "invalid symbol"}', 400)
        return [] if request.symbol_or_symbols in ("NONE", "NIL") else [(OPEN_UTC, 100.0)]

    fake = alpaca(answer)
    fetched = fetch("alpaca", request_of("MSFT", "BAD", "NONE", "AAPL", "NIL"))
    assert list(fetched.frame["symbol"]) == ["AAPL", "MSFT"]
    assert fetched.notes[-1].startswith(
        'not fetched: BAD (from 2026-03-23 on, APIError: {"message": "invalid symbol"})'
    )
    assert fetched.notes[-1].endswith(", NONE NIL (no bars)")
    assert len(fake.requests) == 5  # a 400 is not tried again
    assert "BAD" in refusal("alpaca", request_of("BAD", "NONE"))


def test_a_symbol_with_no_usable_bar_is_named_too(alpaca: Callable[..., Alpaca]) -> None:
    at = {"AAPL": OPEN_UTC, "DARK": "2026-03-23T23:00:00Z"}
    alpaca(lambda request: [(at[request.symbol_or_symbols], 100.0)])
    assert (
        fetch("alpaca", request_of("AAPL", "DARK")).notes[-1]
        == "not fetched: DARK (no usable bars)"
    )
    assert "1 bars outside the regular session left out" in refusal("alpaca", request_of("DARK"))


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionError("reset"),
        TimeoutError(),
        APIError("slow down", 429),
        APIError("bad gateway", 502),
    ],
)
def test_passing_faults_are_tried_three_times(
    alpaca: Callable[..., Alpaca], fault: Exception
) -> None:
    def answer(request: Any) -> list[tuple[str, float]]:
        if len(fake.requests) < 3:
            raise fault
        return [(OPEN_UTC, 100.0)]

    fake, naps = alpaca(answer), list[float]()
    assert len(fetch("alpaca", request_of("AAPL"), naps).frame) == 1
    assert naps == [2.0, 4.0]


def test_an_unreachable_vendor_ends_the_fetch_at_once(alpaca: Callable[..., Alpaca]) -> None:
    def answer(request: Any) -> list[tuple[str, float]]:
        if request.symbol_or_symbols == "AAPL":
            return [(OPEN_UTC, 100.0)]
        raise ConnectionError(f"no route with {SECRET}")

    fake, naps = alpaca(answer), list[float]()
    assert "did not answer in 3 tries (ConnectionError)" in refusal(
        "alpaca", request_of("MSFT", "AAPL"), naps
    )
    assert len(fake.requests) == 3 and naps == [2.0, 4.0]
    fetched = fetch("alpaca", request_of("AAPL", "MSFT", "NVDA"))
    assert set(fetched.frame["symbol"]) == {"AAPL"} and len(fake.requests) == 3 + 1 + 3
    assert "MSFT (from 2026-03-23 on, alpaca did not answer" in fetched.notes[-1]
    assert fetched.notes[-1].endswith("NVDA (not asked for)")


def test_refused_keys_are_not_tried_again_and_never_shown(alpaca: Callable[..., Alpaca]) -> None:
    def answer(request: Any) -> list[tuple[str, float]]:
        raise APIError(f"forbidden: {KEY}\n{SECRET}", 401)

    fake = alpaca(answer)
    message = refusal("alpaca", request_of("AAPL", "MSFT"))
    assert "refused the request (APIError: forbidden: *** ***); check the keys" in message
    assert len(fake.requests) == 1


def test_no_key_in_notes_or_repr(alpaca: Callable[..., Alpaca]) -> None:
    def answer(request: Any) -> list[tuple[str, float]]:
        if request.symbol_or_symbols == "BAD":
            raise ValueError(f"header {SECRET} of {KEY}")
        return [(OPEN_UTC, 100.0)]

    alpaca(answer)
    fetched = fetch("alpaca", request_of("AAPL", "BAD"))
    assert "ValueError: header *** of ***" in fetched.notes[-1]
    assert KEY not in repr(fetched) and SECRET not in repr(fetched)


@pytest.mark.parametrize("name", ["APCA_API_KEY_ID", "APCA_API_SECRET_KEY"])
def test_missing_keys(
    alpaca: Callable[..., Alpaca], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fake = alpaca(lambda request: [])
    monkeypatch.delenv(name)
    assert (
        refusal("alpaca", request_of("AAPL"))
        == f"alpaca needs keys: set the environment variables {name}"
    )
    assert not fake.requests


class Baostock:
    """`baostock`: every call answers with a ResultData; `codes` are the error codes of the calls to come."""

    fields = ("date", "time", "code", *OHLC, "volume", "amount")

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.calls: list[Any] = []

    def result(self, rows: list[list[str]]) -> SimpleNamespace:
        code = self.codes.pop(0) if self.codes else "0"
        left = iter([] if code != "0" else rows)
        result = SimpleNamespace(
            error_code=code, error_msg="success" if code == "0" else "说明", fields=self.fields
        )

        def advance() -> bool:
            result.row = next(left, None)
            return result.row is not None

        result.next, result.get_row_data = advance, lambda: result.row
        return result

    def login(self) -> SimpleNamespace:
        print("login success!")
        self.calls.append("login")
        return self.result([])

    def logout(self) -> None:
        print("logout success!")
        self.calls.append("logout")

    def query_history_k_data_plus(self, code: str, fields: str, **options: str) -> SimpleNamespace:
        assert fields == ",".join(self.fields)
        self.calls.append((code, options))
        price = ["1433.0", "1435.0", "1430.0", "1431.0", "74100", "106133945.0"]
        day = options["start_date"]
        stamps = [f"{day.replace('-', '')}{at}00000" for at in ("0940", "0935")]
        return self.result([[day, stamp, code, *price] for stamp in stamps])


def test_baostock_strings_become_numbers_at_end_labels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Baostock()
    monkeypatch.setitem(sys.modules, "baostock", fake)
    request = request_of("SH600519", "000001", start="2026-01-05", end="2026-03-31", bar_minutes=5)
    fetched = fetch("baostock", request, progress=lambda *step: print("step", *step))
    assert (fetched.exchange, fetched.bar_label, fetched.adjusted) == ("XSHG", "end", False)
    assert len(fetched.frame) == 2 * 3 * 2
    row = fetched.frame.iloc[-1]
    assert (str(row["timestamp"]), row["symbol"]) == ("2026-03-26 09:40:00+08:00", "SH600519")
    assert (row["close"], row["volume"], row["amount"]) == (1431.0, 74100.0, 106133945.0)
    assert fake.calls[0] == "login" and fake.calls[-1] == "logout" and len(fake.calls) == 2 + 6
    days = {"start_date": "2026-01-05", "end_date": "2026-02-13"}
    assert fake.calls[1] == ("sh.600519", {"frequency": "5", "adjustflag": "3", **days})
    assert fake.calls[4][0] == "sz.000001"
    assert (
        capsys.readouterr().out.splitlines()
        == [  # the library's chatter is hushed, the caller's is not
            f"step {'SH600519' if k <= 3 else '000001'} {k} 6" for k in range(1, 7)
        ]
    )


def test_baostock_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*codes: str) -> tuple[Baostock, str]:
        fake = Baostock(*codes)
        monkeypatch.setitem(sys.modules, "baostock", fake)
        return fake, refusal("baostock", request_of("600519", bar_minutes=5))

    assert "600519 (from 2026-03-23 on, error 10004011: 说明)" in run("0", "10004011")[1]
    fake, message = run("10001011")
    assert "refused the login (error 10001011: 说明)" in message and fake.calls == ["login"]
    fake, message = run(*["10002007"] * 3)
    assert "did not answer in 3 tries" in message and fake.calls == ["login"] * 3


def test_baostock_logs_in_anew_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, naps = Baostock("0", "10002004"), list[float]()
    monkeypatch.setitem(sys.modules, "baostock", fake)
    assert len(fetch("baostock", request_of("600519", bar_minutes=5), naps).frame) == 2
    assert [call if isinstance(call, str) else "query" for call in fake.calls] == [
        "login",
        "query",
    ] * 2 + ["logout"]
    assert naps == [2.0]


class YFPricesMissingError(Exception):
    """yfinance's way to say that there is nothing."""


class YFRateLimitError(Exception):
    """yfinance's 429, which carries no status."""


class Yfinance:
    """`yfinance`: Ticker(code).history(...) gives a frame by local time, or raises where exceptions are not hidden."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.config = SimpleNamespace(debug=SimpleNamespace(hide_exceptions=True))
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fault = fault

    def Ticker(self, code: str) -> SimpleNamespace:
        def history(**options: Any) -> pd.DataFrame:
            self.calls.append((code, options))
            assert self.config.debug.hide_exceptions is False
            if self.fault:
                raise self.fault
            at = pd.DatetimeIndex(
                [f"{options['start']} 09:30", f"{options['start']} 16:00"], tz="America/New_York"
            )
            price = {name: [100.0, 100.0] for name in ("Open", "High", "Low", "Close", "Adj Close")}
            return pd.DataFrame(price | {"Volume": [500, 0]}, index=at.rename("Datetime"))

        return SimpleNamespace(history=history)


def test_yfinance_asks_seven_days_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Yfinance()
    monkeypatch.setitem(sys.modules, "yfinance", fake)
    fetched = fetch("yfinance", request_of("BRK.B", start="2026-03-17", end="2026-03-27"))
    assert [(o["start"], o["end"]) for _, o in fake.calls] == [
        ("2026-03-17", "2026-03-24"),
        ("2026-03-24", "2026-03-28"),
    ]
    assert fake.calls[0][0] == "BRK-B" and fake.calls[0][1]["interval"] == "1m"
    assert fake.calls[0][1]["auto_adjust"] is False
    assert (fetched.exchange, fetched.bar_label, fetched.adjusted) == ("XNYS", "start", False)
    assert list(fetched.frame.columns) == ["symbol", "timestamp", *OHLC, "volume"]
    assert [str(t) for t in fetched.frame["timestamp"]] == [
        "2026-03-17 09:30:00-04:00",
        "2026-03-24 09:30:00-04:00",
    ]
    assert "2 bars outside the regular session left out" in fetched.notes
    assert fake.config.debug.hide_exceptions is True


def test_yfinance_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    empty, limited = (
        Yfinance(YFPricesMissingError("gone")),
        Yfinance(YFRateLimitError("Too Many Requests")),
    )
    monkeypatch.setitem(sys.modules, "yfinance", empty)
    assert "gave no 1-minute bars from 2026-03-23 to 2026-03-24: AAPL (no bars)" in refusal(
        "yfinance", request_of("AAPL")
    )
    monkeypatch.setitem(sys.modules, "yfinance", limited)
    assert "did not answer in 3 tries (YFRateLimitError)" in refusal("yfinance", request_of("AAPL"))
    assert len(empty.calls) == 1 and len(limited.calls) == 3
    assert limited.config.debug.hide_exceptions is True


def test_yfinance_keeps_only_recent_days(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Yfinance()
    monkeypatch.setitem(sys.modules, "yfinance", fake)
    assert refusal("yfinance", request_of("AAPL", start="2026-03-01")).endswith(
        "use start 2026-03-02 or later"
    )
    assert refusal("yfinance", request_of("AAPL", start="2026-01-30", bar_minutes=5)).endswith(
        "2026-01-31 or later"
    )
    assert not fake.calls
    assert len(fetch("yfinance", request_of("AAPL", start="2026-01-31", bar_minutes=15)).frame) == 1


class Akshare:
    """`akshare`: one function, Chinese column names, times as text, volume in lots unless `lot` says otherwise."""

    def __init__(self, frame: pd.DataFrame | Exception) -> None:
        self.frame = frame
        self.calls: list[dict[str, str]] = []

    def stock_zh_a_hist_min_em(self, **options: str) -> pd.DataFrame:
        self.calls.append(options)
        if isinstance(self.frame, Exception):
            raise self.frame
        return self.frame


def akshare_frame(rows: list[tuple[str, float, float, float, float, float, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        rows, columns=["时间", "开盘", "收盘", "最高", "最低", "成交量", "成交额"]
    ).assign(均价=0.0)


def test_akshare_lots_and_zero_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (
            "2026-03-23 09:30:00",
            0.0,
            100.0,
            100.0,
            100.0,
            3.0,
            30_000.0,
        ),  # nothing before it: its own close
        ("2026-03-23 09:31:00", 0.0, 101.0, 102.0, 99.0, 2.0, 20_200.0),  # the previous close
        (
            "2026-03-23 09:32:00",
            0.0,
            104.0,
            105.0,
            103.0,
            1.0,
            10_400.0,
        ),  # the previous close is under the low
        ("2026-03-23 09:33:00", 104.0, 104.0, 104.0, 104.0, 0.0, 0.0),
        ("2026-03-23 09:34:00", 104.0, np.nan, 104.0, 104.0, 1.0, 10_400.0),
    ]
    fake = Akshare(akshare_frame(rows))
    monkeypatch.setitem(sys.modules, "akshare", fake)
    fetched = fetch("akshare", request_of("SH600519"))
    assert list(fetched.frame["open"]) == [100.0, 100.0, 103.0, 104.0]
    assert list(fetched.frame["volume"]) == [300.0, 200.0, 100.0, 0.0]
    assert (fetched.exchange, fetched.bar_label) == ("XSHG", "open+end")
    assert "3 zero opens replaced by the previous close, held within low and high" in fetched.notes
    assert "1 bars without a price or volume left out" in fetched.notes
    assert str(fetched.frame["timestamp"][0]) == "2026-03-23 09:30:00+08:00"
    days = {"start_date": "2026-03-23 00:00:00", "end_date": "2026-03-24 23:59:59"}
    assert fake.calls == [{"symbol": "600519", "period": "1", "adjust": "", **days}]


def test_akshare_volume_in_shares_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Akshare(
        akshare_frame([("2026-03-23 09:35:00", 50.0, 50.0, 50.0, 50.0, 700.0, 35_000.0)])
    )
    monkeypatch.setitem(sys.modules, "akshare", fake)
    fetched = fetch("akshare", request_of("688981", bar_minutes=5))
    assert (list(fetched.frame["volume"]), fetched.bar_label) == ([700.0], "end")


@pytest.mark.parametrize(
    "fault",
    [
        TypeError("'NoneType' object is not subscriptable"),
        ValueError("Length mismatch"),
        KeyError("data"),
    ],
)
def test_akshare_faults_that_mean_nothing_there(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setitem(sys.modules, "akshare", Akshare(fault))
    message = refusal("akshare", request_of("600519"))
    assert (
        "600519 (no bars); check symbols and dates (1-minute bars reach back 5 trading days"
        in message
    )


def test_akshare_tries_again_where_the_answer_is_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Akshare(JSONDecodeError("Expecting value", "<html>", 0))
    monkeypatch.setitem(sys.modules, "akshare", fake)
    assert "did not answer in 3 tries (JSONDecodeError)" in refusal("akshare", request_of("600519"))
    assert len(fake.calls) == 3


def test_akshare_on_real_bars(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    """Five real days of 600519 put back into the vendor's form: lots, and opens of 0 as the source had them."""
    real = pd.read_parquet(shared_data / "cn_minute_samples_2026.parquet").query("freq_min == 1")
    at = pd.to_datetime(real["date"].astype(str)) + pd.to_timedelta(real["minute"], unit="min")
    price = {name: real[f"{name}_e4"] / 1e4 for name in OHLC}
    filled = real["open_e4"].eq(real["close_e4"].shift())
    frame = pd.DataFrame(
        {"时间": at.astype(str), "开盘": price["open"].mask(filled, 0.0), "收盘": price["close"]}
    )
    frame = frame.assign(
        最高=price["high"], 最低=price["low"], 成交量=real["volume"] // 100, 成交额=real["amount"]
    )
    monkeypatch.setitem(sys.modules, "akshare", Akshare(frame))
    fetched = fetch("akshare", request_of("600519", end="2026-03-27"))
    assert len(fetched.frame) == 1205 == 5 * len(session_grid("XSHG", label="open+end"))
    assert (
        f"{int(filled.sum())} zero opens replaced by the previous close, held within low and high"
        in fetched.notes
    )
    np.testing.assert_array_equal(fetched.frame["volume"], real["volume"])
    assert (
        fetched.frame["open"]
        .between(fetched.frame["low"], fetched.frame["high"])[filled.to_numpy()]
        .all()
    )


def test_repeated_and_foreign_days_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    days = ["2026-03-23", "2026-03-23", "2026-03-22", "2026-03-25"]
    rows = [
        (f"{day} 09:31:00", 10.0, 10.0, 10.0, 10.0, k + 1.0, 1000.0 * (k + 1))
        for k, day in enumerate(days)
    ]
    monkeypatch.setitem(sys.modules, "akshare", Akshare(akshare_frame(rows)))
    fetched = fetch("akshare", request_of("600519"))
    assert list(fetched.frame["volume"]) == [200.0]
    assert {"1 repeated bars left out", "2 bars of other days left out"} <= set(fetched.notes)


def test_an_amount_that_is_missing_somewhere_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("2026-03-23 09:31:00", 10.0, 10.0, 10.0, 10.0, 1.0, 1000.0)]
    rows.append(("2026-03-23 09:32:00", 10.0, 10.0, 10.0, 10.0, 1.0, np.nan))
    monkeypatch.setitem(sys.modules, "akshare", Akshare(akshare_frame(rows)))
    fetched = fetch("akshare", request_of("600519"))
    assert "amount" not in fetched.frame and "amount left out: 1 bars lack it" in fetched.notes


def test_a_library_with_other_columns_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "akshare", Akshare(pd.DataFrame({"time": ["2026-03-23 09:31:00"]}))
    )
    assert "600519 (from 2026-03-23 on, KeyError: " in refusal("akshare", request_of("600519"))


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, vendor: str) -> None:
    monkeypatch.setitem(sys.modules, vendor, None)
    request = request_of("600519" if vendor in ("baostock", "akshare") else "AAPL", bar_minutes=5)
    assert refusal(vendor, request).startswith(
        f'{vendor} needs the extra: pip install "se-rl[vendors]"'
    )


@pytest.mark.parametrize(
    ("vendor", "symbol"),
    [
        ("alpaca", "aapl"),
        ("alpaca", "600519"),
        ("yfinance", "600519.SS"),
        ("yfinance", "AAPL MSFT"),
        ("baostock", "AAPL"),
        ("baostock", "60051"),
        ("baostock", "830799"),  # Beijing
        (
            "akshare",
            "sh.000001",
        ),  # the Shanghai index, which akshare would take for a Shenzhen share
        ("akshare", "AAPL"),
    ],
)
def test_unknown_symbol_forms(vendor: str, symbol: str) -> None:
    message = refusal(vendor, request_of(symbol, bar_minutes=5))
    assert message.startswith(f"{vendor} cannot read the symbol {symbol!r}; write it as ")


@pytest.mark.parametrize("symbol", ["600519", "SH600519", "sh.600519", "600519.SH", "600519.SS"])
def test_forms_of_one_chinese_symbol(monkeypatch: pytest.MonkeyPatch, symbol: str) -> None:
    fake = Baostock()
    monkeypatch.setitem(sys.modules, "baostock", fake)
    assert set(fetch("baostock", request_of(symbol, bar_minutes=5)).frame["symbol"]) == {symbol}
    assert fake.calls[1][0] == "sh.600519"


def test_unknown_vendor_and_bar_length() -> None:
    unknown = "vendor 'bloomberg' is unknown; use one of alpaca, baostock, yfinance, akshare"
    assert refusal("bloomberg", request_of("AAPL")) == unknown
    assert (
        refusal("baostock", request_of("600519"))
        == "baostock has no 1-minute bars; use bar_minutes 5, 15"
    )
    assert (
        refusal("alpaca", request_of("AAPL", bar_minutes=7))
        == "alpaca has no 7-minute bars; use bar_minutes 1, 5, 15"
    )


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"symbols": ()}, "at least one symbol"),
        ({"symbols": "AAPL"}, "symbols is 'AAPL'"),
        ({"symbols": ("A", "B", "A")}, "named twice"),
        ({"start": "23.03.2026"}, "date '23.03.2026' cannot be read; write it as YYYY-MM-DD"),
        ({"end": "2026-02-30"}, "date '2026-02-30' cannot be read"),
        ({"start": "2026-04-01"}, "start 2026-04-01 is after end 2026-03-24"),
    ],
)
def test_a_request_is_checked_when_made(options: dict[str, Any], part: str) -> None:
    with pytest.raises(DataError, match=part):
        FetchRequest(
            **({"symbols": ("AAPL",), "start": "2026-03-23", "end": "2026-03-24"} | options)
        )


def test_importing_the_module_is_cheap() -> None:
    heavy = {"pandas", "torch", *VENDORS}
    code = f"import sys, se_rl.data.vendors; print(*{heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
