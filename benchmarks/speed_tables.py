"""Writes docs/results/speed.md: the benchmarks of this machine.

python benchmarks/speed_tables.py [--seconds 3]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from se_rl.records.files import write_text
from se_rl_benchmarks.bench import BenchOptions, run_bench

REPOSITORY = Path(__file__).resolve().parents[1]
BENCHES = ("book", "market", "env", "ppo", "sandbox")
HEAD = """# Speed

Made by `python benchmarks/speed_tables.py` on one machine in one run, from the same code as
`se-rl bench` (`make bench`). Ratios carry over to other machines; absolute figures do not.
"""


def section(result: Mapping[str, Any]) -> list[str]:
    """One benchmark as a Markdown table with its detail."""
    lines = [
        f"## {result['name']}",
        "",
        f"In {result['unit']}.",
        "",
        "| | value | ours / peer |",
        "|---|--:|--:|",
        f"| se-rl | {result['value']:,.0f} | 1 |",
    ]
    for name, value in result["peers"].items():
        lines.append(f"| {name} | {value:,.0f} | {result['ratios'][name]:.2f} |")
    lines.append("")
    for key, value in {**result["detail"], **result["machine"]}.items():
        shown = f"{value:,.2f}" if isinstance(value, float) else value
        lines.append(f"- {key}: {shown}")
    return [*lines, ""]


def main() -> None:
    """Run the benchmarks one after the other and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = BenchOptions(seconds=parser.parse_args().seconds)
    lines = [HEAD]
    for what in BENCHES:
        print(f"... {what}", file=sys.stderr)
        lines += section(run_bench(what, options))
    write_text(REPOSITORY / "docs" / "results" / "speed.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
