"""One HTTP request to an OpenAI-compatible address, and every way in which it can end.

Nothing is retried here. Redirects are not followed: the key goes to one host alone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from se_rl.llm.backends import LlmError, Request
from se_rl.llm.ledger import Reply, read_answer
from se_rl.records.secrets import HIDDEN, check_address, scrub

_RETRIED_STATUS = (408, 409, 425, 429)  # and every 5xx


@dataclass(frozen=True, kw_only=True)
class EndpointLimits:
    """How long and how often a call tries.

    The n-th wait is about `backoff_s` * 2^n, `deadline_s` ends the whole call, `read_timeout_s` is
    the longest silence, `max_bytes` the longest answer that is read.
    """

    tries: int = 5
    backoff_s: float = 1.0
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 180.0
    deadline_s: float = 600.0
    max_bytes: int = 2 << 20

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not value > 0:
                raise LlmError(f"{limit.name} is {value}; give a number above 0")


class _EndpointRefused(Exception):
    """Carries an error status past the client, which would read its body whatever the size."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


class ChatConnection:
    """A model behind a `base_url`.

    The key is read from the environment variable `key_env` at each request and kept nowhere.
    Messages call the address `option`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key_env: str,
        limits: EndpointLimits,
        grammar_field: str | None,
        extra: Mapping[str, Any],
        option: str = "base_url",
    ) -> None:
        self.base_url = checked_address(base_url, key_env, option=option)
        self.option = option
        self.model = model
        self.key_env = key_env
        self.limits = limits
        self.extra = dict(extra)
        self._grammar_field = grammar_field
        http = openai.DefaultHttpxClient(
            follow_redirects=False, event_hooks={"response": [self._stop_at_refusal]}
        )
        self._client = openai.OpenAI(
            base_url=self.base_url, api_key="in-the-header", max_retries=0, http_client=http
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def key(self) -> str:
        """The key in the environment, "" if there is none; a malformed one is refused."""
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if not (key.isascii() and key.isprintable()):
            raise LlmError(
                f"the key in {self.key_env} holds characters that no key has; set it again"
            )
        return key

    def exchange(self, request: Request, *, n: int, seed: int, deadline: float) -> Reply:
        """Send one request and read its answer, up to the size limit and the deadline."""
        received = bytearray()
        left_s = max(deadline - time.monotonic(), 0.001)
        read_s = min(self.limits.read_timeout_s, left_s)
        connect_s = min(self.limits.connect_timeout_s, left_s)
        key = self.key()
        authorization = f"Bearer {key}" if key else openai.Omit()
        headers = {"Accept-Encoding": "identity", "Authorization": authorization}
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
                        reason = f"an answer above {self.limits.max_bytes} bytes"
                        return Reply("too_long", reason, bytes(received))
                    if time.monotonic() > deadline:
                        reason = "an answer still coming at the deadline"
                        return Reply("timeout", reason, bytes(received))
        except _EndpointRefused as refusal:
            return refusal.reply
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            return self._broken(error, bytes(received))
        reply = read_answer(bytes(received))
        choices = tuple((scrub(text, key), finish) for text, finish in reply.choices)
        return replace(reply, reason=self._one_line(reply.reason), choices=choices)

    def _fields(self, request: Request, n: int, seed: int) -> dict[str, Any]:
        """The fields of a request beside its model and messages."""
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
        body |= self.extra
        return {name: value for name, value in body.items() if value is not None}

    def _stop_at_refusal(self, response: httpx2.Response) -> None:
        """Raise on an error status after its first bytes; the client would read all of its page."""
        if response.is_success:
            return
        said = ""
        with suppress(httpx2.HTTPError):
            said = self._one_line(next(response.iter_raw(), b"").decode(errors="replace"))
        status = response.status_code
        if status >= 500 or status in _RETRIED_STATUS:
            wait_s = retry_after_s(response.headers.get("retry-after", ""))
            said += f" (asks to wait {wait_s:g} s)" if wait_s else ""
            outcome = "rate_limited" if status == 429 else "server_error"
            reason = f"HTTP {status} from {self.base_url}: {said}"
            raise _EndpointRefused(Reply(outcome, reason, b"", status, wait_s))
        target = self._one_line(response.headers.get("location", "nowhere"))
        raise _EndpointRefused(Reply("refused", self._advice(status, said, target), b"", status))

    def _advice(self, status: int, said: str, target: str) -> str:
        """Why a request was refused and what to do about it, in one line."""
        if status in (401, 403):
            what = f"wants a key and {self.key_env} is not set"
            if self.key():
                what = f"refused the key in {self.key_env}"
            return (
                f"{self.base_url} {what} (HTTP {status});"
                f" set {self.key_env} to a key that is valid there"
            )
        if status < 400:
            return (
                f"{self.base_url} redirects to {target} (HTTP {status});"
                f" give the address it leads to as {self.option}"
            )
        if status == 404:
            return (
                f"{self.base_url} has no model {self.model!r} or no such path (HTTP 404: {said});"
                f" {self.option} mostly ends in /v1, and {self.base_url}/models lists the models"
            )
        mend = "fix what it names, or drop it by extra"
        if self.option != "base_url":
            mend = f"fix what it names, or give another server by {self.option}"
        return f"{self.base_url} refused the request (HTTP {status}: {said}); {mend}"

    def _broken(self, error: Exception, received: bytes) -> Reply:
        """A connection that failed: before, at or after the first byte."""
        chain = list(_causes(error))
        if any(map(_is_unknown_host, chain)):
            host = urlsplit(self.base_url).hostname
            reason = f"the host {host!r} is not known; fix {self.option}, or connect to its network"
            return Reply("unknown_host", reason)
        words = self._one_line(f"{type(chain[-1]).__name__}: {chain[-1]}")
        if any(isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout)) for cause in chain):
            return Reply(
                "connect",
                f"nothing answers at {self.base_url} ({words});"
                f" start the server or fix {self.option}",
            )
        timed_out = any(isinstance(cause, httpx2.TimeoutException) for cause in chain)
        outcome = "timeout" if timed_out else "reset"
        return Reply(outcome, f"{words} after {len(received)} bytes", received)

    def _one_line(self, text: str) -> str:
        """A stranger's text as one short line, and never our key in it."""
        key = self.key()
        line = "".join(filter(str.isprintable, " ".join(text.split())))
        return scrub(line.replace(key, HIDDEN) if key else line)[:200]


def checked_address(base_url: str, key_env: str, *, option: str = "base_url") -> str:
    """The address without its last slash; one that holds a key or is no address is refused."""
    if fault := check_address(base_url):
        raise LlmError(f"{option} {fault}; put the key into the variable {key_env}")
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise LlmError(
            f"{option} {base_url!r} is not an address; give one such as http://localhost:8000/v1"
        )
    return base_url.rstrip("/")


def retry_after_s(text: str) -> float:
    """Seconds that a server asks to wait, from a number or a date; 0 if it says neither."""
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_unknown_host(cause: BaseException) -> bool:
    return isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN
