"""One run from settings to results: opens the folder, seals the test days, searches, opens them once, writes everything down.

The same settings on the same folder go on where an interrupted run stopped: the loop is gone through again, and what stands
in the archive is looked up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from se_rl import __version__
from se_rl.baselines.passive_grid import best_constant
from se_rl.config import ConfigError, to_dict
from se_rl.core.budget import Budget
from se_rl.core.designers import Designers
from se_rl.core.iteration_summary import iteration_counts, what_moved
from se_rl.core.operators import hashes
from se_rl.core.provenance import code_hash, data_facts
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.data.catalog import load_dataset
from se_rl.data.features import FeatureScales
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.executors.training_pool import TrainingPool, training_worlds_of
from se_rl.llm.backends import Designer
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.high_level_enhancement import (
    HighLevelEnhancement,
    InstructionPopulation,
    PerformanceBuffer,
)
from se_rl.llm.low_level_enhancement import LoRAConfig, LowLevelEnhancement
from se_rl.records.archive import Archive
from se_rl.records.entries import NAIVE, Candidate, EventListener, design_id, key_of
from se_rl.records.files import to_json, write_text
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig
from se_rl.report.run_page import run_page
from se_rl.rl.policy import Neutral
from se_rl.rl.training_worlds import dynamic_world
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring import final_test
from se_rl.scoring.execution import ConstantSchedule
from se_rl.scoring.validation import Validation

NAIVE_REWARD = "def reward(step):\n    return step.traded_share * (step.fill_price - 1.0)\n"


class Run:
    """A run in its folder; `tell` hears every event, `say` what is being done."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        archive: Archive,
        *,
        tell: EventListener = lambda *_, **__: None,
        say: Callable[[str], None] = lambda _: None,
        left: Callable[[float], None] = lambda _: None,
        workers: int | None = None,
        unsafe: bool = False,
        designer: Designer | None = None,
        library: Sequence[Archive] = (),
    ) -> None:
        self.config, self.folder, self.archive, self.tell, self.say, self.left = (
            config,
            folder,
            archive,
            tell,
            say,
            left,
        )
        self.workers = workers or max(1, len(os.sched_getaffinity(0)))
        say(f"loading {config.data}")
        dataset = load_dataset(config.data)
        self.facts = data_facts(dataset)
        dates = {split: dataset.dates(split) for split in ("train", "valid")}
        train = dataset.split("train")
        self.scales = FeatureScales.fit(train)
        self.benchmark: Literal["vwap", "twap"] = "vwap" if train.volume is not None else "twap"
        known_days = dataset.data.select(
            dates=np.concatenate([dates["train"], dates["valid"]])
        )  # no test day in it
        del dataset
        validation = Validation(config, known_days, dates=dates["valid"], scales=self.scales)
        self.training_pool = TrainingPool(
            config,
            archive,
            validation,
            train_data=train,
            scales=self.scales,
            bank=self._bank,
            neutral=self._neutral,
            data_hash=self.facts["sha256"],
            workers=self.workers,
            unsafe=unsafe,
            library=library,
        )
        self.designers = Designers(
            config.llm,
            archive,
            self.training_pool,
            seed=config.seed,
            prices=(config.usd_in, config.usd_out),
            designer=designer,
        )
        self.search = Search(
            config,
            archive,
            self.training_pool,
            self.designers,
            make_kit(config),
            on_event=self._told,
            spent=lambda: self.budget.spent(),
        )
        self.budget = Budget(config, archive, self.search, workers=self.workers)

    def run(self) -> dict[str, Any]:
        """Algorithm 1, the last rung, the opening of the test set, and the results."""
        if self.config.arm != "random" and self.archive.find("run_started") is None:
            _ = self.designers.base  # a model that is not here is told before anything is trained
        self._event("run_started", "run_started", self._start_facts())
        reason = evolve(self.search, after=self._after)
        self.say(f"search ended ({reason}); the last rung")
        modules = hashes({"reward": NAIVE_REWARD})
        naive = Candidate(design_id(modules), modules, NAIVE)
        self.archive.add_candidate(naive, {"reward": NAIVE_REWARD})
        finalists = self.search.ladder.finals([naive])
        champion = self.search.ladder.champion(finalists)
        results = self._results(reason, finalists, champion, naive.id)
        self._event("finished", "finished", {"stop_reason": reason, "best": results["best"]})
        written = to_json(results)
        write_text(self.folder.results, written)
        write_text(self.folder.report, run_page(self.folder.path))
        found: dict[str, Any] = json.loads(
            written
        )  # as a finished run gives it back: what is undefined is null
        return found

    def close(self) -> None:
        """End the sandbox."""
        self.training_pool.close()

    @property
    def code(self) -> str:
        """The digest of the code that scores depend on."""
        return code_hash()

    # what the run needs once, and keeps

    @cached_property
    def grid(self) -> ConstantSchedule:
        """The best constant schedule in simulated markets: what an output of 0 means there."""
        found = self.archive.find("neutral")
        if found is None:
            self.say("trying constant schedules in simulated markets")
            world = dynamic_world(training_worlds_of(self.config))
            best = best_constant(
                world, np.random.default_rng(0), episodes=min(256, 2 * self.config.bank)
            )
            found = {"multiple": best.multiple, "offset": best.offset}
            self.archive.append("neutral", "neutral", found)
        return ConstantSchedule(found["multiple"], found["offset"])

    def _neutral(self) -> dict[str, Neutral]:
        return (
            {"dynamic": Neutral(self.grid.multiple, self.grid.offset)}
            if self.config.worlds != "static"
            else {}
        )

    def _bank(self) -> EpisodeBank | None:
        if self.config.worlds == "static":
            return None
        self.say(
            "simulating markets to train in (the first use on a machine compiles for a minute)"
        )
        return dynamic_world(training_worlds_of(self.config)).filled_bank()

    def _start_facts(self) -> dict[str, Any]:
        begun = self.archive.find("run_started") or {"code_hash": self.code, "data": self.facts}
        hashes_then = {"code": begun["code_hash"], "data": begun["data"]["sha256"]}
        for what, now in {"code": self.code, "data": self.facts["sha256"]}.items():
            if (then := hashes_then[what]) != now:
                words = f"was begun with other {what} ({then[:8]}, this is {now[:8]})"
                raise ConfigError(
                    f"{self.folder.path} {words}; finish it with that {what}, or choose another --out"
                )
        return {
            "config": to_dict(self.config),
            "data": self.facts,
            "llm": self.config.designer,
            "seed": self.config.seed,
            "code_hash": self.code,
            "version": __version__,
            "isolation": "unsafe" if self.training_pool.unsafe else "locked",
        }

    # while it goes

    def _told(self, kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        """Hand an event on; the first training tells how long everything will take."""
        self.tell(kind, payload, stored=stored)
        if kind == "evaluated":
            self.left(self.budget.seconds_left())
            if self.archive.find("estimate") is None:
                self._event("estimate", "estimate", self.budget.estimate())

    def _after(self, iteration: int, brought: Mapping[str, Any]) -> None:
        """Write an outer iteration down, with one execution of the best design, and the page where there is news for it."""
        designs, gains = brought["designs"], brought["gains"]
        best = self.search.ladder.longest(self.search.best)
        summary = {
            "iteration": iteration,
            "of": self.config.iterations,
            "best": self.search.best,
            "score": best.score if best else 0.0,
            "se": best.se if best else 0.0,
            "ema": self.search.progress.ema,
            **iteration_counts(designs, gains),
            "adapter": self.designers.adapter or "",
            "learnt": brought["changed"]["learned"],
            "text": what_moved(self.search, designs, gains, brought["changed"]),
        }
        is_new = self._event("iteration", key_of("iteration", iteration), summary)
        self._show_execution()
        if (
            is_new
        ):  # what a later iteration stored may be damaged, and is mended when the loop comes to it
            write_text(self.folder.report, run_page(self.folder.path))

    def _show_execution(self) -> None:
        """One order of the best design so far, step by step."""
        name = self.search.best
        key = key_of("execution", name)
        if self.archive.find(key) is None:
            ladder = self.search.ladder
            by_rung = (
                ladder.evaluations.get((name, rung.index), {})
                for rung in reversed(self.config.rungs)
            )
            trained = next(
                (e for by_seed in by_rung for _, e in sorted(by_seed.items()) if e.ok), None
            )
            if trained is None:
                return
            policy = self.training_pool.opened(
                self.training_pool.policy(ladder.climbed[name], trained)
            )
            path = self.training_pool.patiently(
                lambda: self.training_pool.validation.execution(policy)
            )
            self._event("execution", key, {"candidate": name, **path})

    def _event(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        is_new = self.archive.append(kind, key, payload)
        self.tell(kind, payload, stored=not is_new)
        return is_new

    # the end

    def _results(
        self,
        reason: str,
        finalists: Sequence[str],
        champion: str,
        naive: str,
        *,
        notes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Open the test set, once, and put everything together."""
        ladder, config = self.search.ladder, self.config
        methods = {
            final_test.OURS: champion,
            final_test.STRONG: ladder.default.id,
            final_test.NAIVE: naive,
        }
        policies = {name: seeds for name, of in methods.items() if (seeds := self._policies(of))}
        self._save_policy(champion)
        openings = self.archive.open_test(
            key=key_of("test"), data_hash=self.facts["sha256"], candidate=champion
        )
        self.say("opening the test days")
        agents = self.training_pool.validation.agents
        try:
            table = self.training_pool.patiently(
                lambda: final_test.history_table(
                    config, policies, agents=agents, benchmark=self.benchmark, say=self.say
                )
            )
        except SandboxError as error:
            if champion == ladder.default.id:
                raise
            note = f"design {champion} was chosen, but its policy failed on the test days: {error}"
            return self._results(reason, finalists, ladder.default.id, naive, notes=(note,))
        dynamic = {}
        if config.worlds != "static":
            dynamic = self.training_pool.patiently(
                lambda: final_test.market_tables(config, agents, policies, self.grid, say=self.say)
            )
        selected = final_test.selection(ladder, champion, proposed=self.search.proposed)
        used = self.budget.usage()
        cost = {name: used[name] for name in ("calls", "tokens_in", "tokens_out", "usd")}
        results: dict[str, Any] = {
            "final_metrics": final_test.final_metrics(
                table, is_default=champion == ladder.default.id
            ),
            "best": champion,
            "baselines": table["methods"],
            "dynamic": dynamic,
            "designs": self.search.counts(),
            "stop_reason": reason,
            "test_openings": openings,
            "spa_p": selected["spa_p_over_twap"],
            "selection": selected,
            "finalists": final_test.finalists_table(ladder, finalists),
            "learning": final_test.learning(ladder, champion),
            "seeds": {"search": config.seed, "trainings": list(range(config.rungs.last.seeds))},
            "isolation": self.isolation(),
            "llm": {"name": config.designer, "adapter": self.designers.adapter or "", **cost},
            "data": self.facts | {"test_days": table["days"], "orders": table["orders"]},
            "config": to_dict(config),
            "notes": [*notes, *table["notes"]],
            "checks": table["checks"],
            "by_day": table["by_day"],
            "paths": table["paths"],
            "version": __version__,
            "code_hash": self.code,
            "times": {"minutes": round(used["minutes"], 2)},
        }
        results["verdict"] = final_test.verdict(
            results, ladder.climbed[champion], ladder.default.id
        )
        return results

    def _policies(self, name: str) -> list[Any]:
        """The policies of a design's last rung, one per training seed."""
        by_seed = self.search.ladder.evaluations.get((name, self.config.rungs.last.index), {})
        candidate = self.search.ladder.climbed[name]
        return [
            self.training_pool.opened(self.training_pool.policy(candidate, by_seed[s]))
            for s in final_test.seeds_of(by_seed)
        ]

    def isolation(self) -> str:
        """The level of the lock that designs ran behind."""
        levels = {
            e.isolation
            for by_seed in self.search.ladder.evaluations.values()
            for e in by_seed.values()
        }
        return ", ".join(sorted(levels))

    def _save_policy(self, name: str) -> None:
        """The best design's policy of the first training seed, for `se-rl evaluate`: seeds are not chosen."""
        from se_rl.rl.policy_file import save_locked

        by_seed = self.search.ladder.evaluations[name, self.config.rungs.last.index]
        evaluation = next(e for _, e in sorted(by_seed.items()) if e.ok)
        candidate = self.search.ladder.climbed[name]
        trained = self.training_pool.policy(candidate, evaluation)
        facts = {
            "name": name,
            "world": self.config.worlds,
            "trained_on": self.facts["name"],
            "seed": evaluation.seed,
        }
        neutral = {world: asdict(value) for world, value in self._neutral().items()}
        save_locked(self.folder.policy, trained, facts | {"neutral": neutral})


def make_kit(config: RunConfig) -> DualLevelEnhancementKit:
    """Both levels of enhancement, or those that the settings leave."""
    high, low = config.levels
    population = InstructionPopulation(replay=config.replay)
    lora = LoRAConfig(rank=config.lora_rank, alpha=config.lora_alpha, estimator=config.estimator)
    words = HighLevelEnhancement(population, PerformanceBuffer(), seed=config.seed, evolves=high)
    return DualLevelEnhancementKit(
        words if high or config.arm == "frozen" else None,
        LowLevelEnhancement(lora) if low else None,
        seed=config.seed,
    )


def run_search(
    config: RunConfig, out: str | Path, *, reuse: Sequence[str | Path] = (), **options: Any
) -> dict[str, Any]:
    """Run, or go on with, the run in a folder, and return its results; a finished one is not run again.

    `reuse` names folders of other runs whose evaluations may be taken where they are the same piece of work (the default's
    trainings, for instance); `options` are those of `Run`.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out))
        folder.check_config(to_dict(config))
        archive = stack.enter_context(Archive.open(folder.archive, blobs=folder.blobs))
        if (
            archive.find("finished") is not None
            and _whole(archive)
            and (done := _written(folder)) is not None
        ):
            return done
        others = [RunFolder(place) for place in reuse if RunFolder(place).archive.exists()]
        opened = [
            stack.enter_context(Archive.open(o.archive, blobs=o.blobs, read_only=True))
            for o in others
        ]
        library = [
            a for a in opened if (a.find("run_started") or {}).get("code_hash") == code_hash()
        ]
        run = Run(config, folder, archive, library=library, **options)
        stack.callback(run.close)
        return run.run()


def _whole(archive: Archive) -> bool:
    """Whether every file that the archive names is there: what was lost is made again by going through the loop."""
    names = {name for e in archive.evaluations() if e.ok for name in (e.arrays, e.policy, e.curve)}
    names |= {adapter.weights for adapter in archive.adapters()} | {
        call.reply for call in archive.calls()
    }
    names |= {
        name for c in archive.candidates() for name in (*c.modules.values(), c.prompt) if name
    }
    return all(map(archive.has_blob, names))


def _written(folder: RunFolder) -> dict[str, Any] | None:
    """The results of a finished run, unless they were lost or damaged."""
    try:
        found = json.loads(folder.results.read_text())
    except (OSError, ValueError):
        return None
    return (
        found
        if isinstance(found, dict) and folder.report.exists() and folder.policy.exists()
        else None
    )
