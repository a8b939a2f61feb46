"""The evidence on a run's page below its charts: the designs in words, differences, failures, cost
and origin.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from se_rl.bounded_reading import plain_json
from se_rl.modules.kinds import KINDS
from se_rl.records.enhancement import InstructionCredit
from se_rl.records.entries import Evaluation
from se_rl.records.plain import from_plain
from se_rl.records.results import RunResults
from se_rl.report.design_rows import prompt_of
from se_rl.report.evolution_chart import MARKS
from se_rl.report.page_numbers import iso_date, plain, signed
from se_rl.report.run_designs import (
    MOST_PAIRS_OF_LINES,
    Design,
    RunRecord,
    credits_in_words,
    side_by_side,
)

LOST = "(its file is lost or damaged)"
WORLDS = {"static": "history", "dynamic": "simulated market"}
Pairs = list[tuple[str, str]]
"""Facts as name and value."""


@dataclass(frozen=True)
class ModuleDiff:
    """A module of the best design beside that of its parent, line by line."""

    module: str
    note: str
    rows: Sequence[tuple[str, str | None, str | None]]


@dataclass(frozen=True)
class CreditRow:
    """An instruction and what it is credited with; NaN where it was never used."""

    text: str
    kind: str
    operator: str
    iteration: int
    credit: float
    uses: int


@dataclass(frozen=True)
class FailureRow:
    """Designs that went no further, for the same reason."""

    state: str
    reason: str
    designs: Sequence[Design]


def panels(run: RunRecord, prompts: Mapping[str, str]) -> Mapping[str, Any]:
    """What a click on a design shows, as data for the page's script; texts that many share stand
    once.
    """
    first: dict[str, int] = {}
    hashes: set[str] = set()
    for design in run.designs:
        first.setdefault(design.candidate.id, design.number)
        hashes.update(design.candidate.modules.values())
    best = run.design(run.best)
    return {
        "designs": [_panel(run, design, first) for design in run.designs],
        "sources": {sha: run.text(sha) or LOST for sha in sorted(hashes)},
        "prompts": prompts,
        "first": best.number if best else 0,
    }


def _panel(run: RunRecord, design: Design, first: Mapping[str, int]) -> Mapping[str, Any]:
    candidate = design.candidate
    evaluations = [] if design.state == "repeat" else run.evaluations.get(candidate.id, [])
    return {
        "id": candidate.id,
        "facts": facts(design),
        "asked": asked(run, design),
        "scores": [_score_line(evaluation) for evaluation in evaluations],
        "parents": [[name, first[name]] for name in candidate.parents if name in first],
        "modules": dict(candidate.modules),
        "prompt": candidate.prompt,
    }


def asked(run: RunRecord, design: Design) -> Pairs:
    """The instructions that the designer was given, on the whole task and on this module."""
    candidate = design.candidate
    given = {"macro instruction": candidate.macro, "micro instruction": candidate.micro}
    return [(name, run.instructions.get(one, one)) for name, one in given.items() if one]


def facts(design: Design) -> Pairs:
    """A design in words: what it is, how it ended, who made it."""
    candidate, is_scored = design.candidate, design.state == "scored"
    known = {
        "state": f"{design.state}, rung {design.rung}" if is_scored else design.state,
        "over the default": f"{signed(design.gain)} ± {plain(design.se)} bps" if is_scored else "",
        "credit": credits_in_words(design),
        "reason": design.reason,
        "operator": candidate.operator,
        "module": candidate.module,
        "iteration": str(candidate.iteration or ""),
        "model": " + ".join(filter(None, (candidate.model, candidate.adapter))),
    }
    return [(name, text) for name, text in known.items() if text]


def prompts(run: RunRecord) -> Mapping[str, str]:
    """What the model was asked, by name of the stored chat."""
    found: dict[str, str] = {}
    for design in run.designs:
        candidate = design.candidate
        if not candidate.prompt or candidate.prompt in found:
            continue
        messages = prompt_of(run.archive, candidate)
        texts = [f"[{message['role']}]\n{message['content']}" for message in messages]
        found[candidate.prompt] = "\n\n".join(texts)
    return found


def _score_line(evaluation: Evaluation) -> str:
    """One training: what its policy scored over TWAP, or why it has no score."""
    place = f"rung {evaluation.rung}, seed {evaluation.seed}"
    if not evaluation.ok:
        return f"{place} failed: {evaluation.reason}"
    scores = []
    for name, value in evaluation.scores.items():
        scores.append(f"{name.replace('_', ' ')} {signed(value)}")
    return f"{place}, over TWAP: {', '.join(scores) or 'no score'}"


def diffs(run: RunRecord) -> Iterator[ModuleDiff]:
    """The best design beside its parent, one entry for each module that differs."""
    best = run.design(run.best)
    if best is None:
        return
    parents = best.candidate.parents
    parent = run.design(parents[0]) if parents else None
    old = parent.candidate.modules if parent else {}
    new = best.candidate.modules
    whose = f"its parent {parent.candidate.id}" if parent else "the default"
    for name in sorted({*old, *new}):
        if old.get(name) == new.get(name):
            continue
        left, right = _source(run, name, old.get(name)), _source(run, name, new.get(name))
        kept = ""
        if name not in old:
            kept = ", which has the hand-written default" if left else ", which does without"
        if len(left.splitlines()) * len(right.splitlines()) > MOST_PAIRS_OF_LINES:
            kept += "; too long for a diff, line beside line"
        yield ModuleDiff(name, f"on the left {whose}{kept}", list(side_by_side(left, right)))


def _source(run: RunRecord, code_type: str, sha: str | None) -> str:
    """A module's text; where it is not designed, that of the default."""
    if not sha:  # without a designed imagination there is none
        return "" if code_type == "imagination" else KINDS[code_type].default_source
    return run.text(sha) or LOST


def curve(run: RunRecord) -> Sequence[Mapping[str, Any]]:
    """The rows of the best design's longest training."""
    done = [e for e in run.evaluations.get(run.best, []) if e.ok and e.curve]
    if not done:
        return []
    longest = max(done, key=lambda evaluation: (evaluation.rung, -evaluation.seed))
    return plain_json(run.text(longest.curve) or "[]")


def executions(run: RunRecord) -> Mapping[str, Mapping[str, Any]]:
    """The recorded orders to replay: those of the best design where there are any, the latest of
    each kind.
    """
    payloads = [event.payload for event in run.events.get("execution", [])]
    own = [payload for payload in payloads if payload["candidate"] == run.best] or payloads
    found = {}
    for payload in own:
        world = WORLDS.get(payload["world"], payload["world"])
        found[f"{world}, {payload['side']} ({payload['candidate']})"] = payload
    return found


def credits(run: RunRecord) -> Sequence[CreditRow]:
    """Instructions with their latest credit, best first; those never used come last."""
    latest: dict[str, InstructionCredit] = {}
    for event in run.events.get("credit", []):
        payload = {**event.payload, "id": event.payload["instruction"]}
        latest[payload["id"]] = from_plain(InstructionCredit, payload)
    rows = []
    for one in run.archive.instructions():
        credit = latest.get(one.id, InstructionCredit(one.id, math.nan, 0))
        row = CreditRow(one.text, one.kind, one.operator, one.iteration, credit.credit, credit.uses)
        rows.append(row)
    return sorted(rows, key=lambda row: math.inf if math.isnan(row.credit) else -row.credit)


def failures(run: RunRecord) -> Sequence[FailureRow]:
    """Why designs did not count, the commonest first; numbers in a reason do not make it another
    one.
    """
    found: dict[tuple[str, str], list[Design]] = defaultdict(list)
    for design in run.designs:
        is_dropped = design.state in ("scored", "waiting") and design.reason
        state = "dropped" if is_dropped else design.state
        if state in ("dropped", *MARKS):
            reason = "the same as an earlier design" if state == "repeat" else design.reason
            found[state, re.sub(r"\d+(\.\d+)?", "N", reason.split(": ")[0])].append(design)
    rows = [FailureRow(state, reason, own) for (state, reason), own in found.items()]
    return sorted(rows, key=lambda row: -len(row.designs))


def cost(run: RunRecord) -> Pairs:
    """What the run has used up so far."""
    calls = run.archive.calls()
    trainings = [evaluation for own in run.evaluations.values() for evaluation in own]
    times = [event.at for own in run.events.values() for event in own]
    pairs = [
        ("model calls", f"{len(calls):,}"),
        ("tokens read", f"{sum(call.tokens_in for call in calls):,}"),
        ("tokens written", f"{sum(call.tokens_out for call in calls):,}"),
        ("USD", f"{sum(call.usd for call in calls):.2f}"),
        ("model seconds", f"{sum(call.seconds for call in calls):,.0f}"),
        ("trainings", f"{len(trainings):,}"),
        ("training work units", f"{sum(one.work for one in trainings):,.1f}"),
        ("training seconds", f"{sum(one.seconds for one in trainings):,.0f}"),
        ("from first to last event", f"{max(times) - min(times):,.0f} s" if times else "–"),
    ]
    if run.results is not None:
        pairs.append(("minutes", str(run.results.times.minutes)))
    return pairs


def provenance(run: RunRecord) -> Pairs:
    """What this page rests on."""
    data, results, started = run.data, run.results, run.started
    days = " | ".join(f"{count} {split}" for split, count in data.days.items())
    dates = ""
    if data.first_date is not None and data.last_date is not None:
        dates = f"{iso_date(data.first_date)} to {iso_date(data.last_date)}"
    trainings = results.seeds.trainings if results else ()
    rows = {
        "data": f"{data.name}{' (SYNTHETIC)' if data.synthetic else ''}",
        "data SHA-256": data.sha256,
        "dates": ", ".join(filter(None, (dates, days))),
        "symbols": data.symbols,
        "designer": designer(run),
        "seed": started.get("seed"),
        "training seeds": ", ".join(map(str, trainings)),
        "seal": _seal(results) if results else "published with the results",
        "isolation": results.isolation if results else started.get("isolation"),
        "test openings": run.archive.test_openings(),
        "stop reason": results.stop_reason if results else "",
        "version": started.get("version"),
        "code hash": started.get("code_hash"),
    }
    return [(name, str(value)) for name, value in rows.items() if value not in ("", None)]


def kit(run: RunRecord) -> Pairs:
    """How often each part of the kit acted, once the run has ended; why those did not that did not."""
    if run.results is None:
        return []
    used = run.results.kit
    counted = ("new_instructions", "reflections", "replays", "reinforce_steps", "ste_steps")
    rows = [("design bank", "; ".join(used.bank))]
    rows += [(name.replace("_", " "), str(getattr(used, name))) for name in counted]
    rows.append(("refused steps", str(used.refused_steps)))
    rows.append(("stop rule", "ended the search" if used.stopped_by_rule else ""))
    rows += [("did not act", reason) for reason in used.idle]
    return [(name, value) for name, value in rows if value]


def _seal(results: RunResults) -> str:
    """Where the seal comes from, and what it is."""
    return f"{results.seal.origin}: {results.seal.text}" if results.seal.text else ""


def designer(run: RunRecord) -> str:
    """Who writes the designs."""
    return run.results.llm.name if run.results else str(run.started.get("llm") or "")
