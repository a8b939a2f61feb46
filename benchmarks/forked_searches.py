"""Whole searches whose trainings go to forked processes without a lock, until the time is over.

Without a lock only modules that the grammar spells are run: they are parsed back into choices
before anything else. All searches share one model, a turn at a time, and each has adapters of its
own. The processes must be forked before the model is first asked: no forked process could use
autograd or a GPU any more.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from se_rl.llm.adapters import LoraSettings
from se_rl.llm.backends import Abilities, Proposal, Request, TrainableDesigner
from se_rl.llm.code_validator import ValidationResult, recorded_steps
from se_rl.modules.derivation import derivation
from se_rl.modules.runtime_check import probe
from se_rl.modules.static_check import check_source
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.scoring.score import Array, ScoreRule
from se_rl.scoring.score_summary import score_summary
from se_rl_benchmarks.many_trainings import Job, Workshop
from se_rl_benchmarks.shared_trainings import SharedTrainings, TimeIsOver

FRESH_SEED = 1000
"""The first of the training seeds that no search uses."""
FRESH_TRAININGS = 5
TURN = threading.RLock()
"""Held by the one search that runs torch in this process: the model's and the modules' trials."""


class ForkedEvaluator:
    """Trains and scores the designs of one search in processes that all searches share.

    `worlds` is where designs are trained; no batch begins or is waited for after the deadline.
    """

    def __init__(
        self,
        workshop: Workshop,
        shared: SharedTrainings,
        archive: Archive,
        *,
        worlds: str = "both",
        deadline: float = math.inf,
    ) -> None:
        self.workshop = workshop
        self.shared = shared
        self.archive = archive
        self.worlds = worlds
        self.deadline = deadline
        self.trainings = 0
        self._scores: dict[str, dict[str, Array]] = {}

    @property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """By world the names of the cells."""
        return self.workshop.data.validation.cells

    def regimes(self, rung: Rung) -> Mapping[str, Any]:
        """Which pairs of orders belong to which regime."""
        return self.workshop.data.validation.regimes(rung)

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation, in the order of the jobs."""
        if time.monotonic() > self.deadline:
            raise TimeIsOver
        asked = []
        for job in jobs:
            sources = self.archive.sources(job.candidate)
            rung = job.rung
            name = job.candidate.id
            asked.append(Job(name, rung.work, job.seed, sources, self.worlds, rung.index))
        self.trainings += len(asked)
        found = self.shared.outcomes(asked, self.deadline)
        for job, outcome in zip(jobs, found, strict=True):
            place = f"{job.candidate.id} {job.rung.index} {job.seed}"
            self._scores[place] = dict(outcome.scores)
            status = "failed" if outcome.reason else "ok"
            made = Evaluation(
                job.candidate.id,
                job.rung.index,
                job.seed,
                status,
                outcome.reason,
                arrays=place,
                work=job.rung.work,
                seconds=outcome.seconds,
            )
            yield job, made, False

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores of an evaluation."""
        return self._scores[evaluation.arrays]


class SealedGain(NamedTuple):
    """A design's score over the default on test days, its interval, and its two halves; half of
    the interval of that on history."""

    over_default: float
    ci95: tuple[float, float]
    history: float
    simulated: float
    history_half: float


UNTRAINED = SealedGain(math.nan, (math.nan, math.nan), math.nan, math.nan, math.nan)
"""Of a design that cannot be trained."""


class SealedComparison:
    """Designs over the default on test days and fresh simulated orders, with fresh trainings.

    The default's own trainings serve all designs; they begin at once.
    """

    def __init__(self, workshop: Workshop, shared: SharedTrainings, work: float) -> None:
        self._workshop = workshop
        self._shared = shared
        self._work = work
        for job in self._jobs({}):
            shared.start(job)

    def over_default(self, sources: Mapping[str, str], deadline: float = math.inf) -> SealedGain:
        """The difference in score, whole and by halves."""
        own = list(self._shared.outcomes(self._jobs(sources), deadline))
        default = list(self._shared.outcomes(self._jobs({}), deadline))
        if any(one.reason for one in own):
            return UNTRAINED
        rule = ScoreRule.of(self._workshop.config)
        found = score_summary(
            [one.scores for one in own],
            rule,
            other=[one.scores for one in default],
            cells=self._workshop.cells,
        )
        low, high = found.history.ci95
        return SealedGain(
            found.score.mean,
            found.score.ci95,
            found.history.mean,
            found.simulated.mean,
            0.5 * (high - low),
        )

    def _jobs(self, sources: Mapping[str, str]) -> list[Job]:
        seeds = range(FRESH_SEED, FRESH_SEED + FRESH_TRAININGS)
        return [Job("sealed", self._work, seed, sources, rung=-1) for seed in seeds]


class GrammaticalValidator:
    """Judges modules in this process: what no choices spell is refused and never run."""

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """Parse the module back into choices, read it, then try it on the recorded steps."""
        started = time.monotonic()
        if derivation(code, code_type) is None:
            return ValidationResult(
                False,
                "static",
                f"the grammar spells no such {code_type}, and without a lock nothing else is run; "
                "make it of the grammar's choices",
                seconds=time.monotonic() - started,
            )
        if problem := check_source(code, code_type):
            return ValidationResult(
                False, "static", problem.message, seconds=time.monotonic() - started
            )
        with TURN:
            verdict = probe(code, code_type, recorded_steps())
        return ValidationResult(
            not verdict.error,
            "runtime" if verdict.error else "passed",
            verdict.error,
            verdict.fingerprint,
            verdict.behaviour,
            verdict.warnings,
            "none (made of the grammar's choices)",
            time.monotonic() - started,
        )


class TakenInTurns:
    """A model that many searches share: whoever writes or learns has it to himself meanwhile."""

    def __init__(self, designer: TrainableDesigner) -> None:
        self._designer = designer

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._designer.name

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return self._designer.abilities

    @property
    def adapter(self) -> str | None:
        """Name of the adapter in use; None for the untouched model."""
        return self._designer.adapter

    @property
    def embeddings(self) -> Tensor:
        """What the model reads each token as, [token, size]."""
        with TURN:
            return self._designer.embeddings

    def tokens_of(self, text: str) -> Sequence[int]:
        """A text as the model reads it."""
        with TURN:
            return self._designer.tokens_of(text)

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals to one request."""
        with TURN:
            return self._designer.propose(request, n)

    def new_adapter(
        self, label: str, *, settings: LoraSettings | None = None, seed: int = 0
    ) -> TakenInTurns:
        """The same model with a fresh adapter."""
        with TURN:
            return TakenInTurns(self._designer.new_adapter(label, settings=settings, seed=seed))

    def with_adapter_bytes(self, content: bytes) -> TakenInTurns:
        """The same model with an adapter from `adapter_bytes`."""
        with TURN:
            return TakenInTurns(self._designer.with_adapter_bytes(content))

    def adapter_bytes(self) -> bytes:
        """The adapter and its optimiser's state as one file."""
        with TURN:
            return self._designer.adapter_bytes()

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        """One step on the adapter."""
        with TURN:
            return self._designer.update(proposals, advantages, **settings)
