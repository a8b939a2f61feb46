"""`se-rl suite`: designs trained anew on many tasks, each against the default."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from se_rl.commands.designs import add_modules, given_modules
from se_rl.commands.parsing import add_unsafe, verb
from se_rl.config import ConfigError


def add_suite(verbs: Any) -> None:
    """The verb `suite`."""
    parser = verb(
        verbs,
        "suite",
        "designs trained anew on many tasks, each against the default, and pooled",
        "se-rl suite out/demo --half second --seeds 3",
    )
    parser.add_argument(
        "designs",
        nargs="*",
        metavar="DESIGN",
        help="the folder of a run, for its champion, or RUN:ID for another design of it",
    )
    add_modules(parser)
    parser.add_argument(
        "--half",
        choices=("first", "second", "all"),
        default="second",
        help="tasks that searches may see, or those held out from them (default: second)",
    )
    parser.add_argument(
        "--tasks", nargs="+", default=(), metavar="NAME", help="these tasks instead of a half"
    )
    parser.add_argument(
        "--data",
        nargs="+",
        default=(),
        metavar="PATH|NAME",
        help="sets of your own as further tasks",
    )
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help="trainings of each design (default: 3)"
    )
    parser.add_argument(
        "--work",
        type=float,
        default=1.0,
        metavar="X",
        help="times each task's usual work (default: 1)",
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="tasks at once (default: 1)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/suite"),
        metavar="DIR",
        help="keeps all trainings; the same command goes on (default: out/suite)",
    )
    add_unsafe(parser)
    parser.set_defaults(run=_suite)


def _suite(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.suite_table import print_suite
    from se_rl.report.terminal import progress

    for name in ("work", "workers"):
        if not getattr(options, name) > 0:
            raise ConfigError(f"--{name} is {getattr(options, name)}; give a number above 0")
    files = given_modules(options)
    if not options.designs and not files:
        raise ConfigError(
            "no design is given; name a run's folder, or a module's file by --network"
        )
    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.suite.designs import design_by_hand, named_design
        from se_rl.core.suite.running import SuitePlan, run_suite
        from se_rl.core.suite.tasks import chosen_tasks, history_task

        designs = [named_design(text) for text in options.designs]
        if files:
            designs.append(design_by_hand(files))
        tasks = [*chosen_tasks(options.half, options.tasks)]
        tasks += [history_task(Path(data).stem, data) for data in options.data]
        plan = SuitePlan(
            tuple(designs),
            tuple(task.times(options.work) for task in tasks),
            options.seeds,
            options.out,
            unsafe=options.unsafe,
        )
        result = run_suite(plan, workers=options.workers, say=say)
    print(to_json(to_plain(result))) if options.json else print_suite(result)
