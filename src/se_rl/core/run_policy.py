"""The file of a run's policy: its weights and sources, and all that is needed to use it elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from se_rl.environments.costs import Costs
from se_rl.records.plain import to_plain
from se_rl.rl.policy_file import save_locked
from se_rl.rl.policy_origin import PolicyOrigin, TrainedBars, TrainedScales
from se_rl.scoring import final_test

if TYPE_CHECKING:
    from se_rl.core.run import Run


def save_policy(run: Run, name: str) -> None:
    """The best design's policy of the first training seed, for `se-rl evaluate`: seeds are not
    chosen.
    """
    by_seed = run.search.ladder.trainings.at(name, run.config.rungs.last)
    evaluation = by_seed[final_test.seeds_of(by_seed)[0]]
    trained = run.training_pool.policy(run.search.ladder.climbed[name], evaluation)
    facts = {
        "name": name,
        "world": run.config.worlds,
        "trained_on": run.facts["name"],
        "origin": to_plain(_origin(run)),
        "seed": evaluation.seed,
        "neutral": {world: asdict(value) for world, value in run.markets.neutral().items()},
    }
    save_locked(run.folder.policy, trained, facts)


def _origin(run: Run) -> PolicyOrigin:
    """What the run's policies were trained on and for."""
    return PolicyOrigin(
        bars=TrainedBars.of(run.markets.data.train, sha256=run.facts["train_sha256"]),
        scales=TrainedScales.of(run.scales),
        costs=Costs.of(run.config),
        horizons=run.config.horizons,
        dynamic_horizons=run.config.dynamic_horizons,
        sizes=run.config.sizes,
    )
