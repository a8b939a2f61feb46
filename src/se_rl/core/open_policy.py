"""A policy that is asked bar after bar: its process is kept open, and goes on where it stands.

A policy sees the bars of an order one after the other. Where the observations so far are those that
it has already seen, it is shown the new ones alone; else it begins again. Either way the answer is
that of a policy that saw them all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from se_rl.core.saved_policy import SavedPolicy
from se_rl.scoring.seating import Seated

RENEWED_AFTER = 1800.0
"""Seconds after which a process is replaced: half of what a locked one lives."""

Observation = npt.NDArray[np.float32]


class OpenPolicy:
    """The policy of a file in one world, for one order at a time."""

    def __init__(self, saved: SavedPolicy, world: str) -> None:
        self._saved = saved
        self._world = world
        self._actor: Seated | None = None
        self._horizon = 0
        self._opened = 0.0
        self._shown: list[Observation] = []
        self._answer = (0.0, 0.0)

    def answer(self, observations: Sequence[Observation], horizon: int) -> tuple[float, float]:
        """Ratio and offset in ticks after these observations [1, field] of an order."""
        try:
            actor = self._ready(observations, horizon)
            for observation in observations[len(self._shown) :]:
                ratio, offset = actor.act(observation)
                self._answer = float(ratio[0]), float(offset[0])
                self._shown.append(observation)
        except BaseException:
            self.close()  # where it stands is not known any more
            raise
        return self._answer

    def close(self) -> None:
        """End the process, if there is one. May be called twice."""
        actor, self._actor = self._actor, None
        self._shown = []
        if actor is not None:
            actor.close()

    def _ready(self, observations: Sequence[Observation], horizon: int) -> Seated:
        """The policy where it has seen some of these observations, from the first, and no others."""
        is_old = time.monotonic() - self._opened > RENEWED_AFTER
        if self._actor is None or horizon != self._horizon or is_old:
            self.close()
            self._actor = self._open(horizon)
            self._horizon = horizon
            self._opened = time.monotonic()
        elif self._has_seen_the_first_of(observations):
            return self._actor
        self._shown = []
        self._actor.start(1, horizon)
        return self._actor

    def _open(self, horizon: int) -> Seated:
        """The policy in a process of its own; agents that talk all stand for the one order."""
        agents = self._saved.agents
        actor = self._saved.actor(self._world, horizon, agents)
        return Seated(actor, np.zeros(agents, np.int64), 1)

    def _has_seen_the_first_of(self, observations: Sequence[Observation]) -> bool:
        if not 0 < len(self._shown) <= len(observations):
            return False
        pairs = zip(self._shown, observations, strict=False)
        return all(shown.tobytes() == new.tobytes() for shown, new in pairs)
