"""Many trainings at once on one device: the same trainings as `rl.trainer` gives one by one.

Every training draws its orders, noise and shuffles from its own seed as on the CPU, follows the same
phases and is judged on the same held-back orders. So a result does not depend on its neighbours
but for the last bits of sums, and agrees with the CPU's as far as such bits let it. What runs here is
not locked up: designs must be hand-written or spelled by the grammar (`rl.written_policy`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TypeVar

import torch

from se_rl.config import ConfigError
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import FIELD_NAMES, World
from se_rl.market.gpu import cuda_module
from se_rl.market.profile import MarketProfile
from se_rl.modules.defaults import Modules
from se_rl.rl.held_back import PairGains, pair_gains, step_gains
from se_rl.rl.learner import TrainConfig
from se_rl.rl.on_device.device_estimates import taught
from se_rl.rl.on_device.device_rollout import Draw, Play, StackRollout, play_together
from se_rl.rl.on_device.device_simulation import DeviceSimulation
from se_rl.rl.on_device.device_update import BatchRow, RowUpdate
from se_rl.rl.on_device.device_world import DeviceWorld, Uploads
from se_rl.rl.on_device.history import DeviceHistory
from se_rl.rl.on_device.member import Member
from se_rl.rl.on_device.stack import Stack
from se_rl.rl.policy import WORLD_NAMES, Neutral
from se_rl.rl.rollout import Diverged
from se_rl.rl.trained import Trained
from se_rl.rl.training_worlds import TrainingWorldsConfig

Result = TypeVar("Result")
Thing = TypeVar("Thing")

HOST_THREADS = min(16, os.cpu_count() or 1)
"""Threads that draw numbers while the device waits for them."""


def train_together(
    designs: Sequence[Modules],
    worlds: Mapping[str, World | tuple[World, ...]],
    config: TrainConfig | None = None,
    *,
    seeds: Sequence[int],
    neutral: Mapping[str, Neutral] | None = None,
    held_back: Mapping[str, Sequence[World]] | None = None,
    device: str = "cuda",
) -> list[Trained]:
    """Train designs at once in the same worlds, one seed each; see `rl.trainer.train`.

    Designs with the same network class share every call, others the worlds alone. The worlds must
    have counterparts on a device (`device_world_of`); between updates weights wait on the host.
    """
    device_name(device)
    on_host = replace(config or TrainConfig(), device="cpu")
    members = []
    for modules, seed in zip(designs, seeds, strict=True):
        member = Member.of_design(
            modules,
            worlds,
            on_host,
            seed=seed,
            neutral=neutral,
            held_back=held_back,
        )
        members.append(member)
    with ThreadPoolExecutor(HOST_THREADS) as threads:
        return Together(members, designs, torch.device(device), threads).run()


def device_name(device: str) -> str:
    """What a device calls itself; refused in one line where it is not there."""
    if device == "cpu":
        return device
    if not torch.cuda.is_available():
        raise ConfigError(
            f"device is {device!r} and no CUDA device was found by torch {torch.__version__}; "
            "install a torch with CUDA on a machine with a GPU (se-rl doctor), or use the CPU"
        )
    cuda_module()
    return f"{device} ({torch.cuda.get_device_name()})"


def can_train(modules: Modules, worlds: TrainingWorldsConfig) -> bool:
    """Whether a design's own worlds of these settings have counterparts on a device."""
    usual = modules.imagine is None and modules.profile == MarketProfile()
    alone = worlds.agents == 1 and not modules.interface.inputs
    taker = worlds.fill_model == "price_taker" and worlds.max_participation is None
    return usual and alone and taker


class Together:
    """The trainings, their stacks, and the worlds on the device."""

    def __init__(
        self,
        members: Sequence[Member],
        designs: Sequence[Modules],
        device: torch.device,
        threads: ThreadPoolExecutor,
    ) -> None:
        self.members = list(members)
        self._threads = threads
        self._uploads = Uploads(device)
        self._worlds: dict[int, DeviceWorld] = {}
        self._place: dict[Member, tuple[Stack, int]] = {}
        self._rows: dict[str, list[BatchRow]] = {}
        self._row_of: dict[tuple[str, Member], tuple[int, int]] = {}
        alike: dict[object, list[Member]] = {}
        for member, modules in zip(members, designs, strict=True):
            alike.setdefault(modules.network, []).append(member)
        for group in alike.values():
            stack = Stack([member.learner for member in group], device)
            for row, member in enumerate(group):
                self._place[member] = (stack, row)

    def run(self) -> list[Trained]:
        """Rounds of one update for everybody who is not done, until all are."""
        active = list(self.members)
        while active:
            active = [member for member in active if self._guarded(member, member.begin)]
            self._play(active)
            active = [member for member in active if member.reason is None]
            self._update(active)
            active = [member for member in active if member.reason is None]
            self._judge(active)
        return [member.result() for member in self.members]

    def _play(self, active: Sequence[Member]) -> None:
        """A batch for each member in every world of its phase."""
        self._row_of.clear()
        for name in WORLD_NAMES:
            self._rows[name] = []
            wanting = [member for member in active if name in member.weights]
            draws = [member.draw(name) for member in wanting]
            pairs = zip(wanting, draws, strict=True)
            noisy = self._do_all(lambda pair: pair[0].with_noise(name, pair[1]), pairs)  # noqa: B023
            for rollout in self._rollouts(name, wanting, noisy):
                self._learn(name, rollout)

    def _rollouts(
        self, name: str, members: Sequence[Member], draws: Sequence[Draw]
    ) -> Iterator[StackRollout[Member]]:
        """What comes of the members' draws in worlds of this name, those of a world at once."""
        by_world: dict[int, list[Play[Member]]] = {}
        for member, draw in zip(members, draws, strict=True):
            stack, row = self._place[member]
            by_world.setdefault(id(draw.world), []).append(Play(member, stack, row, draw))
        for plays in by_world.values():
            device_world = self._on_device(plays[0].draw.world)
            neutral = plays[0].owner.neutral.get(name, Neutral())
            yield from play_together(device_world, plays, name=name, neutral=neutral)

    def _learn(self, name: str, rollout: StackRollout[Member]) -> None:
        """Turn what was played into batches."""
        members = rollout.owners
        learners = [member.learner for member in members]
        samplers = [member.worlds[name] for member in members]
        lessons = taught(rollout, learners, samplers, name=name)
        steps, orders = rollout.values.shape[1:]
        for i, (member, result) in enumerate(zip(members, lessons.results, strict=True)):
            self._guarded(
                member, partial(member.note_batch, orders=orders, steps=steps), name, result
            )
            self._row_of[name, member] = (len(self._rows[name]), i)
        self._rows[name].append(BatchRow.of(rollout, lessons))

    def _update(self, active: Sequence[Member]) -> None:
        """One update of every member on its batches, those of a stack and phase at once."""
        alike: dict[tuple[int, tuple[str, ...]], list[Member]] = {}
        for member in active:
            alike.setdefault((id(self._place[member][0]), tuple(member.weights)), []).append(member)
        for (_, names), members in alike.items():
            stack = self._place[members[0]][0]
            rows = []
            for name in names:
                places = [self._row_of[name, member] for member in members]
                rows.append(BatchRow.joined(self._rows[name], places))
            who = [self._place[member][1] for member in members]
            weights = [[member.weights[name] for member in members] for name in names]
            results = RowUpdate(stack, who, rows, weights, do_all=self._do_all).run()
            for member, result in zip(members, results, strict=True):
                self._guarded(member, member.settle, result)

    def _judge(self, active: Sequence[Member]) -> None:
        """Let those play their held-back orders whose time it is, and end everybody's update."""
        gains: dict[Member, list[PairGains]] = {member: [] for member in active}
        waiting = {member: list(member.plays_to_judge()) for member in active}
        while playing := [member for member in active if waiting[member]]:
            now = [waiting[member].pop(0) for member in playing]
            for name in WORLD_NAMES:
                here = [place for place, (own, *_) in enumerate(now) if own == name]
                draws = [Draw(*now[place][1:]) for place in here]
                members = [playing[place] for place in here]
                for rollout in self._rollouts(name, members, draws):
                    for member, gained in zip(rollout.owners, _gains(rollout), strict=True):
                        gains[member].append(gained)
        for member in active:
            member.end(gains[member])

    def _guarded(self, member: Member, do: Callable[..., Result], *given: object) -> Result | None:
        """Do something of a member's own; where its training cannot go on, it ends."""
        try:
            return do(*given)
        except Diverged as error:
            member.fail(error)
            return None

    def _do_all(self, do: Callable[[Thing], Result], things: Iterable[Thing]) -> list[Result]:
        """Do the same with all things, several at a time."""
        waiting = list(things)
        parts = [waiting[k::HOST_THREADS] for k in range(HOST_THREADS)]
        done = list(self._threads.map(lambda part: [do(one) for one in part], parts))
        return [done[k % HOST_THREADS][k // HOST_THREADS] for k in range(len(waiting))]

    def _on_device(self, world: World) -> DeviceWorld:
        """The world's counterpart, made when it is first asked for."""
        if id(world) not in self._worlds:
            self._worlds[id(world)] = device_world_of(world, self._uploads)
        return self._worlds[id(world)]


def device_world_of(world: World, uploads: Uploads) -> DeviceWorld:
    """A world's counterpart on a device; refused in one line where there is none."""
    if isinstance(world, StaticWorld):
        return DeviceHistory(world, uploads)
    if isinstance(world, DynamicWorld):
        return DeviceSimulation(world, uploads)
    raise ValueError(f"the {world.name} world has no counterpart on a device; train on the CPU")


def _gains(rollout: StackRollout[Member]) -> list[PairGains]:
    """What the orders of each policy gained, by pair."""
    named = dict(zip(FIELD_NAMES, rollout.fields, strict=True))
    parts = step_gains(SimpleNamespace(**named))
    specific, news = (part.double().sum(0).cpu().numpy() for part in parts)  # [policy, order]
    kept = rollout.kept.cpu().numpy()
    return [pair_gains(*each) for each in zip(specific, news, kept, strict=True)]
