"""Which design to start from: the leader every other time, else one that is best in some regime.

A design that is good only on calm days keeps its line alive beside the best over all. Each regime
has one place. Places are taken with shrunken scores and a margin of one standard error, in the
order of proposal: among equals the older one stays, so that noise alone fills no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from se_rl.scoring.standing import Standing, leading

LEADER_SHARE = 0.5
"""How often the best over all is the parent, whatever places it holds."""


@dataclass
class ParetoParents:
    """The holders of the regimes' places; `default` holds all of them at first, at 0."""

    default: str
    holders: dict[str, str] = field(default_factory=dict)
    leader: str = ""

    def rank(self, standings: Sequence[Standing], shrunk: Mapping[str, float]) -> None:
        """Fill the places anew from designs in the order of proposal."""
        self.leader = leading(shrunk, self.default)
        regimes: dict[str, None] = {}
        for one in standings:
            regimes |= dict.fromkeys(one.by_regime)
        self.holders = {regime: self._holder(standings, shrunk, regime) for regime in regimes}

    def choose(self, rng: np.random.Generator) -> str:
        """The leader, or a holder by the number of places it holds."""
        if self.leader and rng.random() < LEADER_SHARE:
            return self.leader
        places = Counter(self.holders.values()) or Counter({self.default: 1})
        names = sorted(places)
        shares = np.array([places[name] for name in names], np.float64)
        return str(rng.choice(names, p=shares / shares.sum()))

    def _holder(
        self, standings: Sequence[Standing], shrunk: Mapping[str, float], regime: str
    ) -> str:
        """The design that is best in a regime, by a margin where another design holds it."""
        holder = self.default
        level = 0.0
        for one in standings:
            value = _in_regime(one, regime, shrunk)
            margin = 0.0 if holder == self.default else one.se
            if value is not None and value > level + margin:
                holder = one.candidate
                level = value
        return holder


def _in_regime(one: Standing, regime: str, shrunk: Mapping[str, float]) -> float | None:
    """The score in a regime, shrunken by as much as the score over all."""
    if one.candidate not in shrunk or regime not in one.by_regime:
        return None
    return one.by_regime[regime] + (shrunk[one.candidate] - one.score)
