"""The trainings of a search and their scores, and how any two designs compare by them.

An evaluation is kept under the rung where it was made. Where two rungs train and score alike, the
later one counts the trainings of the earlier, too: a race adds seeds to a screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung, Rungs
from se_rl.scoring.evaluator import Evaluator
from se_rl.scoring.score import Array, ScoreRule
from se_rl.scoring.standing import SeedSpread, Standing, standing


class Trainings:
    """What was trained, by design, rung and seed."""

    def __init__(self, evaluator: Evaluator, rungs: Rungs, rule: ScoreRule) -> None:
        self.evaluator = evaluator
        self.rungs = rungs
        self.rule = rule
        self._made: dict[tuple[str, int], dict[int, Evaluation]] = {}
        self._arrays: dict[str, dict[str, Array]] = {}
        self._compared: dict[tuple[str, str, int, tuple[int, ...]], Standing] = {}

    def __iter__(self) -> Iterator[Evaluation]:
        """Every training once, under the rung where it was made."""
        for by_seed in self._made.values():
            yield from by_seed.values()

    def add(self, job: TrainingJob, evaluation: Evaluation) -> None:
        """Keep what came of a job."""
        by_seed = self._made.setdefault((job.candidate.id, job.rung.index), {})
        by_seed[job.seed] = evaluation

    def made_at(self, name: str, rung: Rung) -> dict[int, Evaluation]:
        """A design's trainings that were made at a rung, by seed."""
        return dict(self._made.get((name, rung.index), {}))

    def at(self, name: str, rung: Rung) -> dict[int, Evaluation]:
        """A design's trainings that count at a rung, in the order of seeds, however they ended.

        A design that was not trained there has none.
        """
        if (name, rung.index) not in self._made:
            return {}
        found: dict[int, Evaluation] = {}
        for like in self.rungs.alike(rung):
            if like.index <= rung.index:
                found |= self._made.get((name, like.index), {})
        return dict(sorted(found.items()))

    def scores(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores of an evaluation, a number per pair of orders."""
        if evaluation.arrays not in self._arrays:
            self._arrays[evaluation.arrays] = self.evaluator.arrays(evaluation)
        return self._arrays[evaluation.arrays]

    def compare(self, name: str, other: str, rung: Rung, spread: SeedSpread) -> Standing | None:
        """A design over another one, from the trainings that both have in common."""
        own = self.at(name, rung)
        theirs = self.at(other, rung)
        seeds = [s for s in own if own[s].ok and s in theirs and theirs[s].ok]
        if not seeds:
            return None
        key = (name, other, rung.index, tuple(seeds))
        if key not in self._compared:  # a batch settles again all that were there before it
            self._compared[key] = standing(
                name,
                rung.index,
                [self.scores(own[s]) for s in seeds],
                [self.scores(theirs[s]) for s in seeds],
                rule=self.rule,
                regimes=self.evaluator.regimes(rung),
                cells=self.evaluator.cells.get("dynamic", ()),
                training_seeds=seeds,
            )
        return replace(self._compared[key], spread=spread)
