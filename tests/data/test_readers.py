"""Files of every known layout become the same MarketData; what is no file of bars is refused in one line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from se_rl.data import readers
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.readers import ReadOptions, read_bars


def stacked(*, seed: int = 0, days: tuple[int, ...] = (20250102, 20250103)) -> pd.DataFrame:
    """Sparse 1-minute bars of two symbols as (symbol, date, minute, *_e4, volume)."""
    rng = np.random.default_rng(seed)
    grid = pd.MultiIndex.from_product(
        [["000001", "600519"], days, range(570, 960)], names=["symbol", "date", "minute"]
    )
    rows = grid.to_frame(index=False)
    close = rng.integers(900_000, 1_100_000, len(rows))
    prices = {"open_e4": close + 3, "high_e4": close + 9, "low_e4": close - 7, "close_e4": close}
    rows = rows.assign(**prices, volume=rng.integers(1, 9999, len(rows)))
    return rows[rng.random(len(rows)) < 0.9].reset_index(drop=True)


def timestamped(rows: pd.DataFrame) -> pd.DataFrame:
    """The same bars with one timestamp and plain prices."""
    day = pd.to_datetime(rows["date"].astype(str), format="%Y%m%d")
    prices = {name: rows[f"{name}_e4"] / 1e4 for name in ("open", "high", "low", "close")}
    stamp = day + pd.to_timedelta(rows["minute"], unit="min")
    return pd.DataFrame(
        {"symbol": rows["symbol"], "timestamp": stamp, **prices, "volume": rows["volume"]}
    )


def assert_same(left: MarketData, right: MarketData) -> None:
    for f in fields(MarketData):
        a, b = getattr(left, f.name), getattr(right, f.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=f.name)
        elif f.name != "provenance":
            assert a == b


def refusal(path: Path, options: ReadOptions | None = None) -> str:
    with pytest.raises(DataError) as error:
        read_bars(path, options or ReadOptions())
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_layout_gives_the_same_bars(tmp_path: Path) -> None:
    rows = stacked()
    long = timestamped(rows)
    plain = rows.rename(columns=lambda name: name.removesuffix("_e4")).copy()
    plain[["open", "high", "low", "close"]] /= 1e4
    split = long.assign(
        date=long["timestamp"].dt.strftime("%Y%m%d"), time=long["timestamp"].dt.strftime("%H:%M")
    )
    rows.to_parquet(tmp_path / "e4.parquet")
    rows.to_csv(tmp_path / "e4.csv", index=False)
    plain.to_csv(tmp_path / "plain.csv", index=False)
    long.to_parquet(tmp_path / "long.parquet")
    long.rename(columns={"symbol": "Ticker", "timestamp": "DateTime", "open": "OPEN"}).to_csv(
        tmp_path / "long.csv"
    )
    split.drop(columns="timestamp").to_csv(tmp_path / "split.csv", index=False, sep=";")
    long.to_csv(
        tmp_path / "bom.csv", index=False, encoding="utf-8-sig", date_format="%Y/%m/%d %H:%M"
    )
    utc = long.assign(
        timestamp=long["timestamp"].dt.tz_localize("America/New_York").dt.tz_convert("UTC")
    )
    utc.to_csv(tmp_path / "utc.csv", index=False)
    utc.assign(timestamp=utc["timestamp"].dt.as_unit("ms").astype("int64")).to_csv(
        tmp_path / "epoch.csv", index=False
    )
    long.assign(timestamp=long["timestamp"].dt.strftime("%Y%m%d%H%M%S000")).to_csv(
        tmp_path / "digits.csv", index=False
    )
    read = {path.name: read_bars(path) for path in sorted(tmp_path.iterdir())}
    assert len(read) == 10
    first = read["e4.parquet"]
    assert first.symbols == ("000001", "600519") and first.dates.tolist() == [20250102, 20250103]
    assert int(first.traded.sum()) == len(rows) < first.traded.size
    bar = rows.iloc[17]
    day, minute = [20250102, 20250103].index(bar["date"]), bar["minute"] - 570
    assert first.close[0, day, minute] == bar["close_e4"] / 1e4
    for data in read.values():
        assert_same(first, data)


def test_a_chosen_clock_counts_for_date_and_minute_too(tmp_path: Path) -> None:
    rows = stacked()
    rows.to_parquet(tmp_path / "local.parquet")
    rows.assign(minute=rows["minute"] + 300).to_parquet(tmp_path / "utc.parquet")
    assert_same(
        read_bars(tmp_path / "local.parquet"),
        read_bars(tmp_path / "utc.parquet", ReadOptions(time_zone="UTC")),
    )


def test_provenance_names_the_file_and_its_content(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    timestamped(stacked()).drop(columns="symbol").iloc[:300].to_csv(path, index=False)
    data = read_bars(path, ReadOptions(adjusted=True))
    assert (data.provenance.name, data.provenance.adjusted, data.symbols) == (
        "mine",
        True,
        ("mine",),
    )
    assert len(data.provenance.sha256) == 64 and not data.provenance.synthetic
    assert read_bars(path, ReadOptions(symbol="AAPL")).symbols == ("AAPL",)


def test_the_cache_answers_for_the_same_content_and_options_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.parquet"
    stacked().to_parquet(path)
    first = read_bars(path)
    calls: list[Any] = []
    parse = readers._columns

    def counted(*args: Any) -> readers.Columns:
        calls.append(args)
        return parse(*args)

    monkeypatch.setattr(readers, "_columns", counted)
    assert_same(first, read_bars(path))
    assert not calls
    read_bars(path, ReadOptions(adjusted=True))
    assert len(calls) == 1
    stacked(seed=1).to_parquet(path)
    assert not np.array_equal(read_bars(path).close, first.close)
    assert len(calls) == 2


def test_metadata_settles_the_label_only_where_the_labels_leave_it_open(tmp_path: Path) -> None:
    rows = stacked()
    for told, minutes, want in (
        ("end of bar", (571, 959), "end"),
        ("start of minute", (571, 959), "start"),
        ("end of bar", (570, 959), "start"),
        ("extra 570 bar = opening print", (570, 959), "open+end"),
    ):
        table = pa.Table.from_pandas(rows[rows["minute"].between(*minutes)], preserve_index=False)
        pq.write_table(table.replace_schema_metadata({"bar_label": told}), tmp_path / "m.parquet")
        assert read_bars(tmp_path / "m.parquet").grid.label == want


def wide(path: Path, rows: int) -> None:
    table = pa.table(
        {"BBB": pa.array(range(1, rows + 1)), "AAA": pa.array(range(20_001, 20_001 + rows))}
    )
    pq.write_table(table.replace_schema_metadata({"price_scale": "10000"}), path)


def test_wide_prices_become_sessions_of_390_rows(tmp_path: Path) -> None:
    wide(tmp_path / "w.parquet", 5 * 390 + 7)
    data = read_bars(tmp_path / "w.parquet")
    assert data.symbols == ("AAA", "BBB") and data.dates.tolist() == [
        20160726,
        20160727,
        20160728,
        20160729,
        20160801,
    ]
    assert (
        data.volume is None
        and data.close[1, 1, 0] == 391 / 1e4
        and data.open[0, 0, 0] == 20_001 / 1e4
    )
    assert "the last 7 rows" in data.provenance.notes[1]
    wide(tmp_path / "s.parquet", 389)
    assert "389 rows" in refusal(tmp_path / "s.parquet")


def test_two_bar_lengths_need_a_choice(tmp_path: Path) -> None:
    rows = stacked()
    both = pd.concat([rows.assign(freq_min=1), rows[rows["minute"] % 5 == 0].assign(freq_min=5)])
    both.to_parquet(tmp_path / "f.parquet")
    assert "bars of 1 and 5 minutes; choose one by bar_minutes" in refusal(tmp_path / "f.parquet")
    assert "choose one" in refusal(tmp_path / "f.parquet", ReadOptions(bar_minutes=15))
    assert read_bars(tmp_path / "f.parquet", ReadOptions(bar_minutes=1)).shape == (2, 2, 390)
    assert read_bars(tmp_path / "f.parquet", ReadOptions(bar_minutes=5)).shape == (2, 2, 78)


def test_bad_rows_are_refused_and_repaired(tmp_path: Path) -> None:
    rows = stacked()
    bad = pd.concat([rows, rows.iloc[[9, 4]]], ignore_index=True).astype(
        {"close_e4": "Int64", "minute": "Int64"}
    )
    bad.loc[20, "close_e4"] = 0
    bad.loc[21, "close_e4"] = pd.NA
    bad.loc[22, "minute"] = pd.NA
    bad.to_csv(tmp_path / "bad.csv", index=False)
    bad.to_parquet(tmp_path / "bad.parquet")
    for name in ("bad.csv", "bad.parquet"):
        assert "--repair" in refusal(tmp_path / name)
        mended = read_bars(tmp_path / name, ReadOptions(repair=True))
        assert int(mended.traded.sum()) == len(rows) - 3
        assert [note.split()[1] for note in mended.provenance.notes] == ["1", "1", "1", "2", "2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n \n", "is empty"),
        ("head.csv", b"timestamp,open,high,low,close\n", "has no rows"),
        ("zeros.csv", bytes(100), "neither parquet nor text"),
        ("noise.csv", bytes(range(1, 256)) * 9, "damaged or no table"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "damaged or no table"),
        ("text.parquet", b"symbol,date\n", "neither parquet nor text"),
        ("magic.parquet", b"PAR1" + b"x" * 50 + b"PAR1", "damaged or no table"),
        (
            "columns.csv",
            b"timestamp,open,close\n2025-01-02 09:30,1,2\n",
            "lacks the columns high, low (found timestamp, open",
        ),
        ("e4.csv", b"date,minute,open_e4\n20250102,570,1\n", "lacks the columns high, low, close"),
        (
            "words.csv",
            b"date,minute,open,high,low,close\n20250102,570,x,1,1,1\n",
            "column open holds string, first 'x'",
        ),
        ("noclock.csv", b"open,high,low,close\n1,1,1,1\n", "lacks the columns timestamp"),
        (
            "date.csv",
            b"date,minute,open,high,low,close\n20251399,570,1,1,1,1\n",
            "without a readable time",
        ),
        ("when.csv", b"timestamp,open,high,low,close\nsoon,1,1,1,1\n", "has the time 'soon'"),
        (
            "latin.csv",
            b"timestamp,symbol,open,high,low,close\n2025-01-02 09:30,\xff\xfe,1,1,1,1\n",
            "damaged or no table",
        ),
        ("hours.csv", b"date,minute,open,high,low,close\n20250102,100,1,1,1,1\n", ""),
    ],
)
def test_what_is_no_file_of_bars_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    if message:
        assert message in refusal(tmp_path / name)
    else:
        assert "no bar of hours lies in the hours of XNYS" in refusal(
            tmp_path / name, ReadOptions(exchange="XNYS")
        )


def test_missing_files_folders_and_cut_files_are_refused_in_one_line(tmp_path: Path) -> None:
    assert "cannot be read (No such file" in refusal(tmp_path / "none.csv")
    assert "is a folder" in refusal(tmp_path)
    stacked().to_parquet(tmp_path / "cut.parquet")
    whole = (tmp_path / "cut.parquet").read_bytes()
    for share in (0.01, 0.5, 0.999):
        (tmp_path / "cut.parquet").write_bytes(whole[: int(share * len(whole))])
        assert "damaged or no table" in refusal(tmp_path / "cut.parquet")


def test_importing_and_reading_integer_bars_needs_no_pandas(tmp_path: Path) -> None:
    stacked().to_parquet(tmp_path / "e4.parquet")
    code = (
        "import sys, pathlib, se_rl.data.checks, se_rl.data.readers as r\n"
        f"assert r.read_bars(pathlib.Path({str(tmp_path / 'e4.parquet')!r})).shape == (2, 2, 390)\n"
        "assert not {'pandas', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


REAL = {
    "us_minute_2018": ((140, 29, 391), 1_575_326, "open+end", "c5dbb25e881cc8ef"),
    "us_minute_2022": ((77, 5, 390), 143_622, "start", "9714fbb171dee9b9"),
    "us_minute_2025": ((99, 39, 390), 1_378_517, "start", "fa8d015cb5a4b8e0"),
    "us_minute_2026": ((99, 12, 390), 455_025, "start", "240d50b2f9ccab8d"),
    "cn_15min_2025": ((200, 243, 16), 776_180, "end", "ab72c67c88787090"),
    "in_15min_2024": ((146, 412, 25), 1_503_771, "start", "11364b9b74285183"),
    "nasdaq100_padding_first4517": ((82, 11, 390), 82 * 11 * 390, "start", "f1d293a264f6e388"),
    # One of the 20 dates holds six minutes of one name: it ends early and is left out.
    "lean_minute_bars_quotes": ((10, 19, 390), 14_513 - 6, "start", "f7ce8de1b5d2774a"),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files_load_with_the_counts_of_their_description(shared_data: Path, name: str) -> None:
    shape, rows, label, digest = REAL[name]
    data = read_bars(shared_data / f"{name}.parquet")
    assert (data.shape, int(data.traded.sum()), data.grid.label) == (shape, rows, label)
    assert data.provenance.sha256.startswith(digest)
    assert_same(data, read_bars(shared_data / f"{name}.parquet"))


def test_the_real_chinese_samples_hold_two_bar_lengths(shared_data: Path) -> None:
    path = shared_data / "cn_minute_samples_2026.parquet"
    assert "1 and 5 minutes" in refusal(path)
    assert "outside [low, high]" in refusal(path, ReadOptions(bar_minutes=1))
    minute = read_bars(path, ReadOptions(bar_minutes=1, repair=True))
    assert (minute.shape, minute.grid.label, int(minute.traded.sum())) == (
        (1, 5, 241),
        "open+end",
        1205,
    )
    five = read_bars(path, ReadOptions(bar_minutes=5))
    assert (five.shape, five.grid.label, int(five.traded.sum())) == (
        (2, 32, 48),
        "end",
        4229 - 1205,
    )


def test_the_real_quotes_are_kept_where_there_are_any(shared_data: Path) -> None:
    data = read_bars(shared_data / "lean_minute_bars_quotes.parquet")
    assert data.bid is not None and data.ask is not None and data.bid_sizes is not None
    quoted = np.isfinite(data.bid) & (data.bid <= data.ask) & (data.bid > 0)
    sessions = quoted.any(axis=2)
    assert (int(data.has_session.sum()), int(sessions.sum())) == (38, 37)
    assert (
        quoted[sessions].all()
        and np.isnan(data.bid[~sessions]).all()
        and (data.bid_sizes[sessions] > 0).all()
    )
    assert (
        "2 sessions of a symbol have no quote at all" in data.provenance.notes
    )  # one of them is left out as short


@pytest.mark.parametrize(
    "name",
    ["lobster_AAPL_20120621_L1_book", "lean_BAC_trades_20131007_10", "trademaster_BTC_OE_test"],
)
def test_real_files_that_hold_no_bars_are_refused(shared_data: Path, name: str) -> None:
    assert "lacks the columns" in refusal(shared_data / f"{name}.parquet")
