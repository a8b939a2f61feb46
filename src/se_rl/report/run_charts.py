"""The charts of a run's page beside the search: how the best design learned, its impact, the
designer's progress.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from se_rl.records.iterations import IterationSummary
from se_rl.records.method_rows import SimulatedRow
from se_rl.records.results import LearningCurve
from se_rl.records.training_rows import WorldWeights
from se_rl.report.design_rows import REWARDS
from se_rl.report.evolution_chart import SYMBOLS
from se_rl.report.figures import (
    COLOURS,
    DASHES,
    Figure,
    axis,
    category_axis,
    figure,
    lines,
    markers,
)
from se_rl.report.page_numbers import interval, plain, signed

Points = Sequence[tuple[float, float | None]]


def training(rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """How one training went: the weights of the two worlds, and each world's mean reward, over
    work.
    """
    if not rows:
        return []
    rewards: dict[str, Points] = {}
    for name in REWARDS:
        rewards[name.removeprefix("reward_")] = [(row["work"], row.get(name)) for row in rows]
    told = ", ".join(filter(None, (_from_to(name, points) for name, points in rewards.items())))
    summary = f"Mean reward of an order: {told or 'none'}."
    return [
        *world_weights(rows),
        _curves("Reward in training", rewards, summary=summary, y="as the design counts it"),
    ]


def world_weights(rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """alpha and beta, and the share of the loss that moves them; none with one world."""
    joint = WorldWeights.of_rows(rows)
    if not joint.alpha:
        return []
    series: dict[str, Points] = {
        "alpha: history": [(row["work"], row.get("alpha")) for row in rows],
        "beta: simulated": [(row["work"], row.get("beta")) for row in rows],
        "history's share of the losses": list(zip(joint.work, joint.static_share, strict=True)),
    }
    end = joint.alpha[-1]
    summary = (
        f"Both worlds count the same until the joint phase begins, at {plain(joint.work[0])} work "
        "units. From there on alpha follows history's share of the two losses, so that the world "
        f"that is foreseen worse gets more weight: it ends at alpha {plain(end)} and beta "
        f"{plain(1.0 - end)}."
    )
    weights = _curves("Weights of the two worlds", series, summary=summary, y="share")
    weights["layout"]["yaxis"]["range"] = [0, 1]
    return [weights]


def learning(curve: LearningCurve) -> list[Figure]:
    """What the best design and the default score as training goes on."""
    if not curve.work:
        return []
    series = {
        "best": list(zip(curve.work, curve.best, strict=True)),
        "default": list(zip(curve.work, curve.default, strict=True)),
    }
    ends = ", ".join(f"{name} {signed(points[-1][1])}" for name, points in series.items())
    summary = f"After the longest training: {ends} bps."
    return [
        _curves("Learning speed", series, summary=summary, y="score over TWAP, bps, validation")
    ]


def impact(dynamic: Mapping[str, Mapping[str, SimulatedRow]]) -> list[Figure]:
    """What each method saves in the simulated market, at each size of the order."""
    if not dynamic:
        return []
    names: dict[str, None] = {}
    for rows in dynamic.values():
        names |= dict.fromkeys(rows)
    methods = list(names)[::-1]
    traces = []
    for place, (size, rows) in enumerate(dynamic.items()):
        traces.append(_saved(size, rows, methods=methods, place=place))
    layout = {
        "height": 90 + 44 * len(methods),
        "xaxis": axis("bps saved against TWAP"),
        "yaxis": category_axis([html.escape(name) for name in methods]),
    }
    summary = "Fresh orders of all sizes and kinds of market by their steps, with 95 % intervals."
    title = "Cost saved in the simulated market"
    return [figure(traces, layout, title=title, summary=summary)]


def progress(iterations: Sequence[IterationSummary]) -> list[Figure]:
    """The designer by outer iteration: how much of what it writes is valid and new, and what it
    gains over the parent.
    """
    if not iterations:
        return []
    steps = [row.iteration for row in iterations]
    valid = [100 * row.valid / row.proposed if row.proposed else None for row in iterations]
    distinct = [100 * row.distinct if math.isfinite(row.distinct) else None for row in iterations]
    gains = [row.mean_gain if math.isfinite(row.mean_gain) else None for row in iterations]
    steps_axis = axis("outer iteration", dtick=max(1, len(steps) // 8))
    shares = _curves(
        "Valid and distinct designs",
        {
            "valid": list(zip(steps, valid, strict=True)),
            "distinct": list(zip(steps, distinct, strict=True)),
        },
        summary=f"Valid: {plain(valid[0], 0)} % at first, {plain(valid[-1], 0)} % at last.",
        y="% of those proposed",
        mode="lines+markers",
    )
    shares["layout"]["xaxis"] = steps_axis
    shares["layout"]["yaxis"]["range"] = [0, 105]
    bars: Figure = {
        "type": "bar",
        "name": "mean gain",
        "x": steps,
        "y": gains,
        "marker": {"color": COLOURS[2]},
        "hovertemplate": "iteration %{x}: %{y:+.2f} bps<extra></extra>",
    }
    layout = {
        "height": 300,
        "xaxis": steps_axis,
        "yaxis": axis("bps over the parent"),
        "bargap": 0.6,
    }
    ends = f"{signed(gains[0])} bps at first, {signed(gains[-1])} at last"
    summary = f"Mean gain over the parent: {ends}."
    known = [bars] if any(gain is not None for gain in gains) else []
    return [shares, figure(known, layout, title="Gain over the parent", summary=summary)]


def _from_to(name: str, points: Points) -> str:
    """How a series begins and ends; "" for one without values."""
    seen = [value for _, value in points if value is not None]
    return f"{name} from {seen[0]:.3g} to {seen[-1]:.3g}" if seen else ""


def _saved(
    size: str, rows: Mapping[str, SimulatedRow], *, methods: Sequence[str], place: int
) -> Figure:
    """What every method saves at one order size, with interval bars; an unknown bound has none."""
    saved, levels, texts, upper, lower = [], [], [], [], []
    for level, name in enumerate(methods):
        if name not in rows:
            continue
        row = rows[name]
        low, high = row.saved_ci95
        saved.append(row.saved_bps)
        levels.append(level + 0.15 - 0.3 * place)
        texts.append(f"{size}: {signed(row.saved_bps)} {interval(row.saved_ci95)}")
        upper.append(high - row.saved_bps if math.isfinite(high - row.saved_bps) else 0.0)
        lower.append(row.saved_bps - low if math.isfinite(row.saved_bps - low) else 0.0)
    colour = COLOURS[place]
    bars = {"type": "data", "array": upper, "arrayminus": lower, "symmetric": False}
    return markers(
        f"order {size}",
        saved,
        levels,
        text=texts,
        hoverinfo="text",
        marker={"color": colour, "symbol": SYMBOLS[place], "size": 9},
        error_x=bars | {"color": colour, "width": 0},
    )


def _curves(
    title: str, series: Mapping[str, Points], *, summary: str, y: str, mode: str = "lines"
) -> Figure:
    """Lines over work; a series without any value is left out."""
    traces = []
    for place, (name, points) in enumerate(series.items()):
        x, values = zip(*points, strict=True)
        if not any(value is not None for value in values):
            continue
        look = {"color": COLOURS[2 - 2 * place], "dash": DASHES[2 - 2 * place], "width": 2}
        trace = lines(name, x, values, line=look)
        traces.append(trace | {"mode": mode})
    layout = {"height": 300, "xaxis": axis("work units"), "yaxis": axis(y)}
    return figure(traces, layout, title=title, summary=summary)
