"""The sampler: exact log-probs, the same answers in any company, and never a step outside the grammar."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_model import GRAMMAR, MESSAGES, PATTERN, build_model
from transformers import AutoModelForCausalLM, GraniteConfig, GraniteForCausalLM

from se_rl.llm import decoding
from se_rl.llm.attention import PromptCache, prepare
from se_rl.llm.backends import LlmError, Proposal, Request
from se_rl.llm.catalog import resolve
from se_rl.llm.decoding import Answer, Sampler, read
from se_rl.llm.engine import Engine
from se_rl.llm.likelihood import log_probs

WORDS = 'start: "a" | "b" | "cc" | "cd" | "cde"'


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    threads = torch.get_num_threads()
    yield Engine(
        resolve(build_model(tmp_path_factory.mktemp("tiny"))),
        threads=1,
        dtype="float32",
        device="cpu",
    )
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def prompt(engine: Engine) -> list[int]:
    return engine.tokens(list(MESSAGES))


def sampler(engine: Engine, grammar: str | None = GRAMMAR, **options: Any) -> Sampler:
    options = {"max_tokens": 120, **options}
    return Sampler(engine.model, ends=engine.ends, matcher=engine.matcher(grammar), **options)


def text(engine: Engine, answer: Answer) -> str:
    return engine.tokenizer.decode(answer.tokens, skip_special_tokens=True)


def as_proposal(answer: Answer, temperature: float = 1.0) -> Proposal:
    masks = np.stack(answer.masks) if answer.masks else None
    request = Request("x", temperature=temperature)
    return Proposal(
        "", tokens=tuple(answer.tokens), drawn=tuple(answer.drawn), masks=masks, request=request
    )


def reference_log_prob(
    engine: Engine, model: Any, prompt: list[int], answer: Answer, grammar: str | None, heat: float
) -> float:
    """Token by token with the library's own attention and no cache; the grammar is asked anew at every token."""
    matcher, total = engine.matcher(grammar), 0.0
    for position, token in enumerate(answer.tokens):
        logits = (
            model(torch.tensor([[*prompt, *answer.tokens[:position]]])).logits[0, -1].double()
            / heat
        )
        if matcher is not None:
            bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
            allowed = torch.from_numpy(
                np.unpackbits(bits, bitorder="little", count=len(logits)).astype(bool)
            )
            logits[~allowed] = -torch.inf
            forced = matcher.compute_ff_tokens()[:1]
            assert (
                position in answer.drawn
                or forced == [token]
                or allowed.nonzero().tolist() == [[token]]
            )
        if matcher is None or position in answer.drawn:
            total += float(logits.log_softmax(-1)[token])
        if matcher is not None and token not in engine.ends:
            assert matcher.consume_token(token)
    return total


@pytest.mark.parametrize(("grammar", "heat"), [(GRAMMAR, 1.0), (GRAMMAR, 0.6), (None, 1.3)])
def test_log_probs_are_those_of_an_independent_reading(
    engine: Engine, prompt: list[int], grammar: str | None, heat: float
) -> None:
    answers = sampler(engine, grammar, temperature=heat, max_tokens=60 if grammar else 12).sample(
        prompt, 5, seed=3
    )
    plain = AutoModelForCausalLM.from_pretrained(engine.source.folder, dtype="float32").eval()
    with torch.no_grad():
        expected = [
            reference_log_prob(engine, plain, prompt, answer, grammar, heat) for answer in answers
        ]
    again = log_probs(engine.model, prompt, [as_proposal(answer, heat) for answer in answers])
    assert np.allclose([answer.log_prob for answer in answers], expected, atol=1e-4)
    assert np.allclose(again.detach(), expected, atol=1e-4)
    assert len({tuple(answer.tokens) for answer in answers}) > 1


def test_an_answer_is_the_same_in_any_company(engine: Engine, prompt: list[int]) -> None:
    many = sampler(engine).sample(prompt, decoding.BATCH_ROWS + 9, seed=7)
    few = sampler(engine).sample(prompt, 3, seed=7)
    assert [a.tokens for a in few] == [a.tokens for a in many[:3]]
    assert np.allclose([a.log_prob for a in few], [a.log_prob for a in many[:3]], atol=1e-4)
    other = sampler(engine).sample(prompt, 3, seed=8)
    assert [a.tokens for a in other] != [a.tokens for a in few]
    exact = log_probs(engine.model, prompt, [as_proposal(a) for a in many])
    assert np.allclose(
        exact.detach(), [a.log_prob for a in many], atol=1e-4
    )  # also those that took a freed row


def test_forced_tokens_fed_together_or_one_by_one_are_the_same(
    engine: Engine, prompt: list[int]
) -> None:
    fast = sampler(engine).sample(prompt, 12, seed=1)
    slow = sampler(engine, fast_forward=False).sample(prompt, 12, seed=1)
    assert [a.tokens for a in fast] == [a.tokens for a in slow]
    assert [a.drawn for a in fast] == [a.drawn for a in slow]
    assert np.allclose([a.log_prob for a in fast], [a.log_prob for a in slow], atol=1e-4)
    assert all(len(a.drawn) < len(a.tokens) / 2 for a in fast)


@given(seed=st.integers(0, 2**40), heat=st.sampled_from([0.0, 0.3, 1.0, 5.0]))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_grammar_is_always_obeyed(
    engine: Engine, prompt: list[int], seed: int, heat: float
) -> None:
    for answer in sampler(engine, temperature=heat).sample(prompt, 6, seed=seed):
        assert answer.finish == "stop"
        assert re.fullmatch(PATTERN, text(engine, answer))


def test_frequencies_agree_with_the_log_probs(engine: Engine, prompt: list[int]) -> None:
    count = 1500
    answers = sampler(engine, WORDS, temperature=1.5).sample(prompt, count, seed=5)
    chances = {tuple(a.tokens): float(np.exp(a.log_prob)) for a in answers}
    assert {text(engine, a) for a in answers} == {"a", "b", "cc", "cd", "cde"}
    assert sum(chances.values()) == pytest.approx(1.0, abs=1e-4)
    for tokens, seen in Counter(tuple(a.tokens) for a in answers).items():
        spread = np.sqrt(count * chances[tokens] * (1 - chances[tokens]))
        assert abs(seen - count * chances[tokens]) < 4.5 * spread


def test_temperature_nought_takes_the_likeliest_token(engine: Engine, prompt: list[int]) -> None:
    greedy = sampler(engine, None, temperature=0.0, max_tokens=5).sample(prompt, 2, seed=0)
    assert greedy[0].tokens == greedy[1].tokens
    plain = AutoModelForCausalLM.from_pretrained(engine.source.folder, dtype="float32").eval()
    with torch.no_grad():
        ids = list(prompt)
        for token in greedy[0].tokens:
            assert int(plain(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)


def test_an_answer_is_cut_at_the_limit_and_a_forced_one_needs_no_draw(
    engine: Engine, prompt: list[int]
) -> None:
    cut = sampler(engine, max_tokens=9).sample(prompt, 2, seed=0)
    assert [(a.finish, len(a.tokens)) for a in cut] == [("length", 9)] * 2
    forced = sampler(engine, 'start: "hello"').sample(prompt, 2, seed=0)
    assert [(text(engine, a), a.finish, a.drawn, a.log_prob) for a in forced] == [
        ("hello", "stop", [], 0.0)
    ] * 2
    mixed = log_probs(engine.model, prompt, [as_proposal(cut[0]), as_proposal(forced[0])])
    assert mixed.tolist() == pytest.approx([cut[0].log_prob, 0.0], abs=1e-4)


def test_a_prompt_read_in_two_parts_gives_the_same(engine: Engine, prompt: list[int]) -> None:
    cache = PromptCache()
    read(engine.model, prompt[:20], cache)
    whole, parts = (
        sampler(engine).sample(prompt, 4, seed=2),
        sampler(engine).sample(prompt, 4, seed=2, cache=cache),
    )
    assert [a.tokens for a in whole] == [a.tokens for a in parts]
    assert cache.length == 20 and not cache.own


def test_gradients_are_those_of_the_plain_model(engine: Engine, prompt: list[int]) -> None:
    answers = sampler(engine, None, max_tokens=8).sample(prompt, 3, seed=4)
    plain = AutoModelForCausalLM.from_pretrained(engine.source.folder, dtype="float32").eval()
    for answer in answers:
        ids = torch.tensor([[*prompt, *answer.tokens]])
        scores = plain(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        scores.gather(1, ids[0, len(prompt) :, None]).sum().backward()
    engine.model.requires_grad_(True)
    log_probs(engine.model, prompt, [as_proposal(answer) for answer in answers]).sum().backward()
    for (name, ours), theirs in zip(
        engine.model.named_parameters(), plain.parameters(), strict=True
    ):
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-3 * float(theirs.grad.abs().max())), (
            name
        )
    engine.model.zero_grad()
    engine.model.requires_grad_(False)


def test_what_cannot_be_sampled_is_refused_in_one_line(engine: Engine, prompt: list[int]) -> None:
    with pytest.raises(LlmError, match=r"grammar cannot be read.*Lark") as caught:
        engine.matcher("start: missing")
    assert "\n" not in str(caught.value)
    with pytest.raises(LlmError, match="no tokens"):
        log_probs(engine.model, prompt, [Proposal("text from elsewhere")])
    config = GraniteConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        logits_scaling=8.0,
    )
    with pytest.raises(LlmError, match="GraniteForCausalLM"):
        prepare(GraniteForCausalLM(config))


def test_prepare_packs_weights_without_changing_them(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(build_model(tmp_path), dtype="float32").eval()
    ids = torch.arange(20)[None]
    with torch.no_grad():
        before = model(ids).logits
        prepare(model)
        assert torch.allclose(model(ids).logits, before, atol=1e-4)
