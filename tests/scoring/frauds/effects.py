"""How many frauds are there really? Two that do the same everywhere are one idea in other code.

Each fraud is played on one small panel: all days in one batch, the same again in the same process,
and in groups as scoring plays. Frauds whose actions are equal to four digits in all three have the
same effect; those that fail have it if they fail at the same step for the same reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from frauds.campaign import SEVERAL, martingale
from frauds.fraud import Fraud
from frauds.opening import opened
from se_rl.environments.worlds import Episodes
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring.execution import Actor, Array, execute
from se_rl.scoring.play import play
from se_rl.scoring.seating import Seated, seats_of
from se_rl.scoring.static_panel import StaticPanel

DAYS = 3


class Watched:
    """An actor whose every answer goes into a digest."""

    def __init__(self, inner: Actor, digest: hashlib._Hash) -> None:
        self._inner = inner
        self._digest = digest

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        self._inner.start(n, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """The inner actor's answer."""
        try:
            ratio, offset = self._inner.act(observation)
        except SandboxError as error:
            self._digest.update(str(error).encode())
            raise
        self._digest.update(np.round([ratio, offset], 4).tobytes())
        return ratio, offset

    def close(self) -> None:
        """End the inner actor."""
        self._inner.close()


def effect(fraud: Fraud) -> str:
    """A digest of all that the fraud does."""
    panel = martingale(SEVERAL, days=DAYS, symbols=fraud.symbols)
    encoded = martingale(SEVERAL) if fraud.encodes else None
    digest = hashlib.sha256()
    policy = opened(fraud, encoded)
    seats = seats_of(panel.orders, fraud.agents, sessions=len(panel.world.data.dates))
    with suppress(SandboxError):
        actor = Watched(policy("static", SEVERAL, len(seats)), digest)
        for _ in range(2):
            _in_one_batch(panel, actor, seats, fraud.agents)
    with suppress(SandboxError):
        play(
            panel.world,
            Episodes(panel.orders),
            policy,
            agents=fraud.agents,
            watch=lambda inner, _: Watched(inner, digest),
        )
    return digest.hexdigest()


def alike(frauds: Iterable[Fraud]) -> list[list[str]]:
    """The names of frauds by effect, those that share one together."""
    found: dict[str, list[str]] = {}
    for fraud in frauds:
        found.setdefault(effect(fraud), []).append(fraud.name)
    return list(found.values())


def _in_one_batch(
    panel: StaticPanel, actor: Actor, seats: npt.NDArray[np.int64], agents: int
) -> None:
    seated = Seated(actor, seats, len(panel.orders)) if agents > 1 else actor
    execute(panel.world, seated, Episodes(panel.orders))
