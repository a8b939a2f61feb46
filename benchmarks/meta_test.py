"""Do champions of searches carry over? All of them on the held-out half: docs/results/meta_test.md.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/meta_test.py RUN...
        [--seeds 3] [--work 1] [--workers 2] [--minutes 30] [--keep out/meta_test]
    python benchmarks/meta_test.py --champions docs/results/champions.jsonl --arm full

RUN is the folder of a finished search; `--champions` are those that `search_tables.py` wrote down.
Tasks are the second half of the suite and four real sets: trained on their train days, scored on the
later 40 % of all days after these. No search has seen any of it, and nothing was chosen by it.
Trainings are kept in `--keep`, known by all that they depend on, and not made again, so that the page
grows over several calls. Real sets that are not here are left out, and the page says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from se_rl.core.suite.designs import SuiteDesign, named_design
from se_rl.core.suite.running import SuitePlan, run_suite
from se_rl.core.suite.tasks import SECOND, OwnTask, history_task
from se_rl.records.code_hash import code_hash
from se_rl.records.files import to_json
from se_rl.records.plain import to_plain
from se_rl.report.suite_table import print_suite
from se_rl.scoring.suite_effects import TOGETHER, PooledEffect, SuiteResult, TaskEffect
from se_rl_benchmarks.defaults import read_set
from se_rl_benchmarks.markdown_tables import number, table
from se_rl_benchmarks.real_sets import REAL_SETS, ROOT
from se_rl_benchmarks.rivals import REAL
from se_rl_benchmarks.search_results import champions_of

SEARCHED = "nasdaq100"
"""The set of the searches, of the first half."""
HEAD = """# Meta-test: do evolved designs carry over?

Made by `python benchmarks/meta_test.py`; do not edit. {count} champions of searches on synthetic
nasdaq100, each trained from nothing on tasks that these searches did not use, against the default with the same
seeds and orders. Effects are differences over what the default varies by on a single order, with 95 %
intervals over days or episodes and training seeds ([what the figures mean](../suite.md)). {seeds} trainings
of each design on each task at {work:g} times the suite's usual work, which is short; {made} of {planned}
trainings gave a figure. Real sets: the later 40 % of the days after their train days. Code {code}.
"""


@dataclass(frozen=True)
class MetaTest:
    """The figures, what the champions changed, at which work, and which sets were not here."""

    result: SuiteResult
    modules: dict[str, tuple[str, ...]]
    work: float
    absent: tuple[str, ...]
    code: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, and write the page of all that is there."""
    options = _options(arguments)
    champions = tuple(all_champions(options))
    if not champions:
        sys.exit("no champion is given; name folders of runs, or --champions with another --arm")
    absent = tuple(name for name in REAL if not REAL_SETS[name].path.exists())
    real = [real_task(name) for name in REAL if name not in absent]
    plan = SuitePlan(
        champions,
        tuple(task.times(options.work) for task in (*real, *SECOND)),
        options.seeds,
        options.keep,
        until=time.time() + 60.0 * options.minutes,
    )
    result = run_suite(plan, workers=options.workers, say=_say)
    modules = {one.name: tuple(one.sources) for one in champions}
    made = MetaTest(result, modules, options.work, absent, code_hash()[:8])
    options.out.with_suffix(".json").write_text(to_json(to_plain(made)) + "\n")
    options.out.write_text(page(made))
    print_suite(result)


def _say(text: str) -> None:
    print(f"... {text}", flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--champions", type=Path, help="a champions.jsonl of `search_tables.py`")
    parser.add_argument("--arm", default="full", help="of that file's searches")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each on a task")
    parser.add_argument("--work", type=float, default=1.0, help="times the tasks' usual work")
    parser.add_argument("--workers", type=int, default=2, help="tasks at once")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing after so many")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "meta_test")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "meta_test.md")
    return parser.parse_args(arguments)


def all_champions(options: argparse.Namespace) -> Iterator[SuiteDesign]:
    """The champions of run folders, by the folders' names, and those of a file, by arm and seed."""
    for folder in options.runs:
        yield replace(named_design(str(folder)), name=folder.name)
    if options.champions:
        for one in sorted(champions_of(options.champions), key=lambda one: one.seed):
            if (one.found_on, one.arm) == (SEARCHED, options.arm):
                yield SuiteDesign(f"{one.arm} {one.seed}", one.sources)


def real_task(name: str) -> OwnTask:
    """A real set: all days after its train days but the last, which stays closed, are validation."""
    real = REAL_SETS[name]
    last = str(read_set(name).dates[-2])
    return history_task(name, str(real.path), train_until=real.train_until, valid_until=last)


def page(made: MetaTest) -> str:
    """The figures as Markdown."""
    result = made.result
    facts = HEAD.format(
        count=len(made.modules),
        seeds=result.seeds,
        work=made.work,
        made=result.made,
        planned=result.planned,
        code=made.code,
    )
    pools = table(
        ("design", "changed", "tasks", "mean effect", "95 %", "tasks ahead", "behind"),
        [_pool(one, made.modules) for one in result.pools],
    )
    by_task: dict[str, dict[str, TaskEffect]] = {}
    for one in result.effects:
        by_task.setdefault(one.task, {})[one.design] = one
    designs = (*made.modules, *([TOGETHER] if len(made.modules) > 1 else []))
    rows = [_task_row(task, found, designs) for task, found in by_task.items()]
    parts = [facts, "## Over all tasks\n", pools, "\n## Task by task\n"]
    parts.append(table(("task", "default varies by", *designs), rows))
    parts += ["", *_notes(made)]
    return "\n".join(parts) + "\n"


def _pool(one: PooledEffect, modules: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    changed = "-" if one.design == TOGETHER else ", ".join(modules[one.design]) or "nothing"
    low, high = (number(bound, 3) for bound in one.ci95)
    counts = (str(one.ahead), str(one.behind))
    return (
        one.design,
        changed,
        str(one.tasks),
        number(one.effect, 3),
        f"[{low}, {high}]",
        *counts,
    )


def _task_row(task: str, found: dict[str, TaskEffect], designs: Sequence[str]) -> list[str]:
    known = next((one for one in found.values() if not one.reason), None)
    cells = [task, f"{number(known.scale)} {known.unit}" if known else "-"]
    for name in designs:
        one = found.get(name)
        if one is None or one.reason:
            cells.append("-")
            continue
        low, high = (number(bound, 3) for bound in one.ci95)
        cells.append(f"{number(one.effect, 3)} [{low}, {high}]")
    return cells


def _notes(made: MetaTest) -> list[str]:
    """Why there are dashes."""
    by_reason: dict[str, list[str]] = {}
    for one in made.result.effects:
        if one.reason:
            by_reason.setdefault(one.reason, []).append(f"{one.design} on {one.task}")
    notes = [f"- No figure, {reason}: {', '.join(which)}." for reason, which in by_reason.items()]
    if made.absent:
        notes.append(f"- Real sets that were not there: {', '.join(made.absent)}.")
    return notes


if __name__ == "__main__":
    main()
