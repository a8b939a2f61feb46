"""Is a policy's gain its own? Finalists are played again in ways that only a cheat would notice.

alone         orders of the scoring play, one at a time and in shuffled order of time
strangers     the same orders in shuffled batches beside other orders whose steps are permuted
martingale    whole plays on twins of the panel with the same volatility and no edge

Alone and among strangers every action must stay what it was: an agent acts on its own order (and, where
agents talk, on what its neighbours said). On a martingale no policy gains on average. A policy that fails
ends its design with the reason. The check sees actions alone, so a design cannot answer it by words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from se_rl.records.fraud import FraudCheck
from se_rl.scoring.execution import Actions, Actor, begin, inputs_of
from se_rl.scoring.play import LANES

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

TABLES = 24
"""Orders (or books of talking agents) that are played again alone."""
SLICES, TICKS = 1e-3, 1e-2
"""How far rounding may move an action: the ratio in TWAP slices of what is left, the limit in ticks."""
MARTINGALE_P = 1e-4
"""A gain on martingale twins that is less likely than this is no luck."""


@dataclass(frozen=True, eq=False)
class WatchedTables:
    """Some tables of a play: what their agents saw and did at every step."""

    observations: npt.NDArray[np.float32]  # [table, step, agent, field]
    ratio: Array  # [table, step, agent]
    offset: Array  # [table, step, agent]

    def __len__(self) -> int:
        return len(self.ratio)

    @property
    def horizon(self) -> int:
        """Steps of an order."""
        return self.ratio.shape[1]

    @property
    def agents(self) -> int:
        """Agents that talk to each other."""
        return self.ratio.shape[2]


class Recorder:
    """An actor that keeps what some of its orders saw and did."""

    def __init__(self, inner: Actor, rows: Index) -> None:
        self._inner = inner
        self._rows = rows
        self.inputs = inputs_of(inner)
        self.observations: list[npt.NDArray[np.float32]] = []
        self.ratio: list[Array] = []
        self.offset: list[Array] = []

    def start(self, n: int, horizon: int) -> None:
        """A new batch begins."""
        self._inner.start(n, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        """The inner actor's answer, kept for the chosen rows."""
        return self.begin(observation)()

    def begin(self, observation: npt.NDArray[np.float32]) -> Callable[[], Actions]:
        """Ask the inner actor."""
        self.observations.append(observation[self._rows].copy())
        answer = begin(self._inner, observation)

        def kept() -> Actions:
            ratio, offset = answer()
            self.ratio.append(ratio[self._rows])
            self.offset.append(offset[self._rows])
            return ratio, offset

        return kept

    def close(self) -> None:
        """End the inner actor."""
        self._inner.close()

    def watched(self, agents: int) -> WatchedTables:
        """The chosen rows, whole tables of neighbours."""
        observations = np.stack(self.observations)  # [step, row, field]
        steps, rows, fields = observations.shape
        tables = (steps, rows // agents, agents)
        return WatchedTables(
            observations.reshape(*tables, fields).swapaxes(0, 1),
            np.stack(self.ratio).reshape(tables).swapaxes(0, 1),
            np.stack(self.offset).reshape(tables).swapaxes(0, 1),
        )


def joined(parts: Sequence[WatchedTables]) -> WatchedTables:
    """Tables of several groups together."""
    return WatchedTables(
        np.concatenate([part.observations for part in parts]),
        np.concatenate([part.ratio for part in parts]),
        np.concatenate([part.offset for part in parts]),
    )


def moved_alone(watched: WatchedTables, actors: Sequence[Actor], rng: np.random.Generator) -> float:
    """The largest change of an action when each table is played by itself, in shuffled order of time.

    The actors take turns at the tables and compute at once; none sees what another one does.
    """
    worst = 0.0
    shuffled = rng.permutation(len(watched))
    for first in range(0, len(watched), len(actors)):
        tables = shuffled[first : first + len(actors)]
        for _, actor in zip(tables, actors, strict=False):
            actor.start(watched.agents, watched.horizon)
        for step in range(watched.horizon):
            seen = watched.observations[tables, step]
            asked = [begin(actor, rows) for actor, rows in zip(actors, seen, strict=False)]
            answers = [answer() for answer in asked]
            ratio = np.stack([ratio for ratio, _ in answers])
            offset = np.stack([offset for _, offset in answers])
            worst = max(worst, _moved(watched, tables, step, ratio, offset))
    return worst


def moved_among_strangers(watched: WatchedTables, actor: Actor, rng: np.random.Generator) -> float:
    """The same in one batch with as many strangers, rows shuffled: the strangers' steps are permuted."""
    count = len(watched)
    seats = rng.permutation(2 * count)  # table at each seat; those from `count` on are strangers
    own_seats = np.argsort(seats)[:count]
    worst = 0.0
    actor.start(2 * count * watched.agents, watched.horizon)
    order_of_steps = rng.permutation(watched.horizon)
    for step in range(watched.horizon):
        strangers = watched.observations[rng.permutation(count), order_of_steps[step]]
        both = np.concatenate([watched.observations[:, step], strangers])[seats]
        ratio, offset = actor.act(both.reshape(-1, both.shape[-1]))
        by_table = (value.reshape(-1, watched.agents)[own_seats] for value in (ratio, offset))
        worst = max(worst, _moved(watched, np.arange(count), step, *by_table))
    return worst


def _moved(watched: WatchedTables, tables: Index, step: int, ratio: Array, offset: Array) -> float:
    """How far actions lie from what they were, in units of what rounding may move (SLICES)."""
    shape = (len(tables), watched.agents)
    left = watched.horizon - step
    slices = np.abs(ratio.reshape(shape) - watched.ratio[tables, step]) * left
    ticks = np.abs(offset.reshape(shape) - watched.offset[tables, step])
    return float(max(slices.max(), ticks.max() * SLICES / TICKS))


def martingale_p(gains_by_day: Array) -> tuple[float, float, float]:
    """Mean and standard error of daily gains on martingale days, and how likely so much is by luck."""
    days = len(gains_by_day)
    if days < 2:
        return math.nan, math.nan, 1.0
    mean = float(gains_by_day.mean())
    se = float(gains_by_day.std(ddof=1) / np.sqrt(days))
    if se < 1e-12:
        return mean, se, 1.0 if mean <= 1e-9 else 0.0
    return mean, se, float(stats.t.sf(mean / se, days - 1))


def judged(*, alone: float, strangers: float, gains_by_day: Array) -> FraudCheck:
    """The verdict on the trainings of one design; `gains_by_day` [day] is empty without history."""
    mean, se, p = martingale_p(gains_by_day)
    reason = ""
    if p < MARTINGALE_P:
        reason = (
            f"it gains {mean:.2f} +- {se:.2f} bps over TWAP on martingale days (p = {p:.1g}):"
            " it sees what it must not see"
        )
    elif strangers > SLICES:
        reason = (
            f"an action moves by {strangers:.2g} TWAP slices when other orders of the batch change:"
            " act on each order's own row"
        )
    elif alone > SLICES:
        reason = (
            f"an action moves by {alone:.2g} TWAP slices when the order is played alone:"
            " act on each order's own row, keep nothing between orders"
        )
    return FraudCheck(reason, alone, strangers, mean, se, p)


OpenActor = Callable[[int], Actor]
"""Opens the policy in a fresh process for so many rows."""


def check_actions(
    watched: WatchedTables, open_actor: OpenActor, *, seed: int
) -> tuple[float, float]:
    """How far actions move alone and among strangers, each in a fresh process."""
    rng = np.random.default_rng(seed)
    single = [open_actor(watched.agents) for _ in range(min(LANES, len(watched)))]
    try:
        alone = moved_alone(watched, single, rng)
    finally:
        for actor in single:
            actor.close()
    crowd = open_actor(2 * len(watched) * watched.agents)
    try:
        return alone, moved_among_strangers(watched, crowd, rng)
    finally:
        crowd.close()
