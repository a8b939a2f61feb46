"""One module on trial: how it is run, timed, built and saved, and the lines that refuse it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from se_rl.modules.contracts import CONTRACTS, LIMITS
from se_rl.modules.loading import ModuleError, one_line

Shape = tuple[int, ...]

SPLIT, SINGLE = 600, 8
"""Rows that are also tried in parts and in reverse, and rows tried alone."""
SAME = 0.01
"""How far rounding may move a value when the batch changes, in standard deviations of the values."""
PATIENCE = 4.0
"""How many times slower than the limit a module may be: this machine may be a slow one."""


def need(fine: object, message: str) -> None:
    """Refuse the module with this line unless all is fine."""
    if not fine:
        raise ModuleError(message)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that the sandbox's memory is used up."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(
        error
    )  # the words are torch's


class ModuleProbe:
    """One module on trial: runs it, digests its outputs, refuses what breaks the contract."""

    def __init__(self, code_type: str, salt: int) -> None:
        contract = CONTRACTS[code_type]
        self.code_type, self._salt, self._taken = code_type, salt, list[object]()
        self.name = (
            f"{contract.entry}.forward"
            if contract.signature.startswith("class")
            else contract.entry
        )
        self.digest = hashlib.sha256()
        self.warnings: list[str] = []

    def attempt(self, call: Callable[..., Any], *inputs: Any, what: str) -> Any:
        """Call the module's code; what it raises becomes one line."""
        for size in range(
            512 * self._salt
        ):  # the free pieces of memory of every small size that would be next
            self._taken += [bytes(size % 512), float(size), object()]
        try:
            return call(*inputs)
        except Exception as error:
            if isinstance(error, ModuleError) or is_out_of_memory(error):
                raise
            raise ModuleError(
                f"{one_line(error, self.code_type)}; this came with {what}"
            ) from error

    def run(
        self, call: Callable[..., Any], given: Tensor, *more: Any, what: str, shape: Shape
    ) -> Tensor:
        """The output on `given`, of the right kind, finite, with the input left alone."""
        name, before = self.name, given.clone()
        out = self.attempt(call, given, *more, what=what)
        need(
            torch.equal(given, before),
            f"{name} changes its input; make new tensors, no in-place operations on it",
        )
        kind, seen = type(out).__name__, list(getattr(out, "shape", ()))
        need(
            isinstance(out, Tensor),
            f"{name} returned {kind}; return a float tensor of shape {list(shape)}",
        )
        need(
            seen == list(shape),
            f"{name} returned shape {seen} for {what}, expected {list(shape)}; return one row each",
        )
        wide = out.dtype == torch.float64 and self.code_type in ("reward", "imagination")
        need(
            wide or out.dtype == torch.float32,
            f"{name} returned {out.dtype}, expected torch.float32; use .float()",
        )
        out = out.detach()
        bad = out[~torch.isfinite(out)]
        need(
            not len(bad),
            f"{name} is not finite ({bad[:1].sum():g}) in {len(bad):,} of {out.numel():,} values on {what}; guard"
            " divisions, roots, logs and exponentials (clamp, + 1e-6)",
        )
        self.digest.update(np.ascontiguousarray(out.numpy()).tobytes())
        return out

    def batches(
        self, call: Callable[..., Any], rows: Tensor, *, edges: Mapping[str, Tensor], tail: Shape
    ) -> Tensor:
        """Batches of every kind must give each row the same finite value, in time; the values on `rows`."""

        def run(given: Tensor, what: str) -> Tensor:
            return self.run(call, given, what=what, shape=(len(given), *tail))

        few, what = rows[:SPLIT], f"{len(rows):,} recorded rows"
        alone = torch.cat([run(row, "a batch of 1 row") for row in few[:SINGLE].split(1)])
        values, seconds = timed(run, rows, what)
        self.in_time(seconds, len(rows), "row")
        need(
            torch.equal(values, run(rows, what)),
            f"{self.name} gives other values when called again with the same rows; use no counters, clocks, hashes"
            " of objects or random numbers (no dropout)",
        )
        for kind, edge in edges.items():
            run(edge, kind)
        parts = torch.cat(
            [run(part, "a part of the rows") for part in few.tensor_split([SPLIT // 3])]
        )
        turned = run(few.flip(0), "the rows in reverse").flip(0)
        moved = max(
            float((other - values[: len(other)]).abs().max()) for other in (parts, turned, alone)
        )
        largest = float(values.abs().max())
        need(
            moved <= SAME * float(values.std()) + 1e-6 * largest,
            f"{self.name} gives a row another value (by {moved:.3g}) when other rows of the batch change; use no mean,"
            " sum, sort, norm or BatchNorm over the batch (dim 0)",
        )
        most = LIMITS.reward_magnitude
        need(
            largest <= most,
            f"{self.name} reaches {largest:.3g} on recorded rows; scale it down to at most {most:g}",
        )
        return values

    def in_time(self, seconds: float, count: int, unit: str) -> None:
        """No slower than allowed, with patience."""
        each, most = 1e6 * seconds / count, LIMITS.microseconds_per_row
        need(
            each <= PATIENCE * most,
            f"{self.name} takes {each:.0f} microseconds a {unit}, {most:g} are allowed; use fewer or smaller layers and no"
            f" loop over each {unit}",
        )

    def build(self, factory: Callable[..., Any], *sizes: int) -> nn.Module:
        """A live network or communication of allowed size."""
        live = self.attempt(factory, *sizes, what=f"{self.name.split('.')[0]}{sizes}")
        parameters, most = list(live.parameters()), LIMITS.parameters
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
        self.attempt(
            (out * normal(out.shape, 3)).sum().backward,
            what="the backward pass; avoid in-place operations",
        )
        gradients = {
            name: torch.zeros(1) if p.grad is None else p.grad for name, p in trainable.items()
        }
        finite = all(torch.isfinite(gradient).all() for gradient in gradients.values())
        need(
            finite,
            f"the gradient of {self.name} is not finite; guard roots, norms and divisions (+ 1e-6)",
        )
        idle = [name for name, gradient in gradients.items() if not gradient.any()]
        need(
            len(idle) < len(trainable),
            f"no gradient reaches the parameters of {self.name}; use them for its output",
        )
        if idle:
            self.warnings.append(
                f"no_gradient: nothing reaches {', '.join(idle[:5])}; use them or leave them out"
            )
        for name in sorted(gradients):
            self.digest.update(gradients[name].numpy().tobytes())

    def survives_saving(
        self, live: nn.Module, build: Callable[[], nn.Module], rows: Tensor
    ) -> None:
        """A new instance with the saved weights gives the same output; the weights are moved before, as training would."""
        with torch.no_grad():
            for seed, parameter in enumerate(live.parameters()):
                parameter.add_(0.1 * normal(parameter.shape, seed))
        saved = {
            name: torch.from_numpy(value.detach().numpy().copy())
            for name, value in live.state_dict().items()
        }
        torch.manual_seed(1)
        twin = build()
        self.attempt(
            twin.load_state_dict, saved, what="load_state_dict; make all layers in __init__"
        )
        with torch.no_grad():
            one, other = live(rows), twin(rows)
        need(
            float((one - other).abs().max()) <= SAME * float(one.std()) + 1e-6,
            f"{self.name} gives other values after saving and loading; keep every tensor that matters in nn.Parameter or"
            " register_buffer",
        )


def timed(call: Callable[..., Any], *inputs: Any) -> tuple[Any, float]:
    """What a call returns and its CPU seconds: a busy machine shall refuse nobody."""
    started = time.process_time()
    return call(*inputs), time.process_time() - started


def normal(shape: Shape, seed: int) -> Tensor:
    """Fixed normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
