"""Snapshots of a training, judged on train episodes that it never learns from.

More training must not hurt. So a few times in a training's second half the policy plays the same
held-back orders without noise, and at the end the weights that did best there are kept. What counts
is what the score counts: gain over TWAP with the news taken out, less the risk of the whole gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes, World, new_fields
from se_rl.modules.defaults import gain_over_twap
from se_rl.rl.policy import ActionMap, Neutral, Policy, PolicyRunner

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

CHECKS = (0.55, 0.7, 0.85, 1.0)
"""Shares of the budget at which a policy is judged."""
ALLOWANCE = 0.05
"""The most of a budget that judging may cost."""
FEWEST_ORDERS = 16
"""Fewer orders of a world than these cannot tell policies apart."""
MOST_ORDERS = 1024
JUDGING = 0x6A75646765
"""Makes a stream of its own from a training's seed, which draws these orders."""
BPS = 1e4


class PairGains(NamedTuple):
    """Gain over TWAP of each pair in bps, without the news and with it; 0 where a market broke."""

    specific: Array
    whole: Array


@dataclass(frozen=True, eq=False)
class Marks:
    """What a policy gained on held-back orders, by world: `gains` of pairs in bps, and the risk."""

    gains: Mapping[str, Array]
    risk: Mapping[str, float]

    @property
    def score(self) -> float:
        """Gain less risk, the mean over the worlds."""
        parts = [float(gain.mean()) - self.risk[name] for name, gain in self.gains.items()]
        return float(np.mean(parts))

    def error_against(self, other: Marks) -> float:
        """Standard error of the difference between the two scores, on the same orders."""
        squares = 0.0
        for name, gain in self.gains.items():
            difference = gain - other.gains[name]
            squares += float(difference.var(ddof=1)) / len(difference)
        return float(np.sqrt(squares)) / len(self.gains)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Weights and what they were worth when they were taken."""

    weights: Mapping[str, Tensor]
    marks: Marks


def best_of(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The last one, unless an earlier one is ahead of it by more than the error of that."""
    last = snapshots[-1]
    best = last
    for one in snapshots[:-1]:
        ahead = one.marks.score - last.marks.score
        sure = ahead > one.marks.error_against(last.marks)
        if sure and one.marks.score > best.marks.score:
            best = one
    return best


class Judge:
    """Judges the policies of one training, all on the same held-back orders."""

    def __init__(
        self,
        worlds: Mapping[str, Sequence[World]],
        *,
        budget: float,
        neutral: Mapping[str, Neutral],
        risk: float,
        seed: int,
    ) -> None:
        self.worlds = worlds
        self._budget = budget
        self._neutral = neutral
        self._risk = risk
        self._seed = seed
        self._snapshots: list[Snapshot] = []
        self._plays: list[tuple[str, World, Episodes]] = []

    def due(self, work: float) -> bool:
        """Whether it is time to judge, after so much work."""
        done = len(self._snapshots)
        return bool(self.worlds) and done < len(CHECKS) and work >= CHECKS[done] * self._budget

    def mark(
        self, policy: Policy, action_map: ActionMap, cost: Mapping[str, float]
    ) -> tuple[float, float]:
        """The policy's score on the held-back orders and what it took to find it, in work.

        `cost` is the work of one order step of each world. Where the budget pays too few orders
        there is no score (NaN), and no snapshot.
        """
        gains = []
        for name, world, episodes in self.plays(cost):
            neutral = self._neutral.get(name, Neutral())
            runner = PolicyRunner(policy, action_map, neutral=neutral, world=name)
            gains.append(play(world, runner, episodes))
        return self.keep(policy, gains, cost) if gains else (math.nan, 0.0)

    def plays(self, cost: Mapping[str, float]) -> Sequence[tuple[str, World, Episodes]]:
        """The orders that every policy plays without noise; none where the budget pays too few."""
        if not self._plays:
            self._draw(cost)
        return self._plays

    def keep(
        self, policy: Policy, gains: Sequence[PairGains], cost: Mapping[str, float]
    ) -> tuple[float, float]:
        """Keep the weights that gained so much in each of `plays`; score and work as of `mark`."""
        marks = self._marks(gains)
        weights = {name: value.clone() for name, value in policy.state_dict().items()}
        self._snapshots.append(Snapshot(weights, marks))
        work = 0.0
        for name, world, episodes in self._plays:
            work += cost[name] * len(episodes) * world.horizon
        return marks.score, work

    def keep_best(self, policy: Policy) -> None:
        """Give the policy the weights that did best, where any were judged."""
        if self._snapshots:
            policy.load_state_dict(best_of(self._snapshots).weights)

    def _draw(self, cost: Mapping[str, float]) -> bool:
        """The orders that a judgement can pay for, shared by a world's horizons."""
        share = ALLOWANCE * self._budget / len(CHECKS) / len(self.worlds)
        rng = np.random.default_rng([self._seed, JUDGING])
        # neighbours of a batch talk where agents share no book, too: whole groups in every world
        pair = 2 * max(world.agents for places in self.worlds.values() for world in places)
        plays = []
        for name, places in self.worlds.items():
            for world in places:
                affordable = int(share / len(places) / cost[name] / world.horizon)
                orders = min(affordable, MOST_ORDERS) // pair * pair
                if orders < FEWEST_ORDERS:
                    return False
                plays.append((name, world, world.draw(rng, orders)))
        self._plays = plays
        return True

    def _marks(self, played: Sequence[PairGains]) -> Marks:
        """What the gains in each play come to."""
        gains: dict[str, list[Array]] = {}
        risks: dict[str, list[float]] = {}
        for (name, world, episodes), (specific, whole) in zip(self._plays, played, strict=True):
            gains.setdefault(name, []).append(specific)
            risks.setdefault(name, []).append(self._risk_of(world, episodes, whole))
        return Marks(
            {name: np.concatenate(parts) for name, parts in gains.items()},
            {name: float(np.mean(parts)) for name, parts in risks.items()},
        )

    def _risk_of(self, world: World, episodes: Episodes, whole: Array) -> float:
        """Half the risk aversion times the variance of a day's gain; simulated days have none."""
        if not isinstance(world, StaticWorld):
            return 0.0
        day = episodes.orders.row[: len(whole)] % len(world.data.dates)
        return 0.5 * self._risk * day_variance(whole, day)


def day_variance(gain: Array, day: Int) -> float:
    """Variance of what the orders of a day have in common.

    By the mean product of different orders of the same day, so that few orders of a day, whose
    own luck would be averaged away among many, do not look like risk.
    """
    orders = np.bincount(day)
    pairs = orders * (orders - 1.0)
    if not pairs.sum():
        return 0.0
    centred = gain - gain.mean()
    sums = np.bincount(day, weights=centred)
    squares = np.bincount(day, weights=centred**2)
    return max(0.0, float((sums**2 - squares).sum() / pairs.sum()))


def play(world: World, runner: PolicyRunner, episodes: Episodes) -> PairGains:
    """What a policy without noise gains."""
    n = len(episodes)
    fields = new_fields(n)
    seen = SimpleNamespace(**dict(zip(world.field_names, torch.from_numpy(fields), strict=True)))
    specific = np.zeros(n)
    news = np.zeros(n)
    observation = world.reset(episodes)
    runner.start(n, world.horizon)
    for _ in range(world.horizon):
        ratio, offset = runner.act(observation)
        observation = world.step(ratio, offset if world.takes_price else None, fields)
        own, common = step_gains(seen)
        specific += own.double().numpy()
        news += common.double().numpy()
    return pair_gains(specific, news, ~world.broken)


def step_gains(seen: SimpleNamespace) -> tuple[Tensor, Tensor]:
    """Gain over TWAP of every row of a world's fields without the news, and what the news adds."""
    ahead = seen.inventory_left - seen.twap_inventory_left
    return gain_over_twap(seen), ahead * seen.news


def pair_gains(specific: Array, news: Array, kept: npt.NDArray[np.bool_]) -> PairGains:
    """Of orders in pairs that are half a batch apart, from what their steps sum up to."""
    pairs = BPS * np.stack([specific * kept, (specific + news) * kept]).reshape(2, 2, -1).mean(1)
    return PairGains(pairs[0], pairs[1])
