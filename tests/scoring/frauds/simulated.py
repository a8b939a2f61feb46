"""Frauds in simulated markets: does it pay a policy there to have other orders in its batch?

A gain over TWAP is no fraud there, since limit orders earn the spread. What another order may not
bring is more of it: the same markets are played as they are scored, by policies each of which sees
its own order alone, at the same place of a batch of its copies, and by the neutral schedule.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frauds.campaign import ERRORS, FAILS, Gain, Outcome, in_words, martingale
from frauds.fraud import Fraud
from frauds.opening import opened
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.worlds import Episodes
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring.execution import Actor, Array, ConstantSchedule, execute
from se_rl.scoring.fraud_trials import FraudTrials
from se_rl.scoring.play import Open, play
from se_rl.scoring.static_panel import paired

HORIZON = 13
MARKETS, MORE_MARKETS = 18, 60
"""Markets of the first look, and of the second one."""


@lru_cache(maxsize=4)
def world_of(agents: int, markets: int, seed: int) -> DynamicWorld:
    """Free markets in which `agents` share a book."""
    return DynamicWorld(horizon=HORIZON, takes_price=True, agents=agents, bank=markets, seed=seed)


def attacked_simulated(fraud: Fraud) -> Outcome:
    """What other orders of the batch bring a fraud; where they bring something, once more."""
    policy = _policy(fraud)
    try:
        gain = _brought(policy, world_of(fraud.agents, MARKETS, 11))
        if gain.errors <= ERRORS:
            return Outcome(fraud.name, gain)
        again = _brought(policy, world_of(fraud.agents, MORE_MARKETS, 12))
    except SandboxError as error:
        return Outcome(fraud.name, None, refused=str(error))
    except Exception as error:
        return Outcome(fraud.name, None, crashed=repr(error)[:200])
    return Outcome(fraud.name, gain, again)


def verdict_simulated(fraud: Fraud) -> str:
    """What the check says by simulated orders alone."""
    world = world_of(fraud.agents, MARKETS, 11)
    try:
        check = FraudTrials(None, [(world, _episodes(world))], seed=3)
        return in_words(check.check([_policy(fraud)]).reason)
    except SandboxError:
        return FAILS


def _policy(fraud: Fraud) -> Open:
    own = martingale(HORIZON, seed=5) if fraud.encodes else None
    return opened(fraud, own)


def _brought(policy: Open, world: DynamicWorld) -> Gain:
    """What the batch brings: over the policy that sees its own order alone, and over no policy.

    The lesser of the two counts, since odd actions cost something in either.
    """
    gain = _gain(policy, world)
    rivals = (_blinkered(policy, world.agents), lambda *_: ConstantSchedule())
    differences = []
    for rival in rivals:
        by_market = (gain - _gain(rival, world)).reshape(len(world.bank), world.agents)
        whole = np.isfinite(by_market).all(axis=1)
        differences.append(Gain.of(by_market[whole].mean(axis=1)))
    return min(differences, key=lambda difference: difference.errors)


def foresight_simulated(fraud: Fraud) -> Gain:
    """What a fraud earns that has seen the same markets before, in one process.

    Nothing: the score takes out what the price does without our order.
    """
    world = world_of(fraud.agents, MORE_MARKETS, 11)
    actor = _policy(fraud)(world.name, HORIZON, len(_episodes(world)))
    execute(world, actor, _episodes(world))
    again = execute(world, actor, _episodes(world))
    over_nothing = paired(again.gain - again.twap_gain) - _gain(
        lambda *_: ConstantSchedule(), world
    )
    return Gain.of(over_nothing[np.isfinite(over_nothing)])


def _gain(policy: Open, world: DynamicWorld) -> Array:
    """[market x agent]: the gain over TWAP."""
    run = play(world, _episodes(world), policy)
    return paired(run.gain - run.twap_gain)


def _episodes(world: DynamicWorld) -> Episodes:
    return world.bank.episodes(np.arange(len(world.bank)), horizon=HORIZON)


def _blinkered(policy: Open, agents: int) -> Open:
    return lambda world, horizon, rows: Blinkered(
        [policy(world, horizon, rows) for _ in range(rows // agents)], agents
    )


class Blinkered:
    """A process for each book: it finds its own orders at every place of the batch."""

    def __init__(self, actors: list[Actor], agents: int) -> None:
        self._actors = actors
        self._agents = agents

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        for actor in self._actors:
            actor.start(n, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """What each order's own process does."""
        answers = np.zeros((2, len(observation)))
        for book, actor in enumerate(self._actors):
            own = slice(book * self._agents, (book + 1) * self._agents)
            ratio, offset = actor.act(np.tile(observation[own], (len(self._actors), 1)))
            answers[0, own] = ratio[own]
            answers[1, own] = offset[own]
        return answers[0], answers[1]

    def close(self) -> None:
        """End all of them."""
        for actor in self._actors:
            actor.close()
