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
    KNOWN_SETS,
    DataSet,
    import_bars,
    imported_names,
    list_datasets,
    load_dataset,
    split_dates,
)
from se_rl.data.market_data import DataError, MarketData, Provenance

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


@pytest.mark.parametrize(
    ("name", "counts", "edges"),
    [
        ("us_minute_2018", (17, 6, 6), {"train": (0, 20180313), "valid": (20180314, 20180321)}),
        ("us_minute_2025", (23, 8, 8), {"train": (0, 20250205), "valid": (20250206, 20250218)}),
        ("us_minute_2022", (0, 0, 5), {"test": (20220208, 20220214)}),
        ("us_minute_2026", (0, 0, 12), {"test": (20260309, 20260414)}),
        (
            "cn_15min_2025",
            (None, None, 49),
            {"train": (0, 20250807), "valid": (20250808, 20251023)},
        ),
    ],
)
def test_the_known_sets_are_split_as_their_description_says(
    shared_data: Path, name: str, counts: tuple[int | None, ...], edges: dict[str, tuple[int, int]]
) -> None:
    dataset = load_dataset(str(shared_data / f"{name}.parquet"))
    splits = split_dates(dataset.data.dates, KNOWN_SETS[name])
    for split, count in zip(SPLITS, counts, strict=True):
        assert count is None or len(splits[split]) == count
        assert dataset.has(split) == bool(len(splits[split]))
    for split, (first, last) in edges.items():
        assert first <= splits[split][0] and splits[split][-1] == last
    assert (
        np.concatenate([splits[split] for split in SPLITS]).tolist() == dataset.data.dates.tolist()
    )
    assert dataset.split("test").dates.tolist() == splits["test"].tolist()


def test_models_for_a_known_set_are_fitted_on_the_known_sets_beside_it(shared_data: Path) -> None:
    names = {
        "us_minute_2022": ["us_minute_2018", "us_minute_2025"],
        "cn_15min_2025": ["cn_15min_2025"],
    }
    for name, fitted_on in names.items():
        dataset = load_dataset(str(shared_data / f"{name}.parquet"))
        assert [companion.name for companion in dataset.companions()] == fitted_on
        assert (dataset in dataset.companions()) == (name in fitted_on)


def test_other_sets_are_fitted_on_themselves_where_they_have_train_days() -> None:
    dataset = DataSet(market())
    assert dataset.companions() == [dataset]
    assert DataSet(market(sessions=1)).companions() == []


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
    with pytest.raises(DataError, match="split 'train' of us_minute_2026 is empty"):
        DataSet(market(name="us_minute_2026")).dates("train")


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
