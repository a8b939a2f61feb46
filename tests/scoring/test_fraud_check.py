"""The fraud check calls each kind of cheat what it is, and lets row-wise policies pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from se_rl.scoring.fraud_check import (
    SLICES,
    Recorder,
    WatchedTables,
    check_actions,
    judged,
    martingale_p,
)

HORIZON, ROWS, FIELDS = 20, 12, 5
Actions = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class RowWise:
    """What an agent should be: a function of its own row, with a memory of its own."""

    def start(self, n: int, horizon: int) -> None:
        self.left = horizon
        self.memory = np.zeros(n)

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        self.memory = 0.5 * self.memory + observation[:, 0]
        ratio = 1.0 / (1.0 + np.exp(-self.memory)) / self.left
        self.left -= 1
        return ratio, self.extra(observation)

    def extra(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        return observation[:, 1].astype(np.float64)

    def close(self) -> None:
        pass


class Mixing(RowWise):
    """Compares itself with the others of the batch."""

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        return super().act(observation - observation.mean(0))


class SlightlyMixing(RowWise):
    """The same, scaled down to a hundredth of a slice."""

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        ratio, offset = super().act(observation)
        return ratio * (1.0 + 0.01 * np.tanh(observation[:, 0].mean())), offset


class Remembering(RowWise):
    """Keeps something between orders, in the class."""

    seen = 0.0

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        ratio, offset = super().act(observation)
        ratio = ratio * (1.0 + 0.1 * np.tanh(type(self).seen))
        type(self).seen += float(observation[0, 0])
        return ratio, offset


class PriceMixing(RowWise):
    """Cheats by the limit price alone."""

    def extra(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        return np.sort(observation[:, 1]).astype(np.float64)


def watched(actor: RowWise, *, agents: int = 1) -> WatchedTables:
    rng = np.random.default_rng(0)
    recorder = Recorder(actor, np.arange(ROWS))
    recorder.start(ROWS, HORIZON)
    for _ in range(HORIZON):
        recorder.act(rng.standard_normal((ROWS, FIELDS)).astype(np.float32))
    return recorder.watched(agents)


def test_a_row_wise_policy_passes() -> None:
    alone, strangers = check_actions(watched(RowWise()), lambda _: RowWise(), seed=1)
    assert max(alone, strangers) < 1e-9
    verdict = judged(alone=alone, strangers=strangers, gains_by_day=np.array([0.3, -0.4, 0.2]))
    assert verdict.passed and verdict.reason == ""


@pytest.mark.parametrize("cheat", [Mixing, SlightlyMixing, Remembering, PriceMixing])
def test_each_cheat_moves_its_actions(cheat: type[RowWise]) -> None:
    Remembering.seen = 0.0
    seen = watched(cheat())
    Remembering.seen = 0.0
    alone, strangers = check_actions(seen, lambda _: cheat(), seed=1)
    assert max(alone, strangers) > SLICES
    verdict = judged(alone=alone, strangers=strangers, gains_by_day=np.zeros(5))
    assert "own row" in verdict.reason


def test_neighbours_that_talk_are_one_table() -> None:
    class Talking(RowWise):
        """Two neighbours see the mean of both: declared communication."""

        def act(self, observation: npt.NDArray[np.float32]) -> Actions:
            pairs = observation.reshape(-1, 2, FIELDS)
            return super().act(np.repeat(pairs.mean(1), 2, axis=0))

    as_tables = check_actions(watched(Talking(), agents=2), lambda _: Talking(), seed=2)
    assert max(as_tables) < 1e-9


def test_a_gain_on_a_martingale_is_no_luck_when_it_is_too_sure() -> None:
    rng = np.random.default_rng(0)
    caught = judged(alone=0.0, strangers=0.0, gains_by_day=2.0 + rng.standard_normal(20))
    assert "martingale" in caught.reason and caught.martingale_p < 1e-4
    assert judged(alone=0.0, strangers=0.0, gains_by_day=rng.standard_normal(20)).passed
    lucky = [martingale_p(rng.standard_normal(12))[2] < 1e-4 for _ in range(2000)]
    assert sum(lucky) <= 2


def test_a_constant_policy_that_equals_twap_passes() -> None:
    assert judged(alone=0.0, strangers=0.0, gains_by_day=np.zeros(8)).passed
