"""A designer behind an address: it brings proposals, survives every fault, books each attempt once, keeps its key."""

from __future__ import annotations

import logging
import pickle
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from faulty_server import TRANSIENT, FaultyServer, deaf_port, free_port, running

from se_rl.llm.backends import Designer, LlmError, Request, Unsupported
from se_rl.llm.chat_connection import retry_after_s
from se_rl.llm.endpoint import EndpointDesigner, EndpointLimits
from se_rl.llm.ledger import Entry, Ledger, read_answer, tokens_used

KEY = "sk-a-secret-that-nobody-may-see"
QUICK = EndpointLimits(
    tries=3,
    backoff_s=0.001,
    connect_timeout_s=0.3,
    read_timeout_s=0.5,
    deadline_s=20.0,
    max_bytes=100_000,
)
OUTCOMES = {
    "good": "ok",
    "rate_limit": "rate_limited",
    "error_500": "server_error",
    "error_502": "server_error",
    "error_503": "server_error",
    "silent": "timeout",
    "stalled": "timeout",
    "reset": "reset",
    "garbage": "unparseable",
    "half_json": "unparseable",
    "huge": "too_long",
    "no_choices": "schema",
    "null_content": "empty",
}


@pytest.fixture(autouse=True)
def no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with running(FaultyServer()) as started:
        yield started


@pytest.fixture
def designer(server: FaultyServer) -> Iterator[EndpointDesigner]:
    with closing(EndpointDesigner(server.url, "m", limits=QUICK)) as made:
        yield made


def outcomes(designer: EndpointDesigner) -> list[str]:
    return [entry.outcome for entry in designer.ledger.entries]


def assert_books_agree(designer: EndpointDesigner, server: FaultyServer) -> None:
    """Attempts, reported tokens and answers without a report: the client's books and the server's."""
    reported = [entry for entry in designer.ledger.entries if not entry.estimated]
    assert designer.ledger.totals.attempts == server.books.requests.total()
    assert sum(entry.tokens_in for entry in reported) == server.books.tokens_in
    assert sum(entry.tokens_out for entry in reported) == server.books.tokens_out
    assert designer.ledger.totals.estimated == server.books.unreported


def test_thousand_calls_over_twelve_faults(server: FaultyServer) -> None:
    """Call i meets fault i mod 12 for 0, 1, 2 or 3 attempts of 3; the two slow faults now and then for 1.

    Good answers have seconds to come: a busy machine is no fault of the server's.
    """

    def fails(i: int) -> int:
        return int(i // 12 % 8 == 0) if TRANSIENT[i % 12] in ("silent", "stalled") else i // 12 % 4

    patient = replace(QUICK, connect_timeout_s=5.0, read_timeout_s=5.0, deadline_s=60.0)
    designer = EndpointDesigner(server.url, "m", limits=patient)
    calls = [f"{TRANSIENT[i % 12]} {fails(i)} #{i}" for i in range(1000)]
    start = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        brought = list(pool.map(lambda prompt: designer.propose(Request(prompt), 1), calls))
    wall_s = time.monotonic() - start
    designer.close()

    lost = [prompt for prompt, proposals in zip(calls, brought, strict=True) if not proposals]
    assert lost == [prompt for i, prompt in enumerate(calls) if fails(i) == 3]
    assert len(designer.failures) == len(lost)
    assert all(
        failure.attempts == 3 and failure.missing == 1 and failure.reason
        for failure in designer.failures
    )
    assert server.books.requests.total() == sum(min(fails(i) + 1, 3) for i in range(1000))
    assert set(server.books.requests) == {*TRANSIENT, "good"}
    expected: Counter[str] = Counter()
    for mode, count in server.books.requests.items():
        expected[OUTCOMES[mode]] += count
    assert Counter(outcomes(designer)) == expected
    assert_books_agree(designer, server)
    booked = [(entry.request_hash, entry.attempt) for entry in designer.ledger.entries]
    assert len(set(booked)) == len(booked)
    totals = designer.ledger.totals
    print(
        f"\n1000 calls, 12 faults: {totals.attempts} attempts, server counted {server.books.requests.total()};"
        f" reported tokens {server.books.tokens_in} in, {server.books.tokens_out} out on both sides;"
        f" {totals.estimated} answers without a report; {len(lost)} calls failed for good; 0 exceptions; {wall_s:.1f} s"
    )


@pytest.mark.parametrize(
    "mode", [*TRANSIENT, "blank", "odd_types", "half_a_letter", "deep", "no_body"]
)
def test_a_fault_that_stays_is_a_failure_with_its_reason(
    mode: str, server: FaultyServer, designer: EndpointDesigner
) -> None:
    assert designer.propose(Request(f"{mode} 99"), 4) == []
    (failure,) = designer.failures
    assert (failure.attempts, failure.missing) == (3, 4)
    assert outcomes(designer) == [failure.outcome] * 3
    assert failure.reason and "\n" not in failure.reason
    assert_books_agree(designer, server)


def test_unparseable_answers_are_paid_for_once(server: FaultyServer) -> None:
    with closing(
        EndpointDesigner(
            server.url, "m", limits=QUICK, usd_per_million_in=2e6, usd_per_million_out=3e6
        )
    ) as designer:
        (proposal,) = designer.propose(Request("half_json 1"), 1)
    broken, whole = designer.ledger.entries
    assert (broken.outcome, whole.outcome) == ("unparseable", "ok")
    assert (broken.tokens_in, broken.estimated) == (len("half_json 1"), False)
    assert (whole.tokens_in, whole.tokens_out) == (proposal.prompt_tokens, proposal.output_tokens)
    assert whole.cost_usd == pytest.approx(2 * whole.tokens_in + 3 * whole.tokens_out)
    assert designer.ledger.totals.cost_usd == pytest.approx(broken.cost_usd + whole.cost_usd)


def test_reading_stops_at_the_cap_and_at_the_deadline(server: FaultyServer) -> None:
    limits = EndpointLimits(tries=3, backoff_s=0.001, read_timeout_s=0.5, deadline_s=0.5)
    with closing(EndpointDesigner(server.url, "m", limits=limits)) as designer:
        assert designer.propose(Request("dripping 9", max_tokens=7), 1) == []
    assert outcomes(designer) == ["timeout"]
    (entry,) = designer.ledger.entries
    assert entry.estimated and 0 < entry.tokens_out <= 7
    with closing(EndpointDesigner(server.url, "m", limits=QUICK)) as designer:
        designer.propose(Request("huge 9", max_tokens=7), 1)
    assert (
        designer.failures[0].outcome == "too_long"
        and str(QUICK.max_bytes) in designer.failures[0].reason
    )
    assert all(entry.tokens_out == 7 for entry in designer.ledger.entries)


def test_a_wait_beyond_the_deadline_is_not_begun(designer: EndpointDesigner) -> None:
    start = time.monotonic()
    assert designer.propose(Request("rate_limit_for_an_hour 9"), 1) == []
    assert time.monotonic() - start < QUICK.deadline_s
    assert outcomes(designer) == ["rate_limited"] and "3600 s" in designer.failures[0].reason


def test_retry_after_is_a_number_or_a_date() -> None:
    assert retry_after_s("1.5") == 1.5
    assert 50 < retry_after_s(formatdate(time.time() + 60, usegmt=True)) <= 60
    for nonsense in ("", "-3", "nan", "soon", formatdate(0, usegmt=True)):
        assert retry_after_s(nonsense) == 0.0


@pytest.mark.parametrize(
    "mode, mend",
    [
        ("unauthorised", "set OPENAI_API_KEY"),
        ("not_found", "ends in /v1"),
        ("redirect", "as base_url"),
        ("bad_request", "context too long"),
    ],
)
def test_a_wrong_set_up_raises_at_first_and_is_data_later(
    mode: str, mend: str, server: FaultyServer, designer: EndpointDesigner
) -> None:
    with pytest.raises(LlmError, match=mend) as caught:
        designer.propose(Request(f"{mode} 99"), 1)
    assert "\n" not in str(caught.value) and outcomes(designer) == ["refused"]
    assert len(designer.propose(Request("good 0"), 1)) == 1
    assert designer.propose(Request(f"{mode} 99 later"), 1) == []
    assert designer.failures[0].outcome == "refused" and mend in designer.failures[0].reason
    assert outcomes(designer) == ["refused", "ok", "refused"]
    assert_books_agree(designer, server)


def test_nobody_at_the_address() -> None:
    with deaf_port() as deaf:
        for url in (deaf, free_port()):
            with closing(EndpointDesigner(url, "m", limits=QUICK)) as designer:
                with pytest.raises(LlmError, match="start the server or fix base_url"):
                    designer.propose(Request("good 0"), 2)
                assert outcomes(designer) == ["connect"] * 3
                assert designer.ledger.totals.tokens_in == 0


@pytest.mark.parametrize(
    "number, seen", [(socket.EAI_NONAME, ["unknown_host"]), (socket.EAI_AGAIN, ["connect"] * 3)]
)
def test_an_unknown_host(number: int, seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*_: Any, **__: Any) -> None:
        raise socket.gaierror(number, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with closing(EndpointDesigner("http://model.invalid/v1", "m", limits=QUICK)) as designer:
        with pytest.raises(LlmError, match=r"model\.invalid.*fix base_url"):
            designer.propose(Request("good 0"), 1)
        assert outcomes(designer) == seen


@pytest.mark.parametrize("key", [KEY, None])
def test_the_key_reaches_the_server_and_nothing_else(
    key: str | None,
    server: FaultyServer,
    designer: EndpointDesigner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(LlmError) as caught:
        designer.propose(Request("unauthorised 99"), 1)
    proposals = designer.propose(Request("good 0"), 1)
    for mode in ("unauthorised", "echo_400", "echo_200"):  # they repeat the key in what they say
        designer.propose(Request(f"{mode} 99 again"), 1)
    assert ["you sent" in failure.reason for failure in designer.failures] == [False, True, True]
    assert set(server.books.keys) == {f"Bearer {key}" if key else None}
    assert ("refused the key" if key else "is not set") in str(caught.value)
    stored = [
        repr(vars(designer)),
        repr(vars(designer._connection)),
        repr(vars(designer._connection._client)),
        repr(designer),
        repr(designer.failures),
    ]
    shown = [
        str(caught.value),
        repr(proposals),
        repr(designer.ledger.export()),
        caplog.text,
        *stored,
    ]
    assert caplog.text and not any(KEY in text for text in shown)
    assert (
        caught.value.__cause__ is None and caught.value.__context__ is None
    )  # no traceback leads to the headers
    assert KEY.encode() not in pickle.dumps((designer.failures, designer.ledger.entries))


def test_a_key_that_cannot_be_sent_is_refused_unshown(
    server: FaultyServer, designer: EndpointDesigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in (f"{KEY}\nmore", f"{KEY}é"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(LlmError, match="OPENAI_API_KEY") as caught:
            designer.propose(Request("good 0"), 1)
        assert KEY not in str(caught.value)
    assert not server.books.requests and not designer.ledger.entries


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http://host:99999/v1",
        f"https://me:{KEY}@host/v1",
        f"ftp://{KEY}@host",
        f"https://host/v1?key={KEY}",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(LlmError, match="base_url") as caught:
        EndpointDesigner(url, "m")
    assert KEY not in str(caught.value)


def test_several_proposals_in_one_request_where_the_server_takes_n(
    server: FaultyServer, designer: EndpointDesigner
) -> None:
    proposals = designer.propose(Request("good 0"), 6)
    assert len(proposals) == 6 and server.books.requests == {"good": 1}
    assert sum(proposal.output_tokens for proposal in proposals) == server.books.tokens_out
    assert designer.propose(Request("good 0"), 0) == []


@pytest.mark.parametrize("mode, requests, later", [("good", 5, 10), ("no_n", 6, 11)])
def test_several_proposals_one_by_one_elsewhere(
    mode: str, requests: int, later: int, server: FaultyServer, designer: EndpointDesigner
) -> None:
    server.gives_n = False
    proposals = designer.propose(Request(f"{mode} 99"), 5)
    assert len({proposal.text for proposal in proposals}) == 5  # each asked with a seed of its own
    assert server.books.requests.total() == requests
    again = designer.propose(Request(f"{mode} 99"), 5)
    assert [proposal.text for proposal in again] == [proposal.text for proposal in proposals]
    assert server.books.requests.total() == later  # it has learnt not to send n
    assert_books_agree(designer, server)  # the same request again is a new attempt, booked as one


def test_a_retry_sends_the_same_seed_unless_the_answer_was_empty(
    server: FaultyServer, designer: EndpointDesigner
) -> None:
    designer.propose(Request("error_500 2"), 1)
    assert len(set(server.books.seeds)) == 1
    designer.propose(Request("null_content 2"), 1)
    assert len(set(server.books.seeds)) == 3


def test_what_is_sent(server: FaultyServer) -> None:
    extra = {"max_tokens": None, "max_completion_tokens": 9}
    with closing(
        EndpointDesigner(
            server.url, "m", limits=QUICK, grammar_field="structured_outputs.grammar", extra=extra
        )
    ) as designer:
        chat = ({"role": "system", "content": "s"}, {"role": "user", "content": "no_usage 1"})
        (proposal,) = designer.propose(Request(chat, grammar="start: /a/", temperature=0.5), 1)
        assert isinstance(designer, Designer)
        with pytest.raises(Unsupported, match="local model"):
            designer.update([proposal], [1.0])
    (body,) = server.books.bodies
    assert body["messages"] == list(chat) and body["model"] == "m" and body["temperature"] == 0.5
    assert body["structured_outputs"] == {"grammar": "start: /a/"}
    assert "max_tokens" not in body and "n" not in body and body["max_completion_tokens"] == 9
    assert (proposal.text, proposal.finish, proposal.model) == ("abcd", "length", "m")
    assert designer.ledger.entries[0].estimated and proposal.prompt_tokens > 0


def test_the_ledger_books_once_and_goes_on_from_its_export() -> None:
    ledger = Ledger()
    assert [ledger.open("a"), ledger.open("a"), ledger.open("b")] == [0, 1, 0]
    assert ledger.book("a", 0, outcome="ok", tokens_in=5, tokens_out=7, cost_usd=0.5, seconds=1.0)
    assert not ledger.book("a", 0, outcome="ok", tokens_in=50)
    assert ledger.book("a", 4, outcome="timeout")
    assert (ledger.totals.attempts, ledger.totals.tokens_in, ledger.totals.cost_usd) == (2, 5, 0.5)
    later = Ledger(Entry(**row) for row in ledger.export())
    assert later.entries == ledger.entries
    assert later.open("a") == ledger.open("a") == 5


def test_a_text_that_speaks_of_usage_does_not_change_the_bill() -> None:
    body = rb'{"choices": [{"message": {"content": "\"prompt_tokens\": 9, \"completion_tokens\": 9}"}}], "usage": '
    assert tokens_used(body, Request("p"), n=1).estimated
    told = tokens_used(body + b'{"prompt_tokens": 3, "completion_tokens": 4}}', Request("p"), n=1)
    assert (told.tokens_in, told.tokens_out, told.estimated) == (3, 4, False)
    cut = body + b'{"prompt_tokens": 3, "completion_tokens": 4'  # of 45, perhaps
    assert tokens_used(cut, Request("p"), n=1).estimated
    assert read_answer(cut).outcome == "unparseable"


def test_limits_are_checked() -> None:
    with pytest.raises(LlmError, match="tries is 0"):
        EndpointLimits(tries=0)
    with pytest.raises(LlmError, match="deadline_s is nan"):
        EndpointLimits(deadline_s=float("nan"))
