"""The evidence on a run's page below its charts, as plain data: each design in words, differences, failures, cost, origin."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from se_rl.modules.kinds import KINDS
from se_rl.records.entries import Evaluation
from se_rl.report.baselines_page import iso_date, plain, signed
from se_rl.report.design_rows import prompt_of
from se_rl.report.run_charts import MARKS
from se_rl.report.run_designs import Design, Run, side_by_side

LOST = "(its file is lost or damaged)"


def panels(run: Run, prompts: Mapping[str, str]) -> dict[str, Any]:
    """What a click on a design shows, as data for the page's script; texts that many share stand once."""
    first = {design.candidate.id: design.number for design in reversed(run.designs)}
    hashes = sorted({sha for design in run.designs for sha in design.candidate.modules.values()})
    shown = []
    for design in run.designs:
        c = design.candidate
        scores = [] if design.state == "repeat" else _score_lines(run.evaluations.get(c.id, []))
        parents = [[name, first[name]] for name in c.parents if name in first]
        made = {
            "id": c.id,
            "facts": facts(design),
            "asked": asked(run, design),
            "scores": scores,
            "parents": parents,
        }
        shown.append(made | {"modules": dict(c.modules), "prompt": c.prompt})
    best = run.design(run.best)
    return {
        "designs": shown,
        "sources": {sha: run.text(sha) or LOST for sha in hashes},
        "prompts": dict(prompts),
        "first": best.number if best else 0,
    }


def asked(run: Run, design: Design) -> list[tuple[str, str]]:
    """The instructions that the designer was given, on the whole task and on this module."""
    c = design.candidate
    told = {"macro instruction": c.macro, "micro instruction": c.micro}
    return [(name, run.instructions.get(given, given)) for name, given in told.items() if given]


def facts(design: Design) -> list[tuple[str, str]]:
    """A design in words: what it is, how it ended, who made it."""
    c, scored = design.candidate, design.state == "scored"
    told = {
        "state": f"{design.state}, rung {design.rung}" if scored else design.state,
        "over the default": f"{signed(design.gain)} ± {plain(design.se)} bps" if scored else "",
        "reason": design.reason,
        "operator": c.operator,
        "module": c.module,
        "iteration": str(c.iteration or ""),
        "model": " + ".join(filter(None, (c.model, c.adapter))),
    }
    return [(name, text) for name, text in told.items() if text]


def prompts(run: Run) -> dict[str, str]:
    """What the model was asked, by name of the stored chat."""
    found = {}
    for candidate in {
        design.candidate.prompt: design.candidate
        for design in run.designs
        if design.candidate.prompt
    }.values():
        messages = prompt_of(run.archive, candidate)
        found[candidate.prompt] = "\n\n".join(
            f"[{message['role']}]\n{message['content']}" for message in messages
        )
    return found


def _score_lines(evaluations: Sequence[Evaluation]) -> list[str]:
    """Means over seeds, one line for each rung."""
    lines = []
    for rung in sorted({e.rung for e in evaluations}):
        own = [e for e in evaluations if e.rung == rung]
        good = [e for e in own if e.ok]
        names = dict.fromkeys(name for e in good for name in e.scores)
        means = ", ".join(
            f"{name.replace('_', ' ')} {signed(fmean([e.scores[name] for e in good if name in e.scores]))}"
            for name in names
        )
        failed = "".join(f"; seed {e.seed} failed: {e.reason}" for e in own if not e.ok)
        lines.append(
            f"rung {rung}, {len(own)} seed{'s' * (len(own) > 1)}: {means or 'no score'}{failed}"
        )
    return lines


def diffs(run: Run) -> Iterator[dict[str, Any]]:
    """The best design beside its parent, one entry for each module that differs."""
    best = run.design(run.best)
    parent = run.design(best.candidate.parents[0]) if best and best.candidate.parents else None
    if best is None:
        return
    old = dict(parent.candidate.modules) if parent else {}
    for name in sorted({*old, *best.candidate.modules}):
        if old.get(name) == best.candidate.modules.get(name):
            continue
        left, right = (
            _source(run, name, modules.get(name)) for modules in (old, best.candidate.modules)
        )
        whose = f"its parent {parent.candidate.id}" if parent else "the default"
        kept = (
            ""
            if name in old
            else ", which has the hand-written default"
            if left
            else ", which does without"
        )
        yield {
            "module": name,
            "rows": list(side_by_side(left, right)),
            "note": f"on the left {whose}{kept}",
        }


def _source(run: Run, code_type: str, sha: str | None) -> str:
    """A module's text; where it is not designed, that of the default."""
    if not sha:  # without a designed imagination there is none
        return "" if code_type == "imagination" else KINDS[code_type].default_source
    return run.text(sha) or LOST


def curve(run: Run) -> list[dict[str, Any]]:
    """The rows of the best design's longest training."""
    done = [e for e in run.evaluations.get(run.best, []) if e.ok and e.curve]
    longest = max(done, key=lambda e: (e.rung, -e.seed), default=None)
    return json.loads((run.text(longest.curve) if longest else None) or "[]")


def executions(run: Run) -> dict[str, Mapping[str, Any]]:
    """The recorded orders to replay: those of the best design where there are any, the latest of each kind."""
    payloads = [event.payload for event in run.events.get("execution", [])]
    own = [p for p in payloads if p["candidate"] == run.best] or payloads
    worlds = {"static": "history", "dynamic": "simulated market"}
    return {f"{worlds.get(p['world'], p['world'])}, {p['side']} ({p['candidate']})": p for p in own}


def credits(run: Run) -> list[dict[str, Any]]:
    """Instructions with their latest credit, best first; those never used come last."""
    latest = {event.payload["instruction"]: event.payload for event in run.events.get("credit", [])}
    rows = [
        {"text": i.text, "kind": i.kind, "operator": i.operator, "iteration": i.iteration}
        | {
            "credit": latest.get(i.id, {}).get("credit"),
            "uses": latest.get(i.id, {}).get("uses", 0),
        }
        for i in run.archive.instructions()
    ]
    return sorted(rows, key=lambda row: (row["credit"] is None, -(row["credit"] or 0.0)))


def failures(run: Run) -> list[dict[str, Any]]:
    """Why designs did not count, the commonest first; numbers in a reason do not make it another one."""
    found: dict[tuple[str, str], list[Design]] = defaultdict(list)
    for design in run.designs:
        state = (
            "dropped" if design.state in ("scored", "waiting") and design.reason else design.state
        )
        if state in ("dropped", *MARKS):
            reason = "the same as an earlier design" if state == "repeat" else design.reason
            found[state, re.sub(r"\d+(\.\d+)?", "N", reason.split(": ")[0])].append(design)
    rows = [{"state": key[0], "reason": key[1], "designs": own} for key, own in found.items()]
    return sorted(rows, key=lambda row: -len(row["designs"]))


def cost(run: Run) -> list[tuple[str, str]]:
    """What the run has used up so far."""
    calls, trainings = run.archive.calls(), [e for own in run.evaluations.values() for e in own]
    ends = [event.at for own in run.events.values() for event in own]
    return [
        ("model calls", f"{len(calls):,}"),
        ("tokens read", f"{sum(c.tokens_in for c in calls):,}"),
        ("tokens written", f"{sum(c.tokens_out for c in calls):,}"),
        ("USD", f"{sum(c.usd for c in calls):.2f}"),
        ("model seconds", f"{sum(c.seconds for c in calls):,.0f}"),
        ("trainings", f"{len(trainings):,}"),
        ("training work units", f"{sum(e.work for e in trainings):,.1f}"),
        ("training seconds", f"{sum(e.seconds for e in trainings):,.0f}"),
        ("from first to last event", f"{max(ends) - min(ends):,.0f} s" if ends else "–"),
    ]


def training_seeds(results: Mapping[str, Any]) -> list[int]:
    """The seeds of the trainings that the results rest on."""
    seeds = results.get("seeds") or []
    return list(seeds.get("trainings", [])) if isinstance(seeds, Mapping) else list(seeds)


def provenance(
    run: Run, results: Mapping[str, Any], data: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """What this page rests on."""
    known = {**run.started, **results}
    days = [
        f"{data[f'{part}_days']} {part}"
        for part in ("train", "valid", "test")
        if f"{part}_days" in data
    ]
    dates = (
        [data["first_date"], data["last_date"]] if "first_date" in data else data.get("dates") or ""
    )
    if isinstance(dates, Sequence) and not isinstance(dates, str):
        dates = " to ".join(
            iso_date(day) if isinstance(day, int) else str(day) for day in (dates[0], dates[-1])
        )
    llm = known.get("llm") or ""
    rows = {
        "data": f"{data.get('name', '')}{' (SYNTHETIC)' if data.get('synthetic') else ''}",
        "data SHA-256": data.get("sha256", ""),
        "dates": ", ".join(filter(None, [str(dates), " | ".join(days)])),
        "symbols": data.get("symbols", ""),
        "designer": llm.get("name", "") if isinstance(llm, Mapping) else llm,
        "seed": known.get("seed", ""),
        "training seeds": ", ".join(map(str, training_seeds(known))),
        "isolation": known.get("isolation", ""),
        "test openings": run.archive.test_openings(),
        "stop reason": known.get("stop_reason", ""),
        "version": known.get("version", ""),
        "code hash": known.get("code_hash", ""),
    }
    return [(name, str(value)) for name, value in rows.items() if value != ""]
