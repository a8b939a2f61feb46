"""One module on trial: how it is run, timed, built and saved, and the lines that refuse it.

What all kinds of module share; what is particular to one stands in its file of `kinds`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from se_rl.modules.contracts import LIMITS
from se_rl.modules.dropout import without_dropout
from se_rl.modules.errors import ModuleError, need, one_line
from se_rl.modules.kinds.kind import BEHAVIOUR, Floats, ModuleKind

Shape = tuple[int, ...]

ROWS = 4096
"""Rows of the large batch."""
SPLIT = 600
"""Rows that are also tried in parts and in reverse."""
SINGLE = 8
"""Rows tried alone."""
SAME = 0.01
"""How far rounding may move a value when the batch changes, in deviations of the values."""
PATIENCE = 4.0
"""How many times slower than the limit a module may be: this machine may be a slow one."""


class ModuleProbe:
    """One module on trial: runs it, digests its outputs, refuses what breaks the contract."""

    def __init__(self, kind: ModuleKind, salt: int) -> None:
        entry = kind.contract.entry
        self.kind = kind
        self.name = f"{entry}.forward" if kind.contract.is_class else entry
        self.digest = hashlib.sha256()
        self.warnings: list[str] = []
        self._salt = salt
        self._taken: list[object] = []

    def attempt(self, call: Callable[..., Any], *inputs: Any, what: str) -> Any:
        """Call the module's code; what it raises becomes one line."""
        # take the free pieces of memory of every small size that would be next
        for size in range(512 * self._salt):
            self._taken += [bytes(size % 512), float(size), object()]
        try:
            return call(*inputs)
        except Exception as error:
            if isinstance(error, ModuleError) or is_out_of_memory(error):
                raise
            line = one_line(error, self.kind.code_type)
            raise ModuleError(f"{line}; this came with {what}") from error

    def run(
        self, call: Callable[..., Any], given: Tensor, *more: Any, what: str, shape: Shape
    ) -> Tensor:
        """The output on `given`, of the right kind, finite, with the input left alone."""
        before = given.clone()
        out = self.attempt(call, given, *more, what=what)
        need(
            torch.equal(given, before),
            f"{self.name} changes its input; make new tensors, no in-place operations on it",
        )
        self._check_type(out, what=what, shape=shape)
        out = out.detach()
        bad = out[~torch.isfinite(out)]
        need(
            not len(bad),
            f"{self.name} is not finite ({bad[:1].sum():g}) in {len(bad):,} of {out.numel():,}"
            f" values on {what}; guard divisions, roots, logs and exponentials (clamp, + 1e-6)",
        )
        self.digest.update(np.ascontiguousarray(out.numpy()).tobytes())
        return out

    def _check_type(self, out: Any, *, what: str, shape: Shape) -> None:
        seen = list(getattr(out, "shape", ()))
        wanted = list(shape)
        need(
            isinstance(out, Tensor),
            f"{self.name} returned {type(out).__name__}; return a float tensor of shape {wanted}",
        )
        need(
            seen == wanted,
            f"{self.name} returned shape {seen} for {what}, expected {wanted}; return one row each",
        )
        wide = out.dtype == torch.float64 and self.kind.may_be_double
        need(
            wide or out.dtype == torch.float32,
            f"{self.name} returned {out.dtype}, expected torch.float32; use .float()",
        )

    def batches(
        self, call: Callable[..., Any], rows: Tensor, *, edges: Mapping[str, Tensor], tail: Shape
    ) -> Tensor:
        """Batches of every kind must give each row the same finite value, in time; the values on
        `rows`."""

        def run(given: Tensor, what: str) -> Tensor:
            return self.run(call, given, what=what, shape=(len(given), *tail))

        few = rows[:SPLIT]
        what = f"{len(rows):,} recorded rows"
        alone = torch.cat([run(row, "a batch of 1 row") for row in few[:SINGLE].split(1)])
        values, seconds = timed(run, rows, what)
        self.in_time(seconds, len(rows), "row")
        need(
            torch.equal(values, run(rows, what)),
            f"{self.name} gives other values when called again with the same rows; use no counters,"
            " clocks, hashes of objects or random numbers (no F.dropout; an nn.Dropout in __init__"
            " is switched off)",
        )
        for edge_name, edge in edges.items():
            run(edge, edge_name)
        split = few.tensor_split([SPLIT // 3])
        parts = torch.cat([run(part, "a part of the rows") for part in split])
        turned = run(few.flip(0), "the rows in reverse").flip(0)
        self._check_rows(values, parts, turned, alone)
        return values

    def _check_rows(self, values: Tensor, *others: Tensor) -> None:
        """Values are those of the same rows in other batches, and not too large."""
        moved = max(float((other - values[: len(other)]).abs().max()) for other in others)
        largest = float(values.abs().max())
        need(
            moved <= SAME * float(values.std()) + 1e-6 * largest,
            f"{self.name} gives a row another value (by {moved:.3g}) when other rows of the batch"
            " change; use no mean, sum, sort, norm or BatchNorm over the batch (dim 0)",
        )
        most = LIMITS.reward_magnitude
        need(
            largest <= most,
            f"{self.name} reaches {largest:.3g} on recorded rows;"
            f" scale it down to at most {most:g}",
        )

    def in_time(self, seconds: float, count: int, unit: str) -> None:
        """No slower than allowed, with patience."""
        each = 1e6 * seconds / count
        most = LIMITS.microseconds_per_row
        need(
            each <= PATIENCE * most,
            f"{self.name} takes {each:.0f} microseconds a {unit}, {most:g} are allowed;"
            f" use fewer or smaller layers and no loop over each {unit}",
        )

    def build(self, factory: Callable[..., Any], *sizes: int) -> nn.Module:
        """A live network or communication of allowed size."""

        def make() -> nn.Module:
            return without_dropout(factory(*sizes))

        live: nn.Module = self.attempt(make, what=f"{self.name.split('.')[0]}{sizes}")
        parameters = list(live.parameters())
        most = LIMITS.parameters
        need(
            not any(map(is_lazy, parameters)),
            "lazy layers have no size yet; use nn.Linear with sizes from obs_dim",
        )
        count = sum(p.numel() for p in parameters)
        need(
            count <= most,
            f"it has {count:,} parameters, at most {most:,} are allowed; use smaller layers",
        )
        return live

    def learns(self, live: nn.Module, rows: Tensor) -> None:
        """The gradient of the output reaches the parameters and is finite."""
        trainable = {name: p for name, p in live.named_parameters() if p.requires_grad}
        if not trainable:
            return
        out = live(rows)
        need(
            out.requires_grad,
            f"no gradient flows through {self.name}; use no detach(), no_grad() or numpy in it",
        )
        with torch.no_grad():
            acting = live(rows)
        need(
            float((out.detach() - acting).abs().max()) <= SAME * float(acting.std()) + 1e-6,
            f"{self.name} gives other values where gradients are wanted than where it acts;"
            " do not ask for the mode of gradients",
        )
        self.attempt(
            (out * normal(out.shape, 3)).sum().backward,
            what="the backward pass; avoid in-place operations",
        )
        gradients: dict[str, Tensor] = {}
        for name, parameter in trainable.items():
            gradients[name] = torch.zeros(1) if parameter.grad is None else parameter.grad
        self._check_gradients(gradients)
        for name in sorted(gradients):
            self.digest.update(gradients[name].numpy().tobytes())

    def _check_gradients(self, gradients: Mapping[str, Tensor]) -> None:
        need(
            all(torch.isfinite(gradient).all() for gradient in gradients.values()),
            f"the gradient of {self.name} is not finite; guard roots, norms and divisions (+ 1e-6)",
        )
        idle = [name for name, gradient in gradients.items() if not gradient.any()]
        need(
            len(idle) < len(gradients),
            f"no gradient reaches the parameters of {self.name}; use them for its output",
        )
        if idle:
            self.warnings.append(
                f"no_gradient: nothing reaches {', '.join(idle[:5])}; use them or leave them out"
            )

    def survives_saving(
        self, live: nn.Module, build: Callable[[], nn.Module], rows: Tensor
    ) -> None:
        """A new instance with the saved weights gives the same output; the weights are moved
        before, as training would."""
        with torch.no_grad():
            for seed, parameter in enumerate(live.parameters()):
                parameter.add_(0.1 * normal(parameter.shape, seed))
        saved: dict[str, Tensor] = {}
        for name, value in live.state_dict().items():
            saved[name] = torch.from_numpy(value.detach().numpy().copy())
        torch.manual_seed(1)
        twin = build()
        self.attempt(
            twin.load_state_dict, saved, what="load_state_dict; make all layers in __init__"
        )
        with torch.no_grad():
            one = live(rows)
            other = twin(rows)
        need(
            float((one - other).abs().max()) <= SAME * float(one.std()) + 1e-6,
            f"{self.name} gives other values after saving and loading; keep every tensor that"
            " matters in nn.Parameter or register_buffer",
        )


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that the sandbox's memory is used up; the words are torch's."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def timed(call: Callable[..., Any], *inputs: Any) -> tuple[Any, float]:
    """What a call returns and its CPU seconds: a busy machine shall refuse nobody."""
    started = time.process_time()
    return call(*inputs), time.process_time() - started


def normal(shape: Shape, seed: int) -> Tensor:
    """Fixed normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def mixed(count: int) -> Tensor:
    """Places of at most ROWS rows out of `count`, in no order."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:ROWS]


def scaled(values: Tensor) -> Floats:
    """BEHAVIOUR numbers of mean 0 and deviation 1: the framework takes the scale out as well."""
    values = values[:BEHAVIOUR].double()
    standard = (values - values.mean()) / values.std().clamp(min=1e-12)
    return standard.float().numpy()
