"""Designs that would train for longer than others on the same budget: each is counted at its cost.

A network may be cheap where it is counted, hide its parameters, compute where nobody counts, or
claim less work than it did. What it cannot do is to pay less than a plain network of equal cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from se_rl.modules.defaults import Modules, Network
from se_rl.modules.errors import ModuleError
from se_rl.modules.kinds import KINDS
from se_rl.modules.module_probe import ModuleProbe
from se_rl.rl.policy import Policy
from se_rl.rl.work import PRODUCT, OperationCounter, parameter_count, row_work

FIELDS, WIDTH = 32, 64


class Base(nn.Module):
    """One layer, and `forward` as the cheat writes it."""

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        self.feature_dim = WIDTH
        self.inside = nn.Linear(obs_dim * history, WIDTH)
        self.more = nn.Linear(WIDTH, WIDTH)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.inside(obs.flatten(1)))

    def deeper(self, x: Tensor, times: int) -> Tensor:
        for _ in range(times):
            x = torch.tanh(self.more(x))
        return x


class NoParameters(Base):
    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        return iter(())


class NoNamedParameters(Base):
    def named_parameters(self, *_: Any, **__: Any) -> Iterator[Any]:  # type: ignore[override]
        return iter(())


class NoChildren(Base):
    def children(self) -> Iterator[Any]:
        return iter(())

    def modules(self) -> Iterator[Any]:  # type: ignore[override]
        return iter(())


class NoTable(Base):
    def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:  # type: ignore[override]
        return {}


class TwiceTheSame(Base):
    """Shares one parameter under two names: it is counted once, not twice."""

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__(obs_dim, history)
        self.again = self.inside


class Buffers(Base):
    """Keeps its weights as buffers, which are no parameters, and computes with them."""

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__(obs_dim, history)
        self.register_buffer("table", torch.eye(WIDTH))

    def forward(self, obs: Tensor) -> Tensor:
        x = super().forward(obs)
        for _ in range(40):
            x = x @ self.table
        return x


def test_weights_that_are_no_parameters_cost_what_they_compute() -> None:
    policy = Policy(Modules(network=Buffers), observation_size=FIELDS, actions=1)
    assert row_work(policy) >= PRODUCT * 2 * 40 * WIDTH * WIDTH


HIDDEN = [NoParameters, NoNamedParameters, NoChildren, NoTable, TwiceTheSame]


@pytest.mark.parametrize("network", HIDDEN, ids=lambda kind: kind.__name__)
def test_parameters_are_counted_whatever_a_network_says(network: Any) -> None:
    plain = parameter_count(Base(FIELDS, 1))
    assert parameter_count(network(FIELDS, 1)) == plain
    policy = Policy(Modules(network=network), observation_size=FIELDS, actions=1)
    assert row_work(policy) >= PRODUCT * 2 * plain


def test_a_window_costs_its_products_and_little_more() -> None:
    class Remembering(Network):
        history = 8

    both = [Modules(), Modules(network=Remembering)]
    one, eight = [row_work(Policy(design, observation_size=FIELDS)) for design in both]
    products = PRODUCT * 2 * 7 * FIELDS * 64
    assert products < eight - one < 1.1 * products


def where(condition: Callable[[Tensor], bool]) -> Any:
    """A network that is fifty times as deep where its observations are real."""

    class Sometimes(Base):
        def forward(self, obs: Tensor) -> Tensor:
            x = super().forward(obs)
            return self.deeper(x, 50 if condition(obs) else 0)

    return Sometimes


CHEAP = {
    "on zeros": lambda obs: bool(obs.any()),
    "on few rows": lambda obs: len(obs) > 64,
    "on equal rows": lambda obs: bool((obs != obs[:1]).any()),
    "where time has not begun": lambda obs: bool((obs[:, -1, -2] < 1.0).any()),
    "where nothing was traded": lambda obs: bool((obs[:, -1, -1] < 1.0).any()),
    "where nothing moved": lambda obs: float(obs.std()) > 1e-3,
}


@pytest.mark.parametrize("name", CHEAP)
def test_work_is_that_of_the_rows_that_were_met(name: str) -> None:
    policy = Policy(Modules(network=where(CHEAP[name])), observation_size=FIELDS, actions=1)
    met = torch.rand((200, policy.history, FIELDS), generator=torch.Generator().manual_seed(0))
    assert row_work(policy, met) >= PRODUCT * 2 * 50 * WIDTH * WIDTH


def products(compute: Callable[[Tensor], Any], rows: int = 4) -> float:
    """Products of numbers that are counted for one row."""
    x = torch.rand((rows, WIDTH, WIDTH), generator=torch.Generator().manual_seed(1))
    x = x + WIDTH * torch.eye(WIDTH)
    with torch.no_grad(), OperationCounter() as counted:
        compute(x)
    return counted.products / rows


CUBIC = {
    "a product": lambda x: x @ x,
    "an inverse": torch.linalg.inv,
    "a solution": lambda x: torch.linalg.solve(x, x),
    "an exponential of a matrix": lambda x: torch.linalg.matrix_exp(x / 100),
    "singular values": torch.linalg.svd,
    "eigenvalues": lambda x: torch.linalg.eigh(x + x.mT),
    "an orthogonal basis": torch.linalg.qr,
    "a Cholesky factor": lambda x: torch.linalg.cholesky(x @ x.mT),
    "a determinant": torch.linalg.det,
    "a pseudo-inverse": torch.linalg.pinv,
    "a triangular solution": lambda x: torch.linalg.solve_triangular(x.tril(), x, upper=False),
    "powers of a matrix": lambda x: torch.linalg.matrix_power(x, 8),
    "distances": lambda x: torch.cdist(x, x, p=1.0),
    "distances of another kind": lambda x: torch.cdist(x, x, p=3.0),
    "sums by letters": lambda x: torch.einsum("bij,bjk->bik", x, x),
}


@pytest.mark.parametrize("name", CUBIC)
def test_what_costs_a_cube_counts_as_one(name: str) -> None:
    """At least half of one plain product of matrices of the same size."""
    assert products(CUBIC[name]) >= WIDTH**3


def elements(compute: Callable[[Tensor], Any]) -> int:
    """Numbers that are counted as written, or read."""
    with torch.no_grad(), OperationCounter() as counted:
        compute(torch.rand(8, 1))
    return int(counted.elements)


WIDE = {
    "a sum": lambda x: x.expand(-1, 10_000).sum(1),
    "a mean": lambda x: x.expand(-1, 10_000).mean(1),
    "a largest": lambda x: x.expand(-1, 10_000).amax(1),
    "a spread": lambda x: x.expand(-1, 10_000).std(1),
    "a norm": lambda x: torch.linalg.vector_norm(x.expand(-1, 10_000), dim=1),
    "a place": lambda x: x.expand(-1, 10_000).argmax(1),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_reads_much_and_writes_little_counts_what_it_reads(name: str) -> None:
    assert elements(WIDE[name]) >= 80_000


def test_a_sliding_window_counts_for_every_place() -> None:
    with torch.no_grad(), OperationCounter() as counted:
        nn.functional.avg_pool2d(torch.rand(1, 1, 64, 64), 9, stride=1, padding=4)
    assert counted.products >= 64 * 64 * 81


class Mode(Base):
    """Computes something else where it learns than where it acts, and so where work is counted."""

    def forward(self, obs: Tensor) -> Tensor:
        x = super().forward(obs)
        return self.deeper(x, 50) if torch.is_grad_enabled() else x


class ModeUnseen(Base):
    """The same without asking: what is learned from has a gradient."""

    def forward(self, obs: Tensor) -> Tensor:
        x = super().forward(obs)
        return self.deeper(x, 50) if x.requires_grad else x


@pytest.mark.parametrize("network", [Mode, ModeUnseen], ids=lambda kind: kind.__name__)
def test_a_network_that_learns_otherwise_than_it_acts_is_refused(network: Any) -> None:
    rows = torch.rand((32, 1, FIELDS), generator=torch.Generator().manual_seed(2))
    with pytest.raises(ModuleError, match="other values where gradients are wanted"):
        ModuleProbe(KINDS["network"], 0).learns(network(FIELDS, 1), rows)
    ModuleProbe(KINDS["network"], 0).learns(Base(FIELDS, 1), rows)
