"""What a model or a validator has answered once is given again from the archive, the same to the last bit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import GRAMMAR, MESSAGES, build_model

from se_rl.llm.backends import Abilities, Designer, Proposal, Request
from se_rl.llm.catalog import abilities_of
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.generator import DesignGenerator
from se_rl.llm.ledger import Failure, Ledger, as_metered
from se_rl.llm.local import LocalDesigner
from se_rl.llm.recorded import RecordedDesigner, RecordedValidator
from se_rl.records.archive import Archive
from se_rl.records.blobs import FolderBlobs
from se_rl.records.entries import key_of, sha256

REQUEST = Request(MESSAGES, grammar=GRAMMAR, max_tokens=60, seed=5)


class Remote:
    """A model that answers with a number, costs money, fails for a while where told to, and cannot learn."""

    name = "remote"
    abilities = Abilities(metered=True)

    def __init__(self, *, failures: int = 0) -> None:
        self.ledger, self.failures = Ledger(), list[Failure]()
        self.calls, self._silent_calls = 0, failures

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.calls += 1
        silent = self.calls <= self._silent_calls
        used: dict[str, Any] = {
            "tokens_in": 10,
            "tokens_out": 0 if silent else 7 * n,
            "cost_usd": 0.5,
        }
        self.ledger.book(
            "hash", self.ledger.open("hash"), outcome="empty" if silent else "ok", **used
        )
        texts = [] if silent else [f"answer {self.calls}.{i}" for i in range(n)]
        return [
            Proposal(text, 10, output_tokens=7, model=self.name, request=request) for text in texts
        ]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive.open(tmp_path / "archive.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny")


def _never() -> Designer:
    raise AssertionError("the model was opened")


def _same(left: Proposal, right: Proposal) -> bool:
    """Equal in every field, and of the same type."""
    pairs = [(getattr(left, field.name), getattr(right, field.name)) for field in fields(Proposal)]
    return all(
        type(a) is type(b) and np.array_equal(a, b) if a is not None else b is None
        for a, b in pairs
    )


def test_a_local_model_is_asked_once_and_can_be_learnt_from_afterwards(
    archive: Archive, folder: Path
) -> None:
    model = LocalDesigner(folder, threads=1).new_adapter("dek")
    first = RecordedDesigner(lambda: model, archive)
    written = first.propose(REQUEST, 4)
    direct = model.propose(REQUEST, 4)
    assert all(
        _same(replace(a, seconds=0.0), replace(b, seconds=0.0))
        for a, b in zip(written, direct, strict=True)
    )

    again = RecordedDesigner(_never, archive, name=model.name, adapter=model.adapter)
    stored = again.propose(REQUEST, 4)
    assert all(_same(a, b) for a, b in zip(written, stored, strict=True))
    assert (
        stored[0].masks is not None
        and stored[0].masks.size
        and stored[0].masks.flags.writeable
        and stored[0].tokens
        and stored[0].drawn
    )
    assert np.array_equal(model.log_probs(stored), model.log_probs(written))
    assert model.update(stored, [1.0, -1.0, 0.5, -0.5])["drawn_tokens"] > 0

    call = archive.calls()[0]
    assert first.adapter == "dek@1" and (call.model, call.adapter, call.key) == (
        model.name,
        "dek@0",
        again.last_key,
    )
    assert call.tokens_in == stored[0].prompt_tokens and call.tokens_out == sum(
        p.output_tokens for p in stored
    )
    assert call.usd == 0.0 and archive.blob(sha256(GRAMMAR)) == GRAMMAR.encode()
    first.propose(REQUEST, 4)
    assert (
        len(archive.calls()) == 2 and first.last_key != again.last_key
    )  # the weights are others now


def test_a_call_is_known_by_all_that_its_answer_depends_on(archive: Archive) -> None:
    model = Remote()
    designer = RecordedDesigner(lambda: model, archive)
    others = {"prompt": "x", "grammar": None, "max_tokens": 61, "temperature": 0.5, "seed": 6}
    requests = [REQUEST, *(replace(REQUEST, **{name: value}) for name, value in others.items())]  # type: ignore[arg-type]
    for _ in range(2):
        for request in requests:
            designer.propose(request, 2)
    designer.propose(REQUEST, 3)
    for changed in ({"name": "other"}, {"name": "remote", "adapter": "dek@1"}):
        RecordedDesigner(lambda: model, archive, **changed).propose(REQUEST, 2)  # type: ignore[arg-type]
    assert model.calls == len(requests) + 3 == len({call.key for call in archive.calls()})
    grammar = sha256(GRAMMAR)
    designer.propose(REQUEST, 2)
    assert designer.last_key == key_of(
        "remote", "", [dict(m) for m in MESSAGES], grammar, 60, 1.0, 5, 2
    )
    assert designer.propose(REQUEST, 0) == []


def test_a_closed_model_is_not_opened_for_what_is_known(archive: Archive) -> None:
    for name, local in {"tiny": True, "qwen-coder": False, "http://host/v1#tiny": False}.items():
        told = abilities_of(name)
        closed = RecordedDesigner(_never, archive, name=name, abilities=told)
        assert isinstance(closed, Designer) and closed.name == name and closed.adapter is None
        assert closed.abilities == replace(told, learns=False)
        assert DesignGenerator(closed, validator=_Judge()).constrained == local


def test_a_wrapper_passes_on_what_its_model_can_do(archive: Archive, folder: Path) -> None:
    remote = RecordedDesigner(Remote, archive)  # a class is a function that opens one
    assert remote.name == "remote" and remote.abilities == Abilities(metered=True)
    assert remote.ledger.totals.attempts == 0 and remote.failures == []
    assert as_metered(remote) is remote
    local = RecordedDesigner(lambda: LocalDesigner(folder, threads=1), archive)
    assert local.abilities == Abilities(constrained=True, free_python=False)
    assert local.ledger.totals.attempts == 0 and local.failures == ()
    with pytest.raises(AttributeError):
        local.new_adapter  # type: ignore[attr-defined] # noqa: B018


def test_money_and_tokens_are_the_ledgers_and_silence_is_asked_again(archive: Archive) -> None:
    model = Remote(failures=2)
    designer = RecordedDesigner(lambda: model, archive)
    assert designer.propose(REQUEST, 2) == [] == designer.propose(REQUEST, 2)
    assert not archive.calls()
    answers = designer.propose(REQUEST, 2)
    assert [p.text for p in answers] == ["answer 3.0", "answer 3.1"] and designer.propose(
        REQUEST, 2
    ) == answers
    designer.propose(replace(REQUEST, seed=9), 1)
    booked = [
        (call.tokens_in, call.tokens_out, call.usd, call.proposals) for call in archive.calls()
    ]
    assert booked == [
        (30, 14, 1.5, 2),
        (10, 7, 0.5, 1),
    ]  # two silent attempts were paid for as well
    assert sum(call.usd for call in archive.calls()) == model.ledger.totals.cost_usd


def _file(archive: Archive, sha: str) -> Path:
    assert isinstance(archive.blobs, FolderBlobs)
    return archive.blobs.path(sha)


def test_a_damaged_reply_is_asked_for_again_once(archive: Archive) -> None:
    model = Remote()
    designer = RecordedDesigner(lambda: model, archive)
    first = designer.propose(REQUEST, 2)
    key, sha = designer.last_key, archive.calls()[0].reply
    _file(archive, sha).write_bytes(b"{}")
    second = designer.propose(REQUEST, 2)
    assert [p.text for p in (*first, *second)] == [
        "answer 1.0",
        "answer 1.1",
        "answer 2.0",
        "answer 2.1",
    ]
    assert designer.propose(REQUEST, 2) == second and model.calls == 2 and designer.last_key == key
    second_blob = archive.calls()[1].reply
    _file(archive, second_blob).unlink()
    assert designer.propose(REQUEST, 2)[0].text == "answer 3.0"


def test_an_answer_can_be_traced_to_its_call(archive: Archive) -> None:
    designer = RecordedDesigner(Remote, archive)
    first, key = designer.propose(REQUEST, 3), designer.last_key
    later = designer.propose(replace(REQUEST, seed=6), 2)
    assert [designer.call_of(p) for p in first] == [(key, 0), (key, 1), (key, 2)]
    assert designer.call_of(later[1]) == (designer.last_key, 1) != (key, 1)
    assert (
        designer.call_of(Proposal("by hand"))
        == ("", 0)
        == designer.call_of(replace(first[0], text="changed"))
    )


_NUMBERS = st.lists(st.integers(0, 200_000), max_size=5).map(tuple)
_MASKS = st.tuples(st.integers(0, 4), st.integers(1, 7), st.integers(0, 2**32)).map(
    lambda x: np.random.default_rng(x[2]).integers(0, 256, x[:2], np.uint8)
)
_PROPOSALS = st.builds(
    Proposal,
    text=st.text(st.characters()),  # half a surrogate pair, too
    prompt_tokens=st.integers(0, 10**6),
    tokens=st.none() | _NUMBERS,
    log_prob=st.none() | st.floats(allow_nan=False),
    masks=st.none() | _MASKS,
    finish=st.sampled_from(["stop", "length"]),
    model=st.text(),
    adapter=st.none() | st.text(),
    seconds=st.floats(0, 1e9),
    drawn=st.none() | _NUMBERS,
    output_tokens=st.integers(0, 10**6),
    request=st.just(REQUEST),
)


@settings(max_examples=10, deadline=None)
@given(st.lists(_PROPOSALS, min_size=1, max_size=3))
def test_any_answer_comes_back_as_it_was_and_its_bytes_are_the_same(
    proposals: list[Proposal],
) -> None:
    class Fixed(Remote):
        def propose(self, request: Request, n: int) -> list[Proposal]:
            return proposals

    replies = set()
    for _ in range(2):
        with (
            tempfile.TemporaryDirectory() as place,
            Archive.open(Path(place) / "a.sqlite") as archive,
        ):
            RecordedDesigner(Fixed, archive).propose(REQUEST, 3)
            stored = RecordedDesigner(_never, archive, name="remote").propose(REQUEST, 3)
            assert all(_same(a, b) for a, b in zip(proposals, stored, strict=True))
            replies.add(archive.calls()[0].reply)
    assert len(replies) == 1


class _Judge:
    """A validator that finds what it is told to find."""

    def __init__(self, *results: ValidationResult) -> None:
        self.results, self.seen = list(results), 0

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        self.seen += 1
        return self.results[self.seen - 1]


def test_a_module_is_judged_once_unless_there_was_no_room(archive: Archive) -> None:
    behaviour = np.random.default_rng(0).normal(size=16).astype(np.float32)
    good = ValidationResult(True, "passed", "", "ab" * 32, behaviour, ("slow",), "namespaces", 1.25)
    bad = ValidationResult(False, "static", "no def reward", seconds=0.5)
    homeless = ValidationResult(False, "sandbox", "no lock here")
    judge = _Judge(good, bad, homeless, good, bad)
    validator = RecordedValidator(judge, archive)
    for _ in range(2):
        found = validator.validate("source one", "reward")
        assert found.behaviour.dtype == np.float32 and np.array_equal(found.behaviour, behaviour)
        assert {**vars(found), "behaviour": None} == {**vars(good), "behaviour": None}
        assert validator.validate("source two").error_message == "no def reward"
        assert validator.validate("source two").behaviour.shape == (0,)
    assert judge.seen == 2
    assert (
        validator.validate("source three").stage == "sandbox"
        and validator.validate("source three").is_valid
    )
    assert validator.validate("source one", "network").stage == "static" and judge.seen == 5
