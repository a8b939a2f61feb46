"""A bank of designs that nobody trained: what each choice is worth is known, and so is the luck."""

from __future__ import annotations

import numpy as np

from se_rl.modules.design_bank.readings import BankHead, BankLine, BankScore, PlannedDesign
from se_rl.modules.design_bank.storage import DesignBank
from se_rl.modules.design_bank.words import design_words
from se_rl.modules.kinds import KINDS
from se_rl.records.entries import sha256
from se_rl_benchmarks.bank_plan import DEFAULT_DESIGN, planned

MODULES = ("reward", "network")
HEAD = BankHead(
    "tiny", "nasdaq100", "single", 1.0, MODULES, {m: KINDS[m].default_source for m in MODULES}
)
WAYS = ((1, 1.0, 0), (1, 1.0, 1), (2, 3.0, 2), (1, 1.0 / 3.0, 3))
"""Rung, work and seed of each training."""


def worth(design: PlannedDesign) -> float:
    """What a design truly gains over the default: the sum of what its choices are worth."""
    own = design_words(design.sources, MODULES)
    default = design_words({}, MODULES)
    total = 0.0
    for word in sorted(own.keys() | default.keys()):
        value = int(sha256(word)[:6], 16) / 0xFFFFFF - 0.6
        total += value * (own[word] - default[word])
    return total


def tiny_lines(designs: int = 60, *, luck: float = 0.05, seed: int = 0) -> list[BankLine]:
    """All trainings of such a bank; the first design's second training failed."""
    rng = np.random.default_rng(seed)
    lines = []
    for design in (DEFAULT_DESIGN, *planned(MODULES, designs, seed=seed)):
        for rung, work, training_seed in WAYS:
            gain = 0.0
            if design is not DEFAULT_DESIGN:
                gain = worth(design) + luck * float(rng.normal())
            # half of the score each, so that the score gains what both do
            score = BankScore(1.0 + gain, 0.1, gain, 0.05, 1.0 + gain, 1.0 + gain, -0.1)
            lines.append(BankLine(design, rung, work, training_seed, 1.0, score))
    failed = lines[5]
    lines[5] = BankLine(
        failed.design, failed.rung, failed.work, failed.seed, 1.0, reason="it diverged"
    )
    return lines


def tiny_bank(designs: int = 60, *, luck: float = 0.05) -> DesignBank:
    """The bank as it would be loaded."""
    return DesignBank(HEAD, tuple(tiny_lines(designs, luck=luck)))
