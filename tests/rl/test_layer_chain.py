"""Chains of layers are found in designed networks, and their passes by hand equal autograd's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from se_rl.modules.defaults import Modules, Network
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_design
from se_rl.rl.batch import Batch
from se_rl.rl.fused import AutogradPolicy, FusedPolicy, Passes
from se_rl.rl.layer_chain import chain_of
from se_rl.rl.policy import Policy

SIZE = 5
Forward = Callable[["Layers", Tensor], Tensor]


class Layers(nn.Module):
    """Three layers and whatever forward a test gives them."""

    def __init__(self, forward: Forward, *, width: int = 7, history: int = 1) -> None:
        super().__init__()
        self.feature_dim = width
        self.one = nn.Linear(SIZE * history, width)
        self.two = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self._forward = forward

    def forward(self, obs: Tensor) -> Tensor:
        return self._forward(self, obs)


CHAINS: dict[str, tuple[Forward, list[str]]] = {
    "linear": (lambda n, x: n.one(x.flatten(1)), [""]),
    "tanh": (lambda n, x: torch.tanh(n.one(x[:, -1])), ["tanh"]),
    "two of a kind": (
        lambda n, x: functional.silu(n.two(functional.silu(n.one(x.flatten(1))))),
        ["silu", "silu"],
    ),
    "unlike": (
        lambda n, x: functional.elu(n.two(functional.gelu(n.one(x.squeeze(1))))),
        ["gelu", "elu"],
    ),
    "rectified, then plain": (lambda n, x: n.two(torch.relu(n.one(x.flatten(1)))), ["relu", ""]),
    "the same layer twice": (
        lambda n, x: torch.tanh(n.two(torch.tanh(n.two(torch.relu(n.one(x.flatten(1))))))),
        ["relu", "tanh", "tanh"],
    ),
}
OTHERS: dict[str, Forward] = {
    "normalised": lambda n, x: torch.tanh(n.norm(n.one(x.flatten(1)))),
    "skip": lambda n, x: n.one(x.flatten(1)) + torch.tanh(n.two(n.one(x.flatten(1)))),
    "scaled": lambda n, x: 2.0 * torch.tanh(n.one(x.flatten(1))),
    "scaled inputs": lambda n, x: torch.tanh(n.one(0.5 * x.flatten(1))),
    "an input left out": lambda n, x: n.one(functional.pad(x.flatten(1)[:, 1:], (0, 1))),
    "turned over": lambda n, x: n.one(x.flatten(1).flip(1)),
    "activated twice": lambda n, x: torch.tanh(torch.tanh(n.one(x.flatten(1)))),
    "another slope": lambda n, x: functional.elu(n.one(x.flatten(1)), 0.5),
    "another gelu": lambda n, x: functional.gelu(n.one(x.flatten(1)), approximate="tanh"),
    "numbers of its own": lambda n, x: functional.linear(
        x.flatten(1), torch.ones(7, SIZE), torch.ones(7)
    ),
    "backwards through a layer": lambda n, x: torch.addmm(
        n.two.bias, n.one(x.flatten(1)), n.two.weight
    ),
    "an earlier result": lambda n, x: (torch.tanh(n.one(x.flatten(1))), n.one(x.flatten(1)))[0],
    "nothing": lambda n, x: x.flatten(1),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_seen(name: str) -> None:
    forward, activations = CHAINS[name]
    found = chain_of(Layers(forward), SIZE)
    assert found is not None and [layer.activation for layer in found] == activations


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_more_than_a_chain_is_none(name: str) -> None:
    assert chain_of(Layers(OTHERS[name]), SIZE) is None


def test_a_chain_on_windows_takes_all_of_them() -> None:
    whole = CHAINS["two of a kind"][0]
    assert chain_of(Layers(whole, history=3), SIZE, history=3) is not None
    newest = CHAINS["tanh"][0]
    assert chain_of(Layers(newest), SIZE, history=3) is None


def test_watching_draws_no_number_and_changes_nothing() -> None:
    network = Layers(CHAINS["unlike"][0])
    weights = [parameter.clone() for parameter in network.parameters()]
    before = torch.random.get_rng_state()
    chain_of(network, SIZE)
    assert torch.equal(before, torch.random.get_rng_state())
    for ours, theirs in zip(network.parameters(), weights, strict=True):
        assert torch.equal(ours, theirs) and ours.grad is None


def gradients(passes: Passes, policy: Policy, batch: Batch) -> list[Tensor]:
    """Outputs, and every gradient that the same derivatives by them make."""
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter)
    samples = torch.arange(3, 40)
    out = passes.forward(batch, samples).clone()
    passes.backward(torch.sin(torch.arange(out.numel()).view_as(out) * 1.0))
    grads = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
    return [out, *(grad.clone() for grad in grads)]


class Windows(Network):
    """The default on windows of three observations."""

    history = 3


def filtered(pool: Callable[[Tensor], Tensor], *, deep: bool = False) -> type[Network]:
    """A filter over windows of six observations, and a layer behind it where it is `deep`."""

    class Filtered(Network):
        history = 6

        def __init__(self, obs_dim: int, history: int) -> None:
            super().__init__(obs_dim, history)
            self.feature_dim = 7
            self.filter = nn.Conv1d(obs_dim, 7, 3)
            self.behind = nn.Linear(7, 7)

        def forward(self, obs: Tensor) -> Tensor:
            found = pool(functional.silu(self.filter(obs.transpose(1, 2))))
            return torch.tanh(self.behind(found)) if deep else found

    return Filtered


POOLED: dict[str, type[Network]] = {
    "mean": filtered(lambda x: x.mean(-1)),
    "largest": filtered(lambda x: x.amax(-1)),
    "last": filtered(lambda x: x[..., -1]),
    "mean, then a layer": filtered(lambda x: x.mean(-1), deep=True),
    "largest, then a layer": filtered(lambda x: x.amax(-1), deep=True),
}
UNPOOLED = {
    "first": filtered(lambda x: x[..., 0]),
    "all": filtered(lambda x: x.flatten(1)),
    "of outputs": filtered(lambda x: x.mean(1)),
    "twice": filtered(lambda x: x.mean(-1) + x.amax(-1)),
}


@pytest.mark.parametrize("name", UNPOOLED)
def test_what_is_more_than_a_filter_is_none(name: str) -> None:
    assert chain_of(UNPOOLED[name](SIZE, 6), SIZE, history=6) is None


def test_one_observation_has_no_stretches() -> None:
    short = POOLED["mean"](SIZE, 1)
    short.filter = nn.Conv1d(SIZE, 7, 1)
    assert chain_of(short, SIZE) is None


def designs() -> dict[str, Modules]:
    """Designs on chains: those above, and some on windows."""
    found = {}
    for name, (forward, _) in CHAINS.items():
        found[name] = Modules(network=lambda _, __, f=forward: Layers(f))  # type: ignore[arg-type]
    for name, network in (POOLED | {"windows": Windows}).items():
        found[name] = Modules(network=network)
    return found


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", designs())
def test_passes_by_hand_equal_autograd(name: str, place: int) -> None:
    torch.manual_seed(3)
    policy = Policy(designs()[name], observation_size=SIZE, worlds=2)
    with torch.no_grad():
        policy.heads.weight.normal_()
    seen = torch.randn(40 + 8 * policy.history, SIZE)
    batch = Batch(seen, torch.randn(48, 6), 8, policy.history, 1, place)
    by_hand = FusedPolicy.of(policy)
    assert by_hand is not None
    expected = gradients(AutogradPolicy(policy), policy, batch)
    for _ in range(2):  # the second time in used buffers
        for ours, theirs in zip(gradients(by_hand, policy, batch), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_default_with_another_constant_is_as_quick_as_the_default() -> None:
    source = KINDS["network"].default_source
    changed = source.replace("Module):\n", "Module):\n    entropy_bonus = 0.001\n")
    assert changed != source
    policy = Policy(load_design({"network": changed}), observation_size=SIZE)
    assert not isinstance(policy.network, Network) and FusedPolicy.of(policy) is not None
