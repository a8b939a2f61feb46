"""One order of the best design so far, step by step, for the page to replay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from se_rl.records.entries import key_of
from se_rl.records.plain import to_plain

if TYPE_CHECKING:
    from se_rl.core.run import Run


def store_execution(run: Run) -> None:
    """Store how the best design executes an order on history, and one in a simulated market."""
    name = run.search.best
    key = key_of("execution", name)
    if run.pretends or run.archive.find(key) is not None:
        return
    for rung in reversed(run.config.rungs):
        by_seed = run.search.ladder.trainings.at(name, rung)
        trained = next((e for e in by_seed.values() if e.ok), None)
        if trained is not None:
            break
    else:
        return
    pool = run.training_pool
    policy = pool.opened(pool.policy(run.search.ladder.climbed[name], trained))
    path = pool.with_retries(lambda: pool.validation.execution(policy))
    run.store_event("execution", key, {"candidate": name, **path})
    order = pool.with_retries(lambda: pool.validation.simulated_order(policy))
    if order is not None:
        told = to_plain(replace(order, candidate=name))
        run.store_event("simulated_order", key_of("simulated_order", name), told)
