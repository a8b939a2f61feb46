"""`se-rl replay` and `score`: one design trained again, or one written by hand trained beside a
run's.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from se_rl.commands.parsing import FAILED, add_unsafe, require_run, verb
from se_rl.config import ConfigError


def add_replay(verbs: Any) -> None:
    """The verb `replay`."""
    parser = verb(
        verbs,
        "replay",
        "train and score a design again from the record: the same bits",
        "se-rl replay out/demo a1b2c3",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "design",
        metavar="DESIGN",
        help="a design's id, how it begins, or 'all': those that raced, and the default",
    )
    parser.add_argument(
        "--rung", type=int, choices=(0, 1, 2), help="only this rung (default: all it climbed)"
    )
    add_unsafe(parser)
    parser.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> int:
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows, progress

    require_run(options.folder)
    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.replay import accepted, replay

        names = (
            accepted(options.folder, rung=options.rung)
            if options.design == "all"
            else [options.design]
        )
        found = replay(options.folder, names, rung=options.rung, unsafe=options.unsafe, say=say)
    equal = all(one.equal and one.future_blind and one.fraud.passed for one in found)
    if options.json:
        designs = []
        for one in found:
            judged = {"equal": one.equal, "future_blind": one.future_blind}
            designs.append(asdict(one) | judged)
        print(to_json({"equal": equal, "designs": designs}))
        return 0 if equal else FAILED
    rows = []
    for one in found:
        for e in one.evaluations:
            blind = "not tried" if e.future_blind is None else e.future_blind
            row = {"design": one.design, "rung": e.rung, "seed": e.seed, "same bits": e.equal}
            rows.append(row | {"blind to the future": blind})
    print_rows("replayed", rows)
    same = sum(bool(row["same bits"]) for row in rows)
    print(f"{same} of {len(rows)} evaluations gave the same bits")
    for one in found:
        print(f"{one.design}: fraud check {one.fraud.reason or 'passed'}")
    return 0 if equal else FAILED


def add_score(verbs: Any) -> None:
    """The verb `score`."""
    parser = verb(
        verbs,
        "score",
        "modules written by hand, trained and set beside a run's designs",
        "se-rl score out/demo --reward my_reward.py",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    add_modules(parser)
    add_unsafe(parser)
    parser.set_defaults(run=_score)


def add_modules(parser: argparse.ArgumentParser) -> None:
    """An option for the file of each module."""
    from se_rl.records.settings import MULTI

    for name in MULTI:
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"a Python file with the {name} module"
        )


def given_modules(options: argparse.Namespace) -> dict[str, Path]:
    """The files of the modules that were given."""
    from se_rl.records.settings import MULTI

    return {name: path for name in MULTI if (path := getattr(options, name)) is not None}


def _score(options: argparse.Namespace) -> int:
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows, progress

    files = given_modules(options)
    if not files:
        raise ConfigError(
            "no module is given; name at least one file, for instance --reward my_reward.py"
        )
    require_run(options.folder)
    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.by_hand import score_by_hand

        found = score_by_hand(options.folder, files, unsafe=options.unsafe, say=say)
    if options.json:
        print(to_json(asdict(found)))
    elif found.reason:
        print(f"{found.design} could not be trained: {found.reason}")
    else:
        rows = []
        for row in found.rows:
            mine = " (yours)" if row.design == found.design else ""
            score = f"{row.score:+.2f} ± {row.se:.2f}"
            rows.append({"design": row.design + mine, "score over the default, bps": score})
        print_rows("designs trained to the search's budget, validation days", rows)
        print(f"yours, {found.design}, is number {found.place} of {found.of}")
    return FAILED if found.reason else 0
