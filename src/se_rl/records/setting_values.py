"""Which values the settings of a run may have, and how to say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from sys import float_info
from typing import Any

from se_rl.config import ConfigError


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and value >= least


def _within(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and low <= value <= high


ALLOWED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "iterations parents siblings promoted finalists horizons dynamic_horizons agents seeds "
        "scored_days episodes day_orders samples bank lora_rank lora_alpha max_designs max_tokens",
        _whole(1),
        "a whole number, 1 or more",
    ),
    ("seed", _whole(0), "a whole number, 0 or more"),
    (
        "work epsilon clip learning_rate max_minutes max_usd",
        _within(float_info.min, float_info.max),
        "a positive number",
    ),
    ("sizes max_participation gamma", _within(float_info.min, 1.0), "a number above 0, 1 at most"),
    ("static_share gae_lambda initial_alpha replay", _within(0.0, 1.0), "a number from 0 to 1"),
    (
        "risk usd_in usd_out half_spread_bps fee_bps",
        _within(0.0, float_info.max),
        "a number, 0 or more",
    ),
)
"""Which values settings may have, and how to say so."""


def check_values(config: Any) -> None:
    """Refuse the first setting whose value is none that it may have."""
    for field in fields(config):
        value, choices = getattr(config, field.name), field.metadata["choices"]
        if choices and value not in choices:
            raise ConfigError(f"{field.name} is {value!r}; use one of {', '.join(choices)}")
    for names, fits, wanted in ALLOWED:
        for name in names.split():
            value = getattr(config, name)
            if value is not None and not all(
                map(fits, value if isinstance(value, tuple) else [value])
            ):
                raise ConfigError(f"{name} is {value!r}; use {wanted}")
    for name in ("seeds", "episodes"):
        if len(getattr(config, name)) != 3:
            raise ConfigError(
                f"{name} is {getattr(config, name)}; give 3 numbers, one for each rung"
            )
    if config.islands and (not config.evolves or config.against == "bank"):
        raise ConfigError(
            f"islands trade trained parents (arm is {config.arm}, against {config.against}); "
            "use --arm full, local or frozen against trainings, or leave --islands out"
        )
    if config.sizes[0] > config.sizes[1]:
        raise ConfigError(f"sizes is {config.sizes}; give the least first")
    for name in ("horizons", "dynamic_horizons", "profiles"):
        if not getattr(config, name) or len(set(getattr(config, name))) < len(
            getattr(config, name)
        ):
            raise ConfigError(f"{name} is {getattr(config, name)}; give some, each once")


def check_together(config: Any) -> None:
    """Refuse settings of which each is allowed, but not beside the others."""
    if config.worlds == "both" and config.static_share < 0.5:
        raise ConfigError(
            f"static_share is {config.static_share}; history carries from 0.5 to 1 of the score"
        )
    costs = (config.half_spread_bps, config.fee_bps, config.max_participation, config.fill_model)
    if config.worlds == "dynamic" and costs != (0.0, 0.0, None, "price_taker"):
        raise ConfigError(
            f"half-spread, fee, cap and fill model are {costs}, which act on history alone; "
            "leave them out, or leave --dynamic-only out"
        )
    if config.scenario == "multi" and (config.worlds == "static" or config.agents < 2):
        raise ConfigError(
            "the multi scenario needs simulated markets and 2 or more agents "
            f"(worlds is {config.worlds}, agents {config.agents}); "
            "use --worlds both or dynamic, and --agents 2"
        )
    if config.max_usd is not None and not config.usd_in + config.usd_out:
        raise ConfigError(
            f"max_usd is {config.max_usd:g}, but what the model costs is not known; "
            "give --usd-in and --usd-out, USD per million tokens"
        )
    if config.rivals and config.against == "bank":
        raise ConfigError(
            f"rivals are {', '.join(config.rivals)}, but against the bank nothing is trained; "
            "leave --rivals or --against bank out"
        )
    if config.device != "cpu" and config.against == "bank":
        raise ConfigError(
            f"device is {config.device}, but against the bank nothing is trained; "
            "leave --device or --against bank out"
        )
    if len(set(config.rivals)) < len(config.rivals):
        raise ConfigError(f"rivals is {config.rivals}; give each once")
