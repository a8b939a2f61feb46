"""Rows and dataframes on the session grid: fills, labels, time zones, repairs and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.calendar import session_grid
from se_rl.data.columns import Columns, ReadOptions, frame_columns
from se_rl.data.frames import bars_from_columns, bars_from_frame
from se_rl.data.market_data import DataError, MarketData, Provenance
from se_rl.data.row_defects import repair_rows, row_defects


def frame(
    start: str = "2025-01-02 09:30", *, bars: int = 390, days: int = 1, seed: int = 0
) -> pd.DataFrame:
    index = pd.DatetimeIndex(
        np.concatenate(
            [
                pd.date_range(pd.Timestamp(start) + pd.Timedelta(days=d), periods=bars, freq="1min")
                for d in range(days)
            ]
        )
    )
    rng = np.random.default_rng(seed)
    close = 100 + rng.integers(-50, 50, len(index)) / 100
    low, high = close - 1, close + 1
    volume = rng.integers(1, 999, len(index))
    return pd.DataFrame(
        {"Open": close, "High": high, "Low": low, "Close": close, "Volume": volume}, index=index
    )


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    text = str(error.value)
    assert "\n" not in text and "Traceback" not in text
    return text


def test_a_full_day_keeps_every_number() -> None:
    source = frame()
    data = bars_from_frame(source, name="mine")
    assert (data.symbols, data.dates.tolist(), data.grid) == (
        ("mine",),
        [20250102],
        session_grid("XNYS"),
    )
    np.testing.assert_array_equal(data.close[0, 0], source["Close"])
    np.testing.assert_array_equal(data.require_volume("a test")[0, 0], source["Volume"])
    assert data.traded.all() and data.provenance.notes == ()


@st.composite
def sparse_rows(draw: st.DrawFn) -> dict[tuple[int, int, int], tuple[float, float, float]]:
    """Bars by (symbol, day, bar): a subset of 2 symbols x 3 days x 16 bars, each day with a last bar, one with a first."""
    cells = draw(
        st.sets(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 15)), max_size=60)
    )
    cells |= {
        (symbol, day, 15) for symbol in (0, 1) for day in (0, 1, 2) if (symbol + day) % 2 == 0
    } | {(1, 1, 0)}
    price = st.integers(1, 1000)
    return {cell: (draw(price) / 8, draw(price) / 8, float(draw(price))) for cell in sorted(cells)}


@given(sparse_rows())
@settings(max_examples=60, deadline=None)
def test_missing_bars_are_filled_as_a_plain_loop_fills_them(
    rows: dict[Any, tuple[float, float, float]],
) -> None:
    grid = session_grid("XSHG", bar_minutes=15, label="end")
    code, day, bar = np.array(list(rows)).T
    opens, closes, volume = np.array(list(rows.values())).T
    columns = Columns(
        symbols=("A", "B"),
        code=code,
        date=np.array([20250102, 20250103, 20250106])[day],
        minute=np.array(grid.minutes)[bar],
        open=opens,
        high=np.maximum(opens, closes),
        low=np.minimum(opens, closes),
        close=closes,
        volume=volume,
    )
    told = ReadOptions(exchange="XSHG", bar_minutes=15, bar_label="end")
    data = bars_from_columns(columns, told, provenance=Provenance("rows"))
    for s in (0, 1):
        for d in (0, 1, 2):
            printed = [b for b in range(16) if (s, d, b) in rows]
            last = rows[s, d, printed[0]][0] if printed else np.nan
            for b in range(16):
                if b in printed:
                    last = rows[s, d, b][1]
                want = (*rows[s, d, b], True) if b in printed else (last, last, 0.0, False)
                assert data.volume is not None
                got = (
                    data.open[s, d, b],
                    data.close[s, d, b],
                    data.volume[s, d, b],
                    data.traded[s, d, b],
                )
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("label", ["start", "end", "open+end"])
@pytest.mark.parametrize(
    ("exchange", "bar_minutes"), [("XNYS", 1), ("XNYS", 5), ("XSHG", 1), ("XSHG", 5), ("XSHG", 15)]
)
def test_the_grid_is_inferred_from_the_labels(exchange: str, bar_minutes: int, label: str) -> None:
    grid = session_grid(exchange, bar_minutes=bar_minutes, label=label)
    source = frame(bars=len(grid))
    source.index = pd.Timestamp("2025-01-02") + pd.to_timedelta(list(grid.minutes), unit="min")
    assert bars_from_frame(source).grid == grid


def test_options_overrule_the_labels() -> None:
    data = bars_from_frame(frame("2025-01-02 09:31"), ReadOptions(bar_label="start"))
    assert data.grid.label == "start"
    assert data.provenance.notes == ("1 bars outside the hours of XNYS dropped",)
    assert bars_from_frame(frame("2025-01-02 09:31")).grid.label == "end"


def test_a_half_hour_bar_is_no_sparse_quarter_hour_bar() -> None:
    grid = session_grid("XNYS", bar_minutes=30)
    source = frame(bars=13)
    source.index = pd.Timestamp("2025-01-02") + pd.to_timedelta(list(grid.minutes), unit="min")
    assert bars_from_frame(source).grid == grid


def test_extended_hours_are_cut_where_the_exchange_is_named() -> None:
    data = bars_from_frame(frame("2025-01-02 08:00", bars=600), ReadOptions(exchange="XNYS"))
    assert data.shape == (1, 1, 390) and data.traded.all()
    assert data.provenance.notes == ("210 bars outside the hours of XNYS dropped",)


def test_a_wrong_bar_length_is_refused_not_thinned() -> None:
    with pytest.raises(DataError, match="lie between XNYS's 5-minute labels") as error:
        bars_from_frame(frame(), ReadOptions(bar_minutes=5))
    one_line(error)


@pytest.mark.parametrize("day", ["2025-01-02", "2025-03-10", "2025-07-01", "2025-11-03"])
@pytest.mark.parametrize("kind", ["aware", "utc", "naive utc"])
def test_other_clocks_become_exchange_time(day: str, kind: str) -> None:
    """Both sides of the change of clocks, with the exchange inferred."""
    local = frame(f"{day} 09:30")
    aware = local.tz_localize("America/New_York")
    moved = {
        "aware": aware,
        "utc": aware.tz_convert("UTC"),
        "naive utc": aware.tz_convert("UTC").tz_localize(None),
    }[kind]
    data = bars_from_frame(moved, ReadOptions(time_zone="UTC" if kind == "naive utc" else None))
    assert data.grid == session_grid("XNYS") and data.dates.tolist() == [int(day.replace("-", ""))]
    np.testing.assert_array_equal(data.close[0, 0], local["Close"])


def test_a_week_over_the_change_of_clocks_keeps_its_hours() -> None:
    local = pd.concat([frame("2025-03-07 09:30"), frame("2025-03-10 09:30")])
    data = bars_from_frame(local.tz_localize("America/New_York").tz_convert("UTC"))
    assert data.shape == (1, 2, 390) and data.traded.all()


def test_chinese_hours_are_found_from_utc() -> None:
    grid = session_grid("XSHG")
    source = frame(bars=240)
    source.index = pd.Timestamp("2025-01-02") + pd.to_timedelta(list(grid.minutes), unit="min")
    data = bars_from_frame(source.tz_localize("Asia/Shanghai").tz_convert("UTC"))
    assert data.grid == grid and data.traded.all()


def test_a_clock_time_that_the_zone_has_twice_is_refused() -> None:
    with pytest.raises(DataError, match="America/New_York") as error:
        bars_from_frame(
            frame("2025-11-02 01:00", bars=50), ReadOptions(time_zone="America/New_York")
        )
    one_line(error)


@pytest.mark.parametrize(
    ("index", "bar_minutes"),
    [
        (pd.date_range("2024-01-01", periods=2000, freq="1min"), 1),
        (pd.date_range("2024-01-01", periods=300, freq="1D"), 1440),
        (pd.date_range("2024-01-01", periods=100, freq="15s"), 1),
        (pd.date_range("2024-01-01", periods=90, freq="1h"), 60),
    ],
)
def test_rows_of_no_exchange_are_one_session(index: pd.DatetimeIndex, bar_minutes: int) -> None:
    source = frame(bars=len(index)).set_axis(index)
    data = bars_from_frame(source)
    assert data.shape == (1, 1, len(index)) and data.dates.tolist() == [20240101]
    assert (data.grid.exchange, data.grid.bar_minutes) == ("continuous", bar_minutes)
    np.testing.assert_array_equal(data.close[0, 0], source["Close"])
    assert "one continuous session" in data.provenance.notes[-1]


def long(*symbols: str, bars: int = 390, start: str = "2025-01-02 09:30") -> pd.DataFrame:
    parts = [
        frame(start, bars=bars, seed=n).assign(Symbol=symbol) for n, symbol in enumerate(symbols)
    ]
    return pd.concat(parts).rename_axis("Timestamp").reset_index()


def test_continuous_symbols_must_share_their_times() -> None:
    source = long("B", "A", bars=1500)
    data = bars_from_frame(source)
    assert data.symbols == ("A", "B") and data.shape == (2, 1, 1500)
    np.testing.assert_array_equal(data.close[1, 0], source["Close"][:1500])
    for cut in (source.drop(index=7), source.drop(index=[7, 1510])):
        with pytest.raises(DataError, match="2 symbols differ in their timestamps") as error:
            bars_from_frame(cut)
        one_line(error)


@pytest.mark.parametrize("order", ["symbol", "time"])
def test_long_frames_may_go_by_symbol_or_by_time(order: str) -> None:
    source = long("B", "A")
    source = source if order == "symbol" else source.sort_values(["Timestamp", "Symbol"])
    data = bars_from_frame(source)
    np.testing.assert_array_equal(data.close[0, 0], frame(seed=1)["Close"])
    np.testing.assert_array_equal(data.close[1, 0], frame(seed=0)["Close"])


def test_sessions_that_end_early_are_left_out_only_beside_full_ones() -> None:
    short = frame("2025-01-03 09:30", bars=210)
    data = bars_from_frame(pd.concat([frame(), short]))
    assert data.dates.tolist() == [20250102]
    assert data.provenance.notes == ("1 sessions that end early dropped: 20250103",)
    assert bars_from_frame(short).dates.tolist() == [20250103]


@pytest.mark.parametrize(
    ("start", "bars", "days", "note"),
    [
        (
            "2025-01-06 09:30",
            240,
            1,
            "no session prints outside 09:30 to 13:29: the grid has these 240 of 390 bars",
        ),
        (
            "2025-01-06 09:30",
            240,
            3,
            "no session prints outside 09:30 to 13:29: the grid has these 240 of 390 bars",
        ),
        (
            "2025-01-06 13:00",
            180,
            2,
            "no session prints outside 13:00 to 15:59: the grid has these 180 of 390 bars",
        ),
        (
            "2025-01-06 11:00",
            200,
            2,
            "no session prints outside 11:00 to 14:19: the grid has these 200 of 390 bars",
        ),
    ],
)
def test_sessions_that_are_all_short_have_a_shorter_grid(
    start: str, bars: int, days: int, note: str
) -> None:
    source = frame(start, bars=bars, days=days)
    data = bars_from_frame(source)
    first = int(start[11:13]) * 60 + int(start[14:])
    assert data.grid == replace(session_grid("XNYS"), minutes=tuple(range(first, first + bars)))
    assert data.shape == (1, days, bars) and data.traded.all() and data.provenance.notes == (note,)
    np.testing.assert_array_equal(data.close.ravel(), source["Close"])


@pytest.mark.parametrize(("first", "last"), [(0, 311), (78, 389), (0, 312), (77, 389), (77, 312)])
def test_a_grid_is_cut_only_where_a_fifth_of_it_is_empty(first: int, last: int) -> None:
    data = bars_from_frame(frame().iloc[[first, *range(150, 200), last]])
    full = first < 78 and last >= 312
    assert (
        len(data.grid) == (390 if full else last - first + 1)
        and bool(data.provenance.notes) != full
    )
    assert data.traded[0, 0, [0, -1]].tolist() == (
        [first == 0, last == 389] if full else [True, True]
    )


def test_one_full_session_keeps_the_full_grid_for_those_that_start_late() -> None:
    data = bars_from_frame(pd.concat([frame(), frame("2025-01-03 12:30", bars=210)]))
    assert data.shape == (1, 2, 390) and data.provenance.notes == ()
    assert data.traded[0, 1].tolist() == [False] * 180 + [True] * 210


def test_beside_shortened_sessions_a_still_shorter_one_is_left_out() -> None:
    data = bars_from_frame(pd.concat([frame(bars=240), frame("2025-01-03 09:30", bars=100)]))
    assert data.shape == (1, 1, 240) and data.dates.tolist() == [20250102]
    assert [note.split()[:2] for note in data.provenance.notes] == [
        ["no", "session"],
        ["1", "sessions"],
    ]


def test_a_morning_in_shanghai_is_cut_too() -> None:
    grid = session_grid("XSHG")
    source = frame(bars=120, days=2)
    data = bars_from_frame(source, ReadOptions(exchange="XSHG"))
    assert data.grid == replace(grid, minutes=grid.minutes[:120]) and data.traded.all()


def quoted(bids: list[float], *, day_two: list[float] | None = None) -> MarketData:
    minutes = np.tile(session_grid("XSHG", bar_minutes=15, label="end").minutes, 2)
    bid = np.array(bids + [9.0] * (16 - len(bids)) + (day_two or [9.0] * 16))
    prices: dict[str, Any] = dict.fromkeys(("open", "high", "low", "close"), np.full(32, 10.0))
    quotes: dict[str, Any] = {
        "bid": bid,
        "ask": np.where(bid > 0, bid + 2, 0.0),
        "bid_size": np.arange(32.0),
    }
    date = np.repeat([20250102, 20250103], 16)
    columns = Columns(
        symbols=("A",), code=np.zeros(32, int), date=date, minute=minutes, **prices, **quotes
    )
    return bars_from_columns(columns, provenance=Provenance("q"))


def test_a_missing_quote_carries_the_last_one_and_none_comes_from_later() -> None:
    data = quoted([0, 8.0, 0, 7.0])
    assert data.bid is not None and data.ask is not None and data.bid_sizes is not None
    np.testing.assert_array_equal(data.bid[0, 0, :5], [np.nan, 8, 8, 7, 9])
    np.testing.assert_array_equal(data.ask[0, 0, :4], [np.nan, 10, 10, 9])
    assert data.bid_sizes.shape == (1, 2, 16, 1) and data.bid_sizes[0, 0, :4, 0].tolist() == [
        0,
        1,
        1,
        3,
    ]
    assert data.provenance.notes == (
        "1 bars without a quote carry the last one",
        "1 bars before the first quote of their session have none",
    )


def test_a_session_without_quotes_leaves_those_of_the_others() -> None:
    data = quoted([8.0], day_two=[0.0] * 16)
    assert data.bid is not None and data.ask is not None and data.bid_sizes is not None
    assert data.bid[0, 0].tolist() == [8.0] + [9.0] * 15 and data.ask[0, 0, 0] == 10.0
    assert (
        np.isnan(data.bid[0, 1]).all()
        and np.isnan(data.ask[0, 1]).all()
        and not data.bid_sizes[0, 1].any()
    )
    assert data.provenance.notes == ("1 sessions of a symbol have no quote at all",)


def spoilt(kind: str) -> pd.DataFrame:
    source = frame().rename(columns=str.lower).astype({"volume": float})
    where = source.index[5]
    if kind == "unsorted":
        return source.iloc[[*range(5), 6, 5, *range(7, 390)]]
    if kind == "duplicate":
        return pd.concat([source.iloc[:6], source.iloc[5:6].assign(volume=77.0), source.iloc[6:]])
    if kind == "no_time":
        return source.set_axis(source.index.where(source.index != where))
    column, value = {
        "nan_price": ("close", np.nan),
        "non_positive_price": ("low", -1.0),
        "ohlc_order": ("high", 90.0),
        "bad_volume": ("volume", -3.0),
        "crossed_quote": ("bid", 101.0),
    }[kind]
    if kind == "crossed_quote":
        source = source.assign(bid=99.0, ask=100.0)
    source.loc[where, column] = value
    return source


KINDS = (
    "no_time",
    "nan_price",
    "non_positive_price",
    "bad_volume",
    "ohlc_order",
    "crossed_quote",
    "unsorted",
    "duplicate",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_defect_is_refused_in_one_line_and_repaired_on_demand(kind: str) -> None:
    source = spoilt(kind)
    found = {
        k: np.flatnonzero(rows).tolist()
        for k, rows in row_defects(frame_columns(source)).items()
        if rows.any()
    }
    assert found == {kind: [6 if kind in ("unsorted", "duplicate") else 5]}
    with pytest.raises(
        DataError, match=r"1 .*\(row [67]\); `se-rl data import FILE --repair` mends this"
    ) as error:
        bars_from_frame(source)
    one_line(error)
    data = bars_from_frame(source, ReadOptions(repair=True))
    assert len(data.provenance.notes) >= 1 and data.provenance.notes[0].startswith("repaired 1 ")
    dropped = kind in ("no_time", "nan_price", "non_positive_price", "bad_volume")
    assert data.traded[0, 0, 5] == (not dropped)
    np.testing.assert_array_equal(data.close[0, 0, 6:], frame()["Close"].iloc[6:])
    if kind == "duplicate":
        assert data.require_volume("a test")[0, 0, 5] == 77
    if kind == "ohlc_order":
        assert data.high[0, 0, 5] == max(data.open[0, 0, 5], data.close[0, 0, 5])


@given(st.permutations(range(40)), st.lists(st.integers(0, 39), max_size=10))
@settings(max_examples=40, deadline=None)
def test_a_repair_of_shuffled_and_doubled_rows_gives_the_clean_rows(
    order: list[int], again: list[int]
) -> None:
    clean = frame(bars=40)
    mended = repair_rows(frame_columns(clean.iloc[[*order, *again]]))
    assert not any(rows.any() for rows in row_defects(mended).values())
    np.testing.assert_array_equal(mended.close, clean["Close"])


def test_no_volume_is_never_invented() -> None:
    data = bars_from_frame(frame().drop(columns="Volume"))
    assert data.volume is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1, 2], "is a list; give a pandas DataFrame"),
        (frame().iloc[:0], "has no rows"),
        (frame().drop(columns=["High", "Low"]), "lacks the columns high, low"),
        (frame().reset_index(drop=True), "lacks the columns timestamp"),
        (frame().assign(close=1.0), "column 'close' twice"),
        (
            frame().astype({"Open": object}).replace({"Open": {frame()["Open"].iloc[0]: "a\nb"}}),
            "'a b'",
        ),
        (long("A").assign(Symbol=None), "have no symbol"),
        (long("A").assign(Timestamp="yester\nday"), "has the time 'yester day'"),
        (long("A").assign(Timestamp="01/02/2025 09:30"), "write times as"),
        (long("A\nB").assign(Open=-1.0), "A B 20250102 09:30"),
    ],
)
def test_what_is_no_frame_of_bars_is_refused_in_one_line(source: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        bars_from_frame(source)
    assert message in one_line(error)


@pytest.mark.parametrize(
    "options",
    [{"exchange": "NYSE"}, {"bar_label": "middle"}, {"bar_minutes": 0}, {"time_zone": "Mars/Base"}],
)
def test_unknown_options_are_refused_in_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(DataError) as error:
        ReadOptions(**options)
    assert str(next(iter(options.values()))) in one_line(error)
