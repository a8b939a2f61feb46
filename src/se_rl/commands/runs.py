"""`se-rl run` and what one does with a run: show, score, replay, report, compare."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from se_rl.commands.ctrl_c import CtrlC
from se_rl.commands.parsing import FAILED, Parser, add_options, add_unsafe, given_settings, verb
from se_rl.config import ConfigError, load_yaml

INTERRUPTED = 130
WORTH_AN_OPTION = (
    "data",
    "llm",
    "scenario",
    "seed",
    "arm",
    "estimator",
    "iterations",
    "parents",
    "siblings",
    "promoted",
    "finalists",
    "work",
    "horizon",
    "dynamic_horizon",
    "participation",
    "agents",
    "static_share",
    "epsilon",
    "max_designs",
    "max_minutes",
    "max_tokens",
    "max_usd",
    "usd_in",
    "usd_out",
)
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "no-dek": (
        "no enhancement at all: first prompts, untouched weights",
        {"hle": False, "lle": False},
    ),
    "no-hle": ("prompts are not enhanced", {"hle": False}),
    "no-lle": ("weights are not enhanced", {"lle": False}),
    "no-imagine": ("designs imagine no market paths", {"imagine": False}),
    "static-only": ("train and score on history alone", {"worlds": "static"}),
    "dynamic-only": ("train and score in simulated markets alone", {"worlds": "dynamic"}),
}
"""Flags that leave something out, at the same budget."""


def add_run(verbs: Any) -> None:
    """The verb `run`."""
    from se_rl.records.settings import PRESETS, RunConfig

    parser = verb(
        verbs,
        "run",
        "both loops: a language model designs, its designs are trained and scored, and it improves",
        "se-rl run --preset quick --data nasdaq100 --out out/first",
    )
    parser.add_argument(
        "--preset",
        choices=list(PRESETS),
        default="quick",
        help="how much of everything (default: quick)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help="settings from a file, a run's config.yaml for instance",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the run's folder; the same command on it resumes"
    )
    parser.add_argument(
        "--reuse",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="take trainings of the default and of equal designs from these runs where they are the same work",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="trainings at once (default: one per core)"
    )
    parser.add_argument(
        "--executor", default="local", metavar="NAME", help="where trainings run (default: local)"
    )
    add_options(parser, RunConfig, only=WORTH_AN_OPTION, default_from="the preset's")
    left_out = parser.add_argument_group(
        "control arms and ablations, at equal budget (see also --arm)"
    )
    for flag, (words, _) in ABLATIONS.items():
        left_out.add_argument(f"--{flag}", action="store_true", help=words)
    add_unsafe(parser)
    parser.set_defaults(run=_run)


def settings_of(options: argparse.Namespace) -> Any:
    """The run that the options ask for: preset, then file, then options, then what is left out."""
    from se_rl.records.settings import RunConfig, preset

    base = load_yaml(RunConfig, options.config) if options.config else preset(options.preset)
    config = given_settings(RunConfig, options, base=base)
    changes = [
        values
        for flag, (_, values) in ABLATIONS.items()
        if getattr(options, flag.replace("-", "_"))
    ]
    if {"worlds": "static"} in changes and {"worlds": "dynamic"} in changes:
        raise ConfigError("--static-only and --dynamic-only leave no world; give one of them")
    return replace(config, **{name: value for values in changes for name, value in values.items()})


def _run(options: argparse.Namespace) -> int:
    config = settings_of(options)
    if options.workers is not None and options.workers < 1:
        raise ConfigError(f"--workers is {options.workers}; use 1 or more")
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.live import LiveRun

    title = f"se-rl run: {config.data}, {config.designer}, seed {config.seed}"
    with CtrlC() as ctrl_c, LiveRun(quiet=options.json, title=title) as live:
        from se_rl.core.framework import default_folder
        from se_rl.core.run import run_search

        out = options.out or default_folder(config)
        try:
            results = run_search(
                config,
                out,
                tell=ctrl_c.heeding(live.event),
                say=ctrl_c.heeding(live.stage),
                left=live.estimate,
                workers=options.workers,
                executor=options.executor,
                unsafe=options.unsafe,
                reuse=options.reuse,
            )
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
    if stopped:
        again = shlex.join(["se-rl", "run", *_again(options, out)])
        print(
            f"se-rl: interrupted; all that was finished is saved in {out}; go on with: {again}",
            file=sys.stderr,
        )
        return INTERRUPTED
    if options.json:
        print(to_json(to_plain(results)))
        return 0
    from se_rl.report.results_table import print_results

    print_results(results, page=out / "report.html")
    return 0


def _again(options: argparse.Namespace, out: Path) -> list[str]:
    """The words that resume a run: its own settings and folder."""
    return [
        "--config",
        str(out / "config.yaml"),
        "--out",
        str(out),
        *(["--unsafe-no-sandbox"] if options.unsafe else []),
    ]


def add_show(verbs: Any) -> None:
    """The verb `show`."""
    parser = verb(
        verbs,
        "show",
        "a run at a glance, or one design: source, lineage, scores",
        "se-rl show out/demo a1b2c3",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "design", nargs="?", metavar="DESIGN", help="a design's id, or how it begins"
    )
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.show_design import design_json, print_design, show_design
    from se_rl.report.show_run import print_run, show_run

    _need_run(options.folder)
    if options.design:
        design = show_design(options.folder, options.design)
        print(to_json(design_json(design))) if options.json else print_design(design)
        return
    run = show_run(options.folder)
    print(to_json(to_plain(run))) if options.json else print_run(run)


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
        help="a design's id, how it begins, or 'all' for all accepted ones",
    )
    parser.add_argument(
        "--rung", type=int, choices=(0, 1, 2), help="only this rung (default: all it climbed)"
    )
    add_unsafe(parser)
    parser.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> int:
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows, progress

    _need_run(options.folder)
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
    from se_rl.records.settings import MULTI

    parser = verb(
        verbs,
        "score",
        "modules written by hand, trained and set beside a run's designs",
        "se-rl score out/demo --reward my_reward.py",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    for name in MULTI:
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"a Python file with the {name} module"
        )
    add_unsafe(parser)
    parser.set_defaults(run=_score)


def _score(options: argparse.Namespace) -> int:
    from se_rl.records.files import to_json
    from se_rl.records.settings import MULTI
    from se_rl.report.terminal import print_rows, progress

    files = {name: path for name in MULTI if (path := getattr(options, name)) is not None}
    if not files:
        raise ConfigError(
            "no module is given; name at least one file, for instance --reward my_reward.py"
        )
    _need_run(options.folder)
    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.by_hand import score_by_hand

        found = score_by_hand(options.folder, files, unsafe=options.unsafe, say=say)
    if options.json:
        print(to_json(asdict(found)))
    elif found.reason:
        print(f"{found.design} could not be trained: {found.reason}")
    else:
        rows = [
            {
                "design": row.design + (" (yours)" if row.design == found.design else ""),
                "score over the default, bps": f"{row.score:+.2f} +- {row.se:.2f}",
            }
            for row in found.rows
        ]
        print_rows("designs trained to the search's budget, validation days", rows)
        print(f"yours, {found.design}, is number {found.place} of {found.of}")
    return FAILED if found.reason else 0


def add_report(verbs: Any) -> None:
    """The verb `report`."""
    parser = verb(
        verbs, "report", "a run's page, written anew", "se-rl report out/demo --html page.html"
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--html", type=Path, metavar="PAGE", help="where to (default: report.html in the folder)"
    )
    parser.add_argument(
        "--tensorboard",
        type=Path,
        metavar="DIR",
        help="also write scores and curves for TensorBoard",
    )
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json, write_text
    from se_rl.report.run_page import run_page

    _need_run(options.folder)
    page = options.html or options.folder / "report.html"
    write_text(page, run_page(options.folder))
    if options.tensorboard:
        from se_rl.report.tensorboard import write_tensorboard

        write_tensorboard(options.folder, options.tensorboard)
    print(to_json({"page": str(page)}) if options.json else f"page: {page}")


def add_compare(verbs: Any) -> None:
    """The verb `compare`."""
    parser = verb(
        verbs,
        "compare",
        "runs and control arms side by side, with intervals",
        "se-rl compare out/full-0 out/no-dek-0",
    )
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="folders of finished runs on the same data",
    )
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.comparison_table import print_comparison
    from se_rl.scoring.comparison import compare

    found = compare(options.folders)
    print(to_json(to_plain(found))) if options.json else print_comparison(found)


def _need_run(folder: Path) -> None:
    if not (folder / "archive.sqlite").exists():
        raise ConfigError(
            f"{folder} holds no run (no archive.sqlite); give the folder of one, as made by `se-rl run --out`"
        )


def seeds_spelling(arguments: Sequence[str]) -> list[str]:
    """The seeds' command line (`--dataset D --epochs N [--llm NAME] [--mode eval --checkpoint P]`) in our words."""
    parser = Parser(prog="python -m se_rl.main", allow_abbrev=False)
    parser.add_argument("--mode", choices=("train", "eval"), default="train")
    parser.add_argument("--dataset", default="nasdaq100")
    parser.add_argument("--epochs")
    parser.add_argument("--llm")
    parser.add_argument("--checkpoint")
    known, others = parser.parse_known_args(arguments)
    if known.mode == "eval":
        if known.checkpoint is None:
            raise ConfigError(
                "--mode eval needs --checkpoint: a policy file or the folder of a run"
            )
        return ["evaluate", known.checkpoint, "--data", known.dataset, *others]
    words = ["run", "--data", known.dataset]
    words += ["--iterations", known.epochs] if known.epochs else []
    return words + (["--llm", known.llm] if known.llm else []) + others
