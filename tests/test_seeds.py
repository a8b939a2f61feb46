"""The seeds' snippets, spelt as there, and every public name that they promise; a whole run is in core/test_framework.py."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parent / "llm"))
METHODS = {
    "environments.limit_order_book.LimitOrderBook": "initial_price=100.0 tick_size=0.01",
    "environments.limit_order_book.LimitOrderBook.submit_order": "agent_id side order_type price quantity timestamp=None",
    "environments.limit_order_book.LimitOrderBook.cancel_order": "order_id quantity=None",
    "environments.limit_order_book.LimitOrderBook.get_depth": "levels=5",
    "environments.limit_order_book.LimitOrderBook.get_state_vector": "depth_levels=5",
    "environments.execution_env.ExecutionEnvironment": "data config",
    "environments.execution_env.ExecutionEnvConfig": "initial_inventory=10000.0 total_time=240 transaction_cost=0.001",
    "environments.static_env.StaticEnvironment": "data",
    "environments.dynamic_env.DynamicEnvironment": "data",
    "environments.multi_agent_env.MultiAgentEnvironment": "",
    "rl.ppo_agent.PPOAgent": "state_dim action_dim config",
    "rl.ppo_agent.PPOAgent.select_action": "state",
    "rl.ppo_agent.PPOAgent.store_transition": "state action reward done log_prob value",
    "rl.ppo_agent.PPOConfig": (
        "actor_lr=0.0003 critic_lr=0.001 gamma=0.99 gae_lambda=0.95 clip_epsilon=0.2 ppo_epochs=10"
    ),
    "llm.imagination.LLM4Imagine": "config llm_interface",
    "llm.imagination.LLM4Imagine.get_mixed_batch": "static_data batch_size",
    "llm.imagination.ImaginationConfig": "imagination_ratio=0.5 num_scenarios=10 scenario_length=100",
    "llm.low_level_enhancement.LowLevelEnhancement": "config",
    "llm.low_level_enhancement.LowLevelEnhancement.apply_lora": "model",
    "llm.low_level_enhancement.LowLevelEnhancement.get_lora_parameters": "",
    "llm.low_level_enhancement.LoRAConfig": "rank=16 alpha=32 target_modules=('q_proj', 'v_proj', 'layer_norm')",
    "llm.enhancement_kit.DualLevelEnhancementKit": "",
    "llm.high_level_enhancement.InstructionPopulation": "",
    "llm.high_level_enhancement.PerformanceBuffer": "",
    "llm.code_validator.CodeValidator.validate": "code code_type='reward'",
    "core.training_loop.SERLTrainingLoop": "config static_env dynamic_env agent",
    "core.training_loop.SERLTrainingLoop.run": "",
    "core.training_loop.TrainingLoopConfig": (
        "max_outer_iterations=50 max_inner_iterations=1000 convergence_tolerance=0.1 ema_decay=0.9 initial_alpha=0.5 "
        "initial_beta=0.5"
    ),
    "core.training_loop.FinancialMetricsCalculator.calculate_all_metrics": "results",
    "core.framework.SERLFramework": "config",
    "core.framework.SERLFramework.run_training": "",
    "core.framework.SERLConfig": (
        "dataset llm_model_name max_outer_iterations=50 max_inner_iterations=1000 convergence_epsilon=0.1 "
        "learning_rate=0.0003 gamma=0.99 gae_lambda=0.95 clip_epsilon=0.2 static_env_weight=0.5 dynamic_env_weight=0.5 "
        "lora_rank=16 lora_alpha=32"
    ),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def named(path: str) -> Any:
    """The object behind a dotted name of the package: module, then class, then method."""
    room, module, *names = path.split(".")
    found: Any = import_module(f"se_rl.{room}.{module}")
    for name in names:
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("path", METHODS)
def test_names_take_what_the_seeds_give_them(path: str) -> None:
    taken = [name for name in inspect.signature(named(path)).parameters if name != "self"]
    defaults = {name: p.default for name, p in inspect.signature(named(path)).parameters.items()}
    promised = METHODS[path].replace("', '", "','").split()
    assert taken[: len(promised)] == [word.split("=")[0] for word in promised]
    for name, value in (word.split("=") for word in promised if "=" in word):
        assert defaults[name] == eval(value) and callable(named(path))


def frame(minutes: int = 390, days: int = 3) -> pd.DataFrame:
    """Bars as the seeds have them: OHLCV with a DatetimeIndex."""
    rng = np.random.default_rng(0)
    index = pd.DatetimeIndex(
        np.concatenate(
            [
                pd.date_range(f"2024-03-{4 + d:02d} 09:30", periods=minutes, freq="min")
                for d in range(days)
            ]
        )
    )
    close = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 3e-4, len(index))))
    bars = pd.DataFrame({"open": np.r_[100.0, close[:-1]], "close": close}, index=index)
    high, low = bars.max(axis=1) * 1.0002, bars.min(axis=1) * 0.9998
    return bars.assign(high=high, low=low, volume=rng.integers(500, 5000, len(index)).astype(float))


def test_the_book() -> None:
    from se_rl.environments.limit_order_book import LimitOrderBook, OrderSide, OrderType

    lob = LimitOrderBook(initial_price=100.0, tick_size=0.01)
    order, trades = lob.submit_order(
        agent_id=1,
        side=OrderSide.BUY,
        order_type=OrderType.LIMIT,
        price=99.5,
        quantity=100,
        timestamp=1.0,
    )
    state_vector = lob.get_state_vector(depth_levels=5)
    assert state_vector.shape == (6 + 4 * 5,) and state_vector.dtype == np.float32
    assert trades == [] and (order.agent_id, order.remaining_quantity, order.timestamp) == (
        1,
        100.0,
        1.0,
    )
    assert lob.get_best_bid() == 99.5 and lob.get_best_ask() is None and lob.get_spread() is None
    _, [trade] = lob.submit_order(2, OrderSide.SELL, OrderType.MARKET, None, 40)
    assert (trade.buyer_id, trade.seller_id, trade.price, trade.quantity) == (1, 2, 99.5, 40.0)
    assert trade.buyer_order_id == order.order_id and lob.get_vwap() == 99.5
    assert lob.get_depth() == ([(99.5, 60.0)], []) and lob.get_snapshot()
    cancelled = lob.cancel_order(order.order_id)
    assert (
        cancelled is not None
        and cancelled.order_id == order.order_id
        and lob.cancel_order(order.order_id) is None
    )
    lob.reset()
    assert lob.get_mid_price() == 100.0 and lob.get_best_bid() is None


def test_the_agent(tmp_path: Path) -> None:
    from se_rl.rl.ppo_agent import PPOAgent, PPOConfig

    config = PPOConfig(
        actor_lr=3e-4, critic_lr=1e-3, gamma=0.99, gae_lambda=0.95, clip_epsilon=0.2, ppo_epochs=10
    )
    agent = PPOAgent(state_dim=32, action_dim=1, config=config)
    state = np.zeros(32)
    for step in range(8):
        action, log_prob, value = agent.select_action(state)
        agent.store_transition(state, action, 0.1 * step, step == 7, log_prob, value)
    update_stats = agent.update()
    assert update_stats and all(map(np.isfinite, update_stats.values()))
    agent.save(tmp_path / "agent.pt")
    other = PPOAgent(state_dim=32, action_dim=1, config=config)
    other.load(tmp_path / "agent.pt")
    assert other.select_action(state)[2] == agent.select_action(state)[2]


@pytest.mark.parametrize("cost", [0.001, 0.0])
def test_the_execution_environment(cost: float) -> None:
    from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment

    data, action = frame(), 1.0 / 240
    config = ExecutionEnvConfig(initial_inventory=10000.0, total_time=240, transaction_cost=cost)
    env = ExecutionEnvironment(data, config)
    state, _ = env.reset(
        seed=0
    )  # Gymnasium's two and five values: the one place where the snippet changes
    done, rewards = False, []
    while not done:
        next_state, reward, done, truncated, info = env.step(action)
        rewards.append(reward)
        assert next_state.shape == state.shape and not truncated
    metrics = env.get_metrics()
    assert {"PA", "WR", "GLR", "AFI"} <= set(metrics) and len(rewards) == 240 and info
    free = ExecutionEnvironment(
        data, ExecutionEnvConfig(initial_inventory=10000.0, total_time=240, transaction_cost=0.0)
    )
    free.reset(seed=0)
    while not free.step(action)[2]:
        pass
    assert metrics["PA"] == pytest.approx(free.get_metrics()["PA"] - 1e4 * cost, abs=0.1)
    assert metrics["AFI"] == pytest.approx((1 - action) ** 240)


@pytest.mark.parametrize("name", ["static_env.StaticEnvironment", "dynamic_env.DynamicEnvironment"])
def test_environments_need_no_config(name: str) -> None:
    env = named(f"environments.{name}")(frame())
    env.reset(seed=0)
    state, reward, _, truncated, _ = env.step(env.action_space.sample())
    assert state in env.observation_space and np.isfinite(reward) and not truncated


def test_several_agents() -> None:
    from se_rl.environments.multi_agent_env import MultiAgentEnvironment

    env = MultiAgentEnvironment()
    observations, _ = env.reset(seed=0)
    actions: dict[str, Any] = {agent: env.action_space(agent).sample() for agent in env.agents}
    _, rewards, *_ = env.step(actions)
    assert len(observations) >= 2 and set(rewards) == set(observations)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small causal model of random weights, in a folder."""
    sys.path.append(str(Path(__file__).resolve().parent / "core"))
    return Path(import_module("tiny_run").make_model(tmp_path_factory.mktemp("model"))["llm"])


def test_imagination(model: Path) -> None:
    from se_rl.llm.imagination import ImaginationConfig, LLM4Imagine

    config = ImaginationConfig(imagination_ratio=0.5, num_scenarios=10, scenario_length=100)
    static_data, llm_interface = frame(days=4), str(model)
    imagine = LLM4Imagine(config, llm_interface)
    mixed_batch, metadata = imagine.get_mixed_batch(static_data, batch_size=256)
    assert metadata == {"static_ratio": 0.5, "imagined_ratio": 0.5}
    assert mixed_batch.shape == (256, 100, 5) and np.isfinite(mixed_batch).all()
    assert imagine.source is not None and imagine.source.startswith("def imagine(bars, generator)")


def test_lora(model: Path) -> None:
    from transformers import AutoModelForCausalLM

    from se_rl.llm.low_level_enhancement import LoRAConfig, LowLevelEnhancement

    config = LoRAConfig(rank=16, alpha=32, target_modules=["q_proj", "v_proj", "layer_norm"])
    llm_model = AutoModelForCausalLM.from_pretrained(model)
    whole = sum(p.numel() for p in llm_model.parameters())
    lle = LowLevelEnhancement(config)
    model_with_lora = lle.apply_lora(llm_model)
    lora_params = lle.get_lora_parameters()
    trainable = {id(p) for p in model_with_lora.parameters() if p.requires_grad}
    assert (
        trainable == {id(p) for p in lora_params}
        and 0 < sum(p.numel() for p in lora_params) < whole
    )


def test_the_training_loop() -> None:
    from se_rl.core.training_loop import SERLTrainingLoop, TrainingLoopConfig
    from se_rl.environments.dynamic_env import DynamicEnvironment
    from se_rl.environments.execution_env import ExecutionEnvConfig
    from se_rl.environments.static_env import StaticEnvironment
    from se_rl.rl.ppo_agent import PPOAgent

    short = ExecutionEnvConfig(total_time=8)
    static_env, dynamic_env = StaticEnvironment(frame(), short), DynamicEnvironment(frame(), short)
    config = TrainingLoopConfig(
        max_outer_iterations=2,
        max_inner_iterations=4,
        convergence_tolerance=0.1,
        ema_decay=0.9,
        initial_alpha=0.5,
        initial_beta=0.5,
        samples=128,
        validation_orders=8,
    )
    trainer = SERLTrainingLoop(
        config, static_env, dynamic_env, PPOAgent(state_dim=32, action_dim=1)
    )
    results = trainer.run()
    assert len(results["history"]) == 2 and np.isfinite(results["final_metrics"]["PA"])


def test_the_metrics() -> None:
    from se_rl.core.training_loop import FinancialMetricsCalculator

    calc = FinancialMetricsCalculator()
    metrics = calc.calculate_all_metrics(
        {
            "execution_prices": np.array([100.1, 99.9, 100.2]),
            "benchmark_prices": np.full(3, 100.0),
            "quantities": np.ones(3),
            "returns": np.array([0.001, -0.001, 0.002]),
            "final_inventories": np.array([0.0, 5.0, 0.0]),
            "initial_inventories": np.full(3, 10.0),
        }
    )
    assert metrics["PA"] == pytest.approx(20 / 3) and metrics["WR"] == pytest.approx(2 / 3)
    assert metrics["GLR"] == pytest.approx(1.5) and metrics["AFI"] == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("code", "stage"),
    [
        (
            "def reward(step):\n    return step.traded_share * (step.fill_price - step.benchmark_price)\n",
            "",
        ),
        ("def reward(step):\n    return step.traded_share *\n", "static"),
        ("def reward(step):\n    return 1.0 / 0.0\n", "runtime"),
    ],
)
def test_the_validator(code: str, stage: str) -> None:
    from se_rl.llm.code_validator import CodeValidator

    validator = CodeValidator()
    result = validator.validate(code, code_type="reward")
    assert result.is_valid == (not stage) == (not result.error_message)
    assert result.is_valid or result.stage == stage
