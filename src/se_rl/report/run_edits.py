"""What the designer tried: every design with the parts of its score, and what each edit gained over
the design that it changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from se_rl.records.gains import UNKNOWN, Bounds
from se_rl.report.figures import COLOURS, GREY, Figure, axis, category_axis, figure, markers
from se_rl.report.page_numbers import around, interval, signed
from se_rl.report.run_designs import Design, as_hover

FULL_TINT_BPS = 0.05
"""A column of parts is tinted by its largest value, but by no less than this."""


@dataclass(frozen=True)
class PartCell:
    """One part of a design's score over the default; `tint` goes from -1 (worst) to 1 (best)."""

    value: float
    ci95: Bounds
    tint: float


@dataclass(frozen=True)
class PartRow:
    """A scored design with its parts, in the order of the table's columns."""

    design: Design
    cells: Sequence[PartCell]


@dataclass(frozen=True)
class PartTable:
    """The scores of all designs by part, the best design first."""

    names: Sequence[str]
    rows: Sequence[PartRow]


@dataclass(frozen=True)
class EditRow:
    """One proposal: the design that it changed, and what that gained at the highest rung where both
    stand.
    """

    design: Design
    parent: Design | None
    gain: float
    ci95: Bounds


def part_table(designs: Sequence[Design]) -> PartTable:
    """Every scored design by the parts of its score; a part that it lacks is a dash."""
    scored = [one for one in designs if one.standing is not None and one.standing.by_part]
    names: dict[str, None] = {}
    for design in scored:
        names |= dict.fromkeys(design.standing.by_part if design.standing else ())
    scale = {name: _largest(scored, name) for name in names}
    scored.sort(key=lambda design: -(design.gain or 0.0))
    rows = []
    for design in scored:
        rows.append(PartRow(design, [_cell(design, name, scale[name]) for name in names]))
    return PartTable(list(names), rows)


def _largest(scored: Sequence[Design], name: str) -> float:
    values = [abs(_part(design, name)) for design in scored]
    return max([value for value in values if math.isfinite(value)], default=0.0)


def _part(design: Design, name: str) -> float:
    return design.standing.by_part.get(name, math.nan) if design.standing else math.nan


def _cell(design: Design, name: str, largest: float) -> PartCell:
    value = _part(design, name)
    errors: Mapping[str, float] = design.standing.part_se if design.standing else {}
    bounds = around(value, errors.get(name, math.nan))
    tint = value / max(largest, FULL_TINT_BPS) if math.isfinite(value) else 0.0
    return PartCell(value, bounds, round(tint, 2))


def edit_rows(designs: Sequence[Design]) -> list[EditRow]:
    """Every proposal in order, the latest first."""
    known = {design.candidate.id: design for design in reversed(designs)}
    rows = []
    for design in designs:
        if not design.proposed:
            continue
        parents = design.candidate.parents
        parent = known.get(parents[0]) if parents else None
        standing = design.beside_parent
        gain, bounds = math.nan, UNKNOWN
        if standing is not None and standing.gain is not None:
            gain, bounds = standing.gain, around(standing.gain, standing.gain_se)
        rows.append(EditRow(design, parent, gain, bounds))
    return rows[::-1]


def edit_gains(rows: Sequence[EditRow]) -> list[Figure]:
    """What edits gained over their parents, by the module that they changed and who made them."""
    groups: dict[str, list[EditRow]] = {}
    for row in rows:
        if math.isfinite(row.gain):
            one = row.design.candidate
            groups.setdefault(f"{one.module or 'several modules'}, {one.operator}", []).append(row)
    if not groups:
        return []
    names = sorted(groups, key=lambda name: fmean(row.gain for row in groups[name]))
    points = _points(groups, names)
    means = _means(groups, names)
    layout = {
        "height": 110 + 34 * len(names),
        "hovermode": "closest",
        "xaxis": axis("bps over the parent, same orders and seeds"),
        "yaxis": category_axis([as_hover(name) for name in names]),
    }
    best = max((row for own in groups.values() for row in own), key=lambda row: row.gain)
    count = sum(len(own) for own in groups.values())
    ahead = sum(row.gain > 0 for own in groups.values() for row in own)
    summary = (
        f"{ahead} of {count} edits are above their parents; the largest gain, before any doubt, is "
        f"{signed(best.gain)} {interval(best.ci95)} bps by {best.design.candidate.id}."
    )
    return [figure([points, means], layout, title="What edits gained", summary=summary)]


def _points(groups: Mapping[str, Sequence[EditRow]], names: Sequence[str]) -> Figure:
    x, y, texts, numbers = [], [], [], []
    for level, name in enumerate(names):
        for place, row in enumerate(groups[name]):
            x.append(row.gain)
            y.append(level + 0.12 * ((place % 5) - 2))  # apart, where gains are alike
            texts.append(as_hover(f"{row.design.label}: {signed(row.gain)} {interval(row.ci95)}"))
            numbers.append(row.design.number)
    marker = {"color": COLOURS[2], "size": 8, "opacity": 0.75}
    dots = markers("one edit", x, y, text=texts, marker=marker)
    return dots | {"customdata": numbers, "hoverinfo": "text"}


def _means(groups: Mapping[str, Sequence[EditRow]], names: Sequence[str]) -> Figure:
    """The mean of each group, with its 95 % interval where it has two edits or more."""
    x, half, texts, numbers = [], [], [], []
    for name in names:
        gains = [row.gain for row in groups[name]]
        mean = fmean(gains)
        error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
        low, high = around(mean, error)
        x.append(mean)
        half.append((high - low) / 2 if math.isfinite(high - low) else 0.0)
        texts.append(f"mean of {len(gains)}: {signed(mean)} {interval((low, high))}")
        numbers.append(groups[name][0].design.number)
    bars = {"type": "data", "array": half, "color": GREY, "width": 0}
    marker = {"color": COLOURS[0], "symbol": "diamond", "size": 11}
    levels = list(range(len(names)))
    means = markers("mean, 95 %", x, levels, text=texts, marker=marker, error_x=bars)
    return means | {"customdata": numbers, "hoverinfo": "text"}
