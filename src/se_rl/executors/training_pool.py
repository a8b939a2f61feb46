"""The workshop: designs are validated and trained behind the lock, several at once, then scored by the examiner.

Every evaluation has a key made of all that its outcome depends on and is stored under it: what stands in the archive is
looked up, never computed twice. A worker that was killed from outside is tried again; what the design itself broke is a
result with a reason.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from se_rl.config import to_dict
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.llm.code_validator import CodeValidator, ValidationResult
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.records.schema import AGAIN
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.ppo import PPOSettings
from se_rl.rl.sandboxed_training import SandboxedTrainer, TrainedDesign
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig
from se_rl.sandbox.calls import Call
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring.standing import Array, Regimes
from se_rl.scoring.validation import Open, Validation

T = TypeVar("T")
ATTEMPTS = 3
"""How often a training is tried where its process was killed from outside."""
SECONDS_PER_WORK, SECONDS = 60.0, 120.0
"""A training's deadline: so much per work unit and so much more. Generous: a busy machine must not change a score."""


@dataclass(frozen=True)
class Underway:
    """A job under way, its how many-th attempt, and the sources it was given."""

    job: TrainingJob
    call: Call
    attempt: int
    sources: Mapping[str, str]

    def ended(self, within_seconds: float = 0.0) -> bool:
        """Whether it has ended, well or not."""
        try:
            return self.call.poll(within_seconds) is not None
        except SandboxError:
            return True

    def outcome(self) -> TrainedDesign:
        """What an ended training gave; it is "lost" where the whole room went down."""
        try:
            return TrainedDesign.of(self.call.wait(), self.sources)
        except SandboxError as error:
            return TrainedDesign(self.sources, "lost", str(error), "", 0.0)


class TrainingPool:
    """Trains and scores designs with `workers` trainings at once; rooms are opened when first needed.

    `library` are archives of other runs of the same code: what they evaluated is the same piece of work by its key.
    """

    def __init__(
        self,
        config: RunConfig,
        archive: Archive,
        validation: Validation,
        *,
        train_data: MarketData,
        scales: FeatureScales,
        bank: Callable[[], EpisodeBank | None],
        neutral: Callable[[], Mapping[str, Neutral]],
        data_hash: str,
        workers: int = 2,
        unsafe: bool = False,
        library: Sequence[Archive] = (),
    ) -> None:
        self.config, self.archive, self.validation, self.workers, self.unsafe = (
            config,
            archive,
            validation,
            workers,
            unsafe,
        )
        self.ground = training_worlds_of(config)
        self._train_data, self._scales, self._bank, self._neutral = (
            train_data,
            scales,
            bank,
            neutral,
        )
        self._data_hash, self._library = data_hash, library
        self._trainer: SandboxedTrainer | None = None

    @property
    def trainer(self) -> SandboxedTrainer:
        """the sandbox, opened on first use."""
        if self._trainer is None:
            data = self._train_data if self.config.weights["static"] else None
            with ThreadPoolExecutor(
                1
            ) as beside:  # simulating (and the first time compiling) while the sandbox warms up
                bank = beside.submit(self._bank)
                trainer = SandboxedTrainer(data=data, scales=self._scales, unsafe=self.unsafe)
                if (known := bank.result()) is not None:
                    trainer.share_bank(known)
            self._trainer = trainer
        return self._trainer

    @property
    def isolation(self) -> str:
        """The level of the lock."""
        return self.trainer.sandbox.isolation.level

    def close(self) -> None:
        """End the sandbox and all in it."""
        if self._trainer is not None:
            self._trainer.stop()
            self._trainer = None

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """Judge a module in this room (`llm.generator.Validator`); SandboxError where none is to be had: no verdict."""

        def judged() -> ValidationResult:
            result = CodeValidator(self.trainer.sandbox, unsafe=self.unsafe).validate(
                code, code_type
            )
            if result.stage == "sandbox":
                raise SandboxError(result.error_message)
            return result

        return self.patiently(judged)

    def patiently(self, work: Callable[[], T]) -> T:
        """Do what needs the sandbox; where a process in it was killed from outside again, in a new sandbox if need be."""
        for _ in range(ATTEMPTS - 1):
            try:
                return work()
            except SandboxError as error:
                if error.hopeless:
                    raise
                if not self._alive():
                    self.close()
        return work()

    def key(self, job: TrainingJob) -> str:
        """The name of an evaluation: everything that its outcome depends on."""
        config = self.config
        train = to_dict(train_config(config, job.rung))
        panel = [
            config.horizon,
            job.rung.episodes,
            config.worlds,
            config.participation,
            config.dynamic_horizon,
        ]
        modules = sorted(job.candidate.modules.items())
        return key_of(
            modules, job.rung.index, job.seed, to_dict(self.ground), train, panel, self._data_hash
        )

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation and whether it stood in the archive already, as they finish."""
        waiting = []
        for job in jobs:
            stored = self._stored(job)
            if stored is None:
                waiting.append(job)
            else:
                yield job, stored, True
        for job, evaluation in self._train(waiting):
            self.archive.add_evaluation(evaluation, key=self.key(job))
            yield job, evaluation, False

    def regimes(self, rung: Rung) -> Regimes:
        """Which pairs of orders belong to which regime."""
        return self.validation.regimes(rung)

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores of an evaluation per pair of orders."""
        with np.load(io.BytesIO(self.archive.blob(evaluation.arrays))) as stored:
            return {name: stored[name] for name in stored.files}

    def policy(self, candidate: Candidate, evaluation: Evaluation) -> TrainedDesign:
        """The trained policy of an evaluation, from the archive."""
        return training_from_bytes(
            self.archive.blob(evaluation.policy), self.archive.sources(candidate)
        )

    def opened(self, trained: TrainedDesign) -> Open:
        """A way to open a trained policy for a world, behind the lock."""
        neutral = self._neutral()
        return lambda world, horizon, rows: self.trainer.actor(
            trained, horizon=horizon, rows=rows, neutral=neutral.get(world, Neutral())
        )

    def _stored(self, job: TrainingJob) -> Evaluation | None:
        """The evaluation of an earlier passage, here or in another run; where its files are damaged it is made again."""
        key = self.key(job)
        for archive in (self.archive, *self._library):
            found = archive.evaluation(key)
            files = (found.arrays, found.policy, found.curve) if found and found.ok else ()
            if found is None or not all(map(archive.has_blob, files)):
                continue
            found = replace(found, candidate=job.candidate.id)
            if archive is not self.archive:
                for name in files:
                    self.archive.put_blob(archive.blob(name))
                self.archive.add_evaluation(found, key=key)
            return found
        return None

    def _train(self, jobs: Iterable[TrainingJob]) -> Iterator[tuple[TrainingJob, Evaluation]]:
        """Keep `workers` trainings going; score each as it ends, while the others go on."""
        queue, running = [(job, 1) for job in jobs][::-1], list[Underway]()
        while queue or running:
            while queue and len(running) < self.workers:
                running.append(self._start(*queue.pop()))
            done = next((one for one in running if one.ended()), None)
            if done is None:
                running[0].ended(0.05)
                continue
            running.remove(done)
            trained = done.outcome()
            if trained.status in ("killed", "crashed", "lost") and done.attempt < ATTEMPTS:
                queue.append((done.job, done.attempt + 1))
                continue
            if trained.status == "lost":  # that says nothing about the design
                raise SandboxError(
                    f"the sandbox was killed in {ATTEMPTS} attempts at one training; {AGAIN}"
                )
            if queue:  # the next one trains while this one is scored
                running.append(self._start(*queue.pop()))
            yield done.job, self._scored(done.job, trained, done.attempt)

    def _start(self, job: TrainingJob, attempt: int) -> Underway:
        sources = self.archive.sources(job.candidate)
        how: dict[str, Any] = {
            "config": train_config(self.config, job.rung),
            "seconds": SECONDS + SECONDS_PER_WORK * job.rung.work,
        }
        call = self.patiently(
            lambda: self.trainer.start(
                sources, ground=self.ground, seed=job.seed, neutral=self._neutral(), **how
            )
        )
        return Underway(job, call, attempt, sources)

    def _scored(self, job: TrainingJob, trained: TrainedDesign, attempt: int) -> Evaluation:
        """Examine a finished training."""
        base = Evaluation(
            job.candidate.id,
            job.rung.index,
            job.seed,
            "failed",
            trained.reason or "",
            work=trained.work,
            seconds=round(trained.seconds, 3),
            isolation=trained.isolation,
            attempts=attempt,
        )
        if not trained.ok:
            return replace(
                base,
                reason=f"{trained.status}: {trained.reason}"
                if trained.status != "ok"
                else trained.reason or "",
            )
        started = time.monotonic()
        try:
            arrays = self.patiently(lambda: self.validation.score(job.rung, self.opened(trained)))
        except (
            SandboxError
        ) as error:  # every time: the policy's own fault, unless there is no room at all
            if not self._alive():
                raise
            return replace(base, reason=f"its policy failed in use: {error}")
        scores = {
            name: mean(values) for name, values in arrays.items() if not name.endswith("_day")
        }
        if any(not np.isfinite(value) for value in scores.values()):
            return replace(base, reason="every order is void: the policy breaks its markets")
        return replace(
            base,
            status="ok",
            reason="",
            scores=scores,
            arrays=self.archive.put_blob(array_bytes(arrays)),
            policy=self.archive.put_blob(training_bytes(trained)),
            curve=self.archive.put_blob(json.dumps(list(trained.curve)).encode()),
            seconds=round(trained.seconds + time.monotonic() - started, 3),
        )

    def _alive(self) -> bool:
        """Whether the room, if there is one, still does anything."""
        try:
            return (
                self._trainer is not None
                and self._trainer.sandbox.call("se_rl.sandbox.worker:nothing", seconds=60).ok
            )
        except SandboxError:
            return False


def training_worlds_of(config: RunConfig) -> TrainingWorldsConfig:
    """The worlds that designs of a run are trained in."""
    return TrainingWorldsConfig(
        worlds=config.worlds,
        horizon=config.horizon,
        dynamic_horizon=config.dynamic_horizon,
        participation=config.participation,
        agents=config.agents if config.scenario == "multi" else 1,
        bank=config.bank,
    )


def mean(values: Array) -> float:
    """Mean over the orders that are not void."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def train_config(config: RunConfig, rung: Rung) -> TrainConfig:
    """How designs of a run are trained at a rung."""
    return TrainConfig(
        budget=rung.work,
        gamma=config.gamma,
        learning_rate=config.learning_rate,
        gae_lambda=config.gae_lambda,
        initial_alpha=config.initial_alpha,
        ppo=PPOSettings(clip=config.clip),
        samples=min(16_384, config.samples),
    )


def array_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as npz, the same bytes for the same numbers."""
    sink = io.BytesIO()
    np.savez(
        sink,
        allow_pickle=False,
        **{name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)},
    )
    return sink.getvalue()


def training_bytes(trained: TrainedDesign) -> bytes:
    """Weights and shape of a trained policy; its sources stand beside it in the archive."""
    about = {"shape": trained.shape, "action_map": trained.action_map, "work": trained.work}
    text = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
    return array_bytes({"about": text, **(trained.weights or {})})


def training_from_bytes(content: bytes, sources: Mapping[str, str]) -> TrainedDesign:
    """The inverse."""
    with np.load(io.BytesIO(content)) as stored:
        about = json.loads(stored["about"].tobytes())
        weights = {name: stored[name] for name in stored.files if name != "about"}
    return TrainedDesign(
        sources,
        "ok",
        None,
        "",
        0.0,
        about["work"],
        (),
        about["shape"],
        about["action_map"],
        weights,
    )
