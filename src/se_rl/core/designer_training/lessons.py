"""What the designer learns from in one situation: good edits to imitate, or its own ones, judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from se_rl.core.designer_training.situations import GainJudge, Situation
from se_rl.llm.backends import Proposal
from se_rl.llm.design_outcomes import Behaviour, DesignOutcome
from se_rl.llm.local import LocalDesigner
from se_rl.modules.design_bank.words import module_words
from se_rl.modules.edits import EditLanguage, drawn_edit

TRIES, WISH_TRIES = 6, 20
"""Draws for each edit that is wanted: more where a wish is made, since few edits go its way."""
LEAST_WEIGHT = 0.05
"""An edit with less than this share of an even weight is no example."""

Array = npt.NDArray[np.float64]


def drawn_edits(situation: Situation, n: int, rng: np.random.Generator) -> list[str]:
    """Up to n different versions of the module, drawn as the arm `local` draws them."""
    return list(islice(_draws(situation, TRIES * n, rng), n))


def granting_edits(situation: Situation, n: int, rng: np.random.Generator) -> list[str]:
    """Up to n of them that go the way of the situation's wish."""
    drawn = _draws(situation, WISH_TRIES * n, rng)
    return list(islice(filter(situation.grants, drawn), n))


def _draws(situation: Situation, tries: int, rng: np.random.Generator) -> Iterator[str]:
    """The different versions of the module that so many draws bring."""
    task = situation.task
    seen = {task.source}
    for _ in range(tries):
        source = drawn_edit(task.source, task.code_type, rng, changes=task.changes)
        if source is not None and source not in seen:
            seen.add(source)
            yield source


def example_weights(worth: Array, *, sharpness: float) -> Array:
    """How much each edit counts as an example: the better ones more, 1 on average."""
    if not len(worth):
        return worth
    # softmax of sharpness * (worth - mean) / spread
    standard = (worth - worth.mean()) / max(float(worth.std()), 1e-9)
    weights = np.exp(sharpness * (standard - standard.max()))
    return weights / weights.mean()


def examples(
    designer: LocalDesigner,
    situation: Situation,
    judge: GainJudge,
    *,
    n: int,
    sharpness: float,
    rng: np.random.Generator,
) -> tuple[list[Proposal], list[float]]:
    """Edits drawn at random as if the designer had written them, weighted by what they gain.

    Where a wish is made they all go its way: what is likely at random would drown it. Few edits
    grant some wishes, so every situation counts as much as n examples.
    """
    task = situation.task
    language = EditLanguage(task.source, task.code_type, changes=task.changes)
    texts: list[str] = []
    sources: list[str] = []
    for source in (granting_edits if situation.wish else drawn_edits)(situation, n, rng):
        text = language.written(source)
        if text is not None:
            texts.append(text)
            sources.append(source)
    weights = example_weights(judge.gains(situation, sources), sharpness=sharpness)
    weights *= n / max(1, len(sources))
    chosen = np.flatnonzero(weights > LEAST_WEIGHT).tolist()
    request = task.request(constrained=True, seed=0)
    proposals = designer.taught(request, [texts[place] for place in chosen])
    return proposals, weights[chosen].tolist()


def judged(
    situation: Situation, proposals: Sequence[Proposal], judge: GainJudge
) -> list[DesignOutcome]:
    """The designer's own edits of one parent, with what they are worth.

    What an edit does is told by the words it changes, so that siblings with other ideas are
    rewarded for it; one that leads where an earlier sibling went is a repeat.
    """
    task = situation.task
    sources: list[str] = []
    for proposal in proposals:
        sources.append(task.choices.read(proposal.text).source or "")
    valid = [source for source in sources if source]
    worth = iter(situation.worth(judge.gains(situation, valid), valid))
    behaviours = iter(_behaviours(task.source, valid, task.code_type))
    group = f"{situation.name} {proposals[0].request and proposals[0].request.seed}"
    seen = {task.source}
    outcomes = []
    for proposal, source in zip(proposals, sources, strict=True):
        if not source:
            outcomes.append(DesignOutcome(proposal, None, prompt=group, code_type=task.code_type))
            continue
        outcomes.append(
            DesignOutcome(
                proposal,
                float(next(worth)),
                next(behaviours),
                repeated=source in seen,
                prompt=group,
                code_type=task.code_type,
            )
        )
        seen.add(source)
    return outcomes


def _behaviours(parent: str, sources: Sequence[str], code_type: str) -> list[Behaviour]:
    """Counts of the words that each version has more or less than the parent."""
    before = Counter(module_words(parent, code_type))
    differences = []
    for source in sources:
        after = Counter(module_words(source, code_type))
        difference = Counter(after)
        difference.subtract(before)
        differences.append({word: count for word, count in difference.items() if count})
    words = sorted({word for one in differences for word in one})
    found = []
    for one in differences:
        found.append(tuple(float(one.get(word, 0)) for word in words))
    return found
