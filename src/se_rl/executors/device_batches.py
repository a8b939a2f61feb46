"""Which trainings share a device: the last bits of what a training gives there depend on its company.

So company is part of an evaluation's key, and for good: jobs that are asked for together and may be
trained on the device are written to the journal as a batch before it begins. Whenever one of them is
asked for again, by a run that goes on or by a replay, the batch is trained as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from se_rl.executors.training_settings import training_worlds_of
from se_rl.records.archive import Archive
from se_rl.records.entries import key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import RunConfig
from se_rl.rl.on_device.together import can_train
from se_rl.rl.written_policy import written_modules

DEVICE_BATCH = "device_batch"
"""The kind of the events: design, rung and seed of each of the `jobs`."""
MOST_TOGETHER = 128
"""Trainings in a batch at most."""

JobName = tuple[str, int, int]
"""Design, rung and seed of a training."""


class DeviceBatches:
    """The batches of a run; `key` names a training by all that it depends on but its company."""

    def __init__(
        self, config: RunConfig, archive: Archive, key: Callable[[TrainingJob], str]
    ) -> None:
        self._config = config
        self._worlds = training_worlds_of(config)
        self._archive = archive
        self._key = key
        self._company: dict[JobName, tuple[TrainingJob, ...]] = {}
        self._company_key: dict[JobName, str] = {}
        stored = archive.events(DEVICE_BATCH) if self.used else []
        designs = {one.id: one for one in archive.candidates()} if stored else {}
        for event in stored:
            jobs = []
            for design, rung, seed in event.payload["jobs"]:
                jobs.append(TrainingJob(designs[design], config.rungs[rung], seed))
            self._add(jobs)

    @property
    def used(self) -> bool:
        """Whether there is a device at all."""
        return self._config.device != "cpu"

    def takes(self, job: TrainingJob) -> bool:
        """Whether a job may be trained on the device: spelled by the grammar, in worlds it has."""
        if not self.used:
            return False
        modules = written_modules(self._archive.sources(job.candidate))
        return modules is not None and can_train(modules, self._worlds)

    def gather(self, jobs: Iterable[TrainingJob]) -> None:
        """Put jobs for the device that are in no batch yet into new ones, by the work they take."""
        new: dict[float, list[TrainingJob]] = {}
        for job in jobs:
            if _name(job) not in self._company and self.takes(job):
                new.setdefault(job.rung.work, []).append(job)
        for alike in new.values():
            alike.sort(key=self._key)
            for first in range(0, len(alike), MOST_TOGETHER):
                batch = alike[first : first + MOST_TOGETHER]
                names = [_name(job) for job in batch]
                self._archive.append(DEVICE_BATCH, key_of(DEVICE_BATCH, names), {"jobs": names})
                self._add(batch)

    def company(self, job: TrainingJob) -> tuple[TrainingJob, ...]:
        """The jobs of its batch, itself among them; none where it has a process of its own."""
        return self._company.get(_name(job), ())

    def full_key(self, job: TrainingJob) -> str:
        """The name of an evaluation, with the device and the company that it was trained in."""
        key, company = self._key(job), self._company_key.get(_name(job))
        return key if company is None else key_of(key, self._config.device, company)

    def _add(self, batch: Sequence[TrainingJob]) -> None:
        company_key = key_of([self._key(job) for job in batch])
        for job in batch:
            self._company[_name(job)] = tuple(batch)
            self._company_key[_name(job)] = company_key


def _name(job: TrainingJob) -> JobName:
    return job.candidate.id, job.rung.index, job.seed
