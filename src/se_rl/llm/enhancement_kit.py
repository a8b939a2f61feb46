"""The dual-level enhancement kit: what came of designs makes the prompts better, and the weights that answer them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from se_rl.llm.backends import Designer
from se_rl.llm.generator import FREE_WRITERS
from se_rl.llm.high_level_enhancement import Choice, HighLevelEnhancement, new_instruction
from se_rl.llm.instruction_grammar import MACRO
from se_rl.llm.low_level_enhancement import DesignOutcome, LowLevelEnhancement
from se_rl.llm.prompts import Scored, default_macro, default_micro
from se_rl.records.entries import DEFAULT


class DualLevelEnhancementKit:
    """Both levels of enhancement behind one door; a level that is None is left out, as ablations want it."""

    def __init__(
        self,
        high: HighLevelEnhancement | None = None,
        low: LowLevelEnhancement | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.high, self.low, self.seed = high, low, seed

    def choose(self, code_type: str, rng: np.random.Generator) -> tuple[Choice, Choice]:
        """The macro and the micro instruction to ask for a module with; without the high level always the defaults."""
        if self.high is not None:
            return self.high.choose(code_type, rng)
        texts = {MACRO: default_macro(), code_type: default_micro(code_type)}
        macro, micro = (
            Choice(new_instruction(kind, text, operator=DEFAULT), False)
            for kind, text in texts.items()
        )
        return macro, micro

    def history(self, code_type: str, n: int = 6) -> list[Scored]:
        """Earlier designs with their scores, good and bad, for the prompt; none without the high level."""
        return self.high.buffer.history(code_type, n) if self.high is not None else []

    def enhance(
        self,
        outcomes: Sequence[DesignOutcome],
        designer: Designer,
        iteration: int,
        *,
        constrained: bool | None = None,
        stored: bytes | None = None,
    ) -> dict[str, Any]:
        """Let both levels learn from an iteration's outcomes, and say what changed.

        `designer` is the one to go on with; `instructions` were added, `credits` are those that were booked, `learned` is
        the step on the weights (None without the low level). `constrained` has the designer reflect under a grammar (None:
        where it can and needs to), `stored` is the adapter of this very step from an earlier run.
        """
        changed: dict[str, Any] = {
            "designer": designer,
            "instructions": [],
            "credits": [],
            "learned": None,
        }
        if self.high is not None:
            grammar = hasattr(designer, "log_probs") and designer.name not in FREE_WRITERS
            under_grammar = grammar if constrained is None else constrained
            changed["credits"] = _book(self.high, outcomes)
            changed["instructions"] = self.high.refine(
                designer, iteration, constrained=under_grammar
            )
            self.high.population.age()
        if self.low is not None:
            seed = int(np.random.SeedSequence([self.seed, iteration]).generate_state(1)[0])
            changed["learned"] = self.low.learn(designer, outcomes, seed=seed, stored=stored)
            changed["designer"] = changed["learned"].designer
        return changed


def _book(high: HighLevelEnhancement, outcomes: Sequence[DesignOutcome]) -> list[dict[str, Any]]:
    """Credit instructions with what their designs gained; a repeat gains nothing, a failure as little as the worst did."""
    worst = min([0.0, *(outcome.gained for outcome in outcomes if isfinite(outcome.gained))])
    for outcome in outcomes:
        if outcome.tried is not None:
            high.buffer.add(outcome.tried)
        gain = outcome.gained if isfinite(outcome.gained) else worst
        for name in outcome.instructions:
            high.population.credit(name, 0.0 if outcome.repeated else gain)
    booked = {name for outcome in outcomes for name in outcome.instructions}
    return [row for row in high.population.rows() if row["id"] in booked]
