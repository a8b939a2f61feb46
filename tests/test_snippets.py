"""The eleven documented snippets, word for word, each with the names that its reader would have.

What is smaller than a reader's: bars, the model, and the loop's iterations; a whole run is in core/test_framework.py.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from se_rl.commands.without_verb import as_verb
from se_rl.main import build_parser
from se_rl.sandbox.lockdown import isolation_level

HERE = Path(__file__).resolve().parent
TEXT = (HERE / "documented_snippets.md").read_text()
BLOCK = re.compile(r"```(?:python|bash)\n(.*?)```", re.DOTALL)
SNIPPETS = dict(zip(re.findall(r"^## (.+)$", TEXT, re.MULTILINE), BLOCK.findall(TEXT), strict=True))
GYMNASIUM = {
    "next_state, reward, done, info = env.step(action)": "next_state, reward, done, truncated, info = env.step(action)",
}
"""The one place where a snippet changes."""
REWARD = (
    "def reward(step):\n    return step.traded_share * (step.fill_price - step.benchmark_price)\n"
)
Names = dict[str, Any]


def frame(days: int = 3) -> pd.DataFrame:
    """OHLCV bars of some sessions, with a DatetimeIndex."""
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market

    market = synthetic_market(SyntheticConfig(symbols=1, sessions=days, seed=1))
    index = [
        pd.Timestamp(str(date)) + pd.Timedelta(minutes=570 + bar)
        for date in market.dates
        for bar in range(market.shape[-1])
    ]
    columns = {name: getattr(market, name)[0].ravel() for name in ("open", "high", "low", "close")}
    return pd.DataFrame(
        {**columns, "volume": market.volume[0].ravel()}, index=pd.DatetimeIndex(index)
    )


class Client:
    """Somebody's own access to a model."""

    def generate(self, prompt: str) -> str:
        """Always the hand-written imagination."""
        assert "imagine(bars, generator)" in prompt
        from se_rl.modules.kinds import KINDS

        return f"```python\n{KINDS['imagination'].contract.examples[0]}```"


def test_where_the_seeds_are_at_hand_they_say_the_same() -> None:
    folder = Path(os.environ.get("SE_RL_SHARED", HERE.parents[1] / "shared")) / "seeds"
    pages = sorted(folder.glob("003_*.txt"))
    if not pages:
        pytest.skip(f"the seeds are not in {folder} (set SE_RL_SHARED)")
    seeds = [block for block in BLOCK.findall(pages[0].read_text()) if "git clone" not in block]
    for old, new in GYMNASIUM.items():
        seeds = [block.replace(old, new) for block in seeds]
    assert seeds == list(SNIPPETS.values()) and len(seeds) == 11


def test_the_requirements_file_installs_what_the_package_needs() -> None:
    lines = (HERE.parent / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == [
        "-c constraints.txt",
        "-e .",
    ]


def shorter_loop(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Two outer iterations instead of fifty, and environments of short orders."""
    import se_rl.core.training_loop as loop
    from se_rl import DynamicEnvironment, ExecutionEnvConfig, PPOAgent, StaticEnvironment

    whole, short = loop.TrainingLoopConfig, ExecutionEnvConfig(total_time=8)
    smaller = {
        "max_outer_iterations": 2,
        "max_inner_iterations": 2,
        "samples": 128,
        "validation_orders": 8,
    }
    monkeypatch.setattr(loop, "TrainingLoopConfig", lambda **given: whole(**(given | smaller)))
    worlds = {
        "static_env": StaticEnvironment(frame(), short),
        "dynamic_env": DynamicEnvironment(frame(), short),
    }
    return {**worlds, "agent": PPOAgent(state_dim=32, action_dim=1)}


def no_run(monkeypatch: pytest.MonkeyPatch) -> Names:
    """A finished run in place of the one that would take days."""
    from se_rl.records.results import FinalMetrics, RunResults

    def finished(config: Any, out: Path, **_: Any) -> RunResults:
        assert (config.data, config.iterations, config.work) == ("csi100", 50, 125.0)
        assert config.llm == "meta-llama/Llama-3.3-70B-Instruct"
        return RunResults(final_metrics=FinalMetrics(PA=1.25))

    monkeypatch.setattr("se_rl.core.run.run_search", finished)
    return {}


def small_model(_: pytest.MonkeyPatch) -> Names:
    """A causal model of random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2}
    return {"llm_model": LlamaForCausalLM(LlamaConfig(**sizes, **heads))}


GIVEN: dict[str, Callable[[pytest.MonkeyPatch], Names]] = {
    "book": lambda _: {},
    "agent": lambda _: {"state": np.zeros(32), "reward": 0.1, "done": False},
    "environment": lambda _: {"data": frame(), "action": 0.01},
    "imagination": lambda _: {"static_data": frame(), "llm_interface": Client()},
    "lora": small_model,
    "loop": shorter_loop,
    "framework": no_run,
    "metrics": lambda _: {
        "exec_prices": np.array([100.1, 99.9]),
        "vwap_prices": np.full(2, 100.0),
        "quantities": np.ones(2),
        "returns": np.array([0.001, -0.002]),
        "final_inv": np.zeros(2),
        "initial_inv": np.full(2, 10.0),
    },
    "validator": lambda _: {"code": REWARD},
}
EXPECTED: dict[str, Callable[[Names], bool]] = {
    "book": lambda got: got["state_vector"].shape == (26,) and got["trades"] == [],
    "agent": lambda got: all(np.isfinite(list(got["update_stats"].values()))),
    "environment": lambda got: {"PA", "WR", "GLR", "AFI", "unfinished"} <= set(got["metrics"]),
    "imagination": lambda got: got["metadata"] == {"static_ratio": 0.5, "imagined_ratio": 0.5},
    "lora": lambda got: all(p.requires_grad for p in got["lora_params"]),
    "loop": lambda got: np.isfinite(got["results"]["final_metrics"]["PA"]),
    "framework": lambda got: got["results"].final_metrics.PA == 1.25,
    "metrics": lambda got: set(got["metrics"]) >= {"PA", "WR", "GLR", "AFI"},
    "validator": lambda got: got["result"].is_valid,
}


@pytest.mark.parametrize("name", GIVEN)
def test_snippet(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if name in ("imagination", "validator") and not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    names = GIVEN[name](monkeypatch)
    exec(compile(SNIPPETS[name], name, "exec"), names)
    assert EXPECTED[name](names)


@pytest.mark.parametrize("name", ["command line", "experiments"])
def test_commands(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands = [shlex.split(line, comments=True) for line in SNIPPETS[name].splitlines()]
    given = [words for words in commands if words]
    assert len(given) == 3
    for words in given:
        if words[1:3] == ["-m", "se_rl.main"]:
            build_parser().parse_args(as_verb(words[3:]))
            continue
        assert (HERE.parent / words[1]).is_file()
        build_parser().parse_args(["experiment", *words[2:], "--out", str(tmp_path)])
