"""The worlds of a training: several horizons, all kinds of market, and what is held back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from se_rl.config import ConfigError, parse, to_dict
from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.market.family import FAMILY, free_kinds
from se_rl.market.profile import MarketProfile
from se_rl.modules.defaults import Modules
from se_rl.rl.policy import Neutral
from se_rl.rl.training_worlds import (
    TrainingWorldsConfig,
    data_arrays,
    data_from_arrays,
    dynamic_worlds,
    make_worlds,
)
from se_rl.rl.world_sampler import WorldSampler

DATA = synthetic_market(SyntheticConfig(symbols=4, sessions=20, seed=3))
SCALES = FeatureScales.fit(DATA)
CONFIG = TrainingWorldsConfig(horizons=(20, 10), dynamic_horizons=(6, 3), bank=80)


def test_held_back_days_and_episodes_are_never_drawn_in_training() -> None:
    worlds = make_worlds(Modules(), CONFIG, data=DATA, scales=SCALES)
    for name, horizons in (("static", (20, 10)), ("dynamic", (6, 3))):
        assert tuple(world.horizon for world in worlds.train[name]) == horizons
        assert tuple(world.horizon for world in worlds.held_back[name]) == horizons
    drawn = {}
    for part in ("train", "held_back"):
        rng = np.random.default_rng(0)
        static, dynamic = (getattr(worlds, part)[name][0] for name in ("static", "dynamic"))
        rows = static.draw(rng, 2000).orders.row
        drawn[part] = (set((rows % 20).tolist()), set(dynamic.draw(rng, 4000).seeds.tolist()))
    days, seeds = zip(*drawn.values(), strict=True)
    assert days == (set(range(17)), {17, 18, 19})
    assert not seeds[0] & seeds[1] and [len(each) for each in seeds] == [34, 6]


def test_a_sampler_plays_all_horizons() -> None:
    worlds = make_worlds(Modules(), CONFIG, data=DATA, scales=SCALES).train["static"]
    sampler = WorldSampler(worlds, Neutral(), samples=400, agents=1, seed=np.random.SeedSequence(0))
    assert sampler.orders == [20, 40]


def test_a_designed_market_is_half_of_training_beside_the_usual_ones() -> None:
    designed = MarketProfile(maker_lots=9.0)
    worlds = make_worlds(Modules(profile=designed), CONFIG, data=DATA, scales=SCALES)
    for world in (*worlds.train["dynamic"], *worlds.held_back["dynamic"]):
        assert isinstance(world, DynamicWorld)
        kinds = [kind.profile == designed for kind in world.kinds]
        assert sum(kinds) == len(kinds) / 2 and {kind.twin for kind in world.kinds} == {True, False}
        assert {kind.profile_name for kind in world.kinds} == {*FAMILY, "designed"}


def test_half_of_the_markets_are_twins_where_there_are_days_to_follow() -> None:
    (long, short) = dynamic_worlds(CONFIG, data=DATA, scales=SCALES)
    assert [kind.name for kind in long.kinds] == [*FAMILY, *(f"{name} twin" for name in FAMILY)]
    assert not set(long.bank["seed"].tolist()) & set(short.bank["seed"].tolist())
    alone = dynamic_worlds(CONFIG)[0]
    assert [kind.twin for kind in alone.kinds] == [False] * 3
    longer = TrainingWorldsConfig(dynamic_horizons=(len(DATA.grid) + 1,), bank=6)
    assert len(dynamic_worlds(longer, data=DATA, scales=SCALES)[0].kinds) == 3  # none would fit


def test_a_locked_process_reads_the_banks_of_its_parent() -> None:
    parents = dynamic_worlds(CONFIG, data=DATA, scales=SCALES)
    banks = {world.horizon: world.bank for world in parents}
    data, scales = data_from_arrays(data_arrays(DATA, SCALES))
    config = parse(TrainingWorldsConfig, to_dict(CONFIG))
    assert config == CONFIG
    worlds = make_worlds(Modules(), config, data=data, scales=scales, banks=banks)
    for world in worlds.train["dynamic"]:
        assert isinstance(world, DynamicWorld) and world.bank is banks[world.horizon]


def test_profiles_of_ones_own_come_from_json(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"maker_lots": 9.0}))
    kinds = free_kinds(["stressed", str(path)])
    assert [kind.name for kind in kinds] == ["stressed", "mine"]
    assert kinds[1].profile == MarketProfile(maker_lots=9.0)
    for content in ("[", '{"maker_lot": 1}', '{"maker_lots": -4}'):
        path.write_text(content)
        with pytest.raises(ConfigError, match=r"mine\.json"):
            free_kinds([str(path)])
    with pytest.raises(ConfigError, match="none of small tick"):
        free_kinds(["no such profile"])
