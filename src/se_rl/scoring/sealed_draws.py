"""Gains of runs whose test days are different draws: runs are the units, and no day has a pair.

Runs with the same seal have the same days and count as one draw: their mean is one unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from se_rl.records.gains import Gain
from se_rl.scoring.statistics import Component, Estimate, combined


def over_draws(gains: Sequence[Gain], seals: Sequence[str], *, days: int) -> Estimate:
    """The mean gain over draws of the test days, with the error from their spread.

    A single draw has the error that its runs state, which is one of days.
    """
    by_seal: dict[str, list[Gain]] = {}
    for gain, seal in zip(gains, seals, strict=True):
        by_seal.setdefault(seal, []).append(gain)
    means = []
    for own in by_seal.values():
        means.append(np.mean([gain.mean for gain in own]))
    draws = len(means)
    if draws == 1:
        return Estimate(float(means[0]), float(np.mean([gain.se for gain in gains])), days)
    # se = sd over draws / sqrt(draws)
    return Estimate(float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(draws)), draws)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """What `a` is above `b`, the two being independent: Welch."""
    parts = [Component(one.se**2, max(1, one.days - 1)) for one in (a, b)]
    return combined(a.mean - b.mean, parts)
