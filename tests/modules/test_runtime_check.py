"""The runtime stage: every ordinary module passes, every faulty one gets a line that says what to mend."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from zoo import ZOO

from se_rl.environments.market_pool import WarmPool
from se_rl.llm.code_validator import recorded_steps
from se_rl.market.family import MarketKind
from se_rl.modules import defaults, runtime_check
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.modules.runtime_check import BEHAVIOUR, probe

ORDINARY = [
    pytest.param(code_type, source, id=f"{code_type}-{name}")
    for code_type, modules in ZOO.items()
    for name, source in {**modules, **dict(enumerate(KINDS[code_type].contract.examples))}.items()
]
BREAKING = '{"maker_lots": 2.0, "maker_levels": 6.0, "noise_limit_rate": 0.005}'
"""Inside all ranges, and yet no book of it keeps both sides: the dynamic world refuses it as well."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As in the sandbox; on a busy machine the other threads only wait for one another."""
    recorded_steps()  # simulates the market, which sets threads itself
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_breaking_profile_breaks_the_world() -> None:
    with pytest.raises(ValueError, match="broke while warming up"):
        WarmPool([MarketKind("designed", load_module(_profile(BREAKING)[1], "profiling"))])


@pytest.mark.parametrize("code_type, source", ORDINARY)
def test_ordinary_modules_pass(code_type: str, source: str) -> None:
    if BREAKING in source:
        pytest.skip("this profile's market breaks, see above")
    verdict = probe(source, code_type, recorded_steps())
    assert verdict.error == "" and len(verdict.fingerprint) == 64
    assert verdict.behaviour.shape == (BEHAVIOUR,) and verdict.behaviour.dtype == np.float32
    assert np.isfinite(verdict.behaviour).all()


@pytest.mark.parametrize("code_type", KINDS)
def test_what_the_grammar_makes_passes(code_type: str) -> None:
    rng = np.random.default_rng(3)
    errors = [
        probe(KINDS[code_type].random_source(rng), code_type, recorded_steps()).error
        for _ in range(4)
    ]
    assert errors == [""] * 4


@pytest.mark.parametrize("reward", [defaults.reward, defaults.naive_reward])
def test_the_default_rewards_rank_well(reward: Any) -> None:
    source = (
        inspect.getsource(reward)
        .replace(reward.__name__, "reward")
        .replace(": Any", "")
        .replace("Tensor", "object")
    )
    verdict = probe(source, "reward", recorded_steps())
    assert (verdict.error, verdict.warnings) == ("", ())


def _reward(body: str, before: str = "") -> tuple[str, str]:
    return "reward", f"{before}\ndef reward(step):\n    {body}\n"


GAIN = "step.traded_share * (step.fill_price - 1.0)"


def _network(init: str, forward: str, *, before: str = "", width: str = "16") -> tuple[str, str]:
    return "network", (
        f"{before}\nclass Network(nn.Module):\n    def __init__(self, obs_dim, history):\n        super().__init__()\n"
        f"        self.feature_dim = {width}\n        {init}\n\n    def forward(self, obs):\n        {forward}\n"
    )


LAYER = "self.fc = nn.Linear(obs_dim * history, 16)"
FLAT = "self.fc(obs.flatten(1))"


def _talk(forward: str, init: str = "self.mix = nn.Linear(size, size)") -> tuple[str, str]:
    return "communication", (
        "class Communication(nn.Module):\n    def __init__(self, agents, size):\n        super().__init__()\n"
        f"        {init}\n\n    def forward(self, messages):\n        {forward}\n"
    )


def _imagine(body: str, before: str = "") -> tuple[str, str]:
    return "imagination", f"{before}\ndef imagine(bars, generator):\n    {body}\n"


def _profile(numbers: str) -> tuple[str, str]:
    return "profiling", f"def profile():\n    return {numbers}\n"


BAD: dict[str, tuple[tuple[str, str], str]] = {
    "nan": (_reward("return torch.log(step.imbalance)"), "reward is not finite (nan)"),
    "infinite_at_0": (_reward(f"return {GAIN} / step.half_spread"), "is not finite"),
    "nan_at_the_edge": (
        _reward(f"return {GAIN} + 0.0 / (0.1 - step.volatility)"),
        "at the ends of their ranges",
    ),
    "scalar": (
        _reward(f"return ({GAIN}).sum()"),
        "returned shape [] for a batch of 1 row, expected [1]",
    ),
    "too_many_columns": (_reward(f"return ({GAIN})[:, None]"), "returned shape [1, 1]"),
    "number": (_reward("return 1.0"), "returned float; return a float tensor"),
    "nothing": (_reward(f"value = {GAIN}"), "returned NoneType"),
    "whole_numbers": (
        _reward("return (1e4 * step.fill_price).long()"),
        "returned torch.int64, expected torch.float32",
    ),
    "truths": (_reward("return step.fill_price > 1.0"), "returned torch.bool"),
    "constant": (_reward("return torch.ones_like(step.news)"), "reward is 1 on all recorded rows"),
    "zero": (_reward("return 0.0 * step.news"), "on all recorded rows"),
    "writes_into_the_step": (
        _reward(f"step.traded_share.mul_(2.0)\n    return {GAIN}"),
        "changes its input",
    ),
    "augmented": (_reward(f"x = step.news\n    x += 1.0\n    return {GAIN}"), "changes its input"),
    "mean_of_the_batch": (
        _reward(f"x = {GAIN}\n    return x - x.mean()"),
        "when other rows of the batch change",
    ),
    "norm_of_the_batch": (
        _reward(f"x = {GAIN}\n    return x / (x.abs().max() + 1e-6)"),
        "other rows of the batch",
    ),
    "spread_of_the_batch": (
        _reward(f"x = {GAIN}\n    return x / x.std(correction=0)"),
        "is not finite",
    ),
    "row_before": (_reward(f"return ({GAIN}).cumsum(0)"), "other rows of the batch"),
    "counter": (
        _reward(f"CALLS.append(1)\n    return {GAIN} * len(CALLS)", "CALLS = []"),
        "when called again",
    ),
    "random": (
        _reward(f"return {GAIN} + torch.randn(step.news.shape)"),
        "other values when called again",
    ),
    "huge": (_reward(f"return 1e9 * {GAIN}"), "reaches"),
    "backwards": (_reward(f"return -{GAIN}"), "reward ranks trading backwards: rank correlation -"),
    "no_such_field": (_reward("return step.price"), "line 3: AttributeError"),
    "sizes_that_do_not_fit": (_reward(f"return ({GAIN}) @ torch.ones(3)"), "line 3: RuntimeError"),
    "loop_over_rows": (
        _reward("return torch.stack([sum((x + k for k in range(99)), x) for x in step.news])"),
        "microseconds a row",
    ),
    "too_many_parameters": (
        _network("self.fc = nn.Linear(obs_dim, 10_000)", "return self.fc(obs[:, -1])"),
        "330,000 parameters, at most 300,000",
    ),
    "detached": (
        _network(LAYER, f"return {FLAT}.detach()"),
        "no gradient flows through Network.forward",
    ),
    "without_gradient": (
        _network(LAYER, f"with torch.no_grad():\n            return {FLAT}"),
        "no gradient flows",
    ),
    "idle_parameters": (
        _network("self.w = nn.Parameter(torch.ones(1))", "return obs[:, -1, :16] + 0.0 * self.w"),
        "no gradient reaches",
    ),
    "infinite_gradient": (
        _network(LAYER, f"return {FLAT} + (0.0 * {FLAT}).sqrt()"),
        "the gradient of Network.forward is not finite",
    ),
    "ignores_observations": (
        _network(LAYER, "return self.fc.bias.expand(len(obs), 16)"),
        "same for all recorded",
    ),
    "wrong_width": (_network(LAYER, f"return {FLAT}", width="17"), "expected [1, 17]"),
    "no_width": (_network(LAYER, f"return {FLAT}", width="None"), "self.feature_dim is None"),
    "wide": (
        _network("pass", "return obs[:, -1, :1].repeat(1, 600)", width="600"),
        "from 1 to 512",
    ),
    "fixed_size": (
        _network("self.fc = nn.Linear(32, 16)", "return self.fc(obs[:, -1])"),
        "obs_dim 40",
    ),
    "double": (
        _network(
            "self.fc = nn.Linear(obs_dim, 16).double()", "return self.fc(obs[:, -1].double())"
        ),
        "float64",
    ),
    "batch_norm": (
        _network(f"{LAYER}\n        self.norm = nn.BatchNorm1d(16)", f"return self.norm({FLAT})"),
        "a batch of 1 row",
    ),
    "group_statistics": (
        _network(LAYER, f"x = {FLAT}\n        return x - x.mean(0)"),
        "other rows of the batch",
    ),
    "dropout": (_network(LAYER, f"return F.dropout({FLAT}, 0.1)"), "no F.dropout"),
    "hidden_weights": (
        _network("self.w = torch.randn(obs_dim, 16)", "return obs[:, -1] @ self.w"),
        "after saving and loading",
    ),
    "lazy": (_network("self.fc = nn.LazyLinear(16)", f"return {FLAT}"), "lazy layers"),
    "memory_of_calls": (
        _network(f"{LAYER}\n        self.n = 0", f"self.n += 1\n        return {FLAT} * self.n"),
        "when called again",
    ),
    "large_features": (_network(LAYER, f"return 1e7 * {FLAT}"), "scale it down"),
    "changes_obs": (_network(LAYER, f"obs *= 2.0\n        return {FLAT}"), "changes its input"),
    "broken_init": (_network("self.fc = nn.Linear(obs_dim, size)", f"return {FLAT}"), "NameError"),
    "own_message_only": (
        _talk("return torch.tanh(self.mix(messages))"),
        "no agent's inbox depends",
    ),
    "constant_inbox": (
        _talk("return torch.ones_like(messages)", "pass"),
        "no agent's inbox depends",
    ),
    "mixes_books": (
        _talk("return self.mix(messages.mean((0, 1), keepdim=True)).expand_as(messages)"),
        "other rows",
    ),
    "summary": (
        _talk("return messages.mean(1)"),
        "returned shape [8, 8] for 1 agents, expected [8, 1, 8]",
    ),
    "divides_by_others": (
        _talk(
            "return self.mix((messages.sum(1, keepdim=True) - messages) / (messages.shape[1] - 1))"
        ),
        "is not finite",
    ),
    "out_of_range": (_profile("{'makers': 9.0}"), "out of range"),
    "unknown_number": (_profile("{'maker': 1.0}"), "which no market has"),
    "no_number": (_profile("{'makers': 'two'}"), "give a number"),
    "no_dict": (_profile("[1.0]"), "return a dict of numbers"),
    "empty_book": (_profile(BREAKING), "a side of the book ran empty in all"),
    "changing_profile": (
        ("profiling", "def profile():\n    return {'makers': 1.0 + float(torch.rand(()))}\n"),
        "write fixed numbers",
    ),
    "drift": (
        _imagine(
            "return bars * torch.cat([torch.exp(1e-4 * torch.arange(bars.shape[1]))[:, None].repeat(1, 4),"
            " torch.ones(bars.shape[1], 1)], 1)"
        ),
        "standard deviations, 0.1 is allowed",
    ),
    "downward_drift": (
        _imagine(
            "out = bars.clone()\n    out[..., :4] /= torch.exp(2e-4 * torch.arange(bars.shape[1]))[:, None]\n"
            "    return out"
        ),
        "prices drift",
    ),
    "negative_prices": (
        _imagine("out = bars.clone()\n    out[..., :4] -= 2.0 * bars[:, :1, :1]\n    return out"),
        "positive",
    ),
    "negative_volume": (
        _imagine("out = bars.clone()\n    out[..., 4] -= 1.0\n    return out"),
        "negative volume",
    ),
    "open_above_high": (
        _imagine("out = bars.clone()\n    out[..., 0] *= 1.01\n    return out"),
        "no low <= open",
    ),
    "fewer_bars": (_imagine("return bars[:, 1:]"), "returned shape [1, 389, 5]"),
    "own_random_numbers": (
        _imagine("return bars * torch.exp(1e-4 * torch.randn(len(bars), 1, 1))"),
        "same bars and generator",
    ),
    "same_every_time": (
        _imagine("return torch.ones_like(bars)"),
        "neither on bars nor on generator",
    ),
    "writes_into_bars": (
        _imagine("bars[..., 4] *= 2.0\n    bars[:, 0, 4] += 1.0\n    return bars"),
        "changes its input",
    ),
    "nan_where_nothing_moves": (
        _imagine(
            "moves = bars[..., 3].std(1)\n    return bars + 0.0 * (1.0 / moves)[:, None, None]"
        ),
        "paths that stand still",
    ),
    "syntax": (_reward("return ("), "SyntaxError"),
}


@pytest.mark.parametrize("name", BAD)
def test_faulty_modules_get_a_line(name: str) -> None:
    (code_type, source), words = BAD[name]
    verdict = probe(source, code_type, recorded_steps())
    assert words in verdict.error
    assert "\n" not in verdict.error and len(verdict.error) <= 480 and verdict.fingerprint == ""


WARNED = {
    "ranks_badly": _reward("return -step.volatility * step.inventory_left"),
    "silent": _talk("return torch.zeros_like(messages)", "pass"),
    "no_gradient": _network(f"{LAYER}\n        self.spare = nn.Linear(3, 3)", f"return {FLAT}"),
    "breaks_often": _profile("{'maker_lots': 2.0, 'maker_levels': 9.0, 'noise_limit_rate': 0.005}"),
}


@pytest.mark.parametrize("word", WARNED)
def test_what_could_be_better_is_a_warning(word: str) -> None:
    code_type, source = WARNED[word]
    verdict = probe(source, code_type, recorded_steps())
    assert verdict.error == "" and [warning.split(":")[0] for warning in verdict.warnings] == [word]


@pytest.mark.parametrize(
    "secret", ["hash(object())", "hash(repr(object()))", "hash(torch.ones(1))"]
)
def test_addresses_show_in_the_fingerprint(secret: str) -> None:
    source = _reward(f"return {GAIN} * (1.0 + KEPT)", f"KEPT = {secret} % 9973 / 9973")[1]
    first, second = (probe(source, "reward", recorded_steps(), salt=salt) for salt in (0, 1))
    assert first.error == second.error == "" and first.fingerprint != second.fingerprint


def test_a_deterministic_module_keeps_its_fingerprint() -> None:
    for code_type in KINDS:
        source = KINDS[code_type].contract.examples[1]
        first, second = (probe(source, code_type, recorded_steps(), salt=salt) for salt in (0, 1))
        assert first.error == "" and first.fingerprint == second.fingerprint


def test_behaviour_sees_what_matters() -> None:
    def behaviour(module: tuple[str, str]) -> Any:
        return probe(module[1], module[0], recorded_steps()).behaviour

    plain = behaviour(_reward(f"return {GAIN}"))
    np.testing.assert_allclose(behaviour(_reward(f"return 300.0 * {GAIN}")), plain, atol=1e-4)
    assert (
        np.abs(behaviour(_reward(f"return {GAIN} - 0.01 * step.forced_share")) - plain).max() > 0.1
    )
    quick, slow = (
        _network(f"self.learning_rate = 0\n        {LAYER}", f"return {FLAT}") for _ in range(2)
    )
    slow = (
        "network",
        slow[1].replace("    def __init__", "    learning_rate = 0.009\n\n    def __init__", 1),
    )
    assert (behaviour(quick) != behaviour(slow)).sum() == 1


def test_running_out_of_memory_is_left_to_the_sandbox() -> None:
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        probe(_reward(f"return {GAIN} + torch.zeros(10**15).sum()")[1], "reward", recorded_steps())


def test_the_caller_s_random_numbers_stay() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    probe(ZOO["network"]["mlp"], "network", recorded_steps())
    assert torch.equal(torch.rand(3), expected)


def test_the_warm_up_needs_nothing() -> None:
    runtime_check.warm_up()
