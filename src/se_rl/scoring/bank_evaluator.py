"""Searches against the design bank: trainings are pretended, and their scores are the surrogate's.

What a design gains is the surrogate's prediction for its choices, at the level of the rung; on top
come the luck of the days and episodes, which all trainings on them share, and that of the training
seed, both as large as the bank measured them. Everything follows from the design, the rung and the
seed. Nothing is trained: such a search tests and tunes searches, and its results are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from se_rl.modules.design_bank.seed_luck import SeedLuck, seed_luck
from se_rl.modules.design_bank.storage import DesignBank
from se_rl.modules.design_bank.surrogate import LAST, SEARCH, Examples, Surrogate
from se_rl.modules.design_bank.words import design_words
from se_rl.records.entries import Candidate, Evaluation, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.scoring.score import Array
from se_rl.scoring.standing import Regimes

PRETENDED = "surrogate: nothing was trained"
UNITS = 8
"""Pretended days, and as many simulated episodes."""


class PretendedTrainings:
    """What trainings of any design would come to, by the surrogate of one bank.

    `weights` are those of history and simulated markets in the score, `luck` is how much of the
    bank's luck readings have.
    """

    def __init__(
        self, bank: DesignBank, weights: Mapping[str, float], *, luck: float = 1.0
    ) -> None:
        self.bank = bank
        self.surrogate = Surrogate(Examples.of(bank), bank.default.words)
        measured = seed_luck(bank.designs)
        self.luck = SeedLuck(luck * measured.history, luck * measured.simulated, measured.pairs)
        errors = [line.score.gain_se for line in bank.lines if line.score and line.score.gain_se]
        # the error of a score whose parts have this one each is what the bank has in the middle
        error = float(np.median(errors)) / hypot(*weights.values()) if errors else 0.0
        self.order_error = luck * error
        self._known: dict[tuple[str, int], tuple[float, float]] = {}

    def gains(self, name: str, sources: Mapping[str, str], level: int) -> tuple[float, float]:
        """The gains of history and simulated markets that are expected of a design, in bps."""
        if (name, level) not in self._known:
            # over today's default, which need not be the bank's own
            words = [design_words(one, self.bank.head.modules) for one in (sources, {})]
            found = self.surrogate.predict(words, level=level)
            parts = np.array([found.history, found.simulated])  # [part, design]
            history, simulated = (parts[:, 0] - parts[:, 1]).tolist()
            self._known[name, level] = history, simulated
        return self._known[name, level]

    def reading(
        self, name: str, sources: Mapping[str, str], level: int, seed: int, *, chance: int = 0
    ) -> dict[str, Array]:
        """A training's scores on the pretended days and episodes; another `chance`, other luck.

        They vary between days as much as their mean may be wrong.
        """
        history, simulated = self.gains(name, sources, level)
        orders = np.zeros((2, UNITS))  # [part, unit]; the default is what others are held against
        if sources:
            orders = self.order_error * np.sqrt(UNITS) * _draws(name, level, "orders", chance).T
        luck = _draws(name, level, seed, chance)[0]
        found = orders + np.array([[history], [simulated]])
        found += np.array([[self.luck.history * luck[0]], [self.luck.simulated * luck[1]]])
        return {
            "static": found[0],
            "static_total": np.zeros(UNITS),  # what risk costs is in the gains already
            "static_day": np.arange(UNITS, dtype=np.float64),
            "dynamic": found[1],
            "dynamic_cell": np.zeros(UNITS),
        }


def _draws(*what: int | str) -> Array:
    """Normal numbers, [unit, part], that follow from what they are for."""
    return np.random.default_rng(int(key_of(*what), 16)).normal(size=(UNITS, 2))


@dataclass
class BankEvaluator:
    """An `Evaluator` that trains nothing; `sources` are a design's modules by name."""

    trainings: PretendedTrainings
    sources: Callable[[Candidate], Mapping[str, str]]
    chance: int = 0
    """Another number, other luck."""

    def __post_init__(self) -> None:
        self._arrays: dict[str, dict[str, Array]] = {}

    @property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """One cell of simulated orders."""
        return {"dynamic": ("simulated",)}

    def regimes(self, rung: Rung) -> Regimes:
        """Pretended days have no regimes."""
        return {}

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with what its training would have come to."""
        for job in jobs:
            level = LAST if job.rung.fresh else SEARCH
            name = job.candidate.id
            place = f"{name} {job.rung.index} {job.seed}"
            sources = self.sources(job.candidate)
            self._arrays[place] = self.trainings.reading(
                name, sources, level, job.seed, chance=self.chance
            )
            made = Evaluation(
                name,
                job.rung.index,
                job.seed,
                "ok",
                arrays=place,
                work=job.rung.work,
                isolation=PRETENDED,
            )
            yield job, made, False

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The pretended scores."""
        return self._arrays[evaluation.arrays]
