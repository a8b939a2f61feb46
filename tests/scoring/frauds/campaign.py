"""Plays frauds in the ways that count, and in the old way as a positive control.

An attack has its way if it scores on a martingale beyond two standard errors, and does so again on
other days (one look in 44 exceeds two errors by luck), or if the parent ends in an exception.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from frauds.carriers import CLEAN
from frauds.channels import MESSAGE
from frauds.fraud import SYMBOLS, WINDOWS, Fraud
from se_rl.data.features import OBSERVATION_FIELDS, FeatureScales
from se_rl.data.martingale import martingale_twin
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.modules.loading import load_design
from se_rl.rl.policy import ActionMap, Policy, PolicyRunner
from se_rl.rl.sandboxed_training import SandboxedPolicy
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.policy_server import PolicyServer
from se_rl.scoring.execution import Actor, execute
from se_rl.scoring.fraud_check import FraudCheck
from se_rl.scoring.fraud_trials import FraudTrials, HistoryTrial
from se_rl.scoring.play import Open, moments, play
from se_rl.scoring.seating import Seated, seats_of
from se_rl.scoring.static_panel import StaticPanel

BAR_MINUTES = 5
BARS = 390 // BAR_MINUTES
SEVERAL, ONE = BARS // WINDOWS, BARS
"""Horizons with several windows a day, and with one."""
DAYS, MORE_DAYS = 12, 40
"""Days of the first look, and of the second one."""
ERRORS = 2.0
"""Standard errors beyond which a gain counts."""


@dataclass(frozen=True)
class Gain:
    """Gain over TWAP in bps with its error, over days."""

    mean: float
    se: float

    @classmethod
    def of(cls, by_day: npt.NDArray[np.float64]) -> Gain:
        """Days are the unit."""
        return cls(float(by_day.mean()), float(by_day.std(ddof=1) / np.sqrt(len(by_day))))

    @property
    def errors(self) -> float:
        """The gain in standard errors; 0 for TWAP itself."""
        return self.mean / self.se if self.se > 1e-9 else 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of one fraud on one market."""

    fraud: str
    gain: Gain | None
    again: Gain | None = None
    refused: str = ""
    crashed: str = ""

    @property
    def lucky(self) -> bool:
        """Whether the first look exceeds two errors and the second one does not."""
        return self.again is not None and not self.succeeded

    @property
    def succeeded(self) -> bool:
        """Whether the attack had its way."""
        return bool(self.crashed) or (self.again is not None and self.again.errors > ERRORS)


@lru_cache(maxsize=8)
def martingale(horizon: int, *, days: int = DAYS, seed: int = 11) -> StaticPanel:
    """Orders on days without any edge."""
    config = SyntheticConfig(symbols=SYMBOLS, sessions=days, bar_minutes=BAR_MINUTES, seed=seed)
    data = martingale_twin(synthetic_market(config), np.random.default_rng(seed))
    return StaticPanel(StaticWorld(data, horizon=horizon), order_pairs(data, horizon))


def opened(fraud: Fraud, encoded: StaticPanel | None = None) -> Open:
    """Opens the fraud as a fresh process would be: loaded anew, with its forged weights."""

    def open_policy(_: str, horizon: int, rows: int) -> Actor:
        if fraud.actor is not None:
            return _forged(fraud.actor(), rows)
        return Contained(_runner(fraud, encoded))

    return open_policy


def score(panel: StaticPanel, fraud: Fraud, *, encoded: StaticPanel | None = None) -> Gain:
    """The gain in the play that counts: groups in order of time."""
    policy = opened(fraud, encoded)
    run = play(panel.world, Episodes(panel.orders), policy, agents=fraud.agents)
    return Gain.of(panel.gain_by_day(run))


def attacked(fraud: Fraud, horizon: int) -> Outcome:
    """Play a fraud on a martingale; one that gains must do so on other days, too."""
    panel = martingale(horizon)
    own = martingale(horizon, seed=5) if fraud.encodes else None
    try:
        gain = score(panel, fraud, encoded=own)
        if gain.errors <= ERRORS:
            return Outcome(fraud.name, gain)
        again = score(martingale(horizon, days=MORE_DAYS, seed=12), fraud, encoded=own)
    except SandboxError as error:
        return Outcome(fraud.name, None, refused=str(error))
    except Exception as error:
        return Outcome(fraud.name, None, crashed=repr(error)[:200])
    return Outcome(fraud.name, gain, again)


def control(fraud: Fraud) -> Gain:
    """What the fraud earns where it is not stopped (`Fraud.control`)."""
    panel = martingale(SEVERAL)
    if fraud.control == "own":
        return score(panel, fraud, encoded=panel)
    rows = len(seats_of(panel.orders, fraud.agents, sessions=len(panel.world.data.dates)))
    actor = opened(fraud)(panel.world.name, SEVERAL, rows)
    if fraud.control == "twice":
        _in_one_batch(panel, actor, fraud.agents)
    return _in_one_batch(panel, actor, fraud.agents)


def _in_one_batch(panel: StaticPanel, actor: Actor, agents: int) -> Gain:
    """The old way, kept for the tests alone: all days and windows in one batch."""
    seats = seats_of(panel.orders, agents, sessions=len(panel.world.data.dates))
    seated = Seated(actor, seats, len(panel.orders)) if agents > 1 else actor
    run = execute(panel.world, seated, Episodes(panel.orders))
    return Gain.of(panel.gain_by_day(run))


@lru_cache(maxsize=8)
def _trials(agents: int) -> FraudTrials:
    config = SyntheticConfig(symbols=SYMBOLS, sessions=10, bar_minutes=BAR_MINUTES, seed=21)
    data = synthetic_market(config)
    scales = FeatureScales.fit(data)
    return FraudTrials(HistoryTrial(data, data.dates[6:], SEVERAL, scales, agents), None, seed=3)


def checked(policy: Open, *, agents: int = 1) -> FraudCheck:
    """The verdict of the run's own fraud check, which `se-rl replay` makes again."""
    return _trials(agents).check([policy])


def verdict(fraud: Fraud) -> str:
    """What the check says about a fraud, in a word or two."""
    own = martingale(SEVERAL, seed=5) if fraud.encodes else None
    try:
        reason = checked(opened(fraud, own), agents=fraud.agents).reason
    except SandboxError:
        return "fails in use"
    words = {"martingale": "gains on a martingale", "own row": "acts on other orders"}
    for sign, meaning in words.items():
        if sign in reason:
            return meaning
    return reason or "passes: nothing but its own row moves it"


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

    def _ask(self, rows: int) -> None:
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
