"""`se-rl show`, `report` and `compare`: what one reads of runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from se_rl.commands.parsing import require_run, verb
from se_rl.commands.strangers import write_page


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

    require_run(options.folder)
    if options.design:
        design = show_design(options.folder, options.design)
        print(to_json(design_json(design))) if options.json else print_design(design)
        return
    run = show_run(options.folder)
    print(to_json(to_plain(run))) if options.json else print_run(run)


def add_report(verbs: Any) -> None:
    """The verb `report`."""
    parser = verb(
        verbs, "report", "a run's page, written anew", "se-rl report out/demo --html page.html"
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--html",
        "--out",
        type=Path,
        metavar="PAGE",
        help="where to (default: report.html in the folder)",
    )
    parser.add_argument(
        "--tensorboard",
        type=Path,
        metavar="DIR",
        help="also write scores and curves for TensorBoard",
    )
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.report.run_page import run_page

    require_run(options.folder)
    page = options.html or options.folder / "report.html"
    write_page(page, run_page(options.folder))
    if options.tensorboard:
        from se_rl.report.tensorboard import write_tensorboard

        write_tensorboard(options.folder, options.tensorboard)
    print(to_json({"page": str(page)}) if options.json else f"page: {page}")


def add_compare(verbs: Any) -> None:
    """The verb `compare`."""
    parser = verb(
        verbs,
        "compare",
        "runs side by side, grouped by what differs between them, with intervals",
        "se-rl compare out/full-0 out/no-dek-0",
    )
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="folders of finished runs",
    )
    parser.add_argument("--html", type=Path, metavar="PAGE", help="also write one page with charts")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.records.plain import to_plain
    from se_rl.report.comparison_table import print_comparison
    from se_rl.scoring.comparison import compare

    found = compare(options.folders)
    if options.html:
        from se_rl.report.comparison_page import comparison_page

        write_page(options.html, comparison_page(found))
    print(to_json(to_plain(found))) if options.json else print_comparison(found)
    if options.html and not options.json:
        print(f"page: {options.html}")
