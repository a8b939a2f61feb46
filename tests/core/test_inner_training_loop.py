"""The documented training loop for an agent and environments of one's own, and its stop rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from se_rl.core.inner_loop import LoopProgress, show_progress
from se_rl.core.stopping import StopRule
from se_rl.core.training_loop import SERLTrainingLoop, TrainingLoopConfig
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_env import DynamicEnvironment
from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment
from se_rl.environments.static_env import StaticEnvironment
from se_rl.rl.ppo import UpdateStats
from se_rl.rl.ppo_agent import PPOAgent, PPOConfig
from se_rl.rl.rebalance import EVERY
from se_rl.rl.rollout import Diverged

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=3))
TASK = ExecutionEnvConfig(total_time=8, transaction_cost=0.0)
TINY = TrainingLoopConfig(
    max_outer_iterations=2, max_inner_iterations=4, samples=128, validation_orders=8
)
QUICK = PPOConfig(ppo_epochs=2)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def loop(
    config: TrainingLoopConfig = TINY,
    *,
    task: ExecutionEnvConfig = TASK,
    agent: PPOAgent | None = None,
    progress: Callable[[LoopProgress], None] = lambda _: None,
) -> SERLTrainingLoop:
    actions = 1 if task.action == "ratio" else 2
    worlds = StaticEnvironment(DATA, task), DynamicEnvironment(None, task)
    agent = agent or PPOAgent(32, actions, QUICK)
    return SERLTrainingLoop(config, *worlds, agent, progress=progress)


def weights(agent: PPOAgent) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).clone() for p in agent.policy.parameters()])


def test_the_documented_snippet_ends_with_history_and_metrics() -> None:
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
    agent = PPOAgent(state_dim=32, action_dim=1, config=QUICK)
    before = weights(agent)
    results = SERLTrainingLoop(
        config, StaticEnvironment(DATA, TASK), DynamicEnvironment(DATA, TASK), agent
    ).run()
    assert results["iterations"] == len(results["history"]) == 2 and results[
        "stop_reason"
    ].startswith("budget: 2")
    assert {"PA", "PA_std", "WR", "GLR", "AFI"} <= set(results["final_metrics"])
    for row in results["history"]:
        assert {"PA", "PA_ema", "alpha", "beta", "loss_static", "loss_dynamic"} <= set(row)
        assert all(map(np.isfinite, row.values())) and row["alpha"] + row["beta"] == 1.0
    assert results["history"][-1]["PA"] == results["final_metrics"]["PA"]
    assert not torch.equal(before, weights(agent))


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    one, two, other = (loop(replace(TINY, seed=seed)) for seed in (1, 1, 2))
    assert one.run() == two.run() != other.run()
    assert torch.equal(weights(one.agent), weights(two.agent))
    assert not torch.equal(weights(one.agent), weights(other.agent))


def test_prices_are_learned_where_the_environments_take_them() -> None:
    results = loop(task=replace(TASK, action="ratio_and_price", fills="limit_on_bars")).run()
    assert results["iterations"] == 2 and np.isfinite(results["final_metrics"]["PA"])


def test_wrapped_environments_are_unwrapped() -> None:
    wrapped = gym.wrappers.TimeLimit(StaticEnvironment(DATA, TASK), 100)
    assert (
        SERLTrainingLoop(
            TINY, wrapped, DynamicEnvironment(None, TASK), PPOAgent(32, 1, QUICK)
        ).run()["iterations"]
        == 2
    )


@pytest.mark.parametrize(("inner", "expected"), [(1, (0, 1)), (3, (1, 2)), (10, (6, 4))])
def test_inner_iterations_are_updates_of_all_phases_together(
    inner: int, expected: tuple[int, int]
) -> None:
    heard: list[LoopProgress] = []
    config = replace(TINY, max_outer_iterations=1, max_inner_iterations=inner)
    loop(config, progress=heard.append).run()
    joint = sum(one.row.phase == "joint" for one in heard)
    assert (len(heard) - joint, joint) == expected
    assert [one.update for one in heard] == list(range(1, inner + 1))
    assert all(one.row.alpha + one.row.beta == 1.0 for one in heard)


def test_alpha_moves_every_tenth_joint_step_and_both_worlds_get_their_share() -> None:
    heard: list[LoopProgress] = []
    config = replace(
        TINY, max_outer_iterations=1, max_inner_iterations=40, initial_alpha=0.8, initial_beta=0.2
    )
    training = loop(config, progress=heard.append)
    weights_given: list[list[float]] = []
    steps: list[float] = []
    ppo = training.training.learner.ppo
    plain = ppo.update

    def update(batches: Any) -> UpdateStats:
        weights_given.append([batch.weight for batch in batches])
        stats = plain(batches)
        steps.append(stats.steps)
        return stats

    ppo.update = update  # type: ignore[method-assign]
    results = training.run()
    joint = [shares for shares in weights_given if len(shares) == 2]
    alphas = [shares[0] for shares in joint]
    assert len(alphas) == 16 and alphas[0] == 0.8
    so_far = np.cumsum(steps[-len(alphas) :])
    for i in range(1, len(alphas)):
        earlier = so_far[i - 2] if i > 1 else 0
        moved = so_far[i - 1] // EVERY > earlier // EVERY
        assert (alphas[i] != alphas[i - 1]) == moved
    assert all(sum(shares) == 1.0 for shares in weights_given)
    assert results["history"][-1]["alpha"] == heard[-1].row.alpha


def failing(training: SERLTrainingLoop, *, at: int) -> SERLTrainingLoop:
    """The loop whose `at`-th update ruins the weights and ends with a reason."""
    ppo, agent, asked = training.training.learner.ppo, training.agent, itertools.count(1)
    plain = ppo.update

    def update(batches: Any) -> UpdateStats:
        stats = plain(batches)
        if next(asked) == at:
            with torch.no_grad():
                agent.policy.log_std.fill_(torch.nan)
            raise Diverged("loss is not finite")
        return stats

    ppo.update = update  # type: ignore[method-assign]
    return training


def test_a_training_that_diverges_stops_with_a_reason_and_the_last_good_weights() -> None:
    training = failing(loop(), at=TINY.max_inner_iterations + 2)
    results = training.run()
    assert results["stop_reason"] == "diverged in outer iteration 2: loss is not finite"
    assert results["iterations"] == 1 and torch.isfinite(weights(training.agent)).all()
    assert results["final_metrics"]["PA"] == results["history"][-1]["PA"]
    assert failing(loop(), at=1).run()["history"] == []


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(TINY, max_outer_iterations=1)
    loop(config, progress=show_progress).run()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    loop(config, progress=show_progress).run()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and shown.count("\r") == TINY.max_inner_iterations
    assert "outer iteration 1/1, update 4/4 (joint): static " in shown


def test_a_large_tolerance_stops_as_soon_as_the_window_is_full() -> None:
    results = loop(
        replace(TINY, max_outer_iterations=20, max_inner_iterations=1, convergence_tolerance=1e6)
    ).run()
    assert results["stop_reason"].startswith("converged") and results["iterations"] == 6


class Cheap(ExecutionEnvironment):
    """Pays for a ratio near 0.2, whatever the market does."""

    def start(self, orders: Any, rng: np.random.Generator) -> np.ndarray:
        core = self.core
        if not hasattr(core, "plain"):
            core.plain = core.step  # type: ignore[attr-defined]

            def step(ratio: np.ndarray, limit: np.ndarray | None = None) -> np.ndarray:
                seen = core.plain(ratio, limit)  # type: ignore[attr-defined]
                core.reward = -100.0 * (ratio - 0.2) ** 2
                return seen

            core.step = step  # type: ignore[method-assign]
        return core.reset(orders)


def test_the_environments_own_reward_is_what_is_learned() -> None:
    agent = PPOAgent(32, 1, PPOConfig(actor_lr=3e-3, ppo_epochs=4))
    config = replace(TINY, max_outer_iterations=1, max_inner_iterations=24, samples=512)
    SERLTrainingLoop(config, Cheap(DATA, TASK), Cheap(DATA, TASK), agent).run()
    seen = StaticEnvironment(DATA, TASK).reset(seed=0)[0]
    assert abs(agent.select_action(seen, deterministic=True)[0][0] - 0.2) < 0.08


def test_metrics_are_those_that_stepping_one_by_one_gives() -> None:
    training = loop(replace(TINY, validation_orders=3), task=replace(TASK, side="sell"))
    agent, orders = training.agent, training._validation["static"].orders
    pa, _ = training.validate("static")
    env, found = StaticEnvironment(DATA, replace(TASK, side="sell")), []
    for i in range(3):
        symbol, session = divmod(int(orders.row[i]), len(DATA.dates))
        fixed = {
            "symbol": DATA.symbols[symbol],
            "session": int(DATA.dates[session]),
            "start": int(orders.start[i]),
        }
        state, _ = env.reset(options=fixed)
        done = False
        while not done:
            state, _, done, _, info = env.step(agent.select_action(state, deterministic=True)[0])
        found.append(info["PA"])
    np.testing.assert_allclose(pa, found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_outer_iterations": 0},
        {"max_inner_iterations": 1.5},
        {"convergence_tolerance": 0.0},
        {"convergence_tolerance": float("nan")},
        {"ema_decay": 1.0},
        {"initial_alpha": 0.9},
        {"initial_alpha": 1.5, "initial_beta": -0.5},
        {"samples": 0},
        {"validation_orders": -1},
        {"seed": -1},
    ],
)
def test_bad_settings_are_refused_in_one_line(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))) as caught:
        TrainingLoopConfig(**setting)
    assert "\n" not in str(caught.value) and "use" in str(caught.value)


def test_agents_and_environments_that_do_not_fit_are_refused_in_one_line() -> None:
    static, dynamic = StaticEnvironment(DATA, TASK), DynamicEnvironment(None, TASK)
    for worlds, agent, words in (
        ((static, dynamic), PPOAgent(31, 1), "state_dim is 31"),
        ((static, dynamic), PPOAgent(32, 2), "action_dim is 2"),
        ((gym.make("CartPole-v1"), dynamic), PPOAgent(32, 1), "static_env is a"),
        ((static, None), PPOAgent(32, 1), "dynamic_env is a NoneType"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            SERLTrainingLoop(TINY, *worlds, agent)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def after(scores: list[float], **settings: float) -> StopRule:
    state = StopRule(**settings)
    for score in scores:
        state = state.moved(score)
    return state


@given(SCORES, st.floats(0.0, 0.99))
def test_the_average_is_the_documented_formula_and_stays_within_the_scores(
    scores: list[float], decay: float
) -> None:
    expected = scores[0]
    for score in scores[1:]:
        expected = decay * expected + (1 - decay) * score
    ema = after(scores, decay=decay).ema
    assert ema == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert min(scores) - 1e-6 <= ema <= max(scores) + 1e-6


@given(SCORES, st.floats(1e-3, 1e3), st.integers(1, 8))
def test_it_is_reached_exactly_when_the_last_changes_were_all_small(
    scores: list[float], tolerance: float, window: int
) -> None:
    states = [
        after(scores[: i + 1], tolerance=tolerance, window=window) for i in range(len(scores))
    ]
    averages = [state.ema for state in states]
    changes = [abs(b - a) for a, b in itertools.pairwise(averages)]
    expected = len(changes) >= window and all(change < tolerance for change in changes[-window:])
    assert states[-1].reached == expected


@given(st.floats(-1e6, 1e6))
def test_a_score_that_stands_still_converges_after_the_window(score: float) -> None:
    assert not after([score] * 5).reached and after([score] * 6).reached


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 12))
def test_patience_counts_from_the_last_improvement(better: list[bool], patience: int) -> None:
    state = StopRule(patience=patience)
    for improved in better:
        state = state.moved(1.0, improved=improved)
    since = better[::-1].index(True) if True in better else len(better)
    assert state.waited == since
    assert state.reached == (len(better) > state.window and since >= patience)


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_refused(score: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        StopRule().moved(score)
