"""What is written is what is read back: numbers, grid, notes and what the source said of its prices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from se_rl.data.calendar import SessionGrid, session_grid
from se_rl.data.market_data import DataError, MarketData, Provenance
from se_rl.data.readers import ReadOptions, read_bars
from se_rl.data.store import told_by, write_bars

GRIDS = {
    "US": session_grid("XNYS"),
    "US end": session_grid("XNYS", label="end"),
    "US opening print": session_grid("XNYS", label="open+end"),
    "US first 120 minutes": replace(session_grid("XNYS"), minutes=tuple(range(570, 690))),
    "China": session_grid("XSHG"),
    "China 5 minutes": session_grid("XSHG", bar_minutes=5, label="end"),
}
ARRAYS = (
    "dates",
    "open",
    "high",
    "low",
    "close",
    "traded",
    "volume",
    "amount",
    "bid",
    "ask",
    "bid_sizes",
    "ask_sizes",
)


def market(
    grid: SessionGrid, *, seed: int, printed: float, extras: frozenset[str], **provenance: Any
) -> MarketData:
    """Bars as a reader gives them: unprinted ones flat, quotes carried; each symbol and date has a session."""
    rng = np.random.default_rng(seed)
    shape = (2, 3, len(grid))
    traded = rng.random(shape) < printed
    traded[0, :, rng.integers(len(grid))] = traded[1, 0, rng.integers(len(grid))] = True
    first, newest = traded.argmax(axis=2)[..., None], np.where(traded, np.arange(len(grid)), -1)
    newest = np.maximum.accumulate(newest, axis=2)

    def carried(values: Any, before: Any) -> Any:
        return np.where(
            newest >= 0, np.take_along_axis(values, np.maximum(newest, 0), axis=2), before
        )

    opens, closes = rng.integers(100, 9999, (2, *shape)) / 64
    flat = np.where(
        traded.any(axis=2, keepdims=True),
        carried(closes, np.take_along_axis(opens, first, axis=2)),
        np.nan,
    )
    bars: dict[str, Any] = {
        "open": np.where(traded, opens, flat),
        "high": np.where(traded, np.maximum(opens, closes) + 1, flat),
        "low": np.where(traded, np.minimum(opens, closes) / 3, flat),  # needs every digit
        "close": flat,
    }
    if "volume" in extras:
        bars["volume"] = np.where(traded, rng.integers(0, 999, shape), 0.0)
        bars["amount"] = bars["volume"] * closes / 7
    if "quotes" in extras:
        bid = rng.integers(100, 999, shape) / 3
        bid[0, 1] = np.nan  # a session without any quote
        bars |= {"bid": carried(bid, np.nan), "ask": carried(bid + 0.01, np.nan)}
        sizes = np.where(np.isnan(bid), 0, rng.integers(1, 99, shape))
        bars |= {
            f"{side}_sizes": carried(sizes, 0.0)[..., None].astype(float) for side in ("bid", "ask")
        }
    dates = np.array([20250102, 20250103, 20250106], np.int32)
    return MarketData(
        ("000001", "B"),
        dates,
        grid,
        traded=traded,
        **bars,
        provenance=Provenance("mine", **provenance),
    )


def assert_same(left: MarketData, right: MarketData) -> None:
    assert (left.symbols, left.grid) == (right.symbols, right.grid)
    for name in ARRAYS:
        a, b = getattr(left, name), getattr(right, name)
        assert (a is None) == (b is None), name
        np.testing.assert_array_equal(a, b, err_msg=name)
    for name in ("notes", "adjusted", "synthetic"):
        assert getattr(left.provenance, name) == getattr(right.provenance, name)


@given(
    kind=st.sampled_from(sorted(GRIDS)),
    seed=st.integers(0, 2**32),
    printed=st.sampled_from([0.005, 0.5, 1.0]),
    extras=st.frozensets(st.sampled_from(["volume", "quotes"])),
    adjusted=st.sampled_from([None, True, False]),
    synthetic=st.booleans(),
    notes=st.lists(st.sampled_from(["3 bars dropped", 'a "quoted" note', "複権"]), max_size=2).map(
        tuple
    ),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_bars_come_back_as_they_were_written(
    tmp_path: Path, kind: str, seed: int, printed: float, extras: frozenset[str], **provenance: Any
) -> None:
    data = market(GRIDS[kind], seed=seed, printed=printed, extras=extras, **provenance)
    assert write_bars(data, tmp_path / "mine.parquet") == provenance["notes"]
    assert_same(read_bars(tmp_path / "mine.parquet"), data)


def full_market(**provenance: Any) -> MarketData:
    return market(
        GRIDS["US"], seed=0, printed=0.9, extras=frozenset({"volume", "quotes"}), **provenance
    )


def test_an_import_twice_over_changes_nothing(tmp_path: Path) -> None:
    data = full_market(notes=("first",))
    write_bars(data, tmp_path / "a.parquet", notes=("second",))
    once = read_bars(tmp_path / "a.parquet")
    assert once.provenance.notes == ("first", "second")
    write_bars(once, tmp_path / "b.parquet")
    assert_same(read_bars(tmp_path / "b.parquet"), once)


def test_the_user_s_word_overrules_the_file(tmp_path: Path) -> None:
    write_bars(full_market(adjusted=True), tmp_path / "a.parquet")
    assert (
        read_bars(tmp_path / "a.parquet", ReadOptions(adjusted=False)).provenance.adjusted is False
    )
    assert (
        read_bars(tmp_path / "a.parquet", ReadOptions(bar_label="open+end")).grid.label
        == "open+end"
    )


def test_what_rows_cannot_hold_is_noted(tmp_path: Path) -> None:
    data = full_market()
    assert data.bid is not None and data.bid_sizes is not None and data.ask_sizes is not None
    deep: dict[str, Any] = {
        name: np.repeat(getattr(data, name), 5, axis=-1) for name in ("bid_sizes", "ask_sizes")
    }
    silent = tuple(np.argwhere(~data.traded & np.isfinite(data.bid))[0])
    bid = data.bid.copy()
    bid[silent] -= 1
    notes = write_bars(replace(data, bid=bid, **deep), tmp_path / "a.parquet")
    assert notes == (
        "of 5 levels of the book only the best is stored",
        "1 quotes of bars without a print are not stored",
    )
    assert_same(
        read_bars(tmp_path / "a.parquet"), replace(data, provenance=Provenance("mine", notes=notes))
    )


def test_bars_without_hours_are_refused_in_one_line(tmp_path: Path) -> None:
    data = full_market()
    with pytest.raises(DataError, match="mine fits no exchange's hours") as error:
        write_bars(
            replace(data, grid=replace(data.grid, exchange="continuous")), tmp_path / "a.parquet"
        )
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bars(full_market(), tmp_path / "a.parquet")
    before = (tmp_path / "a.parquet").read_bytes()

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_bars(full_market(notes=("new",)), tmp_path / "a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    assert (tmp_path / "a.parquet").read_bytes() == before


def test_flat_filler_is_not_written(tmp_path: Path) -> None:
    data = full_market()
    write_bars(data, tmp_path / "a.parquet")
    assert (
        pq.read_table(tmp_path / "a.parquet").num_rows == int(data.traded.sum()) < data.traded.size
    )


@pytest.mark.parametrize(
    ("meta", "want"),
    [
        ({}, {"bar_label": None, "grid": None, "adjusted": None, "synthetic": False, "notes": ()}),
        (
            {"adjust": "none (VWAP check)", "bar_label": "end of bar"},
            {"adjusted": False, "bar_label": "end"},
        ),
        ({"adjust": "qfq", "bar_label": "whatever"}, {"adjusted": None, "bar_label": None}),
        ({"notes": "taken on\nMonday"}, {"notes": ("taken on Monday",)}),
        ({"notes": '["a", "b"]'}, {"notes": ("a", "b")}),
        ({"notes": "7"}, {"notes": ("7",)}),
    ],
)
def test_the_words_of_other_files_are_taken_as_they_are_meant(
    meta: dict[str, str], want: dict[str, Any]
) -> None:
    told = told_by(meta, "x.parquet")
    assert {name: told[name] for name in want} == want


@pytest.mark.parametrize(
    "text",
    [
        "XNYS",
        "{}",
        '{"exchange": "XLON", "bar_minutes": 1, "label": "start", "minutes": [570]}',
        '{"exchange": "XNYS", "bar_minutes": 0, "label": "start", "minutes": [570]}',
        '{"exchange": "XNYS", "bar_minutes": 1, "label": "middle", "minutes": [570]}',
        '{"exchange": "XNYS", "bar_minutes": 1, "label": "start", "minutes": []}',
        '{"exchange": "XNYS", "bar_minutes": 1, "label": "start", "minutes": [571, 570]}',
        '{"exchange": "XNYS", "bar_minutes": 1, "label": "start", "minutes": [570, 1441]}',
        '{"exchange": "XNYS", "bar_minutes": 1, "label": "start", "minutes": 570}',
    ],
)
def test_a_stated_grid_that_cannot_be_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(
        DataError, match=r"x\.parquet states the session grid .* import its source again"
    ) as error:
        told_by({"se_rl_grid": text}, "x.parquet")
    assert "\n" not in str(error.value)
