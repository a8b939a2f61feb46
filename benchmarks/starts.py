"""Does it help to imitate a teacher before RL? The default design with each start, side by side.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/starts.py [--seeds 3] [--work 4.2]

Trains on the train days of the synthetic set and scores on its validation days and on simulated
orders; every start is paired with none, seed by seed and order by order. Writes
docs/results/starts.md and starts.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from se_rl.records.settings import STARTS, preset
from se_rl.scoring.score import Contributions, ScoreRule, Scores, contributions, difference
from se_rl_benchmarks.many_trainings import Job, Workshop
from se_rl_benchmarks.markdown_tables import interval, signed, table

HEAD = """# Imitation starts

Made by `python benchmarks/starts.py`; do not edit. The default design on the train days of {set}
(synthetic), {seeds} seeds, trainings of {work:g} work units, in which the start counts; scored on
{days} validation days and on simulated orders. bps over TWAP; score: half history (specific gain less
risk), half simulated orders. "over none" is paired by seed and order, 95 % over seeds, days and
orders.

"""
NONE = STARTS[0]


@dataclass(frozen=True)
class StartRow:
    """One start: its score and parts over TWAP, and the same over no start, paired."""

    start: str
    seeds: int
    score: float
    history: float
    simulated: float
    over_none: tuple[float, float, float]
    """Mean and ends of the interval, of the score; the others are of its parts."""
    history_over_none: tuple[float, float, float]
    simulated_over_none: tuple[float, float, float]


def row_of(start: str, own: Sequence[Scores], base: Sequence[Scores], rule: ScoreRule) -> StartRow:
    """The mean over training seeds, and what it is over those without a start."""
    whole = contributions(own, rule)
    over = difference(own, base, rule)
    parts, parts_over = whole.by_world(), over.by_world()
    return StartRow(
        start,
        len(own),
        whole.score,
        parts["static"].score,
        parts["dynamic"].score,
        _estimate(over),
        _estimate(parts_over["static"]),
        _estimate(parts_over["dynamic"]),
    )


def _estimate(part: Contributions) -> tuple[float, float, float]:
    found = part.estimate()
    return found.mean, *found.ci95


def page(rows: Sequence[StartRow], facts: Mapping[str, str | int | float]) -> str:
    """The page in Markdown."""
    lines = []
    for row in rows:
        cells = [row.start, signed(row.score), signed(row.history), signed(row.simulated)]
        for mean, low, high in (row.over_none, row.history_over_none, row.simulated_over_none):
            alone = row.start == NONE
            cells.append("" if alone else f"{signed(mean)} {interval((low, high))}")
        lines.append(cells)
    heads = ["start", "score", "history", "simulated"]
    heads += ["score over none", "history over none", "simulated over none"]
    return HEAD.format(**facts) + table(heads, lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, score, and write what is done after every start."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--data", default="nasdaq100")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=float, default=4.2, help="work units of a training")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    workshop = Workshop(preset(options.preset, data=options.data))
    config = workshop.config
    rule = ScoreRule.of(config)
    facts = {"set": options.data, "seeds": options.seeds, "work": options.work}
    found: dict[str, list[Scores]] = {}
    for start in STARTS:
        workshop.config = replace(config, start=start)  # type: ignore[arg-type]
        for seed in range(options.seeds):
            outcome = workshop.outcome(Job("default", options.work, seed))
            if outcome.reason:
                print(f"{start}, seed {seed}: {outcome.reason}")
                return 1
            found.setdefault(start, []).append(outcome.scores)
            print(f"{start}, seed {seed}: {outcome.seconds:.1f} s", flush=True)
        facts["days"] = contributions(found[NONE], rule).strata[0].values.shape[1]
        rows = [row_of(name, own, found[NONE], rule) for name, own in found.items()]
        options.out.mkdir(parents=True, exist_ok=True)
        told = {**facts, "rows": [asdict(row) for row in rows]}
        (options.out / "starts.json").write_text(json.dumps(told, indent=1) + "\n")
        (options.out / "starts.md").write_text(page(rows, facts))
    print((options.out / "starts.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
