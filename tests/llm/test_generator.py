"""The generator with a designer that follows a script, and with the real one where it is here; commands and benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from se_rl.data.cache import cache_folder
from se_rl.llm.backends import (
    Abilities,
    Designer,
    LlmError,
    Proposal,
    Request,
    Unsupported,
    as_trainable,
)
from se_rl.llm.catalog import KNOWN, abilities_of
from se_rl.llm.code_validator import CodeValidator, ValidationResult
from se_rl.llm.commands import model_rows, pull_model
from se_rl.llm.editing import EditTask, write_edits
from se_rl.llm.endpoint import EndpointDesigner
from se_rl.llm.generator import (
    DesignGenerator,
    GenerationError,
    LLMComponentGenerator,
    open_designer,
)
from se_rl.llm.ledger import Failure, Ledger
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check import check_source
from se_rl_benchmarks.bench_llm import bench_llm

REAL_CACHE = cache_folder()  # the user's own, asked for before tests get a private cache
GOOD = KINDS["reward"].contract.examples[0]
BAD = GOOD.replace("step.news", "step.nwes")


class Scripted:
    """A designer whose answers a function chooses; remembers what it was asked."""

    name = "scripted"
    abilities = Abilities(metered=True)
    ledger = Ledger()

    def __init__(self, answer: Callable[[Request, int], str | None]) -> None:
        self._answer = answer
        self.asked: list[Request] = []
        self.failures: list[Failure] = []

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.asked.append(request)
        texts = [self._answer(request, i) for i in range(n)]
        return [
            Proposal(text, output_tokens=9, model=self.name, request=request)
            for text in texts
            if text is not None
        ]

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        raise Unsupported("a script does not learn")


class Local(Scripted):
    """The same, held to a grammar as a small local model is."""

    abilities = Abilities(constrained=True, free_python=False)


class StaticStage:
    """The first stage alone: what it lets through counts as valid."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        self.seen.append(code)
        problem = check_source(code, code_type)
        return ValidationResult(
            problem is None, "static" if problem else "passed", problem.message if problem else ""
        )


def _fenced(source: str) -> str:
    return f"Here it is.\n```python\n{source}```\n"


def test_good_answers_become_valid_attempts() -> None:
    designer = Scripted(lambda request, i: _fenced(GOOD))
    (first, second) = DesignGenerator(designer, StaticStage()).generate(
        "reward", 2, seed=7, micro="Punish risk."
    )
    assert first.is_valid and first.source == GOOD and first.repairs == 0 and first.faults == ()
    assert second.proposal is not None and second.proposal.text == _fenced(GOOD)
    (asked,) = designer.asked
    assert (
        asked.grammar is None and asked.seed == 7 and "Punish risk." in asked.messages[1]["content"]
    )


def test_a_module_is_mended_with_the_validators_words() -> None:
    replies = iter([_fenced(BAD), "I am sorry.", _fenced(GOOD)])
    designer = Scripted(lambda request, i: next(replies))
    (attempt,) = DesignGenerator(designer, StaticStage()).generate("reward")
    assert attempt.is_valid and attempt.repairs == 2 and attempt.source == GOOD
    assert "nwes" in attempt.faults[0] and "no `reward`" in attempt.faults[1]
    first, second, third = (request.messages for request in designer.asked)
    assert (
        second[:2] == first
        and second[2]["content"] == _fenced(BAD)
        and attempt.faults[0] in second[3]["content"]
    )
    assert (
        third[2]["content"] == "I am sorry."
        and len({request.seed for request in designer.asked}) == 3
    )


def test_failures_are_data_after_the_last_try() -> None:
    designer = Scripted(lambda request, i: _fenced(BAD))
    attempts = DesignGenerator(designer, StaticStage(), tries=2).generate("reward", 3)
    assert [attempt.is_valid for attempt in attempts] == [False] * 3
    assert all(len(a.faults) == 3 and a.repairs == 2 and a.source == BAD for a in attempts)
    assert len(designer.asked) == 1 + 3 * 2


def test_what_never_came_is_an_attempt_too() -> None:
    designer = Scripted(lambda request, i: _fenced(GOOD) if i == 0 else None)
    designer.failures.append(Failure("hash", "timeout", "silence for 180 s", attempts=5, missing=2))
    attempts = DesignGenerator(designer, StaticStage()).generate("reward", 3)
    assert [a.is_valid for a in attempts] == [True, False, False]
    assert attempts[2].source is None and attempts[2].faults == (
        "no answer from scripted: silence for 180 s",
    )


def test_a_cut_answer_says_so() -> None:
    designer = Scripted(lambda request, i: None)
    designer.propose = lambda request, n: [
        Proposal("```python\ndef rew", output_tokens=900, finish="length")
    ]  # type: ignore[method-assign]
    (attempt,) = DesignGenerator(designer, StaticStage(), tries=0).generate("reward")
    assert (
        attempt.faults == ("the answer was cut at 900 tokens; write a shorter module",)
        and attempt.repairs == 0
    )


def test_a_missing_lock_is_not_held_against_the_model() -> None:
    class NoRoom(StaticStage):
        def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
            return ValidationResult(False, "sandbox", "no isolation here")

    designer = Scripted(lambda request, i: _fenced(GOOD))
    (attempt,) = DesignGenerator(designer, NoRoom()).generate("reward")
    assert (
        not attempt.is_valid
        and attempt.faults == ("sandbox: no isolation here",)
        and len(designer.asked) == 1
    )


def test_local_models_write_under_the_grammar_and_repeats_are_drawn_again() -> None:
    def answer(request: Request, i: int) -> str:
        heat = request.temperature
        return KINDS["network"].random_source(
            np.random.default_rng([request.seed, i if heat > 1.0 else i // 4])
        )

    designer, validator = Local(answer), StaticStage()
    attempts = DesignGenerator(designer, validator).generate("network", 8)
    assert len({a.source for a in attempts}) == 8 and all(a.is_valid for a in attempts)
    assert (
        designer.asked[0].grammar == KINDS["network"].lark_grammar
        and designer.asked[0].max_tokens == KINDS["network"].most_bytes
    )
    assert [request.temperature for request in designer.asked] == [1.0, 1.5]
    assert len(validator.seen) == 8


def test_a_model_that_only_repeats_still_brings_n_attempts_and_is_validated_once() -> None:
    designer, validator = Local(lambda request, i: GOOD), StaticStage()
    attempts = DesignGenerator(designer, validator).generate("reward", 5)
    assert len(attempts) == 5 and len(designer.asked) == 4 and validator.seen == [GOOD]
    again = DesignGenerator(designer, validator).generate("reward", 1, avoid=[GOOD])
    assert len(again) == 1 and len(designer.asked) == 8


def test_the_mode_can_be_chosen() -> None:
    local, remote = Local(lambda request, i: GOOD), Scripted(lambda request, i: GOOD)
    assert isinstance(remote, Designer)
    assert DesignGenerator(local).constrained and not DesignGenerator(remote).constrained
    assert (
        not DesignGenerator(local, mode="free").constrained
        and DesignGenerator(remote, mode="grammar").constrained
    )
    coder = Local(lambda request, i: GOOD)
    coder.abilities = abilities_of("qwen-coder")
    assert not DesignGenerator(coder).constrained
    with pytest.raises(ValueError, match="mode is 'json'"):
        DesignGenerator(local, mode="json")  # type: ignore[arg-type]


def test_reasons_are_asked_for_in_drafts_and_edits_and_do_not_hide_the_code() -> None:
    def answer(request: Request, i: int) -> str:
        if "SEARCH" not in request.messages[-1]["content"]:
            return f"The agent is unsure of the news.\n{_fenced(GOOD)}"
        line = GOOD.splitlines()[-1]
        return (
            "Losses hurt more.\n<<<<<<< SEARCH\n"
            f"{line}\n=======\n{line} * 2.0\n>>>>>>> REPLACE\nThat is all."
        )

    task = EditTask("reward", GOOD)
    for reasons in (True, False):
        scripted = Scripted(answer)
        generator = DesignGenerator(scripted, StaticStage(), chain_of_thought=reasons)
        [draft] = generator.generate("reward")
        [edit] = write_edits(generator, task, 1)
        assert draft.is_valid and edit.is_valid
        assert edit.source == GOOD.rstrip("\n") + " * 2.0\n"
        for attempt in (draft, edit):
            assert attempt.proposal is not None and attempt.proposal.request is not None
            text = str(attempt.proposal.request.messages)
            assert ("step by step" in text) == reasons
    usual = EditTask("reward", KINDS["reward"].default_source)
    with pytest.raises(ValueError, match="a grammar leaves no room"):
        DesignGenerator(Local(answer), chain_of_thought=True)
    with pytest.raises(ValueError, match="a grammar leaves no room"):
        usual.request(constrained=True, seed=0, chain_of_thought=True)


def test_what_a_model_can_do_is_known_by_its_name() -> None:
    small, coder = abilities_of("smollm2"), abilities_of("qwen-coder")
    assert small.needs_grammar and small.learns and not small.metered
    assert coder.constrained and not coder.needs_grammar and coder.learns
    assert abilities_of("owner/model") == abilities_of("a/folder") == small
    assert abilities_of("http://localhost:1/v1#m") == Abilities(metered=True)


def test_a_writer_without_abilities_is_taken_for_one_that_writes_python() -> None:
    class Writer:
        name = "plain"

        def propose(self, request: Request, n: int) -> list[Proposal]:
            return [Proposal(GOOD, request=request)] * (n - 1)

    generator = DesignGenerator(Writer(), StaticStage())  # type: ignore[arg-type]
    assert generator.designer.abilities == Abilities() and not generator.constrained
    first, second = generator.generate("reward", 2)
    assert first.is_valid and second.faults == ("no answer from plain",)
    assert as_trainable(generator.designer) is None
    with pytest.raises(LlmError, match="int is not a designer; give an object with generate"):
        open_designer(3)  # type: ignore[arg-type]


def test_any_object_with_generate_designs() -> None:
    class Client:
        def __init__(self, answer: object) -> None:
            self.answer = answer
            self.prompts: list[str] = []

        def generate(self, prompt: str) -> object:
            self.prompts.append(prompt)
            return self.answer

    client = Client(_fenced(KINDS["reward"].contract.examples[1]))
    make = LLMComponentGenerator(client, StaticStage(), candidates=2)  # type: ignore[arg-type]
    assert make.generate_reward_function("Be bold.") == KINDS["reward"].contract.examples[1]
    assert make.generator.designer.name == "Client" and len(client.prompts) == 2
    assert all("Be bold." in p and KINDS["reward"].contract.task in p for p in client.prompts)
    with pytest.raises(LlmError, match=r"generate\(prompt\) of Client answered NoneType; let it"):
        open_designer(Client(None)).propose(Request("x"), 1)  # type: ignore[arg-type]


def test_component_calls_return_source() -> None:
    def answer(request: Request, i: int) -> str:
        asked = request.messages[1]["content"]
        (code_type,) = [name for name in KINDS if KINDS[name].contract.task in asked]
        return _fenced("def nothing(): ...\n" if i == 0 else KINDS[code_type].contract.examples[1])

    make = LLMComponentGenerator(Scripted(answer), StaticStage(), tries=0, candidates=2)
    calls = {
        "reward": make.generate_reward_function,
        "network": make.generate_network_architecture,
        "communication": make.generate_communication_protocol,
        "profiling": make.generate_agent_profile,
        "imagination": make.generate_imagination_module,
    }
    assert set(calls) == set(KINDS)
    for code_type, call in calls.items():
        assert call("Be bold.", seed=3) == KINDS[code_type].contract.examples[1]


def test_a_component_that_never_comes_raises_with_the_reasons() -> None:
    make = LLMComponentGenerator(
        Scripted(lambda request, i: _fenced(BAD)), StaticStage(), tries=1, candidates=2
    )
    with pytest.raises(
        GenerationError, match=r"scripted wrote no valid reward in 2 attempts: static: line .*nwes"
    ):
        make.generate_reward_function()


def test_models_are_opened_by_name() -> None:
    designer = Scripted(lambda request, i: GOOD)
    assert open_designer(designer) is designer
    with pytest.raises(LlmError, match="se-rl llm pull smollm2"):
        open_designer("smollm2")


def test_a_design_passes_the_real_validator() -> None:
    sources = {c: KINDS[c].random_source(np.random.default_rng(1)) for c in ("reward", "profiling")}
    for code_type, source in sources.items():
        designer = Local(lambda request, i, source=source: source)
        (attempt,) = DesignGenerator(designer, CodeValidator()).generate(code_type)
        assert attempt.is_valid and attempt.source == source and attempt.validation is not None
        assert attempt.validation.isolation in ("strong", "standard")


def test_the_benchmark_counts_what_was_written() -> None:
    def answer(request: Request, i: int) -> str:
        return (
            GOOD
            if i % 2
            else f"def reward(step):\n    return {request.seed % 97 + i}.0 * step.news\n"
        )

    result = bench_llm(
        Scripted(answer), n=6, modules=("reward",), mode="free", validator=StaticStage()
    )
    row: Any = result.detail["reward"]
    assert (row["n"], row["valid"], row["distinct"], row["tokens_per_design"]) == (6, 6, 4, 9.0)
    assert row["distinct_before_redraws"] == 4
    local: Any = bench_llm(
        Local(lambda r, i: answer(r, 0 if r.temperature == 1 else i)),
        n=3,
        modules=("reward",),
        validator=StaticStage(),
    ).detail["reward"]
    assert (local["distinct"], local["distinct_before_redraws"], local["answers_per_design"]) == (
        3,
        1,
        5 / 3,
    )
    assert result.value > 0 and result.peers == result.ratios == {}
    failing: Any = bench_llm(
        Scripted(lambda r, i: BAD), n=2, modules=("reward",), validator=StaticStage()
    ).detail["reward"]
    assert (
        failing["valid"] == failing["distinct"] == 0
        and failing["repairs"] == 6
        and failing["answers_per_design"] == 4
    )
    assert sum(failing["faults"].values()) == 2 and json.dumps(failing)
    with pytest.raises(ValueError, match="n is 0"):
        bench_llm(Scripted(answer), n=0)


def test_commands_list_and_refuse() -> None:
    rows = model_rows()
    assert [row["name"] for row in rows] == list(KNOWN)
    assert all(
        row["get"] == f"se-rl llm pull {row['name']}" and row["state"] == "absent" for row in rows
    )
    with pytest.raises(LlmError, match="'gpt' is unknown"):
        pull_model("gpt", say=lambda _: None)


@pytest.mark.skipif(
    not (REAL_CACHE / "models" / "smollm2").is_dir(),
    reason="smollm2 is not here; run: se-rl llm pull smollm2",
)
def test_the_real_model_writes_a_valid_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SE_RL_CACHE", str(REAL_CACHE))
    attempts = DesignGenerator(open_designer("smollm2"), StaticStage()).generate("reward", 2)
    assert (
        all(attempt.is_valid for attempt in attempts)
        and len({attempt.source for attempt in attempts}) == 2
    )
    assert all(a.proposal and a.proposal.log_prob is not None for a in attempts)


def test_a_designer_is_opened_by_address() -> None:
    designer = open_designer("http://localhost:1/v1#my-model", prices=(0.2, 0.6))
    assert isinstance(designer, EndpointDesigner) and designer.name == "my-model"
    assert designer._usd_per_million == (0.2, 0.6)
    with pytest.raises(LlmError, match="behind a #"):
        open_designer("http://localhost:1/v1")
