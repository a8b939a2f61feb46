"""Whole searches of several designers against the design bank's surrogate: who climbs faster?

    OMP_NUM_THREADS=1 python benchmarks/designer_searches.py [--searches 10] [--preset standard]
        [--designers local untouched shipped learning] [--luck 0.1] [--workers 2] [--minutes 30]
        [--keep out/designer_searches.jsonl] [--results docs/results]

Each is the run's own loop with the model in it and pretended trainings, as in
`simulated_searches.py`: the bank orders no scan and begins no chains, because it is what designs are
scored by. There is no scan at all, so that designers write from the first iteration on. `local`
draws its edits, `untouched` asks the model as it was found, `shipped` with the adapter of the
package and nothing that learns, `learning` is the whole system, which goes on from that adapter.
A single edit of the default gains less than one reading may be wrong by: with all of the bank's
luck no search of this length leaves the default, whoever designs. So readings have `--luck` of it,
and what counts is the best design tried so far, by what the surrogate says of it. The
adapter learned from this very surrogate, so this says how well it was learned and not what
trainings gain. Finished searches are lines of `--keep` and are not made again. Writes the key
"search" of designers.json, and designers.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from se_rl.core.designers import Designers
from se_rl.core.preparation import make_kit
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.llm.adapter_file import SHIPPED, chosen_adapter
from se_rl.llm.local import LocalDesigner
from se_rl.modules.design_bank.storage import load_bank
from se_rl.modules.design_bank.surrogate import LAST
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate
from se_rl.records.files import to_json
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.bank_evaluator import BankEvaluator, PretendedTrainings
from se_rl.scoring.statistics import Estimate, clustered_mean
from se_rl_benchmarks.designers_page import page
from se_rl_benchmarks.forked_searches import GrammaticalValidator

DESIGNERS: Mapping[str, Mapping[str, Any]] = {
    "local": {"arm": "local"},
    "untouched": {"arm": "frozen", "adapter": "none"},
    "shipped": {"arm": "frozen"},
    "learning": {"arm": "full"},
}
"""What each changes in the settings."""
BESIDE = ("local", "shipped")
"""Designers that the others are held against."""
NEVER = 1e-9
"""No search converges: all have the same iterations."""
Job = tuple[str, float, str, int]
"""Preset, share of the bank's luck, designer and seed of a search."""


@dataclass(frozen=True)
class DesignerSearch:
    """One search after each iteration: trainings made, what the best design of all tried truly
    gains, and what the leader does.
    """

    designer: str
    seed: int
    trainings: tuple[int, ...]
    best: tuple[float, ...]
    leaders: tuple[float, ...]
    seconds: float

    @property
    def area(self) -> float:
        """The best so far over all trainings, on average; nothing before the first iteration."""
        spent = np.diff(self.trainings, prepend=0)
        held = (0.0, *self.best[:-1])  # while an iteration trains, the best of those before
        return float(np.dot(spent, held) / self.trainings[-1])


@cache
def pretended(preset_name: str, luck: float) -> tuple[RunConfig, PretendedTrainings]:
    """What all searches of a process use: settings and the surrogate."""
    torch.set_num_threads(1)
    config = preset(preset_name, against="bank", scan=False, epsilon=NEVER)
    return config, PretendedTrainings(load_bank(), config.weights, luck=luck)


@cache
def model(name: str) -> LocalDesigner:
    """The model, loaded once."""
    return LocalDesigner(name, threads=1)


def search_once(job: Job) -> DesignerSearch:
    """A search from its first iteration to its last."""
    preset_name, luck, designer, seed = job
    started = time.process_time()
    base, trainings = pretended(preset_name, luck)
    config = replace(base, seed=seed, **DESIGNERS[designer])
    known: Mapping[str, Mapping[str, str]] = {}

    def sources(candidate: Candidate) -> Mapping[str, str]:
        return known[candidate.id]

    with (
        tempfile.TemporaryDirectory() as place,
        Archive.open(Path(place) / "archive.sqlite") as archive,
    ):
        designers = Designers(
            config.llm,
            archive,
            GrammaticalValidator(),
            seed=seed,
            designer=model(config.llm) if config.asks_model else None,
            given=chosen_adapter(config.adapter, config.llm) if config.asks_model else None,
        )
        evaluator = BankEvaluator(trainings, sources, seed)
        search = Search(config, archive, evaluator, designers, make_kit(config))
        known = search.designs.sources
        spent: list[int] = []
        best: list[float] = []
        leaders: list[float] = []

        def true_gain(name: str) -> float:
            history, simulated = trainings.gains(name, known[name], LAST)
            return config.weights["static"] * history + config.weights["dynamic"] * simulated

        def note(*_: object) -> None:
            spent.append(sum(1 for _ in search.ladder.trainings))
            best.append(max(map(true_gain, search.ladder.climbed)))
            leaders.append(true_gain(search.best))

        evolve(search, after=note)
    seconds = time.process_time() - started
    return DesignerSearch(designer, seed, tuple(spent), tuple(best), tuple(leaders), seconds)


def figures(found: Sequence[DesignerSearch]) -> dict[str, Any]:
    """Every designer's area, its gain in the end, and how soon it is where `local` ends."""
    told: dict[str, Any] = {}
    aim = float(np.mean([one.best[-1] for one in found if one.designer == "local"] or [np.inf]))
    for name in DESIGNERS:
        own = [one for one in found if one.designer == name]
        if not own:
            continue
        area = _mean([one.area for one in own])
        end = _mean([one.best[-1] for one in own])
        told[name] = {
            "runs": len(own),
            "area": area.mean,
            "ci95": area.ci95,
            "end": end.mean,
            "end_ci95": end.ci95,
            "leader_end": float(np.mean([one.leaders[-1] for one in own])),
            "trainings": float(np.mean([one.trainings[-1] for one in own])),
            "trainings_to_local_end": reached(own, aim),
        }
        told[name]["over"] = {other: over for other in BESIDE if (over := _over(own, found, other))}
    return told


def _over(
    own: Sequence[DesignerSearch], found: Sequence[DesignerSearch], other: str
) -> dict[str, object]:
    """How much more area searches have than those of another designer with the same seeds."""
    beside = {one.seed: one.area for one in found if one.designer == other}
    pairs = [one.area - beside[one.seed] for one in own if one.seed in beside]
    if own[0].designer == other or len(pairs) < 2:
        return {}
    more = _mean(pairs)
    return {"pairs": len(pairs), "mean": more.mean, "ci95": more.ci95, "p": more.p_value}


def _mean(values: Sequence[float]) -> Estimate:
    return clustered_mean(np.array(values), np.arange(len(values)))


def reached(found: Sequence[DesignerSearch], aim: float) -> float | None:
    """The trainings after which the best so far is at `aim` on average; None where it never is."""
    longest = max(len(one.best) for one in found)
    for place in range(longest):
        best = [one.best[min(place, len(one.best) - 1)] for one in found]
        if np.mean(best) >= aim:
            spent = [one.trainings[min(place, len(one.trainings) - 1)] for one in found]
            return float(np.mean(spent))
    return None


def read_kept(keep: Path) -> list[DesignerSearch]:
    """The searches of a file."""
    found = []
    for line in keep.read_text().splitlines() if keep.exists() else ():
        told = json.loads(line)
        curves = {name: tuple(told[name]) for name in ("trainings", "best", "leaders")}
        found.append(DesignerSearch(**told | curves))
    return found


def finished(jobs: Sequence[Job], workers: int) -> Iterator[DesignerSearch]:
    """Searches as they end."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(search_once, jobs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the searches that are missing, and write what all of them say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--searches", type=int, default=10, help="of each designer")
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--designers", nargs="+", choices=list(DESIGNERS), default=list(DESIGNERS))
    parser.add_argument("--luck", type=float, default=0.1, help="share of the bank's luck")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--keep", type=Path, default=Path("out/designer_searches.jsonl"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60.0 * options.minutes
    options.keep.parent.mkdir(parents=True, exist_ok=True)
    known = {(one.designer, one.seed) for one in read_kept(options.keep)}
    jobs: list[Job] = []
    for seed in range(options.searches):
        for name in options.designers:
            if (name, seed) not in known:
                jobs.append((options.preset, options.luck, name, seed))
    for one in finished(jobs, options.workers) if jobs else ():
        with options.keep.open("a") as file:
            file.write(json.dumps(asdict(one)) + "\n")
        print(f"... {one.designer} {one.seed}: {one.area:.4f}, {one.best[-1]:.4f}", flush=True)
        if time.monotonic() > until:
            break
    place = options.results / "designers.json"
    told = json.loads(place.read_text()) if place.exists() else {"valid": {}, "one_step": {}}
    told["search"] = figures(read_kept(options.keep))
    adapter = chosen_adapter(SHIPPED, "smollm2") if SHIPPED in told["search"] else None
    if adapter is not None:
        told["shipped"] = adapter.head.id
    place.write_text(to_json(told) + "\n")
    (options.results / "designers.md").write_text(page(told))
    print(page(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
