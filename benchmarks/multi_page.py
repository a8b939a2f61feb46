"""The tables of several agents in one book: searches by what they designed, modules, credits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from se_rl.records.module_use import ModuleCredit, ModuleUse
from se_rl_benchmarks.markdown_tables import interval, signed, table

VARIANTS: Mapping[str, tuple[str, ...]] = {
    "all five modules": (),
    "without designed communication": ("communication",),
    "without designed markets": ("profiling",),
    "without both": ("communication", "profiling"),
}
"""Which modules a search leaves at their defaults."""
SILENT_DEFAULT = "the default in silence"


@dataclass(frozen=True)
class MultiRow:
    """What one search found, and its champion's score over the default when sealed."""

    variant: str
    seed: int
    designs: int
    trainings: int
    champion: str
    over_default: float
    ci95: tuple[float, float]
    modules: Mapping[str, ModuleUse]
    credits: tuple[ModuleCredit, ...]
    seconds: float


def by_variant(rows: Sequence[MultiRow]) -> dict[str, Any]:
    """Variants with their mean over searches and its interval (Student's t)."""
    from scipy.stats import t

    found = {}
    for variant in VARIANTS:
        mine = [row for row in rows if row.variant == variant]
        if not mine:
            continue
        gains = np.array([row.over_default for row in mine])
        n = len(gains)
        half = float(t.ppf(0.975, n - 1) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
        found[variant] = {
            "seeds": n,
            "trainings": int(np.mean([row.trainings for row in mine])),
            "accepted": sum(bool(row.champion) for row in mine),
            "over_default": float(gains.mean()),
            "ci95": [float(gains.mean()) - half, float(gains.mean()) + half],
            "by_seed": gains.tolist(),
        }
    return found


def by_module(rows: Sequence[MultiRow]) -> dict[str, Any]:
    """Each module over the searches that designed it."""
    found = {}
    for module in dict.fromkeys(name for row in rows for name in row.modules):
        own = [row.modules[module] for row in rows if module in row.modules]
        best = [use.best_gain for use in own if np.isfinite(use.best_gain)]
        found[module] = {
            "searches": len(own),
            "proposed": sum(use.proposed for use in own),
            "scored": sum(use.scored for use in own),
            "raced": sum(use.raced for use in own),
            "best_gain": float(np.mean(best)) if best else float("nan"),
        }
    return found


def page(found: Mapping[str, Any]) -> str:
    """The tables in Markdown."""
    variants = []
    for name, row in found["variants"].items():
        by_seed = " ".join(f"{gain:+.2f}" for gain in row["by_seed"])
        counts = (str(row["seeds"]), str(row["accepted"]), str(row["trainings"]))
        variants.append((name, *counts, _with_interval(row["over_default"], row["ci95"]), by_seed))
    modules = []
    for name, row in found["modules"].items():
        numbers = [str(row[key]) for key in ("searches", "proposed", "scored", "raced")]
        modules.append((name, *numbers, signed(row["best_gain"])))
    credits = []
    for one in found["credits"]:
        place = (one["variant"], str(one["seed"]), one["module"], one["against"], str(one["rung"]))
        credits.append((*place, _with_interval(one["credit"], one["ci95"]), str(one["seeds"])))
    parts = [
        "# Several agents in one book",
        f"Made by `python benchmarks/multi_tables.py --preset {found['preset']}`; do not edit. "
        f"{found['agents']} agents, {found['data']}; scores in bps over the default on the test days "
        "and fresh simulated books, mean and 95 % over searches; a search that keeps the default "
        "counts as 0. Edits are drawn at random (arm `local`), and no bank plans them. Designs that "
        "were proposed and not scored failed in training.",
        table(("designed", "searches", "accepted", "trainings", "score", "by seed"), variants),
        table(("module", "searches", "proposed", "scored", "raced", "mean best gain"), modules),
        "What protocols and markets are worth on validation: the design less the same one in "
        "silence, or trained in the usual markets, on the same orders and seeds.",
        table(("designed", "seed", "module", "against", "rung", "credit", "seeds"), credits),
    ]
    if found["silence"]:
        silence = _with_interval(found["silence"]["over_default"], found["silence"]["ci95"])
        parts.append(f"{SILENT_DEFAULT.capitalize()} scores {silence} over the default.")
    return "\n\n".join(parts) + "\n"


def _with_interval(mean: float, ci95: Sequence[float]) -> str:
    return f"{signed(mean)} {interval(ci95)}"
