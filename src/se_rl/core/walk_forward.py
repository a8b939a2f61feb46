"""`se-rl evaluate --walk-forward K`: a run's design trained anew on the past of every block of days,
and what it gains on the days that come next, pooled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from se_rl.baselines import registry, schedules
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.task import BaselineTask
from se_rl.config import ConfigError, load_yaml
from se_rl.core.evaluate import log_opening, seal_of_run
from se_rl.core.saved_policy import policy_path
from se_rl.data.catalog import load_dataset
from se_rl.data.features import FeatureScales
from se_rl.data.known import with_history
from se_rl.data.market_data import MarketData
from se_rl.data.splits import Fold, given_split, walk_forward
from se_rl.environments.ridge import XSRidge
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.executors.training_settings import deadline_seconds, train_config, training_worlds_of
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import policy_facts
from se_rl.rl.sandboxed_training import SandboxedTrainer, TrainedDesign
from se_rl.scoring.execution import Actor
from se_rl.scoring.order_scores import Score
from se_rl.scoring.play import play
from se_rl.scoring.statistics import Estimate, clustered_mean
from se_rl.seal import PUBLIC

Array = npt.NDArray[np.float64]
DESIGN = "the run's design"
Say = Callable[[str], None]


@dataclass(frozen=True)
class PooledGain:
    """What a method gained over TWAP on all blocks together, with a day-clustered interval."""

    mean: float
    se: float
    ci95: tuple[float, float]

    @classmethod
    def of(cls, found: Estimate) -> PooledGain:
        """The same figures as a record."""
        return cls(found.mean, found.se, found.ci95)


@dataclass(frozen=True)
class PooledRow:
    """One method: the whole gain and its specific part."""

    over_TWAP: PooledGain
    over_TWAP_specific: PooledGain


@dataclass(frozen=True)
class FoldDays:
    """The first and last day of a fold's past and of its block."""

    past: tuple[int, int]
    block: tuple[int, int]


@dataclass(frozen=True)
class WalkForward:
    """A walk through a set: its folds, how many days were executed, and every method pooled."""

    data: str
    days: int
    folds: tuple[FoldDays, ...]
    methods: Mapping[str, PooledRow]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Design:
    """What is trained anew: the modules, and the settings of the run that found them."""

    sources: Mapping[str, str]
    config: RunConfig
    neutral: Mapping[str, Neutral]


@dataclass(frozen=True, eq=False)
class _Gains:
    """Gains over TWAP per order, and the orders' dates."""

    whole: Array
    specific: Array
    date: npt.NDArray[np.int32]


def walk_design_forward(
    place: Path,
    config: BaselinesConfig,
    *,
    blocks: int,
    unsafe: bool = False,
    say: Say = lambda _: None,
) -> WalkForward:
    """Train the design of the run in a folder on each past, execute the next block, and pool."""
    design = _design_of(place)
    dataset = load_dataset(
        config.data,
        seal=config.seal or seal_of_run(place) or PUBLIC,
        split=given_split(config.train_until, config.valid_until),
        scored_days=config.scored_days or design.config.scored_days,
    )
    data = dataset.data
    folds = walk_forward(data.dates, blocks, at=data.provenance.split)
    whole_set = replace(config, split="all")
    notes = log_opening(place, dataset, whole_set, candidate=f"walk-forward {blocks}")
    found: list[Mapping[str, _Gains]] = []
    for number, fold in enumerate(folds, 1):
        say(f"block {number} of {blocks}: training on {len(fold.past)} days")
        found.append(_gains(design, data, fold, config, unsafe=unsafe))
    return WalkForward(
        data=data.provenance.label,
        days=sum(len(fold.block) for fold in folds),
        folds=tuple(_days(fold) for fold in folds),
        methods=_pooled(found),
        notes=(*data.provenance.notes, *notes),
    )


def _design_of(place: Path) -> _Design:
    folder = RunFolder(place)
    if not folder.config.exists():
        raise ConfigError(
            f"{place} is no folder of a run; --walk-forward trains a run's design anew, "
            "so give the folder that `se-rl run` made"
        )
    facts = policy_facts(policy_path(place))
    neutral = {world: Neutral(**value) for world, value in facts["neutral"].items()}
    return _Design(
        facts["design"] or {}, load_yaml(RunConfig, folder.config, follow=False), neutral
    )


def _gains(
    design: _Design, data: MarketData, fold: Fold, config: BaselinesConfig, *, unsafe: bool
) -> dict[str, _Gains]:
    """Every method on one block."""
    train = data.select(dates=fold.past)
    scales = FeatureScales.fit(train)
    bars = with_history(data, fold.block)
    horizon = None if config.horizon == "session" else config.horizon
    orders = order_pairs(bars, horizon, dates=fold.block, quantity=config.quantity)
    task = BaselineTask(config, bars, orders)
    twap = task.score(registry.TWAP, schedules.twap(orders))
    ridge = XSRidge.fit(((train, scales),))
    tilted = task.score(registry.RIDGE, ridge.schedule(orders, ridge.forecast(bars, scales)))
    world = StaticWorld(bars, horizon=orders.horizon, scales=scales, costs=task.costs)
    with SandboxedTrainer(data=train, scales=scales, unsafe=unsafe) as trainer:
        trained = _train(design, trainer, fold)

        def open_policy(_: str, steps: int, rows: int) -> Actor:
            return trainer.actor(
                trained,
                world=world.name,
                horizon=steps,
                rows=rows,
                neutral=design.neutral.get("static"),
            )

        run = play(world, Episodes(orders), open_policy, agents=(trained.shape or {})["agents"])
    scores = [Score(DESIGN, task.panel, run.record), tilted]
    date = bars.dates[task.panel.day]
    gains = {}
    for score in scores:
        whole = score.pa() - twap.pa()
        gains[score.name] = _Gains(whole, score.specific_pa() - twap.specific_pa(), date)
    return gains


def _train(design: _Design, trainer: SandboxedTrainer, fold: Fold) -> TrainedDesign:
    rung = design.config.rungs.last
    trained = trainer.train(
        design.sources,
        training_worlds=training_worlds_of(design.config),
        config=train_config(design.config, rung),
        seed=0,
        neutral=design.neutral,
        seconds=deadline_seconds(rung),
    )
    if not trained.ok:
        raise ConfigError(
            f"the design cannot be trained on the days until {fold.past[-1]}: {trained.reason}; "
            "give fewer blocks or a later --train-until"
        )
    return trained


def _pooled(found: Sequence[Mapping[str, _Gains]]) -> dict[str, PooledRow]:
    """Days of all blocks together, a day being one cluster."""
    rows = {}
    for name in found[0]:
        parts = [fold[name] for fold in found]
        date = np.concatenate([part.date for part in parts])
        whole = np.concatenate([part.whole for part in parts])
        specific = np.concatenate([part.specific for part in parts])
        rows[name] = PooledRow(
            PooledGain.of(clustered_mean(whole, date)),
            PooledGain.of(clustered_mean(specific, date)),
        )
    return rows


def _days(fold: Fold) -> FoldDays:
    return FoldDays(
        (int(fold.past[0]), int(fold.past[-1])), (int(fold.block[0]), int(fold.block[-1]))
    )
