"""A designer behind any OpenAI-compatible address (vLLM, Ollama, hosted).

This is the one layer that retries. A call that fails for good is data (`failures`), and the search
goes on; only an endpoint that has never answered, and never will as it is set up, raises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, NoReturn

from se_rl.llm.backends import Abilities, LlmError, Proposal, Request, Unsupported
from se_rl.llm.chat_connection import ChatConnection, EndpointLimits
from se_rl.llm.ledger import Failure, Ledger, Reply, Tokens, tokens_used

__all__ = ["EndpointDesigner", "EndpointLimits"]

PARALLEL = 4
"""Requests in flight at once for one call, if the server writes one answer a request."""
GREETING = "Answer with the word ready."
GREETING_SECONDS = 240.0
"""A server may load its model at the first request."""
GREETING_TRIES = 3
_FATAL = ("refused", "unknown_host")  # trying again changes nothing
_OUT_OF_REACH = (*_FATAL, "connect")


class EndpointDesigner:
    """A model behind an OpenAI-compatible `base_url`, such as http://localhost:8000/v1.

    The key is read from the environment variable `key_env` at each request and kept nowhere;
    without one none is sent. `grammar_field` names where the server takes a grammar
    ("structured_outputs.grammar"); `extra` adds request fields, or drops ours by None. Prices are
    for the ledger. Messages call the address `option`: what the user has to mend.
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
        option: str = "base_url",
    ) -> None:
        self.limits = limits or EndpointLimits()
        self.ledger = Ledger() if ledger is None else ledger
        self.failures: list[Failure] = []
        self._connection = ChatConnection(
            base_url,
            model,
            key_env=key_env,
            limits=self.limits,
            grammar_field=grammar_field,
            extra=extra or {},
            option=option,
        )
        self._usd_per_million = usd_per_million_in, usd_per_million_out
        self._answered = False  # it gave a usable answer once: what fails later is data
        self._gives_n = True  # until it is seen to write fewer answers than `n`

    def __repr__(self) -> str:
        where = self._connection
        return f"EndpointDesigner({where.base_url!r}, {where.model!r}, key_env={where.key_env!r})"

    @property
    def base_url(self) -> str:
        """The address of the server."""
        return self._connection.base_url

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._connection.model

    @property
    def abilities(self) -> Abilities:
        """It writes Python, keeps count of what that costs, and does not learn."""
        return Abilities(metered=True)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def greet(self) -> None:
        """One small request, to find out whether the model answers; LlmError where it does not.

        A text without a letter is an answer too: some models think longer than it may be.
        """
        request = Request(GREETING, max_tokens=16, temperature=0.0, seed=0)
        request_hash = self._hash(request, 0)
        deadline = time.monotonic() + GREETING_SECONDS
        for attempt in range(1, GREETING_TRIES + 1):
            reply, _ = self._attempt(request, request_hash, n=1, seed=0, deadline=deadline)
            if reply.outcome in ("ok", "empty"):
                self._answered = True
                return
            if reply.outcome in _OUT_OF_REACH:
                raise LlmError(reply.reason)
            wait_s = self._wait_s(request_hash, attempt, reply)
            if attempt == GREETING_TRIES or time.monotonic() + wait_s > deadline:
                break
            time.sleep(wait_s)
        where = self._connection
        raise LlmError(
            f"{where.base_url} gave no answer to a first small request ({reply.reason});"
            f" check the server, or {where.option}"
        )

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> NoReturn:
        """Remote weights cannot learn here."""
        raise Unsupported(
            f"{self.name} is remote and cannot be trained;"
            " use a local model or search without training"
        )

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Up to n proposals; `failures` say why any are missing.

        The first request goes alone: it finds out whether the server takes `n`, warms its prompt
        cache, and a server that is down is not asked n times.
        """
        self._connection.key()  # a malformed key raises here, before anything is sent
        if n < 1:
            return []
        deadline = time.monotonic() + self.limits.deadline_s
        want = n if self._gives_n else 1
        proposals = self._ask(request, 0, want=want, lost=n, deadline=deadline)
        if not proposals:
            return []

        def ask_one(index: int) -> list[Proposal]:
            return self._ask(request, index, want=1, lost=1, deadline=deadline)

        rest = range(len(proposals), n)
        with ThreadPoolExecutor(PARALLEL) as pool:
            for part in pool.map(ask_one, rest):
                proposals += part
        return proposals

    def _ask(
        self, request: Request, index: int, *, want: int, lost: int, deadline: float
    ) -> list[Proposal]:
        """Proposals `index` to `index + want - 1`, or as many as come.

        After the last try there are none, and a failure is booked.
        """
        request_hash = self._hash(request, index)
        reply = Reply("deadline", f"no time left: a call may take {self.limits.deadline_s:g} s")
        n = want
        attempts = 0
        useless = 0  # answers without a text
        while attempts < self.limits.tries and time.monotonic() < deadline:
            # a transport fault leaves the seed alone: same request, same answer
            seed = _bits(request.seed, index, useless)
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
            wait_s = self._wait_s(request_hash, attempts, reply)
            is_last = attempts == self.limits.tries or time.monotonic() + wait_s > deadline
            if reply.outcome in _FATAL or is_last:
                break
            time.sleep(wait_s)
        if reply.outcome in _OUT_OF_REACH and not self._answered:
            raise LlmError(reply.reason)
        self.failures.append(
            Failure(request_hash, reply.outcome, reply.reason, attempts=attempts, missing=lost)
        )
        return []

    def _wait_s(self, request_hash: str, attempts: int, reply: Reply) -> float:
        """How long to wait after so many attempts: exponentially longer with jitter, or as told."""
        jitter = _bits(request_hash, attempts) / 2**31
        # wait = backoff * 2^(attempts - 1) * (0.5 to 1.5)
        backoff_s = self.limits.backoff_s * 2 ** (attempts - 1) * (0.5 + jitter)
        return max(backoff_s, reply.retry_after_s)

    def _attempt(
        self, request: Request, request_hash: str, *, n: int, seed: int, deadline: float
    ) -> tuple[Reply, list[Proposal]]:
        """One HTTP request, booked whatever comes of it, an interrupt included."""
        attempt, start = self.ledger.open(request_hash), time.monotonic()
        reply, used = Reply("interrupted"), Tokens()
        seconds = 0.0
        try:
            reply = self._connection.exchange(request, n=n, seed=seed, deadline=deadline)
        finally:
            seconds = time.monotonic() - start
            used = tokens_used(reply.body, request, n=n)
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
        proposals: list[Proposal] = []
        for place, (text, finish) in enumerate(reply.choices):
            share = (used.tokens_out + place) // len(reply.choices)  # shares add up to the whole
            proposals.append(
                Proposal(
                    text,
                    used.tokens_in,
                    finish=finish,
                    model=self.name,
                    seconds=seconds,
                    request=request,
                    output_tokens=share,
                )
            )
        return reply, proposals

    def _hash(self, request: Request, index: int) -> str:
        where = self._connection
        how = request.grammar, request.max_tokens, request.temperature, request.seed
        what = [where.base_url, where.model, request.messages, how, index, where.extra]
        return sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def named_endpoint(name: str, prices: tuple[float, float] = (0.0, 0.0)) -> EndpointDesigner:
    """The model that `--llm URL#MODEL` names, at these prices (USD per million tokens)."""
    address, _, model = name.partition("#")
    if not model:
        raise LlmError(
            f"--llm {name} names no model;"
            " write it behind a #, as in http://localhost:8000/v1#my-model"
        )
    return EndpointDesigner(
        address,
        model,
        usd_per_million_in=prices[0],
        usd_per_million_out=prices[1],
        option="--llm",
    )


def _bits(*what: object) -> int:
    """31 bits that depend on what they are for and on nothing else."""
    return int.from_bytes(sha256(repr(what).encode()).digest()[:4], "big") >> 1
