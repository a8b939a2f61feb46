"""Which design to start from: one place per regime, held by the design that is best there; a tie takes no place.

A design that is good only on calm days keeps its line alive beside the best over all. Places are taken with shrunken
scores and a margin of one standard error, in the order of proposal: among equals the older one stays, so noise mints no
front of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from se_rl.scoring.standing import Standing


@dataclass
class ParetoParents:
    """The holders of the regimes' places; `default` holds all of them at first, at 0."""

    default: str
    holders: dict[str, str] = field(default_factory=dict)

    def rank(self, standings: Sequence[Standing], shrunk: dict[str, float]) -> None:
        """Fill the places anew from designs in the order of proposal."""
        regimes = list(dict.fromkeys(name for one in standings for name in one.by_regime))
        self.holders = {}
        for regime in regimes:
            holder, level = self.default, 0.0
            for one in standings:
                value = _in_regime(one, regime, shrunk)
                if value is not None and value > level + (
                    one.se if holder != self.default else 0.0
                ):
                    holder, level = one.candidate, value
            self.holders[regime] = holder

    def choose(self, rng: np.random.Generator) -> str:
        """A holder, by the number of places it holds."""
        mass = Counter(self.holders.values()) or Counter({self.default: 1})
        names = sorted(mass)
        shares = np.array([mass[name] for name in names], np.float64)
        return str(rng.choice(names, p=shares / shares.sum()))


def _in_regime(one: Standing, regime: str, shrunk: dict[str, float]) -> float | None:
    """The score in a regime, shrunken by as much as the score over all."""
    if one.candidate not in shrunk or regime not in one.by_regime:
        return None
    return one.by_regime[regime] + (shrunk[one.candidate] - one.score)
