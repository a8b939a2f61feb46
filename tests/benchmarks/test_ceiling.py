"""The ceiling's cells: policies of the observations, searched and measured on separate episodes."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.market.family import FAMILY, LARGE_TICK, SMALL_TICK
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl_benchmarks import ceiling, ceiling_cells
from se_rl_benchmarks.ceiling_cells import Cell, Found, entries
from se_rl_benchmarks.evolution_strategy import Members, PolicyShape, Strategy, evolve

DATA = synthetic_market(SyntheticConfig(symbols=2, sessions=2, seed=1))


def test_weights_of_zero_are_the_neutral_schedule() -> None:
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=8)
    episodes = entries(world, 0, 8)
    neutral = ConstantSchedule(1.5, -1.0)
    plain = execute(world, neutral, episodes)
    for hidden in (0, 3):
        shape = PolicyShape(world.observation_size, hidden)
        weights = shape.start(np.random.default_rng(0))
        run = execute(world, Members(shape, weights[None], neutral), episodes)
        np.testing.assert_allclose(run.gain, plain.gain)


def test_members_of_one_batch_do_not_mix() -> None:
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=4)
    shape = PolicyShape(world.observation_size)
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(3, shape.size))
    seen = rng.normal(size=(3, 5, shape.inputs))
    together = shape.outputs(weights, seen)
    for member in range(3):
        alone = shape.outputs(weights[member : member + 1], seen[member : member + 1])
        np.testing.assert_allclose(together[member], alone[0])


def test_the_strategy_climbs_where_there_is_something_to_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On gains that are a known function of the weights it comes to their top."""
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=2)
    shape = PolicyShape(2)
    top = np.array([0.3, -0.2, 0.1, 0.0, 0.2, -0.3])

    def known(world: object, actor: Members, episodes: object, members: int) -> np.ndarray:
        return -np.square(actor.weights - top).sum(axis=1)

    monkeypatch.setattr("se_rl_benchmarks.evolution_strategy.member_gains", known)
    strategy = Strategy(generations=200, pairs=6, books=1)
    found = evolve(world, shape, ConstantSchedule(), strategy, rng=np.random.default_rng(0))
    assert np.abs(found - top).max() < 0.08


@pytest.mark.parametrize("kind", ["free", "twin"])
def test_a_cell_is_searched_kept_and_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TEST_BOOKS", 6), ("GRID_BOOKS", 4), ("MULTIPLES", (1.0,))):
        monkeypatch.setattr(ceiling_cells, name, value)
    cell = Cell(0.1, LARGE_TICK, kind)
    found = ceiling_cells.search(cell, DATA, Strategy(generations=2, pairs=2, books=2))
    assert Found(**json.loads(json.dumps(asdict(found)))) == found
    outcome = ceiling_cells.measure(cell, DATA, found, found.constant)
    assert outcome.default == pytest.approx(outcome.constant)
    assert outcome.twap_cost > 0.0 and outcome.se > 0.0
    assert outcome.kind == kind and len(ceiling.table([outcome])) == 3


def test_every_cell_is_in_the_table_once() -> None:
    names = [cell.file_name for cell in ceiling.cells()]
    assert len(set(names)) == len(names) == 5 * len(FAMILY) * 2
