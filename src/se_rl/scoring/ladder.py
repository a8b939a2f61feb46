"""The evaluation ladder: short trainings for all, longer ones for the promising, the last rung at three times the budget.

Paired successive halving: at every rung a design is held against the default on the same orders and training seeds. One is
stopped for futility after some trainings, never for success, which would inflate what is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

from se_rl.executors.training_pool import TrainingJob, TrainingPool
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation, key_of
from se_rl.records.settings import FUTILITY_SEEDS, RunConfig
from se_rl.scoring.standing import Array, Standing, pooled_seed_sd, shrunken, standing

SCREEN, SEARCH, LAST = 0, 1, 2
Tell = Callable[..., None]
"""Told every event: kind, payload, and `stored`, whether it stood in the archive already."""


class Ladder:
    """How designs stand at each rung; `default` is what all are held against."""

    def __init__(
        self,
        config: RunConfig,
        archive: Archive,
        training_pool: TrainingPool,
        default: Candidate,
        *,
        tell: Tell,
    ) -> None:
        self.config, self.archive, self.training_pool, self.default, self.tell = (
            config,
            archive,
            training_pool,
            default,
            tell,
        )
        self.climbed: dict[str, Candidate] = {default.id: default}
        self.evaluations: dict[tuple[str, int], dict[int, Evaluation]] = {}
        self.standings: dict[tuple[str, int], Standing] = {}
        self.failures: dict[str, str] = {}
        self._arrays: dict[str, dict[str, Array]] = {}

    def run(self, candidates: Sequence[Candidate], rung: int, seeds: Iterable[int]) -> None:
        """Train and score designs at a rung, the default beside them, and bring the standings up to date."""
        self.climbed |= {c.id: c for c in candidates}
        names = list(dict.fromkeys([self.default.id, *(c.id for c in candidates)]))
        jobs = [TrainingJob(self.climbed[name], rung, seed) for seed in seeds for name in names]
        for job, evaluation, stored in self.training_pool.evaluate(
            [job for job in jobs if not self._done(job)]
        ):
            self.evaluations.setdefault((job.candidate.id, rung), {})[job.seed] = evaluation
            self.tell("evaluated", asdict(evaluation) | self._reading(job), stored=stored)
        self._settle(rung)

    def promote(self, names: Sequence[str]) -> list[str]:
        """Of screened designs those worth a longer training: the best few that are not hopeless."""
        scored = [name for name in names if (name, SCREEN) in self.standings]
        ranked = sorted(scored, key=lambda name: self.standings[name, SCREEN].score, reverse=True)
        kept = [name for name in ranked if not self.standings[name, SCREEN].futile()][
            : self.config.promoted
        ]
        for name in ranked:
            if name not in kept:
                futile = self.standings[name, SCREEN].futile()
                self._drop(
                    name,
                    SCREEN,
                    "behind the default beyond doubt"
                    if futile
                    else "not among the best of its batch",
                )
        for name in kept:
            self._event("promoted", name, SEARCH, {})
        self.run([self.climbed[name] for name in kept], SEARCH, range(self.config.seeds[SEARCH]))
        return kept

    def finals(self, extra: Sequence[Candidate] = ()) -> list[str]:
        """The last rung for the best few beside the default and `extra` ones; the names of those that went all the way."""
        shrunk = self.ranking(at_least=SEARCH)
        ranked = sorted(
            shrunk,
            key=lambda name: (shrunk[name], self.standings[name, SEARCH].score),
            reverse=True,
        )
        names = ranked[: self.config.finalists]
        for name in names:
            self._event("promoted", name, LAST, {})
        seeds = self.config.seeds[LAST]
        first = min(FUTILITY_SEEDS, seeds)
        going = [self.climbed[name] for name in names]
        self.run([*extra, *going], LAST, range(first))
        if first < seeds:
            stands = [self.standings[c.id, LAST] for c in going if (c.id, LAST) in self.standings]
            bar = max([0.0, *(s.score for s in stands)])
            for lost in [s.candidate for s in stands if s.futile(bar)]:
                going = [c for c in going if c.id != lost]
                self._drop(lost, LAST, f"futile after {first} trainings")
            self.run([*extra, *going], LAST, range(first, seeds))
        return [c.id for c in going if (c.id, LAST) in self.standings]

    def champion(self, finalists: Sequence[str]) -> str:
        """The best of the last rung by shrunken score; the default where none is above it."""
        return _leader(
            shrunken([self.standings[name, LAST] for name in finalists]), self.default.id
        )

    def leader(self) -> str:
        """The best so far by shrunken score; the default where none is above it."""
        return _leader(self.ranking(), self.default.id)

    def ranking(self, *, at_least: int = SCREEN) -> dict[str, float]:
        """Shrunken scores over the default of all designs but it, each at its highest rung; none of one that failed later."""
        found: dict[str, float] = {}
        out = {self.default.id, *self.failures}
        for rung in range(at_least, LAST + 1):
            found |= shrunken(
                [s for (name, r), s in self.standings.items() if r == rung and name not in out]
            )
        return found

    def longest(self, name: str) -> Standing | None:
        """A design's standing at its highest rung."""
        return next(
            (
                self.standings[name, r]
                for r in (LAST, SEARCH, SCREEN)
                if (name, r) in self.standings
            ),
            None,
        )

    def gain(self, candidate: Candidate) -> float | None:
        """What a design gained over its parent at the first rung, on the same orders."""
        own = self.standings.get((candidate.id, SCREEN))
        if own is None:
            return None
        parent = self.standings.get((candidate.parents[0], SCREEN)) if candidate.parents else None
        return own.score - (parent.score if parent else 0.0)

    def scores(self, evaluation: Evaluation) -> dict[str, Array]:
        """The per-order scores of an evaluation."""
        if evaluation.arrays not in self._arrays:
            self._arrays[evaluation.arrays] = self.training_pool.arrays(evaluation)
        return self._arrays[evaluation.arrays]

    def _settle(self, rung: int) -> None:
        """All standings of a rung anew, in the order of proposal: the seeds' spread is pooled over all designs."""
        found: dict[str, Standing] = {}
        for name in (name for name in self.climbed if (name, rung) in self.evaluations):
            by_seed = dict(
                sorted(self.evaluations[name, rung].items())
            )  # whichever training ended first
            self.evaluations[name, rung] = by_seed
            broken = [e.reason for e in by_seed.values() if not e.ok]
            one = None if broken else self._stand(name, rung)
            if one is not None and isfinite(one.score) and isfinite(one.se):
                found[name] = one
            elif broken or one is not None:
                self.standings.pop((name, rung), None)
                self.failures.setdefault(
                    name, broken[0] if broken else "too few of its orders can be compared"
                )
        spread = pooled_seed_sd([s for name, s in found.items() if name != self.default.id])
        self.standings |= {(name, rung): replace(s, seed_sd=spread) for name, s in found.items()}

    def _stand(self, name: str, rung: int) -> Standing | None:
        """A design's standing from the trainings that it and the default have in common."""
        own, default = (self.evaluations.get((n, rung), {}) for n in (name, self.default.id))
        seeds = sorted(
            seed for seed in own if own[seed].ok and seed in default and default[seed].ok
        )
        if not seeds:
            return None
        return standing(
            name,
            rung,
            [self.scores(own[s]) for s in seeds],
            [self.scores(default[s]) for s in seeds],
            weights=self.config.weights,
            regimes=self.training_pool.validation.regimes(rung),
        )

    def _done(self, job: TrainingJob) -> bool:
        return job.seed in self.evaluations.get((job.candidate.id, job.rung), {})

    def _reading(self, job: TrainingJob) -> dict[str, Any]:
        """How a design stands right now, for people who watch."""
        found = self._stand(job.candidate.id, job.rung)
        if found is None:
            return {}
        parent = (
            self.standings.get((job.candidate.parents[0], job.rung))
            if job.candidate.parents
            else None
        )
        return {
            "score": found.score,
            "se": found.se,
            "gain": found.score - parent.score if parent else None,
        }

    def _drop(self, name: str, rung: int, reason: str) -> None:
        self._event("dropped", name, rung, {"reason": reason})

    def _event(self, kind: str, name: str, rung: int, more: Mapping[str, Any]) -> None:
        payload = {"candidate": name, "rung": rung, **more}
        self.tell(
            kind, payload, stored=not self.archive.append(kind, key_of(kind, name, rung), payload)
        )


def _leader(shrunk: Mapping[str, float], default: str) -> str:
    best = max(shrunk, key=lambda name: shrunk[name], default=default)
    return best if shrunk.get(best, 0.0) > 0.0 else default
