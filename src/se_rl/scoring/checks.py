"""Self-checks of a results table: arithmetic that must hold, and tests that it must pass.

A failed check blocks the table. Statistical checks block at p < 0.001: at two standard errors one
sound table in twenty would be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from se_rl.environments.metrics import price_advantage
from se_rl.scoring.order_scores import Score
from se_rl.scoring.statistics import clustered_mean

BLOCKING_P = 0.001
EXACT_BPS = 1e-9
BOUND_BPS = 1e-6
MAX_FORCED_SHARE = 0.01


class CheckError(RuntimeError):
    """A results table broke a self-check and is not shown."""


@dataclass(frozen=True)
class Check:
    """One self-check: its name, whether it held, and the figure it looked at."""

    name: str
    ok: bool
    detail: str


def require(checks: Iterable[Check]) -> None:
    """Raise for the first check that failed."""
    for check in checks:
        if not check.ok:
            what = f"{check.name}: {check.detail}"
            raise CheckError(f"self-check failed, so no table is shown: {what}")


def identity_checks(
    scores: Sequence[Score], *, twap: Score, side_blind: Sequence[Score], capped: bool
) -> list[Check]:
    """What arithmetic demands of any table.

    TWAP is the mean price, schedules are the same for both sides, PA = p+ G - p- L, and trading
    the window's own volume profile is VWAP. A cap refuses parts of a schedule, so that with one
    TWAP is no longer the plain mean price.
    """
    checks = []
    if not capped:
        error = np.abs(twap.pa("twap", gross=True)).max()
        checks.append(_zero("TWAP against the TWAP benchmark without costs", error))
    for score in side_blind:
        pa = score.pa(gross=True)
        half = len(score.panel.orders) // 2
        error = np.abs(pa[:half] + pa[half:]).max()
        checks.append(_zero(f"{score.name}: buy and sell mirror each other", error))
    for score in scores:
        checks.append(_zero(f"{score.name}: PA = p+ G - p- L", _decomposition_error(score)))
    if twap.panel.benchmarks.vwap is not None and twap.panel.data.volume is not None:
        error = _oracle_vwap_error(twap)
        checks.append(_zero("trading the window's own volume profile is VWAP", error))
    return checks


def bound_checks(scores: Sequence[Score], bound: Score) -> list[Check]:
    """No policy beats perfect foresight on any order, before costs."""
    best = bound.pa("twap", gross=True)
    gaps = {score.name: float((score.pa("twap", gross=True) - best).max()) for score in scores}
    checks = []
    for name, gap in gaps.items():
        what = f"{name}: not above the foresight bound"
        checks.append(Check(what, gap <= BOUND_BPS, f"{gap:+.3g} bps"))
    return checks


def no_edge_check(name: str, score: Score, reference: Score) -> Check:
    """A policy without information must show no edge over the reference."""
    estimate = clustered_mean(score.pa() - reference.pa(), score.panel.day)
    return Check(
        name,
        not estimate.p_value < BLOCKING_P,
        f"{estimate.mean:+.3f} bps, SE {estimate.se:.3f}, p {estimate.p_value:.3f}",
    )


def collapse_check(score: Score) -> Check:
    """A policy that leaves its order to the forced completion has collapsed; not for a cap."""
    forced = float(score.record.leftover.mean())
    ok = forced <= MAX_FORCED_SHARE
    return Check(f"{score.name}: not left to forced completion", ok, f"forced share {forced:.4f}")


def _zero(name: str, error: float) -> Check:
    return Check(name, bool(error <= EXACT_BPS), f"off by {error:.2g} bps")


def _decomposition_error(score: Score) -> float:
    pa = score.pa()
    gains = pa[pa > 0]
    losses = -pa[pa < 0]
    # mean PA = p+ G - p- L: the share of winners times their mean gain less that of losers
    parts = (gains.sum() if len(gains) else 0.0) - (losses.sum() if len(losses) else 0.0)
    return abs(parts / len(pa) - pa.mean())


def _oracle_vwap_error(twap: Score) -> float:
    """PA of slices in proportion to the window's own volume: 0 up to rounding."""
    panel = twap.panel
    volume = panel.orders.gather(panel.data.require_volume("the VWAP check"))
    total = volume.sum(axis=1)
    live = total > 0
    if not live.any():
        return 0.0
    price = np.einsum("ot,ot->o", volume[live] / total[live][:, None], panel.price[live])
    vwap = panel.benchmarks.named("vwap")
    pa = price_advantage(price, vwap[live], panel.orders.side[live])
    return float(np.abs(pa).max())
