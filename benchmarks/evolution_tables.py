"""Tables of finished runs for docs/results: arms, runs, baselines, and what the designers wrote.

python scripts/run_experiment.py --dataset nasdaq100 --seeds 3 --preset standard \\
    --out out/evolution --arms full no-dek random best-of-n
python benchmarks/evolution_tables.py out/evolution/* > docs/results/evolution.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from se_rl.records.plain import to_plain
from se_rl.records.results import ACCEPTED, OURS
from se_rl.scoring.comparison import compare
from se_rl_benchmarks import markdown_tables
from se_rl_benchmarks.evolution_designs import designers_table, finalists_table
from se_rl_benchmarks.markdown_tables import Row, interval, number, signed

Results = dict[str, Any]
"""The results of one run, or the comparison of several, as JSON."""


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs"
    )
    by_data: dict[str, list[Path]] = {}
    for place in parser.parse_args().runs:
        if (place / "results.json").exists():
            by_data.setdefault(read_results(place)["data"]["sha256"], []).append(place)
    print("# What the evolution found\n")
    print("Made by `python benchmarks/evolution_tables.py` from finished runs of `se-rl run`;")
    print("bps throughout.\n")
    for places in by_data.values():
        section(sorted(places))


def read_results(place: Path) -> Results:
    """The results of a finished run."""
    return json.loads((place / "results.json").read_text())


def section(places: Sequence[Path]) -> None:
    """All tables of the runs on one data set."""
    found = to_plain(compare(places))
    results = [read_results(place) for place in places]
    introduction(found, results[0])
    groups(found)
    tests(found)
    runs(found, results)
    baselines(results)
    print("### The designers: what they wrote, at the screen, over the default on validation\n")
    table(*designers_table(found["runs"], places))
    print("### Finalists: learning speed, and the result at three times the budget, apart\n")
    print("Over the default on validation days. Those with fewer trainings than the others were")
    print("stopped for futility.\n")
    table(*finalists_table(found["runs"], results, places))


def introduction(found: Results, first: Results) -> None:
    """What was run, on what, and the verdict of the comparison."""
    data = first["data"]
    config = first["config"]
    days = f"{data['train_days']} train, {data['valid_days']} valid"
    rungs = ", ".join(f"{config['work'] * k:g}" for k in (1, 1, 3))
    print(f"## {data['name']} ({'SYNTHETIC' if data['synthetic'] else 'real bars'})\n")
    print(
        f"{data['symbols']} symbols; {days} and {data['test_days']} sealed test days; "
        f"orders of {config['horizon']} bars, buy and sell. "
        f"Every run: {first['designs']['proposed']} designs, rungs of {rungs} work units with "
        f"{', '.join(map(str, config['seeds']))} trainings, designer {config['llm']}, "
        f"isolation {first['isolation']}. "
        f"Budgets are {'equal' if found['equal_budget'] else 'NOT equal'}. "
        f"Code {first['code_hash'][:8]}. Compared {found['basis']}; "
        f"the first run's seal is {first['seal']['text']} ({first['seal']['origin']}).\n"
    )
    seeds: dict[str, list[str]] = {}
    for run in found["runs"]:
        seeds.setdefault(run["group"], []).append(str(run["seed"]))
    words = "; ".join(
        f"{group['group']} {', '.join(seeds[group['group']])}" for group in found["groups"]
    )
    print(f"Seeds of the searches: {words}. Trainings have seeds of their own,")
    print("so those of the default and of the naive design are the same in every search.\n")
    print(f"**{found['sentence']}.**\n")


def groups(found: Results) -> None:
    """Groups of equal settings over their seeds."""
    print("### Arms: the chosen design over the default PPO\n")
    head = (
        ", ".join(found["by"]),
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
            g["group"],
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


def tests(found: Results) -> None:
    """Differences between groups, by test day where they have the same days."""
    if not found["tests"]:
        return
    spa = f"SPA p that no group beats the default: {found['spa_p']:.3f}"
    print(f"Differences between groups, paired by test day ({spa}):\n")
    rows = []
    for test in found["tests"]:
        pair = f"{test['a']} - {test['b']}"
        figures = (signed(test["difference"]), interval(test["ci95"]), f"{test['p']:.3f}")
        rows.append((pair, *figures))
    table(("groups", "difference", "95 %", "p"), rows)


def runs(found: Results, results: Sequence[Results]) -> None:
    """Each run."""
    print("### Every run\n")
    head = (
        ", ".join(found["by"]),
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
        d = row["designs"]
        over = row["over_default"]
        kept = result["outcome"] != ACCEPTED
        specific = result["final_metrics"]["over_default_specific"]["mean"]
        rows.append(
            (
                row["group"],
                str(row["seed"]),
                f"{d['proposed']} / {d['scored']} / {d['failed']} / {d['repeated']}",
                "the default" if kept else result["best"],
                signed(over["mean"]),
                interval(over["ci95"]),
                signed(specific),
                signed(row["over_TWAP"]["mean"]),
                number(row["spa_p"], 3),
                number(result["selection"]["hurdle_bps"]),
                f"{row['minutes']:.1f}",
            )
        )
    table(head, rows)


def baselines(results: Sequence[Results]) -> None:
    """What the designs are compared with, the same in every run: trainings have their own seeds."""
    print("### Baselines on the same orders\n")
    opened = [one for one in results if one["outcome"] == ACCEPTED]
    first = (opened or results)[0]
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
    table(
        (
            f"method, {first['measured_on']}",
            "over TWAP",
            "95 % by days",
            "specific part",
            "seed SD",
        ),
        rows,
    )
    for size, simulated in first["dynamic"].items():
        ours = [r["dynamic"][size][OURS]["saved_bps"] for r in opened]
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
        print(f"Chosen designs of all runs, {size}: saved {', '.join(map(signed, ours))}.\n")


def table(head: Row, rows: Iterable[Row]) -> None:
    """Print one Markdown table and an empty line."""
    print(markdown_tables.table(head, rows))
    print()


if __name__ == "__main__":
    main()
