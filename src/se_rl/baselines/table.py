"""The table of baselines on a data set: what each earns over TWAP, with intervals and self-checks.

`run_baselines(config)` returns plain data (what `--json` prints); the terminal table and the page
are drawn from it. Its rows come from `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from se_rl.baselines import registry
from se_rl.baselines.classical import Planning
from se_rl.baselines.fitting import Fitted, fit_on_train
from se_rl.baselines.results import order_columns, results_table
from se_rl.baselines.self_checks import table_checks
from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
from se_rl.baselines.task import BaselineTask, open_task
from se_rl.config import to_dict
from se_rl.data.catalog import DataSet
from se_rl.data.given import GivenData, as_data_name
from se_rl.data.market_data import DataError
from se_rl.scoring.checks import collapse_check, require
from se_rl.scoring.order_scores import Score

if TYPE_CHECKING:  # torch is loaded only where something is learned
    from se_rl.baselines.learned import LearnedBaseline

OtherPolicies = Callable[[BaselineTask, DataSet, Fitted], list["LearnedBaseline"]]
"""Brings policies of one's own into the table."""


def run_baselines(
    config: BaselinesConfig,
    *,
    data: GivenData | None = None,
    learned: LearnedConfig | None = None,
    others: OtherPolicies | None = None,
    per_order: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run every baseline on one set; raise CheckError instead of returning a table that fails.

    `data` is a set or bars in memory instead of the set that the settings name. `learned` also
    trains the learned rivals, on history and in simulated markets; `others` brings policies of
    one's own. `per_order` adds the columns of every single order (numpy arrays) under that key, and
    the policies under `policies`.
    """
    if data is not None:
        config = replace(config, data=as_data_name(data))
    dataset, task = open_task(config, say=say)
    say(f"fitting on train days ({dataset.data.provenance.label})")
    fitted = fit_on_train(dataset, fit_on=config.fit_on)
    say(f"executing {len(task.orders):,} orders")
    planning = Planning(task, fitted)
    planned = planned_scores(planning)
    policies = _learned_on_history(task, dataset, fitted, learned, say) if learned else []
    policies += others(task, dataset, fitted) if others else []
    taught = [Score(policy.name, task.panel, policy.record) for policy in policies]
    bound = task.bound()
    say("running the self-checks")
    side_blind = _side_blind(planned)
    checks = table_checks(planning, planned, taught, side_blind=side_blind, bound=bound)
    require(checks)
    if not task.is_capped:  # a learner that collapsed is its own fault: shown, but the table stands
        checks += [collapse_check(score) for score in taught]
    scores = [*planned.values(), *taught, bound]
    results = results_table(config, dataset, fitted, scores, checks)
    for policy in policies:
        results["methods"][policy.name] |= policy.seeds()
    if learned:
        from se_rl.baselines.simulated import simulated_tables

        results["learned"] = to_dict(learned)
        results["dynamic"] = simulated_tables(learned, say=say)
    if per_order:
        results |= {"per_order": order_columns(scores), "policies": policies}
    return results


def planned_scores(planning: Planning) -> dict[str, Score]:
    """Every planned rival that the data allows, executed, in the order of the registry."""
    scores = {}
    for rival in registry.PLANNED:
        weights = rival.plan(planning)
        if weights is not None:
            scores[rival.name] = planning.task.score(rival.name, weights)
    return scores


def _side_blind(planned: dict[str, Score]) -> list[Score]:
    """The scores of those that treat both sides alike."""
    names = {rival.name for rival in registry.PLANNED if rival.side_blind}
    return [score for name, score in planned.items() if name in names]


def _learned_on_history(
    task: BaselineTask,
    dataset: DataSet,
    fitted: Fitted,
    config: LearnedConfig,
    say: Callable[[str], None],
) -> list[LearnedBaseline]:
    """The learned rivals trained on the train days and executing the task's orders."""
    from se_rl.baselines.learned import learned_on_history

    if fitted.scales is None or not dataset.has("train"):
        raise DataError(
            f"{dataset.name} has no train days to learn on;"
            " leave --learned out or give more sessions"
        )
    if task.is_capped:
        raise DataError(
            "learned baselines trade without a cap; leave --max-participation or --learned out"
        )
    return learned_on_history(
        task.data,
        task.orders,
        fitted.scales,
        train=dataset.split("train"),
        config=config,
        costs=task.costs,
        say=say,
    )
