"""The archive of a run in a Postgres database that other runs use too.

Each run has a journal of its own. What one evaluates the others find by its key, and copy into their
own journals with the name of the run that it came from: a run can be resumed, read and repeated
from its own records alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine, MetaData, Select, Table, func, select
from sqlalchemy.schema import DropSchema

from se_rl.config import ConfigError
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation, Leader
from se_rl.records.postgres import lock_number, schema_of
from se_rl.records.remote_blobs import blobs_place, open_blobs
from se_rl.records.schema import EVALUATION, EVENT, prepare, stored_version, transaction
from se_rl.records.shared_tables import (
    SHARED_EVALUATION,
    SHARED_LEADER,
    SHARED_META,
    SHARED_TABLES,
)

Shared = TypeVar("Shared", Evaluation, Leader)


class SharedArchive(Archive):
    """What one run has stored, beside others: evaluations are shared by key, leaders by task."""

    @classmethod
    def prepared(
        cls, engine: Engine, place: str, *, blobs: str | Path | None, read_only: bool
    ) -> SharedArchive:
        """The archive of the run in this place, its tables made or brought up to date.

        All runs of a database keep their files in the place that the first one chose.
        """
        with transaction(engine, place) as connection:
            if not read_only:  # runs may begin at once
                connection.execute(select(func.pg_advisory_xact_lock(lock_number("schemas"))))
                prepare(connection, place, SHARED_TABLES, blobs=blobs_place(blobs))
            stored_version(connection, place, SHARED_TABLES)
            chosen = connection.execute(select(SHARED_META.c.blobs)).scalar_one()
        if blobs is not None and blobs_place(blobs) != chosen:
            raise ConfigError(
                f"the archive keeps its files in {chosen}, --blobs says {blobs_place(blobs)}; "
                "leave --blobs out, or use another database"
            )
        archive = cls(engine, open_blobs(chosen, engine, place), place, read_only=read_only)
        if archive._is_older():
            Archive.open(place).close()
        return archive

    def add_evaluation(self, e: Evaluation, *, key: str) -> bool:
        """Store what one training and its scoring gave; others may take what was made here."""
        rows = [(EVALUATION, {"key": key})]
        if not e.origin:
            rows.append((SHARED_EVALUATION, {"key": key, "run": self.run}))
        return self._write("evaluated", key, vars(e), *rows)

    def made_elsewhere(self, key: str) -> Evaluation | None:
        """The evaluation that another run stored under this key, with that run as its origin."""
        places = select(SHARED_EVALUATION).where(SHARED_EVALUATION.c.key == key)
        found = self._of_others(Evaluation, places.order_by(SHARED_EVALUATION.c.run).limit(1))
        return next((replace(one, origin=run) for run, one in found), None)

    def claim(self, key: str) -> bool:
        """Whether this run may make the evaluation of this key: no other is making it now.

        The claim ends with `release`, or with the connection.
        """
        return self._asked(func.pg_try_advisory_lock(lock_number("evaluation", key)))

    def release(self, key: str) -> None:
        """Let others make the evaluation of a key that was claimed."""
        self._asked(func.pg_advisory_unlock(lock_number("evaluation", key)))

    def add_leader(self, leader: Leader) -> bool:
        """Store the design that leads this run, and show it to others with the same task."""
        row = (SHARED_LEADER, {"run": self.run})
        return self._write("leader", f"leader {leader.iteration}", vars(leader), row)

    def leaders(self, task: str) -> list[tuple[str, Leader]]:
        """The latest leader of every other run with this task and that run's name, best first."""
        table = SHARED_LEADER.c
        latest = select(table.run, func.max(table.seq).label("seq")).group_by(table.run)
        latest = latest.where(table.task == task, table.run != self.run)
        found = self._of_others(Leader, latest)
        return sorted(found, key=lambda one: (-one[1].score, one[0]))

    def discard(self) -> None:
        """Delete all that this run has stored, its schema too."""
        with self._transaction() as connection:
            for table in (SHARED_EVALUATION, SHARED_LEADER):
                connection.execute(table.delete().where(table.c.run == self.run))
            connection.execute(DropSchema(schema_of(self.run), cascade=True))

    def _asked(self, question: Any) -> bool:
        with self._transaction() as connection:
            return bool(connection.execute(select(question)).scalar())

    def _of_others(self, kind: type[Shared], places: Select[Any]) -> list[tuple[str, Shared]]:
        """The records that rows of a shared table point to, with the names of their runs."""
        with self._transaction() as connection:
            rows = connection.execute(places).all()
        found = []
        for row in rows:
            journal = _journal_of(row.run)
            (stored,) = self._read(select(journal).where(journal.c.seq == row.seq))
            found.append((row.run, self._record(kind, stored)))
        return found


@lru_cache
def _journal_of(run: str) -> Table:
    """The journal of another run."""
    return EVENT.to_metadata(MetaData(), schema=schema_of(run))
