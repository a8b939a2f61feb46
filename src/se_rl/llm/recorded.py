"""Answers and verdicts that are asked for once: what the archive has is given again, bit for bit.

A reply is stored as one JSON blob: `request` (messages, the hash of the grammar, limits, seed) and
`proposals`, each with all its fields; masks are compressed. An empty answer, or a verdict reached
without a sandbox, is no outcome and is not stored.
"""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.llm.backends import Abilities, Designer, Proposal, Request, as_designer, as_trainable
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.ledger import Failure, Ledger, Totals, as_metered
from se_rl.records.entries import ModelCall, key_of, sha256
from se_rl.records.secrets import scrub

if TYPE_CHECKING:
    from se_rl.llm.generator import Validator
    from se_rl.records.archive import Archive


class RecordedDesigner:
    """A designer that is asked only what the archive does not know.

    `open_model` loads the model when it is first needed; `name`, `adapter` and `abilities` may be
    given beforehand, so that it need not be loaded to be known. Learning is not recorded here, so a
    recorded designer does not learn. `last_key` is the key of the latest call, `asked` are those of
    all calls.
    """

    def __init__(
        self,
        open_model: Callable[[], Designer],
        archive: Archive,
        *,
        name: str | None = None,
        adapter: str | None = None,
        abilities: Abilities | None = None,
    ) -> None:
        self._open = open_model
        self._archive = archive
        self._name = name
        self._adapter = adapter
        self._abilities = abilities
        self._opened: Designer | None = None
        self._booked = Totals()
        self._origins: dict[str, tuple[str, int]] = {}
        self.last_key = ""
        self.asked: list[str] = []

    @property
    def designer(self) -> Designer:
        """The model itself, opened when it is first asked for."""
        if self._opened is None:
            self._opened = as_designer(self._open())
            self._booked = _totals(self._opened)
        return self._opened

    @property
    def name(self) -> str:
        """What records call the model: the name given beforehand, since it is part of every key."""
        return self._name or self.designer.name

    @property
    def adapter(self) -> str | None:
        """The adapter in use; None for the untouched model."""
        if self._name or self._opened is None:
            return self._adapter
        learner = as_trainable(self._opened)
        return learner.adapter if learner else None

    @property
    def abilities(self) -> Abilities:
        """How the model writes, and whether it is metered; its weights are out of reach here."""
        told = self._abilities or self.designer.abilities
        return Abilities(told.constrained, told.free_python, learns=False, metered=told.metered)

    @property
    def ledger(self) -> Ledger:
        """What the model's calls used; empty if nobody counts it."""
        metered = as_metered(self.designer)
        return metered.ledger if metered else Ledger()

    @property
    def failures(self) -> Sequence[Failure]:
        """Calls of the model that brought nothing."""
        metered = as_metered(self.designer)
        return metered.failures if metered else ()

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """The stored answers to this request, else the model's, stored before they are given."""
        if n < 1:
            return []
        self.last_key = key_of(self.name, self.adapter or "", *_asked(request), n)
        reply = self._reply(request, n)
        proposals = _read_reply(reply, request) if reply else []
        for place, proposal in enumerate(proposals):
            answer = key_of(*_asked(request), proposal.text)
            self._origins.setdefault(answer, (self.last_key, place))
        return proposals

    def call_of(self, proposal: Proposal) -> tuple[str, int]:
        """Key of the call that first brought this answer, and its place; ("", 0) if none did."""
        if proposal.request is None:
            return "", 0
        return self._origins.get(key_of(*_asked(proposal.request), proposal.text), ("", 0))

    def _reply(self, request: Request, n: int) -> bytes:
        """The reply to a call; one whose blob is damaged is asked for again under its own key."""
        for again in count():
            key = key_of(self.last_key, again) if again else self.last_key
            stored = self._archive.find(key)
            if stored is None:
                reply = self._ask(request, n, key=key)
                self.asked.append(key)
                return reply
            if self._archive.has_blob(stored["reply"]):
                self.asked.append(key)
                return self._archive.blob(stored["reply"])
        raise AssertionError("unreachable")

    def _ask(self, request: Request, n: int, *, key: str) -> bytes:
        """The model's reply, stored; b"" if it is empty.

        What failed attempts cost is booked with the next one that answers.
        """
        designer, started = self.designer, time.monotonic()
        proposals = designer.propose(request, n)
        if not proposals:
            return b""
        reply = _write_reply(request, proposals)
        if request.grammar:
            self._archive.put_blob(request.grammar.encode())
        now, before = _totals(designer), self._booked
        tokens_in = max(proposal.prompt_tokens for proposal in proposals)
        tokens_out = sum(proposal.output_tokens for proposal in proposals)
        if now.attempts:
            tokens_in = now.tokens_in - before.tokens_in
            tokens_out = now.tokens_out - before.tokens_out
        call = ModelCall(
            key=key,
            model=designer.name,
            adapter=self.adapter or "",
            proposals=len(proposals),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            usd=now.cost_usd - before.cost_usd,
            seconds=time.monotonic() - started,
            reply=self._archive.put_blob(reply),
        )
        self._archive.add_call(call)
        self._booked = now
        return reply


class RecordedValidator:
    """A validator that judges each module once.

    Verdicts of stage "sandbox" are not kept: there was no sandbox to judge in.
    """

    def __init__(self, validator: Validator, archive: Archive) -> None:
        self._validator = validator
        self._archive = archive

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """The stored verdict on this source, else the validator's."""
        key = key_of("validation", code_type, code)
        if stored := self._archive.find(key):
            behaviour = np.array(stored.pop("behaviour"), np.float32)
            warnings = tuple(stored.pop("warnings"))
            return ValidationResult(behaviour=behaviour, warnings=warnings, **stored)
        result = self._validator.validate(code, code_type)
        if result.stage != "sandbox":
            self._archive.append("validation", key, vars(result))
        return result


def _asked(request: Request) -> list[Any]:
    """All of a request that its answer depends on."""
    grammar = sha256(request.grammar) if request.grammar else ""
    return [request.messages, grammar, request.max_tokens, request.temperature, request.seed]


def _totals(designer: Designer) -> Totals:
    metered = as_metered(designer)
    return metered.ledger.totals if metered else Totals()


def _write_reply(request: Request, proposals: Sequence[Proposal]) -> bytes:
    names = ("messages", "grammar", "max_tokens", "temperature", "seed")
    asked = dict(zip(names, _asked(request), strict=True))
    told = {"request": asked, "proposals": [_packed(proposal) for proposal in proposals]}
    return scrub(json.dumps(told, default=lambda number: number.item())).encode()


def _packed(proposal: Proposal) -> dict[str, Any]:
    """A proposal as JSON, without its request."""
    row = {field.name: getattr(proposal, field.name) for field in fields(Proposal)}
    del row["request"]
    if proposal.masks is not None:
        bits = np.ascontiguousarray(proposal.masks).tobytes()
        packed = b64encode(zlib.compress(bits, 6)).decode()
        row["masks"] = {"shape": proposal.masks.shape, "zlib": packed}
    return row


def _read_reply(reply: bytes, request: Request) -> list[Proposal]:
    return [_unpacked(row, request) for row in json.loads(reply)["proposals"]]


def _unpacked(row: dict[str, Any], request: Request) -> Proposal:
    known: dict[str, Any] = {}
    for name, value in row.items():
        known[name] = tuple(value) if isinstance(value, list) else value
    masks = known.pop("masks")
    if masks is not None:
        bits = zlib.decompress(b64decode(masks["zlib"]))
        stored = np.frombuffer(bits, np.uint8).reshape(masks["shape"])
        masks = stored.copy()  # writeable, as the model's own
    return Proposal(**known, masks=masks, request=request)
