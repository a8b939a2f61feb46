"""The table of the rivals: jobs on history and in cells, lines that are not done again, figures."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from se_rl.baselines import registry
from se_rl.data.market_data import SplitDates
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.modules.edits import single_edits
from se_rl.modules.kinds import KINDS
from se_rl.scoring.execution import ConstantSchedule
from se_rl_benchmarks import defaults, rivals
from se_rl_benchmarks.champion_rival import read_champions, respelled
from se_rl_benchmarks.defaults import Job
from se_rl_benchmarks.rivals import CELLS, GROUPS, all_jobs, outcome, read_kept
from se_rl_benchmarks.rivals_page import RivalGains, finished, page
from se_rl_benchmarks.search_results import Champion

NAME = "in_15min_2024"
CELL = next(iter(CELLS))
OPTIONS = Namespace(seeds=2, budget=0.02, split="valid")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    made = synthetic_market(
        SyntheticConfig(exchange="XSHG", bar_minutes=15, symbols=8, sessions=16)
    )
    split = SplitDates(int(made.dates[6]), int(made.dates[11]))
    bars = replace(made, provenance=replace(made.provenance, split=split))
    monkeypatch.setitem(defaults.SETS, NAME, bars)
    monkeypatch.setattr(rivals, "TEST_BOOKS", 6)
    monkeypatch.setattr(rivals, "TRAIN_BOOKS", 300)
    monkeypatch.setattr(rivals, "best_constant", lambda *_: ConstantSchedule(1.0, 0.0))
    monkeypatch.setattr("se_rl_benchmarks.ceiling_cells.HORIZON", 5)
    rivals._cell.cache_clear()


def test_every_method_has_every_seed_and_a_plan_has_one() -> None:
    jobs = list(all_jobs((NAME, CELL), OPTIONS))
    names = [rival.name for rival in registry.LEARNED]
    on_history = [job for job in jobs if job.name == NAME]
    assert [job.method for job in on_history if job.seed == 1] == names
    planned = ["TWAP", "VWAP", "Almgren-Chriss", "XS ridge"]
    assert [job.method for job in on_history if job.seed == 0] == [*planned, *names]
    assert len(set(jobs)) == len(jobs) == (4 + 3) + 2 * 2 * len(names)


def test_jobs_give_gains_and_their_lines_are_not_done_again(tmp_path: Path) -> None:
    jobs = [
        job
        for job in all_jobs((NAME, CELL), replace_seeds(1))
        if job.method in ("TWAP", "VWAP", "Almgren-Chriss", "best constant", "DDQN")
    ]
    keep = tmp_path / "rivals.jsonl"
    with keep.open("w") as file:
        for job in jobs:
            file.write(json.dumps(outcome(job)) + "\n")
    done = read_kept(keep)
    assert set(done) == set(jobs)
    assert Job(NAME, -1, "DDQN", 0, 0.03, "valid", 0) not in done  # another budget is another job
    for job, row in done.items():
        # on history a plan that is the same for both sides earns what TWAP earns
        even = job.method == "TWAP" or (job.name == NAME and job.method != "DDQN")
        assert even == (np.abs(row["whole"]).max() < 1e-9)
        assert (row["seconds"] > 0) == (job.method == "DDQN")
        assert len(row["dates"]) == (5 if job.name == NAME else 6)
    facts = {"split": "valid", "seeds": 1, "jobs": "all"}
    made = finished(list(done.values()), GROUPS, facts=facts)
    cell = made["sets"][CELL]["methods"]
    assert cell["DDQN"]["score"] == pytest.approx(cell["DDQN"]["mean"])  # no price of risk there
    text = page(made, GROUPS)
    names = len(rivals.SETS[NAME].symbols)
    assert f"## {NAME} (5 days of {names} names, SPA p" in text and f"## {CELL} (6 books" in text
    assert "| DDQN | 1 |" in text
    assert f"{rivals.maker()} ({len(jobs)})" in text


def replace_seeds(seeds: int) -> Namespace:
    return Namespace(**(vars(OPTIONS) | {"seeds": seeds}))


def test_seeds_spread_into_the_row() -> None:
    rows = []
    for seed in (0, 1):
        whole = [1.0 + seed, 2.0 + seed, 4.0 + seed]
        rows.append(
            RivalGains(
                set=CELL,
                fold=-1,
                method="OPD",
                seed=seed,
                dates=[0, 1, 2],
                specific=whole,
                whole=whole,
                seconds=2.0 + seed,
                budget=1.0,
                split="test",
            )
        )
    facts = {"split": "test", "seeds": 2, "jobs": "2 of 2"}
    made = finished(rows, GROUPS, facts=facts)
    text = page(made, GROUPS)
    assert "| OPD | **+2.83** ± " in text and "| +2.33 to +3.33 | 2.5 |" in text
    row = made["sets"][CELL]["methods"]["OPD"]
    assert row["by_seed"] == pytest.approx([7 / 3, 10 / 3]) and row["cpu_seconds"] == 2.5
    assert row["mean"] == pytest.approx(17 / 6) and row["trainings"] == 2


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """The champions of two searches: one edited the network, one imagines."""
    rng = np.random.default_rng(0)
    network = single_edits(KINDS["network"].default_source, "network", rng)[0]
    designs = [{"network": network}, {"imagination": KINDS["imagination"].random_source(rng)}]
    place = tmp_path / "champions.jsonl"
    with place.open("w") as file:
        for seed, sources in enumerate(designs):
            one = Champion("nasdaq100", "tiny", "full", seed, f"design {seed}", sources)
            file.write(json.dumps(asdict(one)) + "\n")
    return place


def test_champions_are_one_more_row(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    champions = read_champions(found, found_on="nasdaq100", arm="full")
    assert [list(sources) for sources in champions.sources.values()] == [
        ["network"],
        ["imagination"],
    ]
    plain = champions.without("network")
    assert [list(sources) for sources in plain.sources.values()] == [[], ["imagination"]]
    assert plain.name == "champion, default network" != champions.name
    monkeypatch.setitem(rivals.LEARNED, champions.name, champions)
    jobs = [job for job in all_jobs((NAME,), replace_seeds(3)) if job.method == champions.name]
    assert [job.seed for job in jobs] == [0, 1, 2]
    for job in jobs:
        strong = outcome(replace(job, method="PPO strong"))["whole"]
        assert (outcome(job)["whole"] == strong) == (job.seed == 2)  # that search found nothing


def test_a_file_without_champions_and_free_python_are_refused(found: Path) -> None:
    with pytest.raises(SystemExit, match="has no champion of arm local on csi100"):
        read_champions(found, found_on="csi100", arm="local")
    with pytest.raises(SystemExit, match="this champion's reward is free Python"):
        respelled({"reward": "def reward(step):\n    return step.news\n"})
