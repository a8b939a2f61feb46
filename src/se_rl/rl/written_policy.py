"""Policies and designs that need no lock: what they compute is spelled by the grammar, from choices.

What a language model wrote is read as choices (`modules.derivation`), and the network is built from
the text that the grammar, which is ours, spells for them. Every network of the grammar computes an
order's actions from that order's own row, so all orders may be played in one batch. Its weights were
trained behind the lock and are numbers of the agreed form; what comes out is checked as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from se_rl.modules.defaults import Modules
from se_rl.modules.derivation import derivation, spell
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.rl.locked_training import set_weights
from se_rl.rl.policy import ActionMap, Neutral, Policy, PolicyRunner
from se_rl.rl.sandboxed_training import Actions, TrainedDesign, bounded
from se_rl.rl.threads import one_thread
from se_rl.sandbox.calls import printable
from se_rl.sandbox.lockdown import SandboxError

KIND = "network"
WRITTEN_KINDS = (KIND, "reward")
"""Modules of a design that may be trained without a lock; with any other it needs one."""


class PolicyError(SandboxError):
    """Weights that fit no network, or numbers that are no actions: the design's own fault."""

    hopeless = True


def is_written(sources: Mapping[str, str]) -> bool:
    """Whether a design's network is the default's, or one that the grammar spells."""
    return KIND not in sources or derivation(sources[KIND], KIND) is not None


def written_modules(sources: Mapping[str, str]) -> Modules | None:
    """A design of networks and rewards that the grammar spells, written back from their choices.

    None for any other, which has to stay behind the lock. The same text gives the same class.
    """
    parts = {}
    for kind, source in sources.items():
        live = _spelled(source, kind) if kind in WRITTEN_KINDS else None
        if live is None:
            return None
        parts[KINDS[kind].part] = live
    return Modules(**parts)


@lru_cache(maxsize=256)
def _spelled(source: str, kind: str) -> Any:
    """The module that the grammar spells for a source's choices; None where it has none."""
    choices = derivation(source, kind)
    return None if choices is None else load_module(spell(choices, kind), kind)


def written_policy(trained: TrainedDesign) -> Policy | None:
    """The trained policy, where its network is the default's or one of the grammar's, and nobody
    talks; None for any other, which has to stay behind the lock."""
    if trained.shape is None or trained.weights is None or trained.shape["agents"] > 1:
        return None
    network = {kind: trained.sources[kind] for kind in (KIND,) if kind in trained.sources}
    modules = written_modules(network)
    if modules is None:
        return None
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced at once
        policy = Policy(modules, **trained.shape)
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
        self.inputs = policy.interface.inputs

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
