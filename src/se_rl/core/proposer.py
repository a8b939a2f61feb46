"""What to try next: which parent, which module, which operator, which model, which words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from se_rl.core.bandit import AdditiveBandit, StepChoice
from se_rl.core.designers import ADAPTED, GIVEN, UNTOUCHED, Designers
from se_rl.core.known_designs import KnownDesigns
from se_rl.core.model_free_operators import chained, combine, draw_edits, drawn, scan, swap
from se_rl.core.operators import OPERATORS, Plan, Proposed, ask
from se_rl.core.parents import ParetoParents
from se_rl.core.scan import (
    SingleEdit,
    bank_weights,
    chained_prompts,
    planned_chains,
    planned_scan,
    uses_bank,
)
from se_rl.llm.editing import CHANGES, TriedEdit, shown_edits
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.prompts import module_text
from se_rl.modules.derivation import derivation
from se_rl.modules.edits import MOST_CHANGES, changes_between
from se_rl.modules.kinds import KINDS
from se_rl.records.entries import Candidate, design_id
from se_rl.records.settings import RunConfig
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.prospects import expected

FAILURE_REWARD = -0.3
"""What the bandit books for a design that gave no score or was not new, bps."""
SHOWN_CONSTRAINED = 2
SHOWN_FREE = 6
"""Earlier designs that a prompt has space for, under a grammar and without one."""
WRITTEN = 3
"""Edits that a model writes for each one that is trained, where the bank can choose among them."""


class Proposer:
    """Chooses what to try next and has it written.

    `starts_afresh` makes the next batch drafts from the default.
    """

    def __init__(
        self,
        config: RunConfig,
        designs: KnownDesigns,
        ladder: Ladder,
        designers: Designers,
        kit: DualLevelEnhancementKit,
    ) -> None:
        self.config = config
        self.designs = designs
        self.ladder = ladder
        self.default = ladder.default
        self.designers = designers
        self.kit = kit
        self.starts_afresh = False
        self._scan: list[SingleEdit] = []
        self.parents = ParetoParents(self.default.id)
        self.bandit = AdditiveBandit(
            {
                "module": config.modules,
                "operator": OPERATORS,
                "model": tuple(dict.fromkeys((*designers.versions, ADAPTED))),
            }
        )

    def siblings(
        self, iteration: int, group: int, *, n: int, rng: np.random.Generator
    ) -> list[Proposed]:
        """The n designs of one prompt, of one crossover, or of the experiment that comes first."""
        if self.config.arm == "random":
            return self._drawn(iteration, group, n=n, rng=rng)
        if self.config.evolves and self.config.scan and iteration == 1:
            return self._scanned(group, n=n, rng=rng)
        if self.config.evolves and self.config.scan and group == 0 and not self.starts_afresh:
            together = self._combined(iteration, n=n)
            if len(together) == n:
                return together
        fresh = not self.config.evolves or self.starts_afresh
        parent = self.default if fresh else self.designs.candidates[self.parents.choose(rng)]
        choice = self._choose(parent, iteration, group, rng=rng)
        plan = self._plan(iteration, choice, parent, rng=rng)
        module = choice["module"]
        if choice["operator"] == "crossover":
            donors = self.donors(parent, module)
            chosen = [donors[int(i)] for i in rng.permutation(len(donors))[:n]]
            return swap(plan, [(donor, self.designs.sources[donor.id]) for donor in chosen])
        if self.config.arm == "local":
            return draw_edits(plan, n, rng=rng, avoid=self.designs.versions(module))
        seed = int(search_rng(self.config.seed, iteration, 2, group).integers(2**31))
        writer = self.designers.writer(choice["model"])
        chooses = choice["operator"] == "edit" and writer.constrained and uses_bank(self.config)
        wanted = n * WRITTEN if chooses else n
        written = ask(plan, writer, wanted, seed=seed, avoid=self.designs.versions(module))
        return self._most_promising(written, n) if chooses else written

    def _most_promising(self, written: Sequence[Proposed], n: int) -> list[Proposed]:
        """The n edits that the bank expects most of, in their order; new and valid ones first."""
        known = set(self.designs.candidates)
        weights = bank_weights(self.config)
        worth: list[tuple[bool, float]] = []
        for one in written:
            is_new = not one.candidate.reason and one.candidate.id not in known
            known.add(one.candidate.id)
            gain = expected(one.sources, weights) if is_new else 0.0
            worth.append((is_new, gain))
        best = sorted(range(len(written)), key=lambda place: worth[place], reverse=True)[:n]
        made = []
        for place, chosen in enumerate(sorted(best)):
            one = written[chosen]
            made.append(replace(one, candidate=replace(one.candidate, place=place)))
        return made

    def learn(self, designs: Sequence[Proposed], gains: Mapping[str, float]) -> None:
        """Book what each choice of a batch gained."""
        for one in designs:
            if one.choice.get("operator") not in OPERATORS:
                continue
            gain = gains.get(one.candidate.id, FAILURE_REWARD)
            self.bandit.observe(one.choice, FAILURE_REWARD if one.candidate.twin else gain)

    def donors(self, parent: Candidate, module: str) -> list[Candidate]:
        """Scored designs whose version of a module makes a new design of the parent.

        Of each version the latest design.
        """
        screen = self.ladder.rungs.screen.index
        versions: dict[str, Candidate] = {}
        for name, rung in self.ladder.standings:
            candidate = self.designs.candidates.get(name)
            if rung == screen and candidate is not None and module in candidate.modules:
                versions[candidate.modules[module]] = candidate
        found = []
        for sha, candidate in versions.items():
            if design_id({**parent.modules, module: sha}) not in self.designs.candidates:
                found.append(candidate)
        return found

    def failures(self, module: str) -> list[tuple[str, str]]:
        """Sources of a module that failed and can be shown, with the reason."""
        known = self.designs.candidates
        reasons = {c.id: c.reason for c in known.values() if c.reason}
        reasons |= self.ladder.failures
        found = []
        for name, reason in reasons.items():
            text = self.designs.sources[name].get(module, "")
            if known[name].module == module and module_text(text).strip():
                found.append((text, reason))
        return found

    def is_possible(self, choice: StepChoice, parent: Candidate) -> bool:
        """Whether a choice can be made of this parent now."""
        operator, module = choice["operator"], choice["module"]
        if choice["model"] not in self.designers.versions:
            return False
        if operator == "crossover" and choice["model"] != UNTOUCHED:
            return False
        if operator != "edit" and choice["model"] == GIVEN:  # it has learned to edit alone
            return False
        if self.config.arm == "local" and operator not in ("edit", "crossover"):
            return False
        if self.starts_afresh and self.config.asks_model:
            return operator == "draft"
        if operator == "crossover":  # fewer donors would leave designs of the budget out
            return len(self.donors(parent, module)) >= self.config.siblings
        if operator == "repair":
            return not self.designers.constrained and bool(self.failures(module))
        return (operator == "edit") == self._is_editable(parent, module)

    def _is_editable(self, parent: Candidate, module: str) -> bool:
        """Whether a parent's module can be edited: by its choices, or as free text."""
        if self.config.arm != "local" and not self.designers.constrained:
            return True
        source = self.designs.sources[parent.id].get(module) or KINDS[module].default_source
        return derivation(source, module) is not None

    def _scanned(self, group: int, *, n: int, rng: np.random.Generator) -> list[Proposed]:
        """The next of the designed experiment: one choice made otherwise, or a chain of them."""
        if group >= self.config.parents - chained_prompts(self.config):
            chains = planned_chains(self.config, n, rng)
            return [chained(self.default, one, place=i) for i, one in enumerate(chains)]
        if group == 0:
            self._scan = planned_scan(self.config, rng)
        first = group * self.config.siblings
        made = []
        for place, edit in enumerate(self._scan[first : first + n]):
            choice = {"module": edit.module, "operator": "scan", "model": "none"}
            made.append(scan(Plan(1, choice, self.default, {}), edit.source, place=place))
        return made

    def _combined(self, iteration: int, *, n: int) -> list[Proposed]:
        """What the experiment leads to: the most promising designs two by two, best pairs first."""
        prospects = self.ladder.prospects()
        best = sorted(prospects, key=lambda name: -prospects[name])
        known = set(self.designs.candidates)
        made: list[Proposed] = []
        for first, second in _pairs(len(best)):
            if len(made) == n:
                break
            one, other = (self.designs.candidates[best[place]] for place in (first, second))
            found = combine(one, other, self.designs.sources, iteration=iteration, place=len(made))
            if found is not None and found.candidate.id not in known:
                known.add(found.candidate.id)
                made.append(found)
        return made

    def _tried_edits(self, module: str) -> list[TriedEdit]:
        """Earlier edits of a module, as many as a prompt tells of."""
        found = []
        for candidate in self.designs.candidates.values():
            gain = self.ladder.gain(candidate) if candidate.parents else None
            if candidate.module != module or gain is None:
                continue
            before, after = (
                self.designs.sources[name].get(module) or KINDS[module].default_source
                for name in (candidate.parents[0], candidate.id)
            )
            changes = changes_between(before, after, module)
            standing = self.ladder.longest(candidate.id)
            if changes and len(changes) <= MOST_CHANGES and standing is not None:
                found.append(TriedEdit("; ".join(map(str, changes)), gain, standing.se))
        return shown_edits(found)

    def _drawn(
        self, iteration: int, group: int, *, n: int, rng: np.random.Generator
    ) -> list[Proposed]:
        made = []
        missing = self._not_yet_designed()
        for i in range(n):
            place = group * n + i
            first = missing[i : i + 1]
            made.append(
                drawn(self.config.modules, self.default, iteration, place, rng, always=first)
            )
        return made

    def _not_yet_designed(self) -> list[str]:
        """Modules that no proposal was about: a multi-agent run designs each of its modules."""
        if self.config.scenario != "multi":
            return []
        return [name for name in self.config.modules if not self.designs.by_module[name]]

    def _choose(
        self, parent: Candidate, iteration: int, group: int, *, rng: np.random.Generator
    ) -> StepChoice:
        """Which module to change, how, and by which version of the model."""
        if not self.config.evolves:  # the same prompt over and over, one module after the other
            turn = (iteration - 1) * self.config.parents + group
            module = self.config.modules[turn % len(self.config.modules)]
            return {"module": module, "operator": "draft", "model": UNTOUCHED}
        allowed = [one for one in self.bandit.choices() if self.is_possible(one, parent)]
        missing = self._not_yet_designed()
        first = [one for one in allowed if one["module"] in missing]
        return self.bandit.choose(rng, allowed=first or allowed)

    def _plan(
        self, iteration: int, choice: StepChoice, parent: Candidate, *, rng: np.random.Generator
    ) -> Plan:
        module = choice["module"]
        macro, micro = self.kit.choose(module, rng)
        failed = None
        if choice["operator"] == "repair" and (tried := self.failures(module)):
            failed = tried[int(rng.integers(len(tried)))]
        at = self.ladder.longest(parent.id)
        with_history = self.config.evolves and self.kit.high is not None
        shown = SHOWN_CONSTRAINED if self.designers.constrained else SHOWN_FREE
        return Plan(
            iteration,
            choice,
            parent,
            self.designs.sources[parent.id],
            self.designs.add_instruction(macro.instruction),
            self.designs.add_instruction(micro.instruction),
            self.kit.history(module, shown) if self.config.evolves else [],
            at.score if at else 0.0,
            failed,
            changes=int(rng.choice(len(CHANGES), p=CHANGES)) + 1,
            edits=self._tried_edits(module) if with_history else (),
        )


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    """(0, 1), (0, 2), (1, 2), (0, 3) and so on."""
    for second in range(1, n):
        for first in range(second):
            yield first, second


def search_rng(seed: int, *place: int) -> np.random.Generator:
    """Chance of the search's own: a spawn key shares nothing with seeds that are lists, as the
    kit's are."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=place))
