"""What every rung scores: the same mix of orders in cells, on sampled history and simulated markets."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import Actor, ConstantSchedule
from se_rl.scoring.simulated_orders import SIZE_CLASSES
from se_rl.scoring.static_panel import sampled_panels
from se_rl.scoring.validation import Validation

DATA = synthetic_market(SyntheticConfig(symbols=10, sessions=12, seed=2))
SCALES = FeatureScales.fit(DATA)
CONFIG = RunConfig(horizons=(60, 30), dynamic_horizons=(4, 3), episodes=(40, 72, 80), day_orders=15)


class Patient(ConstantSchedule):
    """Half of TWAP's slices, the rest at the end."""

    def __init__(self) -> None:
        super().__init__(0.5)

    def close(self) -> None:
        """Nothing to end."""


def patient(world: str, horizon: int, rows: int) -> Actor:
    return Patient()


@pytest.fixture(scope="module")
def validation() -> Validation:
    return Validation(CONFIG, DATA, dates=DATA.dates[6:], scales=SCALES, seal="seal")


def test_every_rung_scores_the_same_mix_and_names_its_cells(validation: Validation) -> None:
    names = validation.cells
    assert names["static"] == ("60 bars", "30 bars")
    assert len(names["dynamic"]) == 6 * 3 and names["dynamic"][0] == "small tick, 1-3 %"
    assert names["dynamic"][-1] == "stressed twin, 10-30 %"
    for rung in (CONFIG.rungs.search, CONFIG.rungs.last):
        scores = validation.score(rung, patient)
        wanted = {"static", "static_total", "static_day", "static_cell", "dynamic", "dynamic_cell"}
        assert set(scores) == wanted
        for world in ("static", "dynamic"):
            cells = scores[f"{world}_cell"]
            assert len(cells) == len(scores[world])
            assert set(cells.tolist()) == set(map(float, range(len(names[world]))))
        counts = np.bincount(scores["dynamic_cell"].astype(int))
        assert counts.min() >= 1 and counts.max() <= 5
        assert np.isfinite(scores["dynamic"]).mean() > 0.9
        for regime in validation.regimes(rung).values():
            assert len(regime) == len(scores["static"])


def test_cells_tell_kind_and_size(validation: Validation) -> None:
    orders = validation._episodes(CONFIG.rungs.search)
    for world, episodes in orders.worlds:
        for place, code in enumerate(orders.cell_of(world, episodes.orders)):
            kind, size = orders.cells[code].rsplit(", ", 1)
            assert kind == world.kinds[episodes.orders.kind[place]].name
            low, high = (float(part) / 100 for part in size.removesuffix(" %").split("-"))
            assert low <= episodes.orders.size[place] <= high
            assert size in SIZE_CLASSES


def test_fresh_rungs_and_the_final_test_have_markets_of_their_own(validation: Validation) -> None:
    seeds = []
    for orders in (
        validation._episodes(CONFIG.rungs.search),
        validation._episodes(CONFIG.rungs.last),
        validation.test_markets(),
    ):
        seeds.append({seed for _, episodes in orders.worlds for seed in episodes.book_seeds})
    assert not seeds[0] & seeds[1] and not seeds[0] & seeds[2] and not seeds[1] & seeds[2]


@pytest.mark.parametrize("most", [4, 15, 1000])
def test_a_day_has_so_many_orders_in_few_windows(most: int) -> None:
    world = StaticWorld(DATA, horizon=60, scales=SCALES, sizes=(0.02, 0.2))
    made = [
        sampled_panels(world, (60, 30), dates=DATA.dates[6:], day_orders=most, seed=seed)
        for seed in (0, 0, 1)
    ]
    orders = [panel.orders for panel in made[0]]
    day = np.concatenate([one.row[: len(one) // 2] % 12 for one in orders])
    counts = np.bincount(day)[6:]
    everything = 10 * (390 // 60 + 390 // 30)
    np.testing.assert_array_equal(counts, min(most, everything))
    windows = set()
    for one in orders:
        half = len(one) // 2
        np.testing.assert_array_equal(one.row[:half], one.row[half:])
        np.testing.assert_array_equal(one.side[:half], -one.side[half:])
        np.testing.assert_array_equal(one.size[:half], one.size[half:])
        assert one.size.min() >= 0.02 and one.size.max() <= 0.2
        windows |= set(zip(one.row % 12, one.start, [one.horizon] * len(one), strict=True))
    assert len(windows) <= 6 * -(-min(most, everything) // 10)
    same, other = made[1], made[2]
    np.testing.assert_array_equal(orders[0].row, same[0].orders.row)
    np.testing.assert_array_equal(orders[0].size, same[0].orders.size)
    assert not np.array_equal(orders[0].size, other[0].orders.size)
