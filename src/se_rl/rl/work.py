"""Budgets count work, not seconds, so that a result does not depend on a busy machine.

Work is steps times what a step costs; one unit is about what one core of a small server does in a
second. The model is fixed and deterministic: a design with a network twice as expensive gets fewer
steps for the same budget, on every machine the same number.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from se_rl.rl.policy import Policy

FLOPS_PER_UNIT = 4e10
"""Small matrix products of one core."""
STEPS_PER_UNIT = {"static": 2e6, "dynamic": 1.2e5}
"""Order steps of a world on one core, fields and observation included; others count as static."""
BACKWARD = 2.0
"""A backward pass costs about twice a forward one."""


def work_of_step(world: str, *, flops: float, epochs: int, talks: bool) -> float:
    """Work of one order step: the world's own, one forward pass to act, and the passes to learn.

    A policy that `talks` to others learns what to say in passes of their own.
    """
    passes = 1.0 + epochs * (1.0 + BACKWARD)
    if talks:
        passes += epochs * (1.0 + BACKWARD)
    steps_per_unit = STEPS_PER_UNIT.get(world, STEPS_PER_UNIT["static"])
    return 1.0 / steps_per_unit + passes * flops / FLOPS_PER_UNIT


def forward_flops(policy: Policy, windows: Tensor | None = None) -> float:
    """Floating-point operations of one row through the policy.

    Matrix products as counted, recurrent layers by their weights, and never less than one use of
    every parameter. `windows` [row, history, size] are observations that it met; without any it is
    asked about nothing, where a network may be cheaper than it is in use.
    """
    if windows is None:
        size = policy.observation_size + policy.message_size
        windows = torch.zeros((max(2, policy.agents), policy.history, size))
    recurrent = 0.0
    for module in own_modules(policy):
        if isinstance(module, nn.RNNBase):
            recurrent += 2.0 * parameter_count(module) * policy.history
    with torch.no_grad(), ProductCounter() as counter:
        policy(windows.to(policy.log_std.device))
    counted = counter.flops / len(windows) + recurrent
    return max(counted, 2.0 * parameter_count(policy))


def own_modules(module: nn.Module) -> list[nn.Module]:
    """A module and all inside it, each once, whatever methods their classes override."""
    found: dict[int, nn.Module] = {}
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        for child in vars(one)["_modules"].values():
            if child is not None:
                waiting.append(child)
    return list(found.values())


def parameter_count(module: nn.Module) -> int:
    """Numbers in a module's parameters, each once, whatever its `parameters()` says."""
    sizes: dict[int, int] = {}
    for one in own_modules(module):
        for parameter in vars(one)["_parameters"].values():
            if parameter is not None:
                sizes[id(parameter)] = parameter.numel()
    return sum(sizes.values())


class ProductCounter(TorchDispatchMode):
    """Counts what torch.utils.flop_counter.FlopCounterMode counts.

    That one imports torch's compiler: a second and 70 MB for every sandbox.
    """

    flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if count := flop_registry.get(func._overloadpacket):
            self.flops += count(*args, **(kwargs or {}), out_val=out)
        return out
