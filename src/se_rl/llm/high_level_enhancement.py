"""High level of the dual-level enhancement kit: better instructions, and lessons in the prompt.

Macro instructions (the whole task) and micro instructions (one module) evolve separately: changed
sentence by sentence, crossed, or written by the language model from what worked and what failed.
Nothing here reads a clock: same seed, same instructions.
"""

from __future__ import annotations

import numpy as np

from se_rl.llm import instruction_grammar as wording
from se_rl.llm.backends import Designer, LlmError
from se_rl.llm.instruction_grammar import MACRO, Tried
from se_rl.llm.instruction_population import (
    ChosenInstruction,
    InstructionPopulation,
    new_instruction,
)
from se_rl.llm.performance_buffer import PerformanceBuffer
from se_rl.records.entries import Instruction

__all__ = ["HighLevelEnhancement", "InstructionPopulation", "PerformanceBuffer", "Tried"]

MACRO_SHARE = 1 / 3
"""How often a refinement is of the whole task rather than of one module."""


class HighLevelEnhancement:
    """Which instructions to design by, and new ones from the scores of what they brought.

    All draws of `refine` come from `seed`. With `evolves` False the instructions stay as they are:
    what remains is the history in the prompt.
    """

    def __init__(
        self,
        population: InstructionPopulation,
        buffer: PerformanceBuffer,
        *,
        seed: int,
        evolves: bool = True,
    ) -> None:
        self.population = population
        self.buffer = buffer
        self.seed = seed
        self.evolves = evolves

    def choose(
        self, code_type: str, rng: np.random.Generator
    ) -> tuple[ChosenInstruction, ChosenInstruction]:
        """The macro and the micro instruction to ask for a module with."""
        return self.population.sample(MACRO, rng), self.population.sample(code_type, rng)

    def refine(self, designer: Designer, iteration: int, *, constrained: bool) -> list[Instruction]:
        """Add at most one mutation, one crossover and one reflection; return what was added.

        Each is of the whole task or of one module that was tried; before the first try there is
        nothing to learn from. `constrained` has the designer reflect under a grammar.
        """
        if not self.evolves or not self.buffer.modules:
            return []
        reflection = self._reflection(designer, iteration, constrained=constrained)
        added: list[Instruction] = []
        for made in (self._mutation(iteration), self._crossover(iteration), reflection):
            if made is not None and self.population.add(made):
                added.append(made)
        return added

    def _mutation(self, iteration: int) -> Instruction:
        kind, rng = self._turn(iteration, 0)
        parents = self.population.parents(kind, rng, n=1)
        text = wording.mutated(kind, parents[0].text, rng=rng)
        return new_instruction(
            kind, text, operator="mutation", parents=parents, iteration=iteration
        )

    def _crossover(self, iteration: int) -> Instruction:
        kind, rng = self._turn(iteration, 1)
        parents = self.population.parents(kind, rng, n=2)
        text = wording.crossed(kind, [one.text for one in parents], rng=rng)
        return new_instruction(
            kind, text, operator="crossover", parents=parents, iteration=iteration
        )

    def _reflection(
        self, designer: Designer, iteration: int, *, constrained: bool
    ) -> Instruction | None:
        """What the model advises after seeing the best and the worst; None if it is silent."""
        kind, rng = self._turn(iteration, 2)
        parent = self.population.best(kind)
        modules = self.buffer.modules if kind == MACRO else (kind,)
        shown = max(2, (4 if constrained else 8) // len(modules))
        tried: list[Tried] = []
        for name in modules:
            tried += self.buffer.extremes(name, shown)
        request = wording.reflection(
            kind,
            parent.text,
            modules=modules,
            tried=tried,
            seed=int(rng.integers(2**32)),
            constrained=constrained,
        )
        try:
            answers = designer.propose(request, 1)
        except LlmError:
            return None
        text = wording.cleaned(kind, answers[0].text) if answers else ""
        return new_instruction(
            kind, text, operator="reflection", parents=[parent], iteration=iteration
        )

    def _turn(self, iteration: int, operator: int) -> tuple[str, np.random.Generator]:
        """What an operator works on in this iteration, and its own random generator."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, iteration, operator]))
        modules = self.buffer.modules
        if rng.random() < MACRO_SHARE:
            return MACRO, rng
        return modules[int(rng.integers(len(modules)))], rng
