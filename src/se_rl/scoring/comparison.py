"""Runs side by side: arms over their seeds, with intervals, and the test that corrects for having looked at several."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.config import ConfigError
from se_rl.records.run_folder import RunFolder
from se_rl.scoring.final_test import OURS, STRONG, over
from se_rl.scoring.statistics import clustered_mean, spa_p_value

BUDGET = (
    "iterations",
    "parents",
    "siblings",
    "promoted",
    "finalists",
    "work",
    "seeds",
    "max_designs",
)
"""Settings that must be equal for a fair comparison of arms."""
NEEDED = {
    "config",
    "data",
    "by_day",
    "final_metrics",
    "finalists",
    "learning",
    "designs",
    "dynamic",
    "seeds",
    "llm",
}
"""What results of a run have and those of other verbs do not."""


def arm_of(config: Mapping[str, Any]) -> str:
    """What a run's settings leave of the whole: the name of its arm."""
    off = [name for name in ("hle", "lle") if not config[name]]
    parts = ["no-dek"] if len(off) == 2 else [f"no-{name}" for name in off]
    if config["arm"] != "full":  # the controls have no enhancement to leave out
        parts = [str(config["arm"])]
    parts += [] if config["imagine"] else ["no-imagine"]
    parts += [] if config["worlds"] == "both" else [f"{config['worlds']}-only"]
    return " ".join(parts) or "full"


def compare(places: Sequence[Path]) -> dict[str, Any]:
    """Finished runs on the same data: each one, the arms over their seeds, paired differences by test day, and SPA."""
    twice = [
        place
        for i, place in enumerate(places)
        if place.resolve() in {p.resolve() for p in places[:i]}
    ]
    if twice:
        raise ConfigError(f"{twice[0]} is given twice; a run counts once")
    runs = [_read(place) for place in places]
    first = runs[0]
    for run, place in zip(runs, places, strict=True):
        if run["data"]["sha256"] != first["data"]["sha256"]:
            raise ConfigError(
                f"{place} used other data than {places[0]}; compare runs on the same data"
            )
    names = [arm_of(run["config"]) for run in runs]
    rows = [_row(run, name, place) for run, name, place in zip(runs, names, places, strict=True)]
    days = {
        arm: np.mean(
            [r["by_day"][OURS] for r, n in zip(runs, names, strict=True) if n == arm], axis=0
        )
        for arm in dict.fromkeys(names)
    }
    twap = np.array(first["by_day"]["TWAP"])
    tests = [_test(a, b, days[a] - days[b]) for a, b in combinations(days, 2)]
    groups = [_group(arm, [row for row in rows if row["arm"] == arm]) for arm in days]
    spa = spa_p_value(twap, np.stack(list(days.values()), axis=1))
    return {
        "runs": rows,
        "groups": groups,
        "tests": tests,
        "spa_p": spa,
        "sentence": _sentence(groups, tests),
        "equal_budget": len({tuple(str(r["config"][key]) for key in BUDGET) for r in runs}) == 1,
    }


def _read(place: Path) -> dict[str, Any]:
    path = RunFolder(place).results
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except OSError:
        raise ConfigError(
            f"{place} has no {path.name}: it is no finished run; finish it with the same `se-rl run` command"
        ) from None
    except ValueError:
        raise ConfigError(
            f"{path} is damaged; run the same `se-rl run` command again, which writes it anew"
        ) from None
    if not isinstance(found, dict) or not set(found) >= NEEDED:
        raise ConfigError(
            f"{path} holds no results of a run; give the folder of one, as made by `se-rl run --out`"
        )
    return found


def _row(run: Mapping[str, Any], arm: str, place: Path) -> dict[str, Any]:
    final, best = (
        run["final_metrics"],
        next((f for f in run["finalists"] if f["candidate"] == run["best"]), None),
    )
    simulated = {
        size: table[OURS]["saved_bps"] - table["PPO strong"]["saved_bps"]
        for size, table in run["dynamic"].items()
    }
    by_day = {name: run["by_day"][name] for name in (OURS, STRONG)}
    return {
        "by_day": by_day,
        "name": str(place),
        "arm": arm,
        "seed": run["seeds"]["search"],
        "data": run["data"]["name"],
        "designs": run["designs"],
        "score_valid": best["score"] if best else 0.0,
        "final": final,
        "over_TWAP": final["over_TWAP"],
        "over_default": final["over_default"],
        "simulated_over_default": simulated,
        "learning": run["learning"],
        "tokens": run["llm"]["tokens_in"] + run["llm"]["tokens_out"],
        "minutes": run["times"]["minutes"],
        "spa_p": run["spa_p"],
    }


def _group(arm: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An arm over its seeds, with the errors of days and of runs together: three searches with one find have one chance."""
    values = np.array([row["over_default"]["mean"] for row in rows])
    mean, n = float(values.mean()), len(values)
    ours, strong = ([np.array(row["by_day"][name]) for row in rows] for name in (OURS, STRONG))
    found = over(ours, strong, np.arange(len(ours[0]))) if n > 1 else rows[0]["over_default"]
    valid = [row["score_valid"] for row in rows]
    simulated = [row["simulated_over_default"].get("x1", float("nan")) for row in rows]
    return {
        "arm": arm,
        "runs": n,
        "mean": mean,
        "ci95": list(found["ci95"]),
        "by_seed": values.tolist(),
        "score_valid": float(np.mean(valid)),
        "simulated": float(np.mean(simulated)),
        "tokens": float(np.mean([row["tokens"] for row in rows])),
    }


def _test(a: str, b: str, difference: Any) -> dict[str, Any]:
    rounded = np.round(
        difference, 9
    )  # the mean of three equal runs is not that of two to the last bit
    found = clustered_mean(rounded, np.arange(len(rounded)))
    return {"a": a, "b": b, "difference": found.mean, "ci95": list(found.ci95), "p": found.p_value}


def _sentence(groups: Sequence[Mapping[str, Any]], tests: Sequence[Mapping[str, Any]]) -> str:
    """Who is ahead, and whether that is shown: a control that wins is named first."""
    best = max(groups, key=lambda g: g["mean"])
    if len(groups) > 1 and best["mean"] <= 0.0:
        return "no arm found a design that is ahead of the default PPO on test days"
    if len(groups) == 1:
        return f"{best['arm']}: {best['mean']:+.2f} bps over the default PPO on test days, {best['runs']} runs"
    shown = [t for t in tests if best["arm"] in (t["a"], t["b"]) and t["p"] < 0.05 / len(tests)]
    against = ", ".join(t["b"] if t["a"] == best["arm"] else t["a"] for t in shown)
    tail = (
        f"; shown against {against} (Bonferroni)"
        if shown
        else "; no difference between arms is shown"
    )
    gain = f"{best['mean']:+.2f} bps over the default PPO on test days"
    low = best["ci95"][0]
    if low is None or not low > 0.0:
        return f"no arm is shown to beat the default; the highest mean is that of {best['arm']}, {gain}{tail}"
    return f"{best['arm']} is ahead with {gain}{tail}"
