"""`se-rl evaluate`: a saved policy on other data, beside TWAP and the foresight bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from se_rl.baselines import schedules
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.table import Fitted, fit_on_train, open_task, results_table
from se_rl.config import load_yaml, to_dict
from se_rl.core.preparation import SEAL
from se_rl.core.provenance import data_hash
from se_rl.core.saved_policy import SavedPolicy, policy_path
from se_rl.data.catalog import DataSet
from se_rl.data.features import FeatureScales
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.records.archive import Archive
from se_rl.records.entries import key_of
from se_rl.records.plain import from_plain
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig
from se_rl.rl.policy_file import policy_facts
from se_rl.rl.policy_origin import PolicyOrigin
from se_rl.scoring.checks import bound_checks, identity_checks, require
from se_rl.scoring.order_scores import Score
from se_rl.scoring.play import play
from se_rl.seal import Seal

OWN_SCALES = "features are scaled by the evaluated days themselves: the data has no train days"


def evaluate_policy(
    place: Path,
    config: BaselinesConfig,
    *,
    unsafe: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Execute the configured orders with a saved policy (a file, or a folder that holds one)."""
    with SavedPolicy(place, unsafe=unsafe) as saved:
        path = saved.path
        config = replace(config, seal=config.seal or seal_of_run(path.parent))
        dataset, task = open_task(config, say=say)
        notes = log_opening(path.parent, dataset, config, candidate=saved.name)
        if saved.origin is not None:
            notes += saved.origin.differences(task.data.grid, horizon=task.orders.horizon)
        fitted = fit_on_train(dataset, fit_on=config.fit_on)
        scales = fitted.scales or FeatureScales.fit(task.data)
        world = StaticWorld(
            task.data,
            horizon=task.orders.horizon,
            scales=scales,
            costs=task.costs,
        )
        say(f"executing {len(task.orders):,} orders with {path.name}")
        orders = Episodes(task.orders)
        record = play(world, orders, saved.actor, agents=saved.agents).record
    twap = task.score("TWAP", schedules.twap(task.orders))
    bound = task.bound()
    scores = [twap, Score(saved.name, task.panel, record)]
    checks = identity_checks([*scores, bound], twap=twap, side_blind=[twap], capped=task.is_capped)
    if task.costs.fills == "price_taker":  # a limit may be filled beyond every bar's own price
        checks += bound_checks(scores, bound)
    require(checks)
    if not fitted.scales:
        notes.append(OWN_SCALES)
    fitted = Fitted(scales, None, (), tuple(notes))
    results = results_table(config, dataset, fitted, [*scores, bound], checks)
    about = {key: saved.facts.get(key) for key in ("name", "world", "trained_on", "seed", "work")}
    return results | {"policy": about | {"file": str(path), "isolation": saved.isolation}}


def own_settings(place: Path) -> BaselinesConfig:
    """The settings that a policy is evaluated with where nobody says otherwise: those that it was
    trained with.

    A policy whose file does not say them has the defaults of the table.
    """
    path = policy_path(place)
    told = policy_facts(path).get("origin")
    if told is None:
        return BaselinesConfig()
    origin = from_plain(PolicyOrigin, told)
    costs = origin.costs
    return BaselinesConfig(
        horizon=origin.horizons[0],
        scored_days=_scored_days(path.parent),
        half_spread_bps=costs.half_spread_bps,
        fee_bps=costs.fee_bps,
        max_participation=costs.max_participation,
        fill_model=costs.fills,  # type: ignore[arg-type]  # one of the same names
    )


def _scored_days(place: Path) -> int | None:
    """The days of the valid and the test split in the run of this folder; None where it holds
    none.
    """
    folder = RunFolder(place)
    if not folder.config.exists():
        return None
    return load_yaml(RunConfig, folder.config, follow=False).scored_days


def seal_of_run(place: Path) -> str | None:
    """The seal of the run in this folder; None where it holds none."""
    folder = RunFolder(place)
    if not folder.holds_run:
        return None
    with Archive.open(folder.archive, read_only=True) as archive:
        stored = archive.find(SEAL)
    return None if stored is None else Seal(stored.get("text", "")).text


def log_opening(
    place: Path, dataset: DataSet, config: BaselinesConfig, *, candidate: str
) -> list[str]:
    """A run's policy on that run's own test days is one more opening of them, which is stored."""
    if config.split not in ("test", "all") or not RunFolder(place).holds_run:
        return []
    with RunFolder(place) as folder, Archive.open(folder.archive) as archive:
        begun = archive.find("run_started")
        own = data_hash(dataset.data)
        if begun is None or begun["data"]["sha256"] != own:
            return []
        asked = to_dict(replace(config, data=own))  # by content: a file may have several names
        openings = archive.open_test(
            key=key_of("evaluate", candidate, asked), data_hash=own, candidate=candidate
        )
    return [f"these are the run's own test days: opened {openings} times by now"]
