"""High level of the dual-level enhancement kit: instructions that earn credit, and what was tried as lessons in the prompt.

Macro instructions (the whole task) and micro instructions (one module) evolve apart: changed sentence by sentence, crossed,
or written by the language model from what worked and what failed. Nothing here knows a clock: same seed, same instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.config import ConfigError
from se_rl.llm import instruction_grammar as wording
from se_rl.llm.backends import Designer, LlmError
from se_rl.llm.extraction import normal_form
from se_rl.llm.instruction_grammar import KINDS, MACRO, Tried
from se_rl.llm.prompts import Scored, anonymous, default_macro, default_micro
from se_rl.modules.kinds import KINDS as MODULE_KINDS
from se_rl.records.entries import DEFAULT, Instruction, key_of

PRIOR_WEIGHT, DECAY = 4.0, 0.95
"""An instruction starts as if it had gained nothing so many times; each iteration old gains count this much less."""
QUIET_ITERATIONS = 3
"""So long must an instruction have rested to be replayed."""
NOISE_RATIO = 0.22
"""Variance of a score between training seeds over that between designs: (0.16 / 0.34) squared in a study of 46 designs."""
MACRO_SHARE = 1 / 3
"""How often a refinement is of the whole task rather than of one module."""


class Choice(NamedTuple):
    """An instruction that was drawn, and whether it was an old one replayed."""

    instruction: Instruction
    replayed: bool


@dataclass
class _Standing:
    """What an instruction has gained (in bps, old gains decayed) and when it was last added or drawn."""

    instruction: Instruction
    gained: float = 0.0
    weight: float = 0.0
    uses: int = 0
    touched: int = 0
    present: bool = True

    @property
    def credit(self) -> float:
        return self.gained / (self.weight + PRIOR_WEIGHT)

    @property
    def form(self) -> tuple[str, str]:
        return self.instruction.kind, wording.normalised(self.instruction.text)


def new_instruction(
    kind: str, text: str, *, operator: str, parents: Sequence[Instruction] = (), iteration: int = 0
) -> Instruction:
    """An instruction under its own name, its text without symbols and dates."""
    words = anonymous(text)
    return Instruction(
        key_of(kind, words)[:12], kind, words, operator, tuple(one.id for one in parents), iteration
    )


class InstructionPopulation:
    """At most `limit` instructions with credit, the defaults among them.

    They are drawn by credit at a `temperature` in standard deviations; with chance `replay` an old one is drawn instead.
    """

    def __init__(self, limit: int = 100, *, replay: float = 0.1, temperature: float = 1.0) -> None:
        if limit < len(KINDS):
            raise ConfigError(
                f"the limit of instructions is {limit}; give at least {len(KINDS)}, one for each default"
            )
        if not (0.0 <= replay <= 1.0 and temperature > 0.0):
            raise ConfigError(
                f"replay is {replay}, temperature {temperature}; give 0 to 1 and a number above 0"
            )
        self.limit, self.replay, self.temperature = limit, replay, temperature
        self._now = 0
        self._known: dict[str, _Standing] = {}
        for kind in KINDS:
            text = default_macro() if kind == MACRO else default_micro(kind)
            self.add(new_instruction(kind, text, operator=DEFAULT))

    def __len__(self) -> int:
        return len(self._present())

    def add(self, instruction: Instruction) -> bool:
        """Take it in; False where it has no words, or those of another one here, or nobody can leave for it.

        Beyond the limit the one with the worst credit leaves, but never a default nor the best of its kind.
        """
        if instruction.kind not in KINDS:
            raise ValueError(
                f"the instruction's kind is {instruction.kind!r}; use one of {', '.join(KINDS)}"
            )
        standing = self._known.get(instruction.id) or _Standing(instruction)
        present = self._present()
        if not standing.form[1] or any(one.form == standing.form for one in present):
            return False
        if len(present) >= self.limit:
            kept = {self.best(kind).id for kind in KINDS}
            idle = [
                s
                for s in present
                if s.instruction.operator != DEFAULT and s.instruction.id not in kept
            ]
            if not idle:
                return False
            min(idle, key=lambda one: (one.credit, one.touched)).present = False
        standing.present, standing.touched = True, self._now
        self._known[instruction.id] = standing
        return True

    def credit(self, id: str, gain: float, *, weight: float = 1.0) -> None:
        """Book what a design that was asked for with it gained (bps); an instruction that has left keeps its account."""
        if id not in self._known or not isfinite(gain) or not weight > 0.0:
            raise ValueError(
                f"instruction {id!r}, gain {gain}, weight {weight}; give a known one, finite, above 0"
            )
        standing = self._known[id]
        standing.gained += weight * gain
        standing.weight += weight
        standing.uses += 1

    def age(self) -> None:
        """One iteration has passed: what was gained counts less from now on."""
        self._now += 1
        for standing in self._known.values():
            standing.gained *= DECAY
            standing.weight *= DECAY

    def sample(self, kind: str, rng: np.random.Generator) -> Choice:
        """One instruction of a kind: by credit, or with chance `replay` any that was neither added nor drawn of late."""
        members = self._present(kind)
        old = [one for one in members if self._now - one.touched >= QUIET_ITERATIONS]
        replayed = bool(rng.random() < self.replay and old)
        pool, chances = (old, None) if replayed else (members, self._chances(members))
        chosen = pool[int(rng.choice(len(pool), p=chances))]
        chosen.touched = self._now
        return Choice(chosen.instruction, replayed)

    def parents(self, kind: str, rng: np.random.Generator, *, n: int) -> list[Instruction]:
        """Up to n different instructions of a kind, drawn by credit to be varied; this is no use of them."""
        members = self._present(kind)
        drawn = rng.choice(
            len(members), min(n, len(members)), replace=False, p=self._chances(members)
        )
        return [members[int(i)].instruction for i in drawn]

    def best(self, kind: str) -> Instruction:
        """The instruction of a kind with the most credit; of equals the one that came first."""
        return self._present(kind)[0].instruction

    def rows(self) -> list[dict[str, Any]]:
        """The population as plain data, best first within each kind."""
        ordered = [one for kind in KINDS for one in self._present(kind)]
        return [
            {**asdict(one.instruction), "credit": one.credit, "uses": one.uses} for one in ordered
        ]

    def _present(self, kind: str | None = None) -> list[_Standing]:
        """Those that are here, best first; of equals the one that came first."""
        here = [
            one
            for one in self._known.values()
            if one.present and kind in (None, one.instruction.kind)
        ]
        return sorted(here, key=lambda one: -one.credit)

    def _chances(self, members: Sequence[_Standing]) -> npt.NDArray[np.float64]:
        """Softmax of the credits in standard deviations, so that neither their unit nor their sign matters."""
        credits = np.array([one.credit for one in members])
        spread = credits.std()
        heights = (
            (credits - credits.max()) / (spread * self.temperature)
            if spread > 1e-9
            else 0.0 * credits
        )
        return np.exp(heights) / np.exp(heights).sum()


class PerformanceBuffer:
    """The last `limit` tries, the best design of each module among them.

    Tries of the same design (by normal form) are pooled, and scores are drawn towards the module's mean, the fewer
    trainings the more: luck does not lead.
    """

    def __init__(self, limit: int = 200) -> None:
        if limit < 1:
            raise ConfigError(f"the limit of tries to remember is {limit}; give at least 1")
        self.limit = limit
        self._tries: list[tuple[str, Tried]] = []

    def __len__(self) -> int:
        return len(self._tries)

    @property
    def modules(self) -> tuple[str, ...]:
        """The code_types that were tried."""
        return tuple(
            name
            for name in MODULE_KINDS
            if any(tried.code_type == name for _, tried in self._tries)
        )

    def add(self, tried: Tried) -> None:
        """Remember it; beyond the limit the oldest try leaves that is not of a module's best design."""
        self._tries.append((normal_form(tried.source), tried))
        if len(self._tries) > self.limit:
            best = {
                (name, normal_form(one.source))
                for name in self.modules
                for one in self.best(name, 1)
            }
            places = (
                i for i, (form, one) in enumerate(self._tries) if (one.code_type, form) not in best
            )
            self._tries.pop(next(places, 0))

    def best(self, code_type: str, n: int) -> list[Tried]:
        """The n best designs of a module, best first, with shrunken scores."""
        return self._ranked(code_type)[:n]

    def extremes(self, code_type: str, n: int) -> list[Tried]:
        """n designs of a module to learn from: half the best and half the worst, then failures if there is room."""
        ranked = self._ranked(code_type)
        shown = (
            ranked if len(ranked) <= n else ranked[: ceil(n / 2)] + ranked[len(ranked) - n // 2 :]
        )
        known = {normal_form(one.source) for one in ranked}
        failed = {
            form: one
            for form, one in self._tries
            if one.code_type == code_type and form not in known
        }
        return shown + list(failed.values())[::-1][: n - len(shown)]

    def history(self, code_type: str, n: int) -> list[Scored]:
        """The same as (instruction, design, score) for the prompt: in-context reward learning."""
        return [one.lesson() for one in self.extremes(code_type, n)]

    def sample(self, rng: np.random.Generator, n: int) -> list[Tried]:
        """Up to n different tries, each as likely as the others, to be replayed."""
        return [self._tries[int(i)][1] for i in rng.permutation(len(self._tries))[:n]]

    def _ranked(self, code_type: str) -> list[Tried]:
        """Each design that has a score once, pooled over its tries and shrunken, best first."""
        pools: dict[str, list[Tried]] = {}
        for form, tried in self._tries:
            if tried.code_type == code_type and tried.ok:
                pools.setdefault(form, []).append(tried)
        pooled = [_pooled(tries) for tries in pools.values()]
        centre = float(np.mean([one.score for one in pooled])) if pooled else 0.0
        kept = [one.seeds / (one.seeds + NOISE_RATIO) for one in pooled]
        shrunk = [
            replace(one, score=centre + k * (one.score - centre))
            for one, k in zip(pooled, kept, strict=True)
        ]
        return sorted(shrunk, key=lambda one: -one.score)


def _pooled(tries: Sequence[Tried]) -> Tried:
    """The latest try of a design with the means over all its trainings."""
    seeds = [one.seeds for one in tries]
    score, gain = np.average([(one.score, one.gain) for one in tries], axis=0, weights=seeds)
    return replace(tries[-1], score=float(score), gain=float(gain), seeds=sum(seeds))


class HighLevelEnhancement:
    """Which instructions to design by, and new ones from what came of the old. All draws of `refine` come from `seed`.

    With `evolves` False the instructions stay as they are: what remains is the history in the prompt.
    """

    def __init__(
        self,
        population: InstructionPopulation,
        buffer: PerformanceBuffer,
        *,
        seed: int,
        evolves: bool = True,
    ) -> None:
        self.population, self.buffer, self.seed, self.evolves = population, buffer, seed, evolves

    def choose(self, code_type: str, rng: np.random.Generator) -> tuple[Choice, Choice]:
        """The macro and the micro instruction to ask for a module with."""
        return self.population.sample(MACRO, rng), self.population.sample(code_type, rng)

    def refine(self, designer: Designer, iteration: int, *, constrained: bool) -> list[Instruction]:
        """Add at most one mutation, one crossover and one reflection to the population, and return what was added.

        Each is of the whole task or of one module that was tried; before the first try there is nothing to learn from.
        `constrained` has the designer reflect under a grammar.
        """
        if not self.evolves or not self.buffer.modules:
            return []
        reflection = self._reflection(designer, iteration, constrained=constrained)
        made = (self._mutation(iteration), self._crossover(iteration), reflection)
        return [
            instruction
            for instruction in made
            if instruction is not None and self.population.add(instruction)
        ]

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
        """What the model advises after seeing the best and the worst; None where it does not answer."""
        kind, rng = self._turn(iteration, 2)
        parent = self.population.best(kind)
        modules = self.buffer.modules if kind == MACRO else (kind,)
        shown = max(2, (4 if constrained else 8) // len(modules))
        tried = [one for name in modules for one in self.buffer.extremes(name, shown)]
        request = wording.reflection(
            kind,
            parent.text,
            modules=modules,
            tried=tried,
            seed=int(rng.integers(2**32)),
            constrained=constrained,
        )
        try:
            text = next(
                (wording.cleaned(kind, answer.text) for answer in designer.propose(request, 1)), ""
            )
        except LlmError:
            return None
        return new_instruction(
            kind, text, operator="reflection", parents=[parent], iteration=iteration
        )

    def _turn(self, iteration: int, operator: int) -> tuple[str, np.random.Generator]:
        """What an operator works on in this iteration, and its own source of chance."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, iteration, operator]))
        modules, is_macro = self.buffer.modules, rng.random() < MACRO_SHARE
        return (MACRO if is_macro else modules[int(rng.integers(len(modules)))]), rng
