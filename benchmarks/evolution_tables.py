"""Tables of finished runs for docs/results: arms beside each other, beside the baselines, and how
fast designs learn.

python scripts/run_experiment.py --dataset nasdaq100 --seeds 3 --preset standard --out out/evolution \\
    --arms full no-dek random best-of-n
python benchmarks/evolution_tables.py out/evolution/* > docs/results/evolution.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, NAIVE
from se_rl.records.plain import to_plain
from se_rl.records.results import OURS, STRONG
from se_rl.records.settings import RunConfig
from se_rl.scoring.comparison import compare

RUNGS = RunConfig().rungs
Rows = Iterable[Sequence[str]]


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs"
    )
    folders = [place for place in parser.parse_args().runs if (place / "results.json").exists()]
    by_data: dict[str, list[Path]] = {}
    for place in folders:
        by_data.setdefault(
            json.loads((place / "results.json").read_text())["data"]["sha256"], []
        ).append(place)
    print("# What the evolution found\n")
    print(
        "Made by `python benchmarks/evolution_tables.py` from finished runs of `se-rl run`; bps throughout.\n"
    )
    for places in by_data.values():
        section(sorted(places))


def section(places: Sequence[Path]) -> None:
    """All tables of the runs on one data set."""
    found, results = (
        to_plain(compare(places)),
        [json.loads((place / "results.json").read_text()) for place in places],
    )
    first, config = results[0], results[0]["config"]
    data = first["data"]
    kind = "SYNTHETIC" if data["synthetic"] else "real bars"
    print(f"## {data['name']} ({kind})\n")
    rungs = ", ".join(f"{config['work'] * k:g}" for k in (1 / 3, 1, 3))
    print(
        f"{data['symbols']} symbols; {data['train_days']} train, {data['valid_days']} valid and {data['test_days']} sealed test "
        f"days; orders of {config['horizon']} bars, buy and sell. Every run: {first['designs']['proposed']} designs, rungs of "
        f"{rungs} work units with {', '.join(map(str, config['seeds']))} trainings, designer {config['llm']}, isolation "
        f"{first['isolation']}. Budgets are {'equal' if found['equal_budget'] else 'NOT equal'}. Code {first['code_hash'][:8]}.\n"
    )
    seeds = {
        g["arm"]: ", ".join(str(r["seed"]) for r in found["runs"] if r["arm"] == g["arm"])
        for g in found["groups"]
    }
    print(
        f"Seeds of the searches: {'; '.join(f'{arm} {of}' for arm, of in seeds.items())}. Trainings have seeds of their own,"
    )
    print("so those of the default and of the naive design are the same in every search.\n")
    print(f"**{found['sentence']}.**\n")
    arms(found)
    tests(found)
    runs(found, results)
    baselines(results)
    designers(found, places)
    learning(found, results, places)


def arms(found: dict[str, Any]) -> None:
    """The arms over their seeds."""
    print("### Arms: the chosen design over the default PPO\n")
    head = (
        "arm",
        "runs",
        "test days",
        "95 % by days and runs",
        "by seed",
        "validation, last rung",
        "simulated x1",
        "tokens per run",
    )
    rows = (
        (
            g["arm"],
            str(g["runs"]),
            signed(g["mean"]),
            interval(g["ci95"]),
            " ".join(signed(v) for v in g["by_seed"]),
            signed(g["score_valid"]),
            signed(g["simulated"]),
            f"{g['tokens']:,.0f}",
        )
        for g in found["groups"]
    )
    table(head, rows)


def tests(found: dict[str, Any]) -> None:
    """Paired differences between arms by test day."""
    if found["tests"]:
        print(
            f"Differences between arms, paired by test day (SPA p that no arm beats TWAP: {found['spa_p']:.3f}):\n"
        )
        rows = (
            (f"{t['a']} - {t['b']}", signed(t["difference"]), interval(t["ci95"]), f"{t['p']:.3f}")
            for t in found["tests"]
        )
        table(("arms", "difference", "95 %", "p"), rows)


def runs(found: dict[str, Any], results: Sequence[dict[str, Any]]) -> None:
    """Each run."""
    print("### Every run\n")
    head = (
        "arm",
        "seed",
        "proposed / scored / failed / repeated",
        "champion",
        "over default, test",
        "95 %",
        "specific part",
        "over TWAP, test",
        "SPA p, validation",
        "hurdle",
        "minutes",
    )
    rows = []
    for row, result in zip(found["runs"], results, strict=True):
        d, over = row["designs"], row["over_default"]
        no_design = result["verdict"].startswith("No design")
        ours, strong = (
            result["baselines"][name]["over_TWAP_specific"]["mean"] for name in (OURS, STRONG)
        )
        rows.append(
            (
                row["arm"],
                str(row["seed"]),
                f"{d['proposed']} / {d['scored']} / {d['failed']} / {d['repeated']}",
                "the default" if no_design else result["best"],
                signed(over["mean"]),
                interval(over["ci95"]),
                signed(ours - strong),
                signed(row["over_TWAP"]["mean"]),
                number(row["spa_p"], 3),
                number(result["selection"]["hurdle_bps"]),
                f"{row['minutes']:.1f}",
            )
        )
    table(head, rows)


def baselines(results: Sequence[dict[str, Any]]) -> None:
    """What the designs are held against: the same in every run, for trainings have seeds of their own."""
    print("### Baselines on the same orders\n")
    first = results[0]
    names = [name for name in first["baselines"] if name != OURS]
    rows = (
        (
            name,
            signed(first["baselines"][name]["over_TWAP"]["mean"]),
            interval(first["baselines"][name]["over_TWAP"]["ci95"]),
            signed(first["baselines"][name]["over_TWAP_specific"]["mean"]),
            number(first["baselines"][name].get("seed_sd")),
        )
        for name in names
    )
    table(("method, test days", "over TWAP", "95 % by days", "specific part", "seed SD"), rows)
    for size, simulated in first["dynamic"].items():
        ours = [r["dynamic"][size][OURS]["saved_bps"] for r in results]
        head = (f"simulated market, {size}", "cost", "saved against TWAP", "95 %", "seed SD")
        kept = {name: row for name, row in simulated.items() if name != OURS}
        cells = (
            (
                name,
                number(r["cost_bps"]),
                signed(r["saved_bps"]),
                interval(r["saved_ci95"]),
                number(r.get("seed_sd")),
            )
            for name, r in kept.items()
        )
        table(head, cells)
        print(
            f"Chosen designs of all runs, {size}: saved {', '.join(signed(value) for value in ours)}.\n"
        )


def designers(found: dict[str, Any], places: Sequence[Path]) -> None:
    """How good designs are when they are written, by iteration: whether a designer becomes better at it."""
    print("### The designers: what they wrote, at the screen, over the default on validation\n")
    by_arm: dict[str, list[dict[int, list[float]]]] = {}
    for run, place in zip(found["runs"], places, strict=True):
        by_arm.setdefault(run["arm"], []).append(screened(place))
    iterations = sorted({number for runs in by_arm.values() for run in runs for number in run})
    rows = []
    for arm, runs in by_arm.items():
        own = [[score for run in runs for score in run.get(number, [])] for number in iterations]
        every = [score for scores in own for score in scores]
        level = sum(score > 0 for score in every)
        cells = [
            f"{signed(float(np.mean(scores)))} ({signed(max(scores))})" if scores else "-"
            for scores in own
        ]
        by_run = " ".join(
            signed(float(np.mean([s for scores in run.values() for s in scores]))) for run in runs
        )
        median = signed(float(np.median(every)))
        rows.append((arm, str(len(every)), *cells, by_run, median, f"{level} of {len(every)}"))
    head = (
        "arm",
        "designs",
        *(f"iteration {n}: mean (best)" for n in iterations),
        "mean by run",
        "median",
        "above 0",
    )
    table(head, rows)


def screened(place: Path) -> dict[int, list[float]]:
    """Scores of one run's designs at the screen, by the iteration that they were written in."""
    found: dict[int, list[float]] = {}
    with Archive.open(place / "archive.sqlite", read_only=True) as archive:
        standings = archive.standings()
        for one in archive.candidates():
            if one.operator not in (DEFAULT, NAIVE) and not one.twin:
                standing = standings.get((one.id, RUNGS.screen.index))
                found.setdefault(one.iteration, []).extend([standing.score] if standing else [])
    return found


def learning(
    found: dict[str, Any], results: Sequence[dict[str, Any]], places: Sequence[Path]
) -> None:
    """Every finalist at each budget: who learns fast, and what is left of it at three times the search's budget."""
    print(
        "### Finalists: learning speed, and the result at three times the budget, apart (over the default, validation)\n"
    )
    print("Those with fewer trainings than the others were stopped for futility.\n")
    config = results[0]["config"]
    head = [f"{config['work'] * k:g} units" for k in (1 / 3, 1, 3)]
    rows = []
    for run, result, place in zip(found["runs"], results, places, strict=True):
        for one in [*result["finalists"], *stopped(place)]:
            cells = [signed(one["rungs"].get(str(rung))) for rung in range(3)]
            rows.append(
                (
                    run["arm"],
                    str(run["seed"]),
                    one["candidate"],
                    *cells,
                    interval(one["ci95"]),
                    str(len(one["by_seed"])),
                    *(signed(one["by_world"].get(world)) for world in ("static", "dynamic")),
                )
            )
    table(("arm", "seed", "design", *head, "95 %", "trainings", "history", "simulated"), rows)


def stopped(place: Path) -> list[dict[str, Any]]:
    """Designs of one run that were stopped in the last rung, in the form of its finalists."""
    with Archive.open(place / "archive.sqlite", read_only=True) as archive:
        standings, rows = archive.standings(), []
        for event in archive.events("dropped"):
            name = event.payload["candidate"]
            last = standings.get((name, RUNGS.last.index))
            if event.payload["rung"] != RUNGS.last.index or last is None:
                continue
            rungs = {}
            for rung in RUNGS:
                if (name, rung.index) in standings:
                    rungs[str(rung.index)] = standings[name, rung.index].score
            own = {
                "candidate": name,
                "rungs": rungs,
                "ci95": list(last.ci95),
                "by_seed": list(last.by_seed),
                "by_world": {},
            }
            rows.append(own)
    return rows


def table(head: Sequence[str], rows: Rows) -> None:
    """One markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def number(value: float | None, decimals: int = 2) -> str:
    """A figure, or a dash."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.{decimals}f}"


def signed(value: float | None) -> str:
    """A figure with its sign."""
    return "-" if value is None or not np.isfinite(value) else f"{value:+.2f}"


def interval(bounds: Sequence[float | None]) -> str:
    """[low, high]."""
    return f"[{number(bounds[0])}, {number(bounds[1])}]"


if __name__ == "__main__":
    main()
