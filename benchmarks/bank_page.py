"""The page of a design bank in docs/results, with its JSON twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill, shorten

from se_rl.modules.design_bank.readings import BankHead
from se_rl.modules.design_bank.surrogate import STRENGTHS
from se_rl.modules.kinds import KINDS
from se_rl.records.files import to_json
from se_rl_benchmarks.bank_figures import (
    FOLDS,
    TWICE_LAST,
    BankFigures,
    EditGain,
    GroupFigures,
    RankCorrelation,
)
from se_rl_benchmarks.markdown_tables import number, signed, table

SHOWN = 10
"""Edits of each end that the page shows."""
MOST_LETTERS = 160
"""Of an edit that the page shows."""
HEAD = """# The design bank

Made by `python benchmarks/design_bank.py --pack FILE.jsonl`; do not edit. {designs} designs trained
on {data} (synthetic days) and the market family, preset {preset}, {work:g} work units a search
training: {kinds}. {failed} trainings failed. Gains are of the score, in bps over the default of the
same seed on the same orders. One training's luck is {seed_sd:.2f} bps, {luck}. All of it lies in the
package as `se_rl/modules/design_bank/bank.parquet`.
"""
AGREEMENT = """## How far trainings agree

Spearman's rank correlation of gains. What two seeds of one training keep bounds what any prediction
of single trainings can reach. Random designs lie far below all others and flatter the figure over
all; the better half is that of the second reading.
"""
GROUPS = """## By where designs lie

Half the batch, one layer and wider actions together, which most searches end at, train with far
more luck than the default does, and designs that are alike share much of a seed's luck: there one
seed tells little, however many designs it trained. Half of the designs that were trained again were
chosen because their first training was good, which takes from what pairs of readings have in
common. Gains and luck are in bps; ranks are correlated over all of the group.
"""
SURROGATE = """## The surrogate on designs that it has not seen

A Gaussian process over choices ({strengths}), fitted on the other {rest} of {folds} folds; a chain of
edits is left out as a whole. Its strengths are those under which all readings are most likely
(`bank_strengths.py`): a handful of numbers, chosen with no fold left out. Predicted and measured
gains differ by {errors}, the luck of the one training included.
"""
EDITS = """## Single edits after a last-rung training

{n} edits; the {shown} best and the {shown} worst of them. The gain is the mean of one or two trainings,
with the error of days, episodes and training seeds; the best of many is lucky, so `expected` says
what the surrogate, which has seen all readings, makes of it.
"""


def write_page(folder: Path, head: BankHead, figures: BankFigures) -> None:
    """Put the page and its twin into a folder."""
    told = {"head": {**asdict(head), "default": None}, **asdict(figures)}
    (folder / "bank.json").write_text(to_json(told) + "\n")
    (folder / "bank.md").write_text(page(head, figures))


def page(head: BankHead, figures: BankFigures) -> str:
    """The page in Markdown."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures.by_kind.items())
    parts = [
        HEAD.format(
            designs=figures.designs,
            data=head.data,
            preset=head.preset,
            work=head.work,
            kinds=kinds,
            failed=figures.failed,
            seed_sd=figures.seed_sd,
            luck=_luck(figures),
        ),
        _today(head, figures),
        table(("training", "designs"), _counts(figures.trainings)) + "\n",
        AGREEMENT,
        _correlations("readings", figures.agreement),
        SURROGATE.format(
            strengths=_strengths(), rest=FOLDS - 1, folds=FOLDS, errors=_errors(figures)
        ),
        _correlations("predicted", figures.held_out),
        GROUPS,
        _groups(figures.groups),
        EDITS.format(n=len(figures.edits), shown=SHOWN),
        _edits([*figures.edits[:SHOWN], *figures.edits[SHOWN:][-SHOWN:]]),
    ]
    return "\n".join(map(_filled, parts))


def _today(head: BankHead, figures: BankFigures) -> str:
    """How far the default of today is above the bank's own."""
    if all(KINDS[module].default_source == text for module, text in head.default.items()):
        return "The bank's own default is that of today.\n"
    if not figures.today:
        return "Searches begin with another default today, which this bank has not trained.\n"
    gains = ", ".join(f"{signed(gain)} ({way})" for way, gain in figures.today.items())
    return (
        "Searches begin with another default today, which is one of the `near` designs. Over the"
        f" bank's own, with which all gains here are compared, it gained {gains}.\n"
    )


def _filled(part: str) -> str:
    """Text in lines that fit; tables and headings as they are."""
    pieces = []
    for piece in part.split("\n\n"):
        is_text = not piece.startswith(("#", "|"))
        pieces.append(fill(piece, 100) + "\n" if is_text else piece)
    return "\n\n".join(pieces)


def _luck(figures: BankFigures) -> str:
    if figures.luck.pairs:
        return f"measured by {figures.luck.pairs} pairs of trainings that differ in the seed alone"
    return "a guess: too few designs were trained twice alike"


def _errors(figures: BankFigures) -> str:
    said = []
    for name, error in figures.held_out_error.items():
        said.append(f"{number(error)} bps ({name})")
    return " and ".join(said)


def _counts(trainings: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(way, str(count)) for way, count in trainings.items()]


def _strengths() -> str:
    return ", ".join(f"{name} {value:g}" for name, value in asdict(STRENGTHS).items())


def _correlations(what: str, found: Mapping[str, RankCorrelation]) -> str:
    rows = []
    for name, one in found.items():
        rows.append((name, str(one.n), number(one.over_all), number(one.better_half)))
    return table((what, "designs", "over all", "over the better half"), rows) + "\n"


def _groups(groups: Mapping[str, GroupFigures]) -> str:
    """A row for each figure, a column for each group."""
    head = ["figure"]
    rows: dict[str, list[str]] = {}

    def add(what: str, *cells: str) -> None:
        rows.setdefault(what, [what]).extend(cells)

    for name, one in groups.items():
        head += [name, "designs"]
        add("luck of one training", number(one.seed_sd), f"{one.luck.pairs} pairs")
        twice = str(one.agreement[TWICE_LAST].n)
        add("mean gain at the last rung, one seed", signed(one.last_by_seed[0]), twice)
        add("the same designs, the other seed", signed(one.last_by_seed[1]), twice)
        for what, found in one.agreement.items():
            add(what, number(found.over_all), str(found.n))
        for what, found in one.held_out.items():
            add(f"predicted: {what}", number(found.over_all), str(found.n))
    return table(head, rows.values()) + "\n"


def _edits(edits: Sequence[EditGain]) -> str:
    rows = []
    for one in edits:
        gain = f"{signed(one.last)} ± {number(one.se)}"
        change = shorten(one.change, MOST_LETTERS).replace("|", "\\|")
        rest = (str(one.trainings), signed(one.search), signed(one.expected))
        rows.append((one.module, f"`{change}`", gain, *rest))
    head = ("module", "edit", "last rung", "trainings", "search training", "expected")
    return table(head, rows) + "\n"
