"""Learned baselines: seeds in equal parts, the same budget for all, policies that can be saved and evaluated again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from se_rl.baselines.learned import learned_on_history, save_policies
from se_rl.baselines.registry import LEARNED
from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
from se_rl.baselines.simulated import dynamic_rows
from se_rl.config import ConfigError
from se_rl.core.evaluate import evaluate_policy
from se_rl.core.saved_policy import SavedPolicy, policy_path
from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.task import order_pairs
from se_rl.modules.defaults import Modules
from se_rl.rl.policy_file import read_policy, read_weights, save_policy

NAMES = [rival.name for rival in LEARNED]
DATA = synthetic_market(SyntheticConfig(symbols=6, sessions=6))
CONFIG = LearnedConfig(budget=0.1, seeds=2, fresh_orders=64, dynamic_horizon=10)


@pytest.fixture(scope="module")
def learned():
    train = DATA.select(dates=DATA.dates[:4])
    orders = order_pairs(DATA, 30, dates=DATA.dates[4:])
    return learned_on_history(DATA, orders, FeatureScales.fit(train), train=train, config=CONFIG)


def test_every_design_is_trained_with_every_seed_and_the_same_budget(learned) -> None:
    assert [row.name for row in learned] == NAMES
    for row in learned:
        assert [t.seed for t in row.trained] == [0, 1] and all(
            t.reason is None for t in row.trained
        )
        assert all(CONFIG.budget <= t.work < CONFIG.budget * 3 for t in row.trained)
        assert row.seeds()["seed_sd"] > 0 and row.seeds()["ended_early"] == []


def test_a_row_is_the_mean_over_its_seeds(learned) -> None:
    row = learned[0]
    gains = [run.over_twap().mean for run in row.runs]
    assert row.whole.over_twap().mean == pytest.approx(np.mean(gains))
    np.testing.assert_allclose(
        row.record.net_price, np.mean([run.record.net_price for run in row.runs], axis=0)
    )
    np.testing.assert_allclose(row.record.forced_fills.sum(axis=1), 1.0, atol=1e-5)


def test_the_simulated_table_pairs_everything_with_twap() -> None:
    rows = dynamic_rows(CONFIG, takes_price=True)
    assert list(rows) == ["TWAP", "grid constant", *NAMES]
    assert rows["TWAP"]["saved_bps"] == 0 and rows["TWAP"]["cost_bps"] > 0
    for row in rows.values():
        assert row["twap_cost_bps"] == pytest.approx(rows["TWAP"]["cost_bps"])
        assert row["saved_bps"] == pytest.approx(row["twap_cost_bps"] - row["cost_bps"], abs=1e-6)
    assert "touch" in rows["grid constant"]["schedule"]


def test_a_saved_policy_does_the_same_again(learned, tmp_path: Path) -> None:
    save_policies(tmp_path, learned, data={"name": "synthetic"})
    names = sorted(path.name for path in tmp_path.glob("*"))
    stems = [name.lower().replace(" ", "-") for name in NAMES]
    assert names == sorted(f"{stem}-{seed}.policy" for stem in stems for seed in (0, 1))
    again, facts = read_policy(tmp_path / "ppo-strong-1.policy", Modules())
    assert facts["trained_on"] == {"name": "synthetic"} and again.seed == 1
    seen = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
    answers = []
    for runner in (learned[0].trained[1].runner("static"), again.runner("static")):
        runner.start(5, 30)
        answers.append(runner.act(seen)[0])
    np.testing.assert_array_equal(*answers)


def test_evaluate_scores_a_policy_on_other_data_and_locks_up_designed_source(
    learned, tmp_path: Path
) -> None:
    save_policies(tmp_path, learned[:1], data={"name": "synthetic"})
    config = BaselinesConfig(data="csi100", horizon=30, symbols=("SYN001",), scored_days=4)
    plain = evaluate_policy(tmp_path / "ppo-strong-0.policy", config)
    assert (
        plain["policy"]["isolation"].startswith("not needed")
        and plain["methods"]["PPO strong"]["AFI"] == 0
    )
    facts = read_weights(tmp_path / "ppo-strong-0.policy")[1]
    designed = tmp_path / "designed.policy"
    source = {"reward": "def reward(step):\n    return step.traded_share * step.fill_price\n"}
    save_policy(designed, learned[0].trained[0], design=source, facts={"name": facts["name"]})
    locked = evaluate_policy(designed, config)
    assert locked["policy"]["isolation"] in ("strong", "standard")
    assert locked["methods"]["PPO strong"]["PA"] == plain["methods"]["PPO strong"]["PA"]


def test_a_stored_rival_does_the_same_again_and_a_stranger_is_refused(
    learned, tmp_path: Path
) -> None:
    save_policies(tmp_path, learned[2:], data={"name": "synthetic"})
    seen = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
    for row in learned[2:]:
        path = tmp_path / f"{row.name.lower()}-1.policy"
        answers = []
        for actor in (row.trained[1].runner("static"), SavedPolicy(path).actor("static", 30, 5)):
            actor.start(5, 30)
            answers.append([np.stack(actor.act(seen)) for _ in range(3)])
        np.testing.assert_array_equal(*answers)
    other = tmp_path / "other.policy"
    save_policy(other, learned[2].trained[0], design={}, facts={"rival": "X" * 10_000})
    with pytest.raises(ConfigError, match="is unknown; known are DDQN"):
        SavedPolicy(other).actor("static", 30, 5)


def test_a_place_without_a_policy_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds none"):
        policy_path(tmp_path)
    for name in ("a.policy", "b.policy"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match="name one of them"):
        policy_path(tmp_path)
    (tmp_path / "best.policy").touch()
    assert policy_path(tmp_path).name == "best.policy"
