"""`se-rl data`: data sets listed, checked, imported and fetched."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from se_rl.commands.parsing import FAILED, Parser, verb
from se_rl.config import ConfigError

UNIVERSES = ("csi100", "nasdaq100")
"""Indices whose members can be looked up."""


def add_data(verbs: Any) -> None:
    """The verb `data`."""
    parser = verbs.add_parser(
        "data", help="data sets: list, check, import, fetch", description="Data sets."
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    listing = verb(actions, "list", "the sets that can be named", "se-rl data list")
    listing.set_defaults(run=_run_data_list)
    check = verb(
        actions,
        "check",
        "what a file says, and what is wrong with it",
        "se-rl data check bars.csv --time-zone UTC",
    )
    check.add_argument("file", type=Path)
    _add_read_options(check)
    check.set_defaults(run=_run_data_check)
    take = verb(
        actions,
        "import",
        "a file into our format, under a name",
        "se-rl data import bars.csv --name nasdaq100",
    )
    take.add_argument("file", type=Path)
    take.add_argument("--name", required=True, help="name of the set, e.g. nasdaq100")
    take.add_argument("--train-until", metavar="DATE", help="last train day of the set, kept in it")
    take.add_argument("--valid-until", metavar="DATE", help="last valid day; test days follow")
    take.add_argument(
        "--repair", action="store_true", help="mend what can be mended; every change is counted"
    )
    _add_read_options(take)
    take.set_defaults(run=_run_data_import)
    fetch = verb(
        actions,
        "fetch",
        "bars from a vendor: a whole universe, or symbols of one's own",
        "se-rl data fetch csi100 --from 2025-01-02",
    )
    fetch.add_argument(
        "universe", nargs="?", choices=UNIVERSES, help="an index: its members are looked up"
    )
    fetch.add_argument(
        "--vendor", help="alpaca, baostock, yfinance or akshare (default: the universe's)"
    )
    fetch.add_argument("--symbols", nargs="+", default=[], help="these instead of the members")
    fetch.add_argument(
        "--members", type=Path, metavar="FILE", help="nasdaq100: a dated list of its members, JSON"
    )
    fetch.add_argument("--from", "--start", dest="start", required=True, metavar="YYYY-MM-DD")
    fetch.add_argument("--to", "--end", dest="end", metavar="YYYY-MM-DD", help="(default: today)")
    fetch.add_argument("--bar-minutes", type=int, help="(default: the vendor's shortest)")
    fetch.add_argument("--name", help="name of the set (default: the universe's)")
    fetch.set_defaults(run=_run_data_fetch)


def _add_read_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exchange",
        choices=("XNYS", "XSHG", "XNSE", "continuous"),
        help="trading hours (default: inferred)",
    )
    parser.add_argument(
        "--bar-minutes", type=int, choices=(1, 5, 15), help="bar length (default: inferred)"
    )
    parser.add_argument(
        "--bar-label",
        choices=("start", "end", "open+end"),
        help="what a timestamp names (default: inferred)",
    )
    parser.add_argument("--time-zone", help="of timestamps without one (default: the exchange's)")
    parser.add_argument(
        "--adjusted", action=argparse.BooleanOptionalAction, help="prices are adjusted for splits"
    )
    parser.add_argument("--symbol", help="name for a file without a symbol column")
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help='which column holds what, e.g. time="Date Time"; may be given several times',
    )


def _read_options(options: argparse.Namespace) -> Any:
    from se_rl.data.frame_layouts import column_map
    from se_rl.data.readers import ReadOptions

    names = ("exchange", "bar_minutes", "bar_label", "time_zone", "adjusted", "symbol")
    return ReadOptions(
        **{name: getattr(options, name) for name in names},
        columns=column_map(options.column),
        repair=getattr(options, "repair", False),
    )


def _run_data_list(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import list_datasets
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    rows = list_datasets()
    print(to_json({"datasets": rows})) if options.json else print_rows("Data sets", rows)


def _run_data_check(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from se_rl.data.checks import check_bars
    from se_rl.data.understanding import understood
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.terminal import print_rows

    how = _read_options(options)
    findings = [asdict(finding) for finding in check_bars(options.file, how)]
    broken = any(finding["severity"] == "error" for finding in findings)
    seen = understood(options.file, how)
    if options.json:
        told = {"file": str(options.file), "usable": not broken, "findings": findings}
        print(to_json(told | {"understood": to_plain(seen)}))
        return FAILED if broken else 0
    if seen is not None:
        rows = [{"what": what, "understood as": words} for what, words in seen.words().items()]
        print_rows(options.file.name, rows)
    if findings:
        print_rows("not usable as it is" if broken else "usable; worth a look", findings)
    else:
        print(f"{options.file.name}: nothing wrong found")
    return FAILED if broken else 0


def _run_data_import(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from se_rl.data.catalog import import_bars, read_any
    from se_rl.data.splits import given_split

    split = given_split(options.train_until, options.valid_until)
    data = read_any(options.file, _read_options(options))
    if split is not None:
        data = replace(data, provenance=replace(data.provenance, split=split))
    _report_import(import_bars(data, options.name), options)


def _run_data_fetch(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import import_bars
    from se_rl.data.frames import bars_from_frame
    from se_rl.data.home import data_home
    from se_rl.data.readers import ReadOptions
    from se_rl.data.universe_fetch import UniverseRequest, fetch_universe
    from se_rl.report.terminal import progress

    name = options.name or options.universe
    if not options.universe and not (options.vendor and options.symbols and name):
        raise ConfigError(
            "nothing says what to fetch; name csi100 or nasdaq100, or give --vendor, --symbols "
            "and --name"
        )
    request = UniverseRequest(
        universe=options.universe or "",
        start=options.start,
        end=options.end,
        vendor=options.vendor,
        bar_minutes=options.bar_minutes,
        symbols=tuple(options.symbols),
        members=options.members,
    )
    with progress(quiet=options.json) as say:
        fetched = fetch_universe(request, data_home() / "parts" / name, say=say)
        form = ReadOptions(
            exchange=fetched.exchange,
            bar_minutes=fetched.bar_minutes,
            bar_label=fetched.bar_label,
            adjusted=fetched.adjusted,
        )
        data = bars_from_frame(fetched.frame, form, name=name)
    for symbol, reason in fetched.failed.items():
        print(f"not fetched: {symbol}: {reason}", file=sys.stderr)
    if fetched.failed:
        print("the same command asks only for what is missing", file=sys.stderr)
    _report_import(import_bars(data, name, notes=fetched.notes), options)


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
