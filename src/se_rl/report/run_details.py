"""The evidence on a run's page below its charts: the designs in words, differences, failures, cost
and origin.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from se_rl.modules.kinds import KINDS
from se_rl.records.enhancement import InstructionCredit
from se_rl.records.entries import Evaluation
from se_rl.records.order_details import SimulatedReplay
from se_rl.records.plain import from_plain
from se_rl.records.results import RunResults
from se_rl.report.design_rows import prompt_of
from se_rl.report.evolution_chart import MARKS
from se_rl.report.numbers import money
from se_rl.report.page_numbers import interval, iso_date, signed
from se_rl.report.run_designs import (
    Design,
    RunRecord,
    credits_in_words,
)

LOST = "(its file is lost or damaged)"
WORLDS = {"static": "history", "dynamic": "simulated market"}
Pairs = list[tuple[str, str]]
"""Facts as name and value."""


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
        "defaults": _default_sources(run),
        "prompts": prompts,
        "first": best.number if best else 0,
    }


def _default_sources(run: RunRecord) -> Mapping[str, str]:
    """What stands in a design's place for a module that it does not have; without a designed
    imagination there is none.
    """
    names: dict[str, None] = {}
    for design in run.designs:
        names |= dict.fromkeys(design.candidate.modules)
    known = [name for name in names if name in KINDS and name != "imagination"]
    return {name: KINDS[name].default_source for name in known}


def _panel(run: RunRecord, design: Design, first: Mapping[str, int]) -> Mapping[str, Any]:
    candidate = design.candidate
    evaluations = [] if design.state == "repeat" else run.evaluations.get(candidate.id, [])
    return {
        "id": candidate.id,
        "module": candidate.module,
        "operator": candidate.operator,
        "state": design.state,
        "iteration": candidate.iteration,
        "score": design.gain,
        "scoreText": f"{signed(design.gain)} {interval(design.ci95)}",
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
        "over the default": f"{signed(design.gain)} {interval(design.ci95)} bps"
        if is_scored
        else "",
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


def simulated_replay(run: RunRecord) -> SimulatedReplay:
    """The simulated order that was recorded of the best design, else the latest one; empty where
    there is none.
    """
    told = [event.payload for event in run.events.get("simulated_order", [])]
    own = [payload for payload in told if payload.get("candidate") == run.best] or told
    return from_plain(SimulatedReplay, own[-1]) if own else SimulatedReplay()


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
        ("USD", money(sum(call.usd for call in calls))),
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
        "trainings by place": results.places if results else "",
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
