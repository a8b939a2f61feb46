"""Attack our own score: every fraud of the corpus, played as scoring plays and as it once did.

    python benchmarks/frauds.py [--kind KIND] [--quick] [--trained] [--honest N]
                                [--out FOLDER [--resume]]

The corpus and the campaign live in tests/scoring/frauds. Each fraud is played on martingale days with
several windows a day and with one, in simulated markets, and goes through the run's own fraud check by
history and by simulated orders (`--quick` plays several windows alone). `--trained` trains frauds of
every kind behind the lock and replays them with `se-rl replay`. `--honest` designs drawn from the
grammar go through the same check, which must pass them. A fraud has its way if it gains more
than two standard errors, and does so again elsewhere, or if the parent ends in an exception. `--out`
writes frauds.md and frauds.json into a folder, such as docs/results, while they grow; `--resume` goes
on with what is there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from se_rl_benchmarks.fraud_page import FraudRow, FraudTable, HonestDesign, Play, markdown

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "scoring"
sys.path.insert(0, str(TESTS))  # this file has the name of the corpus
sys.path.append(str(ROOT / "tests" / "core"))

if TYPE_CHECKING:
    from frauds.campaign import Outcome
    from frauds.fraud import Fraud
    from frauds.trained import TrainedFraud


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 if any fraud had its way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kind", help="frauds of one kind only")
    parser.add_argument("--quick", action="store_true", help="several windows a day alone")
    parser.add_argument("--trained", action="store_true", help="also by real trainings and replay")
    parser.add_argument("--honest", type=int, default=200, metavar="N", help="honest designs")
    parser.add_argument("--out", type=Path, help="folder for frauds.md and frauds.json")
    parser.add_argument("--resume", action="store_true", help="go on with the table in --out")
    options = parser.parse_args(arguments)
    if not TESTS.is_dir():
        parser.error(f"the corpus is not at {TESTS}; run this from a checkout")
    from frauds import ALL

    table = FraudTable.read(options.out) if options.resume else FraudTable()
    for fraud in ALL:
        if options.kind not in (None, fraud.kind) or table.has(fraud.name):
            continue
        table.rows.append(attack(fraud, quick=options.quick))
        print(table.rows[-1].line(), flush=True)
        table.write(options.out)
    if not options.quick:
        complete(table, options)
    table.write(options.out)
    print(markdown(table))
    flagged = any(one.reason for one in table.honest)
    return int(flagged or any(row.succeeded for row in table.rows))


def complete(table: FraudTable, options: argparse.Namespace) -> None:
    """What the page says beside the frauds, as far as it is not there yet."""
    from frauds import ALL
    from frauds.classes import attack_counts

    table.classes = attack_counts()
    if not table.effects:
        table.effects = count_effects(ALL)
    for seed in range(len({one.seed for one in table.honest}), options.honest):
        table.honest += honest_designs(seed)
        table.write(options.out)
    if options.trained and not table.trained:
        for row in trained_frauds():
            table.trained.append((row.name, row.kind, row.training, row.check, row.replay))


def honest_designs(seed: int) -> list[HonestDesign]:
    """A design of this seed through the check; every third one talks to another as well."""
    from frauds.campaign import checked
    from frauds.well_behaved import single, talking

    found = [HonestDesign(seed, 1, checked(single(seed)).reason)]
    if seed % 3 == 0:
        found.append(HonestDesign(seed, 2, checked(talking(seed), agents=2).reason))
    return found


def attack(fraud: Fraud, *, quick: bool) -> FraudRow:
    """Play one fraud in every way."""
    from frauds import campaign, simulated

    control = campaign.control(fraud) if fraud.control else None
    plays = {"several": campaign.attacked(fraud, campaign.SEVERAL)}
    verdicts = {}
    if not quick:
        plays["one"] = campaign.attacked(fraud, campaign.ONE)
        plays["simulated"] = simulated.attacked_simulated(fraud)
        verdicts["history"] = campaign.verdict(fraud)
        verdicts["simulated"] = simulated.verdict_simulated(fraud)
    return FraudRow(
        fraud.name,
        fraud.kind,
        None if control is None else (control.mean, control.se),
        {name: _play(outcome) for name, outcome in plays.items()},
        verdicts,
    )


def _play(outcome: Outcome) -> Play:
    """An outcome as the table keeps it."""
    gain, again = outcome.gain, outcome.again
    return Play(
        None if gain is None else (gain.mean, gain.se),
        None if again is None else (again.mean, again.se),
        outcome.refused[:100],
        outcome.crashed,
        outcome.succeeded,
    )


def count_effects(frauds: Sequence[Fraud]) -> int:
    """Frauds that differ in what they do."""
    from frauds.effects import alike

    return len(alike(frauds))


def trained_frauds() -> Iterator[TrainedFraud]:
    """Frauds of every kind through a real training, in a home of their own."""
    from frauds import CORPUS
    from frauds.takeovers import TAKEOVERS
    from frauds.trained import CARRIER, SINGLE, TALKING, played
    from tiny_run import make_data, tiny_config

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["SE_RL_HOME"] = folder
        make_data(home)
        single = [*(CORPUS[name] for name in SINGLE), CARRIER, *TAKEOVERS]
        yield from played(home / "single", tiny_config(seeds=(1, 1, 1)), single)
        several = tiny_config(seeds=(1, 1, 1), scenario="multi")
        yield from played(home / "several", several, [CORPUS[name] for name in TALKING])


if __name__ == "__main__":
    sys.exit(main())
