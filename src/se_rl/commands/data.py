"""`se-rl data`: data sets listed, checked, imported and fetched."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from se_rl.commands.parsing import FAILED, Parser, verb


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
        actions, "check", "what is wrong with a file", "se-rl data check bars.csv --time-zone UTC"
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
    take.add_argument(
        "--repair", action="store_true", help="mend what can be mended; every change is counted"
    )
    _add_read_options(take)
    take.set_defaults(run=_run_data_import)
    fetch = verb(
        actions,
        "fetch",
        "bars from a vendor, where one can be reached",
        "se-rl data fetch --vendor alpaca --symbols AAPL MSFT "
        "--start 2025-01-02 --end 2025-02-28 --name nasdaq100",
    )
    fetch.add_argument("--vendor", required=True, help="alpaca, baostock, yfinance or akshare")
    fetch.add_argument("--symbols", nargs="+", required=True)
    fetch.add_argument("--start", required=True, metavar="YYYY-MM-DD")
    fetch.add_argument("--end", required=True, metavar="YYYY-MM-DD")
    fetch.add_argument("--bar-minutes", type=int, default=1)
    fetch.add_argument("--name", required=True, help="name of the set, e.g. csi100")
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


def _read_options(options: argparse.Namespace) -> Any:
    from se_rl.data.readers import ReadOptions

    names = ("exchange", "bar_minutes", "bar_label", "time_zone", "adjusted", "symbol")
    return ReadOptions(
        **{name: getattr(options, name) for name in names}, repair=getattr(options, "repair", False)
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
    from se_rl.records.files import to_json
    from se_rl.report.terminal import print_rows

    findings = [asdict(finding) for finding in check_bars(options.file, _read_options(options))]
    broken = any(finding["severity"] == "error" for finding in findings)
    if options.json:
        print(to_json({"file": str(options.file), "usable": not broken, "findings": findings}))
    elif findings:
        print_rows(
            f"{options.file.name}: {'not usable as it is' if broken else 'usable'}", findings
        )
    else:
        print(f"{options.file.name}: nothing wrong found")
    return FAILED if broken else 0


def _run_data_import(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import import_bars, read_any

    _report_import(
        import_bars(read_any(options.file, _read_options(options)), options.name), options
    )


def _run_data_fetch(options: argparse.Namespace) -> None:
    from se_rl.data.catalog import import_bars
    from se_rl.data.frames import bars_from_frame
    from se_rl.data.readers import ReadOptions
    from se_rl.data.vendors import FetchRequest, fetch_bars
    from se_rl.report.terminal import progress

    request = FetchRequest(
        symbols=tuple(options.symbols),
        start=options.start,
        end=options.end,
        bar_minutes=options.bar_minutes,
    )
    with progress(quiet=options.json) as say:
        fetched = fetch_bars(
            options.vendor,
            request,
            progress=lambda symbol, done, total: say(f"{symbol} ({done}/{total})"),
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
