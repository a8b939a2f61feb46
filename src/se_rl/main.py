"""The command line: one command, `se-rl`, whose verbs parse, call one function and print what it returned.

Errors of the user are one line on stderr and exit code 2. Heavy imports happen inside the verbs: `se-rl --help` loads
neither torch nor pandas.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from se_rl import __version__
from se_rl.config import ConfigError, dump_yaml, load_yaml, parse

INTERRUPTED, FAILED, MISUSED = 130, 1, 2
BENCHES = ("book", "market", "env", "ppo", "sandbox", "llm")


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that say how to get help."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line."""
        self.exit(MISUSED, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `se-rl`; returns the exit code."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin for work starve a busy machine
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except (ConfigError, ValueError) as error:
        if not {"ConfigError", "DataError"} & {kind.__name__ for kind in type(error).__mro__}:
            raise
        return _complain(error, MISUSED)
    except RuntimeError as error:
        if type(error).__name__ not in ("CheckError", "SandboxError", "LlmError"):
            raise
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing was half written, run the same command again", INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED


def build_parser() -> Parser:
    """All verbs with their options."""
    parser = Parser(prog="se-rl", description="A self-evolving RL researcher for financial order execution.")
    parser.add_argument("--version", action="version", version=f"se-rl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    _add_baselines(verbs)
    _add_evaluate(verbs)
    _add_data(verbs)
    _add_market(verbs)
    _add_llm(verbs)
    _add_bench(verbs)
    doctor = _verb(verbs, "doctor", "what is installed and what would mend what is not", "se-rl doctor")
    doctor.set_defaults(run=_run_doctor)
    return parser


def _verb(verbs: Any, name: str, summary: str, example: str) -> Parser:
    parser: Parser = verbs.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    return parser


def add_settings(parser: argparse.ArgumentParser, kind: Any) -> None:
    """One option per field of a settings class; what is not given stays with the YAML file or the default."""
    parser.add_argument("--config", type=Path, metavar="YAML", help="settings from a file; options given here win")
    add_options(parser, kind)


def add_options(parser: Any, kind: Any) -> None:
    """The options alone, for settings that have no file of their own."""
    for f in fields(kind):
        default = None if f.default is MISSING else f.default
        parser.add_argument(
            f"--{f.name.replace('_', '-')}",
            dest=f.name,
            choices=f.metadata["choices"],
            metavar=None if f.metadata["choices"] else f.metadata["metavar"],
            nargs="+" if default == () else None,
            help=f"{f.metadata['help']} (default: {_shown(default)})",
        )


def _shown(default: Any) -> str:
    return {None: "none", (): "all"}.get(default, str(default))


def read_settings(kind: Any, options: argparse.Namespace) -> Any:
    """Settings from defaults, then the YAML file, then the command line."""
    base = load_yaml(kind, options.config) if options.config else kind()
    return given_settings(kind, options, base=base)


def given_settings(kind: Any, options: argparse.Namespace, *, base: Any = None) -> Any:
    """Settings from the command line over those of `base` (None: the defaults)."""
    given = {f.name: value for f in fields(kind) if (value := getattr(options, f.name)) is not None}
    parsed = parse(kind, given, source="command line")
    return replace(base or kind(), **{name: getattr(parsed, name) for name in given})


def _add_baselines(verbs: Any) -> None:
    from se_rl.baselines.settings import BaselinesConfig, LearnedConfig

    parser = _verb(
        verbs,
        "baselines",
        "the table of classical (and with --learned, learned) strategies on a data set",
        "se-rl baselines --data nasdaq100 --horizon 240 --split test --html baselines.html",
    )
    add_settings(parser, BaselinesConfig)
    learned = parser.add_argument_group("learned strategies")
    learned.add_argument(
        "--learned", action="store_true", help="also train the default PPO, on history and in simulated markets"
    )
    add_options(learned, LearnedConfig)
    parser.add_argument("--html", type=Path, metavar="PAGE", help="also write one page with charts")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="also write results.json, orders.parquet, config.yaml, report.html and trained policies there",
    )
    parser.set_defaults(run=_run_baselines)


def _run_baselines(options: argparse.Namespace) -> None:
    from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
    from se_rl.records.files import to_json, write_parquet, write_text
    from se_rl.report.terminal import baselines_table, progress

    config = read_settings(BaselinesConfig, options)
    learned = given_settings(LearnedConfig, options) if options.learned else None
    with progress(quiet=options.json) as say:
        from se_rl.baselines.table import run_baselines

        results = run_baselines(config, learned=learned, per_order=bool(options.out), say=say)
        orders, policies = results.pop("per_order", None), results.pop("policies", [])
        pages = [page for page in (options.html, options.out and options.out / "report.html") if page]
        if pages:
            from se_rl.report.baselines_page import baselines_page

            say("drawing the page")
            html = baselines_page(results)
        for page in pages:
            write_text(page, html)
            write_text(
                page.with_suffix(".config.yaml") if page == options.html else page.with_name("config.yaml"),
                dump_yaml(config),
            )
        if options.out:
            write_text(options.out / "results.json", to_json(results))
            write_parquet(options.out / "orders.parquet", orders)
        if policies:
            from se_rl.baselines.learned import save_policies

            save_policies(options.out, policies, data=results["data"])
    print(to_json(results)) if options.json else baselines_table(results)
    for page in pages:
        print(f"page: {page}", file=sys.stderr)


def _add_evaluate(verbs: Any) -> None:
    from se_rl.baselines.settings import BaselinesConfig

    parser = _verb(
        verbs, "evaluate", "a trained policy on other data", "se-rl evaluate out/demo/ppo-strong-0.policy --data csi100"
    )
    parser.add_argument("policy", type=Path, metavar="RUN", help="a policy file, or a folder that holds one")
    add_settings(parser, BaselinesConfig)
    _add_unsafe(parser)
    parser.set_defaults(run=_run_evaluate)


def _add_unsafe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unsafe-no-sandbox", dest="unsafe", action="store_true",
        help="run designed source even where no isolation is available; recorded in the result",
    )  # fmt: skip


def _run_evaluate(options: argparse.Namespace) -> None:
    from se_rl.baselines.settings import BaselinesConfig
    from se_rl.records.files import to_json
    from se_rl.report.terminal import baselines_table, progress

    config = read_settings(BaselinesConfig, options)
    with progress(quiet=options.json) as say:
        say("loading")
        from se_rl.core.evaluate import evaluate_policy

        results = evaluate_policy(options.policy, config, unsafe=options.unsafe, say=say)
    print(to_json(results)) if options.json else baselines_table(results)


def _add_data(verbs: Any) -> None:
    parser = verbs.add_parser("data", help="data sets: list, check, import, fetch", description="Data sets.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    listing = _verb(actions, "list", "the sets that can be named", "se-rl data list")
    listing.set_defaults(run=_run_data_list)
    check = _verb(actions, "check", "what is wrong with a file", "se-rl data check bars.csv --time-zone UTC")
    check.add_argument("file", type=Path)
    _add_read_options(check)
    check.set_defaults(run=_run_data_check)
    take = _verb(
        actions, "import", "a file into our format, under a name", "se-rl data import bars.csv --name nasdaq100"
    )
    take.add_argument("file", type=Path)
    take.add_argument("--name", required=True, help="name of the set, e.g. nasdaq100")
    take.add_argument("--repair", action="store_true", help="mend what can be mended; every change is counted")
    _add_read_options(take)
    take.set_defaults(run=_run_data_import)
    fetch = _verb(
        actions,
        "fetch",
        "bars from a vendor, where one can be reached",
        "se-rl data fetch --vendor alpaca --symbols AAPL MSFT --start 2025-01-02 --end 2025-02-28 --name nasdaq100",
    )
    fetch.add_argument("--vendor", required=True, help="alpaca, baostock, yfinance or akshare")
    fetch.add_argument("--symbols", nargs="+", required=True)
    fetch.add_argument("--start", required=True, metavar="YYYY-MM-DD")
    fetch.add_argument("--end", required=True, metavar="YYYY-MM-DD")
    fetch.add_argument("--bar-minutes", type=int, default=1)
    fetch.add_argument("--name", required=True, help="name of the set, e.g. csi100")
    fetch.set_defaults(run=_run_data_fetch)


def _add_read_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exchange", choices=("XNYS", "XSHG", "continuous"), help="trading hours (default: inferred)")
    parser.add_argument("--bar-minutes", type=int, choices=(1, 5, 15), help="bar length (default: inferred)")
    parser.add_argument(
        "--bar-label", choices=("start", "end", "open+end"), help="what a timestamp names (default: inferred)"
    )
    parser.add_argument("--time-zone", help="of timestamps without one (default: the exchange's)")
    parser.add_argument("--adjusted", action=argparse.BooleanOptionalAction, help="prices are adjusted for splits")
    parser.add_argument("--symbol", help="name for a file without a symbol column")


def _read_options(options: argparse.Namespace) -> Any:
    from se_rl.data.readers import ReadOptions

    names = ("exchange", "bar_minutes", "bar_label", "time_zone", "adjusted", "symbol")
    return ReadOptions(**{name: getattr(options, name) for name in names}, repair=getattr(options, "repair", False))


def _run_data_list(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import list_datasets
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    rows = list_datasets()
    print(to_json({"datasets": rows})) if options.json else print_rows("Data sets", rows)


def _run_data_check(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from se_rl.data.checks import check_bars
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    findings = [asdict(finding) for finding in check_bars(options.file, _read_options(options))]
    broken = any(finding["severity"] == "error" for finding in findings)
    if options.json:
        print(to_json({"file": str(options.file), "usable": not broken, "findings": findings}))
    elif findings:
        print_rows(f"{options.file.name}: {'not usable as it is' if broken else 'usable'}", findings)
    else:
        print(f"{options.file.name}: nothing wrong found")
    return FAILED if broken else 0


def _run_data_import(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import import_bars, read_any

    _report_import(import_bars(read_any(options.file, _read_options(options)), options.name), options)


def _run_data_fetch(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import import_bars
    from se_rl.data.frames import bars_from_frame
    from se_rl.data.readers import ReadOptions
    from se_rl.data.vendors import FetchRequest, fetch_bars
    from se_rl.report.terminal import progress

    request = FetchRequest(
        symbols=tuple(options.symbols), start=options.start, end=options.end, bar_minutes=options.bar_minutes
    )
    with progress(quiet=options.json) as say:
        fetched = fetch_bars(
            options.vendor, request, progress=lambda symbol, done, total: say(f"{symbol} ({done}/{total})")
        )
        form = ReadOptions(
            exchange=fetched.exchange,
            bar_minutes=options.bar_minutes,
            bar_label=fetched.bar_label,
            adjusted=fetched.adjusted,
        )
        data = bars_from_frame(fetched.frame, form, name=options.name)
    _report_import(import_bars(data, options.name, notes=fetched.notes), options)


def _report_import(summary: dict[str, Any], options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json

    if options.json:
        print(to_json(summary))
        return
    print(
        f"{summary['name']}: {summary['symbols']} symbols, {summary['sessions']} sessions, "
        f"{summary['bars']:,} bars -> {summary['path']}"
    )
    for note in summary["notes"]:
        print(f"  note: {note}")


def _add_llm(verbs: Any) -> None:
    parser = verbs.add_parser("llm", help="language models: list, pull", description="Language models that design.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    listing = _verb(actions, "list", "the embedded models: which are here", "se-rl llm list")
    listing.set_defaults(run=_run_llm_list)
    pull = _verb(actions, "pull", "fetch and verify a model", "se-rl llm pull smollm2")
    pull.add_argument("name", help="smollm2 or qwen-coder")
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


def _add_bench(verbs: Any) -> None:
    parser = _verb(verbs, "bench", "speeds on this machine, beside installed peers", "se-rl bench env --json")
    parser.add_argument("what", choices=BENCHES, help="what to measure")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for market (default: cpu)")
    parser.add_argument("--books", type=int, help="for market: how many at once (default: 4096, cuda 65536)")
    parser.add_argument("--seconds", type=float, default=2.0, help="time per measurement (default: 2)")
    parser.add_argument("--llm", default="smollm2", metavar="NAME", help="for llm: the model (default: smollm2)")
    parser.add_argument(
        "--designs", type=int, default=32, metavar="N", help="for llm: designs per module (default: 32)"
    )
    parser.set_defaults(run=_run_bench)


def _run_bench(options: argparse.Namespace) -> None:
    from se_rl.bench import run_bench
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_bench, progress

    with progress(quiet=options.json) as say:
        result = run_bench(
            options.what, seconds=options.seconds, device=options.device, books=options.books, model=options.llm,
            designs=options.designs, say=say,
        )  # fmt: skip
    print(to_json(result)) if options.json else print_bench(result)


def _add_market(verbs: Any) -> None:
    parser = verbs.add_parser(
        "market", help="the simulated market: its realism card", description="The simulated market."
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    card = _verb(
        actions,
        "card",
        "the simulated market against the stylised facts",
        "se-rl market card --effort 0.1 --html card.html",
    )
    card.add_argument("--profile", type=Path, metavar="YAML", help="a market profile (default: the calibrated one)")
    card.add_argument("--against", metavar="DATA", help="real bars or a LOBSTER message file to set it beside")
    card.add_argument(
        "--effort", type=float, default=1.0, help="sample sizes: 1 takes minutes, 0.1 seconds (default: 1)"
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
        from se_rl.market.profile import MarketProfile

        profile = load_yaml(MarketProfile, options.profile) if options.profile else None
        against = read_book_or_bars(options.against) if options.against else None
        card = realism_card(profile, seed=options.seed, effort=options.effort, against=against, say=say)
        if options.html:
            from se_rl.report.card_page import card_page

            write_text(options.html, card_page(card))
            write_text(options.html.with_suffix(".profile.yaml"), dump_yaml(profile or MarketProfile()))
    print(to_json(card)) if options.json else print_card(card)
    if options.html:
        print(f"page: {options.html}", file=sys.stderr)


def _run_doctor(options: argparse.Namespace) -> int:
    from se_rl.doctor import examine
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    rows = examine()
    print(to_json({"checks": rows})) if options.json else print_rows("se-rl doctor", rows)
    return 0 if all(row["ok"] or row["optional"] for row in rows) else FAILED


def _complain(message: object, code: int) -> int:
    print(f"se-rl: {' '.join(str(message).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
