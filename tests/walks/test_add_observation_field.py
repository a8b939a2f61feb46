"""The walk "add an observation field": one record in the list, and both worlds show it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np

import se_rl
from se_rl.data import observation_fields
from se_rl.data.observation_fields import ObservationField

# The walk: write the record with its two formulas and put it into the list, before the private fields.
pressure = ObservationField(
    "spread_times_imbalance",
    "displayed imbalance in units of the spread over 10 bps",
    on_history=lambda known: 0.5 + 0.0 * known.sigma,
    in_book=lambda view: 0.1 * view.spread_bps * view.imbalance,
    negated=True,
)
own = [field for field in observation_fields.FIELDS if field.private]
public = [field for field in observation_fields.FIELDS if not field.private]
observation_fields.FIELDS = (*public, pressure, *own)

# Everything else follows.
from se_rl.data.features import OBSERVATION_FIELDS, OBSERVATION_PLACE, PUBLIC_FIELDS
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_env import StaticEnvironment
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import new_fields

assert len(OBSERVATION_FIELDS) == 33 and PUBLIC_FIELDS[-1] == pressure.name
assert OBSERVATION_FIELDS[-2:] == ("time_left", "inventory_left")
place, data = OBSERVATION_PLACE[pressure.name], synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=3, sessions=3)
)
n, horizon = 16, 6
for world in (
    StaticWorld(data, horizon=horizon, starts=[5]),
    DynamicWorld(horizon=horizon, bank=8),
    DynamicWorld(data, horizon=horizon, bank=8),
):
    episodes = world.draw(np.random.default_rng(0), n)
    seen, side = world.reset(episodes), episodes.orders.side
    assert seen.shape == (n, 33) == (n, world.observation_size), world.name
    if world.name == "static":
        np.testing.assert_array_equal(seen[:, place], 0.5 * side)
    else:
        view = world.core._view
        np.testing.assert_allclose(
            seen[:, place], side * 0.1 * view.spread_bps * view.imbalance, rtol=1e-5
        )
        assert np.abs(seen[:, place]).max() > 0
    seen = world.step(np.full(n, 0.25), None, new_fields(n))
    np.testing.assert_allclose(seen[:, OBSERVATION_PLACE["time_left"]], 1 - 1 / horizon)
    assert (seen[:, OBSERVATION_PLACE["inventory_left"]] < 1).all()
assert StaticEnvironment(data).observation_space.shape == (33,)
assert pressure.name in se_rl.OBSERVATION_FIELDS
print("arrived")
"""


def test_a_new_field_is_one_record_and_arrives_in_both_worlds() -> None:
    """In a process of its own, since the list is read when the package is imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "arrived"


def test_a_private_field_among_the_public_ones_is_refused() -> None:
    program = (
        "from se_rl.data import observation_fields as f\n"
        "f.FIELDS = (*f.FIELDS[:5], f.ObservationField('mine', 'shares'), *f.FIELDS[5:])\n"
        "import se_rl.data.features\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0 and "list it before or after them" in done.stderr
