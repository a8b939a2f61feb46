"""A designer that learns its trade: situations of the bank, lessons, a training that goes on bit for bit, its card."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from se_rl.config import ConfigError
from se_rl.core.designer_training.command import main
from se_rl.core.designer_training.lessons import example_weights, examples, judged
from se_rl.core.designer_training.situations import GainJudge, Situation, Situations, split_bank
from se_rl.core.designer_training.skill import (
    edit_pairs,
    held_out_situations,
    one_step,
    random_writer,
    skill_of,
)
from se_rl.core.designer_training.training import DesignerPlan, DesignerTraining
from se_rl.core.designer_training.wishes import WISHES
from se_rl.core.operators import Plan
from se_rl.llm.adapter_file import adapter_head, read_adapter
from se_rl.llm.design_outcomes import advantages, design_scores
from se_rl.llm.editing import SHOWN_EDITS
from se_rl.llm.local import LocalDesigner
from se_rl.llm.low_level_enhancement import LoRAConfig
from se_rl.modules.design_bank.readings import BankedDesign
from se_rl.modules.design_bank.storage import DesignBank, load_bank
from se_rl.modules.edits import single_edits
from se_rl.modules.kinds import KINDS
from se_rl.records.entries import DEFAULT, Candidate, Instruction
from se_rl.records.settings import preset

TINY: Any = import_module("tiny_run")
WEIGHTS = preset("quick").weights
PLAN = DesignerPlan(
    imitation_steps=2, reinforce_steps=1, prompts=1, examples=4, group=4, rank=2, alpha=4
)
WORDS = (
    "--imitation-steps 2 --reinforce-steps 1 --prompts 1 --examples 4 --group 4 --rank 2 --alpha 4"
)


@pytest.fixture(scope="module")
def bank() -> DesignBank:
    return load_bank()


@pytest.fixture(scope="module")
def judge(bank: DesignBank) -> GainJudge:
    return GainJudge(bank, split_bank(bank, seed=0).learned, WEIGHTS)


@pytest.fixture(scope="module")
def situations(bank: DesignBank, judge: GainJudge) -> Situations:
    return Situations(bank, split_bank(bank, seed=0).learned, judge)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    TINY.make_model(folder)
    return folder


@pytest.fixture
def designer(model: Path) -> LocalDesigner:
    torch.set_num_threads(1)
    return LocalDesigner(model, threads=1)


def test_a_chain_is_kept_out_as_a_whole(bank: DesignBank) -> None:
    chained: list[BankedDesign] = []
    for place, one in enumerate(bank.designs):
        if one is not bank.default:
            chained.append(replace(one, design=replace(one.design, chain=f"chain {place % 50}")))
    made = DesignBank(bank.head, ())
    vars(made)["designs"] = (bank.default, *chained)
    vars(made)["default"] = bank.default
    split = split_bank(made, seed=3)
    learned = {one.design.chain for one in split.learned}
    kept_out = {one.design.chain for one in split.kept_out}
    assert not learned & kept_out and len(learned | kept_out) == 50 and len(kept_out) == 10
    assert len(split.learned) + len(split.kept_out) == len(bank.designs) - 1
    assert split_bank(made, seed=3) == split != split_bank(made, seed=4)


def test_gains_are_over_the_parent(
    bank: DesignBank, judge: GainJudge, situations: Situations
) -> None:
    situation = situations.draw(np.random.default_rng(1))
    module = situation.task.code_type
    sources = single_edits(situation.task.source, module, np.random.default_rng(0))[:3]
    own = judge.scores([situation.parent])[0]
    expected = judge.scores([situation.with_module(source) for source in sources]) - own
    assert judge.gains(situation, sources) == pytest.approx(expected)
    assert judge.gains(situation, [situation.task.source]) == pytest.approx([0.0])
    assert judge.scores([bank.head.default]) == pytest.approx([0.0])


def test_situations_are_those_of_a_search(situations: Situations) -> None:
    rng = np.random.default_rng(0)
    drawn = [situations.draw(rng) for _ in range(60)]
    assert {one.task.code_type for one in drawn} == {"reward", "network", "imagination"}
    assert {one.task.changes for one in drawn} == {1, 2, 3}
    assert 0.1 < np.mean([not one.parent for one in drawn]) < 0.5
    assert any(one.wish for one in drawn) and any(one.task.micro is None for one in drawn)
    assert max(len(one.task.tried) for one in drawn) == SHOWN_EDITS
    assert not any(one.wish and one.task.micro is None for one in drawn)
    for one in drawn:
        gains = [edit.gain for edit in one.task.tried]
        assert gains == sorted(gains)


def test_a_prompt_is_the_one_that_a_run_writes(situations: Situations) -> None:
    task = situations.draw(np.random.default_rng(5), wish="small").task
    choice = {"module": task.code_type, "operator": "edit", "model": "untouched"}
    asked = Instruction("x", task.code_type, task.micro or "", "mutation")
    plan = Plan(
        4,
        choice,
        Candidate("p", {}, DEFAULT),
        {task.code_type: task.source},
        micro=asked,
        score=task.score,
        changes=task.changes,
        edits=task.tried,
    )
    assert plan.edit_task == task
    request = plan.edit_task.request(constrained=True, seed=9)
    assert request == task.request(constrained=True, seed=9)
    assert "Make it small" in request.messages[1]["content"]


def test_a_wish_makes_edits_worth_more_that_go_its_way(judge: GainJudge) -> None:
    source = KINDS["network"].default_source
    wide = source.replace("width = 64", "width = 96")
    narrow = source.replace("width = 64", "width = 8")
    assert len({source, wide, narrow}) == 3
    task = Situations(load_bank(), (), judge).draw(np.random.default_rng(0)).task
    task = replace(task, code_type="network", source=source)
    gains = np.array([0.3, 0.1])
    assert Situation("p", {}, task).worth(gains, [wide, narrow]) is gains
    worth = Situation("p", {}, task, "small").worth(gains, [wide, narrow])
    assert worth == pytest.approx([0.1, 0.3])  # two spreads of .1 each way


def test_weights_of_examples_are_one_on_average_and_rise_with_the_gain() -> None:
    weights = example_weights(np.array([0.0, 1.0, 3.0]), sharpness=2.0)
    standard = (np.array([0.0, 1.0, 3.0]) - 4 / 3) / np.std([0.0, 1.0, 3.0])
    assert weights == pytest.approx(3 * np.exp(2 * standard) / np.exp(2 * standard).sum())
    assert example_weights(np.zeros(4), sharpness=2.0) == pytest.approx(np.ones(4))


def test_imitation_makes_good_edits_likelier(
    designer: LocalDesigner, judge: GainJudge, situations: Situations
) -> None:
    situation = situations.draw(np.random.default_rng(2))
    learner = designer.new_adapter("edits", seed=0)
    rng = np.random.default_rng(0)
    proposals, weights = examples(learner, situation, judge, n=6, sharpness=2.0, rng=rng)
    assert all(proposal.log_prob is None for proposal in proposals)
    for proposal in proposals:
        assert situation.task.choices.read(proposal.text).source not in (
            None,
            situation.task.source,
        )
    before = learner.log_probs(proposals)
    for _ in range(4):
        learner.update(proposals, weights, learning_rate=3e-3, kl_coef=0.0)
    gained = (learner.log_probs(proposals) - before).numpy()
    assert np.isfinite(before.numpy()).all() and float(np.mean(weights * gained)) > 0.2


@pytest.mark.parametrize("wish", WISHES)
def test_examples_of_a_wish_all_go_its_way(
    wish: str, designer: LocalDesigner, judge: GainJudge, situations: Situations
) -> None:
    rng = np.random.default_rng(0)
    for seed in range(1, 5):  # some modules have few edits that go one way
        situation = situations.draw(np.random.default_rng(seed), wish=wish)
        proposals, weights = examples(designer, situation, judge, n=6, sharpness=0.0, rng=rng)
        if proposals:
            break
    assert proposals and sum(weights) == pytest.approx(6.0), "few examples count as much as many"
    for proposal in proposals:
        source = situation.task.choices.read(proposal.text).source
        assert source is not None and situation.grants(source)
    assert not situation.grants(situation.task.source)


def test_own_edits_are_judged_among_their_siblings(
    designer: LocalDesigner, judge: GainJudge, situations: Situations
) -> None:
    situation = situations.draw(np.random.default_rng(2))
    proposals = designer.propose(situation.task.request(constrained=True, seed=1), 4)
    outcomes = judged(situation, [*proposals, proposals[0]], judge)
    assert not outcomes[0].repeated and outcomes[-1].repeated
    assert (
        outcomes[0].gain == pytest.approx(outcomes[-1].gain)
        and len({one.group for one in outcomes}) == 1
    )
    assert len({len(one.behaviour) for one in outcomes}) == 1 and any(outcomes[0].behaviour)
    each = advantages(outcomes, design_scores(outcomes, LoRAConfig()))
    assert each[0] > each[-1], "a repeat is worth less"


def test_an_interrupted_training_goes_on_bit_for_bit(
    designer: LocalDesigner, model: Path, bank: DesignBank, tmp_path: Path
) -> None:
    def opened(folder: str, plan: DesignerPlan = PLAN) -> DesignerTraining:
        base = LocalDesigner(model, threads=1)
        return DesignerTraining(base, bank, WEIGHTS, plan, tmp_path / folder)

    whole = opened("whole")
    whole.run(until=np.inf, say=lambda _: None)
    assert [row.phase for row in whole.rows] == ["imitation", "imitation", "reinforce"]
    first = opened("parts")
    first.rows.append(replace(whole.rows[0], measured=first._step(0)))
    first.save()
    again = opened("parts")
    assert again.done == 1 and again.rows == whole.rows[:1]
    again.run(until=time.monotonic())  # no time: nothing happens
    assert again.done == 1
    again.run(until=np.inf, say=lambda _: None)
    assert again.rows == whole.rows
    assert again.designer.adapter_bytes() == whole.designer.adapter_bytes()
    with pytest.raises(ConfigError, match="other settings; give those, or another --out"):
        opened("parts", replace(PLAN, kl_coef=0.1))
    _the_command_writes_adapter_and_card(model, tmp_path)


def test_a_training_goes_on_from_a_given_adapter(
    designer: LocalDesigner, bank: DesignBank, tmp_path: Path
) -> None:
    plan = replace(PLAN, imitation_steps=1, reinforce_steps=0)
    first = DesignerTraining(designer, bank, WEIGHTS, plan, tmp_path / "first")
    first.run(until=np.inf, say=lambda _: None)
    place = tmp_path / "adapter.safetensors"
    place.write_bytes(first.designer.adapter_bytes(to_ship=True))
    given = read_adapter(place)

    def opened() -> DesignerTraining:
        return DesignerTraining(designer, bank, WEIGHTS, plan, tmp_path / "next", given=given)

    following = opened()
    assert following.designer.adapter == "edits@1" and following.done == 0
    following.run(until=np.inf, say=lambda _: None)
    assert following.designer.adapter == "edits@2" and following.plan.adapter == given.sha256
    assert opened().rows == following.rows != first.rows
    with pytest.raises(ConfigError, match="other settings"):
        DesignerTraining(designer, bank, WEIGHTS, plan, tmp_path / "next")


def _the_command_writes_adapter_and_card(model: Path, tmp_path: Path) -> None:
    """Goes on with the training that is finished, so that it has only to measure."""
    out = tmp_path / "whole"
    words = ["--model", str(model), "--out", str(out), "--parents", "2", "--edits", "2"]
    assert main([*words, *WORDS.split()]) == 0
    head = adapter_head((out / "adapter.safetensors").read_bytes())
    assert head is not None and head.id == "edits@3" and head.rank == 2
    told = json.loads((out / "card.json").read_text())
    assert set(told["whole_bank"]) == set(told["kept_out"]) == {"random", "untouched", "edits@3"}
    edited = len(load_bank().designs) - 1
    assert told["learned"] + told["kept_out_designs"] == edited and len(told["steps"]) == 3
    page = (out / "card.md").read_text()
    assert "| impact-averse | edits@3 |" in page and "--parents 2 --edits 2" in page


def test_a_plan_that_cannot_learn_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="group is 1; give 2 or more"):
        replace(PLAN, group=1)
    assert main(["--model", "nobody_has_this", "--out", "nowhere"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert main(["--threads", "-1", "--out", "nowhere"]) == 2
    assert capsys.readouterr().err == "train_designer: threads is -1; give 1 or more\n"


def test_skill_is_the_mean_over_parents_with_their_interval(
    bank: DesignBank, judge: GainJudge
) -> None:
    found = one_step([1.0, 3.0, -1.0, 1.0], ["a", "a", "b", "b"])
    assert (found.n, found.mean_gain, found.positive_share) == (4, 1.0, 0.75)
    # two parents with means 2 and 0: se = sqrt(2 * (2^2 + 2^2)) / 4 = 1, Student t of one degree
    assert found.ci95 == pytest.approx((1.0 - 12.706, 1.0 + 12.706), abs=1e-2)
    assert one_step([], []).n == 0
    kept_out = Situations(bank, split_bank(bank, seed=0).kept_out, judge, default_share=0.0)
    parents = held_out_situations(kept_out, 5, seed=1)
    assert [one.name for one in parents] == [
        one.name for one in held_out_situations(kept_out, 5, seed=1)
    ]
    names = {one.design.id for one in split_bank(bank, seed=0).learned}
    assert not names & {one.name for one in parents}
    pairs = edit_pairs(random_writer(0), parents, judge, edits=3)
    assert skill_of(pairs).n == len(pairs) == 15
    assert all(pair.source != pair.situation.task.source for pair in pairs)
