"""Chooses the strengths of the bank's surrogate: those under which its readings are most likely.

    OMP_NUM_THREADS=1 python benchmarks/bank_strengths.py [FILE.jsonl] [--seconds 60] [--workers 2]

Climbs from the package's own strengths by steps in one or two of them, several climbs at once, and
prints the best as JSON with the evidence before and after (natural logarithms). Nothing is left out
for this, but a handful of numbers is all that is chosen. Without a file: the package's own bank.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from se_rl.modules.design_bank.storage import DesignBank, load_bank
from se_rl.modules.design_bank.surrogate import STRENGTHS, Examples, Strengths, Surrogate
from se_rl_benchmarks.bank_lines import read_lines

STEP = 0.4
"""Of a strength's logarithm, and of the agreement's odds."""


def evidence(bank: DesignBank, strengths: Strengths) -> float:
    """How likely a bank's readings are; minus infinity where that cannot be computed."""
    try:
        found = Surrogate(Examples.of(bank), bank.default.words, strengths).evidence
    except np.linalg.LinAlgError:
        return -np.inf
    return found if np.isfinite(found) else -np.inf


def stepped(strengths: Strengths, rng: np.random.Generator) -> Strengths:
    """One or two of the strengths moved."""
    told = asdict(strengths)
    for name in rng.choice(sorted(told), size=int(rng.integers(1, 3)), replace=False):
        step = float(np.exp(STEP * rng.normal()))
        value = told[str(name)]
        if name == "agreement":  # between 0 and 1
            odds = step * value / (1.0 - value)
            told[str(name)] = odds / (1.0 + odds)
        else:
            told[str(name)] = step * value
    return replace(strengths, **told)


def climb(bank: DesignBank, seconds: float, seed: int) -> tuple[float, Strengths]:
    """The best evidence that one climb finds, and where."""
    rng = np.random.default_rng(seed)
    until = time.monotonic() + seconds
    best = evidence(bank, STRENGTHS), STRENGTHS
    while time.monotonic() < until:
        tried = stepped(best[1], rng)
        height = evidence(bank, tried)
        if height > best[0]:
            best = height, tried
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    """Climb, and print the best."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, nargs="?", help="raw lines of a bank")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    bank = load_bank() if options.file is None else DesignBank(*read_lines(options.file))
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        climbs = pool.map(partial(climb, bank, options.seconds), range(options.workers))
    height, best = max(climbs, key=lambda one: one[0])
    rounded = {name: float(f"{value:.2g}") for name, value in asdict(best).items()}
    told = {"before": evidence(bank, STRENGTHS), "after": height, "strengths": rounded}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
