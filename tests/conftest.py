"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
    """No test reads or writes the user's own cache and data folders."""
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("SE_RL_CACHE", str(base / "cache"))
    monkeypatch.setenv("SE_RL_HOME", str(base / "home"))
