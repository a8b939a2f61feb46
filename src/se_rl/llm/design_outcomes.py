"""What became of the designs of one iteration: scores and advantages that the weights learn from.

The designs of one prompt are each other's baseline (leave-one-out). What counts is the gain over
the parent that the prompt showed, so that the model learns which edits pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.llm.backends import Proposal

if TYPE_CHECKING:
    from se_rl.llm.instruction_grammar import Tried
    from se_rl.llm.low_level_enhancement import LoRAConfig

Floats = npt.NDArray[np.float64]
Behaviour = tuple[float, ...]
Recent = Mapping[str, Iterable[Behaviour]]
"""Behaviours of recent designs by code_type."""


@dataclass(frozen=True)
class DesignOutcome:
    """What became of one proposal.

    `gain` is its score minus that of the parent shown in the prompt, None if it is invalid or gave
    no score. `repeated`: the archive had the design already. `prompt` tells which proposals are
    siblings (by default those with the same messages and grammar). `instructions` (ids) and `tried`
    are for the high level.
    """

    proposal: Proposal
    gain: float | None
    behaviour: Behaviour = ()
    repeated: bool = False
    prompt: str = ""
    code_type: str = ""
    instructions: tuple[str, ...] = ()
    tried: Tried | None = field(default=None, repr=False)

    @property
    def group(self) -> object:
        """Equal for the proposals of one request, redraws at other temperatures included."""
        asked = self.proposal.request
        return self.prompt or (asked and (str(asked.messages), asked.grammar))

    @property
    def gained(self) -> float:
        """The gain; NaN if there is none."""
        return self.gain if self.gain is not None and np.isfinite(self.gain) else np.nan

    @property
    def form(self) -> object:
        """Equal for designs that do the same; their text if their behaviour is unknown."""
        return tuple(round(x, 3) for x in self.behaviour) or self.proposal.text


def design_scores(
    outcomes: Sequence[DesignOutcome], config: LoRAConfig, *, recent: Recent | None = None
) -> Floats:
    """The score of every outcome, from which advantages are made.

    Half of it is the gain's rank among the valid siblings: with few samples and heavy tails one
    lucky score must not lead the step. Half is tanh(gain / median |gain| of the batch), so that
    near-ties count little and clear gains more.
    """
    gains = np.array([outcome.gained for outcome in outcomes])
    sizes = np.abs(gains[np.isfinite(gains)])
    scale = max(float(np.median(sizes) or sizes.max()), 1e-9) if sizes.size else 1.0
    scores = np.full(len(outcomes), config.invalid_score)
    for members in sibling_groups(outcomes):
        valid = members[np.isfinite(gains[members])]
        siblings = [outcomes[i] for i in valid]
        size = np.tanh(gains[valid] / scale)
        repeats = np.array([sibling.repeated for sibling in siblings], float)
        bonus = config.diversity * _novelty(siblings, recent or {})
        # score = (rank + tanh) / 2 + diversity * novelty - duplicate_penalty * repeated
        scores[valid] = (
            (_ranks(gains[valid]) + size) / 2 + bonus - config.duplicate_penalty * repeats
        )
    return scores


def advantages(outcomes: Sequence[DesignOutcome], scores: Floats) -> Floats:
    """Each score minus the mean of its siblings', scaled to size 1 over the batch.

    NaN in groups that teach nothing.
    """
    found = np.full(len(scores), np.nan)
    for members in sibling_groups(outcomes):
        n = len(members)
        if n > 1 and np.ptp(scores[members]) > 1e-9:
            # score - mean of the others = (score - mean of all) * n / (n - 1)
            found[members] = (scores[members] - scores[members].mean()) * n / (n - 1)
    live = np.isfinite(found)
    return found / np.sqrt(np.mean(found[live] ** 2)) if live.any() else found


def batch_summary(
    outcomes: Sequence[DesignOutcome], live: npt.NDArray[np.bool_], *, adapter: str | None
) -> dict[str, float]:
    """Counts and shares of a batch.

    `distinct` is the share of different designs among siblings, `off_policy` that of designs
    written by other weights than those that learn.
    """
    groups = sibling_groups(outcomes)
    gains = [outcome.gained for outcome in outcomes if np.isfinite(outcome.gained)]
    skipped = sum(not live[members].any() for members in groups)
    stats = {"groups": float(len(groups)), "skipped": float(skipped), "designs": float(live.sum())}
    if outcomes:
        others = [outcome.proposal.adapter != adapter for outcome in outcomes]
        different = {(outcome.group, outcome.form) for outcome in outcomes}
        stats["valid"] = len(gains) / len(outcomes)
        stats["off_policy"] = float(np.mean(others))
        stats["distinct"] = len(different) / len(outcomes)
    if gains:
        stats["mean_gain"] = float(np.mean(gains))
    return stats


def sibling_groups(outcomes: Sequence[DesignOutcome]) -> list[npt.NDArray[np.int64]]:
    """The places of the outcomes of each prompt."""
    found: dict[object, list[int]] = {}
    for i, outcome in enumerate(outcomes):
        found.setdefault(outcome.group, []).append(i)
    return [np.array(members) for members in found.values()]


def _ranks(gains: Floats) -> Floats:
    """Ranks spread evenly from -1 to 1, ties at their mean; 0 for a single gain."""
    from scipy.stats import rankdata

    return (2 * rankdata(gains) - 1 - len(gains)) / max(1, len(gains) - 1)


def _novelty(siblings: Sequence[DesignOutcome], recent: Recent) -> Floats:
    """Mean distance of each behaviour to its siblings' and to recent ones, from 0 to 1.

    A typical distance counts 0.5.
    """
    found = np.zeros(len(siblings))
    known = [i for i, sibling in enumerate(siblings) if sibling.behaviour]
    if not known:
        return found
    behaviours: list[Any] = [siblings[i].behaviour for i in known]
    points = np.array([*behaviours, *recent.get(siblings[0].code_type, ())])
    # root mean square distance of each known sibling to every point: [sibling, point]
    apart = np.sqrt(np.mean((points[: len(known), None] - points) ** 2, axis=2))
    typical = np.median(apart[apart > 0]) if (apart > 0).any() else 1.0
    found[known] = (apart / (apart + typical)).sum(1) / max(1, len(points) - 1)
    return found
