"""The table of the defaults: packed bars come back, and its figures are those of their formulas."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from se_rl.data.market_data import MarketData, SplitDates
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl_benchmarks import defaults
from se_rl_benchmarks.defaults import SPLIT, Job, days_of, gains
from se_rl_benchmarks.defaults_page import DayGains, finished, page
from se_rl_benchmarks.packed_sets import read_packed, write_packed
from se_rl_benchmarks.real_sets import REAL_SETS

NAME = "in_15min_2024"


@pytest.fixture(scope="module")
def bars() -> MarketData:
    made = synthetic_market(
        SyntheticConfig(exchange="XSHG", bar_minutes=15, symbols=8, sessions=16)
    )
    ticks = {name: np.round(getattr(made, name), 2) for name in ("open", "high", "low", "close")}
    split = SplitDates(int(made.dates[6]), int(made.dates[11]))
    provenance = replace(made.provenance, split=split)
    return replace(
        made, **ticks, bid=None, ask=None, bid_sizes=None, ask_sizes=None, provenance=provenance
    )


def test_packed_bars_come_back(bars: MarketData, tmp_path: Path) -> None:
    traded = bars.traded.copy()
    traded[1, 3] = False  # a symbol that did not trade that day
    gone = np.where(traded.any(axis=2)[..., None], 1.0, np.nan)
    prices = {name: getattr(bars, name) * gone for name in ("open", "high", "low", "close")}
    source = replace(bars, traded=traded, **prices)
    write_packed(tmp_path / "sets.npz", {"one": source, "two": bars})
    found = read_packed(tmp_path / "sets.npz")
    for name, data in (("one", source), ("two", bars)):
        for field in ("open", "high", "low", "close"):
            np.testing.assert_allclose(
                getattr(found[name], field), getattr(data, field), rtol=0, atol=1e-9
            )
        assert np.array_equal(found[name].traded, data.traded)
        live = data.traded
        volume, told = found[name].volume, data.volume
        assert volume is not None and told is not None
        np.testing.assert_allclose(volume[live], told[live], rtol=0.023)
        np.testing.assert_allclose(found[name].price[live], data.price[live], atol=6e-5)
        assert found[name].provenance.split == data.provenance.split
        assert found[name].grid == data.grid and found[name].symbols == data.symbols


def job(method: str, *, fold: int = SPLIT, split: str = "valid") -> Job:
    return Job(NAME, fold, method, 0, budget=0.02, split=split, blocks=2)


def test_no_job_of_valid_days_sees_a_test_day(
    bars: MarketData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(defaults.SETS, NAME, bars)
    last = int(bars.dates[11])
    for fold in (SPLIT, 0, 1):
        past, days = days_of(job("TWAP", fold=fold))
        assert max(past[-1], days[-1]) <= last and past[-1] < days[0]
        past, days = days_of(job("TWAP", fold=fold, split="test"))
        assert past[-1] < days[0]


@pytest.mark.parametrize(
    "method", ["TWAP", "XS ridge", "new default", "old default", "tracking penalty 0.2"]
)
def test_a_job_gives_gains_by_day(
    bars: MarketData, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setitem(defaults.SETS, NAME, bars)
    found = gains(job(method))
    assert found["dates"] == bars.dates[7:12].tolist()
    assert len(found["specific"]) == len(found["whole"]) == 5
    assert (method == "TWAP") == (np.abs(found["whole"]).max() < 1e-9)


def test_the_figures_are_those_of_their_formulas() -> None:
    rng = np.random.default_rng(0)
    specific, whole = rng.normal(1.0, 1.0, 30), rng.normal(1.0, 5.0, 30)
    dates = list(range(20250101, 20250131))
    row = DayGains(
        set=NAME,
        fold=SPLIT,
        method="XS ridge",
        seed=0,
        dates=dates,
        specific=specific.tolist(),
        whole=whole.tolist(),
    )
    facts = {"split": "valid", "budget": 1.0, "seeds": 1, "blocks": 0, "jobs": "1 of 1"}
    table = finished([row], {NAME: REAL_SETS[NAME].market}, {**facts, "names": {NAME: 8}})
    found = table["sets"][NAME]
    assert found["days"] == 30
    ridge = found["XS ridge"]
    assert ridge["mean"] == pytest.approx(whole.mean())
    assert ridge["tracking_error"] == pytest.approx(whole.std(ddof=1))
    assert ridge["score"] == pytest.approx(specific.mean() - 0.01 * whole.var(ddof=1))
    assert "30 days, 8 names" in page(table)


def made_slowly(job: Job) -> DayGains:
    """A job that only the first seed ends in time."""
    time.sleep(60.0 * job.seed)
    gain = [0.0]
    return DayGains(
        set=NAME, fold=SPLIT, method="x", seed=job.seed, dates=[1], specific=gain, whole=gain
    )


def test_the_clock_ends_a_table_in_peace(tmp_path: Path) -> None:
    jobs = [Job(NAME, SPLIT, "x", seed, 1.0, "valid", 0) for seed in (0, 1)]
    keep = tmp_path / "kept.jsonl"

    found = defaults.run(jobs, keep, workers=2, until=time.monotonic() + 2.0, outcome=made_slowly)

    assert [one["seed"] for one in found] == [0]
    assert len(keep.read_text().splitlines()) == 1
