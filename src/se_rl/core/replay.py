"""A stored score once more: the design is trained and scored again, and must give the same bits."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from se_rl.config import ConfigError, load_yaml
from se_rl.core.fraud import check_design
from se_rl.core.preparation import SEAL
from se_rl.core.run import Run
from se_rl.executors.device_batches import DEVICE_BATCH
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation
from se_rl.records.fraud import FraudCheck
from se_rl.records.jobs import TrainingJob
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig
from se_rl.scoring.future_blind import future_blind

Say = Callable[[str], None]


@dataclass(frozen=True)
class ReplayedTraining:
    """One training made again: its scores beside the stored ones, and whether every bit is equal.

    `future_blind` is None where it was not tried.
    """

    rung: int
    seed: int
    stored: Mapping[str, float]
    again: Mapping[str, float]
    equal: bool
    reason: str
    future_blind: bool | None


@dataclass(frozen=True)
class ReplayedDesign:
    """A design's trainings made again, and the fraud check on their policies.

    `same_code` says whether the code is the run's own.
    """

    design: str
    evaluations: tuple[ReplayedTraining, ...]
    isolation: str
    fraud: FraudCheck
    same_code: bool = False

    @property
    def equal(self) -> bool:
        """Whether all trainings gave the same bits."""
        return all(one.equal for one in self.evaluations)

    @property
    def future_blind(self) -> bool:
        """Whether no policy was seen to look ahead."""
        return all(one.future_blind is not False for one in self.evaluations)


@dataclass(frozen=True)
class StoredRun:
    """A run's folder, its archive and the settings it was made with."""

    folder: RunFolder
    archive: Archive
    config: RunConfig

    def check_data(self, run: Run) -> None:
        """Refuse data that is not what the run used."""
        begun = self.archive.find("run_started") or {}
        if begun.get("data", {}).get("sha256") != run.facts["sha256"]:
            what = f"the data {run.facts['name']} is not what the run used (its hash differs)"
            raise ConfigError(f"{what}; put the same file in its place")


def replay(
    place: Path,
    designs: Sequence[str],
    *,
    rung: int | None = None,
    unsafe: bool = False,
    say: Say = lambda _: None,
) -> list[ReplayedDesign]:
    """Train and score designs again, in fresh processes, and compare every number bit for bit.

    `rung` limits it to one rung (0, 1 or 2). Nothing is written to the run's folder.
    """
    with ExitStack() as stack:
        stored = open_stored_run(stack, place, read_only=True)
        archive = stored.archive
        trainings = []
        for name in designs:
            candidate = archive.candidate(name)
            trainings.append((candidate, _trainings(archive, candidate, rung)))
        scratch = _scratch_archive(stack, archive)
        run = Run(stored.config, stored.folder, scratch, say=say, unsafe=unsafe)
        stack.callback(run.close)
        stored.check_data(run)
        begun = archive.find("run_started") or {}
        found = []
        for candidate, evaluations in trainings:
            alone = replace(candidate, parents=())  # its parents are not in scratch
            scratch.add_candidate(alone, archive.sources(candidate))
            one = train_again(run, candidate, evaluations)
            found.append(replace(one, same_code=begun.get("code_hash") == run.code))
        return found


def accepted(place: Path, *, rung: int | None = None) -> list[str]:
    """The designs of a run that raced, and the default.

    With `rung` those of them that were trained there.
    """
    with ExitStack() as stack:
        stored = open_stored_run(stack, place, read_only=True)
        done = stored.archive.evaluations()
    search = stored.config.rungs.search.index
    worth = {e.candidate for e in done if e.ok and e.rung >= search}
    found = [e.candidate for e in done if e.candidate in worth and rung in (None, e.rung)]
    if not found:
        none = f"{place} holds no design that was trained after its screen"
        raise ConfigError(f"{none}; let `se-rl run` go on with it")
    return list(dict.fromkeys(found))


def open_stored_run(stack: ExitStack, place: Path, *, read_only: bool) -> StoredRun:
    """The run in a folder, opened for as long as the stack is."""
    folder = RunFolder(place)
    if not folder.holds_run:
        name = folder.database.name
        raise ConfigError(f"{place} holds no run (no {name}); give the folder of one")
    if not read_only:
        stack.enter_context(folder)
    config = load_yaml(RunConfig, folder.config, follow=False)
    archive = Archive.open(folder.archive, read_only=read_only)
    return StoredRun(folder, stack.enter_context(archive), config)


def train_again(run: Run, candidate: Candidate, stored: Sequence[Evaluation]) -> ReplayedDesign:
    """One design's trainings once more, each beside what the archive has."""
    run.say(f"training {candidate.id} again, {len(stored)} times")
    jobs = [TrainingJob(candidate, run.config.rungs[e.rung], e.seed) for e in stored]
    again: dict[tuple[int, int], Evaluation] = {}
    for job, evaluation, _ in run.training_pool.evaluate(jobs):
        again[job.rung.index, job.seed] = evaluation
    rows = []
    for old in stored:
        new = again[old.rung, old.seed]
        same = (new.arrays, new.policy, new.status) == (old.arrays, old.policy, old.status)
        blind = _is_future_blind(run, candidate, new)
        row = ReplayedTraining(
            old.rung, old.seed, dict(old.scores), dict(new.scores), same, new.reason, blind
        )
        rows.append(row)
        verdict = "the same bits" if same else "DIFFERENT"
        run.say(f"rung {old.rung}, seed {old.seed}: {verdict}")
    levels = sorted({e.isolation for e in again.values()})
    fraud = check_design(run, candidate, again.values())
    return ReplayedDesign(candidate.id, tuple(rows), ", ".join(levels), fraud)


def _is_future_blind(run: Run, candidate: Candidate, evaluation: Evaluation) -> bool | None:
    if not evaluation.ok or run.config.worlds == "dynamic":
        return None
    pool = run.training_pool
    policy = pool.opened(pool.policy(candidate, evaluation))
    return future_blind(pool.validation.data, run.config, policy, run.scales)


def _trainings(archive: Archive, candidate: Candidate, rung: int | None) -> list[Evaluation]:
    found = [e for e in archive.evaluations(candidate.id) if rung is None or e.rung == rung]
    if not found:
        where = "" if rung is None else f" at rung {rung}"
        what = f"design {candidate.id} was not trained{where}"
        raise ConfigError(f"{what}; se-rl show lists the rungs")
    return found


def _scratch_archive(stack: ExitStack, archive: Archive) -> Archive:
    """An archive of its own for what is made again, with the run's seal and neutral schedule, and
    with the batches that shared a device, which is made again with them.
    """
    if archive.find(SEAL) is None:
        raise ConfigError(
            f"the run in {archive.place} has no seal: an older se-rl made it; "
            "replay it with that one"
        )
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    scratch = stack.enter_context(Archive.open(folder / "again.sqlite"))
    for name in (SEAL, "neutral"):
        if (stored := archive.find(name)) is not None:
            scratch.append(name, name, stored)
    for batch in archive.events(DEVICE_BATCH):
        for name in {design for design, _, _ in batch.payload["jobs"]}:
            design = replace(archive.candidate(name), parents=())
            scratch.add_candidate(design, archive.sources(design))
        scratch.append(batch.kind, batch.key, batch.payload)
    return scratch
