"""Tests that any sound market passes: nothing is free, nothing is lost, no side is preferred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from se_rl.market.evidence import Evidence, Gathered
from se_rl.market.impact import (
    ORDER_BARS,
    SMALL_SHARES,
    MetaOrders,
    RoundTrips,
    Start,
    estimate,
)
from se_rl.market.trials import MULTIPLES, GridCell, RuleCell, StateRuleResult

TOLERANCE = 2.0
"""Standard errors by which a mean may miss what it should be."""


@dataclass(frozen=True)
class CardTest:
    """A test of the market: what must hold, whether it does, and the numbers behind it."""

    name: str
    ok: bool
    detail: str


def size_zero(start: Start) -> CardTest:
    """An order of size 0 has impact 0: paired exactly, unpaired within its error."""
    nothing = np.zeros((start.n, ORDER_BARS), np.int64)
    first, second = start.run(nothing), start.run(nothing)
    gap = float(abs(first.mid - second.mid).max())
    own = first.mid - first.news
    mean, se = estimate(start.sign * (own[:, -1] - own[:, 0]))
    detail = f"paired difference {gap:g} ticks; without pairing {mean:.3f} +- {se:.3f}"
    ok = gap == 0 and abs(mean) <= 1.5 * TOLERANCE * se
    return CardTest("an order of size 0 has impact 0", ok, detail)


def buy_equals_sell(orders: MetaOrders) -> CardTest:
    """Buys and sells of one size move the price equally far."""
    peak = orders.response[:, len(SMALL_SHARES) :, ORDER_BARS - 1]
    scaled = (peak / peak.mean(axis=0)).mean(axis=1)[orders.kept.all(axis=1)]
    sign = orders.sign[orders.kept.all(axis=1)]
    buy, buy_se = estimate(scaled[sign == 1])
    sell, sell_se = estimate(scaled[sign == -1])
    gap, se = buy - sell, float(np.hypot(buy_se, sell_se))
    detail = f"differ by {gap:+.1%} +- {se:.1%}"
    return CardTest("buys move the price as sells do", abs(gap) <= TOLERANCE * se, detail)


def all_count(orders: MetaOrders) -> CardTest:
    """Hardly any meta-order fails."""
    failed = (~orders.kept).sum(axis=0)
    by_size: list[str] = []
    for share, count in zip(orders.shares, failed, strict=True):
        if count:
            by_size.append(f"{share:.1%}: {count}")
    detail = f"{int(failed.sum())} of {orders.kept.size} failed"
    if by_size:
        detail += f" ({', '.join(by_size)})"
    ok = bool(failed.sum() <= 0.01 * orders.kept.size)
    return CardTest("meta-orders are filled whole in whole books", ok, detail)


def conserved(start: Start) -> CardTest:
    """What one account gains another loses."""
    totals = start.markets.books.book.owners.sum(axis=1)
    detail = f"largest sum {int(abs(totals).max())}"
    return CardTest("cash and shares are conserved", not totals.any(), detail)


def never_crossed(gathered: Gathered) -> CardTest:
    """The bid stays below the ask, and both sides stay quoted."""
    detail = f"{gathered.crossed} bars crossed, {gathered.broken} quiet markets with an empty side"
    ok = gathered.crossed == 0 and gathered.broken == 0
    return CardTest("no book is ever crossed or empty", ok, detail)


def no_free_trip(trips: RoundTrips) -> CardTest:
    """Trading in and out again at random does not pay, neither slowly in nor slowly out."""
    mean, se = estimate(trips.profit[trips.kept])
    slow_in = trips.kept & (trips.shape[:, 0] > 2 * trips.shape[:, 1])
    slow_out = trips.kept & (trips.shape[:, 1] > 2 * trips.shape[:, 0])
    in_mean, in_se = estimate(trips.profit[slow_in])
    out_mean, out_se = estimate(trips.profit[slow_out])
    best = max(in_mean - TOLERANCE * in_se, out_mean - TOLERANCE * out_se)
    detail = (
        f"{mean:+.2f} +- {se:.2f} ticks a lot over {int(trips.kept.sum())} trips "
        f"(slow in, fast out {in_mean:+.2f}, fast in, slow out {out_mean:+.2f}; "
        f"{int((~trips.kept).sum())} failed)"
    )
    return CardTest("no random round trip pays", bool(mean <= TOLERANCE * se and best <= 0), detail)


def who_earns(evidence: Evidence) -> list[CardTest]:
    """Information pays, and quoting does not cost."""
    informed, informed_se = estimate(evidence.wealth[:, 0])
    makers, makers_se = estimate(evidence.wealth[:, 1])
    unit = "ticks x lots a market"
    return [
        CardTest(
            "informed traders earn",
            informed > TOLERANCE * informed_se,
            f"{informed:+.0f} +- {informed_se:.0f} {unit}",
        ),
        CardTest(
            "makers do not bleed",
            makers > -TOLERANCE * makers_se,
            f"{makers:+.0f} +- {makers_se:.0f} {unit}",
        ),
    ]


def post_everything(cells: tuple[GridCell, ...]) -> list[CardTest]:
    """A passive order for everything at once costs more than TWAP: fills are not free."""
    tests: list[CardTest] = []
    for name, offset in (("at", 0), ("inside", -1)):
        posted = [c for c in cells if c.multiple == MULTIPLES[-1] and c.offset == offset]
        ok = all(cell.cost.cost_vs_twap > 0 for cell in posted)
        title = f"posting everything {name} the touch costs more than TWAP"
        tests.append(CardTest(title, ok, _costs(posted)))
    return tests


def state_is_worth(rule: StateRuleResult) -> CardTest:
    """A rule that looks at the market beats one that does not."""
    ok = any(row.cost.cost_vs_twap + TOLERANCE * row.cost.se < 0 for row in rule.rows)
    detail = f"state rule against TWAP, {_costs(rule.rows)}"
    return CardTest("the market has state worth using", ok, detail)


def _costs(cells: Sequence[GridCell | RuleCell]) -> str:
    """Costs by participation in words."""
    parts: list[str] = []
    for cell in cells:
        cost = cell.cost
        parts.append(f"{cell.participation:.0%}: {cost.cost_vs_twap:+.1%} +- {cost.se:.1%}")
    return ", ".join(parts)
