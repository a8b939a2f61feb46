"""Does the search climb? Whole searches of several arms and seeds, and their champions on sealed days.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/search_tables.py
        [--arms full local random] [--seeds 5] [--preset standard] [--data SET] [--packed FILE.npz]
        [--device cuda] [--minutes 8] [--resume] [--kept FOLDER] [--out FOLDER] [--name NAME]
    python benchmarks/search_tables.py --champions FOLDER/champions.jsonl --data OTHER_SET

Each search is the run's own: proposer, model, ladder, finals; its trainings go to forked processes
without a lock (see `forked_searches`), each made once however many searches ask for it. An arm is a
variation of the settings; `local+no-imagine` is two at once. Writes search.json, search.md and
champions.jsonl after every search (`--name ablations`: another table beside it), stops by the clock;
`--resume` makes only those searches that search.json does not have, and with `--kept` those that were
not finished find their trainings again. `--champions` scores stored champions unchanged on the test days of another set.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from se_rl.core.designers import Designers
from se_rl.core.preparation import make_kit
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.llm.adapter_file import chosen_adapter
from se_rl.llm.backends import TrainableDesigner
from se_rl.llm.code_validator import recorded_steps
from se_rl.llm.local import LocalDesigner
from se_rl.records.archive import Archive
from se_rl.records.code_hash import code_hash
from se_rl.records.entries import DEFAULT, Candidate
from se_rl.records.settings import ARMS, RunConfig, preset
from se_rl_benchmarks.forked_searches import (
    ForkedEvaluator,
    GrammaticalValidator,
    SealedComparison,
    SealedGain,
    TakenInTurns,
)
from se_rl_benchmarks.many_trainings import Workshop, open_pool
from se_rl_benchmarks.packed_sets import known_set
from se_rl_benchmarks.search_page import CarriedRow, SearchRow
from se_rl_benchmarks.search_results import SEARCH, Champion, Results, champions_of
from se_rl_benchmarks.shared_trainings import SharedTrainings, TimeIsOver

VARIATIONS: Mapping[str, Mapping[str, Any]] = {
    **{arm: {"arm": arm} for arm in ARMS},
    "no-hle": {"hle": False},
    "no-lle": {"lle": False},
    "no-dek": {"hle": False, "lle": False},
    "no-imagine": {"imagine": False},
    "no-bank": {"bank_prior": False},
    "untouched": {"adapter": "none"},
    "ste": {"estimator": "ste"},
    "static-only": {"worlds": "static"},
    "dynamic-only": {"worlds": "dynamic"},
}
"""What an arm of the table changes in the settings; worlds are those that the search sees."""


NOTHING = SealedGain(0.0, (0.0, 0.0), 0.0, 0.0, 0.0)
"""What a search gains that keeps the default."""


def varied(config: RunConfig, arm: str, seed: int) -> RunConfig:
    """The settings of an arm, which may be several variations joined by +."""
    for name in arm.split("+"):
        if name not in VARIATIONS:
            sys.exit(f"arm {name!r} is unknown; use some of {', '.join(VARIATIONS)}, joined by +")
        config = replace(config, **VARIATIONS[name])
    return replace(config, seed=seed)


@dataclass(frozen=True)
class Searches:
    """What all searches of one table share."""

    workshop: Workshop
    trainings: SharedTrainings
    sealed: SealedComparison
    designer: TrainableDesigner | None
    deadline: float
    folder: Path

    def once(self, arm: str, seed: int) -> tuple[SearchRow, Mapping[str, str]]:
        """One search from its first scan to its champion on sealed days; and its sources."""
        started = time.monotonic()
        if started > self.deadline:
            raise TimeIsOver
        config = varied(self.workshop.config, arm, seed)
        folder = self.folder / f"{arm}-{seed}"
        folder.mkdir(parents=True)
        with Archive.open(folder / "archive.sqlite") as archive:
            evaluator = ForkedEvaluator(
                self.workshop,
                self.trainings,
                archive,
                worlds=config.worlds,
                deadline=self.deadline,
            )
            designers = Designers(
                config.llm,
                archive,
                GrammaticalValidator(),
                seed=seed,
                designer=self.designer if config.asks_model else None,
                given=chosen_adapter(config.adapter, config.llm) if config.asks_model else None,
            )
            search = Search(config, archive, evaluator, designers, make_kit(config))
            steps = []
            evolve(search, after=lambda _, told: steps.append(told["changed"]))
            champion = search.ladder.champion(search.finals([]))
            standing = search.ladder.longest(champion)
            sources = dict(search.designs.sources[champion])
            accepted = champion != search.default.id
            gain = NOTHING
            if accepted:
                gain = self.sealed.over_default(sources, self.deadline)
            row = SearchRow(
                arm,
                seed,
                search.proposed,
                evaluator.trainings,
                champion if accepted else "",
                standing.score if standing and accepted else 0.0,
                gain.over_default,
                gain.ci95,
                time.monotonic() - started,
                len(designers.asked),
                sum(step.weights is not None and step.weights.moved for step in steps),
                descent(search.designs.candidates, champion) if accepted else "",
                code_hash()[:8],
                gain.history,
                gain.simulated,
                gain.history_half,
            )
        return row, sources


def descent(candidates: Mapping[str, Candidate], name: str) -> str:
    """How a design came of the default: its operator, its writer, and the same of its parents."""
    one = candidates[name]
    writer = one.adapter or one.model
    told = f"{one.operator} by {writer}" if writer else one.operator
    elders = []
    for parent in one.parents:
        if candidates[parent].operator != DEFAULT:
            elders.append(descent(candidates, parent))
    return f"{told} of ({', '.join(elders)})" if elders else told


def until_over(tasks: Iterable[Callable[[], None]], at_once: int) -> int:
    """Run tasks in their order, some at once; how many the time did not reach to."""
    late = 0
    with ThreadPoolExecutor(at_once) as threads:
        for one in [threads.submit(task) for task in tasks]:
            try:
                one.result()
            except TimeIsOver:
                late += 1
    return late


def make_searches(shared: Searches, results: Results, options: argparse.Namespace) -> int:
    """Every arm with every seed that is not known yet, the first seed of all arms first."""
    known = {(row.arm, row.seed) for row in results.rows}
    asked = [(arm, seed) for seed in range(options.seeds) for arm in options.arms]
    results.planned = len(known | set(asked))
    tasks = []
    for arm, seed in asked:
        varied(shared.workshop.config, arm, seed)  # refused now rather than later
        if (arm, seed) not in known:
            tasks.append(lambda arm=arm, seed=seed: results.add(*shared.once(arm, seed)))
    return until_over(tasks, options.at_once)


def carry_champions(shared: Searches, results: Results, options: argparse.Namespace) -> int:
    """Score the champions of other sets unchanged on this set's test days."""
    known = {(row.found_on, row.arm, row.seed, row.champion) for row in results.carried}

    def carried(one: Champion) -> None:
        found = shared.sealed.over_default(one.sources, shared.deadline)
        row = CarriedRow(one.found_on, one.arm, one.seed, one.champion, *found)
        results.add_carried(row)

    champions = champions_of(options.champions)
    results.keep_carried(champions)
    tasks = []
    for one in champions:
        own = one.found_on == results.data
        if not own and (one.found_on, one.arm, one.seed, one.champion) not in known:
            tasks.append(lambda one=one: carried(one))
    return until_over(tasks, options.at_once)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arms = f"some of {', '.join(VARIATIONS)}, joined by + for several at once"
    parser.add_argument("--arms", nargs="+", default=["full", "local", "random"], help=arms)
    parser.add_argument("--seeds", type=int, default=5, help="searches of each arm")
    parser.add_argument("--preset", default="standard", help="how much of everything")
    parser.add_argument("--data", default="nasdaq100", help="synthetic set or a real one's name")
    parser.add_argument("--packed", type=Path, help="real sets as `defaults.py --pack` wrote them")
    parser.add_argument("--llm", default="smollm2", help="the model that writes edits")
    parser.add_argument("--device", help="where the model is (default: a GPU if there is one)")
    parser.add_argument("--minutes", type=float, default=8.0, help="what then runs is given up")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="trainings at a time")
    parser.add_argument("--at-once", type=int, default=4, help="searches at a time (memory)")
    parser.add_argument("--resume", action="store_true", help="keep what search.json has")
    parser.add_argument("--kept", type=Path, help="folder of trainings, for calls that follow")
    parser.add_argument("--champions", type=Path, help="score the champions of this file instead")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="of the tables")
    parser.add_argument("--name", default=SEARCH, help="of the page and its twin")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all searches, as far as the time goes, and write each when it is done."""
    options = options_of(arguments)
    deadline = time.monotonic() + 60.0 * options.minutes
    resume = options.resume or options.champions is not None
    chosen = (options.out, options.data, options.preset)
    results = Results(*chosen, resume=resume, name=options.name)
    changes, dataset = known_set(options.data, options.packed)
    config = preset(options.preset, llm=options.llm, **changes)
    workshop = Workshop(config, with_test_days=True, dataset=dataset)
    recorded_steps()  # kernels of its own, which no two threads may run
    make = make_searches if options.champions is None else carry_champions
    with (
        tempfile.TemporaryDirectory() as place,
        open_pool(workshop, options.workers) as pool,
    ):
        trainings = SharedTrainings(pool, options.kept, config=workshop.config)
        sealed = SealedComparison(workshop, trainings, workshop.config.rungs.last.work)
        designer = None
        if any(varied(config, arm, 0).asks_model for arm in options.arms):
            designer = TakenInTurns(LocalDesigner(options.llm, threads=1, device=options.device))
        shared = Searches(workshop, trainings, sealed, designer, deadline, Path(place))
        late = make(shared, results, options)
    results.write()
    print(results.page.read_text(), f"not finished: {late}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
