"""The trainer learns what can be learned, repeats bit for bit, and ends with a reason if stuck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from modules.zoo_networks import NETWORKS
from rl.toy_worlds import CheapHalf, ToyWorld
from se_rl.modules.defaults import Modules, Network
from se_rl.modules.loading import load_design
from se_rl.rl.learner import Learner
from se_rl.rl.policy import Policy
from se_rl.rl.ppo import PPOSettings
from se_rl.rl.rebalance import FLOOR, Balance
from se_rl.rl.trainer import TrainConfig, Trained, Training, train
from se_rl.rl.work import (
    INPUT,
    PASS,
    PRODUCT,
    OperationCounter,
    parameter_count,
    row_work,
    work_of_step,
)

DIRECT = Modules(reward=lambda step: step.reward)
SMALL = TrainConfig(budget=0.15, samples=2048)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def score(trained: Trained, world: ToyWorld, *, orders: int = 512) -> np.ndarray:
    """What each order earns by the policy without noise."""
    episodes = world.draw(np.random.default_rng(99), orders)
    runner = trained.runner("static")
    runner.start(orders, world.horizon)
    observation, fields, total = (
        world.reset(episodes),
        np.zeros((1, orders), np.float32),
        np.zeros(orders),
    )
    for _ in range(world.horizon):
        observation = world.step(runner.act(observation)[0], None, fields)
        total += fields[0]
    return total


def test_it_learns_to_trade_when_it_is_cheap() -> None:
    world = CheapHalf(noise=1.0)
    before = score(train(DIRECT, {"static": world}, TrainConfig(budget=1e-9), seed=1), world).mean()
    after = score(
        train(DIRECT, {"static": world}, TrainConfig(budget=0.6, samples=2048), seed=1), world
    ).mean()
    assert after > before + 0.4


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    runs = [train(DIRECT, {"static": CheapHalf()}, SMALL, seed=seed) for seed in (3, 3, 4)]
    weights = [torch.cat([p.detach().reshape(-1) for p in run.policy.parameters()]) for run in runs]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert runs[0].curve == runs[1].curve and runs[0].work == runs[1].work


def test_the_global_random_state_is_neither_used_nor_moved() -> None:
    torch.manual_seed(5)
    first = train(DIRECT, {"static": CheapHalf()}, SMALL, seed=3)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    second = train(DIRECT, {"static": CheapHalf()}, SMALL, seed=3)
    assert first.curve == second.curve


def test_talking_pays_where_only_one_agent_knows() -> None:
    world = CheapHalf(agents=2, horizon=6)

    def uninformed(message_size: int) -> float:
        config = TrainConfig(budget=1.0, samples=2048, message_size=message_size)
        trained = train(DIRECT, {"static": world}, config, seed=0)
        return float(score(trained, world)[1::2].mean())

    silent, talking = uninformed(0), uninformed(4)
    assert talking > silent + 0.2, f"silent {silent:.3f}, talking {talking:.3f}"


def test_both_worlds_enter_the_joint_phase_and_the_weights_sum_to_one() -> None:
    class Other(CheapHalf):
        name = "dynamic"

    worlds = {"static": CheapHalf(horizon=4), "dynamic": Other(horizon=8)}
    trained = train(
        DIRECT,
        worlds,
        TrainConfig(
            budget=0.3, samples=256, phases=(0.1, 0.1, 0.8), ppo=PPOSettings(minibatches=1)
        ),
        seed=0,
    )
    phases = [row.phase for row in trained.curve]
    assert phases == sorted(phases, key=("static", "dynamic", "joint").index) and set(phases) == {
        "static",
        "dynamic",
        "joint",
    }
    joint = [row for row in trained.curve if row.phase == "joint"]
    assert all(set(row.rewards) == {"static", "dynamic"} for row in joint)
    assert all(row.alpha + row.beta == 1.0 for row in trained.curve)
    assert len(joint) > 10 and joint[-1].alpha != 0.5


def work_by_phase(network: type[nn.Module], config: TrainConfig) -> dict[str, float]:
    """What a training of a design spends in each phase, as a share of the budget."""

    class Other(CheapHalf):
        name = "dynamic"

    worlds = {"static": CheapHalf(horizon=4), "dynamic": Other(horizon=4)}
    trained = train(Modules(reward=DIRECT.reward, network=network), worlds, config, seed=0)
    spent = {"static": 0.0, "dynamic": 0.0, "joint": 0.0}
    before = 0.0
    for row in trained.curve:
        spent[row.phase] += (row.work - before) / config.budget
        before = row.work
    return spent


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, (0.1, 0.3, 0.6)),
        ({"static_share": 0.5}, (5 / 11, 0.0, 6 / 11)),  # more than there is: scaled
        ({"static_share": 0.3, "joint_share": 0.2}, (0.3, 0.5, 0.2)),
        ({"static_share": 0.0, "joint_share": 1.0}, (0.0, 0.0, 1.0)),
    ],
)
def test_a_design_divides_its_training(
    own: dict[str, float], expected: tuple[float, float, float]
) -> None:
    network = type("Own", (Network,), own)
    config = TrainConfig(budget=0.3, samples=256, phases=(1.0, 3.0, 6.0))
    spent = work_by_phase(network, config)
    static, dynamic, joint = expected
    assert spent["static"] == pytest.approx(static, abs=0.06)
    assert spent["dynamic"] == pytest.approx(dynamic, abs=0.06)
    assert spent["joint"] == pytest.approx(joint, abs=0.06)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=60))
def test_no_loss_breaks_the_weights(losses: list[tuple[float, float]]) -> None:
    balance = Balance()
    for static, dynamic in losses:
        balance = balance.moved(static, dynamic)
        assert (
            balance.alpha + balance.beta == 1.0
            and FLOOR - 1e-12 <= balance.alpha <= 1.0 - FLOOR + 1e-12
        )


def test_the_weight_moves_to_the_world_that_loses_more() -> None:
    assert Balance().moved(2.0, 1.0).alpha > 0.5 > Balance().moved(1.0, 2.0).alpha
    assert Balance().moved(1.0, 1.0).alpha == Balance().moved(0.0, 0.0).alpha == 0.5


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_loss_twice_the_other_takes_the_weight_out_of_the_middle(scale: float) -> None:
    balance = Balance()
    for _ in range(4):
        balance = balance.moved(2.0 * scale, scale)
    assert balance.alpha > 0.55
    for _ in range(200):
        balance = balance.moved(2.0 * scale, scale)
    assert balance.alpha == pytest.approx(2 / 3)


class Foreseeable(CheapHalf):
    """The same with other units and, if told so, a signal that says nothing."""

    name = "dynamic"
    unit, told = 1.0, True

    def signal(self) -> np.ndarray:
        return super().signal() * float(self.told)

    def earned(self, traded: np.ndarray) -> np.ndarray:
        return self.unit * super().earned(traded)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 100.0])
def test_the_world_that_foresees_less_gets_the_weight_whatever_its_unit(unit: float) -> None:
    dynamic = Foreseeable(horizon=8)
    dynamic.unit, dynamic.told = unit, False
    worlds = {"static": CheapHalf(horizon=8), "dynamic": dynamic}
    config = TrainConfig(budget=0.5, samples=1024, phases=(0.1, 0.1, 0.8))
    curve = train(DIRECT, worlds, config, seed=0).curve
    last = curve[-1]
    assert last.losses["dynamic"] > 2.0 * last.losses["static"]
    assert last.alpha < 0.45, [row.alpha for row in curve]


@pytest.mark.parametrize(
    ("reward", "reason"),
    [
        (lambda step: step.reward * torch.nan, "not finite"),
        (lambda step: step.reward * 0 + 1e9, "keep it within"),
        (lambda step: step.reward[:3], "shape"),
        (lambda step: 1.0, "shape"),
    ],
)
def test_a_bad_reward_ends_the_design_with_a_reason(reward: object, reason: str) -> None:
    trained = train(Modules(reward=reward), {"static": CheapHalf()}, SMALL)
    assert (
        trained.reason is not None
        and reason in trained.reason
        and "diverged after 0 updates" in trained.reason
    )


def test_exploding_weights_end_the_design_with_a_reason() -> None:
    class Exploding(Network):
        def forward(self, obs: Tensor) -> Tensor:
            return super().forward(obs) * torch.exp(self.first.weight.abs().sum() * 1e3)

    trained = train(
        Modules(reward=DIRECT.reward, network=Exploding), {"static": CheapHalf()}, SMALL
    )
    assert trained.reason is not None and "not finite" in trained.reason


def test_a_constant_reward_teaches_nothing_and_harms_nothing() -> None:
    trained = train(Modules(reward=lambda step: step.reward * 0), {"static": CheapHalf()}, SMALL)
    assert trained.reason is None
    twap = -1.0 / CheapHalf().horizon  # nothing but the cost of TWAP's eight equal slices
    assert score(trained, CheapHalf()).mean() == pytest.approx(twap, abs=1e-3)


def test_a_network_that_is_too_large_is_refused() -> None:
    class Huge(nn.Module):
        def __init__(self, obs_dim: int, history: int) -> None:
            super().__init__()
            self.feature_dim, self.layer = 512, nn.Linear(obs_dim, 200_000)

    with pytest.raises(RuntimeError, match="parameters"):
        Training.of_design(Modules(network=Huge), {"static": CheapHalf()}, SMALL)


def test_unknown_worlds_are_refused() -> None:
    with pytest.raises(ValueError, match="give 'static'"):
        train(DIRECT, {"stattic": CheapHalf()})


def test_work_counts_steps_times_cost_and_so_gives_a_dearer_network_fewer_steps() -> None:
    class Wide(nn.Module):
        def __init__(self, obs_dim: int, history: int) -> None:
            super().__init__()
            self.feature_dim, self.layer = (
                256,
                nn.Sequential(nn.Linear(obs_dim, 256), nn.Tanh(), nn.Linear(256, 256)),
            )

        def forward(self, obs: Tensor) -> Tensor:
            return self.layer(obs[:, -1])

    default, wide = (
        Policy(Modules(network=n), observation_size=32, actions=1) for n in (Network, Wide)
    )
    products = 2 * (32 * 64 + 64 * 2)
    assert row_work(default) == PASS + INPUT * 32 + PRODUCT * products
    costs = [
        work_of_step("static", row=row_work(policy), epochs=4, talks=False)
        for policy in (default, wide)
    ]
    assert costs[1] > 4 * costs[0]
    steps = [
        len(train(Modules(reward=DIRECT.reward, network=n), {"static": CheapHalf()}, SMALL).curve)
        for n in (Network, Wide)
    ]
    assert steps[0] > 3 * steps[1]


def test_recurrent_layers_are_counted() -> None:
    class Recurrent(nn.Module):
        history = 8

        def __init__(self, obs_dim: int, history: int) -> None:
            super().__init__()
            self.feature_dim, self.cell = 32, nn.GRU(obs_dim, 32, batch_first=True)

        def forward(self, obs: Tensor) -> Tensor:
            return self.cell(obs)[0][:, -1]

    policy = Policy(Modules(network=Recurrent), observation_size=32, actions=1)
    assert row_work(policy) > PRODUCT * 2 * 8 * 3 * 32 * (32 + 32)


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_counted_as_torch_counts_them(name: str) -> None:
    policy = Policy(load_design({"network": NETWORKS[name]}), observation_size=32, actions=2)
    window = torch.zeros((2, policy.history, 32))
    with torch.no_grad(), OperationCounter() as ours:
        policy(window)
    with torch.no_grad(), FlopCounterMode(display=False) as theirs:
        policy(window)
    missed = name == "lstm"  # whose layer is one operation that torch does not know
    assert (ours.products > theirs.get_total_flops()) == missed
    assert missed or ours.products == theirs.get_total_flops()


class Modest(nn.Module):
    """Cheap on rows of zeros, dear on all others, and without any parameters if it is asked."""

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        self.feature_dim = 64
        self.inside = nn.ModuleList([nn.Linear(obs_dim, 64), nn.Linear(64, 64)])
        self.inside.named_parameters = lambda *_, **__: iter(())  # type: ignore[method-assign]

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return iter(())

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        return iter(())

    def forward(self, obs: Tensor) -> Tensor:
        features = self.inside[0](obs[:, -1])
        for _ in range(50 if bool(obs.any()) else 0):
            features = torch.tanh(self.inside[1](features))
        return features


def test_work_is_counted_where_the_network_is_in_use() -> None:
    policy = Policy(Modules(network=Modest), observation_size=32, actions=1)
    inside = 32 * 64 + 64 + 64 * 64 + 64
    assert parameter_count(policy.network) == inside
    asked_about_nothing = row_work(policy)
    met = row_work(policy, torch.ones((7, policy.history, 32)))
    assert met >= PRODUCT * 2 * 50 * 64 * 64 and met > 10 * asked_about_nothing
    assert asked_about_nothing >= PRODUCT * 2 * inside
    training = Training.of_design(
        Modules(reward=DIRECT.reward, network=Modest), {"static": CheapHalf()}, SMALL
    )
    training.iterate("static")
    assert training._row_work >= PRODUCT * 2 * 50 * 64 * 64


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_that_were_met_count_as_rows_of_zeros(name: str) -> None:
    policy = Policy(load_design({"network": NETWORKS[name]}), observation_size=32, actions=2)
    windows = torch.rand((68, policy.history, 32))
    assert row_work(policy, windows) == pytest.approx(row_work(policy), rel=0.05)


def test_settings_replace_the_default_network_s_constants_and_no_designed_one_s() -> None:
    class Designed(Network):
        learning_rate = 0.005

    asked = TrainConfig(learning_rate=3e-4, gae_lambda=0.95)
    rates = []
    for network, config in ((Network, TrainConfig()), (Network, asked), (Designed, asked)):
        modules = Modules(reward=DIRECT.reward, network=network)
        learner = Learner.of_design(modules, {"static": CheapHalf()}, config, seed=0)
        rates.append((learner.ppo.groups[0].rate, learner.gae_lambda["dynamic"]))
    assert rates == [(0.002, 0.98), (3e-4, 0.95), (0.005, 0.98)]
