"""PPO's update: the gradient by hand against autograd, the surrogate, batches of all shapes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from se_rl.modules.defaults import Communication, Modules, Network
from se_rl.rl.advantages import advantages
from se_rl.rl.batch import Batch
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.ppo import PPO, PPOSettings
from se_rl.rl.rollout import Diverged, Rollout


def rollout(
    policy: Policy, *, steps: int = 6, orders: int = 8, used: int = 1, seed: int = 0
) -> Rollout:
    """Random samples whose log-probs and values belong to the policy."""
    g = torch.Generator().manual_seed(seed)
    size = policy.observation_size + policy.message_size
    observations = torch.randn((steps, orders, size), generator=g)
    outputs = torch.randn((steps, orders, used), generator=g)
    values = torch.randn((steps, orders), generator=g)
    log_probs = -1.0 + 0.3 * torch.randn((steps, orders), generator=g)
    kept = torch.ones(orders, dtype=torch.bool)
    return Rollout(
        observations, outputs, log_probs, values, torch.zeros((0, steps, orders)), (), kept
    )


def gradient_of(
    policy: Policy, batch: Batch, config: PPOSettings, *, bonus: float
) -> list[torch.Tensor]:
    """The loss's terms and every gradient, as the learner finds them."""
    ppo = PPO(policy, learning_rate=1e-3, entropy_bonus=bonus, settings=config)
    terms = ppo._backward(batch, torch.arange(batch.units))
    return [terms, *(p.grad.clone() for p in policy.parameters())]


def by_definition(
    policy: Policy, batch: Batch, config: PPOSettings, *, bonus: float
) -> list[torch.Tensor]:
    """The same by the formulas of the paper and autograd alone."""
    used = batch.columns.shape[1] - 4
    old_log_prob, old_value, advantage, target = batch.columns[:, used:].unbind(1)
    mean, value, _ = policy(batch.windows(torch.arange(batch.units)), batch.place)
    shift = policy.log_prob(mean, batch.columns[:, :used], batch.place) - old_log_prob
    ratio = torch.exp(shift)
    bounded = ratio.clamp(1 - config.clip, 1 + config.clip)
    policy_loss = -torch.minimum(ratio * advantage, bounded * advantage).mean()
    squared = (value - target).square()
    if config.value_clip > 0:
        near = old_value + (value - old_value).clamp(-config.value_clip, config.value_clip)
        squared = torch.maximum(squared, (near - target).square())
    value_loss = 0.5 * squared.mean()
    entropy = policy.noise(batch.place, used).sum()
    if policy.chooses:
        logs = torch.log_softmax(mean, dim=1)
        entropy = -(torch.exp(logs) * logs).sum(1).mean()
    loss = policy_loss + config.value_weight * value_loss - bonus * entropy
    gradients = torch.autograd.grad(
        batch.weight * loss, list(policy.parameters()), materialize_grads=True
    )
    clipped = ((ratio - 1).abs() > config.clip).float().mean()
    return [
        torch.stack([policy_loss, value_loss, (ratio - 1 - shift).mean(), clipped]).detach(),
        *gradients,
    ]


class Automatic(Network):
    """The default with a forward of its own, which the gradient by hand does not know."""

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    used=st.sampled_from([1, 2]),
    orders=st.integers(2, 300),
    value_clip=st.sampled_from([0.0, 0.2]),
    bonus=st.sampled_from([0.0, 0.01]),
    place=st.sampled_from([0, 1]),
    network=st.sampled_from([Network, Automatic]),
)
def test_the_gradient_by_hand_equals_autograd(
    seed: int,
    used: int,
    orders: int,
    value_clip: float,
    bonus: float,
    place: int,
    network: type[Network],
) -> None:
    torch.manual_seed(seed)
    policy = Policy(Modules(network=network), observation_size=5, actions=2, worlds=2)
    config = PPOSettings(value_clip=value_clip)
    played = replace(rollout(policy, orders=orders, used=used, seed=seed), place=place)
    batch = Batch.of(played, torch.randn((6, orders)), policy=policy, weight=0.3)
    expected = by_definition(policy, batch, config, bonus=bonus)
    found = gradient_of(policy, batch, config, bonus=bonus)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-6)


def choosing(choices: int) -> Policy:
    policy = Policy(Modules(), observation_size=5, actions=choices)
    policy.chooses = True
    return policy


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), bonus=st.sampled_from([0.0, 0.01]))
def test_the_gradient_of_choices_equals_autograd(seed: int, bonus: float) -> None:
    torch.manual_seed(seed)
    policy = choosing(4)
    played = rollout(policy, seed=seed)
    chosen = torch.randint(4, played.outputs.shape).float()
    batch = Batch.of(replace(played, outputs=chosen), torch.randn((6, 8)), policy=policy)
    expected = by_definition(policy, batch, PPOSettings(), bonus=bonus)
    found = gradient_of(policy, batch, PPOSettings(), bonus=bonus)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-6)


def test_choices_are_drawn_from_the_softmax() -> None:
    policy = choosing(3)
    scores = torch.tensor([0.0, 1.0, -1.0])[:, None].expand(3, 20_000)
    noise = policy.draw_noise(1, 3, 20_000, generator=torch.Generator().manual_seed(0), place=0)
    taken = policy.take(scores, noise[0])
    shares = torch.bincount(taken[0].long(), minlength=3) / 20_000
    torch.testing.assert_close(shares, torch.softmax(scores[:, 0], 0), atol=0.015, rtol=0.0)
    assert (policy.take(scores) == 1.0).all()
    log_prob = policy.log_prob(scores.t(), taken.t())
    torch.testing.assert_close(log_prob, torch.log_softmax(scores, 0)[taken[0].long(), 0])


def test_a_better_choice_becomes_the_usual_one() -> None:
    torch.manual_seed(0)
    policy = choosing(3)
    played = rollout(policy, orders=200)
    chosen = torch.randint(3, played.outputs.shape).float()
    even = torch.full_like(played.log_probs, -math.log(3.0))
    played = replace(played, outputs=chosen, log_probs=even)
    batch = Batch.of(played, (chosen[..., 0] == 2.0).float(), policy=policy)
    stats = PPO(policy, learning_rate=1e-2, settings=PPOSettings(kl_stop=9.0)).update([batch])
    mean, _, _ = policy(batch.windows(torch.arange(batch.units)))
    assert float(torch.softmax(mean, 1)[:, 2].detach().mean()) > 0.38
    assert stats.entropy == pytest.approx(math.log(3.0))


def test_nothing_is_learned_from_steps_after_the_end() -> None:
    policy = Policy(Modules(), observation_size=2)
    played = rollout(policy, steps=3, orders=4)
    live = torch.tensor([[1.0, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1]])
    played = replace(played, fields=live[None], field_names=("live",))
    estimates = torch.arange(12.0).view(3, 4)
    batch = Batch.of(played, estimates, policy=policy)
    assert batch.units == 9
    samples = batch.samples(torch.arange(9))
    assert samples.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 11]
    scaled = batch.columns[samples, -2]
    assert float(scaled.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(scaled.std()) == pytest.approx(1.0, abs=1e-5)


def test_the_default_network_is_fused_and_no_other_form_of_it() -> None:
    class Bolder(Network):
        exploration = 1.0

    class Other(Network):
        def forward(self, obs: Tensor) -> Tensor:
            return super().forward(obs) * 2.0

    def fused(network: type[Network]) -> bool:
        return FusedPolicy.of(Policy(Modules(network=network), observation_size=3)) is not None

    assert fused(Network) and fused(Bolder) and not fused(Other)


def test_an_update_moves_the_weights_and_repeats_bit_for_bit() -> None:
    def updated() -> list[torch.Tensor]:
        torch.manual_seed(1)
        policy = Policy(Modules(), observation_size=5, actions=1)
        before = [p.detach().clone() for p in policy.parameters()]
        batch = Batch.of(rollout(policy, orders=64), torch.randn((6, 64)), policy=policy)
        PPO(policy, learning_rate=1e-3).update([batch])
        assert all(
            not torch.equal(old, new) for old, new in zip(before, policy.parameters(), strict=True)
        )
        return [p.detach().clone() for p in policy.parameters()]

    for one, two in zip(updated(), updated(), strict=True):
        assert torch.equal(one, two)


def test_two_worlds_enter_one_step_with_their_weights() -> None:
    torch.manual_seed(0)
    policy = Policy(Modules(), observation_size=5, actions=2)
    config = PPOSettings(minibatches=1)
    plays = [rollout(policy, used=used, seed=used) for used in (1, 2)]
    ppo = PPO(policy, learning_rate=1e-3, settings=config)

    def gradients(weights: tuple[float, float]) -> torch.Tensor:
        for p in policy.parameters():
            p.grad.zero_()
        for play, weight, seed in zip(plays, weights, (5, 6), strict=True):
            g = torch.Generator().manual_seed(seed)
            batch = Batch.of(play, torch.randn((6, 8), generator=g), policy=policy, weight=weight)
            ppo._backward(batch, torch.arange(batch.units))
        return torch.cat([p.grad.reshape(-1).clone() for p in policy.parameters()])

    both = gradients((0.3, 0.7))
    torch.testing.assert_close(
        both, 0.3 * gradients((1.0, 0.0)) + 0.7 * gradients((0.0, 1.0)), rtol=1e-4, atol=1e-6
    )


def test_a_world_moves_its_own_heads_and_the_features_of_both() -> None:
    torch.manual_seed(0)
    policy = Policy(Modules(), observation_size=5, actions=2, worlds=2)
    played = replace(rollout(policy, used=2), place=1)
    batch = Batch.of(played, torch.randn((6, 8)), policy=policy)
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    PPO(policy, learning_rate=1e-3).update([batch])
    after = policy.state_dict()
    for name, own in (("heads.weight", 3), ("heads.bias", 3), ("log_std", 2)):
        assert torch.equal(after[name][:own], before[name][:own])
        assert not torch.equal(after[name][own:], before[name][own:])
    assert not torch.equal(after["network.first.weight"], before["network.first.weight"])


def test_the_noise_ends_where_the_design_says() -> None:
    policy = Policy(Modules(), observation_size=3, actions=2, worlds=2)
    ppo = PPO(policy, learning_rate=1e-3, noise=(1.0, 0.25))
    found = []
    for left in (1.0, 0.5, 0.0):
        ppo.anneal(left)
        found.append(torch.exp(policy.log_std.detach()))
    torch.testing.assert_close(
        torch.stack(found), torch.tensor([1.0, 0.5, 0.25])[:, None].expand(3, 4)
    )
    with torch.no_grad():
        policy.log_std.fill_(math.log(0.1))  # noise that learning took away does not come back
    ppo.anneal(0.5)
    torch.testing.assert_close(torch.exp(policy.log_std.detach()), torch.full((4,), 0.1))


def test_advantages_equal_their_definition() -> None:
    g = torch.Generator().manual_seed(3)
    rewards, values = torch.randn((5, 4), generator=g), torch.randn((5, 4), generator=g)
    gamma, lam = 0.9, 0.8
    following = torch.cat([values[1:], torch.zeros((1, 4))])
    delta = rewards + gamma * following - values
    expected = torch.stack(
        [sum((gamma * lam) ** k * delta[t + k] for k in range(5 - t)) for t in range(5)]
    )
    torch.testing.assert_close(advantages(rewards, values, gamma=gamma, lam=lam), expected)


def test_windows_show_the_past_and_zeros_before_it() -> None:
    class Remembering(Network):
        history = 3

    policy = Policy(Modules(network=Remembering), observation_size=2)
    played = rollout(policy, steps=4, orders=2)
    batch = Batch.of(played, torch.zeros((4, 2)), policy=policy)
    windows = batch.windows(torch.arange(8)).view(4, 2, 3, 2)
    assert torch.equal(
        windows[0, 1], torch.stack([torch.zeros(2), torch.zeros(2), played.observations[0, 1]])
    )
    assert torch.equal(windows[3, 0], played.observations[1:4, 0])


def test_messages_are_learned_end_to_end() -> None:
    torch.manual_seed(0)
    policy = Policy(Modules(), observation_size=3, agents=2, message_size=4)
    ppo = PPO(policy, learning_rate=1e-3)
    batch = Batch.of(rollout(policy, orders=8), torch.randn((6, 8)), policy=policy)
    ppo._backward(batch, torch.arange(batch.units))
    assert isinstance(policy.communication, Communication)
    for layer in (policy.speak, policy.communication.mix):
        assert isinstance(layer, nn.Linear) and layer.weight.grad.abs().max() > 0


def test_broken_markets_are_dropped_and_none_left_is_a_reason() -> None:
    policy = Policy(Modules(), observation_size=3)
    played = rollout(policy, orders=4)
    played.kept[1] = False
    assert Batch.of(played, torch.zeros((6, 4)), policy=policy).units == 18
    played.kept[:] = False
    with pytest.raises(Diverged, match="broke"):
        Batch.of(played, torch.zeros((6, 4)), policy=policy)


def test_nan_ends_the_update_with_a_reason() -> None:
    policy = Policy(Modules(), observation_size=3)
    batch = Batch.of(rollout(policy), torch.full((6, 8), torch.nan), policy=policy)
    with pytest.raises(Diverged, match="not finite"):
        PPO(policy, learning_rate=1e-3).update([batch])


@given(steps_left=st.integers(1, 400), multiple=st.floats(0.25, 4.0), output=st.floats(-30, 30))
def test_an_output_of_zero_is_the_neutral_slice_and_all_ratios_are_legal(
    steps_left: int, multiple: float, output: float
) -> None:
    neutral, action_map = Neutral(multiple, -1.0), ActionMap()
    zero = action_map.ratio(
        torch.zeros(1, dtype=torch.float64), steps_left=steps_left, neutral=neutral
    )
    expected = 1.0 if steps_left == 1 else min(1.0, multiple / steps_left)
    assert float(zero) == pytest.approx(expected, rel=1e-9)
    moved = float(action_map.ratio(torch.tensor([output]), steps_left=steps_left, neutral=neutral))
    assert 0.0 <= moved <= 1.0 and (steps_left > 1 or moved == 1.0)
    assert float(action_map.offset(torch.zeros(1), neutral=neutral)) == -1.0


def test_log_prob_is_the_normal_density() -> None:
    policy = Policy(Modules(), observation_size=3, actions=2)
    mean, outputs = torch.tensor([[0.1, -0.2]]), torch.tensor([[0.5, 0.7]])
    normal = torch.distributions.Normal(mean, torch.exp(policy.log_std.detach()))
    torch.testing.assert_close(
        policy.log_prob(mean, outputs).detach(), normal.log_prob(outputs).sum(-1)
    )
    assert math.isclose(
        PPO(policy, learning_rate=1e-3).entropy(), float(normal.entropy().sum()), rel_tol=1e-5
    )


def test_a_batch_smaller_than_its_minibatches_is_learned_from() -> None:
    torch.manual_seed(0)
    policy = Policy(Modules(), observation_size=3, actions=1)
    batch = Batch.of(rollout(policy, steps=1, orders=3), torch.randn((1, 3)), policy=policy)
    assert math.isfinite(PPO(policy, learning_rate=1e-3).update([batch]).policy_loss)
