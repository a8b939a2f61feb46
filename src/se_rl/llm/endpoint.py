"""A designer behind any OpenAI-compatible address (vLLM, Ollama, hosted), and every way in which such an address fails.

One retry layer, this one. A call that fails for good is data (`failures`), and the search goes on; only an endpoint that
has never answered and never will as it is set up raises. Redirects are not followed: the key goes to one host alone.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx2
import openai

from se_rl.llm.backends import LlmError, Proposal, Request, Unsupported
from se_rl.llm.ledger import Failure, Ledger, Reply, Tokens, read_answer, tokens_used

PARALLEL = 4
"""Requests in flight at once for one call, where the server writes one answer a request."""


@dataclass(frozen=True, kw_only=True)
class EndpointLimits:
    """How long and how often a call tries: the n-th wait is about `backoff_s` * 2^n, `deadline_s` ends the whole call.

    `read_timeout_s` is the longest silence, `max_bytes` the longest answer that is read.
    """

    tries: int = 5
    backoff_s: float = 1.0
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 180.0
    deadline_s: float = 600.0
    max_bytes: int = 2 << 20

    def __post_init__(self) -> None:
        for name in (limit.name for limit in fields(self)):
            if not getattr(self, name) > 0:
                raise LlmError(f"{name} is {getattr(self, name)}; give a number above 0")


_FATAL = ("refused", "unknown_host")  # trying again changes nothing
_OUT_OF_REACH = (*_FATAL, "connect")


class _EndpointRefused(Exception):
    """Carries an error status past the client, which would read its body whatever the size."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


class EndpointDesigner:
    """A model behind an OpenAI-compatible `base_url`, such as http://localhost:8000/v1.

    The key is read from the environment variable `key_env` at each request and kept nowhere; without one none is sent.
    `grammar_field` names where the server takes a grammar ("structured_outputs.grammar"), `extra` adds request fields,
    or drops ours by None. Prices are for the ledger.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key_env: str = "OPENAI_API_KEY",
        ledger: Ledger | None = None,
        limits: EndpointLimits | None = None,
        usd_per_million_in: float = 0.0,
        usd_per_million_out: float = 0.0,
        grammar_field: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.base_url, self.model, self.key_env = _checked(base_url, key_env), model, key_env
        self.ledger = Ledger() if ledger is None else ledger
        self.limits = limits or EndpointLimits()
        self.failures: list[Failure] = []
        self._usd_per_million = usd_per_million_in, usd_per_million_out
        self._grammar_field, self._extra = grammar_field, dict(extra or {})
        self._answered = False  # it gave a usable answer once: what fails later is data
        self._gives_n = True  # until it is seen to write fewer answers than `n`
        http = openai.DefaultHttpxClient(
            follow_redirects=False, event_hooks={"response": [self._stop_at_refusal]}
        )
        self._client = openai.OpenAI(
            base_url=self.base_url, api_key="in-the-header", max_retries=0, http_client=http
        )

    def __repr__(self) -> str:
        return f"EndpointDesigner({self.base_url!r}, {self.model!r}, key_env={self.key_env!r})"

    @property
    def name(self) -> str:
        """What records call the model."""
        return self.model

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> NoReturn:
        """Remote weights cannot learn here."""
        raise Unsupported(
            f"{self.model} is remote and cannot be trained; use a local model or search without training"
        )

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Up to n proposals; what is missing has its reason in `failures`.

        The first request goes alone: it finds out whether the server takes `n`, warms its prompt cache, and a server that
        is down is not asked n times.
        """
        self._key()  # a malformed key raises here, before anything is opened or sent
        if n < 1:
            return []
        deadline = time.monotonic() + self.limits.deadline_s
        first = self._ask(request, 0, want=n if self._gives_n else 1, lost=n, deadline=deadline)
        rest = range(len(first), n) if first else range(0)
        with ThreadPoolExecutor(PARALLEL) as pool:
            more = pool.map(
                lambda index: self._ask(request, index, want=1, lost=1, deadline=deadline), rest
            )
            return [*first, *(proposal for part in more for proposal in part)]

    def _ask(
        self, request: Request, index: int, *, want: int, lost: int, deadline: float
    ) -> list[Proposal]:
        """Proposals `index` to `index + want - 1`, or as many as come; none after the last try, and a failure booked."""
        request_hash = self._hash(request, index)
        reply = Reply("deadline", f"no time left: a call may take {self.limits.deadline_s:g} s")
        n, attempts, useless = want, 0, 0
        while attempts < self.limits.tries and time.monotonic() < deadline:
            seed = _draw(
                request.seed, index, useless
            )  # a transport fault leaves it alone: same request, same answer
            reply, proposals = self._attempt(
                request, request_hash, n=n, seed=seed, deadline=deadline
            )
            attempts += 1
            if proposals:
                self._answered = True
                self._gives_n = self._gives_n and reply.offered >= want
                return proposals[:want]
            if reply.status in (400, 422) and n > 1:
                n = 1  # some servers refuse the field
                continue
            useless += reply.outcome == "empty"
            jitter = _draw(request_hash, attempts) / 2**31
            wait_s = max(
                self.limits.backoff_s * 2 ** (attempts - 1) * (0.5 + jitter), reply.retry_after_s
            )
            if (
                reply.outcome in _FATAL
                or attempts == self.limits.tries
                or time.monotonic() + wait_s > deadline
            ):
                break
            time.sleep(wait_s)
        if reply.outcome in _OUT_OF_REACH and not self._answered:
            raise LlmError(reply.reason)
        self.failures.append(
            Failure(request_hash, reply.outcome, reply.reason, attempts=attempts, missing=lost)
        )
        return []

    def _attempt(
        self, request: Request, request_hash: str, **how: Any
    ) -> tuple[Reply, list[Proposal]]:
        """One HTTP request, booked whatever comes of it, an interrupt included."""
        attempt, start = self.ledger.open(request_hash), time.monotonic()
        reply, used, seconds = Reply("interrupted"), Tokens(), 0.0
        try:
            reply = self._exchange(request, **how)
        finally:
            seconds = time.monotonic() - start
            used = tokens_used(reply.body, request, n=how["n"])
            self.ledger.book(
                request_hash,
                attempt,
                outcome=reply.outcome,
                tokens_in=used.tokens_in,
                tokens_out=used.tokens_out,
                cost_usd=used.cost_usd(*self._usd_per_million),
                seconds=seconds,
                estimated=used.estimated,
            )
        return reply, [
            Proposal(
                text,
                used.tokens_in,
                finish=finish,
                model=self.model,
                seconds=seconds,
                request=request,
                output_tokens=(used.tokens_out + place)
                // len(reply.choices),  # the shares add up to the whole
            )
            for place, (text, finish) in enumerate(reply.choices)
        ]

    def _exchange(self, request: Request, *, n: int, seed: int, deadline: float) -> Reply:
        """Send one request and read its answer, up to the cap and the deadline."""
        received = bytearray()
        left_s = max(deadline - time.monotonic(), 0.001)
        read_s, connect_s = (
            min(self.limits.read_timeout_s, left_s),
            min(self.limits.connect_timeout_s, left_s),
        )
        key = self._key()
        headers = {
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {key}" if key else openai.Omit(),
        }
        messages: Any = request.messages
        try:
            with self._client.chat.completions.with_streaming_response.create(
                model=self.model,
                messages=messages,
                extra_body=self._fields(request, n, seed),
                extra_headers=headers,
                timeout=httpx2.Timeout(read_s, connect=connect_s),
            ) as response:
                for chunk in response.http_response.iter_raw():
                    received += chunk
                    if len(received) > self.limits.max_bytes:
                        return Reply(
                            "too_long",
                            f"an answer above {self.limits.max_bytes} bytes",
                            bytes(received),
                        )
                    if time.monotonic() > deadline:
                        return Reply(
                            "timeout", "an answer still coming at the deadline", bytes(received)
                        )
        except _EndpointRefused as refusal:
            return refusal.reply
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            return self._broken(error, bytes(received))
        reply = read_answer(bytes(received))
        return replace(reply, reason=self._words(reply.reason))

    def _fields(self, request: Request, n: int, seed: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": seed,
        }
        if n > 1:
            body["n"] = n
        if request.grammar and self._grammar_field:
            value: Any = request.grammar
            for part in reversed(self._grammar_field.split(".")):
                value = {part: value}
            body |= value
        return {name: value for name, value in {**body, **self._extra}.items() if value is not None}

    def _stop_at_refusal(self, response: httpx2.Response) -> None:
        """Status and first bytes say it; left alone, the client would read an error page of any size."""
        if response.is_success:
            return
        said = ""
        with suppress(httpx2.HTTPError):
            said = self._words(next(response.iter_raw(), b"").decode(errors="replace"))
        status, wait_s = (
            response.status_code,
            _retry_after_s(response.headers.get("retry-after", "")),
        )
        if status >= 500 or status in (408, 409, 425, 429):
            said += f" (asks to wait {wait_s:g} s)" if wait_s else ""
            outcome = "rate_limited" if status == 429 else "server_error"
            raise _EndpointRefused(
                Reply(outcome, f"HTTP {status} from {self.base_url}: {said}", b"", status, wait_s)
            )
        target = self._words(response.headers.get("location", "nowhere"))
        raise _EndpointRefused(Reply("refused", self._mend(status, said, target), b"", status))

    def _mend(self, status: int, said: str, target: str) -> str:
        """Why a refusal happened and what ends it, in one line."""
        if status in (401, 403):
            what = (
                f"refused the key in {self.key_env}"
                if self._key()
                else f"wants a key and {self.key_env} is not set"
            )
            return f"{self.base_url} {what} (HTTP {status}); set {self.key_env} to a key that is valid there"
        if status < 400:
            return f"{self.base_url} redirects to {target} (HTTP {status}); give the address it leads to as base_url"
        if status == 404:
            what = f"has no model {self.model!r} or no such path (HTTP 404: {said})"
            return f"{self.base_url} {what}; base_url mostly ends in /v1, and {self.base_url}/models lists the models"
        return f"{self.base_url} refused the request (HTTP {status}: {said}); mend what it names, or drop it by extra"

    def _broken(self, error: Exception, received: bytes) -> Reply:
        """A connection that failed: before, at or after the first byte."""
        chain = list(_causes(error))
        if any(
            isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN
            for cause in chain
        ):
            host = urlsplit(self.base_url).hostname
            return Reply(
                "unknown_host",
                f"the host {host!r} is not known; mend base_url, or reach its network",
            )
        words = self._words(f"{type(chain[-1]).__name__}: {chain[-1]}")
        if any(isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout)) for cause in chain):
            return Reply(
                "connect",
                f"nothing answers at {self.base_url} ({words}); start the server or mend base_url",
            )
        timed_out = any(isinstance(cause, httpx2.TimeoutException) for cause in chain)
        return Reply(
            "timeout" if timed_out else "reset", f"{words} after {len(received)} bytes", received
        )

    def _key(self) -> str:
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if not (key.isascii() and key.isprintable()):
            raise LlmError(
                f"the key in {self.key_env} holds characters that no key has; set it again"
            )
        return key

    def _words(self, text: str) -> str:
        """A stranger's text as one short line, and never our key in it."""
        key = self._key()
        line = " ".join((text.replace(key, "***") if key else text).split())
        return "".join(letter for letter in line if letter.isprintable())[:200]

    def _hash(self, request: Request, index: int) -> str:
        how = request.grammar, request.max_tokens, request.temperature, request.seed
        what = [self.base_url, self.model, request.messages, how, index, self._extra]
        return sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def _retry_after_s(text: str) -> float:
    """Seconds that a server asks to wait, given as a number or as a date; 0 where it says nothing sensible."""
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _draw(*what: object) -> int:
    """31 bits that depend on what they are for and on nothing else."""
    return int.from_bytes(sha256(repr(what).encode()).digest()[:4], "big") >> 1


def _checked(base_url: str, key_env: str) -> str:
    if "@" in base_url or "?" in base_url:
        raise LlmError(
            f"base_url carries a name, a key or a query; put the key into the variable {key_env}"
        )
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise LlmError(
            f"base_url {base_url!r} is not an address; give one such as http://localhost:8000/v1"
        )
    return base_url.rstrip("/")
