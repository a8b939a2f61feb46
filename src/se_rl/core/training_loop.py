"""Algorithm 1: the outer loop in which a language model designs, its designs are trained and scored, and it gets better.

The seeds' names for the inner loop (`SERLTrainingLoop`, `TrainingLoopConfig`, `FinancialMetricsCalculator`) live here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from se_rl.core.inner_loop import FinancialMetricsCalculator, SERLTrainingLoop, TrainingLoopConfig

if TYPE_CHECKING:
    from se_rl.core.search import Search

__all__ = ["FinancialMetricsCalculator", "SERLTrainingLoop", "TrainingLoopConfig", "evolve"]


def evolve(
    search: Search, *, after: Callable[[int, Mapping[str, Any]], None] = lambda *_: None
) -> str:
    """Run Algorithm 1 to its end and say why it ended; `after` hears what each outer iteration brought."""
    search.begin()
    for iteration in count(1):
        designs = search.design(iteration)  # 1 design      A <- LLM(prompt, archive)
        search.train(designs)  # 2 train       pi <- inner loop(A)
        gains = search.evaluate(
            designs
        )  # 3 evaluate    PA against the default's on the same orders
        changed = search.enhance(iteration, designs, gains)  # 4 enhance     prompts and weights
        reason = search.converged(
            iteration
        )  # 5 converged?  the smoothed score stands still, or a budget is spent
        after(iteration, {"designs": designs, "gains": gains, "changed": changed})
        if reason:
            return reason
    raise AssertionError("unreachable")
