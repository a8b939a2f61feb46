"""Ordinary rewards, as people and models write them."""

REWARDS = {
    "shortfall": """
def reward(step):
    return step.traded_share * (step.fill_price - 1.0)
""",
    "against_market_price": """
def reward(step):
    \"\"\"Beat the market's average price of the step.\"\"\"
    return step.traded_share * (step.fill_price - step.benchmark_price)
""",
    "mark_to_mid": """
import torch

def reward(step) -> torch.Tensor:
    fills = step.traded_share * (step.fill_price - step.mid_before)
    stock = step.inventory_left * (step.mid_after - step.mid_before)
    return fills + stock
""",
    "mark_to_mid_without_news": """
import torch
from torch import Tensor

def reward(step) -> Tensor:
    fills = step.traded_share * (step.fill_price - step.mid_before)
    stock = step.inventory_left * (step.mid_after - step.mid_before - step.news)
    return fills + stock
""",
    "paired_with_twap": """
def gain(share, price, reference):
    return share * (price - reference)

def reward(step):
    own = gain(step.traded_share, step.fill_price, step.no_order_mid)
    twap = gain(step.twap_traded_share, step.twap_fill_price, step.no_order_mid)
    return own - twap
""",
    "no_order_mid": """
def reward(step):
    return step.traded_share * (step.fill_price - step.no_order_mid_before)
""",
    "basis_points": """
BPS = 1e4

def reward(step):
    return BPS * step.traded_share * (step.fill_price - step.benchmark_price)
""",
    "passive_bonus": """
def reward(step):
    gain = step.traded_share * (step.fill_price - step.no_order_mid)
    bonus = 0.5 * step.half_spread * step.passive_share
    return gain + bonus
""",
    "forced_penalty": """
PENALTY: float = 0.002

def reward(step):
    value = step.traded_share * (step.fill_price - step.mid_before)
    value -= PENALTY * step.forced_share
    return value
""",
    "inventory_risk": """
RISK_AVERSION = 0.1

def reward(step):
    pnl = step.traded_share * (step.fill_price - 1.0)
    risk = RISK_AVERSION * step.volatility * step.inventory_left ** 2
    return pnl - risk
""",
    "schedule_tracking": """
def reward(step):
    deviation = step.inventory_left - step.time_left
    return step.traded_share * (step.fill_price - step.mid_before) - 0.001 * deviation.pow(2)
""",
    "twap_tracking": """
import torch

def reward(step):
    distance = torch.abs(step.inventory_left - step.twap_inventory_left)
    return step.traded_share * (step.fill_price - step.twap_fill_price) - 1e-3 * distance
""",
    "squashed": """
import torch

def reward(step):
    raw = step.traded_share * (step.fill_price - step.benchmark_price)
    return torch.tanh(raw * 500.0)
""",
    "clamped": """
def reward(step):
    raw = step.traded_share * (step.fill_price - step.mid_before) * 1e4
    return raw.clamp(min=-5.0, max=5.0)
""",
    "loss_averse": """
import torch

def reward(step):
    x = step.traded_share * (step.fill_price - step.no_order_mid)
    return torch.where(x >= 0, x, 2.25 * x)
""",
    "sign_only": """
import torch

def reward(step):
    return torch.sign(step.fill_price - step.benchmark_price) * step.traded_share
""",
    "impact_penalty": """
def reward(step):
    impact = step.own_impact.clamp(min=0.0)
    return step.traded_share * (step.fill_price - step.mid_before) - 0.3 * impact * step.inventory_left
""",
    "imbalance_gate": """
import torch

def reward(step):
    gate = torch.sigmoid(3.0 * step.imbalance)
    return gate * step.traded_share * (step.fill_price - step.mid_before)
""",
    "spread_gate": """
def reward(step):
    wide = step.half_spread / (step.half_spread + step.volatility + 1e-6)
    return step.traded_share * (step.fill_price - step.mid_before) + 1e-4 * wide * step.passive_share
""",
    "volatility_scaled": """
def reward(step):
    scale = 1.0 / (step.volatility + 1e-4)
    return scale * step.traded_share * (step.fill_price - step.benchmark_price)
""",
    "time_weighted": """
import math
import torch

def reward(step):
    urgency = torch.exp(-math.log(2.0) * step.time_left)
    return urgency * step.traded_share * (step.fill_price - 1.0)
""",
    "asinh": """
import torch

def reward(step):
    return torch.asinh(1e4 * step.traded_share * (step.fill_price - step.no_order_mid))
""",
    "huber": """
import torch
import torch.nn.functional as F

def reward(step):
    error = step.inventory_left - step.time_left
    penalty = F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=0.1)
    return step.traded_share * (step.fill_price - step.mid_before) - 0.01 * penalty
""",
    "smooth_relu": """
import torch.nn.functional as F

def reward(step):
    late = F.softplus(10.0 * (step.inventory_left - step.time_left - 0.1)) / 10.0
    return step.traded_share * (step.fill_price - step.no_order_mid) - 0.001 * late
""",
    "stacked_terms": """
import torch

WEIGHTS = (1.0, 0.5, -0.2)

def reward(step):
    terms = torch.stack([
        step.traded_share * (step.fill_price - step.mid_before),
        step.half_spread * step.passive_share,
        step.volatility * step.inventory_left,
    ])
    weights = torch.tensor(WEIGHTS, dtype=terms.dtype)
    return (weights[:, None] * terms).sum(dim=0)
""",
    "loop_over_terms": """
COEFFICIENTS = {"gain": 1.0, "passive": 0.3, "forced": -0.5}

def reward(step):
    terms = {
        "gain": step.traded_share * (step.fill_price - step.no_order_mid),
        "passive": step.half_spread * step.passive_share,
        "forced": step.half_spread * step.forced_share,
    }
    total = 0.0
    for name, value in terms.items():
        total = total + COEFFICIENTS[name] * value
    return total
""",
    "sum_of_generator": """
def reward(step):
    pairs = ((1.0, step.traded_share * (step.fill_price - 1.0)), (-0.1, step.volatility * step.inventory_left))
    return sum(weight * term for weight, term in pairs)
""",
    "lambda_terms": """
def reward(step):
    edge = lambda price: step.traded_share * (step.fill_price - price)
    return 0.5 * edge(step.mid_before) + 0.5 * edge(step.no_order_mid)
""",
    "nested_function": """
import torch

def reward(step):
    def soft(x, scale):
        return torch.tanh(x / scale) * scale

    gain = soft(step.traded_share * (step.fill_price - step.benchmark_price), 0.002)
    return gain - 0.1 * step.volatility * step.inventory_left.square()
""",
    "dataclass_settings": """
from dataclasses import dataclass

@dataclass(frozen=True)
class Settings:
    risk: float = 0.05
    passive: float = 0.4

def reward(step):
    s = Settings(risk=0.1)
    return (step.traded_share * (step.fill_price - step.mid_before)
            + s.passive * step.half_spread * step.passive_share
            - s.risk * step.volatility * step.inventory_left)
""",
    "potential": """
def potential(inventory, time, volatility):
    return -volatility * (inventory - time).abs()

def reward(step):
    after = potential(step.inventory_left, step.time_left, step.volatility)
    before = potential(step.inventory_left + step.traded_share, step.time_left, step.volatility)
    return step.traded_share * (step.fill_price - step.no_order_mid) + after - before
""",
    "end_of_episode": """
import torch

def reward(step):
    last = (step.time_left <= 1e-6).float()
    return step.traded_share * (step.fill_price - 1.0) - last * step.half_spread * step.forced_share
""",
    "masked": """
import torch

def reward(step):
    active = step.traded_share > 0
    value = step.fill_price - step.benchmark_price
    return torch.where(active, value, torch.zeros_like(value)) * step.traded_share.sqrt()
""",
    "logarithmic": """
import torch

def reward(step):
    ratio = torch.log(step.fill_price.clamp(min=1e-6) / step.benchmark_price.clamp(min=1e-6))
    return step.traded_share * ratio
""",
    "burst_penalty": """
def reward(step):
    burst = (step.traded_share - step.twap_traded_share).clamp(min=0.0)
    return step.traded_share * (step.fill_price - step.mid_before) - 0.002 * burst ** 2
""",
    "adverse_selection": """
def reward(step):
    after_fill = step.mid_after - step.fill_price - step.news
    return -step.passive_share * after_fill + step.traded_share * (step.fill_price - step.mid_before)
""",
    "typed_and_documented": '''
from __future__ import annotations

import torch


def reward(step) -> torch.Tensor:
    """Gain over TWAP, per step.

    Both sides are measured against the mid without our order, so that luck cancels.
    """
    own: torch.Tensor = step.traded_share * (step.fill_price - step.no_order_mid)
    twap: torch.Tensor = step.twap_traded_share * (step.twap_fill_price - step.no_order_mid)
    return own - twap
''',
    "branch_on_constant": """
MODE = "paired"

def reward(step):
    own = step.traded_share * (step.fill_price - step.mid_before)
    if MODE == "paired":
        return own - step.twap_traded_share * (step.twap_fill_price - step.mid_before)
    elif MODE == "plain":
        return own
    raise ValueError(f"unknown mode {MODE}")
""",
    "functools_reduce": """
from functools import reduce

def reward(step):
    factors = [step.traded_share, step.fill_price - step.mid_before, 1.0 + step.imbalance]
    return reduce(lambda a, b: a * b, factors)
""",
    "polynomial": """
def reward(step):
    x = step.inventory_left - step.time_left
    cost = 0.0
    for power, c in enumerate((0.0, 0.1, 0.5, 0.0, 1.0)):
        cost = cost + c * x ** power
    return step.traded_share * (step.fill_price - 1.0) - 1e-4 * cost
""",
    "clip_and_mix": """
import torch

EPS = 1e-8

def _normalised(x, scale):
    return x / (scale + EPS)

def reward(step):
    z = _normalised(step.fill_price - step.benchmark_price, step.volatility + step.half_spread)
    z = torch.clamp(z, -3.0, 3.0)
    return z * step.traded_share - 0.01 * step.forced_share
""",
    "minimum_of_two": """
import torch

def reward(step):
    arrival = step.fill_price - 1.0
    market = step.fill_price - step.benchmark_price
    return step.traded_share * torch.minimum(arrival, market)
""",
    "softmax_of_references": """
import torch

def reward(step):
    references = torch.stack([step.mid_before, step.no_order_mid, step.benchmark_price], dim=-1)
    weights = torch.softmax(torch.tensor([0.5, 1.5, 0.0], dtype=references.dtype), dim=0)
    return step.traded_share * (step.fill_price - (references * weights).sum(-1))
""",
    "class_inside": """
class Terms:
    def __init__(self, step):
        self.step = step

    def gain(self):
        return self.step.traded_share * (self.step.fill_price - self.step.mid_before)

    @property
    def risk(self):
        return self.step.volatility * self.step.inventory_left

def reward(step):
    terms = Terms(step)
    return terms.gain() - 0.2 * terms.risk
""",
}
