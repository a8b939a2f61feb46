"""The designers of a run: the untouched model and its trained versions.

All answers and all learning are on record. A resumed run asks nothing twice: answers, verdicts and
adapters come from the archive, and the model itself is loaded only when something new must be
written or learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from torch import Tensor

from se_rl.llm.adapter_file import AdapterFile
from se_rl.llm.backends import Abilities, Designer, Proposal, Request, TrainableDesigner
from se_rl.llm.catalog import abilities_of
from se_rl.llm.design_outcomes import DesignOutcome
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.generator import DesignGenerator, Mode, Validator, open_designer
from se_rl.llm.recorded import RecordedDesigner, RecordedValidator
from se_rl.records.archive import Archive
from se_rl.records.enhancement import EnhancementStep, WeightUpdate
from se_rl.records.entries import Adapter, key_of

UNTOUCHED = "untouched"
GIVEN = "given"
ADAPTED = "adapted"
"""The versions of the model: as it was found, with the adapter that the run began with, and with
the one that the run trained last."""


class Designers:
    """The model called `name` and its adapters.

    To the enhancement kit it is a `Designer`: the version in use. `validator` judges what is
    written, `prices` are USD per million tokens read and written, `designer` stands in for the
    model of that name. `given` is an adapter to begin with: it stays as it is, and the run's own
    learns on from a copy. `free` has any model write free Python, `chain_of_thought` has it give
    reasons first.
    """

    def __init__(
        self,
        name: str,
        archive: Archive,
        validator: Validator,
        *,
        seed: int,
        prices: tuple[float, float] = (0.0, 0.0),
        designer: Designer | None = None,
        given: AdapterFile | None = None,
        free: bool = False,
        chain_of_thought: bool = False,
    ) -> None:
        self.name = name
        self.archive = archive
        self.seed = seed
        self.prices = prices
        self._mode: Mode = "free" if free else "auto"
        self._chain_of_thought = chain_of_thought
        self._stand_in = designer
        self._given = given
        self._live: TrainableDesigner | None = None
        self._all: list[RecordedDesigner] = []
        self._validator = RecordedValidator(validator, archive)
        self._version: Adapter | None = None
        self._writers = {UNTOUCHED: self._writer(lambda: self.base, None)}
        if given is not None:
            self._writers[GIVEN] = self._writer(lambda: self._begun, given.head.id)

    @cached_property
    def base(self) -> Designer:
        """The untouched model, loaded when first needed."""
        if self._stand_in is not None:
            return self._stand_in
        # one thread: the same bits on any machine
        return open_designer(self.name, threads=1, prices=self.prices)

    @property
    def abilities(self) -> Abilities:
        """What the model of this name can do; nothing is loaded to know it."""
        return abilities_of(self.name) if self._stand_in is None else self._stand_in.abilities

    @property
    def constrained(self) -> bool:
        """Whether designs are written under a grammar."""
        return self._writers[UNTOUCHED].constrained

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that can be asked."""
        return tuple(self._writers)

    @property
    def asked(self) -> set[str]:
        """Keys of all calls that this run of the loop has made or looked up."""
        keys: set[str] = set()
        for writer in self._all:
            keys.update(writer.asked)
        return keys

    def writer(self, version: str) -> DesignGenerator:
        """The generator of a version."""
        return self._writers[version]

    def call_of(self, proposal: Proposal) -> tuple[str, int]:
        """The call that brought an answer, and its place there."""
        for writer in self._all:
            call = writer.call_of(proposal)
            if call[0]:
                return call
        return "", 0

    def enhance(
        self, kit: DualLevelEnhancementKit, outcomes: Sequence[DesignOutcome], iteration: int
    ) -> EnhancementStep:
        """Let both levels learn; a step on the weights that is stored is not made again."""
        seen = [[o.prompt, o.proposal.text, o.gain, o.repeated] for o in outcomes]
        settings = asdict(kit.low.config) if kit.low else {}
        key = key_of("lle", self.name, self.adapter or "", iteration, self.seed, settings, seen)
        stored = self.archive.find(key)
        if stored and stored["adapter"] and not self.archive.has_blob(stored["adapter"]["weights"]):
            stored = None  # its weights are damaged: make the step again
        known = b"" if stored else None
        _, step = kit.enhance(outcomes, self, iteration, constrained=self.constrained, stored=known)
        if step.weights is None:
            return step
        if stored is None:
            stored = self._stored_step(step.weights, iteration)
            self.archive.append("learnt", key, stored)
        if stored["adapter"]:
            self._version = Adapter(**stored["adapter"])
            self.archive.add_adapter(self._version)
            self._writers[ADAPTED] = self._writer(self._adapted, self._version.id)
        return replace(step, weights=WeightUpdate.from_row(stored["stats"]))

    # the version in use, as the kit sees it

    @property
    def adapter(self) -> str | None:
        """The adapter in use; None for the untouched model."""
        if self._version is not None:
            return self._version.id
        return self._given.head.id if self._given else None

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Ask the version in use."""
        begun = GIVEN if self._given else UNTOUCHED
        return self._writers[ADAPTED if self._version else begun].designer.propose(request, n)

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        """One step on the weights in use."""
        return self._adapted().update(proposals, advantages, **settings)

    def new_adapter(self, label: str, **settings: Any) -> Designers:
        """Begin the first adapter; it is in use once it has learnt."""
        self._live = cast(TrainableDesigner, self.base).new_adapter(label, **settings)
        return self

    def with_adapter_bytes(self, content: bytes) -> Designers:
        """A step that is known: its weights are read from the archive when they are needed."""
        return self

    def adapter_bytes(self) -> bytes:
        """The weights in use as one file."""
        return self._adapted().adapter_bytes()

    @property
    def embeddings(self) -> Tensor:
        """The model's token embeddings, for the score predictor."""
        return cast(TrainableDesigner, self.base).embeddings

    def tokens_of(self, text: str) -> Sequence[int]:
        """A text as the model reads it."""
        return cast(TrainableDesigner, self.base).tokens_of(text)

    def _stored_step(self, update: WeightUpdate, iteration: int) -> dict[str, Any]:
        """What a step did, as the archive keeps it."""
        measured = update.measured.items()
        numbers = {name: float(value) for name, value in measured if np.isfinite(value)}
        stats = replace(update, measured=numbers).to_row()
        if not update.moved:
            return {"adapter": None, "stats": stats}
        made = self._live  # the version in use is still the one before
        assert made is not None
        weights = self.archive.put_blob(made.adapter_bytes())
        version = Adapter(str(made.adapter), self.adapter or "", weights, iteration, numbers)
        return {"adapter": asdict(version), "stats": stats}

    def _adapted(self) -> TrainableDesigner:
        """The weights in use, read from the archive where this process did not make them."""
        if self._version and (self._live is None or self._live.adapter != self._version.id):
            base = cast(TrainableDesigner, self.base)
            self._live = base.with_adapter_bytes(self.archive.blob(self._version.weights))
        elif self._live is None and self._given is not None:
            self._live = self._opened_given()
        assert self._live is not None, "no step has been made on the weights"
        return self._live

    @cached_property
    def _begun(self) -> Designer:
        """The model with the adapter that was given, which nothing changes."""
        return self._opened_given()

    def _opened_given(self) -> TrainableDesigner:
        assert self._given is not None
        return cast(TrainableDesigner, self.base).with_adapter_bytes(self._given.content)

    def _writer(self, model: Callable[[], Designer], adapter: str | None) -> DesignGenerator:
        """The generator of a version; one no longer in use is never asked anything new."""
        designer = RecordedDesigner(
            model, self.archive, name=self.name, adapter=adapter, abilities=self.abilities
        )
        self._all.append(designer)
        return DesignGenerator(
            designer,
            self._validator,
            mode=self._mode,
            chain_of_thought=self._chain_of_thought,
        )
