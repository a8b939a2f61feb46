"""The verdict of a run in words: what the sealed test shows, or what validation says while the run
is under way.
"""

from __future__ import annotations

from dataclasses import dataclass

from se_rl.records.results import PRETENDED_SEARCH, RunResults
from se_rl.report.cautions import ON_SYNTHETIC, SUSPECT, SUSPECT_BPS
from se_rl.report.page_numbers import interval, plain, signed
from se_rl.report.run_designs import RunRecord

FLATTERED = (
    "Validation chose this design and so flatters it; "
    "the sealed test days are opened once, at the end."
)


@dataclass(frozen=True)
class RunVerdict:
    """What the run shows in words; `state` (shown, open or worse) picks the colour."""

    state: str
    headline: str
    meaning: str


def read_verdict(run: RunRecord) -> RunVerdict:
    """The sealed test in words where it has been opened, else what validation says so far."""
    return final_verdict(run.results) if run.results else _so_far(run)


def final_verdict(results: RunResults) -> RunVerdict:
    """What the sealed test says of the best design against the default."""
    if results.outcome == PRETENDED_SEARCH:
        return RunVerdict(
            "open", results.verdict, "Its figures are those of the design bank's surrogate."
        )
    if not results.is_accepted:
        return _kept_default(results)
    metrics, chosen = results.final_metrics, results.selection
    score = metrics.score_over_default
    low, high = score.score.ci95
    has_width = score.score.has_interval and low < high
    said = [_interval_in_words(results)]
    said.append(
        f"Over TWAP, specific to the symbols {signed(metrics.over_TWAP_specific.mean)}, "
        f"common market timing {signed(metrics.over_TWAP_common.mean)}."
    )
    if has_width:
        said.append(
            f"Over the default, on history {signed(score.history.mean)} "
            f"(gain {signed(score.specific.mean)}, risk {signed(-score.risk_cost)}), "
            f"in simulated markets {signed(score.simulated.mean)}."
        )
    if plain(chosen.hurdle_bps) != plain(None):
        said.append(
            f"Of {chosen.tried} designs tried, luck alone would lift the best to about "
            f"{plain(chosen.hurdle_bps)} bps on validation."
        )
    if metrics.over_TWAP.mean > SUSPECT_BPS:
        said.append(SUSPECT)
    if results.data.synthetic:
        said.append(ON_SYNTHETIC)
    return RunVerdict(_state(results), results.verdict, " ".join(filter(None, said)))


def _kept_default(results: RunResults) -> RunVerdict:
    """No design took the default's place; its figures are those of the validation days."""
    metrics = results.final_metrics
    low, high = metrics.over_TWAP.ci95
    said = [
        f"On the {results.measured_on} the default gains {signed(metrics.over_TWAP.mean)} bps "
        f"{interval((low, high))} over TWAP."
    ]
    if results.data.synthetic:
        said.append(ON_SYNTHETIC)
    return RunVerdict("open", results.verdict, " ".join(said))


def _state(results: RunResults) -> str:
    low, high = results.final_metrics.score_over_default.score.ci95
    if low > 0:
        return "shown"
    return "worse" if high < 0 else "open"


def _interval_in_words(results: RunResults) -> str:
    gain, state = results.final_metrics.score_over_default.score, _state(results)
    if not gain.has_interval:
        return "Too few days for an interval, so luck cannot be ruled out."
    if state == "shown":
        return "The interval excludes 0, on days that the search never saw."
    if state == "worse":
        return "The interval is below 0."
    return "The interval contains 0: this cannot be told from luck."


def _so_far(run: RunRecord) -> RunVerdict:
    """What the search holds best now, with its stored standing."""
    if not run.iterations:
        estimate = run.events.get("estimate", [])
        about = str(estimate[-1].payload["text"]) if estimate else ""
        return RunVerdict("open", "Under way: no outer iteration has ended yet", about)
    last = run.iterations[-1]
    lead = f"Iteration {last.iteration}{f' of {last.of}' if last.of else ''}"
    best = run.design(run.best)
    if best is None or best.state == "default":
        return RunVerdict("open", f"{lead}: no design beats the default so far", last.text)
    score = signed(best.gain)
    if best.standing is not None:
        score += f" {interval(best.standing.ci95)}"
    headline = (
        f"{lead}: best design so far {run.best} scores {score} bps over the default on validation"
    )
    return RunVerdict("open", headline, f"{last.text} {FLATTERED}".strip())
