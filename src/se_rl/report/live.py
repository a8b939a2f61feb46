"""A run as it happens: a live table in a terminal, one plain line per finished design and iteration when piped."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from se_rl.records.entries import DEFAULT
from se_rl.report.design_rows import (
    NEW_BEST,
    SHORT,
    design_line,
    design_table,
    score_text,
    signed,
    verdict_of,
)
from se_rl.report.terminal import number
from se_rl.sandbox.calls import printable

LATEST = 12
"""Designs that the live table holds at most; a low window holds fewer."""
REFRESH_SECONDS = 0.5
ALWAYS_SAID = ("run_started", "finished")
"""Events worth a line even where they were looked up and not made."""

Payload = Mapping[str, Any]


class LiveRun:
    """Shows a run's events on stderr (or `console`); nothing when quiet. An error of drawing is no error of the run."""

    def __init__(
        self, *, quiet: bool = False, title: str = "", console: Console | None = None
    ) -> None:
        self._console = console or Console(stderr=True)
        self._screen = self._console.is_terminal and not self._console.is_dumb_terminal
        self._off, self._over = quiet, threading.Event()
        self._live: Live | None = None
        self._story, self._stage, self._recalled = Story(), "", False
        self._started, self._ends_at, self._last_left = time.monotonic(), math.nan, ""
        self._safely(lambda: self._line(title or "starting"))

    def __enter__(self) -> LiveRun:
        if self._screen:
            self._safely(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._safely(self._close)
        self._off = True

    def event(self, kind: str, payload: Payload, *, stored: bool = False) -> None:
        """Take one event; `stored` where it was looked up on a resume and not made now."""
        self._safely(lambda: self._take(kind, payload, stored=stored))

    def stage(self, text: str) -> None:
        """Say what is being done now."""
        if not self._screen and text != self._stage:
            self._safely(lambda: self._line(f"... {text}"))
        self._stage = text

    def estimate(self, seconds_left: float) -> None:
        """How long the rest will take, as known now."""
        self._ends_at = time.monotonic() + seconds_left

    def _take(self, kind: str, payload: Payload, *, stored: bool) -> None:
        looked_up = stored and kind not in ALWAYS_SAID
        if not looked_up and not self._live:
            self._recall()
        line = self._story.take(kind, payload, stored=stored)
        if kind == "estimate" and not stored and isinstance(payload.get("seconds"), int | float):
            self.estimate(payload["seconds"])
        if kind == "finished":
            self._stage, self._ends_at = "", math.nan
        if self._live:
            self._live.refresh()
        elif line and looked_up:
            self._recalled = True
        elif line:
            self._line(line + self._news_of_time())

    def _recall(self) -> None:
        """One line for all that a resumed run looked up."""
        if self._recalled:
            self._recalled = False
            self._line(f"looked up: {self._story.so_far()} stand in the record")

    def _time_left(self) -> str:
        left = self._ends_at - time.monotonic()
        return f"{about(max(left, 0.0))} left" if math.isfinite(left) else ""

    def _news_of_time(self) -> str:
        """The time left, where it reads differently from what was last said."""
        left = self._time_left()
        said, self._last_left = left == self._last_left, left
        return "" if said or not left else f" ({left})"

    def _line(self, text: str) -> None:
        """One line that a pipe, a log or a terminal can hold, whatever the text was."""
        print(printable(text, 2000), file=self._console.file, flush=True)

    def _draw(self) -> Group | Text:
        """The live frame: built of `Text` alone, which no markup can change."""
        if self._off:
            return Text("")
        story, elapsed = self._story, int(time.monotonic() - self._started)
        state = (
            f"iteration {story.of_all()}",
            f"{elapsed // 60}:{elapsed % 60:02d} elapsed",
            self._time_left(),
        )
        sandbox = max(3, min(LATEST, self._console.height - 12))
        notes = (
            story.moved,
            story.designer,
            story.end or (f"now: {self._stage}" if self._stage else ""),
        )
        return Group(
            Text(printable(story.about), style="bold"),
            Text(printable(" · ".join(part for part in state if part))),
            Text(printable(f"best so far: {story.best or 'none yet'}")),
            design_table(story.finished()[-sandbox:], width=self._console.width),
            *(Text(printable(note)) for note in notes if note),
        )

    def _open(self) -> None:
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            auto_refresh=False,
            vertical_overflow="crop",
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start(refresh=True)
        threading.Thread(
            target=self._tick, args=(self._live,), daemon=True, name="live-run"
        ).start()

    def _tick(self, live: Live) -> None:
        """Keep the clock going while a training takes its time; our own thread, so that its errors are ours too."""
        while not self._over.wait(REFRESH_SECONDS):
            self._safely(live.refresh)

    def _close(self) -> None:
        if self._live:
            self._live.stop()
        else:
            self._recall()

    def _safely(self, draw: Callable[[], None]) -> None:
        """Draw; the first error ends the display with one line."""
        if self._off:
            return
        try:
            draw()
        except Exception as error:
            self._off = True
            with suppress(Exception):
                if self._live:
                    self._live.stop()
            with suppress(Exception):
                self._line(f"display off: {type(error).__name__}: {error}")


class Story:
    """What has happened in a run so far: each event changes it, and gives the line that tells it ("" for none)."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.about, self.best, self.moved, self.designer, self.end = "starting", "", "", "", ""
        self._said: dict[str, str] = {}
        self._iteration, self._of, self._best = 0, "", ""
        self._takes: dict[str, Callable[[Payload, bool], str]] = {
            "run_started": self._run_started,
            "estimate": self._estimated,
            "proposed": self._proposed,
            "repeated": self._proposed,
            "evaluated": self._evaluated,
            "standing": self._stands,
            "dropped": self._dropped,
            "promoted": self._promoted,
            "iteration": self._iteration_ended,
            "finished": self._finished,
        }

    def take(self, kind: str, payload: Payload, *, stored: bool = False) -> str:
        """Take one event; kinds without news for people are passed over."""
        return self._takes[kind](payload, stored) if kind in self._takes else ""

    def finished(self) -> list[dict[str, Any]]:
        """Designs that something can be said of, the latest last."""
        return [
            row for row in list(self.rows.values()) if row["verdict"]
        ]  # a copy: the clock's thread reads it too

    def so_far(self) -> str:
        """How much has been done."""
        return f"{len(self.finished())} designs up to iteration {self.of_all()}"

    def of_all(self) -> str:
        """The iteration under way, of how many."""
        return f"{self._iteration}{self._of}"

    def _run_started(self, payload: Payload, _: bool) -> str:
        data, llm, config = (payload.get(key) or {} for key in ("data", "llm", "config"))
        synthetic = " (SYNTHETIC DATA)" if data.get("synthetic") else ""
        model = llm.get("name", "?") if isinstance(llm, Mapping) else llm
        self._of = f" of {config['iterations']}" if config.get("iterations") else ""
        self.about = f"{data.get('name', '?')}{synthetic}, {model}, seed {payload.get('seed', '?')}"
        return f"run: {self.about}"

    def _estimated(self, payload: Payload, _: bool) -> str:
        return f"estimate: {payload['text']}" if payload.get("text") else ""

    def _proposed(self, payload: Payload, stored: bool) -> str:
        name, twin = str(payload.get("id", "?")), payload.get("twin")
        self._iteration = max(self._iteration, payload.get("iteration") or 0)
        seat = f"{name} again, {len(self.rows)}" if twin and name in self.rows else name
        return self._told(
            seat, {**payload, "verdict": verdict_of(payload.get("reason"), twin), "stored": stored}
        )

    def _evaluated(self, payload: Payload, stored: bool) -> str:
        name = str(payload.get("candidate", "?"))
        default = self.rows.get(name, {}).get("operator") == DEFAULT
        said = (
            f"failed: {payload.get('reason', '')}"
            if payload.get("status") == "failed"
            else "scored"
        )
        verdict = payload.get("verdict", "trained" if default and said == "scored" else said)
        measured = ("rung",) if default else ("rung", "score", "se", "gain")
        news = {key: payload[key] for key in measured if payload.get(key) is not None}
        if verdict == NEW_BEST:
            self._lead(name, news)
        return self._told(name, {**news, "verdict": verdict, "stored": stored})

    def _stands(self, payload: Payload, stored: bool) -> str:
        """The score and error that the search goes by, once a batch is done; a line the first time at a rung."""
        name = str(payload.get("candidate", "?"))
        row = self.rows.get(name, {})
        if not row.get("verdict") or row.get("operator") == DEFAULT:
            return ""
        if (payload.get("rung") or 0) < (row.get("rung") or 0):
            return ""
        known = ("rung", "seeds", "score", "se", "gain")
        news = {key: payload[key] for key in known if payload.get(key) is not None}
        if all(row.get(key) == payload.get(key) for key in ("rung", "seeds")):
            row.update(news)
            return ""
        return self._told(name, {**news, "stored": stored})

    def _dropped(self, payload: Payload, stored: bool) -> str:
        row = self.rows.get(str(payload.get("candidate")), {})
        if str(row.get("verdict")).startswith("dropped"):
            return ""  # the evaluation has said so already
        news = {
            "rung": payload.get("rung", row.get("rung")),
            "verdict": f"dropped: {payload.get('reason', '')}",
        }
        return self._told(payload.get("candidate"), {**news, "stored": stored})

    def _promoted(self, payload: Payload, stored: bool) -> str:
        row = self.rows.get(str(payload.get("candidate")), {})
        if row.get("verdict") != NEW_BEST:
            self._told(
                payload.get("candidate"),
                {"verdict": f"on to rung {payload.get('rung', '?')}", "stored": stored},
            )
        return ""

    def _iteration_ended(self, payload: Payload, _: bool) -> str:
        self._iteration = max(self._iteration, payload.get("iteration") or 0)
        self.moved, self.designer = str(payload.get("text") or ""), designer_text(payload)
        if payload.get("best"):
            self._lead(str(payload["best"]), payload)
        parts = (
            f"iteration {self.of_all()}: best {self.best or 'none yet'}",
            self.designer,
            self.moved,
        )
        return "; ".join(part for part in parts if part)

    def _finished(self, payload: Payload, _: bool) -> str:
        best = str(payload.get("best") or self._best)
        if best and best != self._best:
            self._lead(best, self.rows.get(best, {}))
        self.end = f"finished: {payload.get('stop_reason') or 'done'}; best {self.best or 'none'}"
        return self.end

    def _lead(self, name: str, score: Payload) -> None:
        """Another design, or the same with a newer score, is the best."""
        row = self.rows.get(name, {})
        default = row.get("operator") == DEFAULT
        self.best = (
            "the default" if default else f"{name[:SHORT]} {score_text(score)} bps over the default"
        )
        if row and not default and name != self._best:
            row["verdict"] = NEW_BEST
        self._best = name

    def _told(self, name: Any, news: Payload) -> str:
        """Move a design's row to the end with its news; a line where it reads differently from what was last said."""
        seat = str(name or "?")
        row = self.rows[seat] = self.rows.pop(seat, {"id": seat}) | dict(news)
        line = design_line(row)
        if not row["verdict"] or self._said.get(seat) == line:
            return ""
        self._said[seat] = line
        return line


def designer_text(payload: Payload) -> str:
    """How the designer did in one iteration."""
    proposed, valid, distinct = (payload.get(key) for key in ("proposed", "valid", "distinct"))
    parts = [
        f"{valid} of {proposed} valid" if proposed is not None and valid is not None else "",
        f"{number(100 * distinct, 0)} % distinct" if isinstance(distinct, int | float) else "",
        f"mean gain {signed(payload['mean_gain'])} bps"
        if payload.get("mean_gain") is not None
        else "",
        f"adapter {str(payload['adapter'])[:SHORT]}"
        if payload.get("adapter")
        else "untouched model",
    ]
    return f"designer: {', '.join(part for part in parts if part)}"


def about(seconds: float) -> str:
    """A time that nobody knows exactly."""
    if seconds < 55:
        return f"about {10 * math.ceil(seconds / 10)} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
