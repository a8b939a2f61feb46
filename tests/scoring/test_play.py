"""Orders are played in order of time, so that no policy can meet the future; what is played stays the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np
import numpy.typing as npt
import pytest

from se_rl.data.martingale import martingale_twin
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders, order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.scoring.execution import execute
from se_rl.scoring.play import LANES, lanes_of, moments, play

DATA = synthetic_market(SyntheticConfig(symbols=6, sessions=5, seed=3))
HORIZON = 30
WORLD = StaticWorld(DATA, horizon=HORIZON)
ORDERS = order_pairs(DATA, HORIZON)
Actions = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Reversal:
    """A row's own policy: sell more after a rise."""

    def start(self, n: int, horizon: int) -> None:
        self._left = horizon

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        tilt = np.clip(1.0 + observation[:, 20].astype(np.float64), 0.0, 2.0)
        self._left -= 1
        return np.clip(tilt / (self._left + 1), 0.0, 1.0), np.zeros(len(tilt))

    def close(self) -> None:
        pass


class Lookahead(Reversal):
    """Reads one row from another: what the same symbol did one horizon later, where that row is in reach.

    It waits until it has seen the prices that a row of the previous window will see: it matches rows by their
    return since the open, which a later window of the same day continues.
    """

    calls = 0

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        type(self).calls += 1
        ratio, offset = super().act(observation)
        half = len(observation) // 2
        windows = len(DATA.grid) // HORIZON
        if half % windows:
            return ratio, offset
        since_open = observation[:half, 25].reshape(-1, windows)  # [symbol and day, window]
        ahead = np.zeros_like(since_open)
        ahead[:, :-1] = since_open[:, 1:] - since_open[:, :-1]
        rise = np.tanh(3.0 * np.concatenate([ahead.ravel(), -ahead.ravel()]))
        tilt = np.clip(1.0 - rise, 0.0, 2.0)  # what will be dearer is sold later
        return np.clip(tilt / (self._left + 1), 0.0, 1.0), offset


def test_moments_are_in_order_of_time_and_hold_every_order_once() -> None:
    groups = moments(ORDERS, sessions=len(DATA.dates))
    assert sorted(np.concatenate(groups)) == list(range(len(ORDERS)))
    times = []
    for group in groups:
        day = np.unique(ORDERS.row[group] % len(DATA.dates))
        start = np.unique(ORDERS.start[group])
        assert len(day) == len(start) == 1
        times.append((int(day[0]), int(start[0])))
    assert times == sorted(times)


def test_a_policy_of_single_rows_gets_what_it_gets_in_one_batch() -> None:
    whole = execute(WORLD, Reversal(), Episodes(ORDERS))
    parts = play(WORLD, Episodes(ORDERS), lambda *_: Reversal())
    np.testing.assert_array_equal(parts.gain, whole.gain)
    np.testing.assert_array_equal(parts.record.fills, whole.record.fills)
    np.testing.assert_array_equal(parts.record.net_price, whole.record.net_price)
    np.testing.assert_array_equal(parts.clusters, whole.clusters)
    assert parts.slices == whole.slices


def test_one_process_serves_windows_that_follow_each_other() -> None:
    opened: list[int] = []

    def open_policy(world: str, horizon: int, rows: int) -> Reversal:
        opened.append(rows)
        return Reversal()

    play(WORLD, Episodes(ORDERS), open_policy)
    assert opened == [2 * len(DATA.symbols)] * LANES


@pytest.mark.parametrize("days", [1, 2, LANES, 23])
def test_lanes_share_the_groups_and_no_day(days: int) -> None:
    day = np.repeat(np.arange(days) + 7, 3)  # three moments a day, an order each
    groups = [np.array([place]) for place in range(len(day))]
    lanes = lanes_of(groups, day)
    assert len(lanes) == min(days, LANES)
    assert sorted(chain(*lanes)) == list(range(len(groups)))
    assert all(lane == sorted(lane) for lane in lanes)
    held = [set(day[lane].tolist()) for lane in lanes]
    assert sum(map(len, held)) == len(set.union(*held)) == days
    assert max(map(len, held)) - min(map(len, held)) <= 1


def test_all_lanes_are_asked_before_one_is_heard() -> None:
    said: list[str] = []

    class Elsewhere(Reversal):
        def begin(self, observation: npt.NDArray[np.float32]) -> Callable[[], Actions]:
            said.append("asked")

            def answer() -> Actions:
                said.append("heard")
                return self.act(observation)

            return answer

    found = play(WORLD, Episodes(ORDERS), lambda *_: Elsewhere())
    assert said[: 2 * LANES] == ["asked"] * LANES + ["heard"] * LANES
    here = play(WORLD, Episodes(ORDERS), lambda *_: Reversal())
    np.testing.assert_array_equal(found.gain, here.gain)


@pytest.mark.parametrize("gap", [1, HORIZON - 1])
def test_a_window_that_overlaps_one_played_before_gets_a_fresh_process(gap: int) -> None:
    row = np.repeat([0, 0], 2)
    start = np.array([0, gap, 0, gap])
    orders = Orders.of_usual_size(
        row, start, np.array([1, 1, -1, -1], np.int8), np.full(4, 1e4), HORIZON
    )
    closed: list[int] = []

    class Closing(Reversal):
        def close(self) -> None:
            closed.append(1)

    play(WORLD, Episodes(orders), lambda *_: Closing())
    assert len(closed) == 2


def test_batches_of_all_windows_leak_the_future_and_groups_do_not() -> None:
    fair = StaticWorld(martingale_twin(DATA, np.random.default_rng(0)), horizon=HORIZON)
    leaked = execute(fair, Lookahead(), Episodes(ORDERS)).over_twap()
    assert leaked.mean > 4.0 * leaked.se > 0.0  # the positive control: it does earn
    sealed = play(fair, Episodes(ORDERS), lambda *_: Lookahead()).over_twap()
    assert abs(sealed.mean) < 2.0 * sealed.se
