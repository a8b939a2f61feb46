"""Islands: searches on one archive that trade the designs which lead them.

After every iteration a search shows its leader to the others with the same task. From the second
iteration on it begins with the best leader of theirs that it does not know: one more design, which
takes a place of its budget and climbs the ladder as any other, mostly with trainings that stand
already. Whom it met is written down before anything comes of it: a search that is resumed or read
later does not depend on what the others have done since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from se_rl.core.operators import Proposed
from se_rl.core.search import Search
from se_rl.llm.code_validator import ValidationResult
from se_rl.records.entries import Candidate, Leader, design_id, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.shared_archive import SharedArchive

if TYPE_CHECKING:
    from se_rl.core.run import Run

MIGRANT = "migrant"
"""The operator of a design that leads another search, and the kind of the event that says so."""
FIRST_TRADE = 2
"""The iteration that begins with the first one: before it nobody leads."""


class Islands:
    """Trades designs between a search and the others on its archive that have the same `task`."""

    def __init__(
        self,
        archive: SharedArchive,
        search: Search,
        *,
        task: str,
        validate: Callable[[str, str], ValidationResult],
    ) -> None:
        self.archive = archive
        self.search = search
        self.task = task
        self._validate = validate

    def show_leader(self, iteration: int) -> None:
        """Show the design that leads after an iteration, unless it is the default."""
        name = self.search.best
        standing = self.search.ladder.longest(name)
        if name == self.search.default.id or standing is None:
            return
        modules = dict(self.search.designs.candidates[name].modules)
        self.archive.add_leader(
            Leader(self.task, iteration, name, modules, standing.score, standing.se)
        )

    def newcomers(self, iteration: int) -> list[Proposed]:
        """The design from elsewhere that this iteration begins with, if there is one."""
        if iteration < FIRST_TRADE:
            return []
        key = f"{MIGRANT} {iteration}"
        met: Mapping[str, Any] | None = self.archive.find(key)
        if met is None:
            met = self._meet()
            self.archive.append(MIGRANT, key, met)
        return [self._taken(met["modules"], iteration)] if met["run"] else []

    def _meet(self) -> Mapping[str, Any]:
        """The best leader of another search that is new here, and that search's name."""
        for run, leader in self.archive.leaders(self.task):
            if leader.candidate not in self.search.designs.candidates:
                return {"run": run, **asdict(leader)}
        return {"run": ""}

    def _taken(self, modules: Mapping[str, str], iteration: int) -> Proposed:
        """A design of another search as a proposal of this one, judged again as all source is."""
        sources = {name: self.archive.source(sha) for name, sha in modules.items()}
        verdicts = [self._validate(source, name) for name, source in sources.items()]
        reason = next((one.error_message for one in verdicts if not one.is_valid), "")
        parents = (self.search.default.id,)
        name = design_id(modules)
        taken = Candidate(name, modules, MIGRANT, parents, iteration=iteration, reason=reason)
        return Proposed(taken, sources, {})


def islands_of(run: Run) -> Islands | None:
    """The trade of a run, where its settings ask for it and its archive is shared."""
    config, archive, pool = run.config, run.archive, run.training_pool
    if not config.islands or not isinstance(archive, SharedArchive):
        return None
    last = config.rungs.last
    trained = pool.key(TrainingJob(run.search.default, last, last.first_seed))
    task = key_of("task", trained, config.weights, config.risk, config.modules)
    return Islands(archive, run.search, task=task, validate=pool.validate)
