"""The tasks of the suite in two halves: what searches may see, and what is held out from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from se_rl.config import ConfigError
from se_rl.environments.outside.lot_world import NAMES
from se_rl.environments.outside.queue_reactive_world import QueueReactiveWorld
from se_rl.market.family import FAMILY
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig
from se_rl.scoring.score import ScoreRule

HISTORY_WORK = 6.0
MARKET_WORK = 12.0
QUEUE_WORK = 15.0
LOT_WORK = 10.0
"""Work units of one training on a task of each kind: about seconds of one core."""
LAST = 3.0
"""The work of a run's last rung, over that of its search."""


@dataclass(frozen=True)
class OwnTask:
    """Days of history or simulated markets, as a run with these settings trains and scores them."""

    name: str
    config: RunConfig
    unit: str = "bps"

    @property
    def rung(self) -> Rung:
        """Where designs are trained and scored: the last rung, whose days no other has."""
        return self.config.rungs.last

    @property
    def rule(self) -> ScoreRule:
        """What goes into a score."""
        return ScoreRule.of(self.config)

    def times(self, work: float) -> OwnTask:
        """The same with this multiple of the work."""
        return replace(self, config=replace(self.config, work=work * self.config.work))


@dataclass(frozen=True)
class OutsideTask:
    """A market that others built, by its name, and the work of one training there.

    An update has `samples` order steps: a short training gets farther by many small updates.
    """

    name: str
    unit: str
    work: float
    samples: int

    @property
    def rung(self) -> Rung:
        """One training's work; episodes are the market's own."""
        return Rung(2, "last", self.work, 1, 0, fresh=True)

    @property
    def rule(self) -> ScoreRule:
        """The mean return of an episode."""
        return ScoreRule({"static": 0.0, "dynamic": 1.0}, 0.0)

    def times(self, work: float) -> OutsideTask:
        """The same with this multiple of the work."""
        return replace(self, work=work * self.work)


SuiteTask = OwnTask | OutsideTask


def history_task(name: str, data: str, **changes: Any) -> OwnTask:
    """The days of a set: trained on its train days, scored on the later validation days.

    Its test days stay closed; synthetic days are those that everybody knows.
    """
    return OwnTask(name, RunConfig(data=data, worlds="static", work=HISTORY_WORK / LAST, **changes))


def market_task(profile: str) -> OwnTask:
    """Free simulated markets of one profile of the family."""
    config = RunConfig(
        worlds="dynamic", twins=False, profiles=(profile,), bank=1024, work=MARKET_WORK / LAST
    )
    return OwnTask(profile.replace(" ", "-"), config)


FIRST: Sequence[SuiteTask] = (
    *(market_task(profile) for profile in FAMILY),
    history_task("nasdaq100", "nasdaq100"),
)
SECOND: Sequence[SuiteTask] = (
    history_task("csi100", "csi100"),
    OutsideTask(QueueReactiveWorld.name, "price x units", QUEUE_WORK, samples=12_800),
    *(OutsideTask(name, "ticks a lot", LOT_WORK, samples=400) for name in NAMES),
)
HALVES: Mapping[str, Sequence[SuiteTask]] = {
    "first": FIRST,
    "second": SECOND,
    "all": (*FIRST, *SECOND),
}
"""Searches may see the first half; the second one is their meta-test."""


def chosen_tasks(half: str, names: Sequence[str] = ()) -> tuple[SuiteTask, ...]:
    """The tasks of a half, or those of these names."""
    if not names:
        return tuple(HALVES[half])
    known = {task.name: task for task in HALVES["all"]}
    for name in names:
        if name not in known:
            raise ConfigError(f"task {name!r} is unknown; use some of {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))
