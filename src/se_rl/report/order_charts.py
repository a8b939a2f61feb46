"""The charts of orders: gains by symbol, time of day and side, inventories, and one simulated order
in its book.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from se_rl.records.order_details import InventoryBand, OrderDetails, OrderGroup, SimulatedReplay
from se_rl.report.figures import COLOURS, GREY, Figure, axis, category_axis, figure, lines, markers
from se_rl.report.page_numbers import interval, plain, signed
from se_rl.report.run_designs import as_hover

HIDDEN = {"showlegend": False, "hoverinfo": "skip"}
MOST_NAMED = 24
"""Rows of a chart that have room for a name; more are told apart by the mouse."""
FAINT = "rgba(128,128,128,.55)"


def order_charts(details: OrderDetails) -> list[Figure]:
    """One chart for each way to put the orders into groups, then the inventories."""
    drawn = []
    for by, groups in details.groups.items():
        if len(groups) > 1:
            drawn.append(_groups(by, groups, method=details.method))
    drawn += _inventories(details.inventory)
    return sorted(drawn, key=lambda chart: chart["layout"]["height"])  # neighbours of one height


def _groups(by: str, groups: Sequence[OrderGroup], *, method: str) -> Figure:
    """The percentiles of PA as a box, and the gain over TWAP with its interval, for each group."""
    ranked = sorted(groups, key=lambda group: group.over_TWAP) if by == "symbol" else groups[::-1]
    names = [as_hover(group.name) for group in ranked]
    levels = list(range(len(ranked)))
    wide: list[float | None] = []
    narrow: list[float | None] = []
    rows: list[float | None] = []
    for level, group in zip(levels, ranked, strict=True):
        wide += [group.PA[0], group.PA[-1], None]
        narrow += [group.PA[1], group.PA[-2], None]
        rows += [level - 0.2, level - 0.2, None]
    middle = [group.PA[len(group.PA) // 2] for group in ranked]
    thin = {"line": {"color": FAINT, "width": 1}, "hoverinfo": "skip"}
    thick = {"line": {"color": FAINT, "width": 5}, "hoverinfo": "skip"}
    traces = [
        lines("PA, 5 to 95 % of orders", wide, rows) | thin,
        lines("PA, 25 to 75 %", narrow, rows) | thick,
        markers(
            "PA, median",
            middle,
            [level - 0.2 for level in levels],
            marker={"color": GREY, "symbol": "line-ns-open", "size": 8},
            hoverinfo="x",
        ),
        _gains(ranked, [level + 0.2 for level in levels]),
    ]
    is_named = len(ranked) <= MOST_NAMED
    height = 110 + (36 if is_named else 5) * len(ranked)
    rows_axis = category_axis(names) | {"showticklabels": is_named}
    layout = {"height": height, "hovermode": "closest", "xaxis": axis("bps"), "yaxis": rows_axis}
    best, worst = ranked[-1], ranked[0]
    if by != "symbol":
        best = max(ranked, key=lambda group: group.over_TWAP)
        worst = min(ranked, key=lambda group: group.over_TWAP)
    summary = (
        f"{method}, over TWAP: {best.name} {signed(best.over_TWAP)} {interval(best.ci95)} most, "
        f"{worst.name} {signed(worst.over_TWAP)} {interval(worst.ci95)} bps least."
    )
    return figure(traces, layout, title=f"Orders by {by}", summary=summary)


def _gains(groups: Sequence[OrderGroup], levels: Sequence[float]) -> Figure:
    texts, upper, lower = [], [], []
    for group in groups:
        low, high = group.ci95
        told = f"{group.name}: {signed(group.over_TWAP)} {interval(group.ci95)}"
        texts.append(as_hover(f"{told} bps over TWAP, {group.orders} orders"))
        upper.append(high - group.over_TWAP if math.isfinite(high) else 0.0)
        lower.append(group.over_TWAP - low if math.isfinite(low) else 0.0)
    bars = {"type": "data", "array": upper, "arrayminus": lower, "symmetric": False, "width": 0}
    return markers(
        "gain over TWAP, 95 %",
        [group.over_TWAP for group in groups],
        levels,
        text=texts,
        hoverinfo="text",
        marker={"color": COLOURS[2], "size": 7},
        error_x=bars | {"color": COLOURS[2]},
    )


def _inventories(bands: Mapping[str, InventoryBand]) -> list[Figure]:
    """What is left of the orders, the middle half and the middle 90 % of them, beside TWAP."""
    drawn = []
    for name, band in bands.items():
        steps = [0, *band.steps]
        low, lower, middle, upper, high = ([100.0, *_percent(row)] for row in band.left)
        fill = "rgba(43,131,198,.18)"
        edge = {"line": {"width": 0, "color": COLOURS[2]}}
        filled = {"fill": "tonexty", "fillcolor": fill}
        twap = [100.0 - 100.0 * step / steps[-1] for step in steps]
        traces = [
            lines("", steps, low) | edge | HIDDEN,
            lines("90 % of orders", steps, high) | edge | filled,
            lines("", steps, lower) | edge | HIDDEN,
            lines("half of orders", steps, upper) | edge | filled,
            lines("median", steps, middle, line={"color": COLOURS[2], "width": 2.5}),
            lines("TWAP", steps, twap, line={"color": GREY, "dash": "dash", "width": 1.5}),
        ]
        layout = {"height": 320, "xaxis": axis("step"), "yaxis": axis("left, % of order")}
        half = len(steps) // 2
        summary = (
            f"{name}: after {steps[half]} of {steps[-1]} steps half of the orders have between "
            f"{plain(lower[half], 0)} and {plain(upper[half], 0)} % left."
        )
        title = f"Inventory, {name}"
        drawn.append(figure(traces, layout, title=title, summary=summary))
    return drawn


def simulated_order(replay: SimulatedReplay) -> list[Figure]:
    """A simulated order in its book: sizes as a heat map with mids and fills; impact; inventory."""
    if not replay.mid:
        return []
    steps = list(range(len(replay.mid)))
    traced = steps[1 : len(replay.fill) + 1]
    fills = [fill if math.isfinite(fill) else None for fill in replay.fill]
    biggest = max(replay.traded, default=0.0) or 1.0
    sizes = [5 + 11 * (share / biggest) ** 0.5 for share in replay.traded]
    hover = "step %{x}: %{customdata:.1f} % at %{y:+.1f} bps<extra></extra>"
    book = [
        _heat(replay),
        lines("mid", steps, replay.mid, line={"color": COLOURS[2], "width": 2}),
        lines("mid without our order", steps, replay.free, line={"color": GREY, "dash": "dot"}),
        markers("our fills (area: size)", traced, fills, marker=_diamonds(sizes))
        | {"customdata": [100 * share for share in replay.traded], "hovertemplate": hover},
    ]
    end = len(replay.fill)
    shape = {"type": "line", "x0": end, "x1": end, "y0": 0, "y1": 1, "yref": "paper"}
    last = [shape | {"line": {"color": GREY, "width": 1, "dash": "dash"}}]
    layout = {
        "height": 460,
        "hovermode": "closest",
        "shapes": last,
        "xaxis": _steps(steps),
        "yaxis": axis("bps from the mid at arrival", zeroline=False, range=_reach(book[0]["y"])),
    }
    return [
        figure(book, layout, title="The book around the order", summary=_told(replay)),
        _impact(replay, steps, last),
    ]


def _steps(steps: Sequence[int]) -> Figure:
    """An axis that stays as it is while the page plays the order."""
    words = "step; the dashed line is the order's end"
    return axis(words, zeroline=False, range=[-0.6, steps[-1] + 0.6])


def _reach(values: Sequence[float]) -> list[float]:
    low, high = min(values, default=0.0), max(values, default=0.0)
    edge = 0.06 * (high - low) or 1.0
    return [low - edge, high + edge]


def _diamonds(sizes: Sequence[float]) -> Figure:
    edge = {"color": "#ffffff", "width": 1}
    return {"color": COLOURS[0], "symbol": "diamond", "size": list(sizes), "line": edge}


def _heat(replay: SimulatedReplay) -> Figure:
    """Lots by price and step, bids below zero; what is not among the best levels is left open."""
    known = [tick for row in replay.ticks for tick in row]
    low, high = min(known, default=0), max(known, default=0)
    heights: list[list[float | None]] = []
    for _ in range(high - low + 1):
        heights.append([None] * len(replay.ticks))
    for step, (ticks, lots) in enumerate(zip(replay.ticks, replay.lots, strict=True)):
        for tick, size in zip(ticks, lots, strict=True):
            heights[tick - low][step] = round(math.copysign(math.log1p(abs(size)), size), 2)
    prices = [round(tick * replay.tick_bps, 3) for tick in range(low, high + 1)]
    scale = [[0, COLOURS[1]], [0.5, "rgba(128,128,128,0)"], [1, COLOURS[3]]]
    return {
        "type": "heatmap",
        "name": "book",
        "x": list(range(len(replay.ticks))),
        "y": prices,
        "z": heights,
        "zmid": 0,
        "colorscale": scale,
        "showscale": False,
        "opacity": 0.6,
        "hoverinfo": "skip",
    }


def _impact(replay: SimulatedReplay, steps: Sequence[int], last: Sequence[Figure]) -> Figure:
    left = [100.0, *_percent(replay.left)]
    traces = [
        lines("own impact", steps, replay.impact, line={"color": COLOURS[0], "width": 2.5}),
        lines("left, % of order", steps[: len(left)], left, yaxis="y2")
        | {"line": {"color": GREY, "dash": "dash", "width": 1.5}},
    ]
    layout = {
        "height": 300,
        "shapes": list(last),
        "xaxis": _steps(steps),
        "yaxis": axis("bps against the order", range=_reach([0.0, *replay.impact])),
        "yaxis2": axis(
            "%", overlaying="y", side="right", range=[0, 105], tickvals=[0, 50, 100], showgrid=False
        ),
    }
    end = len(replay.fill)
    peak = max(replay.impact)
    summary = (
        f"Against the same market without our order the mid is moved by {plain(peak, 1)} bps at "
        f"most, {plain(replay.impact[end], 1)} at the order's end and {plain(replay.impact[-1], 1)} "
        f"{len(replay.impact) - 1 - end} steps later. This is one pair of markets: single steps are luck."
    )
    return figure(traces, layout, title="Own impact and its decay", summary=summary)


def _told(replay: SimulatedReplay) -> str:
    passive = 100 * sum(replay.passive)
    return (
        f"A {replay.side} order of {100 * replay.size:.1f} % of the usual volume in {len(replay.fill)} "
        f"steps ({replay.market}) by {replay.candidate}: {plain(passive, 0)} % filled by its own limit "
        "orders. Green are bids, pink are offers, stronger where more lots stand."
    )


def _percent(shares: Sequence[float]) -> list[float]:
    return [round(100.0 * share, 2) for share in shares]
