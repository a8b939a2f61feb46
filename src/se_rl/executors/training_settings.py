"""The settings of a run as those of its trainings: the worlds they train in, and how."""

from __future__ import annotations

from se_rl.config import to_dict
from se_rl.market.family import free_kinds
from se_rl.records.entries import key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig
from se_rl.rl.ppo import PPOSettings
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig

MOST_SAMPLES = 16_384
"""Order steps per update and world at most."""
SECONDS_PER_WORK = 60.0
EXTRA_SECONDS = 120.0
"""A training's deadline, generous: a busy machine must not change a score."""


def training_worlds_of(config: RunConfig) -> TrainingWorldsConfig:
    """The worlds that designs of a run are trained in."""
    return TrainingWorldsConfig(
        worlds=config.worlds,
        horizons=config.horizons,
        dynamic_horizons=config.dynamic_horizons,
        sizes=config.sizes,
        kinds=free_kinds(config.profiles),
        twins=config.twins,
        agents=config.book_agents,
        bank=config.bank,
        half_spread_bps=config.half_spread_bps,
        fee_bps=config.fee_bps,
        max_participation=config.max_participation,
        fill_model=config.fill_model,
    )


def train_config(config: RunConfig, rung: Rung) -> TrainConfig:
    """How designs of a run are trained at a rung."""
    return TrainConfig(
        budget=rung.work,
        gamma=config.gamma,
        learning_rate=config.learning_rate,
        gae_lambda=config.gae_lambda,
        initial_alpha=config.initial_alpha,
        start=config.start,
        risk=config.risk,
        ppo=PPOSettings(clip=config.clip),
        samples=min(MOST_SAMPLES, config.samples),
    )


def training_key(config: RunConfig, job: TrainingJob, *, markets: str, basis: str) -> str:
    """The name of an evaluation: everything that its outcome depends on, but company on a device.

    `markets` is the digest of those that it is scored in, `basis` that of the data and the code.
    """
    return key_of(
        sorted(job.candidate.modules.items()),
        job.rung.index,
        job.seed,
        to_dict(training_worlds_of(config)),
        to_dict(train_config(config, job.rung)),
        [job.rung.episodes, config.day_orders, markets],
        basis,
    )


def deadline_seconds(rung: Rung) -> float:
    """How long a training may take at a rung."""
    return EXTRA_SECONDS + SECONDS_PER_WORK * rung.work
