"""What calls to language models brought and used.

An answer is read with suspicion, and each attempt is booked once.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, cast

from se_rl.llm.backends import Designer, Request

BYTES_PER_TOKEN = 4
"""A rule of thumb for English and code, used when an answer does not say how many it used."""
_TOKENS_IN = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,9})\s*[,}]')
_TOKENS_OUT = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,9})\s*[,}]')

TextAndFinish = tuple[str, Literal["stop", "length"]]
"""The text of a choice, and whether the model ended it or the length limit did."""


@dataclass(frozen=True)
class Reply:
    """How one attempt ended: `ok`, or the fault's name.

    `offered` counts all choices of the answer, `choices` are those with a text.
    """

    outcome: str
    reason: str = ""
    body: bytes = b""
    status: int = 0
    retry_after_s: float = 0.0
    offered: int = 0
    choices: tuple[TextAndFinish, ...] = ()


def read_answer(body: bytes) -> Reply:
    """The choices of an answer, or what is wrong with it."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return Reply("unparseable", f"{len(body)} bytes that are not JSON", body)
    found = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(found, list) or not found:
        return Reply("schema", f"no choices in the answer: {body.decode(errors='replace')}", body)
    choices = tuple(filter(None, map(_choice, found)))
    if not choices:
        return Reply("empty", "no text in any choice", body, offered=len(found))
    return Reply("ok", "", body, offered=len(found), choices=choices)


def _choice(choice: Any) -> TextAndFinish | None:
    message = choice.get("message") if isinstance(choice, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str) or not text.strip():
        return None
    if text.encode(errors="ignore").decode() != text:
        return None  # half a surrogate pair is no text: it can be neither stored nor shown
    was_cut = choice.get("finish_reason") in ("length", "content_filter")
    return text, "length" if was_cut else "stop"


@dataclass(frozen=True)
class Tokens:
    """What one attempt used, and whether that was estimated from the answer's bytes."""

    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False

    def cost_usd(self, usd_per_million_in: float, usd_per_million_out: float) -> float:
        """The price of these tokens."""
        return (self.tokens_in * usd_per_million_in + self.tokens_out * usd_per_million_out) / 1e6


def tokens_used(body: bytes, request: Request, *, n: int) -> Tokens:
    """Tokens as the answer's usage states them, even in a broken answer, else estimated.

    No answer used 0. A text that speaks of usage cannot mislead: inside a JSON text quotes are
    escaped.
    """
    if not body:
        return Tokens()
    tokens_in, tokens_out = _TOKENS_IN.search(body), _TOKENS_OUT.search(body)
    if tokens_in and tokens_out:
        return Tokens(int(tokens_in[1]), int(tokens_out[1]))
    prompt_bytes = sum(len(message["content"].encode()) for message in request.messages)
    answer_tokens = min(-(-len(body) // BYTES_PER_TOKEN), n * request.max_tokens)
    return Tokens(-(-prompt_bytes // BYTES_PER_TOKEN), answer_tokens, estimated=True)


@dataclass(frozen=True)
class Failure:
    """Proposals that a call did not bring: how many, how its last attempt ended, and why."""

    request_hash: str
    outcome: str
    reason: str
    attempts: int
    missing: int


@dataclass(frozen=True)
class Entry:
    """One attempt: what was asked (by hash), how it ended and what it used.

    `estimated` marks tokens that we counted because the answer did not say.
    """

    request_hash: str
    attempt: int
    outcome: str
    tokens_in: int
    tokens_out: int
    cost_usd: float
    seconds: float
    estimated: bool = False


@dataclass(frozen=True)
class Totals:
    """Sums over a ledger; `estimated` is the number of attempts whose tokens we counted."""

    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    estimated: int = 0


class Ledger:
    """Attempts by (request hash, attempt): booking the same attempt again changes nothing.

    Threads may share it. `Ledger(Entry(**row) for row in rows)` reads an export back.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._lock = threading.Lock()
        self._entries = {(entry.request_hash, entry.attempt): entry for entry in entries}
        self._next: Counter[str] = Counter()
        for request_hash, attempt in self._entries:
            self._next[request_hash] = max(self._next[request_hash], attempt + 1)

    def open(self, request_hash: str) -> int:
        """The next attempt's number: asking the same thing again later is a new attempt."""
        with self._lock:
            self._next[request_hash] += 1
            return self._next[request_hash] - 1

    def book(
        self,
        request_hash: str,
        attempt: int,
        *,
        outcome: str,
        tokens_in: int = 0,
        tokens_out: int = 0,
        cost_usd: float = 0.0,
        seconds: float = 0.0,
        estimated: bool = False,
    ) -> bool:
        """Book one attempt; False if the ledger already has it."""
        entry = Entry(
            request_hash, attempt, outcome, tokens_in, tokens_out, cost_usd, seconds, estimated
        )
        with self._lock:
            self._next[request_hash] = max(self._next[request_hash], attempt + 1)
            return self._entries.setdefault((request_hash, attempt), entry) is entry

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All attempts in the order of booking."""
        with self._lock:
            return tuple(self._entries.values())

    @property
    def totals(self) -> Totals:
        """What all attempts together used."""
        entries = self.entries
        return Totals(
            attempts=len(entries),
            tokens_in=sum(entry.tokens_in for entry in entries),
            tokens_out=sum(entry.tokens_out for entry in entries),
            cost_usd=sum(entry.cost_usd for entry in entries),
            seconds=sum(entry.seconds for entry in entries),
            estimated=sum(entry.estimated for entry in entries),
        )

    def export(self) -> list[dict[str, Any]]:
        """Plain rows, for records and files."""
        return [asdict(entry) for entry in self.entries]


class MeteredDesigner(Designer, Protocol):
    """A designer that keeps count of what its calls used, and of those that failed."""

    @property
    def ledger(self) -> Ledger:
        """What every attempt used."""
        ...

    @property
    def failures(self) -> Sequence[Failure]:
        """Calls that brought fewer proposals than were asked for."""
        ...


def as_metered(designer: Designer) -> MeteredDesigner | None:
    """The designer as one that keeps count; None if it says that it does not."""
    return cast(MeteredDesigner, designer) if designer.abilities.metered else None
