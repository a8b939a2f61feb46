"""Books and ticks: files in, checked arrays and bars out; then the statistics of the real samples."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from se_rl.data.books import BookHistory, read_lobster
from se_rl.data.market_data import DataError
from se_rl.data.ticks import QuoteHistory, bars_from_ticks, read_quotes, read_trades

CSV_NAME = "TOY_2024-01-02_34200000_57600000_{}_2.csv"
MESSAGES = """34199.5,1,11,100,100000,1
34200.000000001,1,12,200,100200,-1
34230.5,4,12,50,100200,-1
34231.25,5,0,30,100100,-1
34259.999999999,4,11,40,100000,1
34260.0,1,13,10,99900,1
34385.0,4,12,20,100300,-1
57600.0,4,11,60,100000,1
"""
EMPTY_ASK, EMPTY_BID = "9999999999,0", "-9999999999,0"
BOOK = "\n".join(
    (
        f"{EMPTY_ASK},100000,100,{EMPTY_ASK},{EMPTY_BID}",
        f"100200,200,100000,100,{EMPTY_ASK},{EMPTY_BID}",
        f"100200,150,100000,100,{EMPTY_ASK},{EMPTY_BID}",
        f"100200,150,100000,100,{EMPTY_ASK},{EMPTY_BID}",
        f"100200,150,100000,60,{EMPTY_ASK},{EMPTY_BID}",
        f"100200,150,100000,60,{EMPTY_ASK},99900,10",
        f"100200,130,100000,60,{EMPTY_ASK},99900,10",
        f"100200,130,99900,10,{EMPTY_ASK},{EMPTY_BID}",
    )
)


@pytest.fixture
def csv_pair(tmp_path: Path) -> Path:
    (tmp_path / CSV_NAME.format("orderbook")).write_text(BOOK)
    path = tmp_path / CSV_NAME.format("message")
    path.write_text(MESSAGES)
    return path


@pytest.fixture
def book(csv_pair: Path) -> BookHistory:
    return read_lobster(csv_pair)


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert ";" in message  # what was wrong; how to mend it
    return message


def test_csv_pair_is_read_exactly(book: BookHistory) -> None:
    assert (book.symbol, book.date, len(book.sha256)) == ("TOY", 20240102, 64)
    assert book.time_ns[1] == 34_200_000_000_001
    assert book.time_ns[4] == 34_259_999_999_999
    assert book.kind.tolist() == [1, 1, 4, 5, 4, 1, 4, 4]
    assert book.ask_e4[0].tolist() == book.ask_size[0].tolist() == [0, 0]
    assert book.bid_e4[5].tolist() == [100000, 99900]
    assert {f.name: getattr(book, f.name).dtype.name for f in fields(book)[2:-1]} == {
        "time_ns": "int64",
        "kind": "int32",
        "order_id": "int64",
        "size": "int32",
        "price_e4": "int32",
        "direction": "int32",
        "bid_e4": "int32",
        "bid_size": "int32",
        "ask_e4": "int32",
        "ask_size": "int32",
    }


def test_csv_with_a_seventh_column_and_explicit_book(
    csv_pair: Path, book: BookHistory, tmp_path: Path
) -> None:
    csv_pair.write_text(MESSAGES.replace("\n", ",null\n"))
    moved = (tmp_path / CSV_NAME.format("orderbook")).rename(tmp_path / "elsewhere.csv")
    again = read_lobster(csv_pair, moved)
    np.testing.assert_array_equal(again.direction, book.direction)
    assert again.sha256 != book.sha256


def test_parquet_pair_gives_the_same_arrays(book: BookHistory, tmp_path: Path) -> None:
    metadata = {"symbol": "TOY", "date": "2024-01-02"}
    messages = {
        "time_ns": book.time_ns,
        "type": book.kind,
        "order_id": book.order_id,
        "size": book.size,
    }
    messages |= {"price_e4": book.price_e4, "direction": book.direction}
    levels = {
        f"{name}{k + 1}": values[:, k]
        for k in range(2)
        for name, values in {
            "ask": book.ask_e4,
            "asz": book.ask_size,
            "bid": book.bid_e4,
            "bsz": book.bid_size,
        }.items()
    }
    pq.write_table(pa.table(messages, metadata=metadata), tmp_path / "toy_messages.parquet")
    pq.write_table(pa.table(levels), tmp_path / "toy_book.parquet")
    again = read_lobster(tmp_path / "toy_messages.parquet")
    for f in fields(book)[:-1]:
        np.testing.assert_array_equal(getattr(again, f.name), getattr(book, f.name))


def test_bars_hold_executions_quotes_and_flat_minutes(book: BookHistory) -> None:
    data = book.bars()
    assert data.shape == (1, 1, 390)
    assert data.traded[0, 0].nonzero()[0].tolist() == [0, 3]
    first, flat, later = (
        [float(getattr(data, f)[0, 0, bar]) for f in ("open", "high", "low", "close")]
        for bar in (0, 1, 3)
    )
    assert first == [10.02, 10.02, 10.00, 10.00]
    assert flat == [10.00] * 4
    assert later == [10.03] * 4
    assert data.volume is not None and data.amount is not None
    assert data.bid is not None and data.ask is not None and data.bid_sizes is not None
    assert data.volume[0, 0, :4].tolist() == [120, 0, 0, 20]
    assert data.amount[0, 0, :4] == pytest.approx(
        [50 * 10.02 + 30 * 10.01 + 40 * 10.00, 0, 0, 20 * 10.03]
    )
    assert (data.bid[0, 0, 0], data.ask[0, 0, 0]) == (10.00, 10.02)
    assert data.bid_sizes[0, 0, :2].tolist() == [[60, 0], [60, 10]]
    assert data.provenance.notes == ("1 executions outside regular hours dropped",)


def test_five_minute_bars_and_odd_lengths(book: BookHistory) -> None:
    data = book.bars(bar_seconds=300)
    assert data.volume is not None
    assert (data.shape[2], data.volume[0, 0, 0], data.volume.sum()) == (78, 140, 140)
    assert len(book.bar_ranges(bar_seconds=3600)) == 8  # the last hour is half an hour
    for seconds in (0, -60, 90):
        with pytest.raises(DataError, match="multiple of 60") as error:
            book.bars(bar_seconds=seconds)
        assert str(seconds) in one_line(error)


def test_minutes_before_the_first_trade_are_flat_at_its_open_and_unquoted(
    book: BookHistory,
) -> None:
    late = replace(book, time_ns=book.time_ns + 120 * 10**9)
    data = late.bars()
    assert data.bid is not None and data.ask_sizes is not None
    assert data.close[0, 0, :2].tolist() == [10.02, 10.02]
    assert np.isnan(data.bid[0, 0, 0])
    assert data.ask_sizes[0, 0, 0].tolist() == [0, 0]


def test_crossed_and_one_sided_books_give_no_quote(book: BookHistory) -> None:
    crossed = book.bid_e4.copy()
    crossed[4, 0] = 100300
    ask_size = book.ask_size.copy()
    ask_size[5] = 0
    data = replace(book, bid_e4=crossed, ask_size=ask_size).bars()
    assert data.bid is not None and data.ask is not None
    assert np.isnan([data.bid[0, 0, 0], data.ask[0, 0, 0], data.ask[0, 0, 1]]).all()
    assert data.bid[0, 0, 1] == 10.0


@given(
    st.lists(st.integers(34_100, 57_700), min_size=1, max_size=60), st.sampled_from([60, 300, 420])
)
def test_bar_ranges_count_messages_before_each_start(seconds: list[int], bar_seconds: int) -> None:
    time_ns = np.sort(np.array(seconds, dtype=np.int64)) * 10**9
    ones = np.ones(len(time_ns), dtype=np.int32)
    level = ones[:, None] * 100
    book = BookHistory(
        "TOY", 20240102, time_ns, ones, ones.astype(np.int64), *(ones,) * 3, *(level,) * 4
    )
    starts = [*range(34_200, 57_600, bar_seconds), 57_600]
    expected = [sum(second < start for second in seconds) for start in starts]
    assert book.bar_ranges(bar_seconds=bar_seconds).tolist() == expected


@pytest.mark.parametrize(
    ("field", "row", "value", "words"),
    [
        ("time_ns", 3, 5, "time_ns is 5 in row 3"),
        ("kind", 2, 8, "kind is 8 in row 2"),
        ("size", 1, 0, "size is 0 in row 1"),
        ("price_e4", 0, -1, "price_e4 is -1 in row 0"),
        ("direction", 6, 0, "direction is 0 in row 6"),
        ("bid_size", 4, -7, "bid_size is"),
        ("bid_e4", 5, [99_900, 100_000], r"bid_e4 is \[99900, 100000\] in row 5"),
        ("ask_size", 3, [0, 40], "ask_e4 is"),
    ],
)
def test_bad_values_are_refused_with_their_row(
    book: BookHistory, field: str, row: int, value: Any, words: str
) -> None:
    broken = getattr(book, field).copy()
    broken[row] = value
    with pytest.raises(DataError, match=words) as error:
        replace(book, **{field: broken})
    one_line(error)


def test_a_halt_needs_neither_size_nor_price(book: BookHistory) -> None:
    kind, size, price_e4 = book.kind.copy(), book.size.copy(), book.price_e4.copy()
    kind[5], size[5], price_e4[5] = 7, 0, -1
    assert replace(book, kind=kind, size=size, price_e4=price_e4).bars().traded.sum() == 2


def test_book_rows_must_match_messages(book: BookHistory, csv_pair: Path) -> None:
    csv_pair.write_text(MESSAGES.split("\n", 1)[1])
    with pytest.raises(DataError, match="as many book rows as messages") as error:
        read_lobster(csv_pair)
    one_line(error)
    nothing = {f.name: getattr(book, f.name)[:0] for f in fields(book)[2:-1]}
    with pytest.raises(DataError, match="at least one"):
        replace(book, **nothing)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,type,id,size,price,direction\n" + MESSAGES, "gaps or text in column time_s"),
        (MESSAGES.replace("34199.5,1,11,100", "34199.5,1,11,"), "gaps or text in column size"),
        (MESSAGES.replace("100300", "3000000000"), "price_e4 3000000000"),
        (MESSAGES.replace(",4,12,20,", ",4,12,20.5,"), "has size 20.5"),
        ("34200.5,1,11\n", "no column size"),
        ("", "is no table"),
    ],
)
def test_bad_csv_is_refused_in_one_line(csv_pair: Path, text: str, words: str) -> None:
    csv_pair.write_text(text)
    with pytest.raises(DataError, match=words) as error:
        read_lobster(csv_pair)
    one_line(error)


def test_missing_and_nameless_files_are_refused(csv_pair: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not in .*check the path") as error:
        read_lobster(csv_pair, tmp_path / "absent.csv")
    one_line(error)
    nameless = csv_pair.rename(tmp_path / "a_message_2.csv")
    with pytest.raises(DataError, match="no book file beside it") as error:
        read_lobster(nameless)
    one_line(error)
    with pytest.raises(DataError, match="does not say its symbol") as error:
        read_lobster(nameless, tmp_path / CSV_NAME.format("orderbook"))
    one_line(error)
    (tmp_path / "fake.parquet").write_text("not parquet")
    with pytest.raises(DataError, match="is no table") as error:
        read_trades(tmp_path / "fake.parquet")
    one_line(error)


def ticks(path: Path, columns: dict[str, list[int]], symbol: str = "TOY") -> Path:
    table = pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})
    pq.write_table(table.replace_schema_metadata({"symbol": symbol}), path)
    return path


OPEN_MS = 34_200_000
TRADES = {
    "date": [20240102] * 4 + [20240103],
    "time_ms": [OPEN_MS - 1, OPEN_MS, OPEN_MS + 59_999, OPEN_MS + 120_000, OPEN_MS + 60_000],
    "price_e4": [90_000, 100_000, 100_100, 100_200, 110_000],
    "size": [5, 10, 20, 30, 40],
}
QUOTES = {
    "date": [20240102] * 5,
    "time_ms": [OPEN_MS, OPEN_MS, OPEN_MS + 10, OPEN_MS + 20, OPEN_MS + 60_000],
    "bid_e4": [99_000, 99_900, 100_100, 100_200, 99_800],
    "bsz": [1, 2, 3, 4, 5],
    "ask_e4": [100_100, 100_100, 100_100, 100_100, 100_000],
    "asz": [10, 20, 30, 40, 50],
}


def test_quotes_keep_the_last_state_and_drop_locked_and_crossed(tmp_path: Path) -> None:
    quotes = read_quotes(ticks(tmp_path / "q.parquet", QUOTES))
    assert quotes.symbol == "TOY"
    assert quotes.bid_e4.tolist() == [99_900, 99_800]
    assert quotes.ask_size.tolist() == [20, 50]
    assert quotes.notes == (
        "1 quotes replaced within their millisecond dropped",
        "2 locked, crossed or one-sided quotes dropped",
    )


def test_bars_from_ticks(tmp_path: Path) -> None:
    trades = read_trades(ticks(tmp_path / "t.parquet", TRADES))
    data = bars_from_ticks(trades, read_quotes(ticks(tmp_path / "q.parquet", QUOTES)))
    assert (data.shape, data.dates.tolist()) == ((1, 2, 390), [20240102, 20240103])
    assert data.volume is not None and data.bid is not None and data.ask_sizes is not None
    assert data.volume[0, :, :3].tolist() == [[30, 0, 30], [0, 40, 0]]
    assert data.close[0, :, :3].tolist() == [[10.01, 10.01, 10.02], [11.0, 11.0, 11.0]]
    assert data.bid[0, 0, :3].tolist() == [9.99, 9.98, 9.98]
    assert data.ask_sizes[0, 0, :2].tolist() == [[20], [50]]
    assert np.isnan(data.bid[0, 1]).all()  # a quote never stands overnight
    assert "1 trades outside regular hours dropped" in data.provenance.notes
    assert bars_from_ticks(trades).bid is None


def test_bad_ticks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(DataError, match="row 1 is earlier") as error:
        read_trades(ticks(path, {**TRADES, "time_ms": [5, 4, 6, 7, 8]}))
    one_line(error)
    with pytest.raises(DataError, match="price_e4 100200, size 0") as error:
        read_trades(ticks(path, {**TRADES, "size": [5, 10, 20, 0, 40]}))
    one_line(error)
    with pytest.raises(DataError, match="no column bid_e4") as error:
        read_quotes(ticks(path, TRADES))
    one_line(error)
    with pytest.raises(DataError, match="no trade in regular hours") as error:
        bars_from_ticks(read_trades(ticks(path, {**TRADES, "time_ms": [1, 2, 3, 4, 5]})))
    one_line(error)
    quotes = read_quotes(ticks(tmp_path / "q.parquet", QUOTES, symbol="OTHER"))
    with pytest.raises(DataError, match="quotes are of OTHER, trades of TOY") as error:
        bars_from_ticks(read_trades(ticks(path, TRADES)), quotes)
    one_line(error)


def test_import_is_light() -> None:
    code = "import sys, se_rl.data.books; print(sorted({'pandas', 'torch', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_amzn_day_reproduces_the_published_statistics(shared_data: Path) -> None:
    book = read_lobster(shared_data / "lobster_AMZN_20120621_L5_messages.parquet")
    assert (book.symbol, book.date, book.bid_e4.shape) == ("AMZN", 20120621, (155_935, 5))
    assert np.bincount(book.kind)[1:].tolist() == [77_381, 450, 66_685, 8_974, 2_445]
    data = book.bars()
    assert (
        data.volume is not None
        and data.bid is not None
        and data.ask is not None
        and data.bid_sizes is not None
    )
    assert data.volume.sum() == book.size[book.kind >= 4].sum()
    assert data.bid[0, 0, -1] + data.ask[0, 0, -1] == pytest.approx(
        (book.bid_e4[-1, 0] + book.ask_e4[-1, 0]) / 1e4
    )
    assert data.bid_sizes.shape == (1, 1, 390, 5)
    held_ns = np.diff(book.time_ns)
    spread_e4, mid_e4 = (
        book.ask_e4[:-1, 0] - book.bid_e4[:-1, 0],
        (book.ask_e4[:-1, 0] + book.bid_e4[:-1, 0]) / 2,
    )
    assert np.average(spread_e4 / 100, weights=held_ns) == pytest.approx(12.9, rel=0.01)
    assert np.average(1e4 * spread_e4 / mid_e4, weights=held_ns) == pytest.approx(5.76, rel=0.01)


def spread_cents_by_day(quotes: QuoteHistory) -> list[float]:
    """Time-weighted."""
    days = [quotes.date == date for date in np.unique(quotes.date)]
    spread_e4 = quotes.ask_e4 - quotes.bid_e4
    return [
        float(np.average(spread_e4[d][:-1] / 100, weights=np.diff(quotes.time_ms[d]))) for d in days
    ]


@pytest.mark.parametrize(
    ("symbol", "low", "high", "shares"),
    [("BAC", 1.01, 1.03, (60e6, 95e6)), ("IBM", 4.0, 5.7, (3.3e6, 5.21e6))],
)
def test_tick_files_reproduce_the_published_statistics(
    shared_data: Path, symbol: str, low: float, high: float, shares: tuple[float, float]
) -> None:
    quotes = read_quotes(shared_data / f"lean_{symbol}_bbo_20131007_10.parquet")
    trades = read_trades(shared_data / f"lean_{symbol}_trades_20131007_10.parquet")
    spreads = np.round(spread_cents_by_day(quotes), 2)
    assert (spreads.min(), spreads.max()) == pytest.approx((low, high), abs=0.011)
    data = bars_from_ticks(trades, quotes)
    assert data.volume is not None
    daily = data.volume.sum(axis=2)[0]
    assert data.shape == (1, 4, 390)
    assert daily.sum() == trades.size.sum(dtype=np.int64)
    assert shares[0] <= daily.min() and daily.max() <= shares[1]
