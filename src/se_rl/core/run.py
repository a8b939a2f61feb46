"""One run from settings to results: search, train the finalists, open the test days once if one of
them is ahead of the default, write everything down.

The same settings on the same folder go on where an interrupted run stopped: the loop is gone
through again, and what stands in the archive is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from se_rl import __version__
from se_rl.config import ConfigError, to_dict
from se_rl.core.beginning import (
    adapter_of,
    check_data,
    check_device_and_model,
    library_of,
    open_run,
    refuse_other_data,
)
from se_rl.core.budget import Budget
from se_rl.core.designers import Designers
from se_rl.core.finished import finished_results
from se_rl.core.fraud import check_finalists
from se_rl.core.islands import Islands, islands_of
from se_rl.core.iteration_summary import summarise
from se_rl.core.kit_use import bank_uses
from se_rl.core.operators import Proposed, hashes
from se_rl.core.plan import usual_workers
from se_rl.core.preparation import (
    TrainingMarkets,
    load_run_data,
    make_kit,
    open_training_pool,
    run_seal,
)
from se_rl.core.pretended import evaluator_of, pretended_results
from se_rl.core.rivals import RivalPolicies, rival_policies
from se_rl.core.search import Search
from se_rl.core.shown_execution import store_execution
from se_rl.core.training_loop import evolve
from se_rl.core.write_up import SearchEnd, write_up
from se_rl.data.understanding import WITHOUT_VOLUME
from se_rl.executors.registry import LOCAL
from se_rl.llm.backends import Designer
from se_rl.modules.default_sources import naive_reward_source
from se_rl.records.archive import Archive
from se_rl.records.code_hash import code_hash
from se_rl.records.entries import NAIVE, Candidate, EventListener, design_id, key_of
from se_rl.records.files import write_text
from se_rl.records.jobs import reference_jobs
from se_rl.records.plain import to_plain
from se_rl.records.results import PRETENDED_SEARCH, RunResults
from se_rl.records.results_file import read_results, write_results
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig
from se_rl.report.run_page import run_page
from se_rl.scoring.fraud_trials import FraudTrials

NAIVE_REWARD = naive_reward_source()


def run_search(
    config: RunConfig,
    out: str | Path,
    *,
    reuse: Sequence[str | Path] = (),
    archive: str = "",
    blobs: str | None = None,
    **options: Any,
) -> RunResults:
    """Run, or go on with, the run in a folder, and return its results; a finished one is not run
    again.

    A new run asks its model one small question first: where that fails, nothing is loaded and
    nothing written. The folder is bound to its settings once data and model are there.

    `reuse` names folders of other runs whose evaluations may be taken where they are the same piece
    of work (the default's trainings, for instance). `archive` is the URL of a database that runs
    share, `blobs` where its files go. `options` are those of `Run`.
    """
    if not RunFolder(out).config.exists() and options.get("designer") is None:
        check_device_and_model(config)
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out))
        own = open_run(stack, folder, config, url=archive, blobs=blobs)
        finished = finished_results(folder, own)
        if finished is not None:
            check_data(config, own)
            return finished
        run = Run(config, folder, own, library=library_of(stack, reuse), **options)
        stack.callback(run.close)
        return run.run()


class Run:
    """A run in its folder; `tell` hears every event, `say` what is being done, `left` the seconds
    that remain.
    """

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
        executor: str = LOCAL,
    ) -> None:
        self.folder = folder
        self._given = to_dict(config)
        self.archive, self.library = archive, tuple(library)
        self.tell, self.say, self.left = tell, say, left
        workers = workers or usual_workers(executor)
        say(f"loading {config.data}")
        self.seal = run_seal(config, archive)
        data = load_run_data(config, self.seal)
        self.config = config = data.config
        self.facts, self.scales = data.facts, data.scales
        self.markets = TrainingMarkets(data, archive, say=say)
        self.training_pool = open_training_pool(
            data,
            self.markets,
            workers=workers,
            unsafe=unsafe,
            library=self.library,
            executor=executor,
            say=say,
        )
        self.designers = Designers(
            config.llm,
            archive,
            self.training_pool,
            seed=config.seed,
            prices=(config.usd_in, config.usd_out),
            designer=designer,
            given=adapter_of(config, archive) if designer is None else None,
            free=config.free,
            chain_of_thought=config.chain_of_thought and config.asks_model,
        )
        self.search = Search(
            config,
            archive,
            evaluator_of(config, self.training_pool, archive),
            self.designers,
            make_kit(config),
            on_event=self._pass_on,
            spent=lambda: self.budget.spent(),
            newcomers=self._newcomers,
        )
        self.budget = Budget(config, archive, self.search, workers=workers)

    def run(self) -> RunResults:
        """Algorithm 1, the last rung, the test set where a design earned it, and the results."""
        self._start()
        about = [PRETENDED_SEARCH] if self.pretends else []
        if self.benchmark == "twap":
            about.append(WITHOUT_VOLUME)
        self.say("; ".join([*about, *bank_uses(self.config)]) or "searching")
        naive = self._naive_design()
        ahead = reference_jobs(self.search.default, naive, self.config.rungs.last)
        self.training_pool.look_ahead(ahead)
        reason = evolve(self.search, after=self._after_iteration)
        self.say(f"search ended ({reason}); the last rung")
        if self.pretends:
            return self._finish(pretended_results(self, reason))
        finalists = self.search.finals([naive])
        checks = check_finalists(self, finalists)
        passed = [name for name in finalists if checks[name].passed]
        champion = self.search.champion(passed)
        end = SearchEnd(reason, finalists, naive.id, checks)
        return self._finish(write_up(self, end, champion=champion))

    def _finish(self, results: RunResults) -> RunResults:
        """Write the results down, and the page."""
        told = {"stop_reason": results.stop_reason, "best": results.best, "text": results.verdict}
        self.store_event("finished", "finished", told)
        write_results(self.folder.results, results)
        write_text(self.folder.report, run_page(self.folder.path))
        return read_results(self.folder.results)

    @property
    def benchmark(self) -> Literal["vwap", "twap"]:
        """What orders are held against."""
        return self.markets.data.benchmark

    @property
    def pretends(self) -> bool:
        """Whether nothing is trained, and the design bank says what designs come to."""
        return self.config.against == "bank"

    def close(self) -> None:
        """End the processes that train."""
        self.training_pool.close()

    @cached_property
    def fraud_trials(self) -> FraudTrials:
        """The plays of the fraud check, made when the first finalist is checked."""
        return self.training_pool.validation.fraud_trials()

    @cached_property
    def islands(self) -> Islands | None:
        """The trade with other searches, where there is any."""
        return islands_of(self)

    @cached_property
    def rivals(self) -> RivalPolicies:
        """The rivals of the field, trained when their policies are first asked for."""
        return rival_policies(self)

    @property
    def basis(self) -> str:
        """The digest of the data and the code."""
        return self.markets.data.basis

    @property
    def code(self) -> str:
        """The digest of the code that scores depend on."""
        return code_hash()

    def _start(self) -> None:
        """Write down what the run begins with; one that is resumed must have begun with the same
        code and data.
        """
        begun = self.archive.find("run_started")
        if begun is None and self.config.asks_model:
            _ = self.designers.base  # a missing model is reported before anything is trained
        self.folder.bind(self._given)
        refuse_other_data(self.config, self.archive, self.facts["sha256"])
        if begun is not None and begun["code_hash"] != self.code:
            then, now = begun["code_hash"][:8], self.code[:8]
            raise ConfigError(
                f"{self.folder.path} was begun with other code ({then}, this is {now}); finish it "
                "with that code, or choose another --out"
            )
        facts = {
            "config": to_dict(self.config),
            "data": self.facts,
            "llm": self.config.designer,
            "seed": self.config.seed,
            "code_hash": self.code,
            "version": __version__,
            "isolation": "unsafe" if self.training_pool.unsafe else "locked",
        }
        self.store_event("run_started", "run_started", facts)

    def _naive_design(self) -> Candidate:
        """The default with a naive reward: a reference on the test days, not a proposal."""
        modules = hashes({"reward": NAIVE_REWARD})
        naive = Candidate(design_id(modules), modules, NAIVE)
        self.archive.add_candidate(naive, {"reward": NAIVE_REWARD})
        return naive

    def _newcomers(self, iteration: int) -> list[Proposed]:
        """Designs of other searches that an iteration begins with."""
        return self.islands.newcomers(iteration) if self.islands else []

    def _pass_on(self, kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        """Hand an event on; the first training shows how long everything will take."""
        self.tell(kind, payload, stored=stored)
        if kind == "evaluated":
            self.left(self.budget.seconds_left())
            if self.archive.find("estimate") is None:
                self.store_event("estimate", "estimate", asdict(self.budget.estimate()))

    def _after_iteration(self, iteration: int, brought: Mapping[str, Any]) -> None:
        """Store an outer iteration with an execution of the best design; write the page anew."""
        summary = summarise(
            self.search,
            brought["designs"],
            gains=brought["gains"],
            step=brought["changed"],
            iteration=iteration,
        )
        is_new = self.store_event("iteration", key_of("iteration", iteration), to_plain(summary))
        store_execution(self)
        if self.islands:
            self.islands.show_leader(iteration)
        # The page of an old iteration is not written again: it would read files of later ones,
        # which may be damaged until the loop comes to them and makes them anew.
        if is_new:
            write_text(self.folder.report, run_page(self.folder.path))

    def store_event(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        """Write an event to the journal unless it stands there, and hand it on; whether it is new."""
        is_new = self.archive.append(kind, key, payload)
        self.tell(kind, payload, stored=not is_new)
        return is_new
