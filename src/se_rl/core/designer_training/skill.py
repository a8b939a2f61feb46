"""One-step skill: what the edits of a designer gain over their parents, on parents kept out.

Edits of one parent are no independent trials, so intervals go by parent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from se_rl.core.designer_training.lessons import drawn_edits
from se_rl.core.designer_training.situations import GainJudge, Situation, Situations
from se_rl.core.designer_training.wishes import Following, following
from se_rl.llm.generator import DesignGenerator
from se_rl.scoring.statistics import clustered_mean


@dataclass(frozen=True)
class EditPair:
    """An edit and its parent; `expected` is its gain by the judge, in bps."""

    situation: Situation
    source: str
    expected: float


@dataclass(frozen=True)
class OneStep:
    """Gains over the parent: so many edits, their mean in bps with its interval, the share above 0."""

    n: int
    mean_gain: float
    ci95: tuple[float, float]
    positive_share: float


Write = Callable[[Situation, int], list[str]]
"""Writes up to so many versions of a situation's module."""


def random_writer(seed: int) -> Write:
    """Edits drawn as the arm `local` draws them."""
    rng = np.random.default_rng([seed, 1])
    return lambda situation, n: drawn_edits(situation, n, rng)


def model_writer(generator: DesignGenerator, seed: int) -> Write:
    """Edits of a model, asked and drawn again where they repeat as in a run; not validated."""
    turns = iter(np.random.default_rng([seed, 2]).integers(2**31, size=1_000_000).tolist())

    def write(situation: Situation, n: int) -> list[str]:
        task = situation.task
        form = task.form(constrained=generator.constrained)
        request = task.request(constrained=generator.constrained, seed=next(turns))
        found: dict[str, None] = {}
        for proposal in generator.distinct(request, n, [task.source], read=form.read):
            source = form.read(proposal.text).source
            if source is not None and source != task.source:
                found[source] = None
        return list(found)

    return write


def held_out_situations(
    situations: Situations, n: int, *, seed: int, wish: str = ""
) -> list[Situation]:
    """So many situations, the same for every designer."""
    rng = np.random.default_rng([seed, 3])
    return [situations.draw(rng, wish=wish) for _ in range(n)]


def edit_pairs(
    write: Write, situations: Sequence[Situation], judge: GainJudge, *, edits: int
) -> list[EditPair]:
    """The edits that a designer writes, so many of each parent, judged."""
    found = []
    for situation in situations:
        sources = write(situation, edits)
        for source, gain in zip(sources, judge.gains(situation, sources), strict=True):
            found.append(EditPair(situation, source, float(gain)))
    return found


def one_step(gains: Sequence[float], parents: Sequence[str]) -> OneStep:
    """Gains of edits whose parents have these names."""
    if not gains:
        return OneStep(0, float("nan"), (float("nan"), float("nan")), float("nan"))
    values = np.array(gains, np.float64)
    _, index = np.unique(np.array(parents), return_inverse=True)
    found = clustered_mean(values, index)
    return OneStep(len(values), found.mean, found.ci95, float(np.mean(values > 0.0)))


def skill_of(pairs: Sequence[EditPair]) -> OneStep:
    """What is expected of a designer's edits."""
    gains = [pair.expected for pair in pairs]
    return one_step(gains, [pair.situation.name for pair in pairs])


def wish_following(
    write: Write, situations: Situations, wish: str, *, parents: int, edits: int, seed: int
) -> Following:
    """Which way edits move that are asked for a wish, over so many parents."""
    moves: list[float] = []
    asked: list[int] = []
    found = held_out_situations(situations, parents, seed=seed, wish=wish)
    for place, situation in enumerate(found):
        for source in write(situation, edits):
            moves.append(situation.moved(source))
            asked.append(place)
    return following(moves, asked)
