"""The one trainer: a design's modules and one or two worlds in, a trained policy out (the inner loop of Algorithm 1).

    1 train in the static world     2 train in the dynamic world     3 joint phase on L = alpha*L_static + beta*L_dynamic

The same weights go through all phases. Every number drawn comes from `seed`, so the same seed gives the same weights, bit
for bit on one device; the budget counts work (se_rl.rl.work), so a busy machine changes nothing but the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from se_rl.config import option, settings
from se_rl.environments.worlds import World
from se_rl.modules.contracts import LIMITS
from se_rl.modules.defaults import Modules
from se_rl.rl.policy import ActionMap, Neutral, Policy, PolicyRunner
from se_rl.rl.ppo import PPO, Batch, PPOSettings
from se_rl.rl.rebalance import EVERY, Balance
from se_rl.rl.rollout import Diverged, advantages, collect, without_hindsight
from se_rl.rl.work import step_work

PHASES = ("static", "dynamic", "joint")
COLLAPSED_STD = 1e-3
"""Noise below this is no exploration any more: the policy has collapsed to one action."""


@settings
class TrainConfig:
    """How a design is trained; what the design itself may set (learning rate, exploration, ...) is not here."""

    budget: float = option(2.0, "work units in all: about seconds of one core", metavar="WORK")
    samples: int = option(16_384, "order steps per update and world, about", metavar="N")
    phases: tuple[float, float, float] = option(
        (0.4, 0.3, 0.3), "shares of the budget: static, dynamic, joint"
    )
    gamma: float = option(1.0, "discount per step; 1 for orders that end anyway", metavar="G")
    anneal: bool = option(True, "lower the learning rate as the budget is spent")
    message_size: int = option(
        LIMITS.message_size, "numbers in a message between agents", metavar="K"
    )
    initial_alpha: float = option(
        0.5, "first weight of the static world in the joint phase", metavar="A"
    )
    learning_rate: float | None = option(
        None, "where the design sets none (none: the default design's)", metavar="LR"
    )
    gae_lambda: float | None = option(None, "the same, in both worlds", metavar="L")
    device: str = option("cpu", "cpu or cuda", metavar="DEVICE")
    ppo: PPOSettings = field(
        default_factory=PPOSettings,
        metadata={"help": "the update", "choices": None, "metavar": None},
    )


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained policy and how it got there; `reason` says why training ended early (None: the budget was spent)."""

    policy: Policy
    action_map: ActionMap
    neutral: Mapping[str, Neutral]
    curve: tuple[dict[str, float | str], ...]
    work: float
    reason: str | None
    seed: int

    def runner(self, world: str) -> PolicyRunner:
        """The policy in use in a world, without noise."""
        return PolicyRunner(
            self.policy, self.action_map, neutral=self.neutral.get(world, Neutral())
        )


class _World:
    """A world in training: its own random streams and the running scale of its returns."""

    def __init__(
        self,
        world: World,
        neutral: Neutral,
        *,
        samples: int,
        agents: int,
        seed: np.random.SeedSequence,
    ) -> None:
        self.world, self.neutral = world, neutral
        pair = 2 * agents  # where agents share no book, neighbours of the batch talk all the same
        self.orders = max(pair, samples // world.horizon // pair * pair)
        draws, noise = seed.spawn(2)
        self.rng = np.random.default_rng(draws)
        self.generator = torch.Generator().manual_seed(
            int(noise.generate_state(1, np.uint64)[0] >> 1)
        )
        self.scale: float | None = None


class Training:
    """One training: `run` until the budget is spent; every phase is a loop of `iterate`."""

    def __init__(
        self,
        modules: Modules,
        worlds: Mapping[str, World],
        config: TrainConfig,
        *,
        seed: int = 0,
        neutral: Mapping[str, Neutral] | None = None,
    ) -> None:
        unknown = set(worlds) - {"static", "dynamic"}
        if unknown or not worlds:
            raise ValueError(f"worlds are {sorted(worlds)}; give 'static', 'dynamic' or both")
        self.modules, self.config, self.seed = modules, config, seed
        self.neutral = dict(neutral or {})
        weights, shuffles, *streams = np.random.SeedSequence(seed).spawn(2 + len(worlds))
        agents = max(w.agents for w in worlds.values())
        self.worlds = {
            name: _World(
                world,
                self.neutral.get(name, Neutral()),
                samples=config.samples,
                agents=agents,
                seed=stream,
            )
            for (name, world), stream in zip(
                sorted(worlds.items(), reverse=True), streams, strict=True
            )
        }
        first = next(iter(worlds.values()))
        self.device = torch.device(config.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(weights.generate_state(1)[0]))
            policy = Policy(
                modules,
                observation_size=first.observation_size,
                actions=2 if any(w.takes_price for w in worlds.values()) else 1,
                agents=agents,
                message_size=config.message_size,
            )
        _check_size(policy)
        self.policy = policy.to(self.device)
        self.action_map = ActionMap(
            modules.constant("action_zero"), modules.constant("action_scale")
        )
        self.ppo = PPO(
            self.policy,
            learning_rate=self._constant("learning_rate"),
            epochs=round(modules.constant("epochs")),
            entropy_bonus=modules.constant("entropy_bonus"),
            settings=config.ppo,
            generator=torch.Generator().manual_seed(int(shuffles.generate_state(1)[0])),
        )
        self.balance, self.work, self.curve = (
            Balance(config.initial_alpha),
            0.0,
            list[dict[str, float | str]](),
        )

    def run(
        self, *, progress: Callable[[dict[str, float | str]], None] = lambda _: None
    ) -> Trained:
        """Spend the budget phase by phase; a training that cannot go on ends with its reason."""
        reason = None
        try:
            with one_thread():
                for phase, until in self._schedule():
                    while self.work < until:
                        progress(self.iterate(phase))
        except Diverged as error:
            reason = f"diverged after {len(self.curve)} updates: {error}"
        return Trained(
            self.policy,
            self.action_map,
            self.neutral,
            tuple(self.curve),
            self.work,
            reason,
            self.seed,
        )

    def iterate(self, phase: str) -> dict[str, float | str]:
        """One batch from each world of the phase, one update on all of them."""
        names = list(self.worlds) if phase == "joint" else [phase]
        share = {"static": self.balance.alpha, "dynamic": self.balance.beta}
        self.ppo.anneal(1.0 - self.work / self.config.budget if self.config.anneal else 1.0)
        row: dict[str, float | str] = {"phase": phase}
        batches = [self._batch(name, share[name] if len(names) > 1 else 1.0, row) for name in names]
        row |= self.ppo.update(batches)
        if float(self.policy.log_std.detach().max()) < np.log(COLLAPSED_STD):
            raise Diverged("exploration collapsed to a single action")
        if len(names) > 1 and (1 + sum(r["phase"] == "joint" for r in self.curve)) % EVERY == 0:
            losses = {name: float(row[f"loss_{i}"]) for i, name in enumerate(names)}
            self.balance = self.balance.moved(losses["static"], losses["dynamic"])
        row |= {"work": self.work, "alpha": self.balance.alpha, "beta": self.balance.beta}
        self.curve.append(row)
        return row

    def _batch(self, name: str, weight: float, row: dict[str, float | str]) -> Batch:
        """Play one batch of episodes and turn the design's rewards into advantages."""
        ground = self.worlds[name]
        world = ground.world
        rollout = collect(
            world,
            self.policy,
            self.action_map,
            world.draw(ground.rng, ground.orders),
            generator=ground.generator,
            neutral=ground.neutral,
            device=self.device,
        )
        self.work += rollout.values.numel() * step_work(self.policy, name, epochs=self.ppo.epochs)
        rewards = rollout.rewards(self.modules.reward, bound=LIMITS.reward_magnitude)
        totals = rewards[:, rollout.kept].sum(0)
        row[f"reward_{name}"] = float(totals.mean()) if totals.numel() else float("nan")
        ground.scale = _moved(ground.scale, float(rewards.flip(0).cumsum(0).std()))
        scaled = rewards / ground.scale
        lam = self._constant(
            "gae_lambda", "gae_lambda_dynamic" if name == "dynamic" else "gae_lambda"
        )
        gamma = self.config.gamma
        estimates = advantages(scaled, rollout.values, gamma=gamma, lam=lam)
        calm = without_hindsight(estimates, rollout, discount=gamma * lam)
        return Batch.of(rollout, calm, policy=self.policy, weight=weight)

    def _constant(self, setting: str, name: str | None = None) -> float:
        """A learning constant: the design's own, else the setting, else the default."""
        name, given = name or setting, getattr(self.config, setting)
        return (
            self.modules.constant(name)
            if given is None or hasattr(self.modules.network, name)
            else float(given)
        )

    def _schedule(self) -> Sequence[tuple[str, float]]:
        """Phases and the work at which each ends; with one world there is one phase."""
        if len(self.worlds) == 1:
            return [(next(iter(self.worlds)), self.config.budget)]
        ends = np.cumsum(self.config.phases) / sum(self.config.phases) * self.config.budget
        return list(zip(PHASES, ends.tolist(), strict=True))


def train(
    modules: Modules,
    worlds: Mapping[str, World],
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    neutral: Mapping[str, Neutral] | None = None,
    progress: Callable[[dict[str, float | str]], None] = lambda _: None,
) -> Trained:
    """Train a design. `worlds` has "static", "dynamic" or both; `neutral` says what an output of 0 means in each."""
    return Training(modules, worlds, config or TrainConfig(), seed=seed, neutral=neutral).run(
        progress=progress
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: as fast for these sizes, the same bits on every machine, and no fight with the markets' threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _moved(scale: float | None, spread: float) -> float:
    """The running spread of returns that rewards are divided by; a reward without any spread is left as it is."""
    now = spread if spread > 1e-12 else 1.0
    return now if scale is None else scale + 0.1 * (now - scale)


def _check_size(policy: Policy) -> None:
    parameters = sum(p.numel() for p in policy.network.parameters())
    if parameters > LIMITS.parameters:
        raise Diverged(
            f"the network has {parameters:,} parameters; {LIMITS.parameters:,} are allowed"
        )
