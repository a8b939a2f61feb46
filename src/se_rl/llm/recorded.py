"""Answers and verdicts that are asked for once: what stands in the archive is given again, bit for bit.

A reply is stored as one JSON blob: `request` (messages, the hash of the grammar, limits, seed) and `proposals`, each with
all its fields; masks are compressed. Empty answers and verdicts without a room are no outcome and are not stored.
"""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from se_rl.llm.backends import Designer, Proposal, Request
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.ledger import Totals
from se_rl.records.entries import ModelCall, key_of, sha256

if TYPE_CHECKING:
    from se_rl.llm.generator import Validator
    from se_rl.records.archive import Archive


class RecordedDesigner:
    """A designer that is asked only what the archive does not know.

    `designer` may be a function that opens one, called when it is first needed; `name`, `adapter` and whether it is `local`
    (has `log_probs`) are then told beforehand. `last_key` is the key of the latest call, `asked` are those of all calls.
    """

    def __init__(
        self,
        designer: Designer | Callable[[], Designer],
        archive: Archive,
        *,
        name: str | None = None,
        adapter: str | None = None,
        local: bool | None = None,
    ) -> None:
        is_open = isinstance(designer, Designer) and not isinstance(
            designer, type
        )  # a class opens designers, too
        self._inner = cast(Designer, designer) if is_open else None
        self._open = cast(Callable[[], Designer], designer)
        self._archive, self._name, self._adapter, self._local = archive, name, adapter, local
        self._origins: dict[str, tuple[str, int]] = {}
        self._booked = _totals(self._inner)
        self.last_key = ""
        self.asked: list[str] = []

    @property
    def designer(self) -> Designer:
        """The model itself, opened when it is first asked for."""
        if self._inner is None:
            self._inner = self._open()
            self._booked = _totals(self._inner)
        return self._inner

    @property
    def name(self) -> str:
        """What records call the model: as told, before and after it is opened, for it is part of every key."""
        return self._name or self.designer.name

    @property
    def adapter(self) -> str | None:
        """The adapter in use; None for the untouched model."""
        return (
            self._adapter
            if self._name or self._inner is None
            else getattr(self._inner, "adapter", None)
        )

    def __getattr__(self, name: str) -> Any:
        """All else the model can do, `log_probs` among it; a closed one is not opened to see whether it has that."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "log_probs" and self._inner is None and self._local is not None:
            if not self._local:
                raise AttributeError(name)
            return lambda proposals: cast(Any, self.designer).log_probs(proposals)
        return getattr(self.designer, name)

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """The stored answers to this request, else the model's, stored before they are given."""
        if n < 1:
            return []
        self.last_key = key_of(self.name, self.adapter or "", *_asked(request), n)
        for (
            again
        ) in count():  # a reply whose blob is damaged is asked for again, under a key of its own
            key = key_of(self.last_key, again) if again else self.last_key
            stored = self._archive.find(key)
            if stored is None:
                reply = self._ask(request, n, key=key)
                self.asked.append(key)
                break
            if self._archive.has_blob(stored["reply"]):
                reply = self._archive.blob(stored["reply"])
                self.asked.append(key)
                break
        proposals = _read_reply(reply, request) if reply else []
        for place, proposal in enumerate(proposals):
            self._origins.setdefault(
                key_of(*_asked(request), proposal.text), (self.last_key, place)
            )
        return proposals

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        """One step of learning by the model itself; what it changes is the caller's to store."""
        return self.designer.update(proposals, advantages, **settings)

    def call_of(self, proposal: Proposal) -> tuple[str, int]:
        """Key of the call that first brought this answer, and its place there; ("", 0) where it came another way."""
        if proposal.request is None:
            return "", 0
        return self._origins.get(key_of(*_asked(proposal.request), proposal.text), ("", 0))

    def _ask(self, request: Request, n: int, *, key: str) -> bytes:
        """The model's reply, stored; b"" for an empty one. What failed attempts cost is booked with the next that answers."""
        designer, started = self.designer, time.monotonic()
        proposals = designer.propose(request, n)
        if not proposals:
            return b""
        reply = _write_reply(request, proposals)
        if request.grammar:
            self._archive.put_blob(request.grammar.encode())
        now, before = _totals(designer), self._booked
        call = ModelCall(
            key=key,
            model=designer.name,
            adapter=self.adapter or "",
            proposals=len(proposals),
            tokens_in=now.tokens_in - before.tokens_in
            if now.attempts
            else max(p.prompt_tokens for p in proposals),
            tokens_out=now.tokens_out - before.tokens_out
            if now.attempts
            else sum(p.output_tokens for p in proposals),
            usd=now.cost_usd - before.cost_usd,
            seconds=time.monotonic() - started,
            reply=self._archive.put_blob(reply),
        )
        self._archive.add_call(call)
        self._booked = now
        return reply


class RecordedValidator:
    """A validator that judges each module once. Verdicts of stage "sandbox" are not kept: there was no room to judge in."""

    def __init__(self, validator: Validator, archive: Archive) -> None:
        self._validator, self._archive = validator, archive

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """The stored verdict on this source, else the validator's."""
        key = key_of("validation", code_type, code)
        if stored := self._archive.find(key):
            behaviour = np.array(stored.pop("behaviour"), np.float32)
            return ValidationResult(
                behaviour=behaviour, warnings=tuple(stored.pop("warnings")), **stored
            )
        result = self._validator.validate(code, code_type)
        if result.stage != "sandbox":
            self._archive.append("validation", key, vars(result))
        return result


def _asked(request: Request) -> list[Any]:
    grammar = sha256(request.grammar) if request.grammar else ""
    return [request.messages, grammar, request.max_tokens, request.temperature, request.seed]


def _totals(designer: Designer | None) -> Totals:
    ledger = getattr(designer, "ledger", None)
    return ledger.totals if ledger is not None else Totals()


def _write_reply(request: Request, proposals: Sequence[Proposal]) -> bytes:
    names = ("messages", "grammar", "max_tokens", "temperature", "seed")
    asked = dict(zip(names, _asked(request), strict=True))
    told = {"request": asked, "proposals": [_packed(proposal) for proposal in proposals]}
    return json.dumps(told, default=lambda number: number.item()).encode()


def _packed(proposal: Proposal) -> dict[str, Any]:
    row = {
        field.name: getattr(proposal, field.name)
        for field in fields(Proposal)
        if field.name != "request"
    }
    if proposal.masks is not None:
        bits = b64encode(zlib.compress(np.ascontiguousarray(proposal.masks).tobytes(), 6)).decode()
        row["masks"] = {"shape": proposal.masks.shape, "zlib": bits}
    return row


def _read_reply(reply: bytes, request: Request) -> list[Proposal]:
    return [_unpacked(row, request) for row in json.loads(reply)["proposals"]]


def _unpacked(row: dict[str, Any], request: Request) -> Proposal:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    if (masks := known.pop("masks")) is not None:
        bits = zlib.decompress(b64decode(masks["zlib"]))
        masks = (
            np.frombuffer(bits, np.uint8).reshape(masks["shape"]).copy()
        )  # writeable, as the model's own
    return Proposal(**known, masks=masks, request=request)
