"""What was tried and how it did: lessons for the next prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from se_rl.config import ConfigError
from se_rl.llm.extraction import normal_form
from se_rl.llm.instruction_grammar import Tried
from se_rl.llm.prompts import Scored
from se_rl.modules.kinds import KINDS

NOISE_RATIO = 0.22
"""Variance of a score between training seeds over that between designs.

(0.16 / 0.34) squared in a study of 46 designs.
"""


class PerformanceBuffer:
    """The last `limit` tries, the best design of each module among them.

    Tries of the same design (by normal form) are pooled, and scores shrink towards the module's
    mean, the more the fewer trainings they rest on: luck does not lead.
    """

    def __init__(self, limit: int = 200) -> None:
        if limit < 1:
            raise ConfigError(f"the limit of tries to remember is {limit}; give at least 1")
        self.limit = limit
        self._tries: list[tuple[str, Tried]] = []  # normal form, try

    def __len__(self) -> int:
        return len(self._tries)

    @property
    def modules(self) -> tuple[str, ...]:
        """The code_types that were tried."""
        seen = {tried.code_type for _, tried in self._tries}
        return tuple(name for name in KINDS if name in seen)

    def add(self, tried: Tried) -> None:
        """Remember it; beyond the limit the oldest try leaves that is no module's best design."""
        self._tries.append((normal_form(tried.source), tried))
        if len(self._tries) > self.limit:
            self._tries.pop(self._oldest())

    def best(self, code_type: str, n: int) -> list[Tried]:
        """The n best designs of a module, best first, with shrunken scores."""
        return self._ranked(code_type)[:n]

    def extremes(self, code_type: str, n: int) -> list[Tried]:
        """n designs of a module to learn from: half the best, half the worst, then failures."""
        ranked = self._ranked(code_type)
        shown = ranked
        if len(ranked) > n:
            shown = ranked[: ceil(n / 2)] + ranked[len(ranked) - n // 2 :]
        known = {normal_form(one.source) for one in ranked}
        failed: dict[str, Tried] = {}
        for form, one in self._tries:
            if one.code_type == code_type and form not in known:
                failed[form] = one
        latest_first = list(failed.values())[::-1]
        return shown + latest_first[: n - len(shown)]

    def history(self, code_type: str, n: int) -> list[Scored]:
        """The same as (instruction, design, score) for the prompt: in-context reward learning."""
        return [one.lesson() for one in self.extremes(code_type, n)]

    def sample(self, rng: np.random.Generator, n: int) -> list[Tried]:
        """Up to n different tries, all equally likely, to be replayed."""
        return [self._tries[int(i)][1] for i in rng.permutation(len(self._tries))[:n]]

    def _oldest(self) -> int:
        """The place of the oldest try that is not of a module's best design."""
        best: set[tuple[str, str]] = set()
        for name in self.modules:
            for one in self.best(name, 1):
                best.add((name, normal_form(one.source)))
        for place, (form, one) in enumerate(self._tries):
            if (one.code_type, form) not in best:
                return place
        return 0

    def _ranked(self, code_type: str) -> list[Tried]:
        """Each design with a score once, pooled over its tries and shrunken, best first."""
        pools: dict[str, list[Tried]] = {}
        for form, tried in self._tries:
            if tried.code_type == code_type and tried.ok:
                pools.setdefault(form, []).append(tried)
        pooled = [_pooled(tries) for tries in pools.values()]
        centre = float(np.mean([one.score for one in pooled])) if pooled else 0.0
        shrunk: list[Tried] = []
        for one in pooled:
            # shrunken score = centre + n / (n + noise ratio) * (score - centre)
            kept = one.seeds / (one.seeds + NOISE_RATIO)
            shrunk.append(replace(one, score=centre + kept * (one.score - centre)))
        return sorted(shrunk, key=lambda one: -one.score)


def _pooled(tries: Sequence[Tried]) -> Tried:
    """The latest try of a design with the means over all its trainings."""
    seeds = [one.seeds for one in tries]
    score, gain = np.average([(one.score, one.gain) for one in tries], axis=0, weights=seeds)
    return replace(tries[-1], score=float(score), gain=float(gain), seeds=sum(seeds))
