"""What has happened in a run so far: each event changes the story and gives the lines that report
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from se_rl.records.entries import DEFAULT
from se_rl.report.design_rows import NEW_BEST, SHORT, DesignRow, blank_row, verdict_of
from se_rl.report.design_table import design_line, score_text
from se_rl.report.numbers import number, signed, with_error

Payload = Mapping[str, Any]


class Story:
    """The run as people follow it: designs with their latest news, who leads, and how the designer
    does.

    `rows` are by name, the one with the latest news last. Texts are "" as long as there is nothing
    to say.
    """

    def __init__(self) -> None:
        self.rows: dict[str, DesignRow] = {}
        self.about = "starting"
        self.best = ""
        self.moved = ""
        self.designer = ""
        self.end = ""
        self._best_id = ""
        self._iteration = 0
        self._of = ""
        self._lines_said: dict[str, str] = {}
        self._revised: dict[str, str] = {}
        self._takes: Mapping[str, Callable[[Payload, bool], str]] = {
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

    def take(self, kind: str, payload: Payload, *, stored: bool = False) -> list[str]:
        """Take one event and return its lines; kinds without news for people have none."""
        lines = []
        if kind != "standing" and self._revised:
            lines.append(f"scores revised: {', '.join(self._revised.values())}")
            self._revised = {}
        if kind in self._takes:
            lines.append(self._takes[kind](payload, stored))
        return [line for line in lines if line]

    def finished(self) -> list[DesignRow]:
        """Designs that something can be said of, the latest last."""
        rows = list(self.rows.values())  # a copy: the clock's thread reads it too
        return [row for row in rows if row.verdict]

    def so_far(self) -> str:
        """How much has been done."""
        return f"{len(self.finished())} designs up to iteration {self.of_all()}"

    def of_all(self) -> str:
        """The iteration under way, of how many."""
        return f"{self._iteration}{self._of}"

    def _run_started(self, payload: Payload, _: bool) -> str:
        data, config = payload.get("data") or {}, payload.get("config") or {}
        synthetic = " (SYNTHETIC DATA)" if data.get("synthetic") else ""
        model = payload.get("llm") or "?"
        self._of = f" of {config['iterations']}" if config.get("iterations") else ""
        self.about = f"{data.get('name', '?')}{synthetic}, {model}, seed {payload.get('seed', '?')}"
        return f"run: {self.about}"

    def _estimated(self, payload: Payload, _: bool) -> str:
        return f"estimate: {payload['text']}" if payload.get("text") else ""

    def _proposed(self, payload: Payload, stored: bool) -> str:
        name, twin = str(payload.get("id", "?")), payload.get("twin")
        self._iteration = max(self._iteration, payload.get("iteration") or 0)
        place = f"{name} again, {len(self.rows)}" if twin and name in self.rows else name
        known = self.rows.pop(place, blank_row(name))
        row = replace(
            known,
            iteration=payload.get("iteration"),
            operator=str(payload.get("operator") or ""),
            module=str(payload.get("module") or ""),
            parents=tuple(payload.get("parents") or ()),
            verdict=verdict_of(payload.get("reason"), twin),
            stored=stored,
        )
        return self._news(place, row)

    def _evaluated(self, payload: Payload, stored: bool) -> str:
        """A training has ended; what it scored is said once the standing of the batch is known."""
        name, rung = str(payload.get("candidate", "?")), payload.get("rung")
        row = replace(self._row(name), stored=stored)
        if payload.get("status") == "failed":
            row = replace(row, rung=rung, verdict=f"failed: {payload.get('reason', '')}")
        else:
            seed = f", seed {payload['seed']}" if payload.get("seed") is not None else ""
            row = replace(row, verdict=f"trained at rung {'?' if rung is None else rung}{seed}")
        return self._news(name, row)

    def _stands(self, payload: Payload, stored: bool) -> str:
        """The score and error that the search stored; one that only its error changed is said in
        one line with others.
        """
        name, rung = str(payload.get("candidate", "?")), payload.get("rung")
        row = self._row(name)
        if row.operator == DEFAULT or rung is None or (row.rung or 0) > rung:
            return ""
        gain = payload.get("gain")
        new = replace(
            row,
            rung=rung,
            score=payload.get("score", math.nan),
            se=payload.get("se", math.nan),
            gain=math.nan if gain is None else gain,
        )
        line = ""
        if row.rung != rung or row.verdict.startswith(f"trained at rung {rung}"):
            line = self._news(name, replace(new, verdict="scored", stored=stored))
        else:
            self.rows[name] = new
            self._lines_said[name] = design_line(new)
            if score_text(new) != score_text(row):
                self._revised[name] = f"{name[:SHORT]} {score_text(new)}"
        if name == self._best_id:
            self._lead(name)
        return line

    def _dropped(self, payload: Payload, stored: bool) -> str:
        name = str(payload.get("candidate", "?"))
        verdict = f"dropped: {payload.get('reason', '')}"
        return self._news(name, replace(self._row(name), verdict=verdict, stored=stored))

    def _promoted(self, payload: Payload, stored: bool) -> str:
        name = str(payload.get("candidate", "?"))
        row = self._row(name)
        if row.verdict != NEW_BEST:
            verdict = f"on to rung {payload.get('rung', '?')}"
            self._news(name, replace(row, verdict=verdict, stored=stored))
        return ""

    def _iteration_ended(self, payload: Payload, _: bool) -> str:
        self._iteration = max(self._iteration, payload.get("iteration") or 0)
        self.moved = str(payload.get("text") or "")
        self.designer = designer_text(payload)
        if payload.get("best"):
            self._lead(str(payload["best"]), payload)
        lead = f"iteration {self.of_all()}: best {self.best or 'none yet'}"
        return "; ".join(filter(None, (lead, self.designer, self.moved)))

    def _finished(self, payload: Payload, _: bool) -> str:
        best = str(payload.get("best") or self._best_id)
        if best:
            self._lead(best)
        self.end = f"finished: {payload.get('stop_reason') or 'done'}; best {self.best or 'none'}"
        return self.end

    def _lead(self, name: str, payload: Payload | None = None) -> None:
        """Another design, or the same with a newer score, is the best."""
        row = self.rows.get(name, blank_row(name))
        if row.operator == DEFAULT:
            self.best = "the default"
        else:
            known = payload or {}
            told = with_error(known.get("score"), known.get("se"))
            score = score_text(row) if row.is_scored else told
            self.best = f"{name[:SHORT]} {score} bps over the default"
            if name in self.rows and name != self._best_id:
                self.rows[name] = replace(row, verdict=NEW_BEST)
        self._best_id = name

    def _row(self, name: str) -> DesignRow:
        return self.rows.get(name, blank_row(name))

    def _news(self, place: str, row: DesignRow) -> str:
        """Move a design's row to the end; a line where it reads differently from what was last
        said.
        """
        self.rows.pop(place, None)
        self.rows[place] = row
        line = design_line(row)
        if not row.verdict or self._lines_said.get(place) == line:
            return ""
        self._lines_said[place] = line
        return line


def designer_text(payload: Payload) -> str:
    """How the designer did in one iteration."""
    proposed, valid = payload.get("proposed"), payload.get("valid")
    distinct, gain = payload.get("distinct"), payload.get("mean_gain")
    parts = []
    if proposed is not None and valid is not None:
        parts.append(f"{valid} of {proposed} valid")
    if isinstance(distinct, int | float):
        parts.append(f"{number(100 * distinct, 0)} % distinct")
    if gain is not None:
        parts.append(f"mean gain {signed(gain)} bps")
    adapter = str(payload.get("adapter") or "")[:SHORT]
    parts.append(f"adapter {adapter}" if adapter else "untouched model")
    return f"designer: {', '.join(parts)}"
