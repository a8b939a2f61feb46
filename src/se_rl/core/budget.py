"""Budgets: what a run has used, what it will take, and when enough is enough.

Everything is counted from what this passage of the loop has seen, whether it was computed now or
looked up: a resumed run stops where it would have stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from se_rl.config import ConfigError
from se_rl.core.plan import rival_plan, rung_plans, writing_seconds
from se_rl.core.search import Search
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.settings import RunConfig

FEWEST = 3
"""Designs that a budget must buy to be worth starting."""


@dataclass(frozen=True)
class Usage:
    """What the model's calls and the trainings took."""

    calls: int
    tokens_in: int
    tokens_out: int
    usd: float
    minutes: float

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True)
class TimeEstimate:
    """How long a run will take, in whole seconds and in words."""

    seconds: int
    text: str


class Budget:
    """Usage and estimates of one search with `workers` trainings at once."""

    def __init__(
        self, config: RunConfig, archive: Archive, search: Search, *, workers: int
    ) -> None:
        self.config = config
        self.archive = archive
        self.search = search
        self.workers = workers

    def usage(self) -> Usage:
        """What was used so far: calls, tokens and money for the model, and minutes."""
        asked = self.search.designers.asked
        calls = [call for call in self.archive.calls() if call.key in asked]
        training_seconds = sum(map(self._wall_seconds, self.search.ladder.trainings))
        writing_seconds = sum(call.seconds for call in calls)
        return Usage(
            len(calls),
            sum(call.tokens_in for call in calls),
            sum(call.tokens_out for call in calls),
            sum(call.usd for call in calls),
            (training_seconds + writing_seconds) / 60.0,
        )

    def spent(self) -> str:
        """Which budget is spent; "" where none is."""
        used = self.usage()
        limits = (
            ("minutes", used.minutes, self.config.max_minutes),
            ("tokens", used.tokens, self.config.max_tokens),
            ("usd", used.usd, self.config.max_usd),
        )
        for name, amount, limit in limits:
            if limit is not None and amount >= limit:
                return f"budget: {limit:g} {name}"
        return ""

    def seconds_left(self) -> float:
        """How long the rest takes, from what trainings took so far and what is planned at most."""
        done = [e for e in self.search.ladder.trainings if e.work > 0]
        if not done:
            return 0.0
        work = 0.0
        for rung, plan in zip(self.config.rungs, rung_plans(self.config), strict=True):
            made = sum(e.rung == rung.index for e in done)
            work += max(0.0, plan.trainings - made) * rung.work
        done_work = sum(e.work for e in done)
        wall_seconds = work * sum(map(self._wall_seconds, done)) / done_work
        writing = writing_seconds(self.config, written=self.search.proposed)
        # rivals are trained at the end, one after the other
        rivals = rival_plan(self.config).work * sum(e.seconds for e in done) / done_work
        return wall_seconds + rivals + writing

    def _wall_seconds(self, evaluation: Evaluation) -> float:
        """What an evaluation took of a run's time; those of a batch on a device share its own."""
        return evaluation.seconds / (1 if evaluation.device else self.workers)

    def estimate(self) -> TimeEstimate:
        """What everything will take; a budget that buys too little is refused right away."""
        seconds = self.seconds_left()
        designs = self.config.budget_designs
        minutes_each = seconds / designs / 60.0
        allowed = self.config.max_minutes
        if allowed is not None and allowed < FEWEST * minutes_each:
            takes = f"{FEWEST} designs take about {FEWEST * minutes_each:.1f} minutes here"
            raise ConfigError(f"max_minutes is {allowed:g}; {takes}")
        text = f"about {max(1.0, seconds / 60.0):.0f} minutes for up to {designs} designs"
        return TimeEstimate(round(seconds), text)
