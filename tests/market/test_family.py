"""The family of markets: every profile stands by itself, free and as a twin."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.market.family import FAMILY, LARGE_TICK, SMALL_TICK, STRESSED, MarketKind
from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets
from se_rl.scoring.execution import ConstantSchedule, execute

DATA = synthetic_market(SyntheticConfig(symbols=2, sessions=3, seed=4))


def spread_and_depth(name: str) -> tuple[float, float, float]:
    """Mean spread in ticks, lots at the touch, and volatility of a bar in ticks."""
    markets = Markets(96, FAMILY[name], seeds=np.arange(96), warm_up_bars=30)
    bars, _ = markets.run(60)
    assert not markets.broken.any()
    depth = markets.books.depth(1)[:, :, 0, 1]
    moves = np.diff(bars["close"], axis=0) / 2.0
    return float((bars["ask"] - bars["bid"]).mean()), float(depth.mean()), float(moves.std())


def test_the_first_of_the_family_is_the_default_market() -> None:
    assert next(iter(FAMILY)) == SMALL_TICK and FAMILY[SMALL_TICK] == MarketProfile()
    assert MarketKind(LARGE_TICK, FAMILY[LARGE_TICK], twin=True).name == "large tick twin"


def test_the_family_differs_as_its_names_say() -> None:
    small, large, stressed = map(spread_and_depth, (SMALL_TICK, LARGE_TICK, STRESSED))
    assert large[0] < 1.3 and large[1] > 4 * small[1]  # one tick, long queues
    assert stressed[0] > 1.5 * small[0] and stressed[1] < small[1]
    assert stressed[2] > 1.3 * small[2]


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("twin", [False, True])
def test_orders_can_be_worked_in_every_kind(name: str, twin: bool) -> None:
    """No order is void, not even one that is left for the end and empties the book: it is dear."""
    world = DynamicWorld(
        DATA if twin else None,
        kinds=[MarketKind(name, FAMILY[name], twin)],
        horizon=20,
        sizes=(0.3, 0.3),
        bank=48,
        takes_price=True,
    )
    episodes = world.draw(np.random.default_rng(0), 96)
    never_filled = execute(world, ConstantSchedule(1.0, 80.0), episodes)
    assert np.isfinite(never_filled.gain).mean() > 0.97
    assert -np.nanmean(never_filled.twap_gain) > 0.0  # trading is never free
    assert never_filled.over_twap().mean < 0.0
