"""A run as one HTML page: a verdict for 30 seconds, the evidence for 10 minutes; rewritten after each outer iteration.

Only the run's folder is read. Before the run has ended there is no `results.json`, and the page says what is known so far.
The page asks the network for nothing, and what a model wrote reaches it as text alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from se_rl.records.archive import Archive
from se_rl.records.files import to_json
from se_rl.report import run_charts as charts
from se_rl.report import run_details as details
from se_rl.report.baselines_page import BOUND, SUSPECT_BPS, excludes_zero, interval, plain, signed
from se_rl.report.page import render
from se_rl.report.run_designs import Run, lineage, read_run
from se_rl.report.terminal import p_value

OURS = "SE-RL (best design)"
UNLOCKED = ("none", "weak", "unsafe")
"""Words in a level of isolation that say that a model's source ran without a lock."""
BLANK: dict[str, Any] = {
    "best": "",
    "score": None,
    "distinct": None,
    "mean_gain": None,
    "adapter": "",
    "text": "",
}
BLANK |= {"modules": {}} | dict.fromkeys(("proposed", "valid", "repeated", "failed"), "–")
"""An outer iteration of which nothing is told."""

Results = dict[str, Any]


class RunVerdict(NamedTuple):
    """What the run shows in words; `state` (shown, open or worse) picks the colour."""

    state: str
    headline: str
    meaning: str


def run_page(folder: Path) -> str:
    """The page of the run in `folder`, from its archive and, where the run has ended, its results."""
    path = folder / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, results)
        return render(
            "run.jinja",
            filters={"signed": signed, "plain": plain, "interval": interval, "minus": minus},
            tests={"off_zero": excludes_zero},
            **_context(run, results),
        )


def read_verdict(run: Run, results: Results | None) -> RunVerdict:
    """The sealed test in words where it has been opened, else what validation says so far."""
    return final_verdict(results) if results else _so_far(run)


def final_verdict(results: Results) -> RunVerdict:
    """What the sealed test says of the best design against the default."""
    metrics, selection = results["final_metrics"], results.get("selection") or {}
    over, twap = metrics["over_default"], metrics["over_TWAP"]
    low, high = over["ci95"]
    state = "open" if low is None else "shown" if low > 0 else "worse" if high < 0 else "open"
    said = []
    if low is None:
        said.append("Too few days for an interval, so luck cannot be ruled out.")
    elif state == "shown":
        said.append("The interval excludes 0, on days that the search never saw.")
    elif low < high:
        said.append(
            f"The interval {'contains 0: this cannot be told from luck' if state == 'open' else 'is below 0'}."
        )
    if parts := [metrics.get(f"over_TWAP_{part}") for part in ("specific", "common")]:
        named = zip(("specific to the symbols", "common market timing"), parts, strict=True)
        said.append(
            "Over TWAP, "
            + ", ".join(f"{name} {signed(part['mean'])}" for name, part in named if part)
            + "."
        )
    if (own := metrics.get("over_default_specific")) and low is not None and low < high:
        said.append(
            f"Over the default, specific to the symbols {signed(own['mean'])} {interval(own['ci95'])}."
        )
    if selection.get("hurdle_bps") is not None:
        hurdle = plain(selection["hurdle_bps"])
        said.append(
            f"Of {selection['tried']} designs tried, luck alone would lift the best to about {hurdle} bps on validation."
        )
    if twap["mean"] > SUSPECT_BPS:
        said.append(
            f"More than {SUSPECT_BPS:g} bps means a leak or shared market luck until shown otherwise."
        )
    if results["data"].get("synthetic"):
        said.append(
            "On synthetic prices this says only whether the structure put into them was found."
        )
    return RunVerdict(state, results["verdict"], " ".join(said))


def _so_far(run: Run) -> RunVerdict:
    if not run.events.get("iteration"):
        estimate = run.events.get("estimate", [])
        about = str(estimate[-1].payload["text"]) if estimate else ""
        return RunVerdict("open", "Under way: no outer iteration has ended yet", about)
    last = run.events["iteration"][-1].payload
    lead = f"Iteration {last['iteration']}{' of ' + str(last['of']) if last.get('of') else ''}"
    best = run.design(run.best)
    text = str(last.get("text", ""))
    warning = "Validation chose this design and so flatters it; the sealed test days are opened once, at the end."
    if best is None or best.state == "default":
        return RunVerdict("open", f"{lead}: no design beats the default so far", text)
    gain, se = (
        (last["score"], last.get("se")) if last.get("score") is not None else (best.gain, best.se)
    )
    within = f" {interval([gain - 1.96 * se, gain + 1.96 * se])}" if gain is not None and se else ""
    headline = f"{lead}: best design so far {run.best} {signed(gain)}{within} bps over the default on validation"
    return RunVerdict("open", headline, f"{text} {warning}".strip())


def _context(run: Run, results: Results | None) -> dict[str, Any]:
    """What the template is given."""
    r: Results = {
        "best": "",
        "baselines": {},
        "dynamic": {},
        "finalists": [],
        "notes": [],
        **(results or {}),
    }
    ranked = {size: sorted(rows.items(), key=_rank) for size, rows in r["dynamic"].items()}
    r["dynamic"] = {size: dict(rows) for size, rows in ranked.items()}
    iterations = run.events.get("iteration", [])
    data = {
        "name": "",
        "synthetic": False,
        **(run.started.get("data") or {}),
        **(r.get("data") or {}),
    }
    best, executions, prompts = run.design(run.best), details.executions(run), details.prompts(run)
    return {
        "r": r,
        "data": data,
        "verdict": read_verdict(run, results),
        "subtitle": _subtitle(run, results or {}, data),
        "tiles": _tiles(run, results or {}),
        "banners": _banners(run, r, data),
        "ours": OURS,
        "methods": sorted(r["baselines"].items(), key=_rank),
        "sizes": list(dict.fromkeys(name for rows in r["dynamic"].values() for name in rows)),
        "best": best,
        "line": lineage(run.designs, run.best),
        "designs": run.designs,
        "panels": _finite(details.panels(run, prompts)),
        "asked": details.asked(run, best) if best else [],
        "prompt": prompts.get(best.candidate.prompt, "") if best else "",
        "diffs": list(details.diffs(run)),
        "evolution": _finite(charts.evolution(run.designs, run.best, iterations)),
        "training": _finite(
            [*charts.training(details.curve(run)), *charts.learning(r.get("learning") or {})]
        ),
        "impact": _finite(charts.impact(r["dynamic"])),
        "progress": _finite(charts.progress(iterations)),
        "replays": _finite(
            [
                {"name": name, "figure": charts.replay(e), "order": e}
                for name, e in executions.items()
            ]
        ),
        "iterations": [BLANK | dict(event.payload) for event in iterations],
        "credits": details.credits(run),
        "failures": details.failures(run),
        "cost": details.cost(run)
        + [(name, str(value)) for name, value in (r.get("times") or {}).items()],
        "provenance": details.provenance(run, r, data),
        "config_yaml": _yaml(r.get("config") or run.started.get("config") or {}),
    }


def minus(text: str) -> str:
    """A sentence of the run with true minus signs."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def _rank(method: tuple[str, Mapping[str, Any]]) -> tuple[bool, bool, float]:
    """Our design first, then by what was earned; a bound that knows the future comes last."""
    name, row = method
    earned = row["over_TWAP"]["mean"] if "over_TWAP" in row else row["saved_bps"]
    return BOUND in name, name != OURS, -(earned or 0.0)


def _subtitle(run: Run, results: Results, data: Mapping[str, Any]) -> str:
    llm = results.get("llm") or run.started.get("llm") or ""
    parts = [
        f"designer {llm.get('name', '') if isinstance(llm, Mapping) else llm}",
        f"seed {run.started.get('seed', '')}",
        f"{data['symbols']} symbols" if data.get("symbols") else "",
        f"{sum(d.proposed for d in run.designs)} designs in {len(run.events.get('iteration', []))} outer iterations",
        "" if results else "still running: written anew after each outer iteration",
    ]
    return " · ".join(filter(None, parts))


def _tiles(run: Run, results: Results) -> list[tuple[str, str, str]]:
    """The few figures beside the verdict: label, value, meaning."""
    states = [design.state for design in run.designs if design.proposed]
    lost = len(states) - states.count("scored") - states.count("waiting")
    tiles = [
        ("designs", f"{len(states):,}", "proposed by the designer, repeats and failures included"),
        ("scored", f"{states.count('scored'):,}", "trained and scored at least at the first rung"),
        ("no score", f"{lost:,}", "not valid, failed or repeated"),
    ]
    if not results:
        return tiles
    over_default = (results.get("selection") or {}).get("spa_p_over_default")
    opened = str(results.get("test_openings"))
    tiles += [
        (
            "SPA p",
            p_value(results.get("spa_p")),
            "that no method beats TWAP, the choice among them counted",
        ),
        (
            "SPA p over default",
            p_value(over_default),
            "that no design beats the default, the choice counted",
        ),
        ("seeds", str(len(details.training_seeds(results))), "trainings of each finalist"),
        ("test openings", opened, "how often the sealed days were looked at; once is honest"),
    ]
    return tiles


def _banners(run: Run, results: Results, data: Mapping[str, Any]) -> list[str]:
    """What must be seen before any figure."""
    banners = (
        ["SYNTHETIC DATA: no market ever printed these prices"] if data.get("synthetic") else []
    )
    levels = {str(e.isolation) for each in run.evaluations.values() for e in each}
    levels |= {str(results.get("isolation", "")), str(run.started.get("isolation", ""))}
    unsafe = sorted(level for level in levels if any(word in level for word in UNLOCKED))
    if unsafe:
        banners.append(
            f"UNSAFE RUN: source of a language model ran with isolation {'; '.join(unsafe)}"
        )
    opened = results.get("test_openings") or run.archive.test_openings()
    return banners + (
        [f"TEST DAYS OPENED {opened} TIMES: they are sealed no more"] if opened > 1 else []
    )


def _finite(value: Any) -> Any:
    """The same as a browser's JSON can hold it: what is not a number is null."""
    return json.loads(to_json(value))


def _yaml(config: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(json.loads(json.dumps(config)), sort_keys=False, allow_unicode=True)
