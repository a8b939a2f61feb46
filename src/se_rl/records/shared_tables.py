"""What the runs of one Postgres database share: blobs, and where to find evaluations and leaders.

An evaluation or a leader is a record in the journal of the run that made it; the rows here point to
it by run and number.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, MetaData, String, Table

from se_rl.records.postgres import SHARED_SCHEMA
from se_rl.records.schema import TableSet

_TABLES = MetaData(schema=SHARED_SCHEMA)
SHARED_META = Table(
    "meta",
    _TABLES,
    Column("schema_version", Integer, primary_key=True),
    Column("created", Double),
    Column("blobs", String, nullable=False),
)
BLOB = Table(
    "blob",
    _TABLES,
    Column("name", String, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
SHARED_EVALUATION = Table(
    "evaluation",
    _TABLES,
    Column("key", String, primary_key=True),
    Column("run", String, primary_key=True),
    Column("seq", BigInteger, nullable=False),
)
SHARED_LEADER = Table(
    "leader",
    _TABLES,
    Column("task", String, primary_key=True),
    Column("run", String, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
)
SHARED_TABLES = TableSet(SHARED_META, 1, {})
