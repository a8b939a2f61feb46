"""The journal of a run: events in the order they were written, each under a key of its own, each
checked by a digest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, Table, bindparam, func, select

from se_rl.bounded_reading import plain_json
from se_rl.records.entries import Event, key_of
from se_rl.records.schema import DAMAGED, EVENT, ArchiveError, transaction
from se_rl.records.secrets import scrub

_KIND = select(EVENT.c.kind).where(EVENT.c.key == bindparam("of"))
_APPEND = EVENT.insert().returning(EVENT.c.seq)
Row = tuple[Table, Mapping[str, Any]]
"""A row to write beside an event: its table, and what the event's payload does not say."""


class EventJournal:
    """An append-only list of events in a database; what was acknowledged is on the disk.

    A key is written once: a run that starts again finds what it has done instead of doing it twice.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self.place = place

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        """Write one event; False where its key stands already, and nothing changes then."""
        return self._write(kind, key, payload)

    def find(self, key: str) -> dict[str, Any] | None:
        """The payload of the event with this key."""
        found = self._read(select(EVENT).where(EVENT.c.key == key))
        return dict(found[0].payload) if found else None

    def events(self, *kinds: str, since: int = 0) -> list[Event]:
        """Events after number `since` in order, of these kinds or of all."""
        statement = select(EVENT).where(EVENT.c.seq > since)
        if kinds:
            statement = statement.where(EVENT.c.kind.in_(kinds))
        return self._read(statement.order_by(EVENT.c.seq))

    def latest(self) -> int:
        """The number of the last event; 0 where there is none."""
        with self._transaction() as connection:
            return connection.execute(select(func.max(EVENT.c.seq))).scalar() or 0

    def _transaction(self) -> AbstractContextManager[Connection]:
        return transaction(self._engine, self.place)

    def _write(self, kind: str, key: str, payload: Mapping[str, Any], *rows: Row) -> bool:
        """One event and its rows, whose columns are filled by name from the payload or from what
        each brings along.
        """
        text = scrub(json.dumps(payload, default=_plain))
        at = time.time()
        with self._transaction() as connection:
            known = connection.execute(_KIND, {"of": key}).scalar()
            if known not in (None, kind):
                raise ValueError(
                    f"key {key} is that of an event {known!r} and cannot be one of {kind!r} too"
                )
            if known:
                return False
            digest = key_of(at, kind, key, text)
            event = {"at": at, "kind": kind, "key": key, "payload": text, "digest": digest}
            seq = connection.execute(_APPEND, event).scalar_one()
            stored = json.loads(text)
            for table, own in rows:
                values = {"seq": seq, **stored, **own}
                columns = {column.name: values[column.name] for column in table.columns}
                connection.execute(table.insert(), columns)
        return True

    def _event(self, row: Any) -> Event:
        try:
            return Event(row.seq, row.at, row.kind, row.key, _payload(row.payload))
        except ValueError as error:
            raise ArchiveError(
                f"{self.place} {DAMAGED} (the payload of event {row.seq} cannot be read: {error})"
            ) from None

    def _read(self, statement: Select[Any]) -> list[Event]:
        with self._transaction() as connection:
            rows = connection.execute(statement).all()
        events = []
        for row in rows:
            if not _is_whole(row):
                raise ArchiveError(
                    f"{self.place} {DAMAGED} (event {row.seq} is not as it was written)"
                )
            events.append(self._event(row))
        return events


def _payload(text: str) -> Mapping[str, Any]:
    payload = plain_json(text)
    if not isinstance(payload, dict):
        raise ValueError("it is no mapping")
    return payload


def _is_whole(row: Any) -> bool:
    if not isinstance(row.seq, int) or not isinstance(row.at, int | float):
        return False
    for text in (row.kind, row.key, row.payload):
        if not isinstance(text, str):
            return False
    try:
        return key_of(row.at, row.kind, row.key, row.payload) == row.digest
    except (TypeError, ValueError):  # damage can change a column's very type
        return False


def _plain(value: Any) -> Any:
    """What JSON does not know: read-only mappings, and the numbers and arrays of numpy."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored in the archive; give plain data")
