"""What people ask of edits, and which way an edit moves: passive, impact-averse, bold, small.

A reward moves by what it pays for, on made-up steps that differ in one thing; a network by its
action, its exploration and its weights; any module by its size. Modules must be in their grammar:
they are executed here, unlocked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.modules.agent_interface import further_width
from se_rl.modules.contracts import NETWORK_CONSTANTS
from se_rl.modules.derivation import derivation
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.scoring.statistics import clustered_mean

STEPS = 256
"""Made-up steps that rewards are tried on."""
LEAST_MOVE = 1e-6
"""Below it an edit has not moved."""
IMPACT = 0.001
"""How far prices are pushed, as a share of the arrival price, to see what a reward says to it."""
AWAY = 0.3
"""How far inventory leaves the schedule, as a share of the order, for the same reason."""

Steps = Mapping[str, torch.Tensor]
Degree = Callable[[str], float]
"""How passive, bold or small one module is."""


@dataclass(frozen=True)
class Following:
    """Which way edits went that were asked for something.

    `toward` and `away` are shares of all, the others did not move; `net` is how many more went the
    way that was asked, with its interval by parent.
    """

    n: int
    toward: float
    away: float
    net: float
    ci95: tuple[float, float]


def following(moves: Sequence[float], parents: Sequence[int]) -> Following:
    """What moves along one wish amount to, those of edits of these parents."""
    if not moves:
        return Following(0, 0.0, 0.0, 0.0, (float("nan"), float("nan")))
    found = np.array(moves, np.float64)
    ways = np.where(np.abs(found) > LEAST_MOVE, np.sign(found), 0.0)
    net = clustered_mean(ways, np.array(parents))
    return Following(
        len(ways), float(np.mean(ways > 0)), float(np.mean(ways < 0)), net.mean, net.ci95
    )


def move(wish: str, code_type: str, before: str, after: str) -> float:
    """How far an edit goes the way that was asked: above 0 toward it, below 0 away from it."""
    degree = WISHES[wish].degrees.get(code_type)
    if degree is None:
        modules = ", ".join(WISHES[wish].degrees)
        raise ValueError(f"{wish} means nothing for {code_type}; ask for it of {modules}")
    return degree(after) - degree(before)


def made_up_steps() -> Steps:
    """Ordinary steps of ordinary orders, always the same; nothing filled passively or by force."""
    rng = np.random.default_rng(0)

    def between(low: float, high: float) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(low, high, STEPS))

    mid = 1.0 + between(-0.003, 0.003)
    news = between(-0.0005, 0.0005)
    spread = between(0.0001, 0.0005)
    left = between(0.05, 0.95)
    nothing = torch.zeros(STEPS, dtype=torch.float64)
    return {
        "fill_price": mid + between(-0.001, 0.001),
        "benchmark_price": mid + between(-0.0005, 0.0005),
        "traded_share": between(0.01, 0.1),
        "half_spread": spread,
        "volatility": between(0.0002, 0.001),
        "imbalance": between(-0.9, 0.9),
        "inventory_left": left,
        "time_left": left.clone(),
        "own_impact": nothing,
        "mid_before": mid,
        "mid_after": mid + news,
        "no_order_mid": mid + news,
        "no_order_mid_before": mid,
        "news": news,
        "twap_fill_price": mid - spread,
        "twap_traded_share": torch.full_like(nothing, 0.05),
        "twap_inventory_left": left.clone(),
        "passive_share": nothing,
        "forced_share": nothing,
    }


def _paid(source: str, usual: Steps, changed: Sequence[Mapping[str, torch.Tensor]]) -> float:
    """How much more a reward pays for changed steps than for the usual ones, in units of its own
    spread.
    """
    reward: Any = load_module(source, "reward")
    base = reward(SimpleNamespace(**usual))
    spread = max(float(base.std()), 1e-12)
    found = 0.0
    for values in changed:
        other = reward(SimpleNamespace(**{**usual, **values}))
        found += float((other - base).mean()) / spread / len(changed)
    return found


@lru_cache(maxsize=4096)
def _pays_passive(source: str) -> float:
    steps = made_up_steps()
    return _paid(source, steps, [{"passive_share": steps["traded_share"]}])


@lru_cache(maxsize=4096)
def _minds_impact(source: str) -> float:
    """Our trading has pushed every price that it can push against us."""
    steps = made_up_steps()
    pushed = {name: steps[name] - IMPACT for name in ("mid_before", "mid_after", "fill_price")}
    pushed["own_impact"] = steps["own_impact"] + IMPACT
    return -_paid(source, steps, [pushed])


@lru_cache(maxsize=4096)
def _lets_stray(source: str) -> float:
    """Inventory as far ahead of the schedule as behind it, on average."""
    steps = made_up_steps()
    strays = []
    for away in (-AWAY, AWAY):
        strays.append({"inventory_left": (steps["inventory_left"] + away).clamp(0.0, 1.0)})
    return _paid(source, steps, strays)


def _constant(source: str, name: str) -> float:
    network = load_module(source, "network")
    return float(np.log(getattr(network, name, NETWORK_CONSTANTS[name].default)))


@lru_cache(maxsize=4096)
def _acts_boldly(source: str) -> float:
    names = ("exploration", "exploration_end", "action_scale")
    return sum(_constant(source, name) for name in names)


@lru_cache(maxsize=4096)
def _waits(source: str) -> float:
    return -_constant(source, "action_zero")


@lru_cache(maxsize=4096)
def _few_weights(source: str) -> float:
    network: Any = load_module(source, "network")
    history = int(getattr(network, "history", 1))
    seen = len(OBSERVATION_FIELDS) + further_width(getattr(network, "inputs", ()))
    weights = sum(one.numel() for one in network(seen, history).parameters())
    return -float(np.log(max(1, weights)))


@lru_cache(maxsize=4096)
def _short(source: str) -> float:
    return -float(np.log(sum(1 for _ in ast.walk(ast.parse(source)))))


@dataclass(frozen=True)
class Wish:
    """A wish in words, and what it means for each module."""

    text: str
    degrees: Mapping[str, Degree]


_SIZES: Mapping[str, Degree] = {name: _short for name in KINDS if name != "network"}
WISHES: Mapping[str, Wish] = {
    "passive": Wish(
        "Be passive: wait, rest limit orders, and reward passive fills.",
        {"reward": _pays_passive, "network": _waits},
    ),
    "impact-averse": Wish(
        "Be averse to impact: punish trading that pushes the price.", {"reward": _minds_impact}
    ),
    "bold": Wish(
        "Be bold: explore more, and leave the schedule further.",
        {"reward": _lets_stray, "network": _acts_boldly},
    ),
    "small": Wish(
        "Make it small: fewer parts and fewer weights.", {"network": _few_weights, **_SIZES}
    ),
}


def can_be_asked(code_type: str, source: str) -> list[str]:
    """The wishes that mean something for this module; none where it is free Python."""
    if derivation(source, code_type) is None:
        return []
    return [name for name, wish in WISHES.items() if code_type in wish.degrees]
