"""What a design bank shows: how far readings agree, how well the surrogate does, what edits gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from se_rl.modules.design_bank.readings import BankedDesign
from se_rl.modules.design_bank.seed_luck import (
    AGAIN,
    BRIEF,
    FIRST,
    LONG,
    LONG_AGAIN,
    SeedLuck,
    both,
    seed_luck,
)
from se_rl.modules.design_bank.storage import DesignBank
from se_rl.modules.design_bank.surrogate import (
    LAST,
    SEARCH,
    Examples,
    Surrogate,
)
from se_rl.modules.edits import Change, changes_between
from se_rl.modules.kinds import KINDS

Array = npt.NDArray[np.float64]
FOLDS = 10
TWICE_LAST = "two seeds, last rung"
LONG_CHANGE = 160
"""Letters from which on an edit is told by its new text alone."""
PAIRS = {
    "two seeds, search training": (FIRST, AGAIN),
    TWICE_LAST: (LONG, LONG_AGAIN),
    "search training and last rung": (FIRST, LONG),
    "a third of the work and search training": (BRIEF, FIRST),
    "a third of the work and last rung": (BRIEF, LONG),
}
GROUPS = {
    "edits of the default, random ones": ("scan", "edit", "random"),
    "near what searches end at": ("near", "accepted", "chain"),
}
"""Kinds of designs whose trainings differ in luck, by where they lie."""
KNOWN_BEFORE = "last rung, shorter trainings known"


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation over so many designs, over all and over the better half.

    The better half is that of the second of the two readings.
    """

    n: int
    over_all: float
    better_half: float


@dataclass(frozen=True)
class EditGain:
    """What one choice made otherwise gained over the default, in bps, and what is expected of it.

    `last` is the mean of so many `trainings` at the last rung, with the error of days, episodes
    and training seeds.
    """

    module: str
    change: str
    last: float
    se: float
    trainings: int
    search: float
    expected: float


@dataclass(frozen=True)
class GroupFigures:
    """Designs of some kinds alone: their luck, and ranks among themselves.

    `last_by_seed` are mean gains at the last rung with either seed, of designs that have both.
    """

    luck: SeedLuck
    seed_sd: float
    last_by_seed: tuple[float, float]
    agreement: Mapping[str, RankCorrelation]
    held_out: Mapping[str, RankCorrelation]


@dataclass(frozen=True)
class BankFigures:
    """All figures of a bank's page."""

    designs: int
    by_kind: Mapping[str, int]
    trainings: Mapping[str, int]
    failed: int
    agreement: Mapping[str, RankCorrelation]
    luck: SeedLuck
    seed_sd: float
    held_out: Mapping[str, RankCorrelation]
    held_out_error: Mapping[str, float]
    groups: Mapping[str, GroupFigures]
    edits: Sequence[EditGain]
    today: Mapping[str, float]
    """What the default of today gained over the bank's own, by training, where it was trained."""


def bank_figures(bank: DesignBank, weights: Mapping[str, float]) -> BankFigures:
    """Everything that the page tells."""
    kinds: dict[str, int] = {}
    for one in bank.designs:
        kinds[one.design.kind] = kinds.get(one.design.kind, 0) + 1
    agreement = {name: agreement_of(bank.designs, *pair) for name, pair in PAIRS.items()}
    trainings: dict[str, int] = {}
    for line in bank.lines:
        way = f"seed {line.seed}: rung {line.rung}, {line.work:.3g} units"
        trainings[way] = trainings.get(way, 0) + 1
    luck = seed_luck(bank.designs)
    predicted = held_out(bank, weights)
    return BankFigures(
        designs=len(bank.designs),
        by_kind=kinds,
        trainings=dict(sorted(trainings.items())),
        failed=sum(line.score is None for line in bank.lines),
        agreement=agreement,
        luck=luck,
        seed_sd=luck.of_score(weights),
        held_out={name: one.ranks() for name, one in predicted.items()},
        held_out_error={name: one.error for name, one in predicted.items()},
        groups=group_figures(bank, weights, predicted),
        edits=edit_gains(bank, weights),
        today=_today(bank),
    )


def _today(bank: DesignBank) -> dict[str, float]:
    found = {}
    for one in bank.designs:
        if one is not bank.default and not bank.sources(one.design):
            for line in one.readings:
                if line.score:
                    found[f"{line.work:.3g} units, seed {line.seed}"] = line.score.gain
    return found


def ranked(predicted: Iterable[float], true: Iterable[float]) -> RankCorrelation:
    """How two readings of the same designs agree in rank."""
    first, second = np.array(list(predicted)), np.array(list(true))
    if len(first) < 4:
        return RankCorrelation(len(first), float("nan"), float("nan"))
    better = second >= np.median(second)
    return RankCorrelation(
        len(first),
        float(spearmanr(first, second).statistic),
        float(spearmanr(first[better], second[better]).statistic),
    )


def agreement_of(designs: Sequence[BankedDesign], seed: int, other: int) -> RankCorrelation:
    """Of the gains of two trainings, over the designs that have both."""
    pairs = list(both(designs, seed, other))
    return ranked([a.gain for a, _ in pairs], [b.gain for _, b in pairs])


# the surrogate on designs that it has not seen


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of unseen designs, of these kinds, against their readings, in bps."""

    kinds: npt.NDArray[np.str_]
    predicted: Array
    true: Array

    @property
    def error(self) -> float:
        """The standard deviation of what they differ by."""
        return float(np.std(self.predicted - self.true))

    def ranks(self, kinds: Sequence[str] | None = None) -> RankCorrelation:
        """How they agree in rank, over some kinds of designs or all."""
        chosen = np.isin(self.kinds, self.kinds if kinds is None else kinds)
        return ranked(self.predicted[chosen], self.true[chosen])


def held_out(bank: DesignBank, weights: Mapping[str, float]) -> Mapping[str, HeldOut]:
    """Predictions for designs whose whole chain was left out, against what they came to.

    Once more at the last rung, with the shorter trainings of the designs themselves left in: what a
    search knows when it chooses who goes there.
    """
    examples = Examples.of(bank)
    true = examples.gains @ np.array([weights["static"], weights["dynamic"]])
    kinds = np.array([one.design.kind for one in examples.designs])
    nothing, shorter = np.zeros(len(true), bool), examples.level != LAST
    found = {}
    for name, level, seed, kept in (
        ("search training", SEARCH, FIRST, nothing),
        ("last rung", LAST, LONG, nothing),
        (KNOWN_BEFORE, LAST, LONG, shorter),
    ):
        predicted = left_out_predictions(examples, bank, weights, level=level, kept=kept)
        at = (examples.level == level) & (examples.seed == seed)
        found[name] = HeldOut(kinds[at], predicted[at], true[at])
    return found


def left_out_predictions(
    examples: Examples,
    bank: DesignBank,
    weights: Mapping[str, float],
    *,
    level: int,
    kept: npt.NDArray[np.bool_],
) -> Array:
    """For every reading the prediction at a level by the other folds and `kept` ones, [reading]."""
    fold = folds(examples.designs)
    predicted = np.empty(len(fold))
    for number in np.unique(fold):
        out = fold == number
        fitted = Surrogate(examples.some(~out | kept), bank.default.words)
        words = [one.words for one in examples.some(out).designs]
        predicted[out] = fitted.predict(words, level=level).score(weights)
    return predicted


def group_figures(
    bank: DesignBank, weights: Mapping[str, float], predicted: Mapping[str, HeldOut]
) -> dict[str, GroupFigures]:
    """The same figures for designs that lie elsewhere, each group by itself."""
    found = {}
    for name, kinds in GROUPS.items():
        designs = [one for one in bank.designs if one.design.kind in kinds]
        luck = seed_luck(designs)
        twice = [(a.gain, b.gain) for a, b in both(designs, LONG, LONG_AGAIN)]
        first, second = np.mean(twice, axis=0).tolist() if twice else (np.nan, np.nan)
        found[name] = GroupFigures(
            luck,
            luck.of_score(weights),
            (first, second),
            {pair: agreement_of(designs, *seeds) for pair, seeds in PAIRS.items()},
            {what: one.ranks(kinds) for what, one in predicted.items()},
        )
    return found


def folds(designs: Sequence[BankedDesign]) -> npt.NDArray[np.int64]:
    """A number for each design; those of one chain share it."""
    chains = sorted({one.design.chain for one in designs})
    place = {chain: number for number, chain in enumerate(chains)}
    order = np.random.default_rng(0).permutation(len(chains)) % FOLDS
    return np.array([order[place[one.design.chain]] for one in designs], np.int64)


# single edits


def edit_gains(bank: DesignBank, weights: Mapping[str, float]) -> list[EditGain]:
    """Every single edit that was trained at the last rung, the best first."""
    surrogate = Surrogate(Examples.of(bank), bank.default.words)
    spread = seed_luck(bank.designs).of_score(weights)
    found = []
    for one in bank.designs:
        longer = [score for seed in (LONG, LONG_AGAIN) if (score := one.reading(seed))]
        short = one.reading(FIRST)
        if one.design.kind != "scan" or not longer or short is None:
            continue
        (module, source), *_ = one.design.sources.items()
        default = bank.head.default.get(module) or KINDS[module].default_source
        changes = changes_between(default, source, module) or ()
        expected = float(surrogate.predict([one.words], level=LAST).score(weights)[0])
        text = "; ".join(map(_told, changes))
        gain = sum(score.gain for score in longer) / len(longer)
        # days and episodes are the same for all trainings
        orders = sum(score.gain_se for score in longer) / len(longer)
        se = hypot(orders, spread / len(longer) ** 0.5)
        found.append(EditGain(module, text, gain, se, len(longer), short.gain, expected))
    found.sort(key=lambda one: one.last, reverse=True)
    return found


def _told(change: Change) -> str:
    """A change in words; of a long one only what it leads to."""
    text = str(change)
    return text if len(text) < LONG_CHANGE else f"{change.slot} -> {' '.join(change.after.split())}"
