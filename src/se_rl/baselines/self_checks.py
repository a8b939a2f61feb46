"""The checks that a table of baselines must pass before it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from se_rl.baselines.classical import Planning
from se_rl.baselines.registry import RIDGE, TWAP
from se_rl.baselines.task import BaselineTask
from se_rl.data.market_data import MarketData
from se_rl.environments.ridge import XSRidge
from se_rl.scoring.checks import (
    BLOCKING_P,
    Check,
    bound_checks,
    collapse_check,
    identity_checks,
    no_edge_check,
)
from se_rl.scoring.order_scores import Score, log_price_advantage
from se_rl.scoring.statistics import clustered_mean

MIRROR_BPS = 0.25


def table_checks(
    planning: Planning,
    planned: Mapping[str, Score],
    learned: Sequence[Score],
    *,
    side_blind: Sequence[Score],
    bound: Score,
) -> list[Check]:
    """What arithmetic and the market demand of the table; each must hold."""
    task = planning.task
    twap = planned[TWAP]
    scores = [*planned.values(), *learned]
    rng = np.random.default_rng(task.config.seed)
    checks = identity_checks(
        [*scores, bound], twap=twap, side_blind=side_blind, capped=task.is_capped
    )
    if task.costs.fills == "price_taker":  # a limit may be filled beyond every bar's own price
        checks += bound_checks(scores, bound)
    if not task.is_capped:
        checks += [collapse_check(score) for score in planned.values()]
    noise = rng.exponential(size=(len(task.orders), task.orders.horizon))  # [order, step]
    random = task.score("random", noise / noise.sum(axis=1, keepdims=True))
    checks.append(no_edge_check("a random policy shows no edge", random, twap))
    if planning.forecast is not None:
        checks += _ridge_checks(planning, ridged=planned[RIDGE], twap=twap, rng=rng)
    return checks


def _ridge_checks(
    planning: Planning, *, ridged: Score, twap: Score, rng: np.random.Generator
) -> list[Check]:
    """What a forecast must pass: shuffled, delayed, leaking and mirrored features."""
    task = planning.task
    ridge = planning.fitted.ridge
    assert ridge is not None and planning.forecast is not None
    mixed = ridge.schedule(task.orders, rng.permuted(planning.forecast, axis=0))
    shuffled = task.score("shuffled", mixed)
    late = clustered_mean(_shifted_score(planning, 1).pa() - ridged.pa(), task.panel.day)
    helps = late.mean > 0 and late.p_value < BLOCKING_P
    leak = float((_shifted_score(planning, -1).pa() - ridged.pa()).mean())
    image = log_price_advantage(_mirror_score(planning)).mean()
    gap = float(image - log_price_advantage(ridged).mean())
    return [
        no_edge_check("shuffled features show no edge", shuffled, twap),
        Check(
            "features delayed by a bar do not help",
            not helps,
            f"{late.mean:+.3f} bps, SE {late.se:.3f}",
        ),
        Check(
            "features one bar early would help (the leak detector works)",
            leak > 0,
            f"{leak:+.3f} bps",
        ),
        Check(
            "mirrored prices and swapped sides give the same PA",
            abs(gap) <= MIRROR_BPS,
            f"{gap:+.3f} bps",
        ),
    ]


def _shifted_score(planning: Planning, shift: int) -> Score:
    """The ridge fitted and used with features moved by `shift` bars: positive is later."""
    task = planning.task
    scales = planning.fitted.scales
    assert scales is not None
    refit = XSRidge.fit(planning.fitted.train, shift=shift)
    forecast = refit.forecast(task.data, scales, shift=shift)
    return task.score("shifted", refit.schedule(task.orders, forecast))


def _mirror_score(planning: Planning) -> Score:
    """The ridge on mirrored prices with buy and sell swapped."""
    task = planning.task
    ridge = planning.fitted.ridge
    scales = planning.fitted.scales
    assert ridge is not None and scales is not None
    swapped = replace(task.orders, side=(-task.orders.side).astype(np.int8))
    image = BaselineTask(task.config, mirrored(task.data), swapped)
    return image.score("mirror", ridge.schedule(swapped, ridge.forecast(image.data, scales)))


def mirrored(data: MarketData) -> MarketData:
    """The same market with negated log prices: every rise is a fall of the same size."""
    # One level per symbol, so that overnight gaps mirror too: p -> level / p.
    level = np.square(np.nanmean(data.open[..., 0], axis=1))[:, None, None]
    amount = None
    if data.volume is not None:
        amount = np.where(data.volume > 0, data.volume * level / data.price, 0.0)
    return replace(
        data,
        open=level / data.open,
        high=level / data.low,
        low=level / data.high,
        close=level / data.close,
        amount=amount,
        bid=None if data.ask is None else level / data.ask,
        ask=None if data.bid is None else level / data.bid,
    )
