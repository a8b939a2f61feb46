"""The model card of a trained adapter: what it was made of, how, and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from se_rl.core.designer_training.skill import OneStep
from se_rl.core.designer_training.training import DesignerPlan, StepRow
from se_rl.core.designer_training.wishes import Following

MOST_BYTES = 10_000_000
"""An adapter that ships is not larger."""


@dataclass(frozen=True)
class AdapterFacts:
    """What an adapter comes from; `learned` and `kept_out_designs` are counted in the bank."""

    adapter: str
    file_bytes: int
    base: str
    base_sha256: str
    bank_sha256: str
    modules: Sequence[str]
    learned: int
    kept_out_designs: int
    command: str
    device: str
    versions: Mapping[str, str]
    seconds: float
    code: str


@dataclass(frozen=True)
class AdapterFigures:
    """What was measured, by designer: skill by two judges, and how wishes are followed."""

    whole_bank: Mapping[str, OneStep]
    kept_out: Mapping[str, OneStep]
    wishes: Mapping[str, Mapping[str, Following]]


def card_page(
    facts: AdapterFacts, plan: DesignerPlan, rows: Sequence[StepRow], figures: AdapterFigures
) -> str:
    """The card in Markdown."""
    lines = [
        f"# Adapter {facts.adapter}",
        "",
        f"A LoRA adapter (rank {plan.rank}, {', '.join(plan.layers)}, norms) of {facts.base}, weights"
        f" {facts.base_sha256[:12]}. It writes edits of {', '.join(facts.modules)}; other modules"
        " were not in its training. Nothing was trained to judge an edit: gains are what the design"
        " bank's surrogate expects.",
        "",
        f"- file: {facts.file_bytes:,} bytes, half precision",
        f"- data: design bank {facts.bank_sha256[:12]}, {facts.learned} designs learned from,"
        f" {facts.kept_out_designs} kept out (whole chains)",
        f"- command: `{facts.command}`",
        f"- adapter gone on from: {plan.adapter[:12]}",
        f"- seed {plan.seed}, {len(rows)} of {plan.steps} steps ({plan.imitation_steps} of imitation"
        f" first), {facts.seconds:.0f} seconds on {facts.device}",
        f"- code {facts.code[:12]}, {', '.join(f'{name} {v}' for name, v in facts.versions.items())}",
        "",
        "## One edit of a parent that was kept out, bps over the parent",
        "",
        "By the surrogate of the whole bank, and by one that knows the kept-out designs alone.",
        "Intervals go by parent.",
        "",
        "| designer | judge | edits | mean gain | 95 % interval | share above 0 |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for judge, found in (("whole bank", figures.whole_bank), ("kept out", figures.kept_out)):
        for name, one in found.items():
            low, high = one.ci95
            lines.append(
                f"| {name} | {judge} | {one.n} | {one.mean_gain:+.3f} | [{low:+.3f}, {high:+.3f}]"
                f" | {one.positive_share:.0%} |"
            )
    lines += ["", "## What was asked for", ""]
    lines += ["| wish | designer | edits | toward | away | net, 95 % interval |"]
    lines += ["|---|---|--:|--:|--:|--:|"]
    for wish, by_designer in figures.wishes.items():
        for name, went in by_designer.items():
            low, high = went.ci95
            lines.append(
                f"| {wish} | {name} | {went.n} | {went.toward:.0%} | {went.away:.0%}"
                f" | {went.net:+.0%} [{low:+.0%}, {high:+.0%}] |"
            )
    return "\n".join(lines) + "\n"


def card_numbers(
    facts: AdapterFacts, plan: DesignerPlan, rows: Sequence[StepRow], figures: AdapterFigures
) -> Mapping[str, object]:
    """The same for programs, with what every step measured."""
    steps = [asdict(row) for row in rows]
    return {**asdict(facts), "plan": asdict(plan), **asdict(figures), "steps": steps}
