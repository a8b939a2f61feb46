"""Both levels of enhancement behind one door, together and alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tiny_model import build_model
from tiny_outcomes import drawn, outcomes_of

from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.high_level_enhancement import (
    HighLevelEnhancement,
    InstructionPopulation,
    PerformanceBuffer,
    Tried,
)
from se_rl.llm.local import LocalDesigner
from se_rl.llm.low_level_enhancement import LowLevelEnhancement
from se_rl.records.enhancement import EnhancementStep


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", sharpness=2.0)


@pytest.fixture
def designer(folder: Path) -> Iterator[LocalDesigner]:
    threads = torch.get_num_threads()
    yield LocalDesigner(folder, threads=1)
    torch.set_num_threads(threads)


def test_the_kit_lets_both_levels_learn(designer: LocalDesigner) -> None:
    population, buffer = InstructionPopulation(), PerformanceBuffer()
    kit = DualLevelEnhancementKit(
        HighLevelEnhancement(population, buffer, seed=1), LowLevelEnhancement(), seed=1
    )
    macro, micro = (choice.instruction for choice in kit.choose("reward", np.random.default_rng(0)))
    proposals = drawn(designer, 1, n=4)
    outcomes = [
        replace(
            outcome,
            gain={0: None, 1: 0.7, 2: -0.5}.get(i, outcome.gain),
            repeated=i == 1,
            instructions=(macro.id, micro.id),
            tried=Tried(f"c{i}", "reward", outcome.proposal.text, 1.0, outcome.gained, micro.text),
        )
        for i, outcome in enumerate(outcomes_of(proposals))
    ]
    learner, step = kit.enhance(outcomes, designer, 1)
    assert step.moved and cast(LocalDesigner, learner).adapter == "lle@1"
    assert step.learned["moved"] is True and step.learned["reason"] == ""
    assert {booked.id for booked in step.credits} == {macro.id, micro.id}
    booked = -0.5 + sum(
        outcome.gained for outcome in outcomes[2:]
    )  # the failure as the worst, the repeat as nothing
    assert step.credits[0].credit == pytest.approx(booked / (len(outcomes) + 4))
    assert len(buffer) == len(outcomes) and kit.history("reward", 4)
    assert step.instructions and all(one.iteration == 1 for one in step.instructions)


def test_either_level_of_the_kit_may_be_left_out(designer: LocalDesigner) -> None:
    outcomes, rng = outcomes_of(drawn(designer, 1, n=4)), np.random.default_rng(0)
    low = DualLevelEnhancementKit(None, LowLevelEnhancement())
    macro, micro = low.choose("reward", rng)
    assert {macro.instruction.id, micro.instruction.id} < {
        one.id for one in InstructionPopulation().members()
    }
    assert (
        macro.instruction.kind == "macro"
        and micro.instruction.kind == "reward"
        and low.history("reward") == []
    )
    assert low.enhance(outcomes, designer, 1)[1].moved
    high = DualLevelEnhancementKit(
        HighLevelEnhancement(InstructionPopulation(), PerformanceBuffer(), seed=0)
    )
    tried = [
        replace(o, tried=Tried("c", "reward", o.proposal.text, 1.0, o.gained)) for o in outcomes
    ]
    same, step = high.enhance(tried, designer, 1, constrained=False)
    assert step.weights is None and step.learned == {} and same is designer and step.instructions
    nothing = DualLevelEnhancementKit().enhance(outcomes, designer, 1)
    assert nothing == (designer, EnhancementStep())
