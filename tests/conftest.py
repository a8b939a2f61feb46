"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from se_rl_benchmarks.postgres_server import NoServer, postgres_server

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real market data: SE_RL_SHARED_DATA, or ../shared/data beside the repository; else skip."""
    folder = Path(os.environ.get("SE_RL_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found: {folder} (set SE_RL_SHARED_DATA)")
    return folder


@pytest.fixture(autouse=True)
def private_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test reads or writes the user's own cache, data folders and database."""
    monkeypatch.delenv("SE_RL_ARCHIVE", raising=False)
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("SE_RL_CACHE", str(base / "cache"))
    monkeypatch.setenv("SE_RL_HOME", str(base / "home"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a database on a PostgreSQL server of our own; else skip."""
    try:
        server = postgres_server()
        url = server.__enter__()
    except NoServer as why:
        pytest.skip(str(why))
    yield url
    server.__exit__(None, None, None)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def new_place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str | Path]:
    """Makes up a place for an archive that is not there yet, in a file or on a server."""
    if request.param == "sqlite":
        return lambda: tmp_path_factory.mktemp("archive") / "archive.sqlite"
    url = request.getfixturevalue("postgres")
    numbers = count()
    return lambda: f"{url}&run=test-{os.getpid()}-{next(numbers)}"
