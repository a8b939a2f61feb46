"""The rivals of the field in a run: trained as its finalists are, and opened for the final tables.

A rival learns in one kind of world at a time. So where a run has both, a finalist's budget is
shared by two trainings, each of which plays the orders of its own kind. Whatever has been trained
stands in the archive: a run that goes on looks it up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch

from se_rl.baselines.registry import modules_of, rival_named
from se_rl.config import to_dict
from se_rl.environments.worlds import World
from se_rl.executors.stored_policy import training_bytes, training_from_bytes
from se_rl.executors.training_settings import training_worlds_of
from se_rl.modules.defaults import Modules
from se_rl.records.entries import key_of
from se_rl.records.plain import from_plain
from se_rl.rl.locked_training import set_weights
from se_rl.rl.policy import WORLD_NAMES, ActionMap, Neutral, Policy
from se_rl.rl.sandboxed_training import WEIGHT, TrainedDesign
from se_rl.rl.trainer import Trained
from se_rl.rl.training_worlds import make_worlds
from se_rl.rl.written_policy import WrittenPolicy
from se_rl.scoring.play import Open, OwnRows

if TYPE_CHECKING:
    from se_rl.core.run import Run

RIVAL_TRAINED = "rival_trained"
"""The kind of the event that holds a training."""
TrainWorlds = Callable[[], Mapping[str, tuple[World, ...]]]


@dataclass(frozen=True)
class StoredRival:
    """One training of a rival; `policy` is the blob of its weights, `reason` why it ended early."""

    rival: str
    world: str
    seed: int
    policy: str
    work: float
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class RivalPolicies:
    """For each rival the policies of its training seeds; `notes` name trainings that gave none."""

    policies: Mapping[str, Sequence[Open]]
    notes: tuple[str, ...] = ()


def rival_policies(run: Run) -> RivalPolicies:
    """The rivals that the run's settings name, with the seeds of its last rung."""
    inputs = run.training_pool.sandbox.inputs

    @cache
    def worlds() -> Mapping[str, tuple[World, ...]]:
        settings = training_worlds_of(run.config)
        made = make_worlds(
            Modules(), settings, data=inputs.data, scales=inputs.scales, banks=inputs.banks()
        )
        return made.train

    policies: dict[str, list[Open]] = {}
    notes = []
    for given in run.config.rivals:
        name = rival_named(given).name
        for seed in run.config.rungs.last.training_seeds:
            trainings = [_training(run, name, kind, seed, worlds) for kind in _kinds(run)]
            early = [f"{one.world}: {one.reason}" for one in trainings if one.reason]
            if early:
                notes.append(f"{name}, seed {seed}, is left out ({'; '.join(early)})")
            else:
                policies.setdefault(name, []).append(_opened(run, trainings))
    return RivalPolicies(policies, tuple(notes))


def _kinds(run: Run) -> tuple[str, ...]:
    """The kinds of world that the run trains in."""
    return WORLD_NAMES if run.config.worlds == "both" else (run.config.worlds,)


def _training(run: Run, name: str, kind: str, seed: int, worlds: TrainWorlds) -> StoredRival:
    """One training: looked up here or in a run that may be reused, else made and stored."""
    budget = run.config.rungs.last.work / len(_kinds(run))
    neutral = run.markets.neutral()
    spoken = {world: asdict(value) for world, value in neutral.items()}
    settings = to_dict(training_worlds_of(run.config))
    key = key_of(RIVAL_TRAINED, name, kind, seed, budget, settings, spoken, run.basis)
    for archive in (run.archive, *run.library):
        found = archive.find(key)
        if found is not None and archive.has_blob(found["policy"]):
            run.archive.put_blob(archive.blob(found["policy"]))
            break
    else:
        run.say(f"training {name} in the {kind} world, seed {seed}")
        began = time.monotonic()
        train = rival_named(name).load()
        trained = train({kind: worlds()[kind]}, budget=budget, seed=seed, neutral=neutral)
        assert isinstance(trained, Trained)  # as all of them are that have a network
        seconds = round(time.monotonic() - began, 3)
        blob = run.archive.put_blob(_policy_bytes(trained))
        reason = trained.reason or ""
        found = asdict(StoredRival(name, kind, seed, blob, trained.work, seconds, reason))
    run.store_event(RIVAL_TRAINED, key, found)
    return from_plain(StoredRival, found)


def _policy_bytes(trained: Trained) -> bytes:
    """A rival's policy in the form that designs' policies are stored in; it has no sources."""
    weights = {}
    for name, value in trained.policy.state_dict().items():
        weights[f"{WEIGHT}{name}"] = value.numpy()
    return training_bytes(
        TrainedDesign(
            {},
            "ok",
            None,
            "",
            0.0,
            work=trained.work,
            shape=trained.policy.shape,
            action_map=asdict(trained.action_map),
            weights=weights,
        )
    )


def _opened(run: Run, trainings: Sequence[StoredRival]) -> Open:
    """A way to open the policies that were trained with one seed, each in its own kind of world; one
    that was trained in one kind alone is used in all.
    """
    neutral = run.markets.neutral()
    stored = {one.world: _policy(run, one) for one in trainings}

    def open_policy(world: str, horizon: int, rows: int) -> WrittenPolicy:
        policy, action_map = stored.get(world) or stored[trainings[0].world]
        own = neutral.get(world, Neutral())
        return WrittenPolicy(policy, action_map, world=world, neutral=own)

    return OwnRows(open_policy)


def _policy(run: Run, stored: StoredRival) -> tuple[Policy, ActionMap]:
    """A stored policy, live."""
    content = training_from_bytes(run.archive.blob(stored.policy), {})
    assert content.shape is not None and content.weights is not None
    modules = modules_of(stored.rival, actions=content.shape["actions"])
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced at once
        policy = Policy(modules, **content.shape)
    set_weights(policy, content.weights)
    return policy, ActionMap(**content.action_map or {})
