"""`se-rl bench outside`: markets that others defined, their published figures beside ours.

    se-rl bench outside --episodes 20000 --out docs/results/outside.md

Every published row is played again; a difference beyond three standard errors is marked. Speeds are
decision steps a second on one core, beside those of the original programs, which were measured on a
machine of this kind with one core and are quoted: their code is not part of this repository.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from se_rl.baselines.outside import (
    LOT_STRATEGIES,
    QUEUE_STRATEGIES,
    MeanReturn,
    PublishedStrategy,
    play,
    world_named,
)
from se_rl_benchmarks.markdown_tables import table
from se_rl_benchmarks.timing import Measurement, Say, silent

EPISODES = 20_000
MOST_ERRORS = 3.0
"""Standard errors by which a figure may differ from the published one."""
ORIGINAL_STEPS = {"qrm": 5200.0, "cw": 43.0}
"""Decision steps a second of the original programs on one core, the fastest that were measured."""
WARM_UP = 10
"""Episodes played before the clock starts: kernels are compiled then."""
HEAD = """# Outside markets

Made by `se-rl bench outside`. Strategies of two papers in the markets of these papers, rebuilt from
their descriptions (docs/outside.md): published means and spreads over episodes beside ours. The last
column is the difference in standard errors of both. Learned strategies are quoted.
"""


@dataclass(frozen=True)
class OutsideRow:
    """A published row, and what the same strategy gave here (None: it was learned)."""

    market: str
    strategy: str
    published: MeanReturn
    ours: MeanReturn | None = None
    unfinished_share: float | None = None
    errors: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the figures are within MOST_ERRORS of one another."""
        return self.errors is None or abs(self.errors) <= MOST_ERRORS


@dataclass(frozen=True)
class OutsideSpeed:
    """Decision steps a second on one core."""

    market: str
    steps_per_second: float
    original: float

    @property
    def ratio(self) -> float:
        """Ours over the original's."""
        return self.steps_per_second / self.original


def bench_outside(*, episodes: int = EPISODES, say: Say = silent) -> Measurement:
    """Play every published row and time the decisions."""
    rows: list[OutsideRow] = []
    speeds: list[OutsideSpeed] = []
    markets = dict.fromkeys(row.market for row in (*QUEUE_STRATEGIES, *LOT_STRATEGIES))
    for market in markets:
        say(market)
        found, speed = measure_market(market, episodes=episodes)
        rows += found
        speeds.append(speed)
    slowest = min(speeds[1:], key=lambda speed: speed.steps_per_second)
    return Measurement(
        name="outside markets",
        unit="decision steps/s on one core, the slowest lot market",
        value=slowest.steps_per_second,
        peers={"original": slowest.original},
        ratios={"original": slowest.ratio},
        detail={
            "episodes a row": episodes,
            "all rows agree": all(row.agrees for row in rows),
            "rows": [described(row) for row in rows],
            "speeds": [vars(speed) | {"ratio": speed.ratio} for speed in speeds],
        },
    )


def measure_market(market: str, *, episodes: int) -> tuple[list[OutsideRow], OutsideSpeed]:
    """The rows of one market and its speed over all of them."""
    world = world_named(market)
    rows = []
    decisions = 0
    seconds = 0.0
    for strategy in (*QUEUE_STRATEGIES, *LOT_STRATEGIES):
        if strategy.market != market:
            continue
        if strategy.rule is None:
            rows.append(OutsideRow(market, strategy.name, strategy.published))
            continue
        play(world, strategy.rule, episodes=WARM_UP)
        started = time.process_time()
        played = play(world, strategy.rule, episodes=episodes)
        seconds += time.process_time() - started
        decisions += played.decisions
        rows.append(_row(strategy, played.returned, played.unfinished_share))
    original = ORIGINAL_STEPS[market.split("-")[0]]
    return rows, OutsideSpeed(market, decisions / seconds, original)


def _row(strategy: PublishedStrategy, ours: MeanReturn, unfinished: float) -> OutsideRow:
    errors = ours.errors_from(strategy.published)
    return OutsideRow(strategy.market, strategy.name, strategy.published, ours, unfinished, errors)


def described(row: OutsideRow) -> dict[str, object]:
    """A row as JSON."""
    ours = row.ours
    return {
        "market": row.market,
        "strategy": row.strategy,
        "published": row.published.mean,
        "published_spread": row.published.spread,
        "published_error": row.published.standard_error,
        "ours": ours and ours.mean,
        "spread": ours and ours.spread,
        "error": ours and ours.standard_error,
        "unfinished_share": row.unfinished_share,
        "errors_apart": row.errors,
        "agrees": row.agrees if ours else None,
    }


def table_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The published rows beside ours, in words."""
    rows = []
    for row in result["detail"]["rows"]:
        ours = apart = "quoted"
        if row["ours"] is not None:
            ours = f"{row['ours']:.3f} +- {row['error']:.3f}, {row['spread']:.2f}"
            apart = f"{row['errors_apart']:+.1f}"
        rows.append(
            {
                "market": row["market"],
                "strategy": row["strategy"],
                "published, spread": f"{row['published']:.3f}, {row['published_spread']:.2f}",
                "ours, spread": ours,
                "standard errors apart": apart,
            }
        )
    return rows


def speed_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The speeds beside the originals', in words."""
    rows = []
    for speed in result["detail"]["speeds"]:
        rows.append(
            {
                "market": speed["market"],
                "ours": f"{speed['steps_per_second']:,.0f}",
                "original": f"{speed['original']:,.0f}",
                "ours / original": f"{speed['ratio']:,.0f}",
            }
        )
    return rows


def page(result: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    detail = result["detail"]
    rows = table_rows(result)
    speeds = speed_rows(result)
    return "\n\n".join(
        [
            HEAD.rstrip(),
            f"{detail['episodes a row']:,} episodes a row; returns in price x units (qrm) and in "
            "ticks a lot (cw).",
            table(tuple(rows[0]), [tuple(row.values()) for row in rows]),
            "Decision steps in a second of CPU time on one core, and the original program's (quoted):",
            table(tuple(speeds[0]), [tuple(speed.values()) for speed in speeds]) + "\n",
        ]
    )
