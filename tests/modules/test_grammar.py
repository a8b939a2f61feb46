"""Grammars: every string is a valid module that works, long enough to say much and bounded in length."""

from __future__ import annotations

import ast
import re

import llguidance.numpy
import numpy as np
import pytest
import torch
from contract_runs import RUNS, random_step
from llguidance import LLMatcher, LLTokenizer

from se_rl.market.profile import PROFILE_RANGES
from se_rl.modules import defaults
from se_rl.modules.contracts import NETWORK_CONSTANTS
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.modules.static_check import check_source

BYTES = LLTokenizer("byte")
SAMPLES = 200


def constrained_sample(lark: str, rng: np.random.Generator) -> tuple[str, int]:
    """A string drawn byte by byte under llguidance, and how many of its bytes were not forced."""
    matcher = LLMatcher(BYTES, lark)
    mask = llguidance.numpy.allocate_token_bitmask(1, BYTES.vocab_size)
    tokens: list[int] = []
    free = 0
    while not matcher.is_stopped():
        forced = matcher.compute_ff_tokens()
        if not forced:
            llguidance.numpy.fill_next_token_bitmask(matcher, mask)
            allowed = np.flatnonzero(
                np.unpackbits(mask.view(np.uint8), bitorder="little")[: BYTES.vocab_size]
            )
            forced = [int(rng.choice(allowed))]
            free += len(allowed) > 1
        if forced == [BYTES.eos_token]:
            break
        assert matcher.consume_tokens(forced), matcher.get_error()
        tokens += forced
    return BYTES.decode_str(tokens), free


def accepts(lark: str, source: str) -> bool:
    """Whether the grammar has the whole text."""
    matcher = LLMatcher(BYTES, lark)
    return matcher.consume_tokens(BYTES.tokenize_str(source)) and matcher.is_accepting()


@pytest.mark.parametrize("code_type", KINDS)
def test_constrained_samples_work_and_differ(code_type: str) -> None:
    rng, lark = np.random.default_rng(5), KINDS[code_type].lark_grammar
    samples = [constrained_sample(lark, rng) for _ in range(SAMPLES)]
    for source, free in samples:
        assert check_source(source, code_type) is None
        assert len(source) <= KINDS[code_type].most_bytes and free <= KINDS[code_type].most_tokens
        RUNS[code_type](load_module(source, code_type))
    assert len({source for source, _ in samples}) >= 0.8 * SAMPLES


@pytest.mark.parametrize("code_type", KINDS)
def test_random_designs_work_differ_and_belong_to_the_grammar(code_type: str) -> None:
    rng, lark = np.random.default_rng(6), KINDS[code_type].lark_grammar
    samples = [KINDS[code_type].random_source(rng) for _ in range(SAMPLES)]
    for source in samples:
        assert check_source(source, code_type) is None
        RUNS[code_type](load_module(source, code_type))
        assert accepts(lark, source)
    assert len(set(samples)) >= 0.8 * SAMPLES
    assert samples[:5] == [
        KINDS[code_type].random_source(r) for r in [np.random.default_rng(6)] for _ in range(5)
    ]


@pytest.mark.parametrize("code_type", KINDS)
def test_budgets(code_type: str) -> None:
    assert KINDS[code_type].most_tokens <= 200


@pytest.mark.parametrize("code_type", KINDS)
def test_rules_are_all_used_and_end(code_type: str) -> None:
    rules = KINDS[code_type].rules
    used = {
        name for texts in rules.values() for text in texts for name in re.findall(r"<(\w+)>", text)
    }
    assert used == set(rules) - {"start"}
    assert all(len(set(texts)) == len(texts) for texts in rules.values())


STRONG = """def reward(step):
    value = step.traded_share * (step.fill_price - step.no_order_mid_before)
    value = value + 1.0 * step.inventory_left * (step.no_order_mid - step.no_order_mid_before - step.news)
    value = value - 1.0 * step.twap_traded_share * (step.twap_fill_price - step.no_order_mid_before)
    value = value - 1.0 * step.twap_inventory_left * (step.no_order_mid - step.no_order_mid_before - step.news)
    value = value - 0.5 * (200.0 * step.news.square()) * (step.inventory_left - step.twap_inventory_left).square()
    return value
"""
NAIVE = (
    "def reward(step):\n    value = step.traded_share * (step.fill_price - 1.0)\n    return value\n"
)


@pytest.mark.parametrize(
    "source, same", [(STRONG, defaults.reward), (NAIVE, defaults.naive_reward)]
)
def test_the_default_rewards_are_in_the_space(source: str, same: defaults.Reward) -> None:
    assert accepts(KINDS["reward"].lark_grammar, source)
    step = random_step(50)
    torch.testing.assert_close(load_module(source, "reward")(step), same(step))


@pytest.mark.parametrize(
    "line",
    [
        "value + 0.5 * step.half_spread * step.passive_share",
        "value - 1.0 * 0.0001 * step.forced_share",
        "value - 0.1 * step.volatility * step.inventory_left.square()",
        "value - 0.1 * step.volatility * (step.inventory_left - step.time_left).square()",
        "value - 0.1 * step.volatility * (step.inventory_left - step.twap_inventory_left).abs()",
        "value - 0.5 * step.own_impact * step.traded_share",
        "value + 1.0 * step.half_spread * step.passive_share * torch.sigmoid(2.0 * step.imbalance)",
    ],
)
def test_known_terms_are_in_the_space(line: str) -> None:
    for shape in ("value", "torch.tanh(1000.0 * value)", "value.clamp(-0.002, 0.002)"):
        source = NAIVE.replace("    return value\n", f"    value = {line}\n    return {shape}\n")
        assert accepts(KINDS["reward"].lark_grammar, source)


def test_nothing_else_is_in_the_space() -> None:
    assert not accepts(KINDS["reward"].lark_grammar, "def reward(step):\n    return 1.0\n")
    assert not accepts(KINDS["reward"].lark_grammar, NAIVE + "\n")


@pytest.mark.parametrize("name", [name for name in NETWORK_CONSTANTS if name != "history"])
def test_learning_constants_vary_inside_their_ranges(name: str) -> None:
    values = [float(text) for text in KINDS["network"].rules[name]]
    assert len(values) >= 4 and len(set(values)) == len(values)
    assert all(
        NETWORK_CONSTANTS[name].low <= value <= NETWORK_CONSTANTS[name].high for value in values
    )


def test_every_network_sets_every_constant() -> None:
    live = load_module(KINDS["network"].random_source(np.random.default_rng(0)), "network")
    assert set(NETWORK_CONSTANTS) <= set(vars(live))


def test_profiles_have_three_to_ten_numbers_and_reach_all() -> None:
    rng, seen = np.random.default_rng(1), set()
    for _ in range(300):
        returned = ast.parse(KINDS["profiling"].random_source(rng)).body[0].body[0]  # type: ignore[attr-defined]
        numbers = ast.literal_eval(returned.value)
        assert 3 <= len(numbers) <= 10
        seen |= set(numbers)
    assert seen == set(PROFILE_RANGES)
