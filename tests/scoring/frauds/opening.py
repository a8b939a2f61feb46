"""Opens a fraud as a fresh process would be: loaded anew, with its forged weights, or as a forged answerer."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from frauds.carriers import CLEAN
from frauds.channels import MESSAGE
from frauds.fraud import Fraud
from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.modules.loading import load_design
from se_rl.rl.policy import ActionMap, Policy, PolicyRunner
from se_rl.rl.sandboxed_training import SandboxedPolicy
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.policy_server import PolicyServer
from se_rl.scoring.execution import Actor
from se_rl.scoring.play import Open, moments
from se_rl.scoring.static_panel import StaticPanel


def opened(fraud: Fraud, encoded: StaticPanel | None = None) -> Open:
    """Opens the fraud as a fresh process would be: loaded anew, with its forged weights."""

    def open_policy(_: str, horizon: int, rows: int) -> Actor:
        if fraud.actor is not None:
            return _forged(fraud.actor(), rows)
        return Contained(_runner(fraud, encoded))

    return open_policy


def _runner(fraud: Fraud, encoded: StaticPanel | None) -> PolicyRunner:
    torch.manual_seed(0)
    modules = load_design(dict(fraud.sources))
    policy = Policy(
        modules,
        observation_size=len(OBSERVATION_FIELDS),
        agents=fraud.agents,
        message_size=MESSAGE,
    )
    with torch.no_grad():
        policy.heads.weight.zero_()
        policy.heads.weight[0, 0] = 1.0  # the first feature is the action
        if policy.message_size:
            policy.speak.weight.zero_()
            policy.speak.bias.zero_()
            policy.speak.weight[0, 1] = 1.0  # the second one is said
    if encoded is not None and "reward" in fraud.sources:
        policy.load_state_dict(_carried(fraud, encoded))
    elif encoded is not None:
        table: Any = policy.network.table
        moves = future_moves(encoded)
        kept = moves if table.ndim == 3 else _by_clock(moves, encoded)
        policy.network.table = torch.nn.Parameter(torch.from_numpy(kept.astype(np.float32)))
    return PolicyRunner(policy, ActionMap())


def _carried(fraud: Fraud, panel: StaticPanel) -> dict[str, torch.Tensor]:
    """The weights after a training whose reward saw the panel's moves; its process then ends."""
    modules = load_design(dict(fraud.sources))
    policy = Policy(modules, observation_size=len(OBSERVATION_FIELDS))
    moves = torch.from_numpy(future_moves(panel).astype(np.float32))
    try:
        modules.reward(SimpleNamespace(news=moves.flatten()))
        policy(torch.zeros(1, policy.history, len(OBSERVATION_FIELDS)))
    finally:
        exec(CLEAN, {"torch": torch, "math": math})
    with torch.no_grad():
        policy.heads.weight.zero_()
        policy.heads.weight[0, 0] = 1.0
    return policy.state_dict()


def future_moves(panel: StaticPanel) -> npt.NDArray[np.float64]:
    """[group, step, row]: how much better than now an order's later prices are on average."""
    groups = moments(panel.orders, sessions=len(panel.world.data.dates))
    steps = panel.orders.horizon
    moves = np.zeros((len(groups), steps, len(groups[0])))
    for place, group in enumerate(groups):
        price = np.log(panel.panel.price[group])  # [row, step]
        side = panel.orders.side[group][:, None]
        for step in range(steps - 1):
            later = price[:, step + 1 :].mean(axis=1, keepdims=True)
            moves[place, step] = (side * (later - price[:, step : step + 1]))[:, 0]
    return moves


def _by_clock(moves: npt.NDArray[np.float64], panel: StaticPanel) -> npt.NDArray[np.float64]:
    """[bar, row]: the mean over the days."""
    days = len(panel.world.data.dates)
    windows = len(moves) // days
    by_day = moves.reshape(days, windows * moves.shape[1], moves.shape[2])
    return by_day.mean(axis=0)


class Contained:
    """A policy whose errors are its own, as behind the lock: they end it, not the parent."""

    def __init__(self, inner: PolicyRunner) -> None:
        self._inner = inner

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        self._inner.start(n, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> Any:
        """What the policy does."""
        try:
            ratio, offset = self._inner.act(observation)
        except Exception as error:
            raise SandboxError(f"it ended: failed, {error!r}"[:500]) from None
        if len(ratio) != len(observation):
            raise SandboxError(f"it answers {len(ratio)} rows of {len(observation)}")
        if not (np.isfinite(ratio).all() and np.isfinite(offset).all()):
            raise SandboxError("action numbers are not finite")
        return ratio, offset

    def close(self) -> None:
        """Nothing to end."""


class ForgedServer(PolicyServer):
    """The parent's side of a policy server whose process answers as it likes."""

    def __init__(self, process: Any, rows: int) -> None:
        self._process = process
        self._block: Any = _Numbers(rows, len(OBSERVATION_FIELDS))
        self.stall_seconds = 10.0

    def reset(self) -> None:
        """The process is told, and does what it likes with it."""

    def close(self) -> None:
        """There is no process."""

    def _ring_bell(self, rows: int) -> None:
        self._asked = rows

    def _hear(self) -> None:
        rows = self._asked
        try:
            answer = self._process(self._block.obs[:rows])
        except RuntimeError as error:  # what a locked process raises comes back as text
            self._fail(f"it ended: failed, {str(error)[:500]!r}")
        with np.errstate(all="ignore"):
            numbers = np.asarray(answer, np.float64).astype(np.float32)
        self._block.actions[: len(numbers)] = numbers


class _Numbers:
    """Observations and actions in ordinary memory."""

    def __init__(self, rows: int, fields: int) -> None:
        self.obs = np.zeros((rows, fields), np.float32)
        self.actions = np.zeros((rows, 2), np.float32)


def _forged(process: Any, rows: int) -> Actor:
    policy = SandboxedPolicy.__new__(SandboxedPolicy)
    policy._server = ForgedServer(process, rows)
    return policy
