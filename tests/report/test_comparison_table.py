"""A comparison of runs in the terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from se_rl.records.results import DesignCounts, FinalMetrics, Gain, LearningCurve
from se_rl.report.comparison_table import print_comparison
from se_rl.scoring.comparison import ComparedRun, Comparison, GroupDifference, GroupResult


def printed(print_it: Any, found: Any, **settings: Any) -> str:
    stream = io.StringIO()
    print_it(found, console=Console(file=stream, width=140, force_terminal=False), **settings)
    text = stream.getvalue()
    assert "\x1b[2J" not in text and "\x07" not in text and "\u202e" not in text
    return text


def compared(name: str, arm: str, gain: Gain) -> ComparedRun:
    return ComparedRun(
        name=name,
        group=arm,
        arm=arm,
        seed=0,
        data="nasdaq100",
        designs=DesignCounts(proposed=36),
        score_valid=0.5,
        final=FinalMetrics(PA=1.5),
        over_TWAP=gain,
        over_default=Gain(),
        score_over_default=gain,
        simulated_over_default=0.0,
        learning=LearningCurve(),
        tokens=0,
        minutes=1.0,
        spa_p=0.5,
        gain_by_day=(),
        outcome="accepted",
    )


def test_a_comparison_printed() -> None:
    gain = Gain(0.41, 0.1, (0.21, 0.61))
    comparison = Comparison(
        runs=(compared("a0", "full", gain), compared("b0 [red]", "random", Gain())),
        groups=(
            GroupResult("full", 2, 0.3, (0.1, 0.5), (0.2, 0.4), 0.77, 0.0, 0.0, 0.0, accepted=1),
        ),
        tests=(GroupDifference("full", "random", 0.25, (-0.1, 0.6), 0.04),),
        by=("arm",),
        spa_p=0.03,
        sentence="full beats random by 0.25 bps",
    )
    text = printed(print_comparison, comparison)
    assert text.splitlines()[0] == "full beats random by 0.25 bps"
    for words in (
        "a0",
        "+0.41",
        "+0.77",
        "[0.21, 0.61]",
        "1.50",
        "b0 [red]",
        "+0.20, +0.40",
        "full - random",
        "0.040",
        "beats the default on the shared test days: 0.030",
    ):
        assert words in text
    assert printed(print_comparison, Comparison(sentence="nothing to compare"))
