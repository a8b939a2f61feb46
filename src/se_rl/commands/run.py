"""`se-rl run`: the settings that its options ask for, live progress, and the results."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from se_rl.commands.ctrl_c import CtrlC
from se_rl.commands.parsing import add_options, add_unsafe, given_settings, verb
from se_rl.config import ConfigError, load_yaml

INTERRUPTED = 130
WORTH_AN_OPTION = (
    "data",
    "llm",
    "adapter",
    "free",
    "chain_of_thought",
    "scenario",
    "seed",
    "seal",
    "scored_days",
    "train_until",
    "valid_until",
    "half_spread_bps",
    "fee_bps",
    "max_participation",
    "fill_model",
    "device",
    "arm",
    "against",
    "estimator",
    "start",
    "iterations",
    "parents",
    "siblings",
    "promoted",
    "finalists",
    "work",
    "horizons",
    "dynamic_horizons",
    "sizes",
    "profiles",
    "twins",
    "agents",
    "static_share",
    "risk",
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
    "no-scan": ("the first iteration asks the model at once", {"scan": False}),
    "no-bank": ("nothing is taken from the design bank", {"bank_prior": False}),
    "no-imagine": ("designs imagine no market paths", {"imagine": False}),
    "static-only": ("train and score on history alone", {"worlds": "static"}),
    "dynamic-only": ("train and score in simulated markets alone", {"worlds": "dynamic"}),
}
"""Flags that leave something out, at the same budget."""


def add_run(verbs: Any) -> None:
    """The verb `run`."""
    from se_rl.commands.planning import preset_table
    from se_rl.records.settings import PRESETS, RunConfig

    parser = verb(
        verbs,
        "run",
        "both loops: a language model designs, its designs are trained and scored, and it improves",
        "se-rl run --preset quick --data nasdaq100 --out out/first",
    )
    parser.epilog = f"{preset_table()}\n\n{parser.epilog}"
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
    _add_sharing(parser)
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="trainings at once (default: one per core, of the whole cluster with ray)",
    )
    parser.add_argument(
        "--executor",
        default="local",
        metavar="NAME",
        help="where trainings run: local, ray or ray://HOST:PORT (default: local)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the plan and its estimate; load, train and write nothing",
    )
    add_options(parser, RunConfig, only=WORTH_AN_OPTION, default_from="the preset's")
    left_out = parser.add_argument_group(
        "control arms and ablations, at equal budget (see also --arm)"
    )
    for flag, (words, _) in ABLATIONS.items():
        left_out.add_argument(f"--{flag}", action="store_true", help=words)
    parser.add_argument(
        "--rivals",
        nargs="*",
        metavar="NAME",
        help="also train these learned rivals, each as long as a finalist, for the final tables "
        "(without names: DDQN, OPD, HALOP and MacMic; default: none)",
    )
    add_unsafe(parser)
    parser.set_defaults(run=_run)


def _add_sharing(parser: Any) -> None:
    """The options of runs that share trainings."""
    parser.add_argument(
        "--reuse",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="take trainings of the default and of equal designs from these runs",
    )
    parser.add_argument(
        "--archive",
        default="",
        metavar="URL",
        help="share trainings with other runs: postgresql://USER@HOST/DATABASE "
        "(default: archive.sqlite in the run's folder)",
    )
    parser.add_argument(
        "--blobs",
        metavar="URL",
        help="where a shared archive keeps its files: a folder or an fsspec URL "
        "(default: in the database)",
    )
    parser.add_argument(
        "--islands",
        action="store_true",
        default=None,
        help="trade leading designs with the other searches on the archive",
    )


def settings_of(options: argparse.Namespace) -> Any:
    """The settings that the options ask for: preset, then file, then options, then ablations."""
    from se_rl.records.settings import RunConfig, preset

    base = load_yaml(RunConfig, options.config) if options.config else preset(options.preset)
    config = given_settings(RunConfig, options, base=base)
    changes: dict[str, Any] = {"rivals": _rivals(options.rivals, config.rivals)}
    for flag, (_, values) in ABLATIONS.items():
        if not getattr(options, flag.replace("-", "_")):
            continue
        if "worlds" in changes and "worlds" in values:
            raise ConfigError("--static-only and --dynamic-only leave no world; give one of them")
        changes |= values
    return replace(config, **changes)


def _rivals(given: list[str] | None, stored: tuple[str, ...]) -> tuple[str, ...]:
    """The rivals that are asked for: by name, all of them by the bare option, else as stored."""
    if given is None and not stored:
        return ()
    from se_rl.baselines.registry import field_rivals, rival_named

    names = field_rivals() if given == [] else given or stored
    return tuple(rival_named(name).name for name in names)


def _run(options: argparse.Namespace) -> int:
    config = settings_of(options)
    if options.workers is not None and options.workers < 1:
        raise ConfigError(f"--workers is {options.workers}; use 1 or more")
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain

    if options.dry_run:
        from se_rl.commands.planning import planned, print_plan

        plan = planned(config, options.out, workers=options.workers)
        print(to_json(to_plain(plan))) if options.json else print_plan(plan)
        return 0
    from se_rl.records.results import PRETENDED_SEARCH
    from se_rl.report.live import LiveRun

    results = None
    title = f"se-rl run: {config.data}, {config.designer}, seed {config.seed}"
    if config.against == "bank":
        title += f" ({PRETENDED_SEARCH})"
    with CtrlC() as ctrl_c, LiveRun(quiet=options.json, title=title) as live:
        from se_rl.core.framework import default_folder
        from se_rl.core.run import run_search

        out = options.out or default_folder(config)
        with suppress(KeyboardInterrupt):
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
                archive=options.archive,
                blobs=options.blobs,
            )
    if results is None and not (out / "config.yaml").exists():
        print("se-rl: interrupted before anything was finished", file=sys.stderr)
        return INTERRUPTED
    if results is None:
        again = shlex.join(["se-rl", "run", *_again(options, out)])
        saved = f"all that was finished is saved in {out}"
        print(f"se-rl: interrupted; {saved}; go on with: {again}", file=sys.stderr)
        return INTERRUPTED
    if options.json:
        print(to_json(to_plain(results)))
        return 0
    from se_rl.report.results_table import print_results

    print_results(results, page=out / "report.html")
    return 0


def _again(options: argparse.Namespace, out: Path) -> list[str]:
    """The words that resume a run: its own settings and folder."""
    words = ["--config", str(out / "config.yaml"), "--out", str(out)]
    if options.executor != "local":
        words += ["--executor", options.executor]
    if options.archive:
        from se_rl.records.postgres import stored_url, use_database

        words += ["--archive", stored_url(use_database(options.archive))]
    return [*words, "--unsafe-no-sandbox"] if options.unsafe else words
