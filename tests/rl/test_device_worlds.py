"""Worlds on a device do what their CPU worlds do: equal observations, fields and broken markets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import FIELD_NAMES, World, new_fields
from se_rl.market.family import free_kinds, twins_of
from se_rl.rl.on_device.device_simulation import DeviceSimulation
from se_rl.rl.on_device.device_world import DeviceWorld, Uploads
from se_rl.rl.on_device.history import DeviceHistory

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=4, seed=5))
KINDS = free_kinds()[:1]
CLOSE = 1e-5
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
DEVICES = ("cpu", pytest.param("cuda", marks=NO_GPU))


def same(world: World, device_world: DeviceWorld, orders: int) -> np.ndarray:
    """Play random actions in both and compare everything; the orders that count."""
    rng = np.random.default_rng(1)
    episodes = world.draw(rng, orders)
    observation = world.reset(episodes)
    there = device_world.start(episodes)
    wanted = []
    for step in range(world.horizon):
        assert np.abs(there.cpu().numpy() - observation).max() < CLOSE
        last = step == world.horizon - 1
        ratio = rng.uniform(0.0, 0.3, orders) * (rng.random(orders) < 0.7) if not last else 0.9
        ratio = np.broadcast_to(ratio, (orders,)).astype(np.float32)
        offset = rng.normal(0.0, 2.0, orders).astype(np.float32)
        fields = new_fields(orders)
        observation = world.step(ratio.astype(np.float64), offset.astype(np.float64), fields)
        device = there.device
        there = device_world.step(
            torch.from_numpy(ratio).to(device), torch.from_numpy(offset).to(device)
        )
        wanted.append(fields)
    found, kept = device_world.finish()
    for place, name in enumerate(FIELD_NAMES):
        apart = np.abs(found[place].cpu().numpy() - np.array(wanted)[:, place]).max()
        assert apart < CLOSE, name
    assert np.array_equal(kept.cpu().numpy(), ~world.broken)
    return ~world.broken


@pytest.mark.parametrize("device", DEVICES)
def test_history_on_a_device_is_history(device: str) -> None:
    world = StaticWorld(DATA, horizon=12, costs=Costs(half_spread_bps=2.0, fee_bps=3.0))
    assert same(world, DeviceHistory(world, Uploads(torch.device(device))), 32).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("takes_price", [True, False])
def test_simulated_markets_on_a_device_are_the_same_markets(device: str, takes_price: bool) -> None:
    world = DynamicWorld(
        DATA,
        kinds=(*KINDS, *twins_of(KINDS)),
        horizon=6,
        takes_price=takes_price,
        bank=16,
        fee_bps=1.0,
    )
    assert same(world, DeviceSimulation(world, Uploads(torch.device(device))), 32).any()


def test_a_broken_market_is_void_on_a_device_too() -> None:
    fragile = replace(
        KINDS[0].profile, noise_limit_rate=0.02, noise_market_rate=0.6, maker_levels=2, maker_lots=1
    )
    world = DynamicWorld(kinds=(replace(KINDS[0], profile=fragile),), horizon=6, bank=16)
    kept = same(world, DeviceSimulation(world, Uploads(torch.device("cpu"))), 32)
    assert kept.any() and not kept.all()


def test_what_a_device_cannot_do_is_refused_in_one_line() -> None:
    uploads = Uploads(torch.device("cpu"))
    with pytest.raises(ValueError, match=r"without a cap.*cap 0.2.*train on the CPU"):
        DeviceHistory(StaticWorld(DATA, horizon=12, costs=Costs(max_participation=0.2)), uploads)
    shared = DynamicWorld(kinds=KINDS, horizon=6, bank=8, agents=2)
    with pytest.raises(ValueError, match=r"2 agents.*train on the CPU"):
        DeviceSimulation(shared, uploads)
