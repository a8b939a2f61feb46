"""Budgets count work, not seconds, so that a result does not depend on a busy machine.

Work is steps times what a step costs; one unit is about what one core of a small server does in a
second, whatever the network. The model is fixed and deterministic: a design with a network twice
as expensive gets fewer steps for the same budget, on every machine the same number. Its constants
are fitted to the measured seconds of many networks; `se-rl bench ppo` shows how well they hold.
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from se_rl.environments.outside.lot_world import NAMES
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.policy import Policy

STEPS_PER_UNIT = {"static": 2e6, "dynamic": 1.2e5, "qrm": 2.9e5, **dict.fromkeys(NAMES, 8.5e3)}
"""Order steps of a world on one core, fields and observation included; others count as static."""
PASS = 1.8e-7
"""Work of a row that passes forward and backward through a network of nothing: the loss."""
INPUT = 7.2e-9
"""The same for every number of its newest observation: what is kept, gathered and looked at."""
EARLIER = 3e-10
"""The same for every number of the observations before that one, which are gathered with it."""
PRODUCT = 5.0e-11
"""The same for every floating-point operation of a matrix product that goes forward."""
ELEMENT = 2.8e-10
"""The same for every number that an operation writes."""
CURVE = 2.7e-9
"""The same, on top, for every number that is an exponential function, a root or a logarithm."""
ACT = 3.5e-7
"""Work of a row that passes forward alone, when the policy acts on few rows at a time."""
ACTING = 0.5
"""The share of a pass that acting takes on top."""
FIXED = 0.25
"""The share of a usual update's work that does not depend on the number of its orders."""
ROWS = 64
"""Books whose rows are counted together where none were met."""

CURVES = {
    *("tanh", "gelu", "silu", "elu", "selu", "celu", "mish", "softplus", "hardswish"),
    *("exp", "expm1", "log", "log1p", "erf", "sin", "cos", "sqrt", "rsqrt", "pow", "logsumexp"),
    *("_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "native_batch_norm"),
}
"""Operations that cost several times what an addition costs; a sigmoid does not."""
REDUCTIONS = {
    *("sum", "mean", "prod", "amax", "amin", "max", "min", "std", "var", "var_mean", "norm"),
    *("argmax", "argmin", "any", "all", "median", "nansum", "linalg_vector_norm", "logsumexp"),
}
"""Operations that read far more than they write: what they read counts."""
FACTORISED = re.compile(
    "_?(linalg_|cholesky|triangular_solve|lu_|qr|svd|geqrf|ormqr|orgqr|pinverse).*"
)
"""Operations whose cost grows with the cube of a matrix's side, though they write its square."""
FACTOR = 10
"""Products of numbers that such an operation makes, over its numbers times the side."""


def work_of_step(world: str, *, row: float, epochs: int, talks: bool) -> float:
    """Work of one order step: the world's own, one forward pass to act, and the passes to learn.

    `row` is the work of one row's passes to learn (`row_work`). A policy that `talks` to others
    learns what to say in passes of their own.
    """
    passes = ACTING + epochs * (2.0 if talks else 1.0)
    steps_per_unit = STEPS_PER_UNIT.get(world, STEPS_PER_UNIT["static"])
    return 1.0 / steps_per_unit + ACT + passes * row


def work_place(played: str, name: str) -> str:
    """Where the steps of a world are counted: by the world's own name where it has a price, else by
    the kind that it is called in a training.
    """
    return played if played in STEPS_PER_UNIT else name


def batch_overhead(batch: float) -> float:
    """What an order step costs in an update of `batch` times the usual size, against the usual one.

    Part of an update's work is the same however many orders there are.
    """
    return 1.0 - FIXED + FIXED / batch


def row_work(policy: Policy, windows: Tensor | None = None) -> float:
    """Work of one row that passes forward and backward through the policy.

    Counted on `windows` [row, history, size] that it met; without any it is asked about nothing,
    where a network may be cheaper than it is in use. No less than one use of every parameter.
    """
    size = policy.observation_size + policy.message_size
    if windows is None:
        windows = torch.zeros((ROWS * policy.agents, policy.history, size))
    with torch.no_grad(), OperationCounter() as counted:
        policy(windows.to(policy.log_std.device))
    rows = len(windows)
    products = max(counted.products / rows, 2.0 * parameter_count(policy.network))
    work = PASS + (INPUT + EARLIER * (policy.history - 1)) * size + PRODUCT * products
    if FusedPolicy.of(policy) is not None:  # its operations on single numbers cost next to nothing
        return work
    return work + (ELEMENT * counted.elements + CURVE * counted.curves) / rows


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


class OperationCounter(TorchDispatchMode):
    """Counts operations: those of matrix products, and the numbers that all others write.

    Products are what torch.utils.flop_counter.FlopCounterMode counts, which imports torch's
    compiler: a second and 70 MB for every sandbox.
    """

    products = 0
    elements = 0
    curves = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if count := flop_registry.get(packet):
            self.products += count(*args, **(kwargs or {}), out_val=out)
        elif packet is torch.ops.aten.mkldnn_rnn_layer:  # torch counts none of its products
            rows, *weights = args[:3]
            self.products += 2 * rows[..., 0].numel() * sum(map(torch.numel, weights))
        elif not func.is_view:
            self.products += hidden_products(packet.__name__, args, out)
        if not func.is_view:
            written = sum(map(torch.numel, _tensors(out)))
            if packet.__name__ in REDUCTIONS:
                written = max(written, *map(torch.numel, _tensors(args)))
            self.elements += written
            if packet.__name__.rstrip("_") in CURVES:
                self.curves += written
        return out


def hidden_products(name: str, args: Any, out: Any) -> int:
    """Operations that torch does not count and whose outputs do not show: those of decompositions,
    of distances and of sliding windows."""
    written = sum(map(torch.numel, _tensors(out)))
    if name == "_cdist_forward":
        return 3 * written * int(args[0].shape[-1])
    if "pool" in name:  # a window for each number
        window = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else [1]
        return written * math.prod(window)
    if FACTORISED.fullmatch(name) and "norm" not in name:
        matrices = [one for one in _tensors(args) if one.ndim >= 2]
        return FACTOR * max((one.numel() * int(one.shape[-1]) for one in matrices), default=0)
    return 0


def _tensors(out: Any) -> list[Tensor]:
    """The tensors among what an operation returns."""
    found = out if isinstance(out, tuple | list) else (out,)
    return [one for one in found if isinstance(one, Tensor)]
