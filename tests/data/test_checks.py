"""Every planted fault is found, and clean bars have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from se_rl.data.checks import Finding, check_bars
from se_rl.data.market_data import DataError
from se_rl.data.readers import ReadOptions, read_bars

DAYS = (20250102, 20250103, 20250106, 20250107, 20250108, 20250110, 20250113)
"""Consecutive sessions of the exchange (closed on 9 January 2025 for a day of mourning)."""


def clean(*, amount: bool = False) -> pd.DataFrame:
    """Two symbols, seven days, every minute; a busy opening and a busier close."""
    rng = np.random.default_rng(3)
    index = pd.MultiIndex.from_product(
        [["A", "B"], DAYS, range(570, 960)], names=["symbol", "date", "minute"]
    )
    rows = index.to_frame(index=False)
    close = 100 + rng.integers(-50, 50, len(rows)) / 100
    busy = np.where(rows["minute"] == 570, 5, 1) + np.where(rows["minute"] == 959, 9, 0)
    volume = rng.integers(800, 1200, len(rows)) * busy
    rows = rows.assign(open=close, high=close + 0.5, low=close - 0.5, close=close, volume=volume)
    return rows.assign(amount=close * volume) if amount else rows


def found(rows: pd.DataFrame, folder: Path, **options: object) -> dict[str, Finding]:
    path = folder / "x.parquet"
    rows.to_parquet(path)
    findings = check_bars(path, ReadOptions(**options))  # type: ignore[arg-type]
    assert all("\n" not in f.example and f.mend and f.count > 0 for f in findings)
    assert [f.severity for f in findings] == sorted(
        (f.severity for f in findings), key="error warning info".index
    )
    refused = any(f.severity == "error" for f in findings)
    try:
        read_bars(path, ReadOptions(**options))  # type: ignore[arg-type]
    except DataError:
        assert refused
    else:
        assert not refused
    return {f.kind: f for f in findings}


def at(rows: pd.DataFrame, *, symbol: str = "A", day: int = 6, minute: int = 700) -> pd.Series:
    return (rows["symbol"] == symbol) & (rows["date"] == DAYS[day]) & (rows["minute"] == minute)


def test_clean_bars_have_no_findings(tmp_path: Path) -> None:
    assert found(clean(amount=True), tmp_path) == {}


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("nan_price", "open", np.nan),
        ("non_positive_price", "low", 0.0),
        ("ohlc_order", "high", 50.0),
        ("bad_volume", "volume", -1.0),
        ("no_time", "date", 0.0),
    ],
)
def test_row_defects_are_errors(tmp_path: Path, kind: str, column: str, value: float) -> None:
    rows = clean().astype({"volume": float, "date": float})
    rows.loc[at(rows), column] = value
    finding = found(rows, tmp_path)[kind]
    assert (finding.severity, finding.count) == ("error", 1)
    assert "A " in finding.example and "11:40" in finding.example and "--repair" in finding.mend


def test_order_and_duplicates_are_errors(tmp_path: Path) -> None:
    rows = clean()
    swapped = rows.iloc[[1, 0, *range(2, len(rows))]]
    assert found(swapped, tmp_path)["unsorted"].count == 1
    doubled = pd.concat([rows, rows.tail(1)])
    finding = found(doubled, tmp_path)["duplicate"]
    assert finding.count == 1 and f"B {DAYS[-1]} 15:59" in finding.example


def test_what_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (finding,) = check_bars(tmp_path / "none.csv")
    assert (finding.kind, finding.severity) == (
        "unreadable",
        "error",
    ) and "none.csv" in finding.example
    assert found(clean(), tmp_path, bar_minutes=5)["grid"].severity == "error"


def test_volume_faults_are_warnings(tmp_path: Path) -> None:
    rows = clean()
    assert found(rows.assign(volume=100_000), tmp_path)["constant_volume"].count == len(rows)
    assert found(rows.drop(columns="volume"), tmp_path)["no_volume"].severity == "info"
    busy = rows.copy()
    busy.loc[(busy["date"] == DAYS[6]) & (busy["symbol"] == "B"), "volume"] *= 4
    finding = found(busy, tmp_path)["day_volume"]
    assert finding.count == 1 and f"B {DAYS[6]}" in finding.example
    spiked = rows.copy()
    spiked.loc[at(spiked, day=2), "volume"] = 200_000
    finding = found(spiked, tmp_path)["bar_volume"]
    assert finding.count == 1 and f"A {DAYS[2]} 11:40" in finding.example


def test_an_amount_in_another_unit_is_a_warning(tmp_path: Path) -> None:
    rows = clean(amount=True)
    rows.loc[at(rows), "amount"] *= 1.02
    finding = found(rows, tmp_path)["amount"]
    assert finding.count == 1 and "A 20250113 11:40" in finding.example
    lots = clean(amount=True).assign(amount=lambda r: r["amount"] / 100)
    assert found(lots, tmp_path)["amount"].count == len(rows)


def test_bars_out_of_hours_are_a_warning(tmp_path: Path) -> None:
    rows = pd.concat([clean(), clean().query("minute == 959").assign(minute=1000, volume=1)])
    rows = rows.sort_values(["symbol", "date", "minute"])
    finding = found(rows, tmp_path)["out_of_hours"]
    assert finding.count == 14 and "16:40" in finding.example


@pytest.mark.parametrize(
    ("shift", "options", "where"),
    [
        (-1, {}, "opening volume sits on 09:29"),
        (1, {"bar_label": "start"}, "closing volume sits on 16:00"),
        (0, {"bar_label": "end"}, "closing volume sits on 15:59"),
        (300, {}, "moved by -300 minutes"),
        (-60, {}, "moved by +60 minutes"),
        (5, {}, "moved by -5 minutes"),
    ],
)
def test_shifted_labels_are_a_warning(
    tmp_path: Path, shift: int, options: dict[str, object], where: str
) -> None:
    rows = clean().query("symbol == 'A'")
    path = tmp_path / "x.parquet"
    rows.assign(minute=rows["minute"] + shift).to_parquet(path)
    examples = [
        f.example for f in check_bars(path, ReadOptions(**options)) if f.kind == "label_shift"
    ]  # type: ignore[arg-type]
    assert any(where in example for example in examples), examples


def test_the_usual_labels_are_no_shift(tmp_path: Path) -> None:
    end = clean().assign(minute=lambda rows: rows["minute"] + 1)
    assert found(end, tmp_path) == {}
    opening = end.query("minute == 571").assign(minute=570, volume=3000)
    both = pd.concat([opening, end]).sort_values(["symbol", "date", "minute"])
    assert found(both, tmp_path) == {}


def test_missing_minutes_and_days_and_early_closes(tmp_path: Path) -> None:
    rows = clean()
    finding = found(rows[~at(rows)], tmp_path)["missing_minutes"]
    assert (finding.severity, finding.count) == ("info", 1)
    assert (
        found(rows[np.random.default_rng(0).random(len(rows)) < 0.7], tmp_path)[
            "missing_minutes"
        ].severity
        == "warning"
    )
    assert found(rows.query("date != 20250107"), tmp_path)["missing_days"].example == "20250107"
    strange = rows.assign(date=rows["date"].replace({20250110: 20250109}))
    assert found(strange, tmp_path)["closed_days"].example == "20250109"
    short = rows.query("date != 20250103 or minute < 780")
    assert "20250103" in found(short, tmp_path)["early_close"].example
    christmas = rows.query("date < 20250104").assign(
        date=lambda r: r["date"].replace({20250102: 20241224, 20250103: 20241226})
    )
    assert "20241224" in found(christmas, tmp_path)["early_close"].example


def test_an_unadjusted_split_is_a_warning(tmp_path: Path) -> None:
    rows = clean()
    later = (rows["symbol"] == "B") & (rows["date"] >= DAYS[4])
    rows.loc[later, ["open", "high", "low", "close"]] /= 2
    finding = found(rows, tmp_path)["overnight"]
    assert finding.count == 1 and f"B {DAYS[4]}" in finding.example


def test_continuous_bars_are_checked_without_a_calendar(tmp_path: Path) -> None:
    index = pd.date_range("2024-01-01", periods=2000, freq="1min", name="timestamp")
    bars = pd.DataFrame(dict.fromkeys(("open", "high", "low", "close"), 5.0), index=index).assign(
        volume=range(2000)
    )
    assert set(found(bars.reset_index(), tmp_path)) == {"continuous"}


def test_real_files_have_no_errors_and_the_known_warnings(shared_data: Path) -> None:
    kinds = {f.kind: f for f in check_bars(shared_data / "us_minute_2026.parquet")}
    assert all(f.severity != "error" for f in kinds.values())
    assert kinds["missing_days"].count == 14 and "label_shift" not in kinds
    kinds = {f.kind: f for f in check_bars(shared_data / "cn_15min_2025.parquet")}
    assert kinds["overnight"].count == 1 and "amount" not in kinds and "missing_days" not in kinds
