"""The table of baselines as one HTML page: a verdict for 30 seconds, the evidence for 10 minutes.

The page asks the network for nothing: styles and plotly.js are inlined, and its content policy
forbids the rest.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from se_rl.records.results import BOUND
from se_rl.report.baselines_charts import Table, daily, forest, inventory, is_twap, policies
from se_rl.report.cautions import ON_SYNTHETIC, SUSPECT, SUSPECT_BPS
from se_rl.report.numbers import p_value
from se_rl.report.page import render
from se_rl.report.page_numbers import (
    excludes_zero,
    interval,
    iso_date,
    known_bounds,
    plain,
    signed,
)

LEVEL = 0.05
ZERO_IS_OFF = ("start", "half_spread_bps", "fee_bps", "max_participation", "seed")
"""Settings that are off at zero."""


@dataclass(frozen=True)
class TableVerdict:
    """What the table says in words; `state` (shown, open or worse) picks the colour, `method` is
    the best one.
    """

    state: str
    headline: str
    meaning: str
    method: str


def baselines_page(results: Table) -> str:
    """The whole page as text, from what `run_baselines` returned (or the same read
    back from JSON).
    """
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
        same_as_twap=[name for name in policies(results) if is_twap(results, name)],
        charts={
            "forest": [forest(results)],
            "daily": daily(results),
            "inventory": inventory(results),
        },
        command=command_line(results["config"]),
        bound=BOUND,
    )


def read_verdict(results: Table) -> TableVerdict:
    """The best real policy against TWAP in words: shown, not shown, or worse, and what that rests
    on.
    """
    best = max(policies(results), key=lambda name: results["methods"][name]["over_TWAP"]["mean"])
    over = results["methods"][best]["over_TWAP"]
    state, lead, reason = _judge(results, best)
    claim = f"{best} {signed(over['mean'])} bps over TWAP, 95 % interval {interval(over['ci95'])}"
    meaning = " ".join([reason, *_cautions(results, best)])
    return TableVerdict(state, f"{lead}: {claim}", meaning, best)


def command_line(config: Mapping[str, Any]) -> str:
    """The command that makes this table again; settings that are off (zero or none)
    are left out.
    """
    words = ["se-rl baselines"]
    for name, value in config.items():
        if value is None or (not value and name in ZERO_IS_OFF):
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        words.append(f"--{name.replace('_', '-')} {shlex.quote(text)}")
    return " ".join([*words, "--html baselines.html"])


def _judge(results: Table, best: str) -> tuple[str, str, str]:
    """State, lead word and reason of the verdict on the best policy."""
    over, spa = results["methods"][best]["over_TWAP"], results["spa"]
    low, high = known_bounds(over["ci95"])
    tried = len(spa["policies"])
    if is_twap(results, best):
        reason = (
            "A schedule that ignores the side loses on buys what it gains on sells, "
            "so on paired orders it equals TWAP."
        )
        return "open", "Nothing beats TWAP", reason
    if math.isnan(low):
        reason = "One day gives no interval, so luck cannot be ruled out; use more days."
        return "open", "Not shown", reason
    if high < 0:
        reason = "The whole interval is below 0: even the best other method loses to TWAP."
        return "worse", "TWAP wins", reason
    if low <= 0:
        reason = (
            f"The interval contains 0: on {results['days']} days this cannot be told from luck; "
            f"only a gain of about {plain(over['detectable'])} bps or more would show reliably."
        )
        return "open", "Not shown", reason
    if not spa["p_value"] < LEVEL:
        reason = (
            f"The interval excludes 0, but this is the best of {tried} methods and, that choice "
            f"counted, p is {p_value(spa['p_value'])}."
        )
        return "open", "Not shown", reason
    reason = (
        f"The interval excludes 0, also once the choice among {tried} methods is counted (SPA)."
    )
    return "shown", "Shown on these days", reason


def _cautions(results: Table, best: str) -> list[str]:
    """Where the gain comes from, and what to be wary of."""
    row = results["methods"][best]
    specific, common = row["over_TWAP_specific"]["mean"], row["over_TWAP_common"]["mean"]
    said = []
    if not is_twap(results, best):
        said.append(
            f"Specific to the symbols {signed(specific)}, common market timing {signed(common)}, "
            "before costs."
        )
        if abs(common) > abs(specific):
            said.append("Timing of the whole market on few days is almost pure luck.")
    if row["over_TWAP"]["mean"] > SUSPECT_BPS:
        said.append(SUSPECT)
    if results["data"]["synthetic"]:
        said.append(ON_SYNTHETIC)
    return said


def _banners(results: Table) -> list[str]:
    """What must be seen before any figure."""
    banners = []
    if results["data"]["synthetic"]:
        banners.append("SYNTHETIC DATA: no market ever printed these prices")
    if results["ridge_fitted_on"] and results["data"]["split"] in ("all", "train"):
        banners.append("IN-SAMPLE: methods were fitted on days that this table executes on")
    failed = sum(not check["ok"] for check in results["checks"])
    if failed:
        banners.append(f"SELF-CHECKS FAILED ({failed}): do not rely on these figures")
    return banners
