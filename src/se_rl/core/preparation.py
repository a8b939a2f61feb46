"""What a run needs before it can search: its data without the sealed test days, the markets to
train in, and the kit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np

from se_rl.baselines.passive_grid import best_constant
from se_rl.config import ConfigError
from se_rl.core.provenance import data_facts
from se_rl.core.scan import knows_scenario
from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.features import FeatureScales
from se_rl.data.known import with_history
from se_rl.data.market_data import MarketData
from se_rl.data.splits import given_split
from se_rl.environments.dynamic_world import DynamicWorld, EpisodeBank
from se_rl.executors.protocol import TrainingInputs
from se_rl.executors.training_pool import TrainingPool
from se_rl.executors.training_settings import training_worlds_of
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.high_level_enhancement import (
    HighLevelEnhancement,
    InstructionPopulation,
    PerformanceBuffer,
)
from se_rl.llm.low_level_enhancement import LoRAConfig, LowLevelEnhancement, Prior
from se_rl.records.archive import Archive
from se_rl.records.code_hash import code_hash
from se_rl.records.entries import key_of
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.training_worlds import dynamic_worlds
from se_rl.scoring.execution import ConstantSchedule
from se_rl.scoring.validation import Validation
from se_rl.seal import Seal

SEAL = "seal"
"""Kind and key of the event that holds a run's seal."""
GRID_EPISODES = 256
"""Simulated episodes, at most, on which constant schedules are tried."""


@dataclass(frozen=True)
class RunData:
    """The data that the search may see; `facts` is what the results say about the whole set.

    `config` are the run's settings with the horizons that fit into a session.
    """

    config: RunConfig
    facts: Mapping[str, Any]
    train: MarketData
    scales: FeatureScales
    validation: Validation

    @property
    def basis(self) -> str:
        """The digest of the data and the code."""
        config = self.config
        return key_of(self.facts["sha256"], config.train_until, config.valid_until, code_hash())

    @property
    def benchmark(self) -> Literal["vwap", "twap"]:
        """What orders are held against: bars without volume have no VWAP."""
        return "vwap" if self.train.volume is not None else "twap"


def load_run_data(config: RunConfig, seal: Seal, *, dataset: DataSet | None = None) -> RunData:
    """Read the data set and leave its test days behind: nothing that is returned holds one.

    A `dataset` that is here already is not read again.
    """
    if dataset is not None:
        dataset = dataset.without_test_days()
    else:
        dataset = load_dataset(
            config.data,
            seal=seal.text,
            split=given_split(config.train_until, config.valid_until),
            scored_days=config.scored_days,
            with_test=False,
        )
    config = config.fitting(len(dataset.data.grid))
    facts = data_facts(dataset)
    valid_dates = dataset.dates("valid")
    train = dataset.split("train")
    scales = FeatureScales.fit(train)
    known_days = with_history(dataset.data, valid_dates)
    validation = Validation(config, known_days, dates=valid_dates, scales=scales, seal=seal.text)
    return RunData(config, facts, train, scales, validation)


def run_seal(config: RunConfig, archive: Archive) -> Seal:
    """The seal of the run in this archive; that of a new run is stored before it is used."""
    stored = archive.find(SEAL)
    if stored is not None:
        return Seal(stored.get("text", ""), stored.get("origin", ""))
    if archive.find("run_started") is not None:
        raise ConfigError(
            f"the run in {archive.place} has no seal: an older se-rl began it; "
            "finish it with that one, or choose another --out"
        )
    seal = Seal.draw() if config.seal is None else Seal(config.seal, "given")
    archive.append(SEAL, SEAL, asdict(seal))
    return seal


class TrainingMarkets:
    """The simulated markets that designs train in, made when they are first needed."""

    def __init__(self, data: RunData, archive: Archive, *, say: Callable[[str], None]) -> None:
        self.config = data.config
        self.data = data
        self.archive = archive
        self.say = say

    @cached_property
    def grid(self) -> ConstantSchedule:
        """The best constant schedule in simulated markets: what an output of 0 means there."""
        found = self.archive.find("neutral")
        if found is None:
            self.say("trying constant schedules in simulated markets")
            best = best_constant(
                self._worlds(),
                np.random.default_rng(0),
                episodes=min(GRID_EPISODES, self.config.bank),
            )
            found = {"multiple": best.multiple, "offset": best.offset}
            self.archive.append("neutral", "neutral", found)
        return ConstantSchedule(found["multiple"], found["offset"])

    def neutral(self) -> dict[str, Neutral]:
        """What a policy does that decides nothing, by world; history has TWAP and
        needs no entry.
        """
        if self.config.worlds == "static":
            return {}
        return {"dynamic": Neutral(self.grid.multiple, self.grid.offset)}

    def banks(self) -> dict[int, EpisodeBank]:
        """Simulated episodes to train on, by horizon; none where designs train on history alone."""
        if self.config.worlds == "static":
            return {}
        self.say(
            "simulating markets to train in (the first use on a machine compiles for a minute)"
        )
        return {world.horizon: world.filled_bank() for world in self._worlds()}

    def _worlds(self) -> tuple[DynamicWorld, ...]:
        worlds = training_worlds_of(self.config)
        return dynamic_worlds(worlds, data=self.data.train, scales=self.data.scales)


def open_training_pool(data: RunData, markets: TrainingMarkets, **options: Any) -> TrainingPool:
    """Who trains and scores designs on this data; `options` are those of `TrainingPool`."""
    config = data.config
    train = data.train if config.weights["static"] or config.twins else None
    return TrainingPool(
        config,
        markets.archive,
        data.validation,
        inputs=TrainingInputs(train, data.scales, cache(markets.banks)),
        neutral=markets.neutral,
        basis=data.basis,
        **options,
    )


def _prior(config: RunConfig) -> Prior:
    """What the score predictor of STE starts from: the design bank's edits, where it is used."""
    if not knows_scenario(config):
        return lambda: ()
    from se_rl.modules.design_bank.storage import load_bank
    from se_rl.modules.design_bank.written import written_edits

    return lambda: written_edits(load_bank(), config.weights)


def make_kit(config: RunConfig) -> DualLevelEnhancementKit:
    """Both levels of enhancement, or those that the settings leave."""
    enhances_prompts, enhances_weights = config.levels
    prompts = HighLevelEnhancement(
        InstructionPopulation(replay=config.replay),
        PerformanceBuffer(),
        seed=config.seed,
        evolves=enhances_prompts,
    )
    lora = LoRAConfig(rank=config.lora_rank, alpha=config.lora_alpha, estimator=config.estimator)
    return DualLevelEnhancementKit(
        prompts if enhances_prompts or config.arm == "frozen" else None,
        LowLevelEnhancement(lora, prior=_prior(config)) if enhances_weights else None,
        seed=config.seed,
    )
