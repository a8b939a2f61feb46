"""A thousand searches against the design bank's surrogate: how fast do the arms climb?

    OMP_NUM_THREADS=1 python benchmarks/simulated_searches.py [--searches 1000] [--preset standard]
        [--arms local random best-of-n] [--workers 2] [--out docs/results]

Each is the run's own loop (proposer, bandit, parents, ladder, finals) with pretended trainings and
nothing stored; every search has luck of its own. No model is asked: `best-of-n` has its modules
drawn from the grammar. The bank orders no scan here, because it is what designs are scored by. This
tunes searches and is no result. Writes simulated_searches.md and .json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.core.designers import UNTOUCHED
from se_rl.core.preparation import make_kit
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.generator import Attempt
from se_rl.modules.design_bank.storage import load_bank
from se_rl.modules.design_bank.surrogate import LAST
from se_rl.modules.kinds import KINDS
from se_rl.records.enhancement import EnhancementStep
from se_rl.records.entries import Candidate
from se_rl.records.files import to_json
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.bank_evaluator import BankEvaluator, PretendedTrainings
from se_rl_benchmarks.markdown_tables import number, signed, table

HEAD = """# Simulated searches

Made by `python benchmarks/simulated_searches.py`; do not edit. **Against the surrogate, not a
result**: nothing was trained. {searches} searches in {seconds:.0f} seconds ({processor:.0f} seconds of
processor time) in {workers} processes, preset {preset}, against the surrogate of the
[design bank](bank.md): a reading is what it predicts for the design's choices, plus luck of days
and seeds as large as the bank has it, drawn anew in each search. The bank orders no scan here,
since it is what designs are scored by; `best-of-n` draws its modules from the grammar.

What the leader truly gains over the default after a last-rung training, by the surrogate, in bps:
the mean over searches, and after the finals its 10th and 90th percentile. `best tried` is the best
design that was proposed, whether or not its readings showed it.
"""


class ForgetfulArchive:
    """Takes everything and keeps nothing: a simulated search is never gone on with."""

    def append(self, *_: Any, **__: Any) -> bool:
        """An event is new, always."""
        return True

    add_candidate = add_instruction = append

    def find(self, key: str) -> None:
        """Nothing is known."""

    def put_blob(self, content: bytes) -> str:
        """Nowhere."""
        return ""


class GrammarWriter:
    """Stands in for the model: modules drawn from the grammar, all of them valid."""

    constrained = True
    versions = (UNTOUCHED,)
    adapter = None
    asked = frozenset[str]()

    def writer(self, version: str) -> GrammarWriter:
        """Itself."""
        return self

    def generate(
        self, code_type: str, n: int, *, seed: int, avoid: Collection[str] = (), **_: Any
    ) -> list[Attempt]:
        """n modules."""
        rng = np.random.default_rng(seed)
        made = []
        for _place in range(n):
            source = KINDS[code_type].random_source(rng)
            made.append(Attempt(code_type, source, None, ValidationResult(True, "passed", "")))
        return made

    def enhance(self, *_: Any) -> EnhancementStep:
        """Nothing learns."""
        return EnhancementStep()


@dataclass(frozen=True)
class SimulatedSearch:
    """One search: what its leader truly gains after each iteration, and its champion in the end."""

    arm: str
    trainings: int
    leaders: tuple[float, ...]
    champion: float
    best_tried: float
    kept_default: bool


@dataclass(frozen=True)
class ArmCurve:
    """The best so far of an arm: means over searches."""

    searches: int
    designs: int
    trainings: float
    leaders: tuple[float, ...]
    champion: float
    champion_p10: float
    champion_p90: float
    best_tried: float
    kept_default: float


def search_once(trainings: PretendedTrainings, config: RunConfig) -> SimulatedSearch:
    """A search from its first scan to its champion, all luck its own."""
    archive: Any = ForgetfulArchive()
    known: dict[str, Mapping[str, str]] = {}

    def sources(candidate: Candidate) -> Mapping[str, str]:
        return known[candidate.id]

    evaluator = BankEvaluator(trainings, sources, config.seed)
    writer: Any = GrammarWriter()
    search = Search(config, archive, evaluator, writer, make_kit(config), stores=False)
    known = search.designs.sources

    def true_gain(name: str) -> float:
        history, simulated = trainings.gains(name, known[name], LAST)
        return config.weights["static"] * history + config.weights["dynamic"] * simulated

    leaders: list[float] = []
    evolve(search, after=lambda *_: leaders.append(true_gain(search.best)))
    champion = search.ladder.champion(search.ladder.finals())
    return SimulatedSearch(
        config.arm,
        sum(1 for _ in search.ladder.trainings),
        tuple(leaders),
        true_gain(champion),
        max(true_gain(name) for name in known if name != search.default.id),
        champion == search.default.id,
    )


def curve(found: Sequence[SimulatedSearch], designs: int) -> ArmCurve:
    """The searches of one arm together; one that converged keeps its last leader."""
    longest = max(len(one.leaders) for one in found)
    rows = []
    for one in found:
        rows.append([*one.leaders, *[one.leaders[-1]] * (longest - len(one.leaders))])
    ends = np.array([one.champion for one in found])
    low, high = np.percentile(ends, [10, 90]).tolist()
    return ArmCurve(
        len(found),
        designs,
        float(np.mean([one.trainings for one in found])),
        tuple(np.mean(rows, axis=0).tolist()),
        float(ends.mean()),
        low,
        high,
        float(np.mean([one.best_tried for one in found])),
        float(np.mean([one.kept_default for one in found])),
    )


def simulated(
    config: RunConfig, arms: Sequence[str], searches: int, workers: int
) -> dict[str, ArmCurve]:
    """So many searches in all, the arms in turn, each with a seed of its own."""
    trainings = PretendedTrainings(load_bank(), config.weights)
    configs = []
    for place in range(searches):
        arm: Any = arms[place % len(arms)]
        configs.append(replace(config, arm=arm, seed=place // len(arms)))
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        found = pool.map(partial(search_once, trainings), configs, chunksize=5)
    curves = {}
    for arm in arms:
        curves[arm] = curve([one for one in found if one.arm == arm], config.budget_designs)
    return curves


def page(curves: Mapping[str, ArmCurve], **facts: Any) -> str:
    """The table in Markdown."""
    longest = max(len(one.leaders) for one in curves.values())
    head = ["arm", "searches", "trainings each"]
    head += [f"iteration {place + 1}" for place in range(longest)]
    rows = []
    for arm, one in curves.items():
        rest = [signed(gain) for gain in one.leaders]
        spread = f"[{number(one.champion_p10)}, {number(one.champion_p90)}]"
        ends = [f"{signed(one.champion)} {spread}", signed(one.best_tried)]
        kept = f"{one.kept_default:.0%}"
        rows.append([arm, str(one.searches), f"{one.trainings:.0f}", *rest, *ends, kept])
    ending = ("after the finals", "best tried", "kept the default")
    return HEAD.format(**facts) + "\n" + table((*head, *ending), rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and write the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--searches", type=int, default=1000, help="of all arms together")
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--arms", nargs="+", default=["local", "random", "best-of-n"])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    started = time.monotonic()
    config = preset(options.preset, against="bank")
    curves = simulated(config, options.arms, options.searches, options.workers)
    facts = {
        "searches": options.searches,
        "seconds": time.monotonic() - started,
        "processor": sum(os.times()[:4]),
        "workers": options.workers,
        "preset": options.preset,
    }
    told = {**facts, "arms": {arm: asdict(one) for arm, one in curves.items()}}
    (options.out / "simulated_searches.json").write_text(to_json(told) + "\n")
    text = page(curves, **facts)
    (options.out / "simulated_searches.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
