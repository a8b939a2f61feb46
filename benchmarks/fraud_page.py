"""The table of frauds: kept as JSON while it grows, written as a page."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from se_rl.config import parse
from se_rl.records.files import write_text

PLAYS = {"several": "several windows", "one": "one window", "simulated": "simulated"}
BY_LUCK = 44
"""Looks of which one is beyond two standard errors by luck."""
FIRES = 4.0
"""Standard errors that a fraud must earn uncontrolled, as the tests ask."""
Figure = tuple[float, float] | None
"""A gain in bps and its standard error; none where there was no play."""


@dataclass(frozen=True)
class Play:
    """One fraud on one kind of market; `again` is a second look, `refused` why its policy ended."""

    gain: Figure = None
    again: Figure = None
    refused: str = ""
    crashed: str = ""
    succeeded: bool = False

    def words(self) -> str:
        """What it earned."""
        if self.crashed:
            return f"CRASH {self.crashed}"
        if self.gain is None:
            return "policy refused"
        second = "" if self.again is None else f", again {self.again[0]:+.2f}"
        return f"{self.gain[0]:+.2f} ± {self.gain[1]:.2f}{second}"


@dataclass(frozen=True)
class FraudRow:
    """One fraud: what it earned uncontrolled, what it earns now, and what the check says."""

    name: str
    kind: str
    control: Figure
    plays: dict[str, Play]
    verdicts: dict[str, str]

    @property
    def succeeded(self) -> bool:
        """Whether it had its way anywhere."""
        return any(play.succeeded for play in self.plays.values())

    @property
    def verdict(self) -> str:
        """What the check says, by history or else by simulated orders."""
        found = [words for words in self.verdicts.values() if not words.startswith("nothing but")]
        return found[0] if found else self.verdicts.get("history", "")

    def line(self) -> str:
        """A row of the Markdown table."""
        control = "" if self.control is None else f"{self.control[0]:+.2f} ± {self.control[1]:.2f}"
        cells = [self.kind, self.name, control]
        for name in PLAYS:
            cells.append(self.plays[name].words() if name in self.plays else "")
        return f"| {' | '.join([*cells, self.verdict])} |"


@dataclass(frozen=True)
class HonestDesign:
    """A design drawn from the grammar, alone or with another that it talks to; `reason` is what the
    check holds against it.
    """

    seed: int
    agents: int
    reason: str = ""


@dataclass
class FraudTable:
    """All rows, how many frauds differ in effect, those that were trained for real, honest designs,
    and the attacks of every class.
    """

    rows: list[FraudRow] = field(default_factory=list)
    effects: int = 0
    trained: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    honest: list[HonestDesign] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | None) -> FraudTable:
        """What a folder holds already; an empty table where there is none."""
        if folder is None or not (folder / "frauds.json").exists():
            return cls()
        return parse(cls, json.loads((folder / "frauds.json").read_text()))

    def has(self, name: str) -> bool:
        """Whether a fraud was played."""
        return any(row.name == name for row in self.rows)

    def write(self, folder: Path | None) -> None:
        """Keep what there is."""
        if folder is not None:
            write_text(folder / "frauds.json", json.dumps(asdict(self), indent=1) + "\n")
            write_text(folder / "frauds.md", markdown(self))

    def counted(self) -> str:
        """The count in one line."""
        plays = [play for row in self.rows for play in row.plays.values()]
        scored = sum(play.succeeded and not play.crashed for play in plays)
        crashed = sum(bool(play.crashed) for play in plays)
        lucky = sum(play.again is not None and not play.succeeded for play in plays)
        return (
            f"{len(self.rows)} frauds, {len(plays)} plays: {scored} scored, {crashed} crashed the "
            f"parent; {lucky} first looks beyond two errors that did not last, where luck makes about "
            f"{len(plays) / BY_LUCK:.0f}."
        )


def markdown(table: FraudTable) -> str:
    """The page."""
    parts = ["# Frauds against our own score", _INTRODUCTION, table.counted()]
    if table.effects:
        parts.append(f"{table.effects} of them differ in what they do (`frauds/effects.py`).")
    parts.append(_controls(table.rows))
    if table.honest:
        parts.append(_honest(table.honest))
    if table.classes:
        parts.append(_by_class(table.classes))
    parts += ["## Score frauds by kind", _by_kind(table.rows)]
    if table.trained:
        parts.append(_trained(table))
    head = f"| kind | fraud | uncontrolled | {' | '.join(PLAYS.values())} | the check says |"
    lines = [head, "|---" * 7 + "|", *(row.line() for row in table.rows)]
    parts += ["## All of them, gains in bps", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """`python benchmarks/frauds.py --trained --out docs/results` writes this page.

*Uncontrolled* is the gain over TWAP, with its standard error, where all days and windows are one batch
(or one process plays twice, or holds the very days): a fraud that does not fire there proves nothing.
*Several* and *one window* a day are plays as scoring makes them, on martingale days: nothing can be
gained there but by what must not be seen. In *simulated* markets limit orders earn the spread, so the
figure is what the rest of the batch brings: over the same policy that sees its own order alone, or over
the neutral schedule, whichever is less. A gain beyond two standard errors is looked at again elsewhere
(one first look in 44 is beyond them by luck); if it lasts, the fraud has scored."""


def _controls(rows: list[FraudRow]) -> str:
    """How many frauds earn where nothing stops them."""
    controls = [row.control for row in rows if row.control is not None]
    fired = sum(mean > FIRES * se for mean, se in controls)
    return (
        f"{fired} of {len(controls)} frauds that need a future or a memory earn more than {FIRES:g} "
        "standard errors uncontrolled; the others try ways that never paid."
    )


def _honest(honest: list[HonestDesign]) -> str:
    """How many honest designs the check holds something against."""
    flagged = [one for one in honest if one.reason]
    named = "".join(f"; seed {one.seed}: {one.reason}" for one in flagged)
    several = sum(one.agents > 1 for one in honest)
    return (
        f"Of {len(honest)} honest designs, drawn from the grammar and trained for a moment "
        f"({several} of them two agents that talk), the check holds something against "
        f"{len(flagged)}{named}."
    )


def _by_class(classes: dict[str, int]) -> str:
    """The attacks that the tests play, those on the score among them."""
    lines = ["## Attacks in the tests, by class", "", "| class | attacks |", "|---|--:|"]
    for name, count in classes.items():
        lines.append(f"| {name} | {count} |")
    lines.append(f"| all | {sum(classes.values())} |")
    lines += ["", "Attacks on the lock itself (`tests/sandbox/attacks`) are not among them."]
    return "\n".join(lines)


def _by_kind(rows: list[FraudRow]) -> str:
    """A line for each kind of fraud."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    lines = ["| kind | frauds | scored or crashed | the check says |", "|---|---|---|---|"]
    for kind in kinds:
        own = [row for row in rows if row.kind == kind]
        named = Counter(row.verdict for row in own if row.verdict)
        said = ", ".join(f"{count} {words}" for words, count in named.most_common())
        lines.append(f"| {kind} | {len(own)} | {sum(row.succeeded for row in own)} | {said} |")
    return "\n".join(lines)


def _trained(table: FraudTable) -> str:
    """The frauds that went through a real training."""
    lines = [
        "## By real trainings",
        "",
        "The text is trained behind the lock with the static stage left out, scored by the parent,"
        " checked as a finalist is, and trained and checked once more by `se-rl replay RUN all`.",
        "",
        "| kind | fraud | its training | the run's check | replay |",
        "|---|---|---|---|---|",
    ]
    for name, kind, training, check, replay in table.trained:
        lines.append(f"| {kind} | {name} | {training.replace('|', '/')} | {check} | {replay} |")
    return "\n".join(lines)
