"""Files as people have them: packed, with epochs, with names of their own, wide as yfinance's."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from se_rl.data.catalog import load_data
from se_rl.data.checks import check_bars
from se_rl.data.frame_layouts import column_map
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.readers import ReadOptions, read_bars
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.data.understanding import Understood, understood
from se_rl.main import main

OHLCV = ["open", "high", "low", "close", "volume"]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    market = synthetic_market(SyntheticConfig(symbols=3, sessions=3, seed=3))
    return market.to_frame()[["symbol", "timestamp", *OHLCV]]


@pytest.fixture(scope="module")
def expected(rows: pd.DataFrame) -> MarketData:
    return load_data(rows)


def utc(rows: pd.DataFrame) -> Any:
    return rows["timestamp"].dt.tz_localize("America/New_York").dt.tz_convert("UTC")


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """The frame that `yfinance.download` gives for several tickers."""
    named = rows.assign(timestamp=utc(rows)).rename(columns={name: name.title() for name in OHLCV})
    pivot = named.pivot(index="timestamp", columns="symbol", values=[n.title() for n in OHLCV])
    return pivot.rename_axis(index="Datetime", columns=["Price", "Ticker"])


def same(data: MarketData, expected: MarketData) -> None:
    assert data.symbols == expected.symbols and data.grid == expected.grid
    for name in OHLCV:
        np.testing.assert_array_equal(getattr(data, name), getattr(expected, name))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "s with a fraction"])
def test_epochs(unit: str, rows: pd.DataFrame, expected: MarketData, tmp_path: Path) -> None:
    epoch = (utc(rows) - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(1, unit[:2].strip())
    stamps = epoch + 0.0 if "fraction" in unit else epoch
    for file in ("a.csv", "a.parquet"):
        frame = rows.assign(timestamp=stamps)
        path = tmp_path / file
        frame.to_csv(path, index=False) if "csv" in file else frame.to_parquet(path)
        same(read_bars(path), expected)


def test_a_packed_file_is_the_same_file(
    rows: pd.DataFrame, expected: MarketData, tmp_path: Path
) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    rows.to_csv(plain, index=False)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    data = read_bars(packed)
    same(data, expected)
    assert data.provenance.name == "b"
    assert data.provenance.sha256 == read_bars(plain).provenance.sha256
    packed.write_bytes(packed.read_bytes()[:-2000])
    with pytest.raises(DataError, match="is damaged"):
        read_bars(packed)


def test_columns_by_the_users_names(
    rows: pd.DataFrame, expected: MarketData, tmp_path: Path
) -> None:
    odd = rows.rename(columns={"timestamp": "Date Time", "symbol": "Sym", "close": "Adj Close"})
    odd["Close"] = 1.0  # another column of that name steps aside
    pairs = column_map(["time=Date Time", "symbol=sym", "close=Adj Close"])
    odd.to_csv(tmp_path / "odd.csv", index=False)
    odd.to_parquet(tmp_path / "odd.parquet")
    for path in sorted(tmp_path.iterdir()):
        same(read_bars(path, ReadOptions(columns=pairs)), expected)
    same(load_data(odd, ReadOptions(columns=pairs)), expected)


def test_a_frame_with_its_index_in_parquet(rows: pd.DataFrame, tmp_path: Path) -> None:
    one = rows[rows["symbol"] == "SYN001"].drop(columns="symbol").set_index("timestamp")
    one.rename_axis("Date Time").to_parquet(tmp_path / "named.parquet")
    one.rename_axis(None).to_parquet(tmp_path / "bare.parquet")
    bare = read_bars(tmp_path / "bare.parquet")
    mapped = ReadOptions(columns=column_map(["time=Date Time"]), symbol="bare")
    same(read_bars(tmp_path / "named.parquet", mapped), bare)
    assert bare.shape == (1, 3, 390)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time", "maps nothing"),
        ("time=", "maps nothing"),
        ("zeit=Date", "'zeit' is unknown; map one of time"),
        ("time=Nope", "has no column 'Nope' for time; it has symbol, timestamp"),
    ],
)
def test_a_mapping_that_cannot_be_is_one_line(
    text: str, words: str, rows: pd.DataFrame, tmp_path: Path
) -> None:
    rows.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=words) as caught:
        read_bars(tmp_path / "a.csv", ReadOptions(columns=column_map([text])))
    assert "\n" not in str(caught.value)


def test_wide_frames(rows: pd.DataFrame, expected: MarketData, tmp_path: Path) -> None:
    same(load_data(wide(rows)), expected)
    same(load_data(wide(rows).swaplevel(axis=1)), expected)
    wide(rows).to_csv(tmp_path / "wide.csv")
    same(read_bars(tmp_path / "wide.csv"), expected)
    with pytest.raises(DataError, match="header rows"):
        load_data(wide(rows)[["Close"]])


def test_check_says_what_it_understood(
    rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.csv"
    rows.drop(columns="volume").rename(columns={"timestamp": "Date Time"}).to_csv(path, index=False)
    assert main(["data", "check", str(path), "--column", "time=Date Time"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in ("3: SYN000", "XNYS", "America/New_York", "1 min", "TWAP instead", "no: 3 days"):
        assert words in said
    assert main(["data", "check", str(path), "--column", "time=Nope"]) != 0


def test_enough_days_for_a_run() -> None:
    for days, fault in ((12, "leave 1 valid days, 2 are needed"), (15, "")):
        market = synthetic_market(SyntheticConfig(symbols=2, sessions=days))
        assert fault in Understood.of(market).run_fault or not fault
        assert bool(Understood.of(market).run_fault) == bool(fault)


def test_a_file_that_cannot_be_read_is_not_understood(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("nothing\nof,the\nkind\n")
    assert understood(tmp_path / "a.csv") is None


def test_what_to_do_is_said_where_names_or_times_are_the_users_own(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    """Names that nobody knows, then times that nobody can read: both are said before any row."""
    path = tmp_path / "own.csv"
    rows.rename(columns={"timestamp": "Date Time"}).to_csv(path, index=False)
    [found] = check_bars(path)
    assert found.kind == "unreadable" and "--column time=NAME" in found.example
    days_first = rows.assign(timestamp=rows["timestamp"].dt.strftime("%d.%m.%Y %H:%M"))
    days_first.to_csv(path, index=False)
    [found] = check_bars(path)
    assert found.kind == "unreadable" and "write times as 2025-01-02 09:30" in found.example
