"""One run from settings to results: opens the folder, seals the test days, searches, opens them once, writes everything down.

The same settings on the same folder go on where an interrupted run stopped: the loop is gone through again, and what stands
in the archive is looked up.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from se_rl import __version__
from se_rl.baselines.passive_grid import best_constant
from se_rl.config import ConfigError, to_dict
from se_rl.core import honest
from se_rl.core.designers import Designers
from se_rl.core.examiner import Examiner
from se_rl.core.ladder import LAST, SCREEN, SEARCH, Tell
from se_rl.core.proposing import Proposed, hashes
from se_rl.core.search import Search
from se_rl.core.settings import RunConfig
from se_rl.core.training_loop import evolve
from se_rl.core.workshop import Workshop, ground_of
from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.evaluation.execution import ConstantSchedule
from se_rl.llm.backends import Designer
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.high_level_enhancement import HighLevelEnhancement, InstructionPopulation, PerformanceBuffer
from se_rl.llm.low_level_enhancement import LoRAConfig, LowLevelEnhancement
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, design_id, key_of
from se_rl.records.files import to_json, write_text
from se_rl.records.run_folder import RunFolder
from se_rl.report.run_page import run_page
from se_rl.rl.grounds import dynamic_world
from se_rl.rl.policy import Neutral

NAIVE_REWARD = "def reward(step):\n    return step.traded_share * (step.fill_price - 1.0)\n"
SECONDS_PER_DESIGN = 3.0
"""What the model takes per design, roughly, before anything was measured."""


class Run:
    """A run in its folder; `tell` hears every event, `say` what is being done."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        archive: Archive,
        *,
        tell: Tell = lambda *_, **__: None,
        say: Callable[[str], None] = lambda _: None,
        left: Callable[[float], None] = lambda _: None,
        workers: int | None = None,
        unsafe: bool = False,
        designer: Designer | None = None,
    ) -> None:
        self.config, self.folder, self.archive, self.tell, self.say, self.left = config, folder, archive, tell, say, left
        self.workers = workers or max(1, len(os.sched_getaffinity(0)))
        say(f"loading {config.data}")
        dataset = load_dataset(config.data)
        self.facts = data_facts(dataset)
        dates = {split: dataset.dates(split) for split in ("train", "valid")}
        train = dataset.split("train")
        self.scales = FeatureScales.fit(train)
        known_days = dataset.data.select(dates=np.concatenate([dates["train"], dates["valid"]]))  # no test day in it
        del dataset
        examiner = Examiner(config, known_days, dates=dates["valid"], scales=self.scales)
        self.workshop = Workshop(
            config, archive, examiner, train_data=train, scales=self.scales, bank=self._bank, neutral=self._neutral,
            data_hash=self.facts["sha256"], workers=self.workers, unsafe=unsafe,
        )  # fmt: skip
        self.designers = Designers(config.llm, archive, self.workshop, seed=config.seed, designer=designer)
        self.search = Search(
            config, archive, self.workshop, self.designers, make_kit(config), tell=self._told, spent=self._spent
        )  # fmt: skip

    def run(self) -> dict[str, Any]:
        """Algorithm 1, the last rung, the opening of the test set, and the results."""
        self._event("run_started", "run_started", self._start_facts())
        reason = evolve(self.search, after=self._after)
        self.say(f"search ended ({reason}); the last rung")
        naive = Proposed(Candidate(design_id(hashes({"reward": NAIVE_REWARD})), hashes({"reward": NAIVE_REWARD}), "naive default"), {"reward": NAIVE_REWARD}, {})
        self.archive.add_candidate(naive.candidate, naive.sources)
        finalists = self.search.ladder.finals([naive.candidate])
        champion = self.search.ladder.champion(finalists)
        results = self._results(reason, finalists, champion, naive.candidate.id)
        self._event("finished", "finished", {"stop_reason": reason, "best": champion})
        write_text(self.folder.results, to_json(results))
        write_text(self.folder.report, run_page(self.folder.path))
        return results

    def close(self) -> None:
        """End the locked room."""
        self.workshop.close()

    # what the run needs once, and keeps

    @cached_property
    def grid(self) -> ConstantSchedule:
        """The best constant schedule in simulated markets: what an output of 0 means there."""
        found = self.archive.find("neutral")
        if found is None:
            self.say("trying constant schedules in simulated markets")
            world = dynamic_world(ground_of(self.config))
            best = best_constant(world, np.random.default_rng(0), episodes=min(256, 2 * self.config.bank))
            found = {"multiple": best.multiple, "offset": best.offset}
            self.archive.append("neutral", "neutral", found)
        return ConstantSchedule(found["multiple"], found["offset"])

    def _neutral(self) -> dict[str, Neutral]:
        return {"dynamic": Neutral(self.grid.multiple, self.grid.offset)} if self.config.worlds != "static" else {}

    def _bank(self) -> EpisodeBank | None:
        if self.config.worlds == "static":
            return None
        self.say("simulating markets to train in (the first use on a machine compiles for a minute)")
        return dynamic_world(ground_of(self.config)).filled_bank()

    def _start_facts(self) -> dict[str, Any]:
        code = code_hash()
        begun = self.archive.find("run_started")
        if begun is not None and begun["code_hash"] != code:
            raise ConfigError(
                f"{self.folder.path} was begun by other code ({begun['code_hash'][:8]}, this is {code[:8]}); "
                "finish it with that version, or choose another --out"
            )
        return {
            "config": to_dict(self.config), "data": self.facts, "llm": self.config.llm, "seed": self.config.seed,
            "code_hash": code, "version": __version__, "isolation": "unsafe" if self.workshop.unsafe else "locked",
        }  # fmt: skip

    # while it goes

    def _told(self, kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        """Hand an event on; the first evaluation tells how long everything will take."""
        self.tell(kind, payload, stored=stored)
        if kind == "evaluated":
            self.left(self._seconds_left())
            if self.archive.find("estimate") is None:
                seconds = self._seconds_left()
                text = f"about {seconds / 60:.0f} minutes for {self.config.budget_designs} designs at most"
                self._event("estimate", "estimate", {"seconds": round(seconds), "text": text})
                self._refuse_too_little(seconds)

    def _refuse_too_little(self, seconds: float) -> None:
        """A wall-time budget that buys fewer than three designs is not worth starting."""
        allowed = self.config.max_minutes
        if allowed is not None and 60 * allowed < 3 * seconds / self.config.budget_designs:
            raise ConfigError(f"max_minutes is {allowed}; three designs take about {seconds / self.config.budget_designs / 20:.1f} minutes here")

    def _seconds_left(self) -> float:
        """From what trainings took so far and what is planned."""
        done = [e for by_seed in self.search.ladder.evaluations.values() for e in by_seed.values() if e.work > 0]
        if not done:
            return 0.0
        per_work = sum(e.seconds for e in done) / sum(e.work for e in done)
        c, made = self.config, {r: sum(len(v) for (_, rung), v in self.search.ladder.evaluations.items() if rung == r) for r in (SCREEN, SEARCH, LAST)}
        batches = c.budget_designs / (c.parents * c.siblings)
        planned = {SCREEN: (c.budget_designs + 1) * c.seeds[0], SEARCH: (batches * c.promoted + 1) * c.seeds[1], LAST: (c.finalists + 2) * c.seeds[2]}
        work = sum(max(0.0, planned[r] - made[r]) * c.rungs[r] for r in planned)
        writing = 0.0 if c.arm == "random" else SECONDS_PER_DESIGN * max(0, c.budget_designs - self.search.proposed)
        return work * per_work / self.workers + writing

    def _spent(self) -> str:
        """Which budget is spent, by what this run of the loop has seen: a resumed run stops where it would have."""
        c, used = self.config, self.usage()
        limits = {"minutes": c.max_minutes, "tokens": c.max_tokens, "usd": c.max_usd}
        for name, limit in limits.items():
            if limit is not None and used[name] >= limit:
                return f"budget: {limit:g} {name}"
        return ""

    def usage(self) -> dict[str, float]:
        """Calls, tokens and money for the model, and the minutes that trainings and answers took."""
        calls = [call for call in self.archive.calls() if call.key in self.designers.asked]
        trained = [e.seconds for by_seed in self.search.ladder.evaluations.values() for e in by_seed.values()]
        return {
            "calls": len(calls),
            "tokens_in": sum(c.tokens_in for c in calls),
            "tokens_out": sum(c.tokens_out for c in calls),
            "tokens": sum(c.tokens_in + c.tokens_out for c in calls),
            "usd": sum(c.usd for c in calls),
            "minutes": (sum(trained) / self.workers + sum(c.seconds for c in calls)) / 60.0,
        }

    def _after(self, iteration: int, brought: Mapping[str, Any]) -> None:
        """Write an outer iteration down, with one execution of the best design, and the page anew."""
        designs, gains = brought["designs"], brought["gains"]
        best = self.search.ladder.longest(self.search.best)
        summary = {
            "iteration": iteration, "of": self.config.iterations, "best": self.search.best,
            "score": best.score if best else 0.0, "se": best.se if best else 0.0, "ema": self.search.progress.ema,
            **iteration_counts(designs, gains), "adapter": self.designers.adapter or "",
            "learnt": brought["changed"]["learned"], "text": what_moved(self.search, designs, gains, brought["changed"]),
        }  # fmt: skip
        self._event("iteration", key_of("iteration", iteration), summary)
        self._show_execution()
        write_text(self.folder.report, run_page(self.folder.path))

    def _show_execution(self) -> None:
        """One order of the best design so far, step by step."""
        name = self.search.best
        key = key_of("execution", name)
        if self.archive.find(key) is None:
            ladder = self.search.ladder
            trained = next((e for r in (LAST, SEARCH, SCREEN) for e in ladder.evaluations.get((name, r), {}).values() if e.ok), None)
            if trained is None:
                return
            policy = self.workshop.policy(ladder.climbed[name], trained)
            path = self.workshop.examiner.execution(self.workshop.opened(policy))
            self._event("execution", key, {"candidate": name, **path})

    def _event(self, kind: str, key: str, payload: Mapping[str, Any]) -> None:
        self.tell(kind, payload, stored=not self.archive.append(kind, key, payload))

    # the end

    def _results(self, reason: str, finalists: Sequence[str], champion: str, naive: str) -> dict[str, Any]:
        """Open the test set, once, and put everything together."""
        ladder, config = self.search.ladder, self.config
        methods = {honest.OURS: champion, honest.STRONG: ladder.default.id, honest.NAIVE: naive}
        policies = {name: self._policies(of) for name, of in methods.items()}
        policies = {name: seeds for name, seeds in policies.items() if seeds}
        self._save_policy(champion)
        openings = self.archive.open_test(key=key_of("test", champion), data_hash=self.facts["sha256"], candidate=champion)
        self.say("opening the test days")
        table = honest.history_table(config, policies, say=self.say)
        ours = table["methods"][honest.OURS]
        dynamic = {}
        if config.worlds != "static":
            dynamic = honest.market_tables(config, self.workshop.examiner.agents, policies, self.grid, say=self.say)
        selected = honest.selection(ladder, champion, proposed=self.search.proposed)
        used = self.usage()
        names = ("PA", "PA_std", "WR", "GLR", "AFI", "ci95", "over_TWAP", "over_TWAP_specific", "over_TWAP_common")
        results: dict[str, Any] = {
            "final_metrics": {name: ours[name] for name in names} | {"over_default": table["methods"][honest.STRONG]["ours_over"]},
            "best": champion,
            "baselines": table["methods"],
            "dynamic": dynamic,
            "designs": self.search.counts(),
            "stop_reason": reason,
            "test_openings": openings,
            "spa_p": selected["spa_p_over_twap"],
            "selection": selected,
            "finalists": honest.finalists_table(ladder, finalists),
            "learning": honest.learning(ladder, champion),
            "seeds": {"search": config.seed, "trainings": list(range(config.seeds[LAST]))},
            "isolation": self._isolation(),
            "llm": {"name": config.llm if config.arm != "random" else "none", "adapter": self.designers.adapter or "", **{k: used[k] for k in ("calls", "tokens_in", "tokens_out", "usd")}},
            "data": self.facts | {"test_days": table["days"], "orders": table["orders"]},
            "config": to_dict(config),
            "notes": table["notes"],
            "checks": table["checks"],
            "by_day": table["by_day"],
            "paths": table["paths"],
            "version": __version__,
            "code_hash": code_hash(),
            "times": {"minutes": round(used["minutes"], 2), "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
        }  # fmt: skip
        results["verdict"] = honest.verdict(results, ladder.climbed[champion], ladder.default.id)
        return results

    def _policies(self, name: str) -> list[Any]:
        """The policies of a design's last rung, one per training seed."""
        by_seed = self.search.ladder.evaluations.get((name, LAST), {})
        candidate = self.search.ladder.climbed[name]
        return [self.workshop.opened(self.workshop.policy(candidate, by_seed[s])) for s in honest.seeds_of(by_seed)]

    def _isolation(self) -> str:
        levels = {e.isolation for by_seed in self.search.ladder.evaluations.values() for e in by_seed.values()}
        return ", ".join(sorted(levels))

    def _save_policy(self, name: str) -> None:
        """The best design's policy of the first training seed, for `se-rl evaluate`: seeds are not chosen."""
        from se_rl.rl.policy_file import save_locked

        evaluation = next(e for _, e in sorted(self.search.ladder.evaluations[name, LAST].items()) if e.ok)
        candidate = self.search.ladder.climbed[name]
        trained = self.workshop.policy(candidate, evaluation)
        facts = {"name": name, "world": self.config.worlds, "trained_on": self.facts["name"], "seed": evaluation.seed}
        neutral = {world: asdict(value) for world, value in self._neutral().items()}
        save_locked(self.folder.policy, trained, facts | {"neutral": neutral})


def make_kit(config: RunConfig) -> DualLevelEnhancementKit:
    """Both levels of enhancement, or those that the settings leave."""
    high, low = config.levels
    population = InstructionPopulation(replay=config.replay)
    lora = LoRAConfig(rank=config.lora_rank, alpha=config.lora_alpha, estimator=config.estimator)
    return DualLevelEnhancementKit(
        HighLevelEnhancement(population, PerformanceBuffer(), seed=config.seed) if high else None,
        LowLevelEnhancement(lora) if low else None,
        seed=config.seed,
    )


def run_search(config: RunConfig, out: str | Path, **options: Any) -> dict[str, Any]:
    """Run, or go on with, the run in a folder, and return its results; `options` are those of `Run`."""
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out))
        folder.check_config(to_dict(config))
        archive = stack.enter_context(Archive.open(folder.archive, blobs=folder.blobs))
        run = Run(config, folder, archive, **options)
        stack.callback(run.close)
        return run.run()


def data_facts(dataset: DataSet) -> dict[str, Any]:
    """What the results say about the data."""
    data = dataset.data
    for split in ("train", "valid", "test"):
        if not dataset.has(split):
            raise DataError(f"{dataset.name} has no {split} days ({len(data.dates)} sessions in all); give more sessions")
    days = {f"{split}_days": len(dataset.dates(split)) for split in ("train", "valid", "test")}
    return {
        "name": dataset.name, "synthetic": data.provenance.synthetic, "sha256": data.provenance.sha256 or content_hash(data),
        "symbols": len(data.symbols), "first_date": int(data.dates[0]), "last_date": int(data.dates[-1]), **days,
    }  # fmt: skip


def content_hash(data: Any) -> str:
    """A digest of bars that come from no file."""
    digest = hashlib.sha256()
    for array in (data.open, data.high, data.low, data.close, data.volume):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@lru_cache
def code_hash() -> str:
    """A digest of this package's source: what a score depends on beside its settings and data."""
    digest, root = hashlib.sha256(), Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("report", "commands", "main.py", "doctor.py", "bench.py"):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def iteration_counts(designs: Sequence[Proposed], gains: Mapping[str, float]) -> dict[str, Any]:
    """What an iteration's designs came to."""
    valid = [one for one in designs if not one.candidate.reason]
    told = [gains[one.candidate.id] for one in designs if one.candidate.id in gains]
    modules = [one.candidate.module or "several" for one in designs]
    behaviours = {one.candidate.behaviour or one.candidate.id for one in designs}
    return {
        "proposed": len(designs),
        "valid": len(valid),
        "repeated": sum(bool(one.candidate.twin) for one in designs),
        "failed": len(designs) - len(valid),
        "mean_gain": float(np.mean(told)) if told else None,
        "distinct": len(behaviours) / max(1, len(designs)),
        "modules": {name: modules.count(name) for name in dict.fromkeys(modules)},
    }


def what_moved(search: Search, designs: Sequence[Proposed], gains: Mapping[str, float], changed: Mapping[str, Any]) -> str:
    """One sentence on an iteration: the best new design and why it stands where it does, and what the kit changed."""
    told = sorted(gains.items(), key=lambda item: item[1])
    if not told:
        return "no new design could be scored"
    name, gain = told[-1]
    one = next(d.candidate for d in designs if d.candidate.id == name)
    what = f"{one.operator} of {one.module or 'several modules'} in {name[:6]} gained {gain:+.2f} bps over its parent"
    lead = "it leads now" if search.best == name else f"{search.best[:6]} still leads" if search.best != search.default.id else "the default still leads"
    learnt = changed["learned"]
    kit = f"; weights moved (KL {learnt.get('kl', 0.0):.3f})" if learnt.get("moved") else ""
    new = f"; {len(changed['instructions'])} new instructions" if changed["instructions"] else ""
    return f"{what}; {lead}{new}{kit}"
