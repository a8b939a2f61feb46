"""A run as it happens: a live table in a terminal, one plain line per finished design and iteration
when piped.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from se_rl.report.design_table import design_table
from se_rl.report.numbers import about
from se_rl.report.stage import Stage
from se_rl.report.story import Payload, Story
from se_rl.sandbox.calls import printable

LATEST = 12
"""Designs that the live table holds at most; a low window holds fewer."""
REFRESH_SECONDS = 0.5
ALWAYS_SAID = ("run_started", "finished")
"""Events worth a line even where they were looked up and not made."""


class LiveRun:
    """Shows a run's events on stderr (or `console`); nothing when quiet. An error of drawing is no
    error of the run.
    """

    def __init__(
        self, *, quiet: bool = False, title: str = "", console: Console | None = None
    ) -> None:
        self._console = console or Console(stderr=True)
        self._screen = self._console.is_terminal and not self._console.is_dumb_terminal
        self._off = quiet
        self._over = threading.Event()
        self._live: Live | None = None
        self._story = Story()
        self._stage = Stage()
        self._has_looked_up = False
        self._started = time.monotonic()
        self._ends_at = math.nan
        self._last_left = ""
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
        if not self._screen and text != self._stage.text:
            self._safely(lambda: self._line(f"... {text}"))
        self._stage.begin(text)

    def estimate(self, seconds_left: float) -> None:
        """How long the rest will take, as known now."""
        self._ends_at = time.monotonic() + seconds_left

    def _take(self, kind: str, payload: Payload, *, stored: bool) -> None:
        looked_up = stored and kind not in ALWAYS_SAID
        if not looked_up and not self._live:
            self._recall()
        lines = self._story.take(kind, payload, stored=stored)
        if kind == "estimate" and not stored and isinstance(payload.get("seconds"), int | float):
            self.estimate(payload["seconds"])
        if kind == "finished":
            self._stage.begin("")
            self._ends_at = math.nan
        if self._live:
            self._live.refresh()
            return
        for line in lines:
            if looked_up:
                self._has_looked_up = True
            else:
                self._line(line + self._news_of_time())

    def _recall(self) -> None:
        """One line for all that a resumed run looked up."""
        if self._has_looked_up:
            self._has_looked_up = False
            self._line(f"looked up: {self._story.so_far()} stand in the record")

    def _time_left(self) -> str:
        left = self._ends_at - time.monotonic()
        return f"{about(max(left, 0.0))} left" if math.isfinite(left) else ""

    def _news_of_time(self) -> str:
        """The time left, where it reads differently from what was last said."""
        left = self._time_left()
        is_said = left == self._last_left
        self._last_left = left
        return "" if is_said or not left else f" ({left})"

    def _line(self, text: str) -> None:
        """One line that a pipe, a log or a terminal can hold, whatever the text was."""
        print(printable(text, 2000), file=self._console.file, flush=True)

    def _draw(self) -> Group | Text:
        """The live frame: built of `Text` alone, which no markup can change."""
        if self._off:
            return Text("")
        story, elapsed = self._story, int(time.monotonic() - self._started)
        clock = f"{elapsed // 60}:{elapsed % 60:02d} elapsed"
        state = filter(None, (f"iteration {story.of_all()}", clock, self._time_left()))
        height = max(3, min(LATEST, self._console.height - 12))
        now = story.end or (f"now: {self._stage}" if self._stage.text else "")
        notes = filter(None, (story.moved, story.designer, now))
        return Group(
            Text(printable(story.about), style="bold"),
            Text(printable(" · ".join(state))),
            Text(printable(f"best so far: {story.best or 'none yet'}")),
            design_table(story.finished()[-height:], width=self._console.width),
            *(Text(printable(note)) for note in notes),
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
        """Keep the clock going while a training takes its time; our own thread, so that its errors
        are ours too.
        """
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
