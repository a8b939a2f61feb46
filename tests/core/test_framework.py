"""The seeds' face of a run: settings, the folder that they name, and a whole run that a language model designs in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_run import DATA, SMALL, make_data, make_model

from se_rl import BaselinesConfig, StaticWorld, load_dataset, run_baselines
from se_rl.config import ConfigError
from se_rl.core.framework import FEWEST, SERLConfig, SERLFramework, default_folder
from se_rl.data.cache import cache_folder
from se_rl.records.gains import Gain
from se_rl.records.method_rows import MethodRow
from se_rl.records.results import ACCEPTED, OURS, FinalMetrics, RunResults
from se_rl.records.settings import RunConfig, preset
from se_rl.sandbox.lockdown import isolation_level

REAL_SMOLLM2 = (
    cache_folder() / "models" / "smollm2"
)  # the user's own, asked for before tests get a private cache
SMALLER = {name: SMALL[name] for name in ("horizons", "samples")} | {
    "seeds": (1, 1, 1),
    "parents": 1,
    "promoted": 1,
    "finalists": 1,
    "work": SMALL["work"],
    "worlds": "static",
    "scan": False,  # one iteration, in which the model is asked
}


def test_settings_of_the_seeds_become_those_of_a_run() -> None:
    config = SERLConfig(
        dataset="csi100",
        llm_model_name="some/model",
        max_outer_iterations=7,
        max_inner_iterations=80,
        seed=3,
        convergence_epsilon=0.2,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.9,
        clip_epsilon=0.1,
        static_env_weight=0.7,
        dynamic_env_weight=0.3,
        lora_rank=4,
        lora_alpha=8,
    )
    assert config.run == preset(
        "quick",
        data="csi100",
        llm="some/model",
        iterations=7,
        work=10.0,
        seed=3,
        epsilon=0.2,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.9,
        clip=0.1,
        initial_alpha=0.7,
        lora_rank=4,
        lora_alpha=8,
    )


def test_without_a_model_the_embedded_one_designs() -> None:
    assert SERLFramework().config == SERLConfig().run and SERLConfig().run.llm == "smollm2"


def test_short_trainings_are_scored_on_few_simulated_orders() -> None:
    quick = preset("quick")
    updates = round(8 * quick.work)
    first, half, whole, long = (
        SERLConfig(max_inner_iterations=n).run for n in (1, updates // 2, updates + 1, 9 * updates)
    )
    assert (
        first.work == 1 / 8 and FEWEST <= first.bank < half.bank and first.episodes == (FEWEST,) * 3
    )
    assert half.work == updates // 2 / 8 and half.bank == pytest.approx(quick.bank / 2, rel=0.05)
    assert half.episodes == pytest.approx([n / 2 for n in quick.episodes], rel=0.05)
    assert all((run.bank, run.episodes) == (quick.bank, quick.episodes) for run in (whole, long))


@pytest.mark.parametrize("static", [0.6, -0.5, float("nan")])
def test_weights_of_the_worlds_sum_to_one(static: float) -> None:
    with pytest.raises(
        ConfigError, match=f"static_env_weight and dynamic_env_weight are {static} and 0.5; use two"
    ):
        SERLConfig(static_env_weight=static)
    with pytest.raises(ConfigError, match=r"are -0\.5 and 1\.5; use two"):
        SERLConfig(static_env_weight=-0.5, dynamic_env_weight=1.5)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("max_inner_iterations", 0, "work is 0.0; use a positive number"),
        ("max_outer_iterations", 0, "iterations is 0; use"),
        ("gamma", 1.5, "gamma is 1.5; use"),
        ("lora_rank", 0, "lora_rank is 0; use"),
        ("seed", -1, "seed is -1; use"),
    ],
)
def test_bad_settings_are_one_line_when_the_framework_is_made(
    setting: str, value: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as told:
        SERLFramework(SERLConfig(**{setting: value}))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_and_results_are_a_record(
    quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gain = Gain(1.5, 0.2, (1.1, 1.9))
    rows = {"TWAP": MethodRow(PA=0.1), OURS: MethodRow(PA=2.0, PA_std=30.0, over_TWAP=gain)}
    found = RunResults(final_metrics=FinalMetrics(PA=2.0), baselines=rows, verdict="Shown")

    def run_search(config: RunConfig, out: Path, *, tell: Any, say: Any, left: Any) -> RunResults:
        say("training")
        tell("run_started", {"data": {"name": config.data}, "llm": config.designer, "seed": 0})
        left(60.0)
        return found

    monkeypatch.setattr("se_rl.core.run.run_search", run_search)
    results = SERLFramework(RunConfig(arm="random"), out=tmp_path / "x").run_training(quiet=quiet)
    told = capsys.readouterr().err
    assert ("... training" in told and "run: nasdaq100, no model, seed 0" in told) != quiet
    assert results.verdict == results["verdict"] == "Shown"
    assert results["final_metrics"]["PA"] == 2.0 and results["final_metrics"]["WR"] is None
    with pytest.raises(KeyError):
        results["nothing"]
    frame = results.to_frame()
    assert list(frame.index) == ["TWAP", OURS] and frame.loc[OURS, "PA_std"] == 30.0
    assert frame.loc[OURS, ["over_TWAP", "over_TWAP_low", "over_TWAP_high"]].tolist() == [
        1.5,
        1.1,
        1.9,
    ]
    assert list(RunResults().to_frame().columns) == list(frame.columns)


def test_frames_are_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "cache"))
    times = [
        pd.Timestamp(f"2024-03-{day:02d} 09:30") + pd.Timedelta(minutes=bar)
        for day in (4, 5, 6, 7, 8)
        for bar in range(390)
    ]
    close = 50.0 + np.arange(len(times)) % 7
    bars = pd.DataFrame(dict.fromkeys(("open", "high", "low", "close"), close), index=times)
    bars["volume"] = 100.0
    name = SERLConfig(dataset=bars).run.data
    assert name == SERLConfig(dataset=bars.copy()).run.data != SERLConfig(dataset=bars + 1).run.data
    assert len(list((tmp_path / "data" / "frames").iterdir())) == 2
    data = load_dataset(name).data
    assert np.array_equal(data.close[0].ravel(), close) and data.dates[0] == 20240304
    orders = StaticWorld(bars, horizon=10).draw(np.random.default_rng(0), 4).orders
    assert len(orders) == 4
    config = BaselinesConfig(split="all", horizon="session")
    assert run_baselines(config, data=bars)["orders"] == 2 * 5


def test_other_settings_have_another_folder() -> None:
    configs = [
        RunConfig(),
        RunConfig(seed=1),
        RunConfig(hle=False, lle=False),
        RunConfig(arm="random"),
        RunConfig(work=1.0),
        RunConfig(arm="random", worlds="static"),
        RunConfig(data="some/where/csi100.parquet"),
    ]
    folders = [default_folder(config) for config in configs]
    assert len(set(folders)) == len(folders) and folders[0] == default_folder(RunConfig())
    assert folders[0].parent == Path("out") and folders[0].name.startswith("nasdaq100-full-0-")
    assert folders[2].name.startswith("nasdaq100-no-dek-0-") and folders[6].name.startswith(
        "csi100-full-0-"
    )
    assert folders[5].name.startswith("nasdaq100-random-static-only-0-")
    assert SERLFramework(RunConfig()).out == folders[0] and SERLFramework(out="x").out == Path("x")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SERLFramework]:
    """Makes the framework with settings of the seeds, made smaller still."""
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    torch.set_num_threads(1)
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    make_data(tmp_path / "home")

    def start(model: str, **changes: Any) -> SERLFramework:
        seeds = SERLConfig(
            dataset=DATA, llm_model_name=model, max_outer_iterations=1, max_inner_iterations=1
        )
        return SERLFramework(replace(seeds.run, **(SMALLER | changes)), out=tmp_path / "run")

    return start


def test_a_model_designs_and_learns(start: Callable[..., SERLFramework], tmp_path: Path) -> None:
    told = Counter[str]()
    framework = start(make_model(tmp_path / "model")["llm"])
    results = framework.run_training(tell=lambda kind, _, **__: told.update([kind]))
    assert isinstance(results["final_metrics"]["PA"], float)
    assert results["test_openings"] == (results["outcome"] == ACCEPTED)
    assert (
        results["designs"]["proposed"] == 3 == results["designs"]["valid"]
        and results["data"]["synthetic"]
    )
    assert (
        results["llm"]["calls"] >= 1
        and results["llm"]["tokens_out"] > 0
        and results["llm"]["adapter"]
    )
    assert (
        told["iteration"] == told["finished"] == 1
        and told["proposed"] == 4
        and told["evaluated"] >= 7
    )
    folder = tmp_path / "run"
    assert json.loads((folder / "results.json").read_text())["best"] == results["best"]
    assert (folder / "report.html").read_text().startswith("<!doctype html>") and (
        folder / "best.policy"
    ).is_file()
    assert framework.run_training()["final_metrics"] == results["final_metrics"]


@pytest.mark.skipif(
    not REAL_SMOLLM2.is_dir(), reason="smollm2 is not here; run: se-rl llm pull smollm2"
)
def test_the_embedded_model_designs(start: Callable[..., SERLFramework]) -> None:
    results = start(str(REAL_SMOLLM2), lle=False).run_training()
    designs = results["designs"]
    assert (
        designs["proposed"] == 3
        and designs["valid"] + designs["repeated"] == 3
        and designs["scored"] >= 1
    )
    assert results["llm"]["tokens_out"] > 50 and results["dynamic"] == {}
