"""The parts of a training: what learns, what it is rewarded for, and by which constants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from se_rl.bounded_reading import shown
from se_rl.config import option, settings
from se_rl.environments.worlds import World, further_of, several
from se_rl.modules.contracts import LIMITS
from se_rl.modules.defaults import Modules, Network, Reward
from se_rl.records.settings import STARTS
from se_rl.rl.action_maps import RatioActions, action_kind, action_map_of
from se_rl.rl.policy import WORLD_NAMES, ActionMap, Policy
from se_rl.rl.ppo import PPO, PPOSettings
from se_rl.rl.rollout import Diverged
from se_rl.rl.work import parameter_count

OWN_SEEDS = 2
"""Children of a training's seed for the learner (weights, shuffles); the worlds have the rest."""


@settings
class TrainConfig:
    """How a design is trained; what the design itself may set is not here."""

    budget: float = option(2.0, "work units in all: about seconds of one core", metavar="WORK")
    samples: int = option(16_384, "order steps per update and world, about", metavar="N")
    copies: int = option(
        4, "times that each simulated order is played in a batch, with other noise", metavar="N"
    )
    phases: tuple[float, float, float] = option(
        (0.2, 0.4, 0.4), "shares of the budget, where the design sets none: static, dynamic, joint"
    )
    risk: float = option(0.02, "risk aversion per bps in choosing the best snapshot", metavar="R")
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
    start: Literal["none", "ridge", "foresight", "constant"] = option(
        "none", "whose schedule is learned before RL, where the design sets none", choices=STARTS
    )
    device: str = option("cpu", "cpu or cuda", metavar="DEVICE")
    ppo: PPOSettings = field(
        default_factory=PPOSettings,
        metadata={"help": "the update", "choices": None, "metavar": None},
    )

    def copies_in(self, world: str) -> int:
        """How often an order of a world is played in a batch.

        On history the hindsight baseline knows the luck already.
        """
        return self.copies if world == "dynamic" else 1


@dataclass(frozen=True, eq=False)
class Learner:
    """A policy with all that its training needs besides worlds and a budget.

    `gae_lambda` is given for each world, `phases` are shares of the budget: static, dynamic, joint.
    A reward beyond `reward_bound` ends the training. `start` names the teacher that is imitated
    first (`rl.imitation`).
    """

    policy: Policy
    ppo: PPO
    action_map: ActionMap
    reward: Reward
    gamma: float
    gae_lambda: Mapping[str, float]
    batch: float = 1.0
    phases: tuple[float, float, float] = (0.2, 0.4, 0.4)
    start: str = STARTS[0]
    reward_bound: float = LIMITS.reward_magnitude

    @classmethod
    def of_design(
        cls,
        modules: Modules,
        worlds: Mapping[str, World | tuple[World, ...]],
        config: TrainConfig,
        *,
        seed: int,
    ) -> Learner:
        """A fresh policy of the design's network, with the constants of design and config."""
        check_world_names(worlds)
        weights, shuffles = np.random.SeedSequence(seed).spawn(OWN_SEEDS)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(weights.generate_state(1)[0]))
            policy = _fresh_policy(modules, several(worlds), message_size=config.message_size)
        _check_size(policy)
        policy = policy.to(torch.device(config.device))
        ppo = PPO(
            policy,
            learning_rate=_constant(modules, "learning_rate", config.learning_rate),
            epochs=round(modules.constant("epochs")),
            entropy_bonus=modules.constant("entropy_bonus"),
            noise=(modules.constant("exploration"), modules.constant("exploration_end")),
            settings=config.ppo,
            generator=torch.Generator().manual_seed(int(shuffles.generate_state(1)[0])),
        )
        return cls(
            policy=policy,
            ppo=ppo,
            action_map=action_map_of(modules),
            reward=modules.reward,
            gamma=config.gamma,
            gae_lambda={
                "static": _constant(modules, "gae_lambda", config.gae_lambda),
                "dynamic": _constant(modules, "gae_lambda_dynamic", config.gae_lambda),
            },
            batch=modules.constant("batch"),
            phases=_phases(modules, config),
            start=_start(modules, config),
        )


def check_world_names(worlds: Collection[str]) -> None:
    """Refuse worlds other than static and dynamic, and none at all."""
    if not worlds or not set(worlds) <= set(WORLD_NAMES):
        raise ValueError(f"worlds are {sorted(worlds)}; give 'static', 'dynamic' or both")


def most_agents(worlds: Mapping[str, tuple[World, ...]]) -> int:
    """Agents in one book, in the world that has most of them."""
    return max(group[0].agents for group in worlds.values())


def _fresh_policy(
    modules: Modules, worlds: Mapping[str, tuple[World, ...]], *, message_size: int
) -> Policy:
    """The design's policy with random weights, of the size that the worlds need."""
    first = next(iter(worlds.values()))[0]
    asked = modules.interface.inputs
    if asked != further_of(first):
        raise ValueError(
            f"the network asks for inputs {list(asked)}, the {first.name} world shows "
            f"{list(further_of(first))}; train in worlds that are `showing` them"
        )
    takes_price = any(group[0].takes_price for group in worlds.values())
    return Policy(
        modules,
        observation_size=first.observation_size,
        actions=action_map_of(modules).outputs(takes_price),
        agents=most_agents(worlds),
        message_size=message_size,
        worlds=len(worlds),
    )


def _constant(modules: Modules, name: str, setting: float | None) -> float:
    """A learning constant: a designed network's own, else the setting, else the default's."""
    designed = modules.network is not Network and hasattr(modules.network, name)
    return modules.constant(name) if setting is None or designed else float(setting)


def _phases(modules: Modules, config: TrainConfig) -> tuple[float, float, float]:
    """Shares of the budget: the design's own where it sets any, else the settings'."""
    usual = sum(config.phases)
    static = _constant(modules, "static_share", config.phases[0] / usual)
    joint = _constant(modules, "joint_share", config.phases[2] / usual)
    return static, max(0.0, 1.0 - static - joint), joint


def _start(modules: Modules, config: TrainConfig) -> str:
    """The teacher that the design asks for, else that of the settings where it can be followed."""
    own = getattr(modules.network, "start", None)
    start = config.start if own is None else own
    if start not in STARTS:
        raise ValueError(f"start is {shown(start)}; use one of {', '.join(STARTS)}")
    if start == STARTS[0] or action_kind(modules) in (ActionMap, RatioActions):
        return start
    if own is None:
        return STARTS[0]
    raise ValueError(
        f"start is {start!r} and actions are {modules.interface.actions!r}; teachers trade ratios: "
        "use actions 'ratio' or start 'none'"
    )


def _check_size(policy: Policy) -> None:
    parameters = parameter_count(policy.network)
    if parameters > LIMITS.parameters:
        raise Diverged(
            f"the network has {parameters:,} parameters; {LIMITS.parameters:,} are allowed"
        )
