"""The tracking penalty: its price in the reward, and the paired comparison with the old default."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from se_rl_benchmarks import penalty
from se_rl_benchmarks.defaults import PENALTIES
from se_rl_benchmarks.defaults_page import SPLIT, DayGains
from se_rl_benchmarks.old_default import PenalisedReward, old_reward

DAYS = 40
FIELDS = (
    *("no_order_mid", "no_order_mid_before", "news", "traded_share", "fill_price"),
    *("inventory_left", "twap_traded_share", "twap_fill_price", "twap_inventory_left"),
    "volatility",
)


def test_the_penalty_is_a_price_on_being_elsewhere_than_twap() -> None:
    rng = np.random.default_rng(1)
    step = SimpleNamespace(**{name: torch.tensor(rng.normal(size=5)) for name in FIELDS})
    away = step.inventory_left - step.twap_inventory_left
    paid = old_reward(step) - PenalisedReward(0.2)(step)
    torch.testing.assert_close(paid, 0.2 * step.volatility * away**2)


def row(method: str, seed: int, specific: np.ndarray, whole: np.ndarray) -> DayGains:
    return DayGains(
        set=penalty.SET,
        fold=SPLIT,
        method=method,
        seed=seed,
        dates=list(range(DAYS)),
        specific=specific.tolist(),
        whole=whole.tolist(),
    )


def test_designs_are_compared_by_gain_less_risk_on_the_same_days() -> None:
    """Equal skill and a tenth of the bet: what is gained is the price of the variance."""
    rng = np.random.default_rng(0)
    found: list[DayGains] = []
    saved: list[float] = []
    for seed in range(3):
        skill = rng.normal(1.0, 0.5, DAYS)
        bet = rng.normal(0.0, 12.0, DAYS)
        found.append(row(penalty.OLD, seed, skill, bet))
        found += [row(name, seed, skill, 0.1 * bet) for name in PENALTIES]
        saved.append(0.01 * 0.99 * bet.var(ddof=1))
    base = [one for one in found if one["method"] == penalty.OLD]
    own = [one for one in found if one["method"] == "tracking penalty 0.2"]
    over = penalty.score_over(own, base)
    assert over.mean == pytest.approx(np.mean(saved)) and over.p_value < 0.05
    facts = {"set": penalty.SET, "days": DAYS, "names": 2, "budget": 1.0, "seeds": 3, "risk": 0.02}
    text, _ = penalty.page(found, facts)
    assert f"| tracking penalty 0.2 | +{over.mean:.2f} |" in text
