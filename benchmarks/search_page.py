"""The page of searches: arms over the default, arms against each other, champions elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from se_rl_benchmarks.markdown_tables import interval, signed, table

EQUAL = (
    "Equal for all arms of a set: its data and splits, the budget of designs, the ladder's rungs, "
    "training seeds and finals. Every champion is trained anew, five times with seeds that no "
    "search used, in both worlds, and scored on the test days and on fresh simulated orders beside "
    "the default trained with the same seeds. A search that keeps the default counts as 0. "
    "Intervals are 95 % over seeds (Student's t), of differences over the seeds that both have. "
    "All searches of a set share its days, its simulated orders and the default's trainings; what "
    "these leave open stands beside it, as half of the interval of one champion's own score. "
    'This holds among searches of one code; those of another (its digest; "earlier" was not '
    "written down) may have begun otherwise and had fewer finalists."
)
"""What the tables hold equal."""
EARLIER = "earlier"
"""Stands for code whose digest was not written down."""


@dataclass(frozen=True)
class SearchRow:
    """What one search found: its champion, and the champion's score over the default when sealed."""

    arm: str
    seed: int
    designs: int
    trainings: int
    champion: str
    at_last_rung: float
    over_default: float
    ci95: tuple[float, float]
    seconds: float
    model_calls: int = 0
    weight_steps: int = 0
    descent: str = ""
    """By which operators, and by whose hand, the champion came of the default."""
    code: str = ""
    """The digest of the code that searched."""
    history: float = float("nan")
    simulated: float = float("nan")
    """The two halves of what it is over the default."""
    history_half: float = float("nan")
    """Half of the interval of that on history."""


@dataclass(frozen=True)
class CarriedRow:
    """A champion of another set's search, scored unchanged."""

    found_on: str
    arm: str
    seed: int
    champion: str
    over_default: float
    ci95: tuple[float, float]
    history: float = float("nan")
    simulated: float = float("nan")
    history_half: float = float("nan")


@dataclass(frozen=True)
class ArmRow:
    """An arm over its seeds."""

    seeds: int
    accepted: int
    trainings: int
    over_default: float
    ci95: tuple[float, float]
    by_seed: tuple[float, ...]
    code: str = ""
    own_half: float = float("nan")
    """Half of a champion's own interval, over days, simulated orders and trainings; the mean."""
    history: float = float("nan")
    simulated: float = float("nan")
    """The halves of the score, means over all searches."""


def mean_interval(gains: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The mean and its interval over seeds; of one seed the interval is unknown."""
    from scipy.stats import t

    values = np.array(gains)
    mean, n = float(values.mean()), len(values)
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return mean, (mean - half, mean + half)


def by_arm(rows: Sequence[SearchRow]) -> dict[str, ArmRow]:
    """Each arm over its searches."""
    found = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        mine = sorted((row for row in rows if row.arm == arm), key=lambda row: row.seed)
        gains = tuple(row.over_default for row in mine)
        found[arm] = ArmRow(
            len(mine),
            sum(bool(row.champion) for row in mine),
            int(np.mean([row.trainings for row in mine])),
            *mean_interval(gains),
            gains,
            ", ".join(dict.fromkeys(row.code or EARLIER for row in mine)),
            own_half(mine),
            mean_part(mine, "history"),
            mean_part(mine, "simulated"),
        )
    return found


def mean_part(rows: Sequence[SearchRow], part: str) -> float:
    """The mean of a half of the score over all searches; one that kept the default has 0."""
    return float(np.mean([getattr(row, part) if row.champion else 0.0 for row in rows]))


def own_half(rows: Sequence[SearchRow]) -> float:
    """Half of the interval of one champion's score, the mean over champions; NaN without one."""
    halves = [0.5 * (row.ci95[1] - row.ci95[0]) for row in rows if row.champion]
    return float(np.mean(halves)) if halves else float("nan")


def differences(rows: Sequence[SearchRow]) -> dict[str, ArmRow]:
    """`full` less every other arm, its variations less the same ones of `local`, and every arm less
    `random`, seed by seed.
    """
    arms = dict.fromkeys(row.arm for row in rows)
    pairs = [("full", arm) for arm in arms if arm not in ("full", "random")]
    pairs += [(arm, arm.replace("full", "local", 1)) for arm in arms if arm.startswith("full+")]
    pairs += [(arm, "random") for arm in arms if arm != "random"]
    found = {}
    for one, other in pairs:
        ours = {row.seed: row for row in rows if row.arm == one}
        theirs = {row.seed: row for row in rows if row.arm == other}
        shared = sorted(ours.keys() & theirs.keys())
        if not shared:
            continue
        gains = tuple(ours[seed].over_default - theirs[seed].over_default for seed in shared)
        accepted = sum(bool(ours[seed].champion) for seed in shared)
        trainings = sum(ours[seed].trainings - theirs[seed].trainings for seed in shared)
        found[f"{one} - {other}"] = ArmRow(
            len(shared), accepted, trainings // len(shared), *mean_interval(gains), gains
        )
    return found


def told_of(
    rows: Sequence[SearchRow], carried: Sequence[CarriedRow], *, preset: str, planned: int
) -> dict[str, object]:
    """All that is known of one set, as search.json keeps it."""
    return {
        "preset": preset,
        "arms": {arm: asdict(row) for arm, row in by_arm(rows).items()},
        "differences": {name: asdict(row) for name, row in differences(rows).items()},
        "not_finished": max(0, planned - len(rows)),
        "searches": [asdict(row) for row in rows],
        "carried": [asdict(row) for row in carried],
    }


def page(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables of all sets in Markdown."""
    parts = ["# Does the search climb?", EQUAL]
    for name, told in sets.items():
        parts.append(f"## {name}, preset {told.get('preset', 'unknown')}")
        if told["arms"]:
            head = ("arm", "searches", "accepted", "trainings each", "score", "by seed")
            rows = told["arms"].values()
            last = []
            for row in rows:
                code = row.get("code") or EARLIER
                last.append((_half(row, "own_half"), *_halves_of(row), code))
            arms = zip(_lines(told["arms"]), last, strict=True)
            columns = (*head, "one champion", "history", "simulated", "code")
            parts.append(table(columns, [(*a, *b) for a, b in arms]))
        if told.get("differences"):
            head = ("difference", "seeds", "accepted", "trainings more", "score", "by seed")
            parts.append(table(head, _lines(told["differences"])))
        if told.get("not_finished"):
            parts.append(f"Not finished when the time was over: {told['not_finished']} searches.")
        if told.get("carried"):
            parts.append("Champions of searches on other sets, scored here unchanged:")
            lines = []
            for row in told["carried"]:
                score = f"{signed(row['over_default'])} {interval(row['ci95'])}"
                history, simulated = _halves_of(row)
                history = f"{history} {_half(row, 'history_half')}"
                lines.append(
                    (row["found_on"], row["arm"], str(row["seed"]), score, history, simulated)
                )
            head = ("found on", "arm", "seed", "score over the default", "history", "simulated")
            parts.append(table(head, lines))
    return "\n\n".join(parts) + "\n"


def _half(row: Mapping[str, Any], key: str) -> str:
    half = row.get(key)  # JSON has no NaN
    return "-" if half is None or np.isnan(half) else f"± {half:.2f}"


def _halves_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """The gains on history and in simulated markets, where they were written down."""
    history, simulated = row.get("history"), row.get("simulated")
    if history is None or simulated is None or np.isnan(history):
        return "-", "-"
    return signed(history), signed(simulated)


def _lines(arms: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    lines = []
    for name, row in arms.items():
        counts = [str(row[key]) for key in ("seeds", "accepted", "trainings")]
        score = f"{signed(row['over_default'])} {interval(row['ci95'])}"
        by_seed = ", ".join(map(signed, row["by_seed"]))
        lines.append((name, *counts, score, by_seed))
    return lines
