"""What a designed protocol or market is worth by itself: the design less the same one without it.

A designed market changes training alone, and every design is scored in the same family of markets:
its module earns credit where an agent that trained there is better in the family. A protocol earns
credit against silence. Both are trained once more for it, with the design's own seeds; such a
counterpart is no proposal, and cannot lead or be a parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from se_rl.core.known_designs import KnownDesigns
from se_rl.core.operators import hashes
from se_rl.modules.kinds import KINDS
from se_rl.records.entries import WITHOUT, Candidate, design_id, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.module_use import ModuleCredit
from se_rl.records.rungs import Rung
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.standing import Standing

NAME_LENGTH = 12
"""Letters of a counterpart's name, as many as those of a design."""


@dataclass(frozen=True)
class _Pair:
    """A design, one of its modules, and the same design without it."""

    design: Candidate
    module: str
    without: Candidate


class ModuleCredits:
    """Trains counterparts and keeps the credits in the ladder."""

    def __init__(self, ladder: Ladder, designs: KnownDesigns) -> None:
        self.ladder = ladder
        self.designs = designs

    def judge(self, names: Sequence[str], rung: Rung, *, carried: bool = False) -> None:
        """Hold designs that stand at a rung against their counterparts.

        The module that a design changed is judged; with `carried` all that it has.
        """
        pairs = []
        for name in names:
            candidate = self.ladder.climbed[name]
            if (name, rung.index) not in self.ladder.standings:
                continue
            for module in judged_modules(candidate, carried=carried):
                pairs.append(_Pair(candidate, module, self._without(candidate, module)))
        self._train(pairs, rung)
        for pair in pairs:
            found = self.ladder.compare(pair.design.id, pair.without.id, rung)
            if found is not None:
                of_design = self.ladder.credits.setdefault((pair.design.id, rung.index), {})
                of_design[pair.module] = found
        judged = dict.fromkeys(pair.design.id for pair in pairs)
        self.ladder.store(judged, rung)

    def earned(self, candidate: Candidate, gain: float) -> float:
        """What a step is worth to those who learn from it: its gain over the parent, but no more
        than the credit of the module that it changed.
        """
        credit = self._highest(candidate.id).get(candidate.module)
        return gain if credit is None else min(gain, credit.score)

    def found(self) -> tuple[ModuleCredit, ...]:
        """Every credit, in the order of judging."""
        credits = []
        for (name, index), by_module in self.ladder.credits.items():
            for module, one in by_module.items():
                against = KINDS[module].counterpart
                assert against is not None  # others are not judged
                credits.append(
                    ModuleCredit(
                        name,
                        module,
                        index,
                        against.name,
                        credit=one.score,
                        se=one.se,
                        ci95=one.ci95,
                        seeds=one.seeds,
                    )
                )
        return tuple(credits)

    def _highest(self, name: str) -> Mapping[str, Standing]:
        for rung in reversed(self.ladder.rungs):
            if (name, rung.index) in self.ladder.credits:
                return self.ladder.credits[name, rung.index]
        return {}

    def _without(self, candidate: Candidate, module: str) -> Candidate:
        """The same design with a module's counterpart in its place, stored for whoever trains it."""
        against = KINDS[module].counterpart
        assert against is not None  # others are not judged
        sources = dict(self.designs.sources[candidate.id])
        del sources[module]
        if against.source is not None:
            sources[module] = against.source
        modules = hashes(sources)
        known = self.ladder.climbed.get(design_id(modules))
        if known is not None:
            return known
        # a name of its own: the search may come to propose the same modules
        name = key_of(WITHOUT, sorted(modules.items()))[:NAME_LENGTH]
        made = Candidate(name, modules, WITHOUT, (candidate.id,), module)
        self.designs.archive.add_candidate(made, sources)
        return made

    def _train(self, pairs: Sequence[_Pair], rung: Rung) -> None:
        """Train the counterparts with the seeds of their designs, at every rung that counts here."""
        trainings = self.ladder.trainings
        jobs: dict[tuple[str, int, int], TrainingJob] = {}
        for like in self.ladder.rungs.alike(rung):
            if like.index > rung.index:
                continue
            for pair in pairs:
                known = trainings.made_at(pair.without.id, like)
                for seed in trainings.made_at(pair.design.id, like):
                    if seed not in known:
                        key = (pair.without.id, like.index, seed)
                        jobs[key] = TrainingJob(pair.without, like, seed)
        self.ladder.train(list(jobs.values()))


def judged_modules(candidate: Candidate, *, carried: bool = False) -> list[str]:
    """The designed modules of a design that have a counterpart: those it changed, or all."""
    judged = [name for name in candidate.modules if KINDS[name].counterpart is not None]
    if carried or not candidate.module:
        return judged
    return [name for name in judged if name == candidate.module]
