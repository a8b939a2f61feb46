"""What an outer iteration brought, in numbers and in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from se_rl.core.operators import Proposed
from se_rl.core.search import Search


def iteration_counts(designs: Sequence[Proposed], gains: Mapping[str, float]) -> dict[str, Any]:
    """What an iteration's designs came to."""
    new = [one.candidate for one in designs if not one.candidate.twin]
    told = [gains[candidate.id] for candidate in new if candidate.id in gains]
    modules = [one.candidate.module or "several" for one in designs]
    behaviours = {one.candidate.behaviour or one.candidate.id for one in designs}
    return {
        "proposed": len(designs),
        "valid": sum(not candidate.reason for candidate in new),
        "repeated": len(designs) - len(new),
        "failed": len(new) - len(told),
        "mean_gain": float(np.mean(told)) if told else None,
        "distinct": len(behaviours) / max(1, len(designs)),
        "modules": {name: modules.count(name) for name in dict.fromkeys(modules)},
    }


def what_moved(
    search: Search,
    designs: Sequence[Proposed],
    gains: Mapping[str, float],
    changed: Mapping[str, Any],
) -> str:
    """One sentence on an iteration: the best new design and why it stands where it does, and what the kit changed."""
    told = sorted(gains.items(), key=lambda item: item[1])
    if not told:
        return "no new design could be scored"
    name, gain = told[-1]
    one = next(d.candidate for d in designs if d.candidate.id == name)
    what = f"{one.operator} of {one.module or 'several modules'} in {name[:6]} gained {gain:+.2f} bps over its parent"
    leader = "the default" if search.best == search.default.id else search.best[:6]
    lead = "it leads now" if search.best == name else f"{leader} still leads"
    learnt = changed["learned"]
    kit = f"; weights moved (KL {learnt.get('kl', 0.0):.3f})" if learnt.get("moved") else ""
    new = f"; {len(changed['instructions'])} new instructions" if changed["instructions"] else ""
    return f"{what}; {lead}{new}{kit}"
