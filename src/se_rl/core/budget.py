"""Budgets: what a run has used, what it will take, and when enough is enough.

Everything is counted from what this passage of the loop has seen, whether it was computed now or looked up: a resumed run
stops where it would have stopped.
"""

from __future__ import annotations

from typing import Any

from se_rl.config import ConfigError
from se_rl.core.search import Search
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.settings import RunConfig

SECONDS_PER_DESIGN = 3.0
"""What the model takes to write one design, and its share of learning, roughly."""
FEWEST = 3
"""Designs that a budget must buy to be worth starting."""


class Budget:
    """Usage and estimates of one search."""

    def __init__(
        self, config: RunConfig, archive: Archive, search: Search, *, workers: int
    ) -> None:
        self.config, self.archive, self.search, self.workers = config, archive, search, workers

    def usage(self) -> dict[str, float]:
        """Calls, tokens and money for the model, and the minutes that trainings and answers took."""
        asked = self.search.designers.asked
        calls = [call for call in self.archive.calls() if call.key in asked]
        tokens = {
            "tokens_in": sum(c.tokens_in for c in calls),
            "tokens_out": sum(c.tokens_out for c in calls),
        }
        seconds = sum(e.seconds for e in self._done()) / self.workers + sum(
            c.seconds for c in calls
        )
        return {
            "calls": len(calls),
            **tokens,
            "tokens": sum(tokens.values()),
            "usd": sum(c.usd for c in calls),
            "minutes": seconds / 60.0,
        }

    def spent(self) -> str:
        """Which budget is spent; "" where none is."""
        used = self.usage()
        limits = {
            "minutes": self.config.max_minutes,
            "tokens": self.config.max_tokens,
            "usd": self.config.max_usd,
        }
        return next(
            (
                f"budget: {limit:g} {name}"
                for name, limit in limits.items()
                if limit is not None and used[name] >= limit
            ),
            "",
        )

    def seconds_left(self) -> float:
        """From what trainings took so far and what is planned at most."""
        done = [e for e in self._done() if e.work > 0]
        if not done:
            return 0.0
        c = self.config
        batches = c.budget_designs / (c.parents * c.siblings)
        designs = (c.budget_designs + 1, batches * c.promoted + 1, c.finalists + 2)  # [rung]
        work = 0.0
        for rung, planned in zip(c.rungs, designs, strict=True):
            made = sum(e.rung == rung.index for e in done)
            work += max(0.0, planned * rung.seeds - made) * rung.work
        per_work = sum(e.seconds for e in done) / sum(e.work for e in done)
        writing = (
            0.0
            if c.arm == "random"
            else SECONDS_PER_DESIGN * max(0, c.budget_designs - self.search.proposed)
        )
        return work * per_work / self.workers + writing

    def estimate(self) -> dict[str, Any]:
        """What everything will take; a wall-time budget that buys too little is refused before it is spent."""
        seconds, designs = self.seconds_left(), self.config.budget_designs
        each = seconds / designs / 60.0
        allowed = self.config.max_minutes
        if allowed is not None and allowed < FEWEST * each:
            raise ConfigError(
                f"max_minutes is {allowed:g}; {FEWEST} designs take about {FEWEST * each:.1f} minutes here"
            )
        text = f"about {max(1.0, seconds / 60.0):.0f} minutes for up to {designs} designs"
        return {"seconds": round(seconds), "text": text}

    def _done(self) -> list[Evaluation]:
        return [e for by_seed in self.search.ladder.evaluations.values() for e in by_seed.values()]
