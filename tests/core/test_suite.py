"""The suite: its tasks and designs, a small real run that goes on where it stopped, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from se_rl.config import ConfigError
from se_rl.core.suite import evaluators
from se_rl.core.suite.designs import SuiteDesign, design_by_hand
from se_rl.core.suite.evaluators import FREE, SAME, open_evaluator, outside_network
from se_rl.core.suite.running import NOT_REACHED, SuitePlan, run_suite
from se_rl.core.suite.tasks import FIRST, HALVES, SECOND, OutsideTask, chosen_tasks, history_task
from se_rl.data.store import write_bars
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.executors.training_pool import TrainingPool
from se_rl.main import main
from se_rl.modules.default_sources import naive_reward_source, source_of_default
from se_rl.modules.derivation import Choice, derivation, spell
from se_rl.records.archive import Archive
from se_rl.records.plain import to_plain

FREE_NETWORK = source_of_default("Network").replace("width = 64", "width = 61")


def written(**changes: int) -> str:
    """The default network in the grammar's words, with other alternatives of some rules."""
    choices = derivation(source_of_default("Network"), "network")
    assert choices is not None
    changed = [Choice(one.rule, changes.get(one.rule, one.alternative)) for one in choices]
    return spell(changed, "network")


def queue_task() -> OutsideTask:
    """The cheapest task, trained for a single update."""
    task = next(task for task in SECOND if task.name == "qrm")
    assert isinstance(task, OutsideTask)
    return replace(task, work=1e-3, samples=500)


def test_the_halves_share_no_task_and_the_second_holds_out_what_searches_never_see() -> None:
    first, second = ({task.name for task in half} for half in (FIRST, SECOND))
    assert first == {"small-tick", "large-tick", "stressed", "nasdaq100"}
    assert {"csi100", "qrm", "cw-noise-20", "cw-strategic-60"} < second
    assert not first & second and len(first | second) == len(HALVES["all"])
    chosen = chosen_tasks("first", ["qrm", "stressed", "qrm"])
    assert [task.name for task in chosen] == ["qrm", "stressed"]
    for task in HALVES["all"]:
        assert task.times(2.0).rung.work == pytest.approx(2.0 * task.rung.work)


def test_a_network_of_the_grammar_goes_to_others_markets_and_sees_all_inputs_there() -> None:
    narrow = written(inputs=3, set_epochs=1)
    assert "0.0 * obs" in narrow and "epochs = 2" in narrow
    network = outside_network({"network": narrow})
    assert not isinstance(network, str)
    built: Any = network(obs_dim=5, history=1)
    assert (built.epochs, built.first.in_features) == (2, 5)
    assert "cat" not in built.forward.__code__.co_names  # no input is left out
    assert outside_network({"network": FREE_NETWORK}) == FREE
    assert outside_network({"reward": naive_reward_source()}) == SAME


def test_trainings_are_kept_and_a_design_that_cannot_be_trained_is_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(evaluators, "EPISODES", 60)
    designs = (
        SuiteDesign("other", {"network": written(width=1)}),
        SuiteDesign("same", {}),
        SuiteDesign("free", {"network": FREE_NETWORK}),
    )
    plan = SuitePlan(designs, (queue_task(),), 2, tmp_path / "kept")
    result = run_suite(plan)
    by_name = {one.design: one for one in result.effects}
    assert by_name["other"].seeds == 2 and by_name["other"].scale > 0.0
    assert by_name["other"].difference != 0.0
    assert (by_name["same"].effect, by_name["same"].ci95) == (0.0, (0.0, 0.0))
    assert by_name["free"].reason == FREE
    assert (result.made, result.planned) == (6, 8)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a training that is kept was made again")

    monkeypatch.setattr(evaluators, "train_in", refuse)
    assert to_plain(run_suite(plan)) == to_plain(result)  # NaN is not NaN
    late = run_suite(replace(plan, until=0.0))
    assert {one.reason for one in late.effects} == {NOT_REACHED} and not late.pools


def test_a_set_of_ones_own_is_a_task_whose_test_days_stay_closed(tmp_path: Path) -> None:
    bars = synthetic_market(SyntheticConfig(symbols=5, sessions=30, bar_minutes=15))
    write_bars(bars, tmp_path / "own.parquet")
    task = history_task("own", str(tmp_path / "own.parquet"))
    with (
        Archive.open(tmp_path / "archive.sqlite") as archive,
        open_evaluator(task, archive, unsafe=False, say=lambda _: None) as pool,
    ):
        assert isinstance(pool, TrainingPool)
        assert pool.config.horizons == (len(bars.grid),)  # no usual order fits into a session
        assert pool.validation.data.dates.max() < bars.dates[-6]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no design is given"),
        (["--network", "{own}", "--tasks", "moon"], "task 'moon' is unknown; use some of small"),
        (["--network", "{own}", "--work", "0"], "--work is 0.0; give a number above 0"),
        (["--network", "{own}", "--seeds", "0"], "seeds is 0; a design needs 1 training"),
        (["nowhere"], "nowhere is no policy and holds none"),
        (["nowhere:abc"], "nowhere holds no run"),
        (["--network", "{own}", "--data", "a/x.csv", "b/x.csv"], "are not all different"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.py"
    own.write_text(written(width=1))
    words = [word.format(own=own) for word in words]
    assert main(["suite", *words, "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("se-rl: ") and line in told


def test_the_command_prints_a_table_or_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evaluators, "EPISODES", 60)
    own = tmp_path / "own.py"
    own.write_text(written(width=1))
    words = ["suite", "--network", str(own), "--tasks", "qrm", "--work", "0.001", "--seeds", "1"]
    words += ["--out", str(tmp_path / "out")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "task by task" in shown and "price x units" in shown
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["effects"][0]["task"] == "qrm" and told["effects"][0]["se"] is None
    assert told["pools"][0]["tasks"] == 1


def test_two_designs_of_one_name_are_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(written(width=1))
    twice = (design_by_hand({"network": own}),) * 2
    with pytest.raises(ConfigError, match="are not all different"):
        SuitePlan(twice, (queue_task(),), 1, tmp_path)


def test_a_policy_that_breaks_in_play_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(evaluators, "EPISODES", 60)
    made = evaluators.train_in

    def broken(*words: Any, **named: Any) -> Any:
        trained = made(*words, **named)
        with torch.no_grad():
            trained.policy.heads.bias.fill_(float("nan"))
        return trained

    monkeypatch.setattr(evaluators, "train_in", broken)
    lots = next(task for task in SECOND if task.name == "cw-noise-20")
    plan = SuitePlan((SuiteDesign("same", {}),), (lots.times(1e-3),), 1, tmp_path)
    (one,) = run_suite(plan).effects
    assert "not finite" in one.reason
