"""The end of a run in the terminal: the verdict, every method, and the small print."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from se_rl.records.plain import from_plain
from se_rl.records.results import RunResults
from se_rl.report.results_table import print_results

HOSTILE = "[red]\x1b[2J\x07 [/bold] \u202e"


def printed(print_it: Any, found: Any, **settings: Any) -> str:
    stream = io.StringIO()
    print_it(found, console=Console(file=stream, width=140, force_terminal=False), **settings)
    text = stream.getvalue()
    assert "\x1b[2J" not in text and "\x07" not in text and "\u202e" not in text
    return text


def estimate(mean: float) -> dict[str, Any]:
    return {"mean": mean, "se": 0.1, "ci95": [mean - 0.2, mean + 0.2]}


RESULTS: dict[str, Any] = {
    "verdict": "Design abc earns +0.41 bps [+0.21, +0.61] over the default",
    "best": "abcabcabcabc",
    "final_metrics": {
        "PA": 1.2,
        "over_default": estimate(0.41),
        "score": {"cells": {"small": estimate(3.0), "large": estimate(-1.0)}},
        "score_over_default": {"score": estimate(0.33), "risk_cost": 0.12},
    },
    "scores": {"SE-RL (best design)": {"score": estimate(0.77), "history": estimate(0.66)}},
    "baselines": {
        "SE-RL (best design)": {
            "PA": 1.234,
            "PA_std": 31.26,
            "WR": 0.5312,
            "GLR": None,
            "AFI": 0.02,
            "over_TWAP": estimate(1.1),
        }
        | {"over_TWAP_specific": estimate(0.95), "score": estimate(0.88), "tracking_error": 4.2},
        "TWAP": {
            "PA": 0.12,
            "WR": 0.5,
            "GLR": 1.0,
            "AFI": 0.0,
            "over_TWAP": {"mean": 0.0, "ci95": [None, None]},
        },
    },
    "dynamic": {
        "x2": {
            "TWAP": {"cost_bps": 12.34, "saved_bps": 0.0, "saved_ci95": [0.0, 0.0], "passive": 0.7}
        }
    },
    "designs": {"proposed": 36, "valid": 32, "scored": 26, "failed": 3, "repeated": 3},
    "modules": {"reward": {"proposed": 20}, "communication": {"proposed": 16}},
    "module_credits": [
        {"candidate": "abc", "module": "communication", "rung": 2, "against": "silence"}
        | {"credit": 0.31, "ci95": [0.01, 0.61]}
    ],
    "stop_reason": "designs: 36 of 36 proposed",
    "test_openings": 1,
    "selection": {"tried": 27, "scored": 26, "hurdle_bps": 0.22, "spa_p_over_default": 0.0004},
    "seeds": {"search": 7, "trainings": [0, 1, 2]},
    "isolation": "strong",
    "llm": {
        "name": "smollm2",
        "adapter": "adapter-2",
        "calls": 3,
        "tokens_in": 12000,
        "tokens_out": 7500,
        "usd": 0.5,
    },
    "data": {"name": "nasdaq100", "synthetic": True, "sha256": "fa8d" * 16, "test_days": 11},
    "notes": [f"unadjusted {HOSTILE}"],
}


def results(without: str = "") -> RunResults:
    """The record of these results, or of what they are without one part."""
    return from_plain(
        RunResults, {name: value for name, value in RESULTS.items() if name != without}
    )


def test_results_printed() -> None:
    text = printed(print_results, results(), page="out/report.html")
    assert text.splitlines()[0] == RESULTS["verdict"] and "SYNTHETIC DATA" in text.splitlines()[1]
    ours = next(line for line in text.splitlines() if "SE-RL (best design)" in line)
    cells = [cell.strip() for cell in ours.strip("│").split("│")]
    assert cells == [
        "SE-RL (best design)",
        "1.23",
        "31.3",
        "+1.10",
        "[0.90, 1.30]",
        "+0.95",
        "4.2",
        "+0.88",
        "[0.68, 1.08]",
        "0.531",
        "–",
        "0.020",
    ]
    for words in (
        "TWAP, x2",
        "12.34",
        "36 proposed",
        "stopped: designs: 36 of 36",
        "27 tried",
        "proposals by module: reward 20, communication 16",
        "communication of abc at rung 2: +0.31 bps [0.01, 0.61] against silence",
        "0.22 bps; SPA p that none of the 26 scored designs beats the default on the search's "
        "validation days: < 0.001",
        "seeds: search 7, trainings 0, 1, 2; isolation: strong; test openings: 1",
        "12,000 tokens in, 7,500 out, 0.50 USD",
        "11 test",
        "note: unadjusted [red]",
        "page: out/report.html",
        "abcabcabcabc: price advantage +0.41 bps over the default [0.21, 0.61]",
        "best design over the default",
        "[0.13, 0.53]",
        "-0.12",
        "small +3.00, large -1.00",
    ):
        assert words in text


def test_results_without_a_part_are_still_printed() -> None:
    for key in RESULTS:
        assert printed(print_results, results(without=key))
