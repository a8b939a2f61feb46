"""Measures how readable src/se_rl is, beside the house's limits and well-known repositories.

    python benchmarks/house.py [--json] [--report-only] [--rooms] [--name ROOM] [--list]

Exits with code 1 when a limit is broken, unless `--report-only` is given. `--list` names the
offenders; `--name data` looks at one room (or one file) of the package alone. A function's length
leaves out the functions defined inside it, which count by themselves: kernels come from factories.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain

from se_rl_benchmarks.house_sources import (
    COLUMNS,
    OPEN_DICTIONARY,
    PACKAGE,
    SourceFile,
    read_package,
)

FILE_LINES = 300
FUNCTION_LINES = 60
COMPREHENSIONS_LIMIT = 25


@dataclass(frozen=True)
class Measure:
    """One figure, the house's limit for it (None: no limit), and what others have."""

    name: str
    value: float
    limit: float | None = None
    strict: bool = False
    others: str = ""
    offenders: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether the limit holds; a strict one must not be reached."""
        if self.limit is None:
            return True
        return self.value < self.limit if self.strict else self.value <= self.limit


def measures(files: Sequence[SourceFile]) -> list[Measure]:
    """The house's measures over some files."""
    count = _Totals()
    for file in files:
        count.add(file)
    lines = max(count.lines, 1)
    lengths = [length for _, length in count.functions]
    twice = _class_names_used_twice(files)
    return [
        Measure(
            f"lines over {COLUMNS} columns, %",
            100 * count.long_lines / lines,
            limit=2.0,
            strict=True,
            others="3-7",
            offenders=tuple(count.files_with_long_lines),
        ),
        Measure(
            "comprehensions per 1,000 lines",
            1000 * count.comprehensions / lines,
            limit=COMPREHENSIONS_LIMIT,
            others="8-12",
            offenders=tuple(_most_packed(files)),
        ),
        Measure("class names used twice", len(twice), limit=0, offenders=tuple(twice)),
        Measure(
            f"files over {FILE_LINES} lines",
            len(count.long_files),
            limit=0,
            offenders=tuple(count.long_files),
        ),
        Measure(
            "longest function, lines",
            max(lengths, default=0),
            limit=FUNCTION_LINES,
            offenders=tuple(f"{n}: {x}" for n, x in count.functions if x > FUNCTION_LINES),
        ),
        Measure(
            OPEN_DICTIONARY,
            count.open_dictionaries,
            limit=60,
            offenders=tuple(count.files_with_dictionaries),
        ),
        Measure(
            "public names without docstring",
            len(count.undocumented),
            limit=0,
            offenders=tuple(count.undocumented),
        ),
        Measure("median function, lines", statistics.median(lengths or [0])),
        Measure("comments per 1,000 lines", 1000 * count.comments / lines, others="33-78"),
    ]


@dataclass
class _Totals:
    """Sums over files, and the files that stand out."""

    lines: int = 0
    long_lines: int = 0
    comprehensions: int = 0
    comments: int = 0
    open_dictionaries: int = 0
    long_files: list[str] = field(default_factory=list)
    files_with_long_lines: list[str] = field(default_factory=list)
    files_with_dictionaries: list[str] = field(default_factory=list)
    functions: list[tuple[str, int]] = field(default_factory=list)
    undocumented: list[str] = field(default_factory=list)

    def add(self, file: SourceFile) -> None:
        """Count one more file."""
        self.lines += file.lines
        self.long_lines += len(file.long_lines)
        self.comprehensions += file.comprehensions
        self.comments += file.comments
        self.open_dictionaries += file.open_dictionaries
        self.functions += file.functions
        self.undocumented += file.undocumented
        if file.lines > FILE_LINES:
            self.long_files.append(f"{file.path}: {file.lines}")
        if file.long_lines:
            self.files_with_long_lines.append(f"{file.path}: {len(file.long_lines)}")
        if file.open_dictionaries:
            self.files_with_dictionaries.append(f"{file.path}: {file.open_dictionaries}")


def _class_names_used_twice(files: Sequence[SourceFile]) -> list[str]:
    counts = Counter(chain.from_iterable(file.classes for file in files))
    twice = []
    for name, count in counts.items():
        if count > 1:
            places = [file.path for file in files if name in file.classes]
            twice.append(f"{name}: {', '.join(places)}")
    return twice


def _most_packed(files: Sequence[SourceFile]) -> list[str]:
    """Files with more comprehensions than the limit allows, the most packed first."""
    rates = []
    for file in files:
        rate = 1000 * file.comprehensions / max(file.lines, 1)
        if rate > COMPREHENSIONS_LIMIT and file.comprehensions > 2:
            rates.append((rate, f"{file.path}: {file.comprehensions} in {file.lines} lines"))
    return [words for _, words in sorted(rates, reverse=True)]


def print_table(found: Sequence[Measure], *, offenders: bool) -> None:
    """The measures as a table; the offenders below it where they are asked for."""
    print(f"{'':34}{'here':>8}  {'limit':>7}  cleanrl, gepa, Gymnasium")
    for measure in found:
        limit = ""
        if measure.limit is not None:
            limit = f"{'< ' if measure.strict else '<= '}{measure.limit:g}"
        mark = "" if measure.ok else "  <- broken"
        print(f"{measure.name:34}{measure.value:8.4g}  {limit:>7}  {measure.others}{mark}")
    for measure in found if offenders else ():
        if measure.offenders:
            print(f"\n{measure.name}:")
            print("\n".join(f"  {words}" for words in measure.offenders))


def print_rooms(files: Sequence[SourceFile]) -> None:
    """One line per room, with the measures in their usual order."""
    rooms = dict.fromkeys(file.path.partition("/")[0] for file in files)
    head = ("room", "lines", "> 100 %", "compr.", "twice", "> 300", "longest", "dicts", "silent")
    print(" ".join(f"{word:>9}" for word in (*head, "median", "comm.")))
    for room in rooms:
        own = [file for file in files if file.path.partition("/")[0] == room]
        figures = [f"{measure.value:.3g}" for measure in measures(own)]
        lines = str(sum(file.lines for file in own))
        print(" ".join(f"{word:>9}" for word in (room.removesuffix(".py"), lines, *figures)))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--report-only", action="store_true", help="exit with 0 whatever is found")
    parser.add_argument("--rooms", action="store_true", help="one line per room, too")
    parser.add_argument("--name", default="", metavar="ROOM", help="one room or file alone")
    parser.add_argument("--list", action="store_true", help="name what breaks a measure")
    options = parser.parse_args(arguments)
    files = read_package(name=options.name)
    if not files:
        parser.error(f"{options.name} is not in {PACKAGE}")
    found = measures(files)
    if options.json:
        rows = [asdict(measure) | {"ok": measure.ok} for measure in found]
        print(json.dumps(rows, indent=2))
    else:
        print_table(found, offenders=options.list)
    if options.rooms:
        print()
        print_rooms(files)
    return int(not options.report_only and not all(measure.ok for measure in found))


if __name__ == "__main__":
    sys.exit(main())
