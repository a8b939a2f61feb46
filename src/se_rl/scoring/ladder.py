"""The evaluation ladder: a training for every design, a race with other seeds for the promising
ones, longer trainings for the best.

Paired successive halving: at every rung a design is compared with the default on the same orders
and training seeds. A design may be stopped for futility after some trainings, never for success,
which would inflate what is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

from se_rl.records.entries import Candidate, EventListener, StoredStanding, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import FUTILITY_SEEDS, REFERENCE_SEEDS, Rung
from se_rl.records.settings import RunConfig
from se_rl.scoring.evaluator import Evaluator, Journal
from se_rl.scoring.prospects import Foresight, nothing_known, prospects
from se_rl.scoring.score import ScoreRule
from se_rl.scoring.standing import (
    CERTAIN,
    GUESS,
    SeedSpread,
    Standing,
    leading,
    pooled_seed_spread,
    shrunken,
)
from se_rl.scoring.trainings import Trainings

FUTILE = "behind the default beyond doubt"
OUTRANKED = "not among the best of its batch"
INCOMPARABLE = "too few of its orders can be compared"


class Ladder:
    """How designs stand at each rung, compared with `default`.

    `standings` and `credits` (by module: the design over the same one without it) are by (design,
    index of the rung). `foresight` says what was known of a design before it was trained here. With
    `stores` standings become events, and evaluations are announced.
    """

    def __init__(
        self,
        config: RunConfig,
        journal: Journal,
        evaluator: Evaluator,
        default: Candidate,
        *,
        on_event: EventListener,
        foresight: Foresight = nothing_known,
        stores: bool = True,
    ) -> None:
        self.config = config
        self.rungs = config.rungs
        self.rule = ScoreRule.of(config)
        self.journal = journal
        self.evaluator = evaluator
        self.default = default
        self.foresight = foresight
        self.on_event = on_event
        self.climbed: dict[str, Candidate] = {default.id: default}
        self.trainings = Trainings(evaluator, self.rungs, self.rule)
        self.standings: dict[tuple[str, int], Standing] = {}
        self.credits: dict[tuple[str, int], dict[str, Standing]] = {}
        self.failures: dict[str, str] = {}
        self._stores = stores
        self._spread: dict[int, SeedSpread] = {}

    # climbing

    def run(
        self, candidates: Sequence[Candidate], rung: Rung, seeds: Iterable[int] | None = None
    ) -> None:
        """Train and score designs and the default at a rung, and bring its standings up to date.

        `seeds` are by default all that the rung has.
        """
        for candidate in candidates:
            self.climbed[candidate.id] = candidate
        names = dict.fromkeys([self.default.id, *(c.id for c in candidates)])
        jobs = []
        for seed in rung.training_seeds if seeds is None else seeds:
            for name in names:
                if seed not in self.trainings.at(name, rung):
                    jobs.append(TrainingJob(self.climbed[name], rung, seed))
        self.train(jobs)
        self._settle(rung)

    def train(self, jobs: Sequence[TrainingJob]) -> None:
        """Train and score; what comes of each job is kept."""
        for job, evaluation, stored in self.evaluator.evaluate(jobs):
            self.trainings.add(job, evaluation)
            if self._stores:
                self.on_event("evaluated", asdict(evaluation) | self._reading(job), stored=stored)

    def promote(self, names: Sequence[str]) -> list[str]:
        """Of screened designs those worth more trainings: the best few that are not hopeless."""
        screen = self.rungs.screen.index
        scored = [name for name in names if (name, screen) in self.standings]
        prospects = self.prospects()
        scored.sort(key=lambda name: prospects[name], reverse=True)
        kept: list[str] = []
        for name in scored:
            if self.standings[name, screen].futile():
                self._drop(name, self.rungs.screen, FUTILE)
            elif len(kept) == self.config.promoted:
                self._drop(name, self.rungs.screen, OUTRANKED)
            else:
                kept.append(name)
        for name in kept:
            self._event("promoted", name, self.rungs.search)
        self.run([self.climbed[name] for name in kept], self.rungs.search)
        return kept

    def finals(self, extra: Sequence[Candidate] = (), *, races: bool = True) -> list[str]:
        """The last rung for the best few, beside the default and, for fewer trainings, `extra` ones.

        Gives the names of those that finish it; without `races` nobody but these two runs.
        """
        last = self.rungs.last
        going = [self.climbed[name] for name in self._finalists()] if races else []
        for candidate in going:
            self._event("promoted", candidate.id, last)
        seeds = last.training_seeds
        self.run(extra, last, seeds[:REFERENCE_SEEDS])
        self.run(going, last, seeds[:FUTILITY_SEEDS])
        if rest := seeds[FUTILITY_SEEDS:]:
            for name in (hopeless := self._hopeless(going)):
                self._drop(name, last, f"futile after {FUTILITY_SEEDS} trainings")
            going = [c for c in going if c.id not in hopeless]
            self.run(going, last, rest)
        return [c.id for c in going if (c.id, last.index) in self.standings]

    # who is best

    def champion(self, finalists: Sequence[str]) -> str:
        """The best of the last rung by shrunken score; the default where none is above it."""
        last = self.rungs.last.index
        shrunk = shrunken([self.standings[name, last] for name in finalists])
        return leading(shrunk, self.default.id)

    def leader(self) -> str:
        """The best so far by shrunken score; the default where none is above it."""
        return leading(self.ranking(), self.default.id)

    def ranking(self) -> dict[str, float]:
        """The prospects of the designs that raced: one training is too little to lead by."""
        return self._prospects(self.rungs[self.rungs.search.index :])

    def prospects(self) -> dict[str, float]:
        """What to expect of every scored design after long trainings, bps over the default."""
        return self._prospects(self.rungs)

    def longest(self, name: str) -> Standing | None:
        """A design's standing at its highest rung."""
        for rung in reversed(self.rungs):
            if (name, rung.index) in self.standings:
                return self.standings[name, rung.index]
        return None

    def gain(self, candidate: Candidate) -> float | None:
        """What a design gained over its first parent, on the same orders and seeds, in bps.

        It is read at the highest rung where both stand; one without a parent gained what it is over
        the default.
        """
        parent = candidate.parents[0] if candidate.parents else self.default.id
        for rung in reversed(self.rungs):
            own = self.standings.get((candidate.id, rung.index))
            theirs = self.standings.get((parent, rung.index))
            if own is not None and theirs is not None:
                return own.score - theirs.score
        return None

    def stored_standing(self, name: str, rung: Rung) -> StoredStanding:
        """How a design stands at a rung, with its gain over its parent, as reports read it."""
        own = self.standings[name, rung.index]
        if name == self.default.id:  # it differs from itself by nothing, for certain
            own = replace(own, spread=CERTAIN)
        gain = self._over_parent(self.climbed[name], rung)
        credits = self.credits.get((name, rung.index), {})
        return StoredStanding(
            name,
            rung.index,
            own.seeds,
            own.score,
            own.se,
            own.ci95,
            own.by_seed,
            dict(own.by_world),
            gain.score if gain else None,
            gain.se if gain else None,
            dict(own.by_part),
            own.training_seeds,
            {module: (one.score, one.se) for module, one in credits.items()},
            dict(own.part_se),
        )

    # how they stand

    def _settle(self, rung: Rung) -> None:
        """Compute all standings of a rung anew, in the order of proposal.

        The seeds' spread is pooled over designs, so that one design changes the others' error.
        """
        found: dict[str, Standing] = {}
        for name in self.climbed:
            by_seed = self.trainings.at(name, rung)
            broken = [e.reason for e in by_seed.values() if not e.ok]
            one = None if broken else self.compare(name, self.default.id, rung)
            if one is not None and isfinite(one.score) and isfinite(one.se):
                found[name] = one
            elif broken or one is not None:
                self.standings.pop((name, rung.index), None)
                self.failures.setdefault(name, broken[0] if broken else INCOMPARABLE)
        spread = self._pooled_spread(found, rung)
        self._spread[rung.index] = spread
        for name, one in found.items():
            self.standings[name, rung.index] = replace(one, spread=spread)
        self.store(found, rung)

    def _pooled_spread(self, found: Mapping[str, Standing], rung: Rung) -> SeedSpread:
        """The seeds' spread at a rung, from all designs of rungs that train alike.

        A design that raced counts with all its trainings, so that screens of one training each have
        a spread that was measured.
        """
        pooled = dict(found)
        for later in self.rungs.alike(rung):
            for name in found if later.index > rung.index else ():
                pooled[name] = self.standings.get((name, later.index), pooled[name])
        return pooled_seed_spread([s for name, s in pooled.items() if name != self.default.id])

    def store(self, names: Iterable[str], rung: Rung) -> None:
        """Write down how these designs stand at a rung, where that is news and anything is stored."""
        for name in names if self._stores else ():
            one = self.stored_standing(name, rung)
            payload = asdict(one)
            is_new = self.journal.append("standing", one.key, payload)
            self.on_event("standing", payload, stored=not is_new)

    def compare(self, name: str, other: str, rung: Rung) -> Standing | None:
        """A design over another one at a rung, with the seeds' spread as it is known there."""
        spread = self._spread.get(rung.index, GUESS)
        return self.trainings.compare(name, other, rung, spread)

    def _over_parent(self, candidate: Candidate, rung: Rung) -> Standing | None:
        """A design over its first parent: the difference of scores, with the pairs' error."""
        own = self.standings.get((candidate.id, rung.index))
        if own is None or not candidate.parents:
            return None
        parent = self.standings.get((candidate.parents[0], rung.index))
        paired = self.compare(candidate.id, candidate.parents[0], rung) if parent else None
        if parent is None or paired is None or not isfinite(paired.se):
            return None
        return replace(paired, score=own.score - parent.score)

    def _reading(self, job: TrainingJob) -> dict[str, Any]:
        """How a design stands right now; its standing follows when the batch is done."""
        candidate, rung = job.candidate, job.rung
        found = self.compare(candidate.id, self.default.id, rung)
        if found is None:
            return {}
        first = candidate.parents[0] if candidate.parents else ""
        parent = self.standings.get((first, rung.index))
        gain = found.score - parent.score if parent else None
        return {"score": found.score, "se": found.se, "gain": gain}

    def _prospects(self, rungs: Sequence[Rung]) -> dict[str, float]:
        out = {self.default.id, *self.failures}
        known = {place: one for place, one in self.standings.items() if place[0] not in out}
        return prospects(known, rungs, self.foresight, at=self.rungs.last)

    # the last rung

    def _finalists(self) -> list[str]:
        found = self.ranking()
        scores = {name: self.standings[name, self.rungs.search.index].score for name in found}
        ranked = sorted(found, key=lambda name: (found[name], scores[name]), reverse=True)
        return ranked[: self.config.finalists]

    def _hopeless(self, going: Sequence[Candidate]) -> list[str]:
        """Finalists that cannot come near the best of them any more."""
        last = self.rungs.last.index
        standings = [self.standings[c.id, last] for c in going if (c.id, last) in self.standings]
        bar = max([0.0, *(one.score for one in standings)])
        return [one.candidate for one in standings if one.futile(bar)]

    def _drop(self, name: str, rung: Rung, reason: str) -> None:
        self._event("dropped", name, rung, reason=reason)

    def _event(self, kind: str, name: str, rung: Rung, **more: str) -> None:
        payload = {"candidate": name, "rung": rung.index, **more}
        is_new = self.journal.append(kind, key_of(kind, name, rung.index), payload)
        self.on_event(kind, payload, stored=not is_new)
