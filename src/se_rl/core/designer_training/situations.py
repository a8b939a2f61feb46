"""Situations that a designer meets in a search, drawn from the design bank.

A situation is a parent, a module to change, what earlier edits gained, and an instruction, told
exactly as a run tells it. Part of the bank is kept out for measuring: the designs of a chain are
each other's parents, so a chain is kept out as a whole. Only modules that the bank has measured
can be judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from se_rl.core.designer_training.wishes import LEAST_MOVE, WISHES, can_be_asked, move
from se_rl.llm.editing import CHANGES, SHOWN_EDITS, EditTask, TriedEdit, shown_edits
from se_rl.llm.instruction_grammar import random_advice
from se_rl.modules.derivation import derivation
from se_rl.modules.design_bank.readings import BankedDesign
from se_rl.modules.design_bank.storage import DesignBank
from se_rl.modules.design_bank.surrogate import LAST, Examples, Surrogate
from se_rl.modules.design_bank.words import design_words
from se_rl.modules.edits import MOST_CHANGES, changes_between
from se_rl.modules.kinds import KINDS

Array = npt.NDArray[np.float64]
KEPT_OUT = 0.2
"""The share of the bank's chains that is measured by."""
DEFAULT_PARENT = 0.3
"""How often the parent is the default, with which every search begins."""
ADVISED, WISHED = 0.15, 0.45
"""How often the instruction is drawn advice, and how often a wish."""
WISH_WORTH = 2.0
"""What going the way that was asked is worth, in units of the spread of the siblings' gains."""


@dataclass(frozen=True)
class BankSplit:
    """The bank's designs but the default: those to learn from, and those kept out."""

    learned: tuple[BankedDesign, ...]
    kept_out: tuple[BankedDesign, ...]


def split_bank(bank: DesignBank, *, seed: int, share: float = KEPT_OUT) -> BankSplit:
    """Chains are drawn, and all designs of a drawn chain are kept out."""
    designs = [one for one in bank.designs if one is not bank.default]
    chains = sorted({one.design.chain for one in designs})
    order = np.random.default_rng([seed, len(chains)]).permutation(len(chains))
    out = {chains[int(place)] for place in order[: round(share * len(chains))]}
    kept_out = tuple(one for one in designs if one.design.chain in out)
    return BankSplit(tuple(one for one in designs if one.design.chain not in out), kept_out)


class GainJudge:
    """What edits gain over their parent in a long training, by a surrogate of some designs."""

    def __init__(
        self, bank: DesignBank, designs: Sequence[BankedDesign], weights: Mapping[str, float]
    ) -> None:
        names = {one.design.id for one in designs}
        examples = Examples.of(bank)
        known = np.array([one.design.id in names for one in examples.designs])
        self._surrogate = Surrogate(examples.some(known), bank.default.words)
        self._modules = bank.head.modules
        self._weights = weights

    def scores(self, designs: Sequence[Mapping[str, str]]) -> Array:
        """What designs, given by their sources, gain over the bank's default, in bps."""
        words = [design_words(sources, self._modules) for sources in designs]
        return self._surrogate.predict(words, level=LAST).score(self._weights)

    def gains(self, situation: Situation, sources: Sequence[str]) -> Array:
        """What versions of the situation's module gain over the parent, in bps."""
        found = self.scores([situation.parent, *map(situation.with_module, sources)])
        return found[1:] - found[0]


@dataclass(frozen=True)
class Situation:
    """A parent's sources, and what the designer is asked about one of its modules.

    `wish` is the name of the wish in the instruction, "" where there is none.
    """

    name: str
    parent: Mapping[str, str]
    task: EditTask
    wish: str = ""

    def with_module(self, source: str) -> Mapping[str, str]:
        """The parent with another version of the module."""
        return {**self.parent, self.task.code_type: source}

    def worth(self, gains: Array, sources: Sequence[str]) -> Array:
        """What edits are worth to the one who asks: their gains, and where a wish was made, that
        they go its way.
        """
        if not self.wish or not len(gains):
            return gains
        moves = [self.moved(source) for source in sources]
        spread = max(float(gains.std()), 1e-9)
        return gains + WISH_WORTH * spread * np.sign(np.round(moves, 6))

    def moved(self, source: str) -> float:
        """How far a version of the module goes the way of the wish."""
        return move(self.wish, self.task.code_type, self.task.source, source)

    def grants(self, source: str) -> bool:
        """Whether a version of the module goes the way of the wish; any does where there is none."""
        return not self.wish or self.moved(source) > LEAST_MOVE


class Situations:
    """Draws situations from some designs of the bank; `judge` says what parents score."""

    def __init__(
        self,
        bank: DesignBank,
        designs: Sequence[BankedDesign],
        judge: GainJudge,
        *,
        default_share: float = DEFAULT_PARENT,
        with_words: bool = True,
    ) -> None:
        self.modules = bank.head.modules
        self.judge = judge
        self._designs = tuple(designs)
        self._bank = bank
        self._default_share = default_share
        self._with_words = with_words

    def draw(self, rng: np.random.Generator, *, wish: str = "") -> Situation:
        """A situation; `wish` makes it one in which that wish is made."""
        modules = list(WISHES[wish].degrees) if wish else self.modules
        modules = [name for name in modules if name in self.modules]
        module = modules[int(rng.integers(len(modules)))]
        name, parent = self._parent(module, rng)
        source = parent.get(module) or KINDS[module].default_source
        words, wish = self._words(module, source, rng, wish=wish)
        many = int(rng.integers(SHOWN_EDITS + MOST_CHANGES + 1))
        pool = self._tried[module]
        chosen = rng.permutation(len(pool))[:many]
        task = EditTask(
            module,
            source,
            float(self.judge.scores([parent])[0]),
            int(rng.choice(len(CHANGES), p=CHANGES)) + 1,
            micro=words,
            tried=shown_edits([pool[int(place)] for place in chosen]),
        )
        return Situation(name, parent, task, wish)

    def _parent(self, module: str, rng: np.random.Generator) -> tuple[str, Mapping[str, str]]:
        """The default, or the better one of two designs: searches go on from what is good."""
        if not self._designs or rng.random() < self._default_share:
            return "default", {}
        pool = self._editable[module]
        pair = [pool[int(rng.integers(len(pool)))] for _ in range(2)]
        sources = [self._bank.sources(one.design) for one in pair]
        best = int(np.argmax(self.judge.scores(sources)))
        return pair[best].design.id, sources[best]

    def _words(
        self, module: str, source: str, rng: np.random.Generator, *, wish: str
    ) -> tuple[str | None, str]:
        """The instruction, and the wish in it."""
        drawn = rng.random()
        if not wish and self._with_words and drawn < WISHED:
            names = can_be_asked(module, source)
            wish = names[int(rng.integers(len(names)))]
        if wish:
            return WISHES[wish].text, wish
        advised = self._with_words and drawn < WISHED + ADVISED
        return (random_advice(module, rng) if advised else None), ""

    @cached_property
    def _editable(self) -> dict[str, list[BankedDesign]]:
        """The designs whose version of a module is in its grammar, by module."""
        found: dict[str, list[BankedDesign]] = {name: [] for name in self.modules}
        for one in self._designs:
            sources = self._bank.sources(one.design)
            for name in self.modules:
                source = sources.get(name) or KINDS[name].default_source
                if derivation(source, name) is not None:
                    found[name].append(one)
        return found

    @cached_property
    def _tried(self) -> dict[str, list[TriedEdit]]:
        """Measured edits of the default in one module, with their gains, by module."""
        found: dict[str, list[TriedEdit]] = {name: [] for name in self.modules}
        for one in self._designs:
            score = next((line.score for line in one.readings if line.score), None)
            if len(one.design.sources) != 1 or score is None:
                continue
            [(name, source)] = one.design.sources.items()
            changes = changes_between(self._bank.head.default[name], source, name)
            if changes and len(changes) <= MOST_CHANGES:
                told = "; ".join(map(str, changes))
                found[name].append(TriedEdit(told, score.gain, score.gain_se))
        return found
