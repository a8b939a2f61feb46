"""What demos found: finished runs of one preset, seed by seed, and which edits did it.

    python benchmarks/demo_table.py out/demo_0 out/demo_1 ... [--out docs/results]

Reads run folders that `se-rl run` has finished, trains nothing, and leaves none of the given runs
out. Writes demo.md, and the key "demo" of search.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from se_rl.modules.edits import changes_between
from se_rl.modules.kinds import KINDS
from se_rl.records.archive import Archive
from se_rl.records.files import write_text
from se_rl.records.results import RunResults
from se_rl.records.results_file import read_results
from se_rl.records.run_folder import RunFolder
from se_rl_benchmarks.markdown_tables import line

HEAD = """# Demos

Made by `python benchmarks/demo_table.py` from {runs} finished runs of `se-rl run --preset quick` on {data}; do not edit. Each has
its own seed and a seal that was drawn when it began; none was left out. Over the default: the champion's score less the
default PPO's, on sealed test days and fresh simulated orders, bps with 95 % intervals. Where no design took the default's place
the sealed days stay sealed, and the run gains nothing.

"""


@dataclass(frozen=True)
class DemoRow:
    """One run; the gains are 0 where the default was kept."""

    seed: int
    seal: str
    champion: str
    edits: str
    over_default: float
    ci95: tuple[float, float]
    history: float
    simulated: float
    last_rung: float
    designs: int
    minutes: float


def row_of(folder: RunFolder) -> DemoRow:
    """What a finished run says of itself."""
    results = read_results(folder.results)
    with Archive.open(folder.archive, read_only=True) as archive:
        edits = edits_of(archive, results)
    gain = results.final_metrics.score_over_default
    finalist = results.finalist(results.best)
    kept = not results.is_accepted
    return DemoRow(
        seed=results.seeds.search,
        seal=results.seal.text,
        champion="default" if kept else results.best,
        edits=edits,
        over_default=0.0 if kept else gain.score.mean,
        ci95=(0.0, 0.0) if kept else gain.score.ci95,
        history=0.0 if kept else gain.history.mean,
        simulated=0.0 if kept else gain.simulated.mean,
        last_rung=finalist.score if finalist and not kept else 0.0,
        designs=results.designs.scored,
        minutes=results.times.minutes,
    )


def edits_of(archive: Archive, results: RunResults) -> str:
    """How the champion differs from the default, choice by choice."""
    if not results.is_accepted:
        return "none"
    found = {candidate.id: candidate for candidate in archive.candidates()}
    said = []
    for module, source in archive.sources(found[results.best]).items():
        changes = changes_between(KINDS[module].default_source, source, module)
        if changes is None:
            said.append(f"{module} outside of the grammar")
            continue
        for change in changes:
            said.append(f"{module} {change.slot}: {_short(change.after)}")
    return "; ".join(said)


def _short(text: str) -> str:
    words = " ".join(text.split()).replace("|", "/") or "nothing"
    return words if len(words) <= 80 else words[:77] + "..."


def page(rows: Sequence[DemoRow], data: str) -> str:
    """The table in Markdown."""
    head = ["seed", "over the default", "history", "simulated", "last rung", "minutes", "edits"]
    lines = [line(head), "|--:|--:|--:|--:|--:|--:|---|"]
    for row in rows:
        gain = f"{row.over_default:+.2f} [{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"
        cells = [str(row.seed), gain, f"{row.history:+.2f}", f"{row.simulated:+.2f}"]
        cells += [f"{row.last_rung:+.2f}", f"{row.minutes:.1f}", row.edits]
        lines.append(line(cells))
    wins = f"{_wins(rows)} of {len(rows)} champions are ahead of the default on the sealed days."
    seals = "Seals: " + ", ".join(f"{row.seed} `{row.seal}`" for row in rows) + "."
    return HEAD.format(runs=len(rows), data=data) + "\n".join([*lines, "", wins, "", seals, ""])


def _wins(rows: Sequence[DemoRow]) -> int:
    return sum(row.over_default > 0.0 for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read all runs, write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    rows = sorted((row_of(RunFolder(place)) for place in options.runs), key=lambda row: row.seed)
    first = read_results(RunFolder(options.runs[0]).results)
    told = page(rows, first.data.name)
    write_text(options.out / "demo.md", told)
    place = options.out / "search.json"
    stored = json.loads(place.read_text()) if place.exists() else {}
    stored["demo"] = {
        "seeds": len(rows),
        "wins": _wins(rows),
        "over_default": [row.over_default for row in rows],
        "runs": [asdict(row) for row in rows],
    }
    write_text(place, json.dumps(stored, indent=1) + "\n")
    print(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
