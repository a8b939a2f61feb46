"""Trainings that wait for a worker, less those that need not be made: evaluations are shared by key.

An evaluation may stand in the run's own archive, in another run that was named as a library, or in
that of another search on the same database. What another search is making right now is waited for,
not made twice; should that search end without it, it is made here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob

LOOK_AGAIN_SECONDS = 0.5
"""Between two looks at what another search is making."""


@dataclass(frozen=True)
class TrainingAttempt:
    """A job under its key, and how many times it has been tried, this time included."""

    job: TrainingJob
    key: str
    number: int = 1


class KnownEvaluations:
    """Evaluations that stand already: in `archive`, in those of `library`, or beside it."""

    def __init__(self, archive: Archive, library: Sequence[Archive] = ()) -> None:
        self.archive = archive
        self._library = library

    def find(self, key: str, candidate: str) -> Evaluation | None:
        """The evaluation of this key, stored in the run's own archive from now on.

        Where its files are damaged it is as good as none.
        """
        found = self.archive.evaluation(key)
        if found is not None and _is_whole(self.archive, found):
            return replace(found, candidate=candidate)
        for archive in self._library:
            found = archive.evaluation(key)
            if found is not None and _is_whole(archive, found):
                for name in _files(found):
                    self.archive.put_blob(archive.blob(name))
                return self._taken(
                    replace(found, origin=found.origin or archive.run), key, candidate
                )
        found = self.archive.made_elsewhere(key)
        if found is not None and _is_whole(self.archive, found):
            return self._taken(found, key, candidate)
        return None

    def _taken(self, found: Evaluation, key: str, candidate: str) -> Evaluation:
        own = replace(found, candidate=candidate)
        self.archive.add_evaluation(own, key=key)
        return own


class JobQueue:
    """Jobs that are asked for, in order, each handed out once no other search is at it; after them
    those that will be asked for."""

    def __init__(self, known: KnownEvaluations, key: Callable[[TrainingJob], str]) -> None:
        self._known = known
        self._key = key
        self._waiting: list[TrainingAttempt] = []  # next one last
        self._ahead: list[TrainingAttempt] = []
        self._elsewhere: list[TrainingAttempt] = []
        self._found: list[tuple[TrainingJob, Evaluation]] = []
        self._claimed: set[str] = set()
        self._looked = time.monotonic()

    def __bool__(self) -> bool:
        return bool(self._waiting or self._elsewhere or self._found)

    def ask(self, jobs: Iterable[TrainingJob]) -> None:
        """Add jobs, unless they are under way: looked ahead to, and begun."""
        asked = [attempt for attempt in self._attempts(jobs) if attempt.key not in self._claimed]
        keys = {attempt.key for attempt in asked}
        self._waiting = [*asked, *self._waiting]
        self._ahead = [attempt for attempt in self._ahead if attempt.key not in keys]

    def look_ahead(self, jobs: Iterable[TrainingJob]) -> None:
        """Jobs that will be asked for; they take the place of those that were named before."""
        self._ahead = self._attempts(jobs)

    def take(self) -> TrainingAttempt | None:
        """The next attempt that may be made now; None where there is none."""
        while self._waiting:
            attempt = self._waiting.pop()
            if attempt.key in self._claimed:  # it was lost, and is tried again
                return attempt
            if not self._known.archive.claim(attempt.key):
                self._elsewhere.append(attempt)
                continue
            found = self._claim(attempt)
            if found is None:
                return attempt
            self._found.append((attempt.job, found))
        while self._ahead:
            attempt = self._ahead.pop()
            if self._known.archive.claim(attempt.key) and self._claim(attempt) is None:
                return attempt
        return None

    def again(self, attempt: TrainingAttempt) -> None:
        """Try a job once more: its worker was killed from outside."""
        self._waiting.append(replace(attempt, number=attempt.number + 1))

    def let_go(self, attempt: TrainingAttempt) -> None:
        """Say that nobody is at a job any more, its evaluation stored or not."""
        self._claimed.discard(attempt.key)
        self._known.archive.release(attempt.key)

    def found(self) -> Iterator[tuple[TrainingJob, Evaluation]]:
        """Jobs that other searches have done in the meantime."""
        if self._elsewhere and time.monotonic() > self._looked + LOOK_AGAIN_SECONDS:
            self._waiting = [*self._elsewhere[::-1], *self._waiting]
            self._elsewhere.clear()
            self._looked = time.monotonic()
        while self._found:
            yield self._found.pop(0)

    def withdraw(self) -> None:
        """Nobody asks for what has not begun."""
        for attempt in self._waiting:
            if attempt.key in self._claimed:
                self.let_go(attempt)
        self._waiting.clear()
        self._elsewhere.clear()
        self._found.clear()

    def _attempts(self, jobs: Iterable[TrainingJob]) -> list[TrainingAttempt]:
        return [TrainingAttempt(job, self._key(job)) for job in jobs][::-1]

    def _claim(self, attempt: TrainingAttempt) -> Evaluation | None:
        """Keep a claim, unless another search ended the job just before it: then what that found."""
        found = self._known.find(attempt.key, attempt.job.candidate.id)
        self._claimed.add(attempt.key)
        if found is not None:
            self.let_go(attempt)
        return found


def _files(evaluation: Evaluation) -> tuple[str, ...]:
    """The blobs of an evaluation."""
    return (evaluation.arrays, evaluation.policy, evaluation.curve) if evaluation.ok else ()


def _is_whole(archive: Archive, evaluation: Evaluation) -> bool:
    return all(map(archive.has_blob, _files(evaluation)))
