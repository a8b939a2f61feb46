"""Settings of a run: what is refused and in which words, presets, and what each arm and switch means."""

from __future__ import annotations

from typing import Any

import pytest

from se_rl.config import ConfigError, parse, to_dict
from se_rl.market.family import FAMILY
from se_rl.records.settings import ARMS, MULTI, PRESETS, SINGLE, RunConfig, preset

NAN, INFINITE = float("nan"), float("inf")
BAD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "iterations",
            "parents",
            "siblings",
            "promoted",
            "finalists",
            "day_orders",
            "agents",
            "samples",
            "bank",
            "lora_rank",
            "lora_alpha",
            "max_designs",
            "max_tokens",
        ),
        (0, -1, 1.5, "3"),
    ),
    **dict.fromkeys(
        ("work", "epsilon", "clip", "learning_rate", "max_minutes", "max_usd"),
        (0.0, -1.0, NAN, INFINITE, "1"),
    ),
    "gamma": (0.0, 1.1, NAN),
    "sizes": ((0.0, 0.1), (0.1, 1.1), (0.3, 0.1)),
    **dict.fromkeys(("horizons", "dynamic_horizons"), ((), (0,), (30, 30), (1.5,))),
    "profiles": ((), ("small tick", "small tick")),
    **dict.fromkeys(("static_share", "gae_lambda", "initial_alpha", "replay"), (-0.1, 1.1, NAN)),
    **dict.fromkeys(("seeds", "episodes"), ((1, 2), (1, 2, 3, 4), (1, 0, 1), (1, 2.5, 3))),
    **dict.fromkeys(("scenario", "arm", "estimator", "worlds"), ("", "other", None)),
    "seed": (-1, 0.5),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_value_is_refused_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as told:
        RunConfig(**{name: value})
    line = str(told.value)
    seen = repr(value) if isinstance(value, str) else str(value)
    assert (
        line.startswith(f"{name} is {seen}; ") and "\n" not in line and len(line.split("; ")[1]) > 5
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"static_share": 0.4}, "static_share is 0.4; history carries from 0.5 to 1"),
        ({"scenario": "multi", "worlds": "static"}, "worlds is static"),
        ({"scenario": "multi", "agents": 1}, "agents 1"),
        ({"max_designs": 2}, "the budget buys 2 designs"),
        ({"rivals": ("OPD",), "against": "bank"}, "rivals are OPD, but against the bank"),
        ({"rivals": ("OPD", "OPD")}, "give each once"),
        ({"iterations": 1, "parents": 1, "siblings": 2}, "the budget buys 2 designs"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        RunConfig(**changes)
    assert "\n" not in str(told.value)
    with pytest.raises(ConfigError, match="my.yaml: .*" + words):
        parse(RunConfig, changes, source="my.yaml")


def test_share_of_history_matters_with_both_worlds_alone() -> None:
    assert RunConfig(worlds="dynamic", static_share=0.1).weights == {"static": 0.0, "dynamic": 1.0}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_may_be_changed(name: str) -> None:
    config = preset(name)
    assert config == parse(RunConfig, to_dict(config)) and config.budget_designs >= 3
    assert preset(name, seed=7) == RunConfig(**{**PRESETS[name], "seed": 7}) != config
    works = [rung.work for rung in config.rungs]
    assert works == pytest.approx((config.work, config.work, 3 * config.work))
    assert config.rungs.search.trains_like(config.rungs.screen)  # a race goes on from the screens
    with pytest.raises(ConfigError, match="work is 0"):
        preset(name, work=0)


def test_an_unknown_preset() -> None:
    with pytest.raises(
        ConfigError, match="preset 'fast' is unknown; use one of tiny, quick, standard, paper"
    ):
        preset("fast")


@pytest.mark.parametrize(
    ("arm", "evolves", "levels"),
    [
        ("full", True, (True, True)),
        ("frozen", True, (False, False)),
        ("best-of-n", False, (False, False)),
        ("random", False, (False, False)),
    ],
)
def test_what_an_arm_means(arm: Any, evolves: bool, levels: tuple[bool, bool]) -> None:
    config = RunConfig(arm=arm)
    assert (config.evolves, config.levels) == (evolves, levels) and arm in ARMS
    for hle, lle in ((True, False), (False, True), (False, False)):
        changed = RunConfig(arm=arm, hle=hle, lle=lle)
        assert (
            changed.levels == (levels[0] and hle, levels[1] and lle) and changed.evolves == evolves
        )
        assert (
            changed.budget_designs == config.budget_designs and changed.rungs == config.rungs
        )  # the same budget


@pytest.mark.parametrize(
    ("worlds", "weights"), [("both", (0.5, 0.5)), ("static", (1.0, 0.0)), ("dynamic", (0.0, 1.0))]
)
def test_weights_of_the_worlds(worlds: Any, weights: tuple[float, float]) -> None:
    assert RunConfig(worlds=worlds).weights == dict(
        zip(("static", "dynamic"), map(pytest.approx, weights), strict=True)
    )


def test_modules_that_may_be_designed() -> None:
    assert RunConfig().modules == SINGLE and RunConfig(scenario="multi").modules == MULTI
    assert RunConfig(imagine=False).modules == ("reward", "network")
    assert "imagination" not in RunConfig(scenario="multi", imagine=False).modules


def test_a_budget_in_money_wants_prices() -> None:
    with pytest.raises(
        ConfigError,
        match="max_usd is 2, but what the model costs is not known; give --usd-in and --usd-out",
    ):
        RunConfig(max_usd=2.0)
    assert RunConfig(max_usd=2.0, usd_out=0.6).max_usd == 2.0
    with pytest.raises(ConfigError, match=r"usd_in is -1\.0; use a number, 0 or more"):
        RunConfig(usd_in=-1.0)


def test_the_number_of_designs() -> None:
    config = RunConfig(iterations=5, parents=2, siblings=3)
    assert config.budget_designs == 30
    assert RunConfig(iterations=5, parents=2, siblings=3, max_designs=7).budget_designs == 7
    assert RunConfig(iterations=5, parents=2, siblings=3, max_designs=99).budget_designs == 30


def test_the_default_profiles_are_the_family() -> None:
    assert RunConfig().profiles == tuple(FAMILY)


def test_horizons_that_do_not_fit_are_left_out_and_none_is_refused() -> None:
    config = RunConfig(horizons=(240, 120, 30))
    assert config.fitting(120).horizons == (120, 30)
    with pytest.raises(ConfigError, match="a session has 16 bars; use --horizon 16 or less"):
        config.fitting(16)
    assert RunConfig(worlds="dynamic").fitting(16).horizons == (240, 120)


@pytest.mark.parametrize(
    "costs",
    [
        {"half_spread_bps": 1.0},
        {"fee_bps": 0.5},
        {"max_participation": 0.1},
        {"fill_model": "limit_on_bars"},
    ],
)
def test_costs_of_history_are_refused_where_there_is_none(costs: dict[str, Any]) -> None:
    assert RunConfig(**costs)
    with pytest.raises(ConfigError, match="act on history alone") as error:
        RunConfig(worlds="dynamic", **costs)
    assert "\n" not in str(error.value)


def test_a_tiny_run_does_not_pay_for_many_days() -> None:
    assert preset("tiny").scored_days < 20 and RunConfig().scored_days == 120
