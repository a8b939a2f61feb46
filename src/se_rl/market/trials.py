"""Execution policies tried in the simulated market: constant ones on a grid, and one rule that
looks at the market.

Costs are in ticks per lot against the mid at arrival. Every policy meets the same seeds, as a buy
and as a sell, so that policies are compared in pairs. What is left at the end is taken by market
orders; an order that is not filled even then, or whose book broke, is a failure with a count, never
a free fill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.impact import ORDER_BARS, Start, estimate, even_slices, less_control, news_ticks
from se_rl.market.participants import (
    ANSWERED,
    KIND,
    POST,
    SPENT,
    TAKE,
    WISH_FIELDS,
    WISH_LOTS,
    WISH_PRICE,
    WISH_SIDE,
)
from se_rl.market.price_levels import BUY, SELL

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

MULTIPLES = (0.5, 1.0, 2.0, 4.0, float(ORDER_BARS))
"""Lots offered in a bar as multiples of the TWAP slice; the last posts the whole order at once."""
OFFSETS: tuple[int | str, ...] = ("market", -1, 0, 1, 2, 4)
"""Where: a market order, or a limit order so many ticks behind the own touch (-1: one tick inside
the spread)."""
PARTICIPATIONS = (0.10, 0.25)
"""Parent orders as shares of the volume traded while they are worked."""
LATE_BARS = 15
"""Bars after the horizon in which what is left is taken."""


class View(NamedTuple):
    """What a policy may look at before a bar: the bar, the parent's lots; per market lots left,
    side (+1 buy), the touch."""

    bar: int
    left: Int
    lots: int
    sign: Int
    bid: Int
    ask: Int


class MetaorderOutcome(NamedTuple):
    """Cost per market in ticks per lot, the part of it that is luck with the news, which orders
    count, messages."""

    cost: Float
    luck: Float
    kept: npt.NDArray[np.bool_]
    messages: int


Policy = Callable[[View], tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]]
"""From a view to kind (TAKE, POST), price in ticks and lots of the bar's order."""


def execute(start: Start, policy: Policy, *, lots: int, sign: Int) -> MetaorderOutcome:
    """Work a parent order of `lots` in every market, to buy (+1) or sell (-1), over ORDER_BARS
    bars."""
    markets = start.again()
    arrival, news = markets.mid_ticks, news_ticks(markets)
    left, cash = np.full(start.n, lots, np.int64), np.zeros(start.n)
    luck, messages = np.zeros(start.n), 0
    for bar in range(ORDER_BARS + LATE_BARS):
        if not left.any():
            break
        bid, ask = markets.books.best(BUY), markets.books.best(SELL)
        view = View(bar, left, lots, sign, bid, ask)
        wishes = np.zeros((1, start.n, 1, WISH_FIELDS), np.int64)
        kind, price, amount = policy(view) if bar < ORDER_BARS - 1 else (TAKE, 0, left)
        wishes[0, :, 0, KIND] = kind
        wishes[0, :, 0, WISH_SIDE] = np.where(sign > 0, BUY, SELL)
        wishes[0, :, 0, WISH_PRICE] = price
        wishes[0, :, 0, WISH_LOTS] = np.clip(amount, 0, left)
        record, answers = markets.run(1, wishes)
        # the news meets what was left before the bar: known in advance, so this has mean 0 whatever
        # the policy
        moved = news_ticks(markets)
        luck += sign * left * (moved - news) / lots
        news = moved
        left = left - answers[0, :, 0, ANSWERED]
        cash += answers[0, :, 0, SPENT]
        messages += int(record["messages"].sum())
    return MetaorderOutcome(
        sign * (cash / lots - arrival), luck, (left == 0) & ~markets.broken, messages
    )


def constant(multiple: float, offset: int | str) -> Policy:
    """So many TWAP slices in each bar, always as a market order or always so far from the own
    touch."""

    def policy(view: View) -> tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]:
        due = np.rint(even_total(view, multiple) - (view.lots - view.left)).astype(np.int64)
        if offset == "market":
            return TAKE, 0, due
        touch = np.where(view.sign > 0, view.bid, view.ask)
        # what was due and is not filled yet stays on offer
        return POST, touch - view.sign * int(offset), due

    return policy


def even_total(view: View, multiple: float) -> float:
    """Lots that a schedule of `multiple` TWAP slices a bar has offered by the end of this bar."""
    slices = even_slices(view.lots, bars=ORDER_BARS).cumsum()
    steps = min(multiple * (view.bar + 1), float(ORDER_BARS))
    return float(np.interp(steps, np.arange(ORDER_BARS + 1), np.concatenate([[0], slices])))


TWAP = constant(1.0, "market")


def both_ways(start: Start, policy: Policy, *, lots: int) -> MetaorderOutcome:
    """Every seed once as a buy and once as a sell, and the two averaged."""
    buy, sell = (execute(start, policy, lots=lots, sign=np.full(start.n, sign)) for sign in (1, -1))
    return MetaorderOutcome(
        (buy.cost + sell.cost) / 2,
        (buy.luck + sell.luck) / 2,
        buy.kept & sell.kept,
        buy.messages + sell.messages,
    )


@dataclass(frozen=True)
class CostOverTwap:
    """A policy's cost over TWAP's, as a share of it and in ticks, with the orders that failed."""

    cost_vs_twap: float
    se: float
    ticks: float
    failed: int


@dataclass(frozen=True)
class GridCell:
    """A constant policy and what it cost: size of the parent, lots a bar, place."""

    participation: float
    multiple: float
    offset: int | str
    cost: CostOverTwap


@dataclass(frozen=True)
class RuleCell:
    """What the state rule cost at one size of the parent."""

    participation: float
    lots: int
    cost: CostOverTwap


@dataclass(frozen=True)
class StateRuleResult:
    """The state rule in words, the spread it calls narrow, and its costs by size."""

    rule: str
    narrow_ticks: float
    rows: tuple[RuleCell, ...]


def compare(tried: MetaorderOutcome, twap: MetaorderOutcome) -> CostOverTwap:
    """Cost over that of TWAP as a share of TWAP's cost, paired by seed, with its standard error and
    failures."""
    kept = tried.kept & twap.kept
    failed = int((~kept).sum())
    if kept.sum() < 2:
        return CostOverTwap(float("nan"), float("nan"), float("nan"), failed)
    extra = less_control((tried.cost - twap.cost)[kept], (tried.luck - twap.luck)[kept])
    base = estimate(twap.cost[kept] - twap.luck[kept])[0]
    ticks, se = estimate(extra)
    return CostOverTwap(ticks / base, se / base, ticks, failed)


def grid(start: Start, *, bar_volume: float) -> tuple[tuple[GridCell, ...], int]:
    """Every constant policy against TWAP, for both sizes of parent; and the messages it took."""
    cells: list[GridCell] = []
    messages = 0
    for participation in PARTICIPATIONS:
        lots = max(ORDER_BARS // 4, round(participation * bar_volume * ORDER_BARS))
        twap = both_ways(start, TWAP, lots=lots)
        for multiple in MULTIPLES:
            for offset in OFFSETS:
                tried = both_ways(start, constant(multiple, offset), lots=lots)
                messages += tried.messages
                cost = compare(tried, twap)
                cells.append(GridCell(participation, multiple, offset, cost))
    return tuple(cells), messages


QUICKEN = 0.45
"""How far the state rule's rate lies above or below that of an even schedule."""
RULE_PARTICIPATIONS = (0.05, 0.10)
RULE = (
    "market orders only, faster than even while the spread is at most its median, slower while "
    "it is wider"
)


def state_rule(narrow_ticks: float) -> Policy:
    """Market orders only: faster than even while the spread is at most `narrow_ticks`, slower while
    it is wider."""

    def policy(view: View) -> tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]:
        even = view.left / (ORDER_BARS - view.bar)
        rate = np.where(view.ask - view.bid <= narrow_ticks, 1.0 + QUICKEN, 1.0 - QUICKEN)
        return TAKE, 0, np.rint(even * rate).astype(np.int64)

    return policy


def try_state_rule(
    start: Start, *, bar_volume: float, narrow_ticks: float
) -> tuple[StateRuleResult, int]:
    """The state rule against TWAP: what looking at the market is worth; and the messages it took.

    Both use market orders only.
    """
    rows: list[RuleCell] = []
    messages = 0
    for participation in RULE_PARTICIPATIONS:
        lots = max(ORDER_BARS // 4, round(participation * bar_volume * ORDER_BARS))
        twap = both_ways(start, TWAP, lots=lots)
        ruled = both_ways(start, state_rule(narrow_ticks), lots=lots)
        rows.append(RuleCell(participation, lots, compare(ruled, twap)))
        messages += twap.messages + ruled.messages
    return StateRuleResult(RULE, narrow_ticks, tuple(rows)), messages
