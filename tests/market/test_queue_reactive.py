"""The queue-reactive market: its law in closed form, a slow twin in plain Python, and its orders."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.market.outside.queue_rates import CANCEL, LARGEST, LIMIT, event_rates, stationary_law
from se_rl.market.outside.queue_reactive import ASK, BID, QueueReactiveMarkets

SECONDS = 25.0


def started(n: int, *, first_seed: int = 0, inventory: int = 25) -> QueueReactiveMarkets:
    markets = QueueReactiveMarkets(n, seconds=SECONDS)
    markets.reset(np.arange(first_seed, first_seed + n), inventory)
    return markets


def test_the_stationary_law_balances_the_rates() -> None:
    law, rates = stationary_law(), event_rates()
    gone = rates[:, 1:, CANCEL:].sum(axis=2)
    np.testing.assert_allclose(law[:, :-1] * rates[:, :-1, LIMIT], law[:, 1:] * gone)
    np.testing.assert_allclose(law @ np.arange(LARGEST + 1), [5.50, 13.67, 19.06], atol=0.005)


def test_starts_are_drawn_from_the_law() -> None:
    queues = started(20_000).state.queues
    law = stationary_law()
    sizes = np.arange(LARGEST + 1)
    for depth in (
        1,
        2,
    ):  # the first depth is drawn again where its side would be empty: hardly ever
        spread = np.sqrt(law[depth] @ sizes**2 - (law[depth] @ sizes) ** 2)
        error = spread / np.sqrt(2 * len(queues))
        found = queues[:, [BID + depth, ASK + depth]].mean()
        assert abs(found - law[depth] @ sizes) < 4 * error


class SlowMarket:
    """The same market as its description says it, with exponential waits."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rates = event_rates()
        self.law = stationary_law()
        self.moved = 0
        self.sides = [self.drawn(), self.drawn()]  # bids, asks

    def drawn(self) -> list[int]:
        while True:
            side = [int(self.rng.choice(LARGEST + 1, p=law)) for law in self.law]
            if any(side):
                return side

    def best(self, side: int) -> int:
        return next(depth for depth in range(3) if self.sides[side][depth])

    def run(self, seconds: float) -> None:
        while True:
            rates = np.array(
                [[self.rates[d, self.sides[s][d]] for d in range(3)] for s in range(2)]
            )
            seconds -= self.rng.exponential(1.0 / rates.sum())
            if seconds < 0:
                return
            at = self.rng.choice(rates.size, p=(rates / rates.sum()).ravel())
            self.event(*np.unravel_index(at, rates.shape))

    def event(self, side: int, depth: int, kind: int) -> None:
        queues = self.sides[side]
        change = 1 if kind == LIMIT else -1
        if not 0 <= queues[depth] + change <= LARGEST or sum(queues) + change == 0:
            return
        before = self.best(side)
        queues[depth] += change
        if self.best(side) == before or (change > 0 and self.sides[1 - side][0] > 0):
            return
        up = (side == 0) == (change > 0)
        if self.rng.random() < 0.7:
            self.moved += 1 if up else -1
            if self.rng.random() < 0.85:
                self.sides = [self.drawn(), self.drawn()]
            else:
                self.shift(1 if up else 0)

    def shift(self, near: int) -> None:
        one, two, three = self.sides[near]
        last = int(self.rng.choice(LARGEST + 1, p=self.law[2]))
        nearer = [min(50, round(two * 1068 / 836)), min(50, round(three * 1069 / 1068)), last]
        one, two, three = self.sides[1 - near]
        farther = [0, round(one * 836 / 1068), round(two * 1068 / 1069)]
        self.sides[near] = nearer if any(nearer) else self.drawn()
        self.sides[1 - near] = farther if any(farther) else self.drawn()


def test_the_kernel_is_the_described_market() -> None:
    """Means of queues and squared moves after a step, against markets with exponential waits."""
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(120):
        slow = SlowMarket(rng)
        slow.run(SECONDS)
        rows.append([*slow.sides[0], *slow.sides[1], slow.moved, slow.moved**2])
    fast = started(20_000)
    fast.step(np.zeros(20_000, np.int64))
    state = fast.state
    ours = np.column_stack([state.queues, state.moved, state.moved**2])
    theirs = np.array(rows)
    error = np.sqrt(theirs.var(axis=0) / len(theirs) + ours.var(axis=0) / len(ours))
    assert np.all(np.abs(theirs.mean(axis=0) - ours.mean(axis=0)) < 4 * error)


def test_episodes_do_not_depend_on_the_batch() -> None:
    whole, part = started(40), started(7, first_seed=11)
    units = np.ones(40, np.int64)
    for _ in range(4):
        cost = whole.step(units)
        np.testing.assert_array_equal(cost[11:18], part.step(units[:7]))
    np.testing.assert_array_equal(whole.state.queues[11:18], part.state.queues)
    assert len(np.unique(whole.state.streams)) == 40


@pytest.mark.parametrize(
    ("units", "bought", "ticks"),
    [(2, 2, 1.0), (3, 3, 1.5), (4, 4, 3.0), (9, 5, 3 * 0.5 + 2 * 1.5)],
)
def test_buying_walks_the_queues_and_leaves_the_last_unit(
    units: int, bought: int, ticks: float
) -> None:
    markets = started(1)
    markets.state.queues[:] = [[4, 4, 4, 3, 2, 1]]
    cost = markets.step(np.array([units]), goes_on=False)
    assert cost[0] == pytest.approx(ticks)
    assert markets.inventory[0] == 25 - bought
    if units < 3:  # no queue was taken whole: nothing else may have happened
        np.testing.assert_array_equal(markets.state.queues, [[4, 4, 4, 3 - units, 2, 1]])


def test_a_forced_order_finds_the_rest_beyond_the_book() -> None:
    markets = started(1, inventory=8)
    markets.state.queues[:] = [[4, 4, 4, 3, 2, 1]]
    markets.state.moved[:] = 2
    expected = 3 * 2.5 + 2 * 3.5 + 1 * 4.5 + 2 * 5.5
    assert markets.forced_cost()[0] == pytest.approx(expected)


def test_a_side_is_never_empty_and_no_queue_overflows() -> None:
    markets = started(500)
    for _ in range(6):
        markets.step(np.full(500, 3))
        queues = markets.state.queues
        assert queues.min() >= 0 and queues.max() <= LARGEST
        assert queues[:, :3].sum(axis=1).min() > 0
        assert queues[:, 3:].sum(axis=1).min() > 0
