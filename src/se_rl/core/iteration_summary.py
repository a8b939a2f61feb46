"""What an outer iteration brought, in numbers and in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from se_rl.core.operators import Proposed
from se_rl.core.search import Search
from se_rl.records.enhancement import EnhancementStep
from se_rl.records.iterations import IterationSummary


def summarise(
    search: Search,
    designs: Sequence[Proposed],
    *,
    gains: Mapping[str, float],
    step: EnhancementStep,
    iteration: int,
) -> IterationSummary:
    """An outer iteration as it is stored and shown; the score is the standing of the design that
    leads after it.
    """
    best = search.ladder.longest(search.best)
    return replace(
        iteration_counts(designs, gains),
        iteration=iteration,
        of=search.config.iterations,
        best=search.best,
        score=best.score if best else 0.0,
        se=best.se if best else 0.0,
        ema=float("nan") if search.progress.ema is None else search.progress.ema,
        adapter=search.designers.adapter or "",
        learnt=step.learned,
        text=what_moved(search, designs, gains=gains, step=step),
    )


def iteration_counts(designs: Sequence[Proposed], gains: Mapping[str, float]) -> IterationSummary:
    """The counts alone: what an iteration's designs came to."""
    new = [one.candidate for one in designs if not one.candidate.twin]
    scored = [gains[candidate.id] for candidate in new if candidate.id in gains]
    behaviours = {one.candidate.behaviour or one.candidate.id for one in designs}
    modules: dict[str, int] = {}
    for one in designs:
        name = one.candidate.module or "several"
        modules[name] = modules.get(name, 0) + 1
    return IterationSummary(
        proposed=len(designs),
        valid=sum(not candidate.reason for candidate in new),
        repeated=len(designs) - len(new),
        failed=len(new) - len(scored),
        mean_gain=float(np.mean(scored)) if scored else float("nan"),
        distinct=len(behaviours) / max(1, len(designs)),
        modules=modules,
    )


def what_moved(
    search: Search,
    designs: Sequence[Proposed],
    *,
    gains: Mapping[str, float],
    step: EnhancementStep,
) -> str:
    """One sentence on an iteration: its best new design, who leads now, and what the enhancement
    changed.
    """
    if not gains:
        return "no new design could be scored"
    name, gain = sorted(gains.items(), key=lambda item: item[1])[-1]
    one = next(design.candidate for design in designs if design.candidate.id == name)
    what = f"{one.operator} of {one.module or 'several modules'} in {name[:6]}"
    leader = "the default" if search.best == search.default.id else search.best[:6]
    parts = [
        f"{what} gained {gain:+.2f} bps over its parent",
        "it leads now" if search.best == name else f"{leader} still leads",
    ]
    if step.instructions:
        parts.append(f"{len(step.instructions)} new instructions")
    if step.moved:
        parts.append(f"weights moved (KL {step.learned.get('kl', 0.0):.3f})")
    return "; ".join(parts)
