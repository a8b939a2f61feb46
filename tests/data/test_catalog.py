"""Data sets by name and path: splits that never touch, names that resolve, refusals in one line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from se_rl.data.calendar import session_grid
from se_rl.data.catalog import (
    DataSet,
    import_bars,
    imported_names,
    list_datasets,
    load_dataset,
    load_train_days,
)
from se_rl.data.market_data import DataError, MarketData, Provenance, SplitDates
from se_rl.data.splits import day_number, given_split, split_dates, walk_forward
from se_rl.data.store import write_bars

SPLITS = ("train", "valid", "test")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "data"


def market(*, sessions: int = 10, name: str = "toy", **provenance: Any) -> MarketData:
    grid = session_grid("XSHG", bar_minutes=15, label="end")
    close = 10 + np.random.default_rng(0).integers(0, 99, (2, sessions, len(grid))) / 64
    prices: dict[str, Any] = dict.fromkeys(("open", "high", "low", "close"), close)
    dates = np.arange(20250101, 20250101 + sessions, dtype=np.int32)
    return MarketData(
        ("A", "B"),
        dates,
        grid,
        **prices,
        traded=np.ones(close.shape, bool),
        volume=100 * close,
        provenance=Provenance(name, **provenance),
    )


def refusal(error: pytest.ExceptionInfo[DataError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@given(st.lists(st.integers(19900101, 20301231), unique=True, max_size=400).map(sorted))
def test_splits_by_share_keep_a_session_between_them(days: list[int]) -> None:
    dates = np.array(days, dtype=np.int32)
    splits = split_dates(dates)
    used = [int(date) for split in SPLITS for date in splits[split]]
    assert used == sorted(set(used)) and set(used) <= set(days)
    parts = [np.searchsorted(dates, splits[split]) for split in SPLITS if len(splits[split])]
    for earlier, later in pairwise(parts):
        assert later[0] - earlier[-1] >= 2
        assert len(parts) < 3 or later[0] - earlier[-1] == 2
    for part in parts:
        assert np.all(np.diff(part) == 1)
    if len(days) >= 8:
        assert len(parts) == 3 and len(used) == len(days) - 2
        assert abs(len(splits["train"]) - 0.6 * len(days)) < 1 and len(splits["test"]) >= 1


README_SPLITS = {
    "us_minute_2018": (("2018-03-13", "2018-03-21"), (17, 6, 6)),
    "us_minute_2025": (("2025-02-05", "2025-02-18"), (23, 8, 8)),
    "us_minute_2015": (("2015-12-14", "2016-01-06"), (44, 14, 30)),
    "cn_15min_2025": (("2025-08-07", "2025-10-23"), (145, 49, 49)),
    "cn_5min_2018": (("2018-11-13", "2019-01-15"), (139, 43, 60)),
    "in_15min_2024": (("2024-12-20", "2025-04-07"), (240, 72, 100)),
}


@pytest.mark.parametrize("name", README_SPLITS)
def test_real_sets_are_split_by_the_dates_that_are_given(shared_data: Path, name: str) -> None:
    until, counts = README_SPLITS[name]
    dataset = load_dataset(str(shared_data / f"{name}.parquet"), split=given_split(*until))
    assert tuple(len(dataset.dates(split)) for split in SPLITS) == counts
    every = np.concatenate([dataset.dates(split) for split in SPLITS])
    assert every.tolist() == dataset.data.dates.tolist()
    assert dataset.dates("train")[-1] == day_number(until[0])


def test_a_file_s_name_says_nothing_about_its_split(tmp_path: Path) -> None:
    for name in ("us_minute_2018", "mine"):
        write_bars(market(), tmp_path / f"{name}.parquet")
    one, two = (load_dataset(str(tmp_path / f"{n}.parquet")) for n in ("us_minute_2018", "mine"))
    for split in SPLITS:
        assert one.dates(split).tolist() == two.dates(split).tolist()


def test_an_imported_set_carries_its_split(home: Path) -> None:
    split = SplitDates(20250103, 20250106)
    import_bars(market(split=split), "mine")
    dataset = load_dataset("mine")
    assert dataset.data.provenance.split == split
    assert [len(dataset.dates(name)) for name in SPLITS] == [3, 3, 4]
    other = load_dataset("mine", split=SplitDates(20250101, 20250102))
    assert [len(other.dates(name)) for name in SPLITS] == [1, 1, 8]


def test_closed_test_days_are_counted_and_not_there(home: Path) -> None:
    import_bars(market(), "mine")
    whole, closed = load_dataset("mine"), load_dataset("mine", with_test=False)
    for split in SPLITS:
        assert closed.dates(split).tolist() == whole.dates(split).tolist()
    assert not np.isin(closed.data.dates, whole.dates("test")).any()
    with pytest.raises(DataError, match="the test days of mine are closed") as error:
        closed.split("test")
    refusal(error)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("2025-01-01", None), "--train-until is given without --valid-until"),
        ((None, "2025-01-01"), "--valid-until is given without --train-until"),
        (("2025-02-01", "2025-01-01"), "valid days end on 20250101, before train days do"),
        (("1.2.2025", "2025-01-01"), "date '1.2.2025' cannot be read; write it as YYYY-MM-DD"),
    ],
)
def test_impossible_split_dates_are_refused_in_one_line(
    given: tuple[str | None, str | None], words: str
) -> None:
    with pytest.raises(DataError, match=words) as error:
        given_split(*given)
    refusal(error)


def test_sets_to_fit_on_name_their_last_day(home: Path) -> None:
    import_bars(market(), "mine")
    assert load_train_days("mine@2025-01-04").dates("train")[-1] == 20250104
    assert not load_train_days("mine@2025-01-04").has("valid")
    for spec, words in (("mine", "SET@YYYY-MM-DD"), ("mine@2024-01-01", "no day until")):
        with pytest.raises(DataError, match=words) as error:
            load_train_days(spec)
        refusal(error)


@given(st.integers(2, 200), st.integers(1, 8))
def test_a_walk_forward_tests_every_later_day_once_and_fits_on_the_past_alone(
    sessions: int, blocks: int
) -> None:
    dates = np.arange(20250101, 20250101 + sessions, dtype=np.int32)
    train = len(split_dates(dates)["train"])
    if sessions - train - 1 < 2 * blocks or not train:
        with pytest.raises(DataError, match="give fewer blocks"):
            walk_forward(dates, blocks)
        return
    folds = walk_forward(dates, blocks)
    tested = np.concatenate([fold.block for fold in folds])
    assert tested.tolist() == dates[train + 1 :].tolist() and len(folds) == blocks
    for fold in folds:
        assert fold.past[0] == dates[0] and fold.past[-1] + 2 == fold.block[0]
        assert len(fold.block) >= 2


@pytest.mark.parametrize(("name", "exchange"), [("csi100", "XSHG"), ("nasdaq100", "XNYS")])
def test_a_universe_is_synthetic_until_one_is_imported(
    home: Path, name: str, exchange: str
) -> None:
    made = load_dataset(name)
    assert made.path is None and made.name == name and made.data.grid.exchange == exchange
    assert made.data.provenance.synthetic and "SYNTHETIC" in made.data.provenance.label
    assert {"name": name, "kind": "SYNTHETIC", "path": "made when used"} in list_datasets()
    import_bars(market(), name)
    real = load_dataset(name)
    assert (
        real.path == home / f"{name}.parquet"
        and real.name == name
        and real.data.shape == (2, 10, 16)
    )
    assert not real.data.provenance.synthetic and imported_names() == [name]
    assert [row["kind"] for row in list_datasets() if row["name"] == name] == ["imported"]


def test_imported_synthetic_bars_stay_synthetic(home: Path) -> None:
    import_bars(market(synthetic=True), "mine")
    assert load_dataset("mine").data.provenance.synthetic


def test_an_import_comes_back_with_its_notes(home: Path) -> None:
    source = market(adjusted=True, notes=("1 bars dropped",))
    summary = import_bars(source, "mine", notes=("fetched",))
    assert summary == {
        "name": "mine",
        "path": str(home / "mine.parquet"),
        "symbols": 2,
        "sessions": 10,
        "bars": 320,
        "notes": ["1 bars dropped", "fetched"],
    }
    data = load_dataset("mine").data
    assert data.provenance.name == "mine" and data.provenance.notes == ("1 bars dropped", "fetched")
    assert data.provenance.adjusted is True and data.grid == source.grid
    np.testing.assert_array_equal(data.close, source.close)
    np.testing.assert_array_equal(data.require_volume("a test"), source.require_volume("a test"))


@pytest.mark.parametrize("name", ["", "a b", "../x", "2025", "csi100-fair"])
def test_a_name_that_is_no_word_is_refused_in_one_line(home: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be a set's name") as error:
        import_bars(market(), name)
    refusal(error)
    assert not home.exists()


def test_unknown_names_and_paths_are_refused_in_one_line(home: Path, tmp_path: Path) -> None:
    import_bars(market(), "mine")
    with pytest.raises(DataError, match="data 'csi300' is neither a file nor a known set") as error:
        load_dataset("csi300")
    assert "csi100" in refusal(error) and "mine" in refusal(error)
    with pytest.raises(DataError, match=r"none\.csv cannot be read") as error:
        load_dataset(str(tmp_path / "none.csv"))
    refusal(error)


def test_unknown_and_empty_splits_are_refused_in_one_line() -> None:
    dataset = DataSet(market(sessions=1))
    with pytest.raises(
        DataError, match="split 'dev' is unknown; use one of all, train, valid, test"
    ) as error:
        dataset.dates("dev")
    refusal(error)
    for split in SPLITS:
        assert not dataset.has(split)
        with pytest.raises(
            DataError, match=rf"split '{split}' of toy is empty \(1 sessions in all\)"
        ) as error:
            dataset.split(split)
        refusal(error)
    assert dataset.has("all") and dataset.split("all").shape == (2, 1, 16)


@pytest.mark.parametrize(
    ("name", "shape", "has"),
    [
        (
            "lobster_AMZN_20120621_L5_messages",
            (1, 1, 390),
            {"volume", "amount", "bid", "ask_sizes"},
        ),
        ("lean_IBM_trades_20131007_10", (1, 4, 390), {"volume", "amount", "bid", "ask_sizes"}),
        ("nasdaq100_padding_first4517", (82, 11, 390), set()),
    ],
)
def test_books_ticks_and_wide_prices_load_and_import_like_bars(
    shared_data: Path, home: Path, name: str, shape: tuple[int, ...], has: set[str]
) -> None:
    dataset = load_dataset(str(shared_data / f"{name}.parquet"))
    data = dataset.data
    assert data.shape == shape and dataset.path == shared_data / f"{name}.parquet"
    assert {
        field
        for field in ("volume", "amount", "bid", "ask_sizes")
        if getattr(data, field) is not None
    } == has
    summary = import_bars(data, "mine")
    again = load_dataset("mine").data
    assert again.shape == shape and list(again.provenance.notes) == summary["notes"]
    np.testing.assert_array_equal(again.price, data.price)


def test_messages_without_their_book_are_refused_in_one_line(shared_data: Path) -> None:
    with pytest.raises(DataError, match="has no book file beside it") as error:
        load_dataset(str(shared_data / "lobster_AAPL_20120621_0930_1030_L50_messages.parquet"))
    refusal(error)
