"""A run as it happens: exact lines when piped, a table in a terminal, and nothing that a hostile text could do to either."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from se_rl.report.design_rows import blank_row
from se_rl.report.design_table import design_line, design_table
from se_rl.report.live import LATEST, LiveRun, about
from se_rl.report.numbers import signed, with_error

HOSTILE = "line 3: [red]import os[/red] is not\nallowed \x1b[2J\x07\u202e [/bold"
BEST, DEFAULT, CROSSED = "a1b2c3d4e5f6", "d0d0d0d0d0d0", "c0ffee000001"

DATA = {"name": "nasdaq100", "synthetic": True}
MADE = {
    "operator": "draft",
    "module": "reward",
    "parents": [DEFAULT],
    "iteration": 1,
    "reason": "",
    "twin": "",
}
RECORDED: list[tuple[str, dict[str, Any]]] = [
    ("run_started", {"config": {"iterations": 3}, "data": DATA, "llm": "smollm2", "seed": 0}),
    ("proposed", {"id": DEFAULT, "operator": "default", "iteration": 0}),
    (
        "evaluated",
        {"candidate": DEFAULT, "rung": 0, "status": "ok", "score": 0.0, "se": 0.3, "gain": None},
    ),
    ("estimate", {"seconds": 290, "text": "18 designs, 41 trainings"}),
    ("proposed", MADE | {"id": BEST, "operator": "tweak"}),
    (
        "proposed",
        MADE
        | {"id": "bad000000001", "operator": "rewrite", "module": "network", "reason": HOSTILE},
    ),
    ("repeated", MADE | {"id": BEST, "twin": BEST}),
    ("evaluated", {"candidate": BEST, "rung": 0, "seed": 0, "status": "ok", "score": 9.0}),
    ("standing", {"candidate": BEST, "rung": 0, "score": 0.41, "se": 0.2, "gain": 0.41}),
    ("promoted", {"candidate": BEST, "rung": 1}),
    ("credit", {"instruction": "x", "credit": 0.1, "uses": 2}),
    (
        "proposed",
        MADE | {"id": CROSSED, "operator": "crossover", "module": "", "parents": (BEST, DEFAULT)},
    ),
    ("standing", {"candidate": BEST, "rung": 0, "score": 0.41, "se": 0.19, "gain": 0.41}),
    ("evaluated", {"candidate": CROSSED, "rung": 0, "seed": 0}),
    ("standing", {"candidate": CROSSED, "rung": 0, "score": -0.3, "se": 0.25, "gain": -0.71}),
    ("dropped", {"candidate": CROSSED, "rung": 0, "reason": "below the best even with luck"}),
    ("proposed", MADE | {"id": "fa11ed000001"}),
    (
        "evaluated",
        {"candidate": "fa11ed000001", "rung": 0, "status": "failed", "reason": "loss is nan"},
    ),
    (
        "iteration",
        {
            "iteration": 1,
            "best": BEST,
            "score": 0.41,
            "se": 0.2,
            "proposed": 5,
            "valid": 4,
            "distinct": 0.75,
        }
        | {"mean_gain": -0.15, "adapter": "", "text": "reward moved: it pairs with TWAP"},
    ),
    ("finished", {"stop_reason": "3 iterations done", "best": BEST}),
]

LINES = [
    "se-rl run",
    "... loading nasdaq100",
    "run: nasdaq100 (SYNTHETIC DATA), smollm2, seed 0",
    "... training",
    "design d0d0d0 (default): trained at rung 0",
    "estimate: 18 designs, 41 trainings (about 5 min left)",
    "design bad000 (rewrite network of d0d0d0): invalid: line 3: [red]import os[/red] is not allowed [2J [/bold",
    "design a1b2c3 (draft reward of d0d0d0): repeat of a1b2c3",
    "design a1b2c3 (tweak reward of d0d0d0): trained at rung 0, seed 0",
    "design a1b2c3 (tweak reward of d0d0d0), rung 0, +0.41 ± 0.20 bps over the default, gain +0.41: scored",
    "scores revised: a1b2c3 +0.41 ± 0.19",
    "design c0ffee (crossover of a1b2c3 + d0d0d0): trained at rung 0, seed 0",
    "design c0ffee (crossover of a1b2c3 + d0d0d0), rung 0, -0.30 ± 0.25 bps over the default, gain -0.71: scored",
    "design c0ffee (crossover of a1b2c3 + d0d0d0), rung 0, -0.30 ± 0.25 bps over the default, gain -0.71: "
    "dropped: below the best even with luck",
    "design fa11ed (draft reward of d0d0d0), rung 0: failed: loss is nan",
    "iteration 1 of 3: best a1b2c3 +0.41 ± 0.19 bps over the default; "
    "designer: 4 of 5 valid, 75 % distinct, mean gain -0.15 bps, untouched model; reward moved: it pairs with TWAP",
    "finished: 3 iterations done; best a1b2c3 +0.41 ± 0.19 bps over the default",
]


def piped() -> Console:
    return Console(file=io.StringIO(), force_terminal=False)


def terminal(*, width: int = 110, height: int = 40) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=width,
        height=height,
        _environ={"TERM": "xterm"},
    )


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def play(
    console: Console, events: list[tuple[str, dict[str, Any]]] = RECORDED, *, stored: int = 0
) -> str:
    """The output of a run whose first `stored` events were looked up."""
    with LiveRun(title="se-rl run", console=console) as live:
        live.stage("loading nasdaq100")
        for place, (kind, payload) in enumerate(events):
            live.event(kind, payload, stored=place < stored)
            if kind == "run_started":
                live.stage("training")
    return shown(console)


def test_piped_lines_are_exactly_these() -> None:
    text = play(piped())
    assert text.splitlines() == LINES
    assert all(letter.isprintable() for line in text.splitlines() for letter in line)


def test_no_text_can_leave_its_line() -> None:
    events = [
        ("estimate", {"text": HOSTILE}),
        ("iteration", {"text": HOSTILE}),
        ("finished", {"stop_reason": HOSTILE}),
    ]
    for console in (piped(), terminal()):
        with LiveRun(title=HOSTILE, console=console) as live:
            live.stage(HOSTILE)
            for kind, payload in events:
                live.event(kind, payload)
        assert not {"\x07", "\u202e"} & set(shown(console)) and "\x1b[2J" not in shown(console)
        if not console.is_terminal:
            assert len(shown(console).splitlines()) == 2 + len(events)


def test_a_resumed_run_says_in_one_line_what_stands() -> None:
    lines = play(piped(), stored=16).splitlines()
    assert lines[:4] == LINES[:4]
    assert lines[4:] == [
        "looked up: 5 designs up to iteration 1 of 3 stand in the record",
        *LINES[14:],
    ]


def test_a_run_that_had_ended_still_says_how() -> None:
    lines = play(piped(), stored=len(RECORDED)).splitlines()
    assert lines[4:] == [
        "looked up: 6 designs up to iteration 1 of 3 stand in the record",
        LINES[-1],
    ]


def test_the_first_output_does_not_wait_for_the_first_event() -> None:
    console = piped()
    LiveRun(console=console)
    assert shown(console) == "starting\n"


def test_quiet_is_silent() -> None:
    console = terminal()
    with LiveRun(quiet=True, title="se-rl run", console=console) as live:
        live.stage("loading")
        live.event(*RECORDED[0])
    assert shown(console) == ""


def test_time_left_is_said_when_it_reads_differently() -> None:
    console = piped()
    with LiveRun(console=console) as live:
        for seconds, name in ((250.0, "a"), (249.0, "b"), (130.0, "c")):
            live.estimate(seconds)
            live.event("evaluated", {"candidate": name, "status": "ok"})
    ends = [line.partition(": trained at rung ?")[2] for line in shown(console).splitlines()[1:]]
    assert ends == [" (about 4 min left)", "", " (about 2 min left)"]


def test_a_time_that_nobody_knows_exactly() -> None:
    known = {0: "0 s", 3: "10 s", 41: "50 s", 100: "2 min", 5399: "90 min", 9000: "2.5 h"}
    assert [about(seconds) for seconds in known] == [f"about {text}" for text in known.values()]


def test_a_terminal_shows_designs_and_verdicts() -> None:
    text = play(terminal())
    frame = text[text.rindex("nasdaq100 (SYNTHETIC DATA), smollm2, seed 0") :]
    for word in (
        "a1b2c3",
        "c0ffee",
        "bad000",
        "fa11ed",
        "new best",
        "repeat of a1b2c3",
        "crossover",
    ):
        assert word in frame
    assert "dropped: below the best even wi" in frame and "failed: loss is nan" in frame
    assert "invalid: line 3: [red]import os[/red]" in frame, "markup is shown, not obeyed"
    assert "best so far: a1b2c3 +0.41 ± 0.19 bps over the default" in frame
    assert (
        "reward moved: it pairs with TWAP" in frame
        and "designer: 4 of 5 valid, 75 % distinct" in frame
    )
    assert "finished: 3 iterations done" in frame
    assert "iteration 1 of 3 · 0:0" in frame


def test_a_terminal_obeys_no_hostile_text() -> None:
    text = play(terminal())
    assert "\x1b[2J" not in text and "\x07" not in text and "\u202e" not in text


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_a_table_fits_its_width(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    verdict = "dropped: " + "x" * 300
    parents = (BEST, DEFAULT)
    row = replace(blank_row(BEST), verdict=verdict, score=1.0, se=0.5, parents=parents)
    console.print(design_table([row], width=width))
    lines = shown(console).splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= width and "dropped: x" in lines[1]
    assert ("operator" in lines[0]) == (width >= 100)


def test_only_the_latest_designs_stay_on_the_screen() -> None:
    console = terminal(height=40)
    with LiveRun(console=console) as live:
        for number in range(30):
            live.event(
                "dropped", {"candidate": f"design{number:06d}", "reason": f"reason {number}"}
            )
        last = shown(console)[shown(console).rindex("best so far") :]
    assert last.count("reason ") == LATEST and "reason 29" in last and "reason 17" not in last


def test_the_clock_runs_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("se_rl.report.live.REFRESH_SECONDS", 0.001)
    frames = threading.Semaphore(0)

    class Watched(LiveRun):
        def _draw(self) -> Any:
            frames.release()
            return super()._draw()

    with Watched(console=terminal()):
        assert all(frames.acquire(timeout=30) for _ in range(3))


def test_an_error_of_drawing_is_told_once_and_stops_nothing() -> None:
    for console in (piped(), terminal()):
        with LiveRun(console=console) as live:
            live.event("iteration", {"iteration": "two"})
            live.event("iteration", {"iteration": "two"})
            live.event(*RECORDED[0])
            live.stage("training")
        assert shown(console).count("display off: TypeError") == 1
        assert "nasdaq100" not in shown(console)


def test_a_broken_pipe_stops_nothing() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("gone")

    for kept in (False, True):
        with LiveRun(
            console=Console(file=Broken(), force_terminal=kept, _environ={"TERM": "xterm"})
        ) as live:
            live.event(*RECORDED[0])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, len(RECORDED) - 1), st.sets(st.integers(0, 8)))
def test_any_field_may_be_missing(place: int, left_out: set[int]) -> None:
    kind, payload = RECORDED[place]
    rest = {
        key: value for number, (key, value) in enumerate(payload.items()) if number not in left_out
    }
    for console in (piped(), terminal()):
        assert "display off" not in play(
            console, [*RECORDED[:place], (kind, rest), *RECORDED[place + 1 :]]
        )


def test_the_score_that_is_shown_is_the_stored_standing() -> None:
    longer = {"candidate": BEST, "rung": 1, "score": 0.5, "se": 0.1, "gain": 0.5}
    events = [
        *RECORDED[:9],
        ("iteration", {"iteration": 1, "best": BEST, "score": 0.41, "se": 0.2}),
    ]
    revised = [("evaluated", {"candidate": BEST, "rung": 1, "seed": 0}), ("standing", longer)]
    lines = play(piped(), [*events, *revised]).splitlines()
    assert lines[-1].endswith("rung 1, +0.50 ± 0.10 bps over the default, gain +0.50: scored")
    frame = play(terminal(), [*events, *revised])
    assert "best so far: a1b2c3 +0.50 ± 0.10 bps" in frame
    shorter = ("standing", longer | {"rung": 0, "score": 9.9})
    assert "+9.90" not in play(piped(), [*events, *revised, shorter]), "the longest training counts"


def test_the_default_may_lead_and_may_win() -> None:
    lines = play(
        piped(), [*RECORDED[:4], ("iteration", {"iteration": 1, "best": DEFAULT, "score": 0.0})]
    ).splitlines()
    assert lines[-1].startswith("iteration 1 of 3: best the default; designer: ")
    lines = play(
        piped(), [*RECORDED[:-1], ("finished", {"stop_reason": "done", "best": DEFAULT})]
    ).splitlines()
    assert lines[-1] == "finished: done; best the default"


def test_figures() -> None:
    known = {
        0.414: "+0.41",
        -0.414: "-0.41",
        0.0: "0.00",
        -0.001: "0.00",
        None: "–",
        float("nan"): "–",
        "x": "–",
    }
    assert [signed(value) for value in known] == list(known.values())
    assert with_error(1, float("nan")) == "+1.00"
    assert design_line(blank_row("?")) == "design ?: "


def test_watching_a_run_needs_no_heavy_package() -> None:
    heavy = "('torch', 'pandas', 'sqlalchemy', 'transformers')"
    code = (
        f"import sys, se_rl.report.live; print([name for name in {heavy} if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
