"""What a run would do, before anything is loaded: the table of presets, and `se-rl run --dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from se_rl.core.plan import RunPlan, plan_run, usable_cores
from se_rl.records.settings import PRESETS, RunConfig, preset
from se_rl.report.numbers import about

PURPOSES = {
    "tiny": "seeing the machinery turn; its scores mean nothing",
    "quick": "a first look",
    "standard": "tables, with several seeds per arm",
    "paper": "everything at full length",
}
USUAL_WORKERS = 2


def preset_table() -> str:
    """The presets side by side, as `se-rl run --help` prints them."""
    rows = [("preset", "designs", "iterations", "work units", "on two cores", "what for")]
    for name in PRESETS:
        plan = plan_run(preset(name), "", workers=USUAL_WORKERS)
        takes = about(plan.seconds)
        sizes = (f"{plan.designs:,}", f"{plan.iterations}", f"{plan.work:,.0f}")
        rows.append((name, *sizes, takes, PURPOSES.get(name, "")))
    return "\n".join(("presets:", *_aligned(rows)))


def print_plan(plan: RunPlan) -> None:
    """The plan and its estimate, in the order in which things happen."""
    print(f"plan: {plan.data}, designed by {plan.designer}, in {plan.folder}")
    print(f"up to {plan.designs:,} designs in {plan.iterations} iterations")
    rows = [("rung", "designs", "trainings", "work units each", "work units")]
    for rung in plan.rungs:
        sizes = (f"{rung.designs:,.0f}", f"{rung.trainings:,.0f}", f"{rung.work_each:g}")
        rows.append((rung.rung, *sizes, f"{rung.work:,.0f}"))
    print("\n".join(_aligned(rows)))
    print(
        f"estimate: {about(plan.seconds)} of trainings and answers with {plan.workers} trainings at "
        "once, which the run corrects after its first; loading and the test days come on top"
    )
    print("nothing was loaded, trained or written")


def planned(config: RunConfig, folder: Path | None, *, workers: int | None) -> RunPlan:
    """The plan of a run with these settings, in its folder or the one that they name."""
    if config.asks_model and config.chain_of_thought:
        from se_rl.core.beginning import check_reasons

        check_reasons(config)
    if folder is None:
        from se_rl.core.framework import default_folder

        folder = default_folder(config)
    return plan_run(config, str(folder), workers=workers or usable_cores())


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines whose columns begin below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
