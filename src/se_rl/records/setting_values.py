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
