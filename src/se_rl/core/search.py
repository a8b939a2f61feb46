"""The search: the five steps of Algorithm 1 and what they remember of each other.

Nothing here is saved as such. A run that is started again goes through the same steps, finds what
it did in the archive, and so comes to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from se_rl.config import ConfigError
from se_rl.core.designers import Designers
from se_rl.core.known_designs import KnownDesigns, changed_modules
from se_rl.core.module_credits import ModuleCredits
from se_rl.core.operators import ASKED, Proposed
from se_rl.core.proposer import Proposer, search_rng
from se_rl.core.scan import foresight_of
from se_rl.core.stopping import CONVERGED, PATIENCE, StopRule
from se_rl.llm.design_outcomes import DesignOutcome
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.instruction_grammar import Tried
from se_rl.records.archive import Archive
from se_rl.records.enhancement import EnhancementStep
from se_rl.records.entries import DEFAULT, Candidate, EventListener, design_id, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.module_use import ModuleUse
from se_rl.records.settings import RunConfig
from se_rl.scoring.evaluator import Evaluator
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.standing import Standing

NOTHING_USABLE = "the model wrote nothing usable"
"""How the reason begins that a search gives whose model never wrote a valid design."""
MOST_FAULT = 160
"""Letters of the first fault in that reason."""
PLATEAU = 3
"""Iterations without a new best after which one batch starts afresh from drafts."""


class Search:
    """Designs, how they stand, and what was learnt from them.

    `on_event` hears every event, `spent` says which budget ran out ("" for none). Without `stores`
    trainings and standings are neither announced nor stored. `newcomers` gives designs of other
    searches that an iteration begins with.
    """

    def __init__(
        self,
        config: RunConfig,
        archive: Archive,
        evaluator: Evaluator,
        designers: Designers,
        kit: DualLevelEnhancementKit,
        *,
        on_event: EventListener = lambda *_, **__: None,
        spent: Callable[[], str] = lambda: "",
        stores: bool = True,
        newcomers: Callable[[int], Sequence[Proposed]] = lambda _: (),
    ) -> None:
        self.config = config
        self.archive = archive
        self.designers = designers
        self.kit = kit
        self.on_event = on_event
        self.default = Candidate(design_id({}), {}, DEFAULT)
        self.designs = KnownDesigns(archive, on_event=on_event)
        self.ladder = Ladder(
            config,
            archive,
            evaluator,
            self.default,
            on_event=on_event,
            foresight=foresight_of(config, self.designs.sources),
            stores=stores,
        )
        self.credits = ModuleCredits(self.ladder, self.designs)
        self.proposer = Proposer(config, self.designs, self.ladder, designers, kit)
        self.progress = StopRule(config.epsilon, patience=PATIENCE)
        self.best = self.default.id
        self.stale_iterations = 0
        self._improved = False
        self._newcomers = newcomers
        self._spent = spent
        self._asked_for_designs = False
        self._wrote_designs = False

    @property
    def proposed(self) -> int:
        """How many designs were proposed."""
        return self.designs.proposed

    def begin(self) -> None:
        """The default design is the first to be trained, for the screen and the races at once: all
        others are held against it.
        """
        self._record(Proposed(self.default, {}, {}))
        rungs = self.config.rungs
        jobs = []
        for rung in (rungs.screen, rungs.search):
            jobs += [TrainingJob(self.default, rung, seed) for seed in rung.training_seeds]
        self.ladder.train(jobs)
        self.ladder.run([self.default], rungs.screen)
        if self.default.id in self.ladder.failures:
            why = self.ladder.failures[self.default.id]
            raise ConfigError(f"the default design gave no score ({why}); run se-rl doctor")

    def design(self, iteration: int) -> list[Proposed]:
        """Step 1: new designs from the designer, by its prompts and what is known so far."""
        rng = search_rng(self.config.seed, iteration, 1)
        known = len(self.designers.asked)
        made = [self._record(one) for one in self._newcomers(iteration)]
        for group in range(self.config.parents):
            n = min(self.config.siblings, self.config.budget_designs - self.proposed)
            if n <= 0:
                break
            # stored at once: the next prompt avoids what this one brought
            for one in self.proposer.siblings(iteration, group, n=n, rng=rng):
                made.append(self._record(one))
        self._asked_for_designs |= len(self.designers.asked) > known
        self._wrote_designs |= any(one.proposal and not one.candidate.reason for one in made)
        return made

    def train(self, designs: Sequence[Proposed]) -> list[str]:
        """Step 2: the inner loop for each new design, with other seeds for the promising ones."""
        new = [self.designs.candidates[one.candidate.id] for one in designs if one.trainable]
        self.ladder.run(new, self.config.rungs.screen)
        raced = self.ladder.promote([c.id for c in new])
        self.credits.judge(raced, self.config.rungs.search)
        return raced

    def finals(self, extra: Sequence[Candidate]) -> list[str]:
        """The last rung for the best few, and what their modules are worth there."""
        finalists = self.ladder.finals(extra, races=not self.model_failed)
        self.credits.judge(finalists, self.config.rungs.last, carried=True)
        return finalists

    def evaluate(self, designs: Sequence[Proposed]) -> dict[str, float]:
        """Step 3: what each new design gained over its parent, and who is best now."""
        gains: dict[str, float] = {}
        for one in designs:
            gain = None if one.candidate.twin else self.ladder.gain(one.candidate)
            if gain is not None:
                gains[one.candidate.id] = self.credits.earned(one.candidate, gain)
        raced = self.ladder.ranking()
        self.proposer.parents.rank(self._standings(raced), raced)
        self._note_leader(self.ladder.leader())
        self.proposer.learn(designs, gains)
        return gains

    def enhance(
        self, iteration: int, designs: Sequence[Proposed], gains: Mapping[str, float]
    ) -> EnhancementStep:
        """Step 4: better prompts and better weights, from what the designs gained."""
        outcomes = [self._outcome(one, gains) for one in designs if one.proposal is not None]
        step = self.designers.enhance(self.kit, outcomes, iteration)
        for booked in step.credits:
            payload = {"instruction": booked.id, "credit": booked.credit, "uses": booked.uses}
            self._event("credit", key_of("credit", iteration, booked.id), payload)
        for instruction in step.instructions:
            self.designs.add_instruction(instruction)
        return step

    @property
    def model_failed(self) -> bool:
        """Whether the model was asked for designs and has never written a valid one."""
        return self._asked_for_designs and not self._wrote_designs

    def champion(self, finalists: Sequence[str]) -> str:
        """The design that the run presents; the default where none is above it, or where the model
        that it is about wrote nothing usable.
        """
        return self.default.id if self.model_failed else self.ladder.champion(finalists)

    def converged(self, iteration: int) -> str:
        """Step 5: why the search ends here; "" where it goes on."""
        best = self.ladder.longest(self.best)
        score = best.score if best else 0.0
        self.progress = self.progress.moved(score, improved=self._improved)
        if self.model_failed:
            return f"{NOTHING_USABLE} in iteration {iteration}{self._first_fault()}"
        if self.progress.reached:
            rule = self.progress
            moved = f"less than {rule.tolerance} bps in each of {rule.window} iterations"
            since = f"with no new leader in {rule.waited} iterations"
            return f"{CONVERGED}: the smoothed score moved {moved}, {since}"
        if iteration >= self.config.iterations:
            return f"budget: {self.config.iterations} outer iterations"
        if self.proposed >= self.config.budget_designs:
            return f"budget: {self.config.budget_designs} designs"
        return self._spent()

    def counts(self) -> dict[str, int]:
        """How many designs were proposed, and what became of them.

        Each was scored, failed (it was refused, or no score came of it) or repeated; valid ones
        were not refused.
        """
        screen = self.config.rungs.screen.index
        others = [c for c in self.designs.candidates.values() if c.id != self.default.id]
        scored = sum((c.id, screen) in self.ladder.standings for c in others)
        return {
            "proposed": self.proposed,
            "valid": sum(not c.reason for c in others),
            "scored": scored,
            "failed": len(others) - scored,
            "repeated": self.designs.repeated,
        }

    def module_use(self) -> dict[str, ModuleUse]:
        """How often each module of the scenario was designed, and what came of it."""
        found = {}
        for module in self.config.modules:
            own = [c for c in self.designs.candidates.values() if module in changed_modules(c)]
            gains: dict[str, float] = {}
            for candidate in own:
                gain = self.ladder.gain(candidate)
                if gain is not None:
                    gains[candidate.id] = gain
            best = max(gains, key=lambda name: gains[name], default="")
            search = self.config.rungs.search.index
            found[module] = ModuleUse(
                proposed=self.designs.by_module[module],
                valid=sum(not candidate.reason for candidate in own),
                scored=len(gains),
                raced=sum((candidate.id, search) in self.ladder.standings for candidate in own),
                best=best,
                best_gain=gains.get(best, float("nan")),
            )
        return found

    def _first_fault(self) -> str:
        """What was wrong with the first answer, for the reason that the search gives."""
        for candidate in self.designs.candidates.values():
            if candidate.operator in ASKED and candidate.reason:
                return f" (first: {' '.join(candidate.reason.split())[:MOST_FAULT]})"
        return ""

    def _standings(self, names: Container[str]) -> list[Standing]:
        """These designs, each at its highest rung, in the order of proposal."""
        found = []
        for name in self.designs.candidates:
            one = self.ladder.longest(name)
            if one is not None and name in names:
                found.append(one)
        return found

    def _note_leader(self, leader: str) -> None:
        """Count the iterations without a new best; after enough of them one batch starts afresh."""
        self._improved = leader != self.best
        if self._improved or self.stale_iterations >= PLATEAU:
            self.stale_iterations = 0
        else:
            self.stale_iterations += 1
        self.best = leader
        self.proposer.starts_afresh = self.stale_iterations >= PLATEAU

    def _outcome(self, one: Proposed, gains: Mapping[str, float]) -> DesignOutcome:
        """What one answer of the model came to.

        A repeat gained what its twin did, and is no new try.
        """
        assert one.proposal is not None
        candidate = one.candidate
        standing = self.ladder.longest(candidate.id)
        score = standing.score if standing else float("nan")
        gain = gains.get(candidate.id, self.ladder.gain(candidate))
        reason = candidate.reason or self.ladder.failures.get(candidate.id, "")
        asked = self.designs.instructions[candidate.micro].text if candidate.micro else ""
        source = one.sources[candidate.module]
        tried = Tried(
            candidate.id,
            candidate.module,
            source,
            score,
            float("nan") if gain is None else gain,
            asked,
            reason,
        )
        return DesignOutcome(
            one.proposal,
            gain,
            candidate.behaviour,
            bool(candidate.twin),
            one.prompt,
            candidate.module,
            tuple(name for name in (candidate.macro, candidate.micro) if name),
            None if candidate.twin else tried,
        )

    def _record(self, one: Proposed) -> Proposed:
        """Store a proposal, with the model call that brought it."""
        call = self.designers.call_of(one.proposal)[0] if one.proposal else ""
        return self.designs.record(one, call=call)

    def _event(self, kind: str, key: str, payload: Mapping[str, Any]) -> None:
        is_new = self.archive.append(kind, key, payload)
        self.on_event(kind, payload, stored=not is_new)
