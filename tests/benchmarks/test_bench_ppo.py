"""The benchmark of the inner loop: its adapter is a whole VecEnv, its gains are those of the records, its keys are there."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.metrics import price_advantage
from se_rl.environments.static_world import StaticWorld
from se_rl_benchmarks import bench_ppo, ppo_contenders, ppo_design, ppo_sb3


def world(horizon: int = 6) -> StaticWorld:
    return StaticWorld(synthetic_market(SyntheticConfig(symbols=6, sessions=3)), horizon=horizon)


def test_the_adapter_keeps_the_contract_of_vector_environments() -> None:
    pytest.importorskip("stable_baselines3")
    ground = world()
    envs = ppo_sb3.vector_world(ground, orders=4, seed=0)
    first = envs.reset()
    assert first.shape == (4, ground.observation_size) and first.dtype == np.float32
    sides, total, arrived = ground.core.orders.side.copy(), np.zeros(4), None
    for step in range(6):
        seen, rewards, done, infos = envs.step(np.zeros((4, 1), np.float32))
        assert seen.shape == first.shape and rewards.shape == done.shape == (4,) and len(infos) == 4
        assert bool(done.all()) == bool(done.any()) == (step == 5)
        total += rewards
        arrived = infos
    assert all(
        info["terminal_observation"][-1] == 0.0 and not info["TimeLimit.truncated"]
        for info in arrived or []
    )
    assert (seen[:, -1] == 1.0).all(), (
        "the last step shows the next orders, nothing of which is traded"
    )
    assert sorted(sides) == [-1, -1, 1, 1] and np.abs(total).max() < 1e-5, (
        "an output of 0 is TWAP, which gains nothing"
    )
    assert (
        envs.get_attr("num_envs", [0, 2]) == [4, 4] and envs.env_is_wrapped(object) == [False] * 4
    )
    before = seen.copy()
    envs.step(np.ones((4, 1), np.float32))
    assert np.array_equal(before, seen), "observations are not overwritten by later steps"


def test_sb3_learns_through_the_adapter() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    envs = ppo_sb3.vector_world(world(), orders=4, seed=0)
    model = sb3.PPO("MlpPolicy", envs, n_steps=6, batch_size=12, n_epochs=1, device="cpu", seed=0)
    before = [p.detach().clone() for p in model.policy.parameters()]
    assert ppo_sb3.learning(model)() == 24 and model.num_timesteps == 24
    assert any(
        not torch.equal(old, new)
        for old, new in zip(before, model.policy.parameters(), strict=True)
    )


def test_gains_over_twap_are_those_of_the_records() -> None:
    ground = world(horizon=20)
    episodes = ground.draw(np.random.default_rng(0), 64)

    def early(observation: np.ndarray, steps_left: int) -> np.ndarray:
        return np.full(len(observation), min(1.0, 2.0 / steps_left))

    mean, error = ppo_contenders.over_twap(ground, early, episodes, clusters=episodes.orders.row)
    record, prices = ground.record(), ground.benchmarks()
    arrival, twap = ground.core.arrival, prices.twap
    side = episodes.orders.side
    plain = price_advantage(record.net_price, arrival, side) - price_advantage(twap, arrival, side)
    # pairs of both sides cancel the news, which is all that the two ways of counting differ in
    assert mean == pytest.approx(plain.mean(), abs=2e-2) and error > 0


def test_the_result_has_what_the_command_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(ppo_contenders, "SESSIONS", 5)
    monkeypatch.setattr(ppo_contenders, "VALID_SESSIONS", 2)
    monkeypatch.setattr(bench_ppo, "VALID_ORDERS", 40)
    monkeypatch.setattr(bench_ppo, "unit_costs", partial(bench_ppo.unit_costs, turns=1))
    monkeypatch.setattr(
        bench_ppo, "design_in_fresh_process", lambda: {"quick design": "not run here"}
    )
    threads, said = torch.get_num_threads(), list[str]()
    result: dict[str, Any] = asdict(bench_ppo.bench_ppo(seconds=1e-3, say=said.append))
    assert set(result) == {"name", "unit", "value", "peers", "ratios", "detail"} and said
    assert set(result["peers"]) == set(result["ratios"]) == set(bench_ppo.PEERS)
    assert result["value"] > 0 and all(value > 0 for value in result["peers"].values())
    detail = result["detail"]
    assert sum(
        value for key, value in detail.items() if key.startswith("share of")
    ) == pytest.approx(1.0)
    assert sum(key.startswith("gain over TWAP") for key in detail) == 4
    assert {"ns per sample-pass, fused", "ns per sample-pass, autograd", "SB3"} <= set(detail)
    assert torch.get_num_threads() == threads and json.loads(json.dumps(result)) == result


def test_a_quick_design_is_trained_and_scored_in_both_worlds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ppo_contenders, "VALID_SESSIONS", 2)
    result = ppo_design.quick_design(0, budget=0.01)
    assert {"wall seconds", "CPU seconds", "peak memory in MB"} < set(result)
    for world_name in ("static", "dynamic"):
        assert (
            abs(result[f"gain over TWAP in bps, {world_name}"]) < 50
            and result[f"its error, {world_name}"] > 0
        )


def test_without_sb3_ours_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    found = bench_ppo.contenders(synthetic_market(SyntheticConfig(symbols=6, sessions=2)))
    assert set(found) == {"ours", "ours, same settings"}
    ppo_contenders.take_turns(found, seconds=1e-6)
    assert all(len(one.rates) == 1 and one.cpu_seconds > 0 for one in found.values())
