"""Attack our own score: every fraud of the corpus, played as scoring plays and as it once did.

    python benchmarks/frauds.py [--kind KIND] [--quick] [--json]

The corpus and the campaign live in tests/scoring/frauds. Each fraud is played on martingale days with
several windows a day and with one, and goes through the run's own fraud check (`--quick` leaves out
the last two). A fraud has its way if it gains more than two standard errors over TWAP, and does so
again on other days, or if the parent ends in an exception.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

TESTS = Path(__file__).resolve().parents[1] / "tests" / "scoring"
sys.path.insert(0, str(TESTS))  # this file has the name of the corpus

if TYPE_CHECKING:
    from frauds.campaign import Gain, Outcome
    from frauds.fraud import Fraud


@dataclass(frozen=True)
class FraudRow:
    """One fraud: what it earned uncontrolled, what it earns now, and what the check says."""

    name: str
    kind: str
    control: Gain | None
    several: Outcome
    one: Outcome | None
    verdict: str

    @property
    def succeeded(self) -> bool:
        """Whether it had its way anywhere."""
        return self.several.succeeded or (self.one is not None and self.one.succeeded)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 if any fraud had its way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kind", help="frauds of one kind only")
    parser.add_argument("--quick", action="store_true", help="several windows a day alone")
    parser.add_argument("--json", action="store_true", help="rows as JSON lines")
    options = parser.parse_args(arguments)
    if not TESTS.is_dir():
        parser.error(f"the corpus is not at {TESTS}; run this from a checkout")
    from frauds import ALL

    rows = []
    for fraud in ALL:
        if options.kind in (None, fraud.kind):
            rows.append(attack(fraud, quick=options.quick))
            print(json.dumps(plain(rows[-1])) if options.json else line(rows[-1]), flush=True)
    if not options.json:
        print(summary(rows))
    return int(any(row.succeeded for row in rows))


def attack(fraud: Fraud, *, quick: bool) -> FraudRow:
    """Play one fraud in every way."""
    from frauds import campaign

    return FraudRow(
        fraud.name,
        fraud.kind,
        campaign.control(fraud) if fraud.control else None,
        campaign.attacked(fraud, campaign.SEVERAL),
        None if quick else campaign.attacked(fraud, campaign.ONE),
        "" if quick else campaign.verdict(fraud),
    )


def plain(row: FraudRow) -> dict[str, object]:
    """A row as JSON."""
    return {
        "name": row.name,
        "kind": row.kind,
        "control_bps": None if row.control is None else round(row.control.mean, 3),
        "several": _gained(row.several),
        "one": None if row.one is None else _gained(row.one),
        "verdict": row.verdict,
        "succeeded": row.succeeded,
    }


def line(row: FraudRow) -> str:
    """A row of the Markdown table."""
    control = "" if row.control is None else f"{row.control.mean:+.2f} ± {row.control.se:.2f}"
    one = "" if row.one is None else _gained(row.one)
    return (
        f"| {row.kind} | {row.name} | {control} | {_gained(row.several)} | {one} | {row.verdict} |"
    )


def _gained(outcome: Outcome) -> str:
    if outcome.crashed:
        return f"CRASH {outcome.crashed}"
    if outcome.gain is None:
        return "policy refused"
    again = "" if outcome.again is None else f", again {outcome.again.mean:+.2f}"
    return f"{outcome.gain.mean:+.2f} ± {outcome.gain.se:.2f}{again}"


def summary(rows: Sequence[FraudRow]) -> str:
    """The count in one line."""
    outcomes = [row.several for row in rows]
    for row in rows:
        if row.one is not None:
            outcomes.append(row.one)
    scored = sum(outcome.again is not None and outcome.succeeded for outcome in outcomes)
    crashed = sum(bool(outcome.crashed) for outcome in outcomes)
    lucky = sum(outcome.lucky for outcome in outcomes)
    return (
        f"\n{len(rows)} frauds, {len(outcomes)} plays: {scored} scored, {crashed} crashed the parent;"
        f" {lucky} first looks beyond two errors that did not last"
    )


if __name__ == "__main__":
    sys.exit(main())
