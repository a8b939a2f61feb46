"""What to expect of designs after long trainings, from shorter ones and from what was known before.

Short trainings mislead about some choices: a wider action pays only in the long run. The design
bank has measured single choices at both lengths, so a design's reading is taken as a surprise
against what the bank expects of so short a training, the surprise is shrunken, and what the bank
expects of a long one is added. The last rung, which names the champion, knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from se_rl.modules.derivation import derivation
from se_rl.modules.design_bank.storage import load_bank
from se_rl.modules.design_bank.surrogate import LAST, SEARCH, bank_surrogate, bank_words
from se_rl.records.rungs import Rung
from se_rl.scoring.standing import Standing, shrunken

Foresight = Callable[[str, Rung], float]
"""What was expected of a design at a rung before it was trained, bps over the default."""


def nothing_known(name: str, rung: Rung) -> float:
    """No foresight."""
    return 0.0


@dataclass
class BankForesight:
    """What the package's bank expects of designs, whose `sources` are by name."""

    sources: Mapping[str, Mapping[str, str]]
    weights: Mapping[str, float]
    _known: dict[tuple[str, int], float] = field(default_factory=dict)

    def __call__(self, name: str, rung: Rung) -> float:
        """The expected gain over the default; 0 for the default itself."""
        level = _level(rung)
        if (name, level) not in self._known:
            self._known[name, level] = expected(self.sources[name], self.weights, level=level)
        return self._known[name, level]


def expected(
    sources: Mapping[str, str], weights: Mapping[str, float], *, level: int = LAST
) -> float:
    """What the bank expects a design to gain over the default, in bps.

    The default of today need not be the one that the bank's designs were held against. Of a module
    in free Python the bank knows nothing, so nothing is expected of it.
    """
    told = {name: text for name, text in sources.items() if derivation(text, name) is not None}
    words = [bank_words(told), bank_words({})]
    found = bank_surrogate().predict(words, level=level).score(weights)
    return float(found[0] - found[1])


def _level(rung: Rung) -> int:
    """The bank's level whose trainings are as long, or the nearest."""
    work = load_bank().head.work
    return LAST if rung.work**2 > work * 3.0 * work else SEARCH


def prospects(
    standings: Mapping[tuple[str, int], Standing],
    rungs: Sequence[Rung],
    foresight: Foresight,
    *,
    at: Rung,
) -> dict[str, float]:
    """Expected scores over the default at a rung, each design's by the highest of `rungs` it has."""
    found: dict[str, float] = {}
    for rung in rungs:
        surprises = []
        for (name, index), one in standings.items():
            if index == rung.index:
                surprises.append(replace(one, score=one.score - foresight(name, rung)))
        for name, surprise in shrunken(surprises).items():
            found[name] = surprise + foresight(name, at)
    return found
