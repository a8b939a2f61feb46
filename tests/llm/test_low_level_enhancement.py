"""The designer's weights: closed forms of scores and advantages, real learning on a tiny model, adapters bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import GRAMMAR, MESSAGES, build_model
from tiny_outcomes import drawn, outcomes_of, share
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from se_rl.config import ConfigError
from se_rl.llm.backends import Abilities, Designer, LlmError, Proposal, Request, Unsupported
from se_rl.llm.local import LocalDesigner
from se_rl.llm.low_level_enhancement import (
    DesignOutcome,
    LoRAConfig,
    LowLevelEnhancement,
    adapter_bytes,
    advantages,
    design_scores,
    load_adapter,
)

CONFIG = LoRAConfig()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", sharpness=2.0)


@pytest.fixture
def designer(folder: Path) -> Iterator[LocalDesigner]:
    threads = torch.get_num_threads()
    yield LocalDesigner(folder, threads=1)
    torch.set_num_threads(threads)


def plain(gain: float | None, *, prompt: str = "a", **others: Any) -> DesignOutcome:
    return DesignOutcome(Proposal("text"), gain, prompt=prompt, **others)


GAINS = st.one_of(st.none(), st.sampled_from([0.0, 0.5, math.nan]), st.floats(-1e9, 1e9))
VECTORS = st.tuples(*[st.floats(-100, 100)] * 3)
OUTCOMES = st.lists(
    st.builds(
        plain,
        GAINS,
        prompt=st.sampled_from("abc"),
        repeated=st.booleans(),
        behaviour=st.just(()) | VECTORS,
    ),
    max_size=24,
)


@given(OUTCOMES)
@settings(deadline=None)
def test_advantages_are_leave_one_out_and_of_size_one(outcomes: list[DesignOutcome]) -> None:
    scores = design_scores(outcomes, CONFIG)
    found = advantages(outcomes, scores)
    raw = np.full(len(outcomes), np.nan)
    for group in "abc":
        members = [i for i, outcome in enumerate(outcomes) if outcome.prompt == group]
        lone = len(members) < 2 or max(scores[members]) - min(scores[members]) < 1e-9
        assert np.isnan(found[members]).all() if lone else np.isfinite(found[members]).all()
        if not lone:
            raw[members] = [
                scores[i] - np.mean([scores[j] for j in members if j != i]) for i in members
            ]
            assert sum(raw[members]) == pytest.approx(0.0, abs=1e-9)
    live = np.isfinite(found)
    if live.any():
        assert np.mean(found[live] ** 2) == pytest.approx(1.0)
        assert np.allclose(found[live] * np.sqrt(np.mean(raw[live] ** 2)), raw[live])


@given(OUTCOMES)
@settings(deadline=None)
def test_scores_are_bounded_and_no_invalid_design_is_above_a_valid_one(
    outcomes: list[DesignOutcome],
) -> None:
    scores = design_scores(outcomes, CONFIG)
    for outcome, score in zip(outcomes, scores, strict=True):
        if not np.isfinite(outcome.gained):
            assert score == CONFIG.invalid_score
        else:
            low = -1.0 - CONFIG.duplicate_penalty * outcome.repeated
            assert CONFIG.invalid_score < low <= score <= low + 2.0 + CONFIG.diversity + 1e-12


def test_scores_by_hand() -> None:
    """Ranks -1, 0, 1 and tanh of gains over their median size 2; then a repeat, a lucky score, a tie."""
    gains = [-2.0, 1.0, 3.0]
    expected = (np.array([-1.0, 0.0, 1.0]) + np.tanh(np.array(gains) / 2.0)) / 2
    assert np.allclose(design_scores([plain(g) for g in gains], CONFIG), expected)
    repeats = design_scores([plain(-2.0), plain(1.0, repeated=True), plain(3.0)], CONFIG)
    assert np.allclose(repeats - expected, [0.0, -CONFIG.duplicate_penalty, 0.0])
    lucky = design_scores([plain(-2.0), plain(1.0), plain(1e6)], CONFIG)
    assert np.allclose(lucky[:2], expected[:2]) and lucky[2] == pytest.approx(1.0)
    assert np.ptp(design_scores([plain(0.7), plain(0.7)], CONFIG)) == 0.0
    tiny = design_scores(
        [plain(0.0), plain(5e-324), plain(1e9)], CONFIG
    )  # no typical size to speak of
    assert np.allclose(tiny, [-0.5, 0.0, 1.0])


def test_novelty_is_measured_by_behaviour_among_siblings_and_recent_designs() -> None:
    alike, other = (1.0, 0.0), (0.0, 3.0)
    group = [plain(0.0, behaviour=alike), plain(0.0, behaviour=alike), plain(0.0, behaviour=other)]
    scores = design_scores(group, CONFIG)
    assert np.allclose(
        scores, CONFIG.diversity * np.array([0.25, 0.25, 0.5])
    )  # a typical distance counts one half
    assert np.allclose(design_scores([replace(o, behaviour=()) for o in group], CONFIG), 0.0)
    known = design_scores(group, CONFIG, recent={"": [other] * 6, "network": [alike] * 6})
    assert known[2] < known[0] and (known <= CONFIG.diversity).all()


def test_siblings_are_found_by_prompt_and_grammar_not_by_seed_or_temperature() -> None:
    request = Request(MESSAGES, GRAMMAR)
    same = [request, replace(request, seed=5), replace(request, temperature=1.5)]
    others = [replace(request, grammar=None), replace(request, prompt="other")]
    groups = [DesignOutcome(Proposal("x", request=each), 0.0).group for each in (*same, *others)]
    assert groups[0] == groups[1] == groups[2] and len(set(groups)) == 3
    assert DesignOutcome(Proposal("x", request=request), 0.0, prompt="told").group == "told"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"target_modules": ["q_proj", "query"]}, "v_proj, o_proj"),
        ({"target_modules": ["layer_norm"]}, "q_proj"),
        ({"rank": 0}, "rank is 0"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"kl_coef": -1.0}, "kl_coef is -1.0"),
        ({"duplicate_penalty": 1.5}, "invalid_score is -2.0"),
        ({"estimator": "magic"}, "reinforce or ste"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        LoRAConfig(**wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft's own call
def test_the_documented_calls_work_and_norms_survive_saving(folder: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    llm_model = AutoModelForCausalLM.from_pretrained(folder)
    tokens = torch.arange(5, 25)[None]
    before = llm_model(tokens).logits
    config = LoRAConfig(rank=16, alpha=32, target_modules=["q_proj", "v_proj", "layer_norm"])
    lle = LowLevelEnhancement(config)
    with pytest.raises(ConfigError, match="apply_lora"):
        lle.get_lora_parameters()
    model_with_lora = lle.apply_lora(llm_model)
    lora_params = lle.get_lora_parameters()
    names = [name for name, weight in model_with_lora.named_parameters() if weight.requires_grad]
    assert (
        len(lora_params) == len(names) == 2 * 2 * 2 + 5
        and sum("norm" in name for name in names) == 5
    )
    assert torch.equal(model_with_lora(tokens).logits, before)
    with torch.no_grad():
        for i, weight in enumerate(lora_params):
            weight.add_(
                0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(i))
            )
    after = model_with_lora(tokens).logits
    model_with_lora.save_pretrained(tmp_path / "saved")
    loaded = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(folder), str(tmp_path / "saved")
    )
    assert torch.equal(loaded(tokens).logits, after) and not torch.allclose(
        after, before, atol=1e-2
    )


def test_models_of_another_make_get_their_own_targets() -> None:
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    with pytest.raises(
        ConfigError, match=r"no q_proj, v_proj; .* out of c_attn, c_proj, c_fc, layer_norm"
    ):
        LowLevelEnhancement().apply_lora(gpt2)
    lle = LowLevelEnhancement(LoRAConfig(rank=2, target_modules=["c_attn", "layer_norm"]))
    lle.apply_lora(gpt2)
    assert sum(weight.numel() for weight in lle.get_lora_parameters()) == 2 * (8 + 24) + 3 * 2 * 8


def test_what_pays_becomes_likelier_and_stays_near_the_untouched_model(
    designer: LocalDesigner,
) -> None:
    ends: dict[float, tuple[float, dict[str, float]]] = {}
    for kl_coef in (0.05, 1.0):
        lle, learner = (
            LowLevelEnhancement(LoRAConfig(learning_rate=3e-3, kl_coef=kl_coef)),
            cast(Designer, designer),
        )
        for step in range(8):
            learner, learned = lle.learn(learner, outcomes_of(drawn(learner, step)), seed=3)
            assert learned.moved and not learned.reason and learned.measured["drift"] < 1e-3
        ends[kl_coef] = share(learner), dict(learned.measured)
    (free, stats), (held, near) = ends[0.05], ends[1.0]
    assert free > share(designer) + 0.2 and free > held > share(designer) - 0.05
    assert (
        near["kl"] < 0.5 * stats["kl"] < 0.5
        and stats["distinct"] > 0.5
        and stats["off_policy"] == 0.0
    )
    assert {"groups", "skipped", "kl", "entropy", "distinct", "mean_gain", "drift", "valid"} <= set(
        stats
    )
    assert designer.adapter is None


def test_repeats_become_rarer(designer: LocalDesigner) -> None:
    lle, learner = (
        LowLevelEnhancement(LoRAConfig(learning_rate=1e-3, diversity=0.0)),
        cast(Designer, designer),
    )
    proposals = drawn(designer, 1)
    known = [p.text for p in proposals[::3]]
    outcomes = [DesignOutcome(p, 0.5, repeated=p.text in known) for p in proposals]
    for _ in range(4):
        learner, _ = lle.learn(learner, outcomes, seed=0)
    change = (cast(Any, learner).log_probs(proposals) - designer.log_probs(proposals)).numpy()
    repeated = np.array([outcome.repeated for outcome in outcomes])
    assert change[repeated].mean() < -0.2 < 0.0 < change[~repeated].mean()


def test_steps_are_refused_with_a_reason(designer: LocalDesigner) -> None:
    lle, proposals = LowLevelEnhancement(), drawn(designer, 1, n=4)

    def refusal(outcomes: list[DesignOutcome], by: Any = designer) -> str:
        same, refused = lle.learn(by, outcomes, seed=0)
        assert not refused.moved and same is by and "\n" not in refused.reason
        assert all(np.isfinite(value) for value in refused.measured.values())
        return refused.reason

    assert "none of 0 groups" in refusal([])
    assert "none of 3 groups" in refusal([DesignOutcome(p, None) for p in proposals])
    assert "none of 3 groups" in refusal([DesignOutcome(p, 1.0) for p in proposals])
    assert "none of 12 groups" in refusal(
        [DesignOutcome(p, float(i), prompt=str(i)) for i, p in enumerate(proposals)]
    )
    same = [DesignOutcome(p, float(i), (1.0, 2.0, 1e-9 * i)) for i, p in enumerate(proposals)]
    assert "only 25% of siblings differ" in refusal(same)
    greedy = designer.propose(Request(MESSAGES, GRAMMAR, 120, temperature=0.0), 2)
    assert "none of 0 groups" in refusal(
        [DesignOutcome(p, float(i)) for i, p in enumerate([*greedy, Proposal("remote")])]
    )

    class Remote:
        name = "remote"
        abilities = Abilities()

    assert "out of reach" in refusal(outcomes_of(proposals), by=Remote())


def steps(designer: Any, lle: LowLevelEnhancement, numbers: Sequence[int]) -> Any:
    for number in numbers:
        designer, _ = lle.learn(designer, outcomes_of(drawn(designer, number)), seed=7)
    return designer


def test_adapters_learn_on_bit_for_bit(designer: LocalDesigner, folder: Path) -> None:
    """Three steps in a row, and one, then two more in another object that got the bytes of the first."""
    whole = steps(designer, LowLevelEnhancement(), range(3))
    lle = LowLevelEnhancement()
    first = adapter_bytes(steps(designer, lle, [0]))
    resumed = load_adapter(LocalDesigner(folder, threads=1), first)
    assert resumed.adapter == "lle@1" and adapter_bytes(resumed) == first
    resumed = steps(resumed, lle, [1, 2])
    assert adapter_bytes(resumed) == adapter_bytes(whole) != first
    ours, theirs = (
        [(p.text, p.tokens, p.log_prob, p.adapter) for p in drawn(d, 50)] for d in (whole, resumed)
    )
    assert ours == theirs and ours[0][3] == "lle@3"


def test_a_step_that_is_known_is_loaded_and_still_remembered(designer: LocalDesigner) -> None:
    lle, again = LowLevelEnhancement(), LowLevelEnhancement()
    outcomes = outcomes_of(drawn(designer, 0))
    made, _ = lle.learn(designer, outcomes, seed=7)
    stored = adapter_bytes(cast(Any, made))
    loaded, known = again.learn(designer, outcomes, seed=7, stored=stored)
    assert known.moved and adapter_bytes(cast(Any, loaded)) == stored
    both = [adapter_bytes(steps(d, memory, [1])) for d, memory in ((made, lle), (loaded, again))]
    forgetful = steps(load_adapter(designer, stored), LowLevelEnhancement(), [1])
    assert both[0] == both[1] != adapter_bytes(forgetful)


def test_adapters_of_other_models_and_broken_ones_are_refused(
    designer: LocalDesigner, tmp_path: Path
) -> None:
    content = adapter_bytes(designer.new_adapter("fresh", seed=3))
    assert content == adapter_bytes(designer.new_adapter("fresh", seed=3))
    assert content != adapter_bytes(designer.new_adapter("fresh", seed=4))
    stranger = LocalDesigner(build_model(tmp_path / "stranger", seed=9), threads=1)
    with pytest.raises(LlmError, match="adapter fresh was trained on tiny") as caught:
        load_adapter(stranger, content)
    assert "\n" not in str(caught.value)
    for broken in (
        b"",
        b"cut",
        content[:-9],
        content.replace(b'"__metadata__"', b'"__metadatum_"', 1),
    ):
        with pytest.raises(LlmError, match="not a complete adapter"):
            load_adapter(designer, broken)
    with pytest.raises(Unsupported, match="nothing to save"):
        adapter_bytes(designer)
