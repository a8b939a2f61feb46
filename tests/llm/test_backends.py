"""The protocol, and the local back-end that speaks it: proposals, learning, adapters on disk."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_model import GRAMMAR, MESSAGES, PATTERN, build_model

from se_rl.data.cache import cache_folder
from se_rl.llm import reinforce
from se_rl.llm.adapters import CARD, WEIGHTS, LoraSettings
from se_rl.llm.backends import Designer, LlmError, Proposal, Request, Unsupported
from se_rl.llm.catalog import ModelSource
from se_rl.llm.local import LocalDesigner

REAL_SMOLLM2 = (
    cache_folder() / "models" / "smollm2"
)  # the user's own, asked for before tests get a private cache
REQUEST = Request(MESSAGES, grammar=GRAMMAR, max_tokens=120, seed=11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def designer(folder: Path) -> Iterator[LocalDesigner]:
    threads = torch.get_num_threads()
    yield LocalDesigner(folder, threads=1)
    torch.set_num_threads(threads)


def test_requests_are_checked_and_read_as_chats() -> None:
    assert Request("hello").messages == [{"role": "user", "content": "hello"}]
    assert Request(MESSAGES).messages == list(MESSAGES)
    wrongs: list[dict[str, Any]] = [
        {"prompt": ""},
        {"max_tokens": 0},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"seed": -1},
    ]
    for wrong in wrongs:
        with pytest.raises(LlmError, match="give"):
            Request(**{"prompt": "hello", **wrong})


def test_proposals_of_a_local_model_carry_all_that_learning_needs(designer: LocalDesigner) -> None:
    assert isinstance(designer, Designer)
    proposals = designer.propose(REQUEST, 5)
    for proposal in proposals:
        assert re.fullmatch(PATTERN, proposal.text) and proposal.finish == "stop"
        assert proposal.model == "tiny" and proposal.adapter is None and proposal.request is REQUEST
        assert (
            proposal.tokens
            and proposal.drawn
            and proposal.masks is not None
            and proposal.log_prob is not None
        )
        assert proposal.output_tokens == len(proposal.tokens) and proposal.masks.shape[0] == len(
            proposal.drawn
        )
        allowed = np.unpackbits(proposal.masks, axis=1, bitorder="little")
        assert all(row[proposal.tokens[j]] for row, j in zip(allowed, proposal.drawn, strict=True))
        assert (allowed.sum(1) > 1).all()
    again = [replace(p, seconds=0.0) for p in designer.propose(REQUEST, 5)]
    assert again == [replace(p, seconds=0.0) for p in proposals]
    sampled = np.array([p.log_prob for p in proposals], float)
    assert np.allclose(designer.log_probs(proposals), sampled, atol=1e-4)
    assert designer.propose(Request("x", max_tokens=3, temperature=0.0), 1)[0].log_prob is None


def test_the_kept_beginning_of_a_prompt_changes_no_byte(
    designer: LocalDesigner, folder: Path
) -> None:
    first = designer.propose(REQUEST, 3)
    follow_up = Request(
        [MESSAGES[0], {"role": "user", "content": "Another one."}], max_tokens=20, seed=1
    )
    kept = designer.propose(follow_up, 3)
    assert len(designer._engine.prefixes) == 1
    fresh = LocalDesigner(folder, threads=1).propose(follow_up, 3)
    assert [(p.tokens, p.log_prob) for p in kept] == [(p.tokens, p.log_prob) for p in fresh]
    assert [p.log_prob for p in designer.propose(REQUEST, 3)] == [p.log_prob for p in first]


def test_a_step_raises_what_was_good_and_lowers_what_was_bad(designer: LocalDesigner) -> None:
    learner = designer.new_adapter("lle")
    proposals = learner.propose(REQUEST, 6)
    base = designer.log_probs(proposals)
    assert torch.equal(learner.log_probs(proposals), base)  # a fresh adapter is neutral
    first = learner.update(proposals, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], learning_rate=2e-4)
    assert (
        first["drift"] < 1e-4
        and first["kl"] == pytest.approx(0.0, abs=1e-6)
        and first["entropy"] > 0
    )
    for _ in range(5):
        later = learner.update(proposals, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], learning_rate=2e-4)
    assert learner.log_probs(proposals)[0] > base[0] + 0.02
    assert later["kl"] > 0 and later["drift"] > 1e-3
    worse = designer.new_adapter("worse")
    for _ in range(6):
        worse.update(proposals, [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0], learning_rate=2e-4)
    assert worse.log_probs(proposals)[0] < base[0] - 0.02
    assert learner.adapter == "lle@6" and learner.propose(REQUEST, 1)[0].adapter == "lle@6"
    assert torch.equal(designer.log_probs(proposals), base) and designer.adapter is None
    assert torch.equal(learner.with_adapter(None).log_probs(proposals), base)


def test_the_gradient_is_that_of_the_formula(designer: LocalDesigner) -> None:
    """Loss and KL by hand, from log-probs before and after a step that only the KL term can see."""
    learner = designer.new_adapter("kl")
    proposals = learner.propose(REQUEST, 4)
    for _ in range(4):
        learner.update(proposals, [1.0, 1.0, -1.0, -1.0], learning_rate=1e-3, kl_coef=0.0)
    learner._optimizer = None  # its momentum would carry on
    away = learner.update(proposals, [0.0] * 4, learning_rate=2e-4, kl_coef=1.0)
    assert away["loss"] == pytest.approx(away["kl"], rel=1e-5)
    for _ in range(15):
        back = learner.update(proposals, [0.0] * 4, learning_rate=2e-4, kl_coef=1.0)
    assert back["kl"] < 0.5 * away["kl"]
    plain = designer.new_adapter("plain").update(proposals, [2.0, -1.0, 0.5, 0.0], kl_coef=0.0)
    drawn = sum(len(p.drawn or ()) for p in proposals)
    expected = -np.dot([2.0, -1.0, 0.5, 0.0], designer.log_probs(proposals).numpy()) / drawn
    assert plain["loss"] == pytest.approx(expected, rel=1e-4)


def test_coarse_steps_are_those_of_the_formula_but_for_rounding(folder: Path) -> None:
    measured = []
    for coarse in (False, True):
        designer = LocalDesigner(folder, threads=1, device="cpu", coarse_steps=coarse)
        proposals = designer.propose(REQUEST, 4)
        learner = designer.new_adapter("coarse", seed=3)
        before = learner.log_probs(proposals)
        measured.append(learner.update(proposals, [1.0, -1.0, 0.5, 0.0], learning_rate=1e-2))
        assert not torch.allclose(learner.log_probs(proposals), before, atol=1e-3)
    fine, coarse = measured
    assert coarse["loss"] == pytest.approx(fine["loss"], rel=0.05, abs=0.02)
    assert coarse["gradient"] == pytest.approx(fine["gradient"], rel=0.1)
    assert fine["drift"] < 1e-3 < coarse["drift"]


def test_chunks_and_several_prompts_do_not_change_a_step(
    designer: LocalDesigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Request("A different prompt.", grammar=GRAMMAR, max_tokens=120, seed=5)
    proposals = [
        p
        for pair in zip(designer.propose(REQUEST, 3), designer.propose(other, 3), strict=True)
        for p in pair
    ]
    advantages, after = [0.5, 1.0, -1.0, 0.2, 0.3, -0.7], []
    for budget in (100_000, 40):
        monkeypatch.setattr(reinforce, "_CHUNK_TOKENS", budget)
        learner = designer.new_adapter("chunks", seed=4)
        learner.update(proposals, advantages)
        after.append(learner.log_probs(proposals))
    assert torch.allclose(after[0], after[1], atol=1e-4)
    assert not torch.allclose(after[0], designer.log_probs(proposals), atol=1e-4)


def test_adapters_survive_the_disk_with_their_norms(
    designer: LocalDesigner, folder: Path, tmp_path: Path
) -> None:
    learner = designer.new_adapter("lle", seed=2)
    proposals = learner.propose(REQUEST, 4)
    for _ in range(3):
        learner.update(proposals, [1.0, -1.0, 0.5, -0.5], learning_rate=1e-2)
    saved = learner.save_adapter(tmp_path / "deep" / "adapter", notes={"pa_bps": 0.3})
    learner.save_adapter(saved)  # again, over the old one
    tensors = load_file(saved / WEIGHTS)
    assert (
        sum("norm" in name for name in tensors) == 5
        and sum("lora_" in name for name in tensors) == 8
    )
    loaded = LocalDesigner(folder, threads=1).with_adapter(saved)
    assert loaded.adapter == "lle@3"
    assert torch.equal(loaded.log_probs(proposals), learner.log_probs(proposals))
    assert not torch.allclose(
        loaded.with_adapter(None).log_probs(proposals), learner.log_probs(proposals), atol=1e-3
    )
    assert loaded.update(proposals, [1.0, 0.0, 0.0, 0.0])["drift"] > 0 and loaded.adapter == "lle@4"
    assert [path.name for path in saved.parent.iterdir()] == ["adapter"]


def test_adapters_of_other_bases_and_broken_ones_are_refused(
    designer: LocalDesigner, tmp_path: Path
) -> None:
    saved = designer.new_adapter("lle", settings=LoraSettings(rank=2, norms=False)).save_adapter(
        tmp_path / "adapter"
    )
    stranger = LocalDesigner(build_model(tmp_path / "stranger", seed=9), threads=1)
    with pytest.raises(LlmError, match="was trained on tiny"):
        stranger.with_adapter(saved)
    assert (
        json.loads((saved / CARD).read_text())["base_sha256"]
        == designer._engine.source.base_sha256()
    )
    (saved / WEIGHTS).write_bytes(b"cut")
    for place in (saved, tmp_path / "nothing"):
        with pytest.raises(LlmError, match="not a complete adapter"):
            designer.with_adapter(place)


def test_what_cannot_be_done_is_said_in_one_line(designer: LocalDesigner) -> None:
    proposals = designer.propose(REQUEST, 1)
    with pytest.raises(Unsupported, match="new_adapter"):
        designer.update(proposals, [1.0])
    with pytest.raises(Unsupported, match="new_adapter"):
        designer.save_adapter("anywhere")
    learner = designer.new_adapter("lle")
    for wrong in ([], [1.0, 2.0], [float("nan")]):
        with pytest.raises(LlmError, match="finite numbers"):
            learner.update(proposals, wrong)
    with pytest.raises(LlmError, match="no tokens"):
        learner.update([Proposal("remote")], [1.0])
    with pytest.raises(LlmError, match="shorten"):
        designer.propose(Request("long", max_tokens=600), 1)


def test_a_damaged_model_folder_is_an_error_in_one_line(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(LlmError, match="cannot be loaded") as caught:
        LocalDesigner(broken).propose(REQUEST, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(
    not REAL_SMOLLM2.is_dir(), reason="smollm2 is not here; run: se-rl llm pull smollm2"
)
def test_the_real_default_model_writes_and_learns() -> None:
    threads = torch.get_num_threads()
    designer = LocalDesigner(ModelSource("smollm2", REAL_SMOLLM2), threads=1)
    assert designer._engine.tokenizer.eos_token == "<|im_end|>"
    model = designer._engine.model
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert designer._engine.ends == {designer._engine.tokenizer.convert_tokens_to_ids("<|im_end|>")}
    learner = designer.new_adapter("lle")
    proposals = learner.propose(REQUEST, 4)
    assert all(re.fullmatch(PATTERN, p.text) for p in proposals)
    stats = learner.update(proposals[:2], [1.0, -1.0], learning_rate=1e-3)
    assert stats["drift"] < 2e-4
    change = learner.log_probs(proposals[:2]).numpy() - [p.log_prob for p in proposals[:2]]
    assert change[0] > change[1]
    assert (
        sum(p.numel() for p in designer._engine.adapters.peft.parameters() if p.requires_grad)
        == 956_736
    )
    torch.set_num_threads(threads)
