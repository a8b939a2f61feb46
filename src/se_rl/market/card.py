"""The realism card: twelve facts with their bands, tests of honesty, a grid of policies, and a real
market beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from se_rl.data.books import BookHistory
from se_rl.data.market_data import DataError, MarketData
from se_rl.market.against import against as compare_with
from se_rl.market.facts import (
    FACTS,
    GROUPS,
    SIGN_LAGS,
    Evidence,
    autocorrelation,
    gather,
    mean_of_kept,
    measure,
)
from se_rl.market.impact import (
    ORDER_BARS,
    SHARES,
    SMALL_SHARES,
    MetaOrders,
    RoundTrips,
    Start,
    estimate,
    round_trips,
)
from se_rl.market.profile import MarketProfile
from se_rl.market.trials import MULTIPLES, grid, try_state_rule

Row = dict[str, Any]

ROUND_TRIPS, GRID_MARKETS, RULE_MARKETS = 10_000, 300, 600
"""Numbers of random round trips and of markets per policy at effort 1."""
FEWEST = 64
TOLERANCE = 2.0
"""Standard errors by which a mean may miss what it should be."""
CURVE_LAGS = np.arange(1, 61)


def realism_card(
    profile: MarketProfile | None = None,
    *,
    seed: int = 0,
    effort: float = 1.0,
    against: MarketData | BookHistory | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The card of a profile, the default one if none is given: effort 1 is the full measurement,
    0.1 a quick look.

    Same profile, seed and effort: the same card, but for `seconds`. With `against` the simulated
    market is set beside a real one. JSON can hold all of it (after `records.files.to_json`, which
    writes NaN as null).
    """
    if not 0 < effort <= 100:
        raise DataError(f"effort is {effort}; use a positive number, 1 for the full card")
    if seed < 0:
        raise DataError(f"seed is {seed}; use 0 or more")
    profile, started = profile or MarketProfile(), time.monotonic()
    say("the facts: quiet markets, trade signs, meta-orders")
    evidence, start, counts = gather(profile, seed=seed, effort=effort)
    rest = [evidence.without(group) for group in range(GROUPS)]
    facts = [measure(fact, evidence, rest=rest) for fact in FACTS]
    say("random round trips")
    bar_volume = float(evidence.volume.mean())
    trips = _round_trips(profile, seed=seed, effort=effort, daily_volume=evidence.daily_volume)
    say("the grid of constant policies")
    policies = Start(max(FEWEST, round(GRID_MARKETS * effort)), profile, seed=seed + 1)
    rows, grid_messages = grid(policies, bar_volume=bar_volume)
    say("the rule that looks at the market")
    watched = Start(max(FEWEST, round(RULE_MARKETS * effort)), profile, seed=seed + 2)
    narrow = float(np.median(evidence.spread))
    rule, rule_messages = try_state_rule(watched, bar_volume=bar_volume, narrow_ticks=narrow)
    tests = [
        _size_zero(start),
        _buy_equals_sell(counts["orders"]),
        _all_count(counts["orders"]),
        _conserved(watched),
        _never_crossed(counts),
        _no_free_trip(trips),
        *_who_earns(evidence),
        *_post_everything(rows),
        _state_is_worth(rule),
    ]
    return {
        "facts": facts,
        "passed": sum(fact["ok"] for fact in facts),
        "tests": tests,
        "grid": rows,
        "state_rule": rule,
        "against": None if against is None else compare_with(evidence, against),
        "scales": _scales(evidence),
        "curves": _curves(evidence),
        "profile": asdict(profile),
        "seed": seed,
        "effort": effort,
        "messages": counts["messages"] + trips.messages + grid_messages + rule_messages,
        "seconds": time.monotonic() - started,
    }


def _round_trips(
    profile: MarketProfile, *, seed: int, effort: float, daily_volume: float
) -> RoundTrips:
    """In parts that fit the memory."""
    parts: list[RoundTrips] = []
    left = max(4 * FEWEST, round(ROUND_TRIPS * effort))
    while left > 0:
        start = Start(min(left, 2500), profile, seed=seed + 3 + 1000 * len(parts))
        rng = np.random.default_rng([seed, 3, len(parts)])
        parts.append(round_trips(start, daily_volume=daily_volume, rng=rng))
        left -= start.n
    profit, shape, kept = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return RoundTrips(profit, shape, kept, sum(part.messages for part in parts))


def _test(name: str, ok: Any, detail: str) -> Row:
    return {"name": name, "ok": bool(ok), "detail": detail}


def _size_zero(start: Start) -> Row:
    nothing = np.zeros((start.n, ORDER_BARS), np.int64)
    first, second = start.run(nothing), start.run(nothing)
    gap = float(abs(first.mid - second.mid).max())
    own = first.mid - first.news
    mean, se = estimate(start.sign * (own[:, -1] - own[:, 0]))
    detail = f"paired difference {gap:g} ticks; without pairing {mean:.3f} +- {se:.3f}"
    return _test(
        "an order of size 0 has impact 0", gap == 0 and abs(mean) <= 1.5 * TOLERANCE * se, detail
    )


def _buy_equals_sell(orders: MetaOrders) -> Row:
    peak = orders.response[:, len(SMALL_SHARES) :, ORDER_BARS - 1]
    scaled = (peak / peak.mean(axis=0)).mean(axis=1)[orders.kept.all(axis=1)]
    sign = orders.sign[orders.kept.all(axis=1)]
    (buy, buy_se), (sell, sell_se) = (estimate(scaled[sign == side]) for side in (1, -1))
    gap, se = buy - sell, float(np.hypot(buy_se, sell_se))
    return _test(
        "buys move the price as sells do",
        abs(gap) <= TOLERANCE * se,
        f"differ by {gap:+.1%} +- {se:.1%}",
    )


def _all_count(orders: MetaOrders) -> Row:
    failed = (~orders.kept).sum(axis=0)
    detail = ", ".join(
        f"{share:.1%}: {n}" for share, n in zip(orders.shares, failed, strict=True) if n
    )
    text = f"{int(failed.sum())} of {orders.kept.size} failed" + (f" ({detail})" if detail else "")
    return _test(
        "meta-orders are filled whole in whole books", failed.sum() <= 0.01 * orders.kept.size, text
    )


def _conserved(start: Start) -> Row:
    totals = start.markets.books.book.owners.sum(axis=1)
    return _test(
        "cash and shares are conserved", not totals.any(), f"largest sum {int(abs(totals).max())}"
    )


def _never_crossed(counts: Row) -> Row:
    detail = (
        f"{counts['crossed']} bars crossed, {counts['broken']} quiet markets with an empty side"
    )
    return _test(
        "no book is ever crossed or empty", counts["crossed"] == 0 and counts["broken"] == 0, detail
    )


def _no_free_trip(trips: RoundTrips) -> Row:
    mean, se = estimate(trips.profit[trips.kept])
    slow_in = trips.kept & (trips.shape[:, 0] > 2 * trips.shape[:, 1])
    slow_out = trips.kept & (trips.shape[:, 1] > 2 * trips.shape[:, 0])
    kinds = {"slow in, fast out": slow_in, "fast in, slow out": slow_out}
    said = ", ".join(
        f"{name} {estimate(trips.profit[which])[0]:+.2f}" for name, which in kinds.items()
    )
    best = max(
        estimate(trips.profit[which])[0] - TOLERANCE * estimate(trips.profit[which])[1]
        for which in kinds.values()
    )
    detail = (
        f"{mean:+.2f} +- {se:.2f} ticks a lot over {int(trips.kept.sum())} trips ({said}; "
        f"{int((~trips.kept).sum())} failed)"
    )
    return _test("no random round trip pays", mean <= TOLERANCE * se and best <= 0, detail)


def _who_earns(evidence: Evidence) -> list[Row]:
    (informed, informed_se), (makers, makers_se) = (estimate(evidence.wealth[:, k]) for k in (0, 1))
    unit = "ticks x lots a market"
    return [
        _test(
            "informed traders earn",
            informed > TOLERANCE * informed_se,
            f"{informed:+.0f} +- {informed_se:.0f} {unit}",
        ),
        _test(
            "makers do not bleed",
            makers > -TOLERANCE * makers_se,
            f"{makers:+.0f} +- {makers_se:.0f} {unit}",
        ),
    ]


def _post_everything(rows: list[Row]) -> list[Row]:
    tests = []
    for name, offset in (("at", 0), ("inside", -1)):
        cells = [
            row for row in rows if row["multiple"] == MULTIPLES[-1] and row["offset"] == offset
        ]
        detail = ", ".join(
            f"{c['participation']:.0%}: {c['cost_vs_twap']:+.1%} +- {c['se']:.1%}" for c in cells
        )
        ok = all(c["cost_vs_twap"] > 0 for c in cells)
        tests.append(_test(f"posting everything {name} the touch costs more than TWAP", ok, detail))
    return tests


def _state_is_worth(rule: Row) -> Row:
    cells = rule["rows"]
    detail = ", ".join(
        f"{c['participation']:.0%}: {c['cost_vs_twap']:+.1%} +- {c['se']:.1%}" for c in cells
    )
    ok = any(c["cost_vs_twap"] + TOLERANCE * c["se"] < 0 for c in cells)
    return _test("the market has state worth using", ok, f"state rule against TWAP, {detail}")


def _scales(evidence: Evidence) -> Row:
    """What a simulated day looks like, in ticks and lots."""
    return {
        "daily_sd_ticks": evidence.daily_sd_ticks,
        "daily_volume_lots": evidence.daily_volume,
        "spread_ticks": float(evidence.spread.mean()),
        "touch_lots": float(evidence.depth[..., 0].mean()),
        "trade_lots": float(evidence.trade_lots.mean()),
    }


def _curves(evidence: Evidence) -> Row:
    """What the page draws."""
    peak = evidence.response[:, :, ORDER_BARS - 1]
    count = np.isfinite(peak).sum(axis=0)
    spread = np.sqrt(mean_of_kept((peak - mean_of_kept(peak)) ** 2))
    large = len(SMALL_SHARES)
    slope, level = np.polyfit(
        np.log(SHARES), np.log(np.maximum(mean_of_kept(peak)[large:], 1e-9)), 1
    )
    signs = evidence.sign_acf
    return {
        "shares": [*SMALL_SHARES, *SHARES],
        "impact_ticks": mean_of_kept(peak).tolist(),
        "impact_se": (spread / np.sqrt(np.maximum(count, 1))).tolist(),
        "fit": {
            "exponent": float(slope),
            "level": float(np.exp(level)),
            "from": SHARES[0],
            "to": SHARES[-1],
        },
        "path_ticks": mean_of_kept(evidence.response).tolist(),
        "order_bars": ORDER_BARS,
        "pulse_ticks": mean_of_kept(evidence.pulse).tolist(),
        "abs_lags": CURVE_LAGS.tolist(),
        "abs_acf": autocorrelation(abs(np.diff(evidence.mid)), CURVE_LAGS).tolist(),
        "sign_lags": SIGN_LAGS.tolist(),
        "sign_acf": signs.mean(axis=0).tolist(),
        "sign_se": (signs.std(axis=0, ddof=1) / np.sqrt(len(signs))).tolist(),
    }
