"""Policies of one network with their weights side by side, asked and changed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn import functional

from se_rl.rl.action_laws import ActionLaw, ChoiceLaw, NormalLaw
from se_rl.rl.layer_chain import chain_of
from se_rl.rl.learner import Learner

NETWORK = "network."
PROBED_ROWS = 2
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "elu": functional.elu,
}


class Stack:
    """The policies of some learners whose networks are one class, and so have the same constants.

    Between updates the weights are the learners' own. `flat` [policy, weight] are those of some of
    them on the device, a row for each.
    """

    def __init__(self, learners: Sequence[Learner], device: torch.device) -> None:
        self.learners = tuple(learners)
        self.first = learners[0]
        self.policy = self.first.policy
        self._network = deepcopy(self.policy.network).to(device)
        self._shapes = {name: each.shape for name, each in self.policy.named_parameters()}
        ends = list(accumulate(shape.numel() for shape in self._shapes.values()))
        self._places = [slice(*pair) for pair in zip([0, *ends], ends, strict=False)]
        self.device = device
        self.moments = torch.zeros((2, len(learners), ends[-1]), device=device)
        """Adam's means of the gradients and of their squares [moment, policy, weight]."""
        self.steps = [0] * len(learners)
        self._chain = self._layers()
        self._all_features = self._side_by_side()

    def flat(self, who: Sequence[int]) -> Tensor:
        """The weights of some policies."""
        rows = [self.learners[i].ppo.groups[0].flat.detach() for i in who]
        return torch.stack(rows).to(self.device)

    def store(self, who: Sequence[int], flat: Tensor) -> None:
        """Give weights back to their policies."""
        for i, row in zip(who, flat.detach().cpu(), strict=True):
            self.learners[i].ppo.groups[0].flat.detach().copy_(row)

    def answering(self, flat: Tensor, place: int) -> Callable[[Tensor], Tensor]:
        """What answers windows [policy, n, history, size] with [actions + 1, policy, n]: mean
        outputs and value of the heads at a place, for policies of these weights."""
        named = self._named(flat)
        features = self._features_of(named)
        rows = self.policy.head_rows(place)
        weight, bias = named["heads.weight"][:, rows], named["heads.bias"][:, rows, None]

        def answer(windows: Tensor) -> Tensor:
            found = torch.baddbmm(bias, weight, features(windows).transpose(1, 2))
            return found.transpose(0, 1)

        return answer

    def law(self, flat: Tensor, place: int, *, used: int, to_noise: Tensor) -> ActionLaw:
        """How likely actions are that `used` numbers describe, for all rows; see `ActionLaw`.

        The derivatives by the noise go to `to_noise` [used, policy].
        """
        bonus = self.first.ppo.entropy_bonus
        if self.policy.chooses:
            return ChoiceLaw(bonus=bonus)
        noise = flat[:, self.noise_place(place, used)].t()
        return NormalLaw(noise, to_noise, bonus=bonus)

    def noise_place(self, place: int, used: int) -> slice:
        """The columns of `flat` that hold the noise of a world's first outputs."""
        start = self._places[list(self._shapes).index("log_std")].start
        start += place * self.policy.actions
        return slice(start, start + used)

    def _named(self, flat: Tensor) -> dict[str, Tensor]:
        named = {}
        for (name, shape), place in zip(self._shapes.items(), self._places, strict=True):
            named[name] = flat[:, place].unflatten(1, shape) if shape else flat[:, place.start]
        return named

    def _features_of(self, named: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """The features [policy, n, width] that weights by name find in windows."""
        if self._chain:
            layers = [
                (named[w].transpose(1, 2), named[b][:, None], act) for w, b, act in self._chain
            ]
            return partial(_through, layers)
        network = {}
        for name, each in named.items():
            if name.startswith(NETWORK):
                network[name[len(NETWORK) :]] = each
        return partial(self._all_features, network)

    def _layers(self) -> list[tuple[str, str, str]]:
        """Weights, bias and activation of a chain of layers, by name; nothing for other networks."""
        policy = self.policy
        found = chain_of(policy.network, policy.observation_size) if policy.history == 1 else None
        names = {parameter.data_ptr(): name for name, parameter in policy.named_parameters()}
        layers = []
        for layer in found or ():
            weight, bias = layer.weight.data_ptr(), layer.bias.data_ptr()
            layers.append((names[weight], names[bias], layer.activation))
        return layers

    def _features(self, network: dict[str, Tensor], windows: Tensor) -> Tensor:
        features: Tensor = functional_call(self._network, network, (windows,))
        return features

    def _one_by_one(self, network: dict[str, Tensor], windows: Tensor) -> Tensor:
        """For layers that torch cannot stack, recurrent ones."""
        found = []
        for i, own in enumerate(windows):
            found.append(self._features({name: each[i] for name, each in network.items()}, own))
        return torch.stack(found)

    def _side_by_side(self) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
        """How the features of all policies are found: at once, where torch can stack the layers."""
        size = self.policy.observation_size
        windows = torch.zeros((1, PROBED_ROWS, self.policy.history, size), device=self.device)
        network = {name: each[None] for name, each in self._network.named_parameters()}
        try:
            vmap(self._features)(network, windows)
        except RuntimeError:
            return self._one_by_one
        return vmap(self._features)


def _through(layers: Sequence[tuple[Tensor, Tensor, str]], windows: Tensor) -> Tensor:
    """A chain of layers on the newest observations."""
    given = windows[:, :, -1]
    for weight, bias, activation in layers:
        given = torch.baddbmm(bias, given, weight)
        if activation:
            given = ACTIVATIONS[activation](given)
    return given
