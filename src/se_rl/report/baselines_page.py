"""The table of baselines as one HTML page: a verdict for 30 seconds, the evidence for 10 minutes.

The page asks the network for nothing: styles and plotly.js are inlined, and its content policy forbids the rest.
"""

from __future__ import annotations

import math
import shlex
from datetime import date
from itertools import accumulate
from typing import Any, NamedTuple

from se_rl.report.page import render
from se_rl.report.terminal import number, p_value

TWAP, BOUND = "TWAP", "foresight bound"
LEVEL = 0.05
SAME_BPS = 0.005  # prints as 0.00
SUSPECT_BPS = 5.0  # more than this on bars is a leak or shared luck until shown otherwise
ZERO_IS_OFF = ("start", "half_spread_bps", "fee_bps", "max_participation", "seed")

# Okabe-Ito hues, shifted so that each reads on white and on near-black; dashes and shapes repeat what colour says.
COLOURS = ("#d9730d", "#0a9a72", "#2b83c6", "#c2659a", "#a8891a", "#7d6fd0")
DASHES = ("dash", "dot", "solid", "dashdot", "longdash", "longdashdot")
GREY = "#808080"
PARTS = (
    ("total", "over_TWAP", {"symbol": "diamond", "size": 11, "color": "#2b83c6"}),
    ("specific", "over_TWAP_specific", {"symbol": "circle", "size": 7, "color": "#0a9a72"}),
    ("common", "over_TWAP_common", {"symbol": "square", "size": 7, "color": "#d9730d"}),
)

Results = dict[str, Any]
Figure = dict[str, Any]


class TableVerdict(NamedTuple):
    """What the table says in words; `state` (shown, open or worse) picks the colour."""

    state: str
    headline: str
    meaning: str
    method: str


def baselines_page(results: Results) -> str:
    """The whole page as text, from what `run_baselines` returned (or the same read back from JSON)."""
    return render(
        "baselines.jinja",
        filters={
            "signed": signed,
            "plain": plain,
            "interval": interval,
            "p_value": p_value,
            "iso": iso_date,
        },
        tests={"off_zero": excludes_zero},
        r=results,
        verdict=read_verdict(results),
        banners=_banners(results),
        same_as_twap=[name for name in _policies(results) if _is_twap(results, name)],
        charts={
            "forest": [_forest(results)],
            "daily": _daily(results),
            "inventory": _inventory(results),
        },
        command=command_line(results["config"]),
        bound=BOUND,
    )


def read_verdict(results: Results) -> TableVerdict:
    """The best real policy against TWAP in words: shown, not shown, or worse, and what that rests on."""
    best = max(_policies(results), key=lambda name: results["methods"][name]["over_TWAP"]["mean"])
    over = results["methods"][best]["over_TWAP"]
    state, lead, reason = _judge(results, best)
    claim = f"{best} {signed(over['mean'])} bps over TWAP, 95 % interval {interval(over['ci95'])}"
    return TableVerdict(
        state, f"{lead}: {claim}", " ".join([reason, *_cautions(results, best)]), best
    )


def command_line(config: dict[str, Any]) -> str:
    """The command that makes this table again; settings that are off (zero or none) are left out."""
    given = {
        name: v for name, v in config.items() if v is not None and (v or name not in ZERO_IS_OFF)
    }
    texts = {name: f"{v:g}" if isinstance(v, float) else str(v) for name, v in given.items()}
    options = (f"--{name.replace('_', '-')} {shlex.quote(text)}" for name, text in texts.items())
    return " ".join(["se-rl baselines", *options, "--html baselines.html"])


def plain(value: float | None, decimals: int = 2, *, scale: float = 1.0) -> str:
    """A figure with a true minus; a dash where it is undefined."""
    return number(None if value is None else scale * value, decimals).replace("-", "−")


def signed(value: float | None, decimals: int = 2) -> str:
    """A difference: its sign always shown, except on zero."""
    text = plain(value, decimals)
    return f"+{text}" if value is not None and value > 0 and float(text) != 0 else text


def interval(bounds: list[float | None]) -> str:
    """[low, high] with signs; a dash where the days are too few for one."""
    low, high = (signed(bound) for bound in bounds)
    return "–" if "–" in (low, high) else f"[{low}, {high}]"


def iso_date(day: int) -> str:
    """20250228 as 2025-02-28."""
    return date(day // 10_000, day // 100 % 100, day % 100).isoformat()


def excludes_zero(bounds: list[float | None]) -> bool:
    """Whether an interval lies on one side of 0, by more than rounding."""
    low, high = _bounds(bounds)
    return low > SAME_BPS or high < -SAME_BPS


def _bounds(bounds: list[float | None]) -> list[float]:
    """JSON has no NaN: there an unknown bound is null."""
    return [math.nan if bound is None else bound for bound in bounds]


def _policies(results: Results) -> list[str]:
    """What could really be traded, apart from TWAP itself."""
    return [name for name in results["methods"] if name not in (TWAP, BOUND)]


def _over_twap(results: Results, name: str) -> list[float]:
    days = results["by_day"]
    return [value - twap for value, twap in zip(days[name], days[TWAP], strict=True)]


def _is_twap(results: Results, name: str) -> bool:
    """Whether a method's paired difference to TWAP prints as zero on every day."""
    return all(abs(value) < SAME_BPS for value in _over_twap(results, name))


def _judge(results: Results, best: str) -> tuple[str, str, str]:
    """State, lead word and reason of the verdict on the best policy."""
    over, spa, days = results["methods"][best]["over_TWAP"], results["spa"], results["days"]
    low, high = _bounds(over["ci95"])
    if _is_twap(results, best):
        return (
            "open",
            "Nothing beats TWAP",
            (
                "A schedule that ignores the side loses on buys what it gains on sells, so on paired orders it equals TWAP."
            ),
        )
    if math.isnan(low):
        return (
            "open",
            "Not shown",
            "One day gives no interval, so luck cannot be ruled out; use more days.",
        )
    if high < 0:
        return (
            "worse",
            "TWAP wins",
            "The whole interval is below 0: even the best other method loses to TWAP.",
        )
    if low <= 0:
        reach = f"only a gain of about {plain(over['detectable'])} bps or more would show reliably"
        return (
            "open",
            "Not shown",
            f"The interval contains 0: on {days} days this cannot be told from luck; {reach}.",
        )
    if not spa["p_value"] < LEVEL:
        choice = (
            f"this is the best of {len(spa['policies'])} methods and, that choice counted, p is"
        )
        return (
            "open",
            "Not shown",
            f"The interval excludes 0, but {choice} {p_value(spa['p_value'])}.",
        )
    return (
        "shown",
        "Shown on these days",
        (
            f"The interval excludes 0, also once the choice among {len(spa['policies'])} methods is counted (SPA)."
        ),
    )


def _cautions(results: Results, best: str) -> list[str]:
    """Where the gain comes from, and what to be wary of."""
    row = results["methods"][best]
    specific, common = row["over_TWAP_specific"]["mean"], row["over_TWAP_common"]["mean"]
    said = []
    if not _is_twap(results, best):
        said.append(
            f"Specific to the symbols {signed(specific)}, common market timing {signed(common)}, before costs."
        )
        if abs(common) > abs(specific):
            said.append("Timing of the whole market on few days is almost pure luck.")
    if row["over_TWAP"]["mean"] > SUSPECT_BPS:
        said.append(
            f"More than {SUSPECT_BPS:g} bps means a leak or shared market luck until shown otherwise."
        )
    if results["data"]["synthetic"]:
        said.append(
            "On synthetic prices this says only whether the structure put into them was found."
        )
    return said


def _banners(results: Results) -> list[str]:
    """What must be seen before any figure."""
    banners = (
        ["SYNTHETIC DATA: no market ever printed these prices"]
        if results["data"]["synthetic"]
        else []
    )
    if results["ridge_fitted_on"] and results["data"]["split"] in ("all", "train"):
        banners.append("IN-SAMPLE: methods were fitted on days that this table executes on")
    failed = sum(not check["ok"] for check in results["checks"])
    return banners + (
        [f"SELF-CHECKS FAILED ({failed}): do not rely on these figures"] if failed else []
    )


def _forest(results: Results) -> Figure:
    """Paired differences to TWAP with their intervals, best on top; the bound would dwarf them and is left out."""
    names = sorted(
        _policies(results), key=lambda name: results["methods"][name]["over_TWAP"]["mean"]
    )
    traces = []
    for offset, (label, key, marker) in zip((0.24, 0.0, -0.24), PARTS, strict=True):
        estimates = [results["methods"][name][key] for name in names]
        trace: Figure = {
            "type": "scatter",
            "mode": "markers",
            "name": label,
            "marker": marker,
            "hoverinfo": "text",
        }
        trace["x"], trace["y"] = (
            [e["mean"] for e in estimates],
            [place + offset for place in range(len(names))],
        )
        trace["text"] = [f"{label} {signed(e['mean'])} {interval(e['ci95'])}" for e in estimates]
        half = [_half_width(e["ci95"]) for e in estimates]
        trace["error_x"] = {
            "type": "data",
            "array": half,
            "color": marker["color"],
            "thickness": 2,
            "width": 0,
        }
        traces.append(trace)
    ticks = {
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [-0.6, len(names) - 0.4],
    }
    layout = {
        "height": 100 + 66 * len(names),
        "xaxis": {"title": {"text": "bps over TWAP"}},
        "yaxis": ticks | {"showgrid": False, "zeroline": False},
    }
    return {"title": "", "data": traces, "layout": layout}


def _half_width(bounds: list[float | None]) -> float:
    low, high = _bounds(bounds)
    return 0.0 if math.isnan(high - low) else (high - low) / 2


def _daily(results: Results) -> list[Figure]:
    """One chart per method that differs from TWAP, all on one scale: the difference by day and its running mean."""
    days = [iso_date(day) for day in results["by_day"]["dates"]]
    series = {
        name: _over_twap(results, name)
        for name in _policies(results)
        if not _is_twap(results, name)
    }
    reach = 1.1 * max((abs(value) for values in series.values() for value in values), default=1.0)
    charts = []
    for name, values in series.items():
        colour = _line(results, name)["color"]
        shared = {"x": days, "hovertemplate": "%{x}: %{y:+.2f} bps"}
        bars: Figure = {
            "type": "bar",
            "name": "day",
            "y": values,
            "marker": {"color": colour, "opacity": 0.45},
        }
        running = [total / count for count, total in enumerate(accumulate(values), start=1)]
        line: Figure = {
            "type": "scatter",
            "name": "running mean",
            "y": running,
            "mode": "lines+markers",
        }
        line |= {"line": {"color": colour, "width": 2.5}, "marker": {"size": 4, "color": colour}}
        layout = {
            "height": 250,
            "xaxis": {
                "type": "category",
                "nticks": 4,
                "showgrid": False,
                "tickangle": 0,
                "range": [-0.6, len(days) - 0.4],
            },
            "yaxis": {"title": {"text": "bps over TWAP"}, "range": [-reach, reach]},
        }
        charts.append({"title": name, "data": [bars | shared, line | shared], "layout": layout})
    return charts


def _inventory(results: Results) -> list[Figure]:
    """Mean share of the order still held after each bar, less TWAP's; one chart per side."""
    layout = {
        "height": 320,
        "xaxis": {"title": {"text": "bars since the order began"}},
        "yaxis": {"title": {"text": "held less TWAP, % of order"}},
    }
    charts = []
    for side in ("buy", "sell"):
        held = {
            name: [1.0, *path[side]] for name, path in results["paths"].items() if name != BOUND
        }
        traces = []
        for name, path in held.items():
            later = [100 * (left - twap) for left, twap in zip(path, held[TWAP], strict=True)]
            hover = "bar %{x}: %{customdata:.1%} left, %{y:+.1f} points to TWAP"
            trace = {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": list(range(len(path))),
                "y": later,
            }
            traces.append(
                trace | {"customdata": path, "hovertemplate": hover, "line": _line(results, name)}
            )
        charts.append({"title": f"{side} orders", "data": traces, "layout": layout})
    return charts


def _line(results: Results, name: str) -> dict[str, Any]:
    """Line of a method, the same in every chart."""
    if name == TWAP:
        return {"color": GREY, "dash": "solid", "width": 1.5}
    place = _policies(results).index(name) % len(COLOURS)
    return {"color": COLOURS[place], "dash": DASHES[place], "width": 2}
