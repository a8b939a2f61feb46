"""An imitation start: before RL begins, the policy's mean action learns the schedule of a teacher.

Teachers are schedules that need no training of their own:

    ridge      TWAP tilted by the forecast of the cross-sectional ridge
    foresight  the best bars that the order is going to meet, each for a few of TWAP's slices
    constant   the neutral schedule: TWAP, in simulated markets the best constant one

The first two are schedules for bars: in simulated markets they leave the constant one. Of a teacher
that knows more than the observation shows, the mean is learned over all that look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.ridge import Array, XSRidge
from se_rl.environments.static_core import ratios_from_weights
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders
from se_rl.environments.worlds import Episodes, World
from se_rl.rl.learner import Learner
from se_rl.rl.policy import Neutral, Policy
from se_rl.rl.ppo import ParameterGroup
from se_rl.rl.rollout import Diverged
from se_rl.rl.work import batch_overhead, row_work, work_of_step
from se_rl.rl.world_sampler import WorldSampler

SHARE = 0.1
"""Of a training's budget: what lessons take in all worlds together, and at most a teacher's plan."""
MOST_SHARE = 0.5
"""Of the budget: a teacher that takes more is not to be had for it."""
PASSES = 4
"""Over each batch."""
MINIBATCHES = 8
LEARNING_RATE = 2e-3
MOST_SLICES = 3.0
"""Of TWAP, which foresight puts into one bar: as many as the ridge."""
RIDGE_BARS = 400_000
"""Train bars that the ridge is fitted on, at most."""
RIDGE_DAYS = 2
"""Days that it is fitted on, at least."""
RIDGE_WORK = 1.6e-6
"""Work of fitting and forecasting a bar."""
IMITATING = 0x696D6974617465
"""Makes a stream of its own from a training's seed, which draws the orders and shuffles them."""

Plan = Callable[[Orders], Array]
"""Planned shares of orders [order, step]."""


@dataclass(frozen=True, eq=False)
class StartTeacher:
    """The worlds of one kind to learn in, and the plan there; None is the neutral schedule.

    `work` is what it took to make the plan.
    """

    worlds: tuple[World, ...]
    plan: Plan | None = None
    work: float = 0.0

    @classmethod
    def of(cls, start: str, worlds: tuple[World, ...], *, budget: float) -> StartTeacher:
        """The teacher of this name for a training with such a budget."""
        bars = tuple(filter(None, map(_bars_of, worlds)))
        if start == "constant" or not bars:
            return cls(worlds)
        return _ridge(bars, budget) if start == "ridge" else cls(bars, _best_bars(bars[0]))

    def ratios(self, orders: Orders, neutral: Neutral) -> Array:
        """What to trade of what is left [order, step]."""
        if self.plan is not None:
            return ratios_from_weights(self.plan(orders))
        left = np.arange(orders.horizon, 0, -1)
        return np.tile(np.minimum(1.0, neutral.multiple / left), (len(orders), 1))


def imitate(
    learner: Learner, samplers: Mapping[str, WorldSampler], *, budget: float, seed: int
) -> float:
    """Learn the schedule of the design's teacher, one batch at least in every kind of world.

    Gives the work that it took; `budget` is that of the whole training.
    """
    if learner.start == "none":
        return 0.0
    student = _Student(learner)
    lessons = []
    for place, (name, sampler) in enumerate(samplers.items()):
        teacher = StartTeacher.of(learner.start, sampler.worlds, budget=budget)
        lessons.append(_Lessons(student, name, sampler, teacher, [seed, IMITATING, place]))
    planned = sum(one.teacher.work for one in lessons)
    learned = 0.0
    while learned < SHARE * budget:
        learned += sum(one.batch() for one in lessons)
    learner.policy.load_state_dict(student.policy.state_dict())
    return planned + learned


class _Student:
    """A copy of the policy that learns: the original's own optimiser has views of its weights."""

    def __init__(self, learner: Learner) -> None:
        self.policy = deepcopy(learner.policy)
        self.action_map = learner.action_map
        self.batch = learner.batch
        self._weights = ParameterGroup(LEARNING_RATE, list(self.policy.parameters()))
        self._steps = 0

    def learn(self, loss: Tensor) -> None:
        """One step of the optimiser."""
        if not bool(torch.isfinite(loss)):
            raise Diverged("the loss of the imitation start is not finite")
        self._weights.gradient.zero_()
        loss.backward()
        self._steps += 1
        with torch.no_grad():
            self._weights.step(torch.tensor(1.0), count=self._steps, rate_left=1.0)


class _Lessons:
    """A student's lessons in one kind of world."""

    def __init__(
        self,
        student: _Student,
        name: str,
        sampler: WorldSampler,
        teacher: StartTeacher,
        seed: list[int],
    ) -> None:
        self.student = student
        self.name = name
        self.sampler = sampler
        self.teacher = teacher
        self.rng = np.random.default_rng(seed)
        self.generator = torch.Generator().manual_seed(int(self.rng.integers(2**62)))

    def batch(self) -> float:
        """Watch the teacher play a batch of orders and learn from it; the work that it took."""
        policy = self.student.policy
        which = int(self.rng.integers(len(self.teacher.worlds)))
        world = self.teacher.worlds[which]
        episodes = world.draw(self.rng, self.sampler.orders[which])
        ratios = self.teacher.ratios(episodes.orders, self.sampler.neutral)
        seen = _watched(world, episodes, ratios, self.sampler.neutral.offset, policy)
        wanted = torch.from_numpy(ratios.T.astype(np.float32)).to(seen.device)  # [step, order]
        used = self.student.action_map.outputs(world.takes_price)
        for _ in range(PASSES):
            order = torch.randperm(world.horizon, generator=self.generator)
            for steps in order.tensor_split(min(MINIBATCHES, world.horizon)):
                loss = self._loss(seen, wanted, steps, used=used)
                self.student.learn(loss)
        row = row_work(policy, _window(seen, 0, policy.history))
        cost = work_of_step(self.name, row=row, epochs=PASSES, talks=False)
        return wanted.numel() * cost * batch_overhead(self.student.batch)

    def _loss(self, seen: Tensor, wanted: Tensor, steps: Tensor, *, used: int) -> Tensor:
        """How far what all orders do at some steps is from what the teacher did there."""
        policy = self.student.policy
        windows = torch.cat([_window(seen, step, policy.history) for step in steps.tolist()])
        outputs = policy.answer(windows, policy.place(self.name))[0]
        parts = outputs[:used].view(used, len(steps), -1)  # [output, step, order]
        apart = self._ratios(parts[0], len(wanted) - steps) - wanted[steps]
        left = torch.cat([torch.ones_like(wanted[:1]), (1.0 - wanted[:-1]).cumprod(0)])
        # what is traded too much, in TWAP's slices of the order
        loss = (len(wanted) * left[steps] * apart).square().mean()
        if used > 1:  # an output of 0 is the neutral limit
            loss = loss + parts[1].square().mean()
        return loss

    def _ratios(self, outputs: Tensor, steps_left: Tensor) -> Tensor:
        """The action map for many steps at once [step, order]."""
        action_map, nothing = self.student.action_map, torch.zeros(1)
        neutral = []
        for left in steps_left.tolist():
            neutral.append(action_map.ratio(nothing, steps_left=left, neutral=self.sampler.neutral))
        log_odds = torch.logit(torch.stack(neutral)).to(outputs.device)  # of a ratio of 1: infinite
        return torch.sigmoid(outputs * action_map.scale + log_odds)


def _watched(
    world: World, episodes: Episodes, ratios: Array, offset: float, student: Policy
) -> Tensor:
    """What is seen while orders trade these ratios [order, step]: [history - 1 + step, order, size].

    Zeros stand before the first step, and where agents would hear each other.
    """
    n, past = len(episodes), student.history - 1
    size = student.observation_size + student.message_size
    seen = np.zeros((past + world.horizon, n, size), np.float32)
    fields = np.empty((len(world.field_names), n), np.float32)
    limit = np.full(n, offset) if world.takes_price else None
    observation = world.reset(episodes)
    for step in range(world.horizon):
        seen[past + step, :, : student.observation_size] = observation
        observation = world.step(ratios[:, step], limit, fields)
    return torch.from_numpy(seen).to(student.log_std.device)


def _window(seen: Tensor, step: int, history: int) -> Tensor:
    """The window at a step [order, history, size]."""
    return seen[step : step + history].transpose(0, 1)


def _bars_of(world: World) -> StaticWorld | None:
    """The real bars that a world replays, if it does."""
    inside = world.worlds if isinstance(world, MixedWorld) else (world,)
    return next((one for one in inside if isinstance(one, StaticWorld)), None)


def _best_bars(world: StaticWorld) -> Plan:
    """The bars of the best prices, each for a few slices."""

    def plan(orders: Orders) -> Array:
        gain = orders.side[:, None] * orders.gather(world.data.price)  # [order, step]
        rank = np.argsort(np.argsort(-gain, axis=1, kind="stable"), axis=1)
        most = min(1.0, MOST_SLICES / orders.horizon)
        return np.clip(1.0 - most * rank, 0.0, most)

    return plan


def _ridge(worlds: tuple[StaticWorld, ...], budget: float) -> StartTeacher:
    """The ridge's schedule on the last of the worlds' days, which it is fitted on."""
    data, scales = worlds[0].data, worlds[0].scales
    bars_of_day = data.open[:, 0].size
    affordable = min(RIDGE_BARS, SHARE * budget / RIDGE_WORK) / bars_of_day
    day = np.unique(worlds[0].rows % len(data.dates))[-max(RIDGE_DAYS, int(affordable)) :]
    work = RIDGE_WORK * len(day) * bars_of_day
    if work > MOST_SHARE * budget:
        raise Diverged(
            f"start 'ridge' takes {work:.2g} of a budget of {budget:g}; give more or start otherwise"
        )
    bars = data.select(dates=data.dates[day])
    ridge = XSRidge.fit(((bars, scales),))
    forecast = np.zeros(data.shape)
    forecast[:, day] = ridge.forecast(bars, scales)
    own = tuple(world.over(dates=data.dates[day]) for world in worlds)
    return StartTeacher(own, lambda orders: ridge.schedule(orders, forecast), work)
