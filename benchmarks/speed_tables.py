"""Writes docs/results/speed.md: the benchmarks of this machine, and the log of a CUDA run where one is kept.

    python benchmarks/speed_tables.py [--seconds 3]

docs/results/gpu.log: `bench_market(device="cuda", seconds=4, books=N)` called for four N on an H200, one line each (JSON as
returned; the words before it were added).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from se_rl.records.files import write_text
from se_rl_benchmarks.bench import BenchOptions, run_bench

REPOSITORY = Path(__file__).resolve().parents[1]


def section(result: dict[str, Any]) -> list[str]:
    """One benchmark as a Markdown table."""
    lines = [
        f"## {result['name']}",
        "",
        f"In {result['unit']}.",
        "",
        "| | value | ours / peer |",
        "|---|--:|--:|",
    ]
    lines.append(f"| se-rl | {result['value']:,.0f} | 1 |")
    lines += [
        f"| {name} | {value:,.0f} | {result['ratios'][name]:.2f} |"
        for name, value in result["peers"].items()
    ]
    detail = {**result["detail"], **result["machine"]}
    shown = (f"{v:,.2f}" if isinstance(v, float) else v for v in detail.values())
    return [
        *lines,
        "",
        *(f"- {key}: {value}" for key, value in zip(detail, shown, strict=True)),
        "",
    ]


def main() -> None:
    """Run the benchmarks one after the other and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    lines = [
        "# Speed",
        "",
        "Made by `python benchmarks/speed_tables.py` on one machine in one run; ratios travel, figures do not.",
        "",
    ]
    for what in ("book", "market", "env", "ppo", "sandbox"):
        print(f"... {what}", file=sys.stderr)
        lines += section(run_bench(what, BenchOptions(seconds=seconds)))
    log = REPOSITORY / "docs" / "results" / "gpu.log"
    if log.exists():
        lines += [
            "## On one H200",
            "",
            "Messages per second by number of markets, all participants (`gpu.log`):",
            "",
        ]
        lines += [
            f"- {line.split('{')[0].strip()}"
            for line in log.read_text().splitlines()
            if "msg/s" in line
        ]
    write_text(REPOSITORY / "docs" / "results" / "speed.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
