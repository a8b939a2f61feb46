"""The page of trainings in others' markets: ours beside the published learners and simple rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev

from se_rl_benchmarks.markdown_tables import table

HEAD = """# Our PPO in markets that others built

Made by `python benchmarks/outside_training.py --seeds 5 --out docs/results/outside_training.md`; do
not edit. One PPO, the default network of two layers of 64, in seven markets (docs/outside.md): the
mean over seeds of the mean return on test episodes, without noise, with its standard error over
seeds and episodes; returns in price x units (qrm) and in ticks a lot (cw). The published learner is
the better documented one of each paper (a DDQN; an actor-critic with logistic-normal actions), on
10,000 or 20,000 episodes; the best simple rule is the best one known for each market, ours or
theirs. "meets" is at or above the published figure less one standard error of the difference. What
is unfinished at the end is bought or sold at market, as the tasks say: in qrm without any consequence,
which is a hole, in cw at the price of walking the book.
"""


@dataclass(frozen=True)
class TrainingRow:
    """One training and its test."""

    market: str
    seed: int
    inputs: tuple[str, ...]
    actions: str
    mean: float
    error: float
    episodes: int
    unfinished_share: float
    updates: int
    seconds: float


@dataclass(frozen=True)
class Rival:
    """A figure to hold ours against."""

    name: str
    mean: float
    error: float


LEARNERS = {
    "qrm": Rival("DDQN", -0.259, 0.0045),
    "cw-noise-20": Rival("logistic-normal", 0.64, 0.0088),
    "cw-noise-60": Rival("logistic-normal", -0.81, 0.0093),
    "cw-tactical-20": Rival("logistic-normal", 0.79, 0.0067),
    "cw-tactical-60": Rival("logistic-normal", -0.24, 0.0066),
    "cw-strategic-20": Rival("logistic-normal", 1.11, 0.0223),
    "cw-strategic-60": Rival("logistic-normal", 0.11, 0.0242),
}
"""What the papers' own learners returned; errors over their test episodes."""
SIMPLE_RULES = {
    "qrm": Rival("50 % of the best queue every 2nd time", -0.342, 0.0033),
    "cw-noise-20": Rival("submit and leave", 0.52, 0.0119),
    "cw-noise-60": Rival("all offered 2 ticks above the bid, 80 % of TWAP enforced", -0.791, 0.01),
    "cw-tactical-20": Rival("a tenth offered at every decision", 0.484, 0.005),
    "cw-tactical-60": Rival("a tenth offered 2 ticks above the bid, TWAP enforced", -0.582, 0.01),
    "cw-strategic-20": Rival("sell all when the mid has fallen, else wait", 1.249, 0.018),
    "cw-strategic-60": Rival("sell all when the mid has fallen, else wait", 0.168, 0.017),
}
"""The best rule without learning of each market, over 8,000 to 20,000 episodes."""


@dataclass(frozen=True)
class MarketFigures:
    """All trainings in one market."""

    rows: tuple[TrainingRow, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(row.mean for row in self.rows)

    @property
    def error(self) -> float:
        """Of the mean: over seeds where there are several, never less than over episodes.

        All seeds are tested on the same episodes.
        """
        means = [row.mean for row in self.rows]
        over_seeds = stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0
        return math.hypot(over_seeds, fmean(row.error for row in self.rows))

    def meets(self, rival: Rival) -> bool:
        """At or above it, less one standard error of the difference."""
        return self.mean >= rival.mean - math.hypot(self.error, rival.error)

    def words(self) -> tuple[str, ...]:
        """The market's line."""
        first = self.rows[0]
        learner, rule = LEARNERS[first.market], SIMPLE_RULES[first.market]
        lowest, highest = min(row.mean for row in self.rows), max(row.mean for row in self.rows)
        return (
            first.market,
            f"{self.mean:.4f} ± {self.error:.4f}",
            f"{lowest:.4f} to {highest:.4f} ({len(self.rows)})",
            f"{learner.mean:g} ± {learner.error:.4f}",
            "meets" if self.meets(learner) else "below",
            f"{rule.mean:g} ({rule.name})",
            "ahead" if self.mean > rule.mean else "below",
            f"{100 * max(row.unfinished_share for row in self.rows):.2f} %",
            f"{fmean(row.updates for row in self.rows):.0f}",
            f"{fmean(row.seconds for row in self.rows):.0f}",
        )


COLUMNS = (
    *("market", "ours", "lowest to highest (seeds)", "published learner", ""),
    *("best simple rule", "", "most unfinished", "updates", "CPU s"),
)


def page(rows: Sequence[TrainingRow]) -> str:
    """The figures as Markdown."""
    by_market: dict[str, list[TrainingRow]] = {}
    designs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        by_market.setdefault(row.market, []).append(row)
        markets = designs.setdefault((row.actions, row.inputs), [])
        if row.market not in markets:
            markets.append(row.market)
    lines = [MarketFigures(tuple(group)).words() for group in by_market.values()]
    seen = []
    for (actions, inputs), markets in designs.items():
        seen.append(f"- {', '.join(markets)}: actions `{actions}`; inputs `{'`, `'.join(inputs)}`.")
    return (
        "\n\n".join(
            [HEAD.rstrip(), table(COLUMNS, lines), "What the agent sees and does:", "\n".join(seen)]
        )
        + "\n"
    )


def figures(rows: Sequence[TrainingRow]) -> dict[str, object]:
    """The same as JSON: every training, and what it is held against."""
    return {
        "trainings": [asdict(row) for row in rows],
        "published learners": {market: asdict(rival) for market, rival in LEARNERS.items()},
        "simple rules": {market: asdict(rival) for market, rival in SIMPLE_RULES.items()},
    }
