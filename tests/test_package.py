"""The public list is true, and settings behave at the YAML door."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import se_rl
from se_rl.baselines.settings import BaselinesConfig
from se_rl.config import ConfigError, dump_yaml, load_yaml, parse
from se_rl.records.files import to_json, write_text


def test_every_public_name_exists_and_is_documented() -> None:
    for name in se_rl.__all__:
        value = getattr(se_rl, name)
        assert name in dir(se_rl)
        if callable(value):
            assert value.__doc__
    with pytest.raises(AttributeError, match="public names"):
        _ = se_rl.nothing


def test_type_checkers_see_what_is_loaded() -> None:
    """The stub names every public name from the module that it is loaded from, and no other."""
    stub = ast.parse(Path(se_rl.__file__).with_suffix(".pyi").read_text())
    seen = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            seen |= {name.asname: node.module for name in node.names}
    assert seen == se_rl._PUBLIC
    for name in ("SERLFramework", "SERLConfig", "LimitOrderBook", "RunResults", "StaticWorld"):
        assert name in se_rl.__all__


def test_a_logger_tells_a_run_in_lines(caplog: pytest.LogCaptureFixture) -> None:
    from se_rl.utils.logger import get_logger, log_events

    tell = log_events(get_logger("run"))
    with caplog.at_level("INFO", logger="se_rl.run"):
        tell("run_started", {"data": {"name": "bars"}, "llm": "none", "seed": 3})
        tell("credit", {"instruction": "x"})
    assert caplog.messages == ["run: bars, none, seed 3"]


def test_language_models_have_one_door() -> None:
    from se_rl.llm import integration

    assert all(getattr(integration, name) for name in integration.__all__)


def test_public_names_of_the_seeds_can_be_imported() -> None:
    from se_rl.core.training_loop import FinancialMetricsCalculator
    from se_rl.data.pipeline import FinancialDataPipeline
    from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment
    from se_rl.environments.static_env import StaticEnvironment

    assert ExecutionEnvConfig().initial_inventory == 10000.0
    assert ExecutionEnvConfig().total_time == 240
    assert ExecutionEnvConfig().transaction_cost == 0.001
    assert issubclass(StaticEnvironment, ExecutionEnvironment)
    assert FinancialMetricsCalculator and FinancialDataPipeline


def test_yaml_round_trip(tmp_path: Path) -> None:
    config = BaselinesConfig(
        horizon="session", fee_bps=1.5, max_participation=0.2, symbols=("A", "B")
    )
    path = tmp_path / "c.yaml"
    path.write_text(dump_yaml(config))
    assert load_yaml(BaselinesConfig, path) == config
    path.write_text("")
    assert load_yaml(BaselinesConfig, path) == BaselinesConfig()


def test_values_are_checked_with_their_key() -> None:
    with pytest.raises(ConfigError, match="'split'"):
        parse(BaselinesConfig, {"split": "tomorrow"})
    with pytest.raises(ConfigError, match="top"):
        parse(BaselinesConfig, [1])


def test_files_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "one")

    def crash(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "two")
    assert path.read_text() == "one"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_json_has_no_nan() -> None:
    assert (
        to_json({"a": float("nan"), "b": [float("inf"), 1.0]})
        == '{\n  "a": null,\n  "b": [\n    null,\n    1.0\n  ]\n}'
    )
