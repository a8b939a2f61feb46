"""A policy's process is kept open between calls, goes on where it stands, and ends with its owner."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from se_rl.core import open_policy
from se_rl.core.open_policy import OpenPolicy

Observation = npt.NDArray[np.float32]


class Recorder:
    """An actor that answers with the sum of all it was shown since it was started."""

    def __init__(self) -> None:
        self.total, self.shown, self.starts, self.closed = 0.0, 0, 0, False

    def start(self, n: int, horizon: int) -> None:
        self.total = 0.0
        self.starts += 1

    def act(self, observation: Observation) -> tuple[Any, Any]:
        if observation[0, 0] < 0:
            raise RuntimeError("broken")
        self.shown += 1
        self.total = 2.0 * self.total + float(observation[0, 0])
        rows = len(observation)
        return np.full(rows, self.total), np.full(rows, float(self.shown))

    def close(self) -> None:
        self.closed = True


class Saved:
    """A saved policy whose actors are kept to be looked at."""

    agents = 2

    def __init__(self) -> None:
        self.opened: list[Recorder] = []

    def actor(self, world: str, horizon: int, rows: int) -> Recorder:
        assert rows == self.agents
        self.opened.append(Recorder())
        return self.opened[-1]


def seen(*values: float) -> list[Observation]:
    return [np.full((1, 3), value, np.float32) for value in values]


def policy() -> tuple[OpenPolicy, Saved]:
    saved = Saved()
    return OpenPolicy(saved, "static"), saved  # type: ignore[arg-type]


def test_it_is_shown_what_is_new_and_answers_as_if_shown_everything() -> None:
    asked, saved = policy()
    assert asked.answer(seen(1), 9)[0] == 1.0
    assert asked.answer(seen(1, 2, 3), 9)[0] == 11.0
    assert asked.answer(seen(1, 2, 3), 9)[0] == 11.0
    assert (saved.opened[0].shown, saved.opened[0].starts) == (3, 1)
    assert asked.answer(seen(1, 2), 9)[0] == 4.0, "an earlier bar"
    assert asked.answer(seen(5, 2), 9)[0] == 12.0, "another order"
    assert saved.opened[0].starts == 3 and len(saved.opened) == 1


def test_another_horizon_an_error_and_old_age_open_a_new_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, saved = policy()
    asked.answer(seen(1), 9)
    asked.answer(seen(1), 8)
    assert [actor.closed for actor in saved.opened] == [True, False]
    with pytest.raises(RuntimeError):
        asked.answer(seen(1, -1), 8)
    assert saved.opened[1].closed
    assert asked.answer(seen(1, 4), 8)[0] == 6.0
    now = time.monotonic() + open_policy.RENEWED_AFTER + 1.0
    monkeypatch.setattr(open_policy.time, "monotonic", lambda: now)
    assert asked.answer(seen(1, 4, 1), 8)[0] == 13.0
    assert len(saved.opened) == 4 and saved.opened[3].shown == 3
    asked.close()
    asked.close()
    assert saved.opened[3].closed
