"""A whole universe in one command: hand-made answers of the vendors' libraries, none is needed."""

from __future__ import annotations

import json
import sys
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from se_rl.data import vendor_table
from se_rl.data.index_members import index_members, listed_members
from se_rl.data.market_data import DataError
from se_rl.data.universe_fetch import UniverseRequest, fetch_universe
from se_rl.main import main

TODAY = date(2026, 3, 31)


class Baostock:
    """`baostock`: rows as strings, an error code with every answer."""

    def __init__(self, members: list[list[str]]) -> None:
        self.members = members
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self.module = SimpleNamespace(
            login=lambda: self.answer([]),
            logout=lambda: self.answer([]),
            query_hs300_stocks=lambda: self.answer(self.members),
            query_history_k_data_plus=self.bars,
        )

    def answer(self, rows: list[list[str]], code: str = "0") -> Any:
        left = list(rows)
        return SimpleNamespace(
            error_code=code,
            error_msg="no",
            next=lambda: bool(left),
            get_row_data=lambda: left.pop(0),
        )

    def bars(self, code: str, fields: str, *, start_date: str, **options: str) -> Any:
        self.asked.append(code)
        if code in self.broken:
            return self.answer([], "10004020")
        times = ["0935", "0940", "0945"]
        day = start_date.replace("-", "")
        return self.answer(
            [
                [start_date, f"{day}{t}00000", code, "10", "10.2", "9.9", "10.1", "500", "5050"]
                for t in times
            ]
        )


@pytest.fixture
def baostock(monkeypatch: pytest.MonkeyPatch) -> Baostock:
    fake = Baostock([["2026-03-30", f"sh.60000{k}", "name"] for k in range(3)])
    monkeypatch.setitem(sys.modules, "baostock", fake.module)
    return fake


def test_the_csi_100_is_asked_from_akshare(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"日期": ["2026-03-30"] * 2, "成分券代码": [600519, "000001"]})
    asked: list[str] = []

    def ask(symbol: str) -> pd.DataFrame:
        asked.append(symbol)
        return frame

    monkeypatch.setitem(sys.modules, "akshare", SimpleNamespace(index_stock_cons_csindex=ask))
    members = index_members("csi100")
    assert asked == ["000903"] and members.symbols == ("000001", "600519")
    assert "CSI 100 of 2026-03-30 from akshare" in members.source


def test_where_akshare_fails_baostock_s_larger_index_is_taken_and_said(
    baostock: Baostock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(symbol: str) -> pd.DataFrame:
        raise ConnectionError("no route")

    monkeypatch.setitem(sys.modules, "akshare", SimpleNamespace(index_stock_cons_csindex=ask))
    lines: list[str] = []
    members = index_members("csi100", say=lines.append)
    assert members.symbols == ("sh.600000", "sh.600001", "sh.600002")
    assert "CSI 300 of 2026-03-30 from baostock, not the CSI 100" in members.source
    assert lines == ["members of csi100 not had from akshare: ConnectionError: no route"]
    baostock.members = []
    with pytest.raises(DataError, match="akshare and baostock gave no members of csi100"):
        index_members("csi100")


def member_list(path: Path, tickers: list[str]) -> Path:
    path.write_text(
        json.dumps({"ndx100_2026_01": {"source": "a list, 2026-01-25", "tickers": tickers}})
    )
    return path


def test_the_nasdaq_100_comes_from_a_list_that_says_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SE_RL_SHARED_DATA", str(tmp_path))
    member_list(tmp_path / "universe.json", ["MSFT", "AAPL", "AAPL"])
    members = index_members("nasdaq100")
    assert members.symbols == ("AAPL", "MSFT") and "2026-01-25" in members.source
    for text in ("", "[]", '{"x": 1}', '{"ndx100": {"source": "s", "tickers": []}}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(DataError) as error:
            listed_members(tmp_path / "bad.json")
        assert "\n" not in str(error.value)


def wanted(**changes: Any) -> UniverseRequest:
    settings = {"universe": "csi100", "start": "2026-03-02", "end": "2026-03-06"}
    return UniverseRequest(**{**settings, "symbols": ("sh.600000", "sh.600001"), **changes})


def test_a_download_that_broke_off_asks_only_for_what_is_missing(
    baostock: Baostock, tmp_path: Path
) -> None:
    naps: list[float] = []
    baostock.broken = {"sh.600001"}
    first = fetch_universe(wanted(), tmp_path, sleep=naps.append, today=TODAY)
    assert set(first.failed) == {"sh.600001"} and first.bar_minutes == 5
    assert naps and set(naps) == {vendor_table.VENDOR_TABLE["baostock"].pause_s}
    baostock.broken, baostock.asked = set(), []
    again = fetch_universe(wanted(), tmp_path, sleep=naps.append, today=TODAY)
    assert baostock.asked == ["sh.600001"] and not again.failed
    assert set(again.frame["symbol"]) == {"sh.600000", "sh.600001"}
    baostock.asked = []
    fetch_universe(wanted(), tmp_path, sleep=naps.append, today=TODAY)
    assert baostock.asked == ["sh.600000", "sh.600001"], "a finished download keeps no parts"


def test_a_part_cut_short_and_a_day_that_goes_on_are_asked_again(
    baostock: Baostock, tmp_path: Path
) -> None:
    baostock.broken = {"sh.600001"}
    fetch_universe(wanted(), tmp_path, sleep=lambda _: None, today=TODAY)
    for part in tmp_path.rglob("*.parquet"):
        part.write_bytes(b"PAR1")
    baostock.asked = []
    fetch_universe(wanted(), tmp_path, sleep=lambda _: None, today=TODAY)
    assert baostock.asked[0] == "sh.600000"
    baostock.asked = []
    today = wanted(end=f"{TODAY}", start=f"{TODAY - timedelta(days=1)}")
    for _ in range(2):
        fetch_universe(today, tmp_path, sleep=lambda _: None, today=TODAY)
    assert baostock.asked.count("sh.600000") == 2


def test_one_command_stores_a_universe_and_tells_each_failure_in_a_line(
    baostock: Baostock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "akshare", None)
    monkeypatch.setattr("time.sleep", lambda _: None)
    baostock.broken = {"sh.600002"}
    command = ["data", "fetch", "csi100", "--from", "2026-03-02", "--to", "2026-03-06", "--json"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    stored = json.loads(out)
    assert stored["name"] == "csi100" and stored["symbols"] == 2
    source = "members: CSI 300 of 2026-03-30 from baostock"
    assert any(note.startswith(source) for note in stored["notes"])
    assert "not fetched: sh.600002: " in err
    assert main(["data", "fetch", "--from", "2026-03-02"]) == 2
    assert "nothing says what to fetch" in capsys.readouterr().err
