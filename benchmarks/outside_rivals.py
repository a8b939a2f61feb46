"""The rivals in markets that others built: jobs of `rivals.py` beside those on history.

All learned rows have the work, batches, observations and reward of the default in the suite, the
reward marked to the mid but for naive PPO. PPO and champions use the market's own action map; a
rival chooses from its grid as at home. In `qrm` that is a share of the best ask queue, half of it
being neutral. In the lot markets it has one order at a time, so many ticks from the best ask: DDQN
a share of what is left, HALOP and MacMic slices of the best constant schedule.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from se_rl.baselines.outside import Array, Rule, buy_share, play_episodes, submit_and_leave
from se_rl.baselines.registry import LearnedRival
from se_rl.baselines.rivals import double_dqn, hybrid_price
from se_rl.baselines.rivals.choices import ACTION_MAP
from se_rl.baselines.rivals.learning import RivalRules, RivalTrainer, ppo_trainer
from se_rl.baselines.rivals.macro_micro import HierarchyNetwork
from se_rl.core.suite.evaluators import outside_network
from se_rl.core.suite.tasks import LOT_WORK, SECOND, OutsideTask
from se_rl.environments.outside.lot_world import DECISIONS as LOT_DECISIONS
from se_rl.environments.outside.queue_reactive_world import DECISIONS as QUEUE_DECISIONS
from se_rl.environments.outside.queue_reactive_world import QueueReactiveWorld
from se_rl.environments.outside.task import OutsideReturns
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Network, NetworkFactory
from se_rl.modules.errors import one_line
from se_rl.rl.outside_training import Player, marked, play_in, rules_of, train_in, world_of
from se_rl.rl.policy import ActionMap, Neutral
from se_rl.rl.surrogate import PPOSettings
from se_rl.rl.trainer import Trained
from se_rl.rl.written_policy import KIND
from se_rl.scoring.execution import ConstantSchedule
from se_rl_benchmarks.champion_rival import Champions
from se_rl_benchmarks.defaults import Job
from se_rl_benchmarks.defaults_page import SPLIT
from se_rl_benchmarks.outside_rules import BEST_RULES, PUBLISHED, almgren_chriss
from se_rl_benchmarks.outside_training import LOT_LEARNER, QUEUE_LEARNER
from se_rl_benchmarks.rivals_page import RivalGains

TASKS = {task.name: task for task in SECOND if isinstance(task, OutsideTask)}
"""Others' markets, as the suite trains in them."""
QUEUE = QueueReactiveWorld.name
EPISODES = 2000
FIRST_EPISODE = {"valid": 30_000_000, "test": 90_000_000}
"""Of the episodes that are played; things were chosen on those of `valid` and from 20,000,000 on."""
TWAP = "TWAP"
ALMGREN_CHRISS = "Almgren-Chriss"
LEAVE = "submit and leave"
SIMPLE = "best simple rule"
CONSTANT = "best constant"
TUNED = "PPO tuned"
"""PPO strong with the learning constants of `outside_training.py`, as DDQN has its own here."""
URGENCY = 2.0
NEUTRAL: Mapping[str, Neutral] = {
    QUEUE: Neutral(0.5),
    "cw-noise-20": Neutral(5.0, 0.0),
    "cw-noise-60": Neutral(5.0, 0.0),
    "cw-tactical-20": Neutral(2.0, 0.0),
    "cw-tactical-60": Neutral(1.0, -1.0),
    "cw-strategic-20": Neutral(1.0, 0.0),
    "cw-strategic-60": Neutral(1.0, -1.0),
}
"""What outputs of 0 mean: half of the best queue, or the best constant schedule of a grid."""
HALF = 0.5
QUEUE_REUSE, LOT_REUSE = 3, 12
"""How often DDQN learns from a step, where steps are cheap and where they are dear."""
INTERVAL = 5
"""Steps of a macro decision, which both horizons can be divided by."""
CANNOT = {
    "VWAP": "no curve of volume: all minutes are alike",
    "XS ridge": "no other names to rank by",
    "OPD": "no future to see: an order changes all that comes after it",
}
"""Who cannot be played in others' markets, and why."""
CANNOT_IN_QUEUE = {LEAVE: "no limit orders"}
WORDS = f"""Price x units (qrm) and ticks a lot (cw), by the markets' own rules
([others' markets](../outside.md)): the return less that of the published TWAP in the same episode.
Score: the mean. Work of the suite: {TASKS[QUEUE].work:g} units in qrm, {LOT_WORK:g} in the lot markets,
so that this is what is learned soon ([what longer trainings give](outside_training.md)). PPO strong is
the default as it is; PPO tuned is the same with learning constants for these markets, which DDQN has
too. PPO and champions act by the market's own map, rivals by one order at a time; the best constant is
where HALOP and MacMic begin. Unfinished: orders of which something was left at the end, which in qrm
costs nothing in the test."""
NOTHING = OutsideReturns(np.zeros(0), np.zeros(0, np.bool_))
TWAP_RETURNS: dict[tuple[str, str], Array] = {}
"""By market and split; filled before processes fork."""


class ShareActions(ActionMap):
    """Outputs as for the usual map, but that the first moves a share of all that may be traded now,
    which does not grow as time runs out.
    """

    def ratio(self, output: Tensor, *, steps_left: int, neutral: Neutral) -> Tensor:
        """The neutral share times e to the output, 1 at most."""
        return (neutral.multiple * torch.exp(self.scale * output)).clamp(max=1.0)


class QueueHierarchy(HierarchyNetwork):
    """MacMic's network in `qrm`, whose second input is the time from -1 to 1."""

    history = INTERVAL

    @staticmethod
    def steps_done(newest: Tensor) -> Tensor:
        """Decisions before this one."""
        return (newest[:, 1] + 1.0) / 2.0 * (QUEUE_DECISIONS - 1)


class LotHierarchy(HierarchyNetwork):
    """The same in the lot markets, whose first input is the share of the time that is gone."""

    history = INTERVAL

    @staticmethod
    def steps_done(newest: Tensor) -> Tensor:
        """Decisions before this one."""
        return newest[:, 0] * LOT_DECISIONS


def planned(market: str) -> tuple[str, ...]:
    """The rows of a market that learn nothing."""
    rows = (TWAP, ALMGREN_CHRISS, LEAVE, SIMPLE, CONSTANT)
    return tuple(name for name in rows if name not in cannot(market))


def cannot(market: str) -> dict[str, str]:
    """The rows that a market has no place for, and why."""
    return {**CANNOT, **(CANNOT_IN_QUEUE if market == QUEUE else {})}


def load_twap(market: str, split: str) -> None:
    """Play TWAP in a market, which also compiles its kernel for processes to come."""
    TWAP_RETURNS[market, split] = _by_rule(market, PUBLISHED[market, TWAP], split).returned


def outside_gains(job: Job, rival: LearnedRival | Champions | None = None) -> RivalGains:
    """What a method returns over TWAP in every episode; one that cannot be trained says why."""
    torch.set_num_threads(1)
    if job.method in planned(job.name):
        return _row(job, _planned_returns(job))
    started = time.process_time()
    try:
        trained = trained_rival(job, rival)
        seconds = time.process_time() - started
        if trained.reason:
            return _row(job, NOTHING, reason=trained.reason)
        return _row(job, _by_player(job, trained.runner("static")), seconds=seconds)
    except (RuntimeError, ValueError, IndexError) as error:  # a network of other observations
        return _row(job, NOTHING, reason=one_line(error, KIND))


def trained_rival(job: Job, rival: LearnedRival | Champions | None) -> Trained:
    """Train a learned row of a market once."""
    samples = TASKS[job.name].samples
    rivals = {
        "DDQN": _Rival(double_dqn.train, shares=True),
        "HALOP": _Rival(hybrid_price.train, shares=False),
        "MacMic": _Rival(
            ppo_trainer(QueueHierarchy if job.name == QUEUE else LotHierarchy), shares=False
        ),
    }
    if job.method in rivals:
        return rivals[job.method].train(job, samples)
    network: NetworkFactory = Network
    if job.method == TUNED:
        network = (QUEUE_LEARNER if job.name == QUEUE else LOT_LEARNER).network
    if isinstance(rival, Champions):
        own = outside_network(rival.sources.get(job.seed, {}))
        network = Network if isinstance(own, str) else own
    reward = plain if job.method == "PPO naive" else marked
    return train_in(
        job.name, network, work=job.budget, seed=job.seed, samples=samples, reward=reward
    )


@dataclass(frozen=True)
class _Rival:
    """How a rival learns; in the lot markets its choices are `shares` of what is left, or slices."""

    how: RivalTrainer
    shares: bool

    def train(self, job: Job, samples: int) -> Trained:
        in_shares = self.shares or job.name == QUEUE
        neutral = NEUTRAL[job.name]
        rules = RivalRules(
            reward=marked,
            action_map=ShareActions() if in_shares else ACTION_MAP,
            samples=samples,
            overhead=1.0,
            ppo=PPOSettings(minibatches=rules_of(job.name).minibatches),
            reuse=QUEUE_REUSE if job.name == QUEUE else LOT_REUSE,
        )
        return self.how(
            {"static": cast(World, world_of(job.name, training=True))},
            budget=job.budget,
            seed=job.seed,
            neutral={"static": Neutral(HALF, neutral.offset) if in_shares else neutral},
            rules=rules,
        )


def plain(step: Any) -> Tensor:
    """What a step earned."""
    earned: Tensor = step.reward
    return earned


def _planned_returns(job: Job) -> OutsideReturns:
    if job.method == CONSTANT and job.name != QUEUE:
        neutral = NEUTRAL[job.name]
        return _by_player(job, ConstantSchedule(neutral.multiple, neutral.offset))
    rules = {
        TWAP: PUBLISHED[job.name, TWAP],
        ALMGREN_CHRISS: almgren_chriss(URGENCY),
        LEAVE: submit_and_leave,
        CONSTANT: buy_share(HALF, every=1),
        SIMPLE: BEST_RULES[job.name][1],
    }
    return _by_rule(job.name, rules[job.method], job.split)


def _by_player(job: Job, player: Player) -> OutsideReturns:
    return play_in(job.name, player, first_seed=FIRST_EPISODE[job.split], episodes=EPISODES)


def _by_rule(market: str, rule: Rule, split: str) -> OutsideReturns:
    world = world_of(market, training=False)
    return play_episodes(world, rule, first_seed=FIRST_EPISODE[split], episodes=EPISODES)


def _row(job: Job, done: OutsideReturns, *, seconds: float = 0.0, reason: str = "") -> RivalGains:
    """The kept line of a job; void episodes gain nothing."""
    twap = TWAP_RETURNS[job.name, job.split][: len(done.returned)]
    gained = np.round(np.nan_to_num(done.returned - twap), 5).tolist()
    return RivalGains(
        set=job.name,
        fold=SPLIT,
        method=job.method,
        seed=job.seed,
        dates=list(range(len(gained))),
        specific=gained,
        whole=gained,
        seconds=seconds,
        budget=job.budget,
        split=job.split,
        reason=reason,
        returned=float(np.nanmean(done.returned)) if gained else 0.0,
        unfinished=float(done.unfinished.mean()) if gained else 0.0,
    )
