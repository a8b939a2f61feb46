"""Networks that the grammar spells act without a lock: as they do behind it, on each row alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.modules.edits import single_edits
from se_rl.modules.grammar import draw
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import FAMILIES
from se_rl.modules.loading import load_design, load_module
from se_rl.rl.locked_training import WEIGHT, make_actor
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.rl.written_policy import (
    PolicyError,
    WrittenPolicy,
    is_written,
    written_modules,
    written_policy,
)
from se_rl.scoring.play import OwnRows, play

SIZE = len(OBSERVATION_FIELDS)
ROW_MIXER = """class Network(nn.Module):
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 8
        self.first = nn.Linear(obs_dim * history, 8)

    def forward(self, obs):
        return self.first(obs.flatten(1) - obs.flatten(1).mean(0))
"""
NEUTRAL = Neutral(1.2, 0.5)


def drawn_networks(count: int, rng: np.random.Generator) -> list[str]:
    rules = KINDS["network"].all_rules
    families = [family for family in FAMILIES if family in rules]
    return [draw(rules, rng, start=families[at % len(families)]) for at in range(count)]


def networks() -> list[str]:
    rng = np.random.default_rng(5)
    return [
        *single_edits(KINDS["network"].default_source, "network", rng),
        *drawn_networks(120, rng),
    ]


def trained(sources: dict[str, str]) -> TrainedDesign:
    torch.manual_seed(3)
    shape = {"observation_size": SIZE, "actions": 2, "agents": 1, "message_size": 0, "worlds": 2}
    policy = Policy(load_design(sources), **shape)
    with torch.no_grad():
        policy.heads.weight.normal_()
    weights = {WEIGHT + name: value.numpy() for name, value in policy.state_dict().items()}
    scales = {"zero": 0.75, "scale": 1.5, "price_scale": 2.0}
    return TrainedDesign(
        sources, "ok", None, "", 0.0, shape=shape, action_map=scales, weights=weights
    )


def opened(design: TrainedDesign, world: str = "static") -> WrittenPolicy:
    policy = written_policy(design)
    assert policy is not None
    assert design.action_map is not None
    return WrittenPolicy(policy, ActionMap(**design.action_map), world=world, neutral=NEUTRAL)


def test_every_network_of_the_grammar_sees_each_row_alone() -> None:
    rng = torch.Generator().manual_seed(1)
    for source in networks():
        network = load_module(source, "network")
        history = int(getattr(network, "history", 1))
        net = network(SIZE, history)
        rows = torch.randn((9, history, SIZE), generator=rng)
        others = torch.randn((9, history, SIZE), generator=rng) * 10.0
        others[4] = rows[4]
        with torch.no_grad():
            whole, alone, changed = net(rows), net(rows[4:5]), net(others)
        torch.testing.assert_close(whole[4:5], alone, msg=source)
        torch.testing.assert_close(whole[4], changed[4], msg=source)


@pytest.mark.parametrize("world", ["static", "dynamic"])
def test_it_acts_as_it_does_behind_the_lock(world: str) -> None:
    rng = np.random.default_rng(2)
    for source in [None, *drawn_networks(6, rng)]:
        design = trained({} if source is None else {"network": source})
        assert design.weights is not None
        payload = {
            "sources": dict(design.sources),
            "shape": design.shape,
            "action_map": design.action_map,
            "neutral": {"multiple": NEUTRAL.multiple, "offset": NEUTRAL.offset},
            "world": world,
            "horizon": 5,
            **design.weights,
        }
        locked = make_actor(payload)
        free = opened(design, world)
        free.start(7, 5)
        for _ in range(5):
            observation = rng.normal(size=(7, SIZE)).astype(np.float32)
            behind = locked(observation).astype(np.float64)
            ratio, offset = free.act(observation)
            np.testing.assert_array_equal(ratio, behind[:, 0])
            np.testing.assert_array_equal(offset, behind[:, 1])


def test_other_texts_stay_behind_the_lock() -> None:
    own = KINDS["network"].default_source
    for source in (ROW_MIXER, own + "\nimport os\n", own.replace("64", "65"), ""):
        assert not is_written({"network": source})
    assert written_policy(trained({"network": ROW_MIXER})) is None
    talkers = trained({})
    assert talkers.shape is not None
    assert written_policy(replace(talkers, shape={**talkers.shape, "agents": 2})) is None
    assert is_written({"reward": "whatever", "network": own})


def test_a_reward_in_python_does_not_matter_to_the_policy() -> None:
    free = "def reward(step):\n    raise SystemExit\n"
    design = trained({})
    assert written_policy(replace(design, sources={"reward": free})) is not None


def test_forged_weights_are_refused() -> None:
    design = trained({})
    weights = dict(design.weights or {})
    name = WEIGHT + "heads.weight"
    with pytest.raises(PolicyError, match="weights are not the network's"):
        written_policy(replace(design, weights={**weights, name: np.zeros((1, 1), np.float32)}))
    broken = replace(design, weights={**weights, name: np.full_like(weights[name], np.nan)})
    actor = opened(broken)
    actor.start(3, 5)
    with pytest.raises(PolicyError, match="not finite"):
        actor.act(np.ones((3, SIZE), np.float32))


def test_opening_a_policy_draws_no_number_from_the_common_generator() -> None:
    design = trained({})
    torch.manual_seed(11)
    before = torch.random.get_rng_state()
    written_policy(design)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_one_batch_gives_what_groups_give() -> None:
    data = synthetic_market(SyntheticConfig(symbols=4, sessions=4, seed=3))
    world = StaticWorld(data, horizon=30)
    orders = Episodes(order_pairs(data, 30))
    design = trained({})
    sizes: list[int] = []

    def open_policy(name: str, horizon: int, rows: int) -> WrittenPolicy:
        sizes.append(rows)
        return opened(design)

    groups = play(world, orders, open_policy)
    assert max(sizes) < len(orders)
    sizes.clear()
    whole = play(world, orders, OwnRows(open_policy))
    assert sizes == [len(orders)]
    np.testing.assert_allclose(whole.gain, groups.gain, atol=1e-4)
    np.testing.assert_array_equal(whole.clusters, groups.clusters)


def test_a_design_is_written_back_from_its_choices_or_not_at_all() -> None:
    reward, network = (KINDS[kind].default_source for kind in ("reward", "network"))
    found = written_modules({"reward": reward, "network": network})
    assert found is not None and found.network is written_modules({"network": network}).network
    assert found.reward is not load_module(reward, "reward")
    assert written_modules({}) is not None
    hidden = reward.replace("return own - twap", "open('/etc/passwd'); return own - twap")
    assert hidden != reward and written_modules({"reward": hidden}) is None
    assert written_modules({"network": ROW_MIXER}) is None
    imagined = KINDS["imagination"].contract.examples[0]
    assert written_modules({"imagination": imagined}) is None
