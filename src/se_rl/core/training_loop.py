"""Algorithm 1: the outer loop in which a language model designs, and gets better by what it sees.

The public names of the inner loop (`SERLTrainingLoop`, `TrainingLoopConfig`,
`FinancialMetricsCalculator`) can be imported from here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from se_rl.core.financial_metrics import FinancialMetricsCalculator
from se_rl.core.inner_loop import SERLTrainingLoop, TrainingLoopConfig

if TYPE_CHECKING:
    from se_rl.core.search import Search

__all__ = ["FinancialMetricsCalculator", "SERLTrainingLoop", "TrainingLoopConfig", "evolve"]


def evolve(
    search: Search, *, after: Callable[[int, Mapping[str, Any]], None] = lambda *_: None
) -> str:
    """Run Algorithm 1 to its end and say why it ended; `after` hears of each outer iteration."""
    search.begin()
    for iteration in count(1):
        # 1 design: A <- LLM(prompt, archive)
        designs = search.design(iteration)
        # 2 train: pi <- inner loop(A)
        search.train(designs)
        # 3 evaluate: PA against the default's on the same orders
        gains = search.evaluate(designs)
        # 4 enhance: prompts and weights of the language model
        changed = search.enhance(iteration, designs, gains)
        # 5 converged? The smoothed score stands still, or a budget is spent
        reason = search.converged(iteration)
        after(iteration, {"designs": designs, "gains": gains, "changed": changed})
        if reason:
            return reason
    raise AssertionError("unreachable")
