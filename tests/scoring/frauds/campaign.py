"""Plays frauds in the ways that count, and in the old way as a positive control.

An attack has its way if it scores on a martingale beyond two standard errors, and does so again on
other days (one look in 44 exceeds two errors by luck), or if the parent ends in an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frauds.fraud import SYMBOLS, WINDOWS, Fraud
from frauds.opening import opened
from se_rl.data.features import FeatureScales
from se_rl.data.martingale import martingale_twin
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import SIZES, order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring.execution import Actor, execute
from se_rl.scoring.fraud_check import FraudCheck
from se_rl.scoring.fraud_trials import FraudTrials, HistoryTrial
from se_rl.scoring.play import LANES, Open, play
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
def martingale(
    horizon: int, *, days: int = DAYS, seed: int = 11, symbols: int = SYMBOLS
) -> StaticPanel:
    """Orders on days without any edge."""
    config = SyntheticConfig(symbols=symbols, sessions=days, bar_minutes=BAR_MINUTES, seed=seed)
    data = martingale_twin(synthetic_market(config), np.random.default_rng(seed))
    return StaticPanel(StaticWorld(data, horizon=horizon), order_pairs(data, horizon))


def score(
    panel: StaticPanel, fraud: Fraud, *, encoded: StaticPanel | None = None, lanes: int = LANES
) -> Gain:
    """The gain in the play that counts: groups in order of time."""
    policy = opened(fraud, encoded)
    run = play(panel.world, Episodes(panel.orders), policy, agents=fraud.agents, lanes=lanes)
    return Gain.of(panel.gain_by_day(run))


def attacked(fraud: Fraud, horizon: int) -> Outcome:
    """Play a fraud on a martingale; one that gains must do so on other days, too."""
    panel = martingale(horizon, symbols=fraud.symbols)
    own = martingale(horizon, seed=5) if fraud.encodes else None
    try:
        gain = score(panel, fraud, encoded=own)
        if gain.errors <= ERRORS:
            return Outcome(fraud.name, gain)
        more = martingale(horizon, days=MORE_DAYS, seed=12, symbols=fraud.symbols)
        again = score(more, fraud, encoded=own)
    except SandboxError as error:
        return Outcome(fraud.name, None, refused=str(error))
    except Exception as error:
        return Outcome(fraud.name, None, crashed=repr(error)[:200])
    return Outcome(fraud.name, gain, again)


def control(fraud: Fraud) -> Gain:
    """What the fraud earns where it is not stopped (`Fraud.control`)."""
    panel = martingale(SEVERAL)
    if fraud.control == "own":
        return score(panel, fraud, encoded=panel, lanes=1)  # it counts the calls of one process
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
def _trials(agents: int, symbols: int) -> FraudTrials:
    config = SyntheticConfig(symbols=symbols, sessions=10, bar_minutes=BAR_MINUTES, seed=21)
    data = synthetic_market(config)
    scales = FeatureScales.fit(data)
    horizons = (SEVERAL, SEVERAL - 4)
    history = HistoryTrial(data, data.dates[6:], horizons, scales, SIZES, agents, day_orders=240)
    return FraudTrials(history, seed=3)


def checked(policy: Open, *, agents: int = 1, symbols: int = SYMBOLS) -> FraudCheck:
    """The verdict of the run's own fraud check, which `se-rl replay` makes again."""
    return _trials(agents, symbols).check([policy])


def verdict(fraud: Fraud) -> str:
    """What the check says about a fraud, in a word or two."""
    own = martingale(SEVERAL, seed=5) if fraud.encodes else None
    try:
        check = checked(opened(fraud, own), agents=fraud.agents, symbols=fraud.symbols)
    except SandboxError:
        return FAILS
    return in_words(check.reason)


FAILS = "fails in use"
PASSES = "nothing but its own row moves it"


def in_words(reason: str) -> str:
    """A reason of the fraud check in a word or two."""
    words = {
        "martingale": "gains on a martingale",
        "own row": "acts on other orders",
        "its policy failed": FAILS,
    }
    for sign, meaning in words.items():
        if sign in reason:
            return meaning
    return reason or PASSES
