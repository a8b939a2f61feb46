"""`se-rl baselines` and `se-rl evaluate`: tables of strategies and of trained policies."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from se_rl.commands.parsing import (
    add_config,
    add_options,
    add_settings,
    add_unsafe,
    given_settings,
    read_settings,
    verb,
)
from se_rl.config import dump_yaml

if TYPE_CHECKING:
    from se_rl.baselines.settings import BaselinesConfig

TRAINED_WITH = (
    "horizon",
    "scored_days",
    "half_spread_bps",
    "fee_bps",
    "max_participation",
    "fill_model",
)
"""Settings of `evaluate` that are the policy's own unless they are given."""


def add_baselines(verbs: Any) -> None:
    """The verb `baselines`."""
    from se_rl.baselines.settings import BaselinesConfig, LearnedConfig

    parser = verb(
        verbs,
        "baselines",
        "the table of classical (and with --learned, learned) strategies on a data set",
        "se-rl baselines --data nasdaq100 --horizon 240 --split test --html baselines.html",
    )
    add_settings(parser, BaselinesConfig)
    learned = parser.add_argument_group("learned strategies")
    learned.add_argument(
        "--learned",
        action="store_true",
        help="also train PPO, DDQN, OPD, HALOP and MacMic, on history and in simulated markets",
    )
    add_options(learned, LearnedConfig)
    parser.add_argument("--html", type=Path, metavar="PAGE", help="also write one page with charts")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="also write results, orders, settings, the page and trained policies there",
    )
    parser.set_defaults(run=_run_baselines)


def _run_baselines(options: argparse.Namespace) -> None:
    from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
    from se_rl.records.files import to_json, write_parquet, write_text
    from se_rl.report.baselines_table import print_baselines
    from se_rl.report.terminal import progress

    config = read_settings(BaselinesConfig, options)
    learned = given_settings(LearnedConfig, options) if options.learned else None
    with progress(quiet=options.json) as say:
        from se_rl.baselines.table import run_baselines

        results = run_baselines(config, learned=learned, per_order=bool(options.out), say=say)
        orders, policies = results.pop("per_order", None), results.pop("policies", [])
        pages = [
            page for page in (options.html, options.out and options.out / "report.html") if page
        ]
        if pages:
            from se_rl.report.baselines_page import baselines_page

            say("drawing the page")
            html = baselines_page(results)
        for page in pages:
            write_text(page, html)
            write_text(
                page.with_suffix(".config.yaml")
                if page == options.html
                else page.with_name("config.yaml"),
                dump_yaml(config),
            )
        if options.out:
            write_text(options.out / "results.json", to_json(results))
            write_parquet(options.out / "orders.parquet", orders)
        if policies:
            from se_rl.baselines.learned import save_policies

            save_policies(options.out, policies, data=results["data"])
    print(to_json(results)) if options.json else print_baselines(results)
    for page in pages:
        print(f"page: {page}", file=sys.stderr)


def add_evaluate(verbs: Any) -> None:
    """The verb `evaluate`."""
    from se_rl.baselines.settings import BaselinesConfig

    parser = verb(
        verbs,
        "evaluate",
        "a trained policy on other data",
        "se-rl evaluate out/demo --data csi100",
    )
    parser.add_argument(
        "policy", type=Path, metavar="RUN", help="a policy file, or a folder that holds one"
    )
    add_config(parser)
    others = {field.name for field in fields(BaselinesConfig)} - set(TRAINED_WITH)
    add_options(parser, BaselinesConfig, only=TRAINED_WITH, default_from="what it was trained with")
    add_options(parser, BaselinesConfig, only=others)
    parser.add_argument(
        "--walk-forward",
        type=int,
        metavar="K",
        help="train the run's design anew on the past of each of K blocks of days, and pool",
    )
    add_unsafe(parser)
    parser.set_defaults(run=_run_evaluate)


def _run_evaluate(options: argparse.Namespace) -> None:
    from se_rl.baselines.settings import BaselinesConfig
    from se_rl.records.files import to_json
    from se_rl.report.baselines_table import print_baselines
    from se_rl.report.terminal import progress

    given_settings(BaselinesConfig, options)  # misuse is told before anything is loaded
    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.evaluate import evaluate_policy, own_settings

        config = read_settings(BaselinesConfig, options, base=own_settings(options.policy))
    if options.walk_forward is not None:
        _walk_forward(options, config)
        return
    with progress(quiet=options.json) as say:
        results = evaluate_policy(options.policy, config, unsafe=options.unsafe, say=say)
    print(to_json(results)) if options.json else print_baselines(results)


def _walk_forward(options: argparse.Namespace, config: BaselinesConfig) -> None:
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.terminal import print_rows, progress

    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.walk_forward import walk_design_forward

        found = walk_design_forward(
            options.policy, config, blocks=options.walk_forward, unsafe=options.unsafe, say=say
        )
    if options.json:
        print(to_json(to_plain(found)))
        return
    rows = []
    for name, row in found.methods.items():
        for part, gain in (("whole", row.over_TWAP), ("specific", row.over_TWAP_specific)):
            low, high = gain.ci95
            words = {"method": name, "over TWAP, bps": part, "mean": f"{gain.mean:+.2f}"}
            rows.append({**words, "95 %": f"[{low:+.2f}, {high:+.2f}]"})
    blocks = f"{found.days} days in {len(found.folds)} blocks"
    print_rows(f"{found.data}: {blocks}, each after a training on all days before it", rows)
    for note in found.notes:
        print(f"note: {note}")
