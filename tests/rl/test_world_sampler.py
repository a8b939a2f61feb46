from __future__ import annotations

import numpy as np
import torch

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders
from se_rl.environments.worlds import Episodes
from se_rl.modules.defaults import Modules, reward
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.world_sampler import WorldSampler, orders_of_batch, over_copies, repeated

COPIES = 4


def test_copies_of_a_book_stand_side_by_side_with_their_agents_and_seeds() -> None:
    sides = np.array([1, 1, 1, -1, -1, -1, -1, 1], np.int8)  # two books of two agents, both sides
    rows = np.arange(8)
    orders = Orders.of_usual_size(rows, np.zeros(8, np.int64), sides, np.ones(8), 5)
    copied = repeated(Episodes(orders, np.array([7, 8, 7, 8])), 2, agents=2)
    assert copied.orders.row.tolist() == [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7]
    assert copied.book_seeds.tolist() == [7, 7, 8, 8, 7, 7, 8, 8]
    # the other side of an order is still half a batch away
    assert (copied.orders.side[:8] == -copied.orders.side[8:]).all()


def test_a_batch_has_whole_groups_of_copies() -> None:
    for copies in (1, 2, 4):
        for agents in (1, 3):
            orders = orders_of_batch(16_384, 40, agents, copies)
            assert orders % (2 * agents * copies) == 0 and 350 < orders <= 409
    assert orders_of_batch(10, 40, 1, 4) == 8


def test_what_the_copies_share_is_luck_to_the_policy_and_a_lesson_to_the_value() -> None:
    data = synthetic_market(SyntheticConfig(symbols=5, sessions=4))
    world = StaticWorld(data, horizon=12)
    policy = Policy(Modules(), observation_size=world.observation_size, actions=1)
    sampler = WorldSampler(
        [world],
        Neutral(),
        samples=12 * 16 * COPIES,
        agents=1,
        seed=np.random.SeedSequence(0),
        copies=COPIES,
    )
    rollout = sampler.play(policy, ActionMap())
    first = rollout.observations[0].view(-1, COPIES, world.observation_size)
    assert torch.equal(first, first[:, :1].expand_as(first))
    assert len(rollout.outputs[0, :COPIES].unique()) == COPIES
    found = sampler.estimates(rollout, rollout.rewards(reward, bound=1e4), gamma=1.0, lam=1.0)
    groups = found.advantages.view(12, -1, COPIES)
    torch.testing.assert_close(groups.mean(2), torch.zeros_like(groups[..., 0]), atol=1e-5, rtol=0)
    whole = found.returns - rollout.values
    torch.testing.assert_close(over_copies(whole, COPIES, agents=1), found.advantages)
    assert float(whole.view(12, -1, COPIES).mean(2).std()) > 0.0


def test_the_mean_of_copies_takes_shared_luck_away_and_leaves_the_effect_of_the_noise() -> None:
    # return = luck of the book + slope * noise; the gradient E[A * noise] is the slope
    generator = torch.Generator().manual_seed(0)
    books = 4000
    luck = 5.0 * torch.randn((1, books, 1), generator=generator)
    noise = torch.randn((1, books, COPIES), generator=generator)
    estimates = (luck + 0.5 * noise).view(1, -1)
    centred = over_copies(estimates, COPIES, agents=1)
    own_part = (COPIES - 1) / COPIES  # of a copy in its own mean
    slope = float((centred * noise.view(1, -1)).mean()) / own_part
    assert abs(slope - 0.5) < 0.02
    assert float(centred.std()) < 0.1 * float(estimates.std())
