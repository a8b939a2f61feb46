"""Which edits designers prefer, and what those were measured to gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from se_rl.modules.edits import changes_between
from se_rl.modules.kinds import KINDS
from se_rl_benchmarks.real_edits import RealEdit

SHOWN = 16
"""Changes in the table, those first in which the designers differ most."""


@dataclass
class Preference:
    """One change of one choice: how often each designer made it, and the gains of edits with it."""

    module: str
    change: str
    made: Counter[str] = field(default_factory=Counter)
    gains: list[float] = field(default_factory=list)

    def told(self) -> dict[str, object]:
        """The same for a file."""
        gain = mean(self.gains) if self.gains else None
        return {
            "module": self.module,
            "change": self.change,
            "made": dict(self.made),
            "trained": len(self.gains),
            "mean_gain": gain,
        }


def preferences(
    edits: Sequence[RealEdit], gains: Mapping[tuple[str, str], float]
) -> list[dict[str, object]]:
    """The changes in which the last designer differs most from the one before it."""
    found: dict[tuple[str, str], Preference] = {}
    for edit in edits:
        before = edit.parent_sources.get(edit.module) or KINDS[edit.module].default_source
        for change in changes_between(before, edit.source, edit.module) or ():
            one = found.setdefault((edit.module, str(change)), Preference(edit.module, str(change)))
            one.made[edit.designer] += 1
            if edit.key in gains:
                one.gains.append(gains[edit.key])
    *_, before_last, last = dict.fromkeys(edit.designer for edit in edits)
    ordered = sorted(found.values(), key=lambda one: -abs(one.made[last] - one.made[before_last]))
    return [one.told() for one in ordered[:SHOWN]]
