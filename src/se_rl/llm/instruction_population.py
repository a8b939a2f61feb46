"""Instructions that earn credit by the designs they asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.config import ConfigError
from se_rl.llm import instruction_grammar as wording
from se_rl.llm.instruction_grammar import KINDS, MACRO
from se_rl.llm.prompts import anonymous, default_macro, default_micro
from se_rl.records.enhancement import InstructionCredit
from se_rl.records.entries import DEFAULT, Instruction, key_of

PRIOR_WEIGHT = 4.0
"""An instruction starts as if it had been used this often and gained nothing."""
DECAY = 0.95
"""How much of an old gain counts after one more iteration."""
QUIET_ITERATIONS = 3
"""How long an instruction must have rested to be replayed."""


class ChosenInstruction(NamedTuple):
    """An instruction that was drawn, and whether it was an old one replayed."""

    instruction: Instruction
    replayed: bool


@dataclass
class _Account:
    """What an instruction has gained (bps, old gains decayed) and when it was last in use."""

    instruction: Instruction
    gained: float = 0.0
    weight: float = 0.0
    uses: int = 0
    touched: int = 0  # the iteration in which it was last added or drawn
    present: bool = True

    @property
    def credit(self) -> float:
        # credit = sum of gains / (sum of weights + prior weight)
        return self.gained / (self.weight + PRIOR_WEIGHT)

    @property
    def form(self) -> tuple[str, str]:
        return self.instruction.kind, wording.normalised(self.instruction.text)

    @property
    def leaving_order(self) -> tuple[float, int]:
        """The worst credit first, and of equals the one that rested longest."""
        return self.credit, self.touched


def new_instruction(
    kind: str, text: str, *, operator: str, parents: Sequence[Instruction] = (), iteration: int = 0
) -> Instruction:
    """An instruction named after its content, its text without symbols and dates."""
    words = anonymous(text)
    ancestors = tuple(parent.id for parent in parents)
    return Instruction(key_of(kind, words)[:12], kind, words, operator, ancestors, iteration)


class InstructionPopulation:
    """At most `limit` instructions with credit, the defaults among them.

    They are drawn by credit at a `temperature` in standard deviations; with chance `replay` an old
    one is drawn instead.
    """

    def __init__(self, limit: int = 100, *, replay: float = 0.1, temperature: float = 1.0) -> None:
        if limit < len(KINDS):
            raise ConfigError(
                f"the limit of instructions is {limit};"
                f" give at least {len(KINDS)}, one for each default"
            )
        if not (0.0 <= replay <= 1.0 and temperature > 0.0):
            raise ConfigError(
                f"replay is {replay}, temperature {temperature}; give 0 to 1 and a number above 0"
            )
        self.limit = limit
        self.replay = replay
        self.temperature = temperature
        self._now = 0
        self._known: dict[str, _Account] = {}
        for kind in KINDS:
            text = default_macro() if kind == MACRO else default_micro(kind)
            self.add(new_instruction(kind, text, operator=DEFAULT))

    def __len__(self) -> int:
        return len(self._present())

    def add(self, instruction: Instruction) -> bool:
        """Take it in, unless it is empty, says what another one says, or finds no place.

        Beyond the limit the one with the worst credit leaves, but never a default nor the best of
        its kind.
        """
        if instruction.kind not in KINDS:
            raise ValueError(
                f"the instruction's kind is {instruction.kind!r}; use one of {', '.join(KINDS)}"
            )
        account = self._known.get(instruction.id) or _Account(instruction)
        present = self._present()
        if not account.form[1] or any(one.form == account.form for one in present):
            return False
        if len(present) >= self.limit:
            leaving = self._dispensable(present)
            if not leaving:
                return False
            min(leaving, key=lambda one: one.leaving_order).present = False
        account.present = True
        account.touched = self._now
        self._known[instruction.id] = account
        return True

    def credit(self, id: str, gain: float, *, weight: float = 1.0) -> None:
        """Book what a design asked for with an instruction gained, in bps.

        An instruction that has left keeps its account.
        """
        if id not in self._known or not isfinite(gain) or not weight > 0.0:
            raise ValueError(
                f"instruction {id!r}, gain {gain}, weight {weight};"
                " give a known instruction, a finite gain and a weight above 0"
            )
        account = self._known[id]
        account.gained += weight * gain
        account.weight += weight
        account.uses += 1

    def age(self) -> None:
        """One iteration has passed: earlier gains count less from now on."""
        self._now += 1
        for account in self._known.values():
            account.gained *= DECAY
            account.weight *= DECAY

    def sample(self, kind: str, rng: np.random.Generator) -> ChosenInstruction:
        """Draw one instruction of a kind by credit.

        With chance `replay`, draw instead any that was neither added nor drawn of late.
        """
        members = self._present(kind)
        old = [one for one in members if self._now - one.touched >= QUIET_ITERATIONS]
        replayed = bool(rng.random() < self.replay and old)
        pool = old if replayed else members
        chances = None if replayed else self._chances(members)
        chosen = pool[int(rng.choice(len(pool), p=chances))]
        chosen.touched = self._now
        return ChosenInstruction(chosen.instruction, replayed)

    def parents(self, kind: str, rng: np.random.Generator, *, n: int) -> list[Instruction]:
        """Up to n different instructions of a kind, drawn by credit; this is no use of them."""
        members = self._present(kind)
        count = min(n, len(members))
        drawn = rng.choice(len(members), count, replace=False, p=self._chances(members))
        return [members[int(i)].instruction for i in drawn]

    def best(self, kind: str) -> Instruction:
        """The instruction of a kind with the most credit; of equals the one that came first."""
        return self._present(kind)[0].instruction

    def members(self) -> list[Instruction]:
        """The instructions here, best first within each kind."""
        return [one.instruction for one in self._by_kind()]

    def credits(self) -> list[InstructionCredit]:
        """The credit of each, in the order of `members`."""
        return [InstructionCredit(a.instruction.id, a.credit, a.uses) for a in self._by_kind()]

    def _by_kind(self) -> list[_Account]:
        found: list[_Account] = []
        for kind in KINDS:
            found += self._present(kind)
        return found

    def _present(self, kind: str | None = None) -> list[_Account]:
        """Those that are here, best first; of equals the one that came first."""
        here: list[_Account] = []
        for account in self._known.values():
            if account.present and kind in (None, account.instruction.kind):
                here.append(account)
        return sorted(here, key=lambda one: -one.credit)

    def _dispensable(self, present: Sequence[_Account]) -> list[_Account]:
        """Those that may leave: neither a default nor the best of its kind."""
        best = {self.best(kind).id for kind in KINDS}
        found: list[_Account] = []
        for account in present:
            instruction = account.instruction
            if instruction.operator != DEFAULT and instruction.id not in best:
                found.append(account)
        return found

    def _chances(self, members: Sequence[_Account]) -> npt.NDArray[np.float64]:
        """Softmax of the credits in standard deviations: neither their unit nor sign matters."""
        credits = np.array([one.credit for one in members])
        spread = credits.std()
        heights = 0.0 * credits
        if spread > 1e-9:
            heights = (credits - credits.max()) / (spread * self.temperature)
        return np.exp(heights) / np.exp(heights).sum()
