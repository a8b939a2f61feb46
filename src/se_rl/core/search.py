"""The search: the five steps of Algorithm 1 and what they remember of each other.

Nothing here is saved as such. A run that is started again goes through the same steps, finds what it did in the archive,
and so comes to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from se_rl.config import ConfigError
from se_rl.core.bandit import AdditiveBandit
from se_rl.core.designers import ADAPTED, UNTOUCHED, Designers
from se_rl.core.operators import OPERATORS, Plan, Proposed, ask, drawn, swap
from se_rl.core.parents import ParetoParents
from se_rl.core.stopping import StopRule
from se_rl.executors.training_pool import TrainingPool
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.high_level_enhancement import Tried
from se_rl.llm.low_level_enhancement import DesignOutcome
from se_rl.llm.prompts import module_text
from se_rl.records.archive import Archive
from se_rl.records.entries import (
    DEFAULT,
    Candidate,
    EventListener,
    Instruction,
    design_id,
    key_of,
)
from se_rl.records.iterations import EnhancementStep, InstructionCredit
from se_rl.records.settings import RunConfig
from se_rl.scoring.ladder import Ladder

FAILURE_REWARD = -0.3
"""What the bandit books for a design that gave no score or was none of its own, bps."""
PLATEAU = 3
"""Iterations without a new best after which one batch starts afresh from drafts."""


class Search:
    """Designs, how they stand, and what was learnt from them; `on_event` hears every event, `spent` says what ran out."""

    def __init__(
        self,
        config: RunConfig,
        archive: Archive,
        training_pool: TrainingPool,
        designers: Designers,
        kit: DualLevelEnhancementKit,
        *,
        on_event: EventListener = lambda *_, **__: None,
        spent: Callable[[], str] = lambda: "",
    ) -> None:
        self.config, self.archive, self.designers, self.kit, self.on_event, self._spent = (
            config,
            archive,
            designers,
            kit,
            on_event,
            spent,
        )
        self.default = Candidate(design_id({}), {}, DEFAULT)
        self.ladder = Ladder(config, archive, training_pool, self.default, on_event=on_event)
        self._screen = config.rungs.screen.index
        self.known: dict[str, Candidate] = {}
        self.sources: dict[str, Mapping[str, str]] = {}
        self.instructions: dict[str, Instruction] = {}
        self.proposed = self.repeated = 0
        self.parents = ParetoParents(self.default.id)
        self.bandit = AdditiveBandit(
            {"module": config.modules, "operator": OPERATORS, "model": (UNTOUCHED, ADAPTED)}
        )
        self.progress = StopRule(config.epsilon)
        self.best, self.calm = self.default.id, 0

    def begin(self) -> None:
        """The default design is the first to be trained: all others are held against it."""
        self._record(Proposed(self.default, {}, {}))
        self.ladder.run([self.default], self.config.rungs.screen)
        if self.default.id in self.ladder.failures:
            raise ConfigError(
                f"the default design gave no score ({self.ladder.failures[self.default.id]}); run se-rl doctor"
            )

    def design(self, iteration: int) -> list[Proposed]:
        """Step 1: new designs from the designer, by its prompts and what is known so far."""
        rng, made = self._rng(iteration, 1), list[Proposed]()
        for group in range(self.config.parents):
            n = min(self.config.siblings, self.config.budget_designs - self.proposed)
            if n > 0:  # written down at once: the next prompt avoids what this one brought
                made += [self._record(one) for one in self._siblings(iteration, group, n, rng)]
        return made

    def train(self, designs: Sequence[Proposed]) -> list[str]:
        """Step 2: the inner loop for each new design, short for all and longer for the promising ones."""
        new = [self.known[one.candidate.id] for one in designs if one.trainable]
        self.ladder.run(new, self.config.rungs.screen)
        return self.ladder.promote([c.id for c in new])

    def evaluate(self, designs: Sequence[Proposed]) -> dict[str, float]:
        """Step 3: what each new design gained over its parent on validation, and who is best now."""
        new = [one.candidate for one in designs if not one.candidate.twin]
        gains = {c.id: gain for c in new if (gain := self.ladder.gain(c)) is not None}
        stands = [
            s for name in self.known if (s := self.ladder.longest(name)) and name != self.default.id
        ]
        self.parents.rank(stands, self.ladder.ranking())
        leader = self.ladder.leader()
        self.calm = 0 if leader != self.best or self.calm >= PLATEAU else self.calm + 1
        self.best = leader
        for one in designs:
            if one.arm.get("operator") in OPERATORS:
                lost = bool(one.candidate.twin)
                self.bandit.observe(
                    one.arm, FAILURE_REWARD if lost else gains.get(one.candidate.id, FAILURE_REWARD)
                )
        return gains

    def enhance(
        self, iteration: int, designs: Sequence[Proposed], gains: Mapping[str, float]
    ) -> EnhancementStep:
        """Step 4: better prompts and better weights, from what the designs gained."""
        outcomes = [self._outcome(one, gains) for one in designs if one.proposal is not None]
        changed = self.designers.enhance(self.kit, outcomes, iteration)
        credits = []
        for row in changed["credits"]:
            payload = {"instruction": row["id"], "credit": row["credit"], "uses": row["uses"]}
            self._event("credit", key_of("credit", iteration, row["id"]), payload)
            credits.append(InstructionCredit(row["id"], row["credit"], row["uses"]))
        for instruction in changed["instructions"]:
            self._know(instruction)
        return EnhancementStep(
            tuple(credits), tuple(changed["instructions"]), changed["learned"] or {}
        )

    def converged(self, iteration: int) -> str:
        """Step 5: why the search ends here; "" where it goes on."""
        best = self.ladder.longest(self.best)
        self.progress = self.progress.moved(best.score if best else 0.0)
        if self.progress.reached:
            moved = f"less than {self.progress.tolerance} bps in each of {self.progress.window} iterations"
            return f"converged: the smoothed score moved {moved}"
        if iteration >= self.config.iterations:
            return f"budget: {self.config.iterations} outer iterations"
        if self.proposed >= self.config.budget_designs:
            return f"budget: {self.config.budget_designs} designs"
        return self._spent()

    def counts(self) -> dict[str, int]:
        """Designs proposed: each was scored, failed (refused, or no score came of it) or repeated; valid: not refused."""
        others = [c for c in self.known.values() if c.id != self.default.id]
        valid = sum(not c.reason for c in others)
        scored = sum((c.id, self._screen) in self.ladder.standings for c in others)
        return {
            "proposed": self.proposed,
            "valid": valid,
            "scored": scored,
            "failed": len(others) - scored,
            "repeated": self.repeated,
        }

    def _siblings(
        self, iteration: int, group: int, n: int, rng: np.random.Generator
    ) -> list[Proposed]:
        """The designs of one prompt, or of one crossover."""
        if self.config.arm == "random":
            return [
                drawn(self.config.modules, self.default, iteration, group * n + i, rng)
                for i in range(n)
            ]
        fresh = not self.config.evolves or self.calm >= PLATEAU
        parent = self.default if fresh else self.known[self.parents.choose(rng)]
        arm = self._arm(parent, iteration, group, rng)
        plan = self._plan(iteration, arm, parent, rng)
        module = arm["module"]
        if arm["operator"] == "crossover":
            donors = self._donors(parent, module)
            chosen = [donors[int(i)] for i in rng.permutation(len(donors))[:n]]
            return swap(plan, [(donor, self.sources[donor.id]) for donor in chosen])
        seed = int(self._rng(iteration, 2, group).integers(2**31))
        avoid = [sources[module] for sources in self.sources.values() if module in sources]
        return ask(plan, self.designers.writer(arm["model"]), n, seed=seed, avoid=avoid)

    def _arm(
        self, parent: Candidate, iteration: int, group: int, rng: np.random.Generator
    ) -> dict[str, str]:
        """Which module to change, how, and by which version of the model."""
        if not self.config.evolves:  # the same prompt over and over, one module after the other
            turn = (iteration - 1) * self.config.parents + group
            module = self.config.modules[turn % len(self.config.modules)]
            return {"module": module, "operator": "draft", "model": UNTOUCHED}
        return self.bandit.choose(
            rng, allowed=[arm for arm in self.bandit.arms() if self._possible(arm, parent)]
        )

    def _possible(self, arm: Mapping[str, str], parent: Candidate) -> bool:
        operator, module = arm["operator"], arm["module"]
        if arm["model"] not in self.designers.arms or (
            operator == "crossover" and arm["model"] != UNTOUCHED
        ):
            return False
        if self.calm >= PLATEAU:
            return operator == "draft"
        if operator == "crossover":
            return (
                len(self._donors(parent, module)) >= self.config.siblings
            )  # fewer would leave designs of the budget out
        return operator != "repair" or bool(self._failures(module))

    def _donors(self, parent: Candidate, module: str) -> list[Candidate]:
        """Scored designs whose version of a module makes a new design of the parent, the latest of each version."""
        scored = (self.known[name] for name, rung in self.ladder.standings if rung == self._screen)
        versions = {c.modules[module]: c for c in scored if module in c.modules}
        return [
            c
            for sha, c in versions.items()
            if design_id({**parent.modules, module: sha}) not in self.known
        ]

    def _failures(self, module: str) -> list[tuple[str, str]]:
        """Sources of a module that failed and can be shown, with the reason."""
        told = {c.id: c.reason for c in self.known.values() if c.reason} | self.ladder.failures
        mine = [
            (self.known[name], reason)
            for name, reason in told.items()
            if self.known[name].module == module
        ]
        texts = ((self.sources[c.id].get(module, ""), reason) for c, reason in mine)
        return [(text, reason) for text, reason in texts if module_text(text).strip()]

    def _plan(
        self, iteration: int, arm: Mapping[str, str], parent: Candidate, rng: np.random.Generator
    ) -> Plan:
        macro, micro = (
            self._know(choice.instruction) for choice in self.kit.choose(arm["module"], rng)
        )
        tried = self._failures(arm["module"]) if arm["operator"] == "repair" else []
        failed = tried[int(rng.integers(len(tried)))] if tried else None
        at = self.ladder.standings.get((parent.id, self._screen))
        shown = 2 if self.designers.constrained else 6  # what a prompt has room for
        history = self.kit.history(arm["module"], shown) if self.config.evolves else []
        return Plan(
            iteration,
            arm,
            parent,
            self.sources[parent.id],
            macro,
            micro,
            history,
            at.score if at else 0.0,
            failed,
        )

    def _outcome(self, one: Proposed, gains: Mapping[str, float]) -> DesignOutcome:
        """What one answer of the model came to; a repeat gained what its twin did, and is no new try."""
        assert one.proposal is not None
        candidate = one.candidate
        standing = self.ladder.standings.get((candidate.id, self._screen))
        score = standing.score if standing else float("nan")
        gain = gains.get(candidate.id, self.ladder.gain(candidate))
        reason = candidate.reason or self.ladder.failures.get(candidate.id, "")
        asked = self.instructions[candidate.micro].text if candidate.micro else ""
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
        """Write a proposal down; one that repeats an earlier design is counted, and not trained again."""
        candidate = one.candidate
        self.proposed += candidate.operator != DEFAULT
        if candidate.id in self.known:
            self.repeated += 1
            repeat = replace(candidate, twin=candidate.id)
            place = [
                candidate.iteration,
                candidate.operator,
                candidate.module,
                candidate.place,
                self.proposed,
            ]
            self._event("repeated", key_of("repeated", *place), {**asdict(repeat), "behaviour": []})
            return replace(one, candidate=repeat)
        prompt = self.archive.put_blob(one.prompt.encode()) if one.prompt else ""
        call, _ = self.designers.call_of(one.proposal) if one.proposal else ("", 0)
        candidate = replace(candidate, prompt=prompt, call=call)
        self.known[candidate.id], self.sources[candidate.id] = candidate, one.sources
        self.on_event(
            "proposed",
            asdict(candidate),
            stored=not self.archive.add_candidate(candidate, one.sources),
        )
        return replace(one, candidate=candidate)

    def _know(self, instruction: Instruction) -> Instruction:
        self.instructions[instruction.id] = instruction
        stored = not self.archive.add_instruction(instruction)
        self.on_event("instruction", asdict(instruction), stored=stored)
        return instruction

    def _event(self, kind: str, key: str, payload: Mapping[str, Any]) -> None:
        self.on_event(kind, payload, stored=not self.archive.append(kind, key, payload))

    def _rng(self, *place: int) -> np.random.Generator:
        """Chance of this search's own: a spawn key shares nothing with seeds that are lists, as the kit's are."""
        return np.random.default_rng(np.random.SeedSequence(self.config.seed, spawn_key=place))
