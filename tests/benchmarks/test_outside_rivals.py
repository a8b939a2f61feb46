"""The rivals in markets that others built: what they do there, their lines, and the page."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from se_rl.baselines.outside import play_episodes
from se_rl.baselines.rivals.choices import ChoiceGrid
from se_rl.environments.outside.lot_world import DECISIONS, LotWorld
from se_rl.environments.outside.task import OutsideWorld, SeededEpisodes
from se_rl.modules.kinds import KINDS
from se_rl.rl.outside_training import rules_of, world_of
from se_rl.rl.policy import Neutral
from se_rl_benchmarks import outside_rivals
from se_rl_benchmarks.champion_rival import Champions
from se_rl_benchmarks.defaults import Job
from se_rl_benchmarks.outside_rivals import (
    INTERVAL,
    TASKS,
    LotHierarchy,
    QueueHierarchy,
    ShareActions,
    load_twap,
    outside_gains,
)
from se_rl_benchmarks.outside_rules import BEST_RULES, almgren_chriss, constant_offers
from se_rl_benchmarks.rivals import GROUPS, all_jobs
from se_rl_benchmarks.rivals_page import finished, page

CW = "cw-tactical-20"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, task in TASKS.items():
        monkeypatch.setitem(TASKS, name, replace(task, work=1e-3, samples=200))
    monkeypatch.setattr(outside_rivals, "EPISODES", 40)
    for name in ("qrm", CW):
        load_twap(name, "valid")
    yield
    outside_rivals.TWAP_RETURNS.clear()


def jobs_of(*names: str) -> list[Job]:
    return list(all_jobs(names, Namespace(seeds=1, budget=10.8, split="valid")))


def test_who_can_be_played_has_a_job_and_the_others_a_reason() -> None:
    for name in TASKS:
        methods = [job.method for job in jobs_of(name)]
        reasons = outside_rivals.cannot(name)
        assert methods[:2] == ["TWAP", "Almgren-Chriss"] and "DDQN" in methods
        assert not set(methods) & set(reasons) and {"OPD", "VWAP", "XS ridge"} <= set(reasons)
        assert ("submit and leave" in methods) == (name != "qrm")
        assert {job.budget for job in jobs_of(name)} == {TASKS[name].work}


def test_every_row_of_both_kinds_of_market_is_a_line_and_stands_on_the_page() -> None:
    found = [outside_gains(job) for job in jobs_of("qrm", CW)]
    for row in found:
        assert row["reason"] == "" and len(row["whole"]) == 40
        planned = outside_rivals.planned(row["set"])
        assert (row["seconds"] > 0) == (row["method"] not in planned)
        if row["method"] == "TWAP":
            assert not np.any(row["whole"])
            twap = outside_rivals.TWAP_RETURNS[row["set"], "valid"]
            assert row["returned"] == pytest.approx(twap.mean())
    made = finished(found, GROUPS, facts={"split": "valid", "seeds": 1, "jobs": "all"})
    text = page(made, GROUPS)
    assert "| method | qrm | cw-tactical-20 | CPU s |" in text
    assert "## qrm (40 episodes, SPA p" in text and "On history" not in text
    assert "| OPD | 0 | no future to see" in text
    assert f"Best simple rule: {BEST_RULES[CW][0]}." in text


def test_a_champion_is_its_network_and_one_that_cannot_be_built_says_why() -> None:
    job = replace(jobs_of("qrm")[0], method="SE-RL champion")
    strong = outside_gains(replace(job, method="PPO strong"))["whole"]
    assert outside_gains(replace(job, method="PPO tuned"))["whole"] != strong
    source = KINDS["network"].default_source
    assert outside_gains(job, Champions({}))["whole"] == strong
    assert outside_gains(job, Champions({0: {"network": source}}))["whole"] == strong
    broken = Champions({0: {"network": source}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outside_rivals, "outside_network", lambda _: _refuses)
        failed = outside_gains(job, broken)
    assert "needs 32 numbers" in failed["reason"] and failed["whole"] == []
    twap = outside_gains(replace(job, method="TWAP"))
    made = finished([twap, failed], GROUPS, facts={"split": "valid", "seeds": 1, "jobs": "all"})
    assert "needs 32 numbers" in page(made, GROUPS)


def _refuses(obs_dim: int, history: int) -> None:
    raise ValueError("needs 32 numbers")


def test_choices_are_the_shares_of_the_published_grid() -> None:
    choices = ChoiceGrid(1)
    outputs = choices.taken(torch.arange(len(choices)))[:, 0]
    shares = ShareActions().ratio(outputs, steps_left=1, neutral=Neutral(0.5))
    assert shares.tolist() == pytest.approx([0.5, 0.25, 0.75, 0.0, 1.0], abs=1e-3)


@pytest.mark.parametrize("market, hierarchy", [("qrm", QueueHierarchy), (CW, LotHierarchy)])
def test_an_interval_is_counted_by_the_market_s_own_clock(market: str, hierarchy: type) -> None:
    world = world_of(market, training=True)
    network = hierarchy(world.observation_size, 1)
    assert "time" in rules_of(market).inputs
    observation = world.reset(SeededEpisodes(np.arange(2)))
    fields = np.zeros((len(world.field_names), 2), np.float32)
    ages = []
    for _ in range(world.horizon):
        ages.append(int(network.steps_into(torch.from_numpy(observation)[:, None])[0]))
        observation = world.step(np.full(2, 0.01), np.full(2, 5.0), fields)
    assert ages == list(range(INTERVAL)) * (world.horizon // INTERVAL)


def test_plans_keep_to_their_schedules_and_who_sells_the_fall_is_ahead() -> None:
    lefts = []

    def watched(rule):
        def act(world: OutsideWorld) -> None:
            rule(world)
            lefts.append(world.remaining.max())

        return act

    world = LotWorld("noise", 20)
    rule = constant_offers(tenths=1.0, ticks=1, enforced=1.0)
    play_episodes(world, watched(rule), first_seed=0, episodes=20)
    assert (np.array(lefts) <= 20 - 2 * np.arange(DECISIONS)).all()
    lefts.clear()
    play_episodes(world, watched(almgren_chriss(2.0)), first_seed=0, episodes=20)
    assert lefts[0] < 18 and lefts[-1] == 0 and (np.diff(lefts) <= 0).all()
    world = LotWorld("strategic", 20)
    rule = BEST_RULES["cw-strategic-20"][1]
    assert play_episodes(world, rule, first_seed=0, episodes=200).returned.mean() > 0.7
