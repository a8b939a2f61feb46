"""Between the last rung and the choice of a champion: finalists that cheat are out, with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from se_rl.records.entries import Candidate, Evaluation, key_of
from se_rl.records.fraud import FraudCheck
from se_rl.records.plain import from_plain, to_plain
from se_rl.sandbox.lockdown import SandboxError

if TYPE_CHECKING:
    from se_rl.core.run import Run


def check_finalists(run: Run, finalists: Sequence[str]) -> dict[str, FraudCheck]:
    """What the check found on each finalist; one that the archive knows is not made again."""
    ladder = run.search.ladder
    last = run.config.rungs.last
    found: dict[str, FraudCheck] = {}
    for name in finalists:
        key = key_of("fraud_check", name)
        stored = run.archive.find(key)
        if stored is None:
            run.say(f"checking design {name} for fraud")
            by_seed = ladder.trainings.at(name, last)
            check = check_design(run, ladder.climbed[name], by_seed.values())
            stored = {"candidate": name, **to_plain(check)}
        run.store_event("fraud_check", key, stored)
        measured = {field: value for field, value in stored.items() if field != "candidate"}
        found[name] = from_plain(FraudCheck, measured)
    return found


def check_design(run: Run, candidate: Candidate, evaluations: Iterable[Evaluation]) -> FraudCheck:
    """Play all trained policies of a design again; one that breaks down in use has failed, too."""
    pool = run.training_pool
    done = [evaluation for evaluation in evaluations if evaluation.ok]
    if not done:
        return FraudCheck("it has no policy to check")
    try:
        policies = [pool.opened(pool.policy(candidate, evaluation)) for evaluation in done]
        return pool.with_retries(lambda: run.fraud_trials.check(policies))
    except SandboxError as error:
        return FraudCheck(f"its policy failed in the fraud check: {error}")
