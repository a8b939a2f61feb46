"""`se-rl market`, `llm`, `bench` and `doctor`: the simulated market, the models, and what this
machine can do.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from se_rl.commands.parsing import FAILED, Parser, verb
from se_rl.config import ConfigError

FEWEST_EPISODES = 2
BENCHES = ("book", "market", "outside", "env", "ppo", "sandbox", "llm")


def add_llm(verbs: Any) -> None:
    """The verb `llm`: list and pull models."""
    parser = verbs.add_parser(
        "llm", help="language models: list, pull", description="Language models that design."
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    listing = verb(actions, "list", "the embedded models: which are here", "se-rl llm list")
    listing.set_defaults(run=_run_llm_list)
    pull = verb(actions, "pull", "fetch and verify a model", "se-rl llm pull smollm2")
    pull.add_argument("name", help="smollm2, qwen-coder, or a hub's owner/model")
    pull.set_defaults(run=_run_llm_pull)


def _run_llm_list(options: argparse.Namespace) -> None:
    from se_rl.llm.commands import model_rows
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    rows = model_rows()
    print(to_json({"models": rows})) if options.json else print_rows("Language models", rows)


def _run_llm_pull(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.report.terminal import progress

    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.llm.commands import pull_model

        found = pull_model(options.name, say)
    print(to_json(found) if options.json else f"{found['name']}: {found['folder']}")


def add_bench(verbs: Any) -> None:
    """The verb `bench`: speeds on this machine."""
    parser = verb(
        verbs, "bench", "speeds on this machine, beside installed peers", "se-rl bench env --json"
    )
    parser.add_argument("what", choices=BENCHES, help="what to measure")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="for market (default: cpu)"
    )
    parser.add_argument(
        "--books", type=int, help="for market: how many at once (default: 4096, cuda 131072)"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="time per measurement (default: 2)"
    )
    parser.add_argument(
        "--llm", default="smollm2", metavar="NAME", help="for llm: the model (default: smollm2)"
    )
    parser.add_argument(
        "--designs",
        type=int,
        default=32,
        metavar="N",
        help="for llm: designs per module (default: 32)",
    )
    parser.add_argument(
        "--repairs",
        type=int,
        default=3,
        metavar="N",
        help="for llm: repairs of free Python (default: 3)",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="for outside: episodes of each published row (default: 20000)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PAGE",
        help="for outside: also write the tables there as Markdown, and their JSON beside them",
    )
    parser.set_defaults(run=_run_bench)


def _run_bench(options: argparse.Namespace) -> int:
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_bench, progress
    from se_rl_benchmarks.bench import BenchOptions, run_bench

    chosen = BenchOptions(
        seconds=options.seconds,
        device=options.device,
        books=options.books,
        model=options.llm,
        designs=options.designs,
        repairs=options.repairs,
        episodes=options.episodes,
    )
    if options.episodes is not None and options.episodes < FEWEST_EPISODES:
        raise ConfigError(
            f"--episodes is {options.episodes}; give at least {FEWEST_EPISODES}, "
            "or there is no standard error"
        )
    if options.what == "outside":
        return _bench_outside(options, chosen)
    with progress(quiet=options.json) as say:
        result = run_bench(options.what, chosen, say=say)
    print(to_json(result)) if options.json else print_bench(result)
    return 0


def _bench_outside(options: argparse.Namespace, chosen: Any) -> int:
    """The published rows beside ours, as tables; a failure where they disagree."""
    from se_rl.records.files import to_json, write_text
    from se_rl.report.terminal import print_rows, progress
    from se_rl_benchmarks.bench import run_bench
    from se_rl_benchmarks.bench_outside import page, speed_rows, table_rows

    with progress(quiet=options.json) as say:
        result = run_bench(options.what, chosen, say=say)
    if options.out:
        write_text(options.out, page(result))
        write_text(options.out.with_suffix(".json"), to_json(result))
    if options.json:
        print(to_json(result))
    else:
        print_rows("Published rows beside ours", table_rows(result))
        print_rows("Decision steps a second on one core", speed_rows(result))
    return 0 if result["detail"]["all rows agree"] else FAILED


def add_market(verbs: Any) -> None:
    """The verb `market`: the realism card."""
    parser = verbs.add_parser(
        "market", help="the simulated market: its realism card", description="The simulated market."
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    card = verb(
        actions,
        "card",
        "the simulated market against the stylised facts",
        "se-rl market card --effort 0.1 --html card.html",
    )
    card.add_argument(
        "--profile",
        metavar="NAME|FILE",
        help="small tick, large tick, stressed, or a JSON file (default: small tick)",
    )
    card.add_argument(
        "--against", metavar="DATA", help="real bars or a LOBSTER message file to set it beside"
    )
    card.add_argument(
        "--effort",
        type=float,
        default=1.0,
        help="sample sizes: 1 takes minutes, 0.1 seconds (default: 1)",
    )
    card.add_argument("--seed", type=int, default=0, help="seed of the markets (default: 0)")
    card.add_argument("--html", type=Path, metavar="PAGE", help="also write one page with pictures")
    card.set_defaults(run=_run_card)


def _run_card(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json, write_text
    from se_rl.report.terminal import print_card, progress

    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.data.catalog import read_book_or_bars
        from se_rl.market.card import realism_card
        from se_rl.market.family import SMALL_TICK, free_kinds

        profile = free_kinds([options.profile or SMALL_TICK])[0].profile
        against = read_book_or_bars(options.against) if options.against else None
        card = realism_card(
            profile, seed=options.seed, effort=options.effort, against=against, say=say
        ).as_dict()
        if options.html:
            from se_rl.report.card_page import card_page

            write_text(options.html, card_page(card))
            write_text(options.html.with_suffix(".profile.json"), to_json(asdict(profile)))
    print(to_json(card)) if options.json else print_card(card)
    if options.html:
        print(f"page: {options.html}", file=sys.stderr)


def add_doctor(verbs: Any) -> None:
    """The verb `doctor`."""
    doctor = verb(
        verbs, "doctor", "what is installed and what would mend what is not", "se-rl doctor"
    )
    doctor.set_defaults(run=_run_doctor)


def _run_doctor(options: argparse.Namespace) -> int:
    from se_rl.doctor import examine
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    findings = examine()
    rows = [asdict(finding) for finding in findings]
    print(to_json({"checks": rows})) if options.json else print_rows("se-rl doctor", rows)
    return 0 if all(one.ok or one.optional for one in findings) else FAILED
