"""The ceiling's cells: policies of the observations, searched and measured on separate episodes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.market.family import FAMILY, LARGE_TICK, SMALL_TICK
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl_benchmarks import ceiling, ceiling_cells
from se_rl_benchmarks.ceiling_cells import Cell, CellOutcome, Found, entries
from se_rl_benchmarks.evolution_strategy import (
    Members,
    PolicyShape,
    Strategy,
    evolve,
    member_gains,
)

DATA = synthetic_market(SyntheticConfig(symbols=2, sessions=2, seed=1))


def test_a_search_begins_at_the_neutral_schedule() -> None:
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=8)
    episodes = entries(world, 0, 8)
    neutral = ConstantSchedule(1.5, -1.0)
    plain = execute(world, neutral, episodes)
    for hidden in (0, 3):
        shape = PolicyShape(world.observation_size, hidden)
        weights = shape.start(np.random.default_rng(0))
        run = execute(world, Members(shape, weights[None], neutral), episodes)
        np.testing.assert_allclose(run.gain, plain.gain)


def test_tanh_units_put_beside_a_linear_policy_do_not_change_it_at_first() -> None:
    rng = np.random.default_rng(5)
    linear = PolicyShape(4)
    weights = rng.normal(size=linear.size)
    wider = PolicyShape(4, hidden=3)
    seen = rng.normal(size=(1, 6, 4))
    same = wider.outputs(wider.start(rng, weights)[None], seen)
    np.testing.assert_allclose(same, linear.outputs(weights[None], seen))
    counted = wider.start(rng, weights)
    counted[-1] = 1.0
    assert np.abs(wider.outputs(counted[None], seen) - same).max() > 1e-3


def test_members_of_one_batch_do_not_mix() -> None:
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=4)
    shape = PolicyShape(world.observation_size, hidden=2)
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(3, shape.size))
    seen = rng.normal(size=(3, 5, shape.inputs))
    together = shape.outputs(weights, seen)
    for member in range(3):
        alone = shape.outputs(weights[member : member + 1], seen[member : member + 1])
        np.testing.assert_allclose(together[member], alone[0])


def test_a_member_and_its_mirror_image_trade_both_sides_of_one_book() -> None:
    """Equal weights gain the same there, and what each gains is what it gains alone."""
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=3)
    shape = PolicyShape(world.observation_size)
    one = np.random.default_rng(3).normal(size=(3, shape.size)) / 10
    neutral = ConstantSchedule(1.5, -1.0)
    episodes = entries(world, 0, 3)
    gains = member_gains(world, Members(shape, np.concatenate([one, one]), neutral), episodes)
    np.testing.assert_allclose(gains[:3], gains[3:])
    alone = execute(world, Members(shape, one[1:2], neutral), entries(world, 1, 1))
    assert gains[1] == pytest.approx(alone.gain.mean())


def test_the_strategy_climbs_where_there_is_something_to_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On gains that are a known function of the weights it comes to their top."""
    world = Cell(0.1, SMALL_TICK, "free").world(DATA, books=2)
    shape = PolicyShape(2)
    top = np.array([0.3, -0.2, 0.1, 0.0, 0.2, -0.3])

    def known(world: object, actor: Members, episodes: object) -> np.ndarray:
        return -np.square(actor.weights - top).sum(axis=1)

    monkeypatch.setattr("se_rl_benchmarks.evolution_strategy.member_gains", known)
    found = evolve(
        world,
        shape,
        ConstantSchedule(),
        Strategy(generations=120, pairs=8, books=2),
        start=np.zeros(shape.size),
        rng=np.random.default_rng(0),
    )
    assert np.abs(found - top).max() < 0.08


@pytest.mark.parametrize("kind", ["free", "twin"])
def test_a_cell_is_searched_kept_and_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TEST_BOOKS", 6), ("GRID_BOOKS", 4)):
        monkeypatch.setattr(ceiling_cells, name, value)
    monkeypatch.setattr("se_rl.baselines.passive_grid.MULTIPLES", (1.0,))
    cell = Cell(0.1, LARGE_TICK, kind)
    strategy = Strategy(generations=2, pairs=2, books=3)
    found = ceiling_cells.search(cell, DATA, strategy)
    assert Found(**json.loads(json.dumps(asdict(found)))) == found
    neighbour = ceiling_cells.search(Cell(0.2, LARGE_TICK, kind), DATA, strategy, near=found)
    assert neighbour.hidden == found.hidden and neighbour.weights != found.weights
    outcome = ceiling_cells.measure(cell, DATA, found, found.constant)
    assert outcome.default == pytest.approx(outcome.constant)
    assert outcome.twap_cost > 0.0 and outcome.se > 0.0
    assert outcome.kind == kind and len(ceiling.table([outcome])) == 3
    bolder = ConstantSchedule(3.0, 0.0)
    whole = ceiling_cells.measure(cell, DATA, found, bolder)
    alone = ceiling_cells.measure_default(cell, DATA, outcome, bolder)
    assert alone.default == pytest.approx(whole.default) != outcome.default
    assert alone.default_se == pytest.approx(whole.default_se)
    assert alone.ceiling == outcome.ceiling
    changed = replace(outcome, constant=outcome.constant + 1.0)
    with pytest.raises(ValueError, match="the markets have changed"):
        ceiling_cells.measure_default(cell, DATA, changed, bolder)


def test_the_bars_are_told_from_the_figures() -> None:
    good = CellOutcome(
        participation=0.1,
        profile=SMALL_TICK,
        kind="twin",
        twap_cost=10.0,
        constant=4.0,
        ceiling=5.5,
        default=5.2,
        se=0.1,
        schedule="",
        policy="linear",
        default_se=0.2,
        void=0,
    )
    behind = replace(good, participation=0.3, default=3.9)
    near = replace(good, participation=0.2, default=4.1)
    told = "\n".join(ceiling.bars([good, behind, near]))
    assert "small tick twin: the ceiling lies 15.0% ± 1.0% of TWAP's cost" in told
    assert "reaches 80% of it" in told
    assert "in 2 of 3 cells, beyond two errors in 1; behind in: small tick twin 30%." in told


def test_every_cell_is_in_the_table_once_and_has_its_neighbour_before_it() -> None:
    names = [cell.file_name for cell in ceiling.cells()]
    assert len(set(names)) == len(names) == 5 * len(FAMILY) * 2
    done: list[float] = []
    for size, neighbour in ceiling.NEIGHBOURS.items():
        assert neighbour is None or neighbour in done
        done.append(size)
