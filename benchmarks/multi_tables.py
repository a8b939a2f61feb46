"""Several agents in one book: what the five modules are worth, designed and not designed.

    python benchmarks/multi_tables.py [--seeds 3] [--preset standard] [--agents 4] [--minutes 8]
        [--out FOLDER]

Whole searches of the scenario `multi` with edits drawn at random (arm `local`): all five modules
designed, without designed communication, without designed markets, and without both. Champions and
the default are trained anew with fresh seeds and scored on the test days and on fresh simulated
books; so is the default in silence. Trainings go to forked processes without a lock. Stops by the
clock, a search at a time of every variant; writes multi.json and multi.md after every search.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from se_rl.config import option, settings
from se_rl.core.designers import Designers
from se_rl.core.preparation import make_kit
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.modules.kinds.communication import SILENCE
from se_rl.records.archive import Archive
from se_rl.records.files import to_json
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.execution import ConstantSchedule
from se_rl_benchmarks.forked_searches import (
    ForkedEvaluator,
    GrammaticalValidator,
    SealedComparison,
    SealedGain,
)
from se_rl_benchmarks.many_trainings import Workshop, open_pool
from se_rl_benchmarks.multi_page import VARIANTS, MultiRow, by_module, by_variant, page
from se_rl_benchmarks.shared_trainings import SharedTrainings, TimeIsOver


@settings
class PartOfScenario(RunConfig):
    """The settings of a search that leaves some modules as they are."""

    left_out: tuple[str, ...] = option((), "modules that are not designed")

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that may be designed."""
        return tuple(name for name in super().modules if name not in self.left_out)


class Books(Workshop):
    """The workshop of several agents; nothing is trained in this process.

    The messages between agents learn by autograd, which no forked process could use any more.
    """

    def prepare(self) -> None:
        """Simulate and compile what every process needs."""
        assert self.neutral and self.banks and self.sealed is not None
        for rung in self.config.rungs:
            self.data.validation.score(rung, lambda *_: ConstantSchedule())
        self.sealed.scores(lambda *_: ConstantSchedule())


def search_once(
    workshop: Workshop,
    trainings: SharedTrainings,
    config: PartOfScenario,
    folder: Path,
    deadline: float,
) -> tuple[MultiRow, Mapping[str, str]]:
    """One search from its first scan to its champion; and the champion's sources."""
    started = time.monotonic()
    folder.mkdir(parents=True)
    with Archive.open(folder / "archive.sqlite") as archive:
        evaluator = ForkedEvaluator(workshop, trainings, archive, deadline=deadline)
        designers = Designers(config.llm, archive, GrammaticalValidator(), seed=config.seed)
        search = Search(config, archive, evaluator, designers, make_kit(config))
        evolve(search)
        champion = search.ladder.champion(search.finals([]))
        row = MultiRow(
            next(name for name, out in VARIANTS.items() if out == config.left_out),
            config.seed,
            search.proposed,
            evaluator.trainings,
            champion if champion != search.default.id else "",
            0.0,
            (0.0, 0.0),
            search.module_use(),
            search.credits.found(),
            time.monotonic() - started,
        )
        return row, dict(search.designs.sources[champion])


def run_variant(
    sealed: SealedComparison,
    workshop: Workshop,
    trainings: SharedTrainings,
    config: PartOfScenario,
    folder: Path,
    deadline: float,
) -> MultiRow | None:
    """A search and its champion on sealed days; None where time is over before that."""
    try:
        row, sources = search_once(workshop, trainings, config, folder, deadline)
        if row.champion:
            gain = sealed.over_default(sources, deadline)
            row = replace(row, over_default=gain.over_default, ci95=gain.ci95)
    except TimeIsOver:
        return None
    print(json.dumps(asdict(row)), flush=True)
    return row


def keep(out: Path, found: Mapping[str, Any]) -> None:
    """Write both files."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "multi.json").write_text(to_json(found) + "\n")
    (out / "multi.md").write_text(page(found))


def configs_of(workshop: Workshop, seeds: int) -> list[PartOfScenario]:
    """Every variant with every seed, the first seed of all variants first."""
    config = workshop.config
    known = {field.name: getattr(config, field.name) for field in fields(RunConfig)}
    made = []
    for seed in range(seeds):
        for left_out in VARIANTS.values():
            own = known | {"arm": "local", "seed": seed}
            made.append(PartOfScenario(**own, left_out=left_out))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all searches at once, as far as the time goes, and write what is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--data", default="nasdaq100")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    started = time.monotonic()
    chosen = {"data": options.data, "scenario": "multi", "agents": options.agents}
    workshop = Books(preset(options.preset, **chosen), with_test_days=True)
    deadline = started + 60.0 * options.minutes
    configs = configs_of(workshop, options.seeds)
    rows: list[MultiRow] = []
    head = {"agents": options.agents, "preset": options.preset, "data": options.data}
    with (
        tempfile.TemporaryDirectory() as place,
        open_pool(workshop, options.workers) as pool,
        ThreadPoolExecutor(len(VARIANTS) + 1) as threads,
    ):
        trainings = SharedTrainings(pool)
        sealed = SealedComparison(workshop, trainings, workshop.config.rungs.last.work)
        silent = threads.submit(sealed.over_default, {"communication": SILENCE})
        waiting: list[Future[MultiRow | None]] = []
        for number, config in enumerate(configs):
            folder = Path(place) / str(number)
            one = (sealed, workshop, trainings, config, folder, deadline)
            waiting.append(threads.submit(run_variant, *one))
        for begun in waiting:
            row = begun.result()
            rows += [row] if row is not None else []
            keep(options.out, head | found_so_far(rows, silent))
        keep(options.out, head | found_so_far(rows, silent))
    print((options.out / "multi.md").read_text())
    return 0


def found_so_far(rows: Sequence[MultiRow], silent: Future[SealedGain]) -> dict[str, Any]:
    """Everything that is known now."""
    credits = []
    for row in rows:
        for one in row.credits:
            credits.append({"variant": row.variant, "seed": row.seed, **asdict(one)})
    silence: dict[str, Any] = {}
    if silent.done():
        gain = silent.result()
        silence = {"over_default": gain.over_default, "ci95": gain.ci95}
    return {
        "variants": by_variant(rows),
        "modules": by_module(rows),
        "credits": credits,
        "silence": silence,
        "searches": [asdict(row) for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
