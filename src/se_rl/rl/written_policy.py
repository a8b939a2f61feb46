"""Policies that need no lock: their network is spelled by the grammar, from choices.

What a language model wrote is read as choices (`modules.derivation`), and the network is built from
the text that the grammar, which is ours, spells for them. Every network of the grammar computes an
order's actions from that order's own row, so all orders may be played in one batch. Its weights were
trained behind the lock and are numbers of the agreed form; what comes out is checked as ever.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from se_rl.modules.defaults import Modules
from se_rl.modules.derivation import derivation, spell
from se_rl.modules.loading import load_module
from se_rl.rl.locked_training import set_weights
from se_rl.rl.policy import ActionMap, Neutral, Policy, PolicyRunner
from se_rl.rl.sandboxed_training import Actions, TrainedDesign, bounded
from se_rl.rl.threads import one_thread
from se_rl.sandbox.calls import printable
from se_rl.sandbox.lockdown import SandboxError

KIND = "network"


class PolicyError(SandboxError):
    """Weights that fit no network, or numbers that are no actions: the design's own fault."""

    hopeless = True


def is_written(sources: Mapping[str, str]) -> bool:
    """Whether a design's network is the default's, or one that the grammar spells."""
    return KIND not in sources or derivation(sources[KIND], KIND) is not None


def written_policy(trained: TrainedDesign) -> Policy | None:
    """The trained policy, where its network is the default's or one of the grammar's, and nobody
    talks; None for any other, which has to stay behind the lock."""
    if trained.shape is None or trained.weights is None or trained.shape["agents"] > 1:
        return None
    parts = {}
    if KIND in trained.sources:
        choices = derivation(trained.sources[KIND], KIND)
        if choices is None:
            return None
        parts[KIND] = load_module(spell(choices, KIND), KIND)
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced at once
        policy = Policy(Modules(**parts), **trained.shape)
    try:
        set_weights(policy, trained.weights)
    except RuntimeError as error:
        raise PolicyError(f"the weights are not the network's: {printable(error)}") from None
    return policy


class WrittenPolicy:
    """Such a policy in use (`scoring.execution.Actor`), in this process."""

    def __init__(
        self, policy: Policy, action_map: ActionMap, *, world: str, neutral: Neutral
    ) -> None:
        self._runner = PolicyRunner(policy, action_map, neutral=neutral, world=world)

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        self._runner.start(n, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        """Ratios, kept to [0, 1], and offsets in ticks."""
        with one_thread():
            answer = self._runner.act(np.ascontiguousarray(observation))
        actions = np.stack(answer, axis=1).astype(np.float32)  # as they would cross the lock
        if not np.isfinite(actions).all():
            broken = int((~np.isfinite(actions)).sum())
            raise PolicyError(f"{broken} of {actions.size} action numbers are not finite")
        return bounded(actions)

    def close(self) -> None:
        """Nothing to end."""
