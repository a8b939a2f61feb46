"""The dual-level enhancement kit: scores of designs improve the prompts and the weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from se_rl.llm.backends import Designer
from se_rl.llm.design_outcomes import DesignOutcome
from se_rl.llm.high_level_enhancement import HighLevelEnhancement
from se_rl.llm.instruction_grammar import MACRO
from se_rl.llm.instruction_population import ChosenInstruction, new_instruction
from se_rl.llm.low_level_enhancement import LowLevelEnhancement
from se_rl.llm.prompts import Scored, default_macro, default_micro
from se_rl.records.enhancement import EnhancementStep, InstructionCredit, WeightUpdate
from se_rl.records.entries import DEFAULT, Instruction


class DualLevelEnhancementKit:
    """Both levels of enhancement together; ablations leave a level out by passing None.

    `replays` counts the old instructions that were tried again.
    """

    def __init__(
        self,
        high: HighLevelEnhancement | None = None,
        low: LowLevelEnhancement | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.high = high
        self.low = low
        self.seed = seed
        self.replays = 0

    def choose(
        self, code_type: str, rng: np.random.Generator
    ) -> tuple[ChosenInstruction, ChosenInstruction]:
        """The macro and the micro instruction to ask for a module with.

        Without the high level they are always the defaults.
        """
        if self.high is not None:
            chosen = self.high.choose(code_type, rng)
            self.replays += sum(one.replayed for one in chosen)
            return chosen
        macro = new_instruction(MACRO, default_macro(), operator=DEFAULT)
        micro = new_instruction(code_type, default_micro(code_type), operator=DEFAULT)
        return ChosenInstruction(macro, False), ChosenInstruction(micro, False)

    def history(self, code_type: str, n: int = 6) -> list[Scored]:
        """Earlier designs with their scores, good and bad, for the prompt.

        There are none without the high level.
        """
        return self.high.buffer.history(code_type, n) if self.high is not None else []

    def enhance(
        self,
        outcomes: Sequence[DesignOutcome],
        designer: Designer,
        iteration: int,
        *,
        constrained: bool | None = None,
        stored: bytes | None = None,
    ) -> tuple[Designer, EnhancementStep]:
        """Let both levels learn from an iteration: the designer to go on with, and what changed.

        `constrained` has the designer reflect under a grammar (None: if it can and needs to),
        `stored` is the adapter of this very step from an earlier run.
        """
        credits: list[InstructionCredit] = []
        instructions: list[Instruction] = []
        weights: WeightUpdate | None = None
        if self.high is not None:
            grammar = designer.abilities.needs_grammar if constrained is None else constrained
            credits = _book(self.high, outcomes)
            instructions = self.high.refine(designer, iteration, constrained=grammar)
            self.high.population.age()
        if self.low is not None:
            seed = int(np.random.SeedSequence([self.seed, iteration]).generate_state(1)[0])
            designer, weights = self.low.learn(designer, outcomes, seed=seed, stored=stored)
        return designer, EnhancementStep(tuple(credits), tuple(instructions), weights)


def _book(high: HighLevelEnhancement, outcomes: Sequence[DesignOutcome]) -> list[InstructionCredit]:
    """Credit instructions with what their designs gained.

    A repeat gains nothing, a failure as little as the worst did.
    """
    worst = 0.0
    for outcome in outcomes:
        if isfinite(outcome.gained):
            worst = min(worst, outcome.gained)
    booked: set[str] = set()
    for outcome in outcomes:
        if outcome.tried is not None:
            high.buffer.add(outcome.tried)
        gain = outcome.gained if isfinite(outcome.gained) else worst
        for name in outcome.instructions:
            high.population.credit(name, 0.0 if outcome.repeated else gain)
            booked.add(name)
    return [credit for credit in high.population.credits() if credit.id in booked]
