"""The straight-through option: a predictor checked on unseen designs, its gradient, what it does to a tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tiny_model import GRAMMAR, MESSAGES, build_model
from tiny_outcomes import drawn, outcomes_of, share

from se_rl.llm.backends import Designer, Proposal, Request
from se_rl.llm.likelihood import Choices, choices
from se_rl.llm.local import LocalDesigner
from se_rl.llm.low_level_enhancement import LoRAConfig, LowLevelEnhancement, adapter_bytes
from se_rl.llm.score_predictor import ScorePredictor, fit_predictor, ste_gradient


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", sharpness=2.0)


@pytest.fixture
def designer(folder: Path) -> Iterator[LocalDesigner]:
    threads = torch.get_num_threads()
    yield LocalDesigner(folder, threads=1)
    torch.set_num_threads(threads)


def toy_pairs(n: int, *, noise: float = 0.0) -> tuple[torch.Tensor, list[tuple[list[int], float]]]:
    rng = np.random.default_rng(3)
    table = torch.tensor(rng.normal(size=(30, 6)), dtype=torch.float32)
    bags = [rng.integers(30, size=rng.integers(4, 12)).tolist() for _ in range(n)]
    truth = table.double().numpy() @ rng.normal(size=6)
    return table, [
        (bag, float(truth[bag].mean() * (noise == 0) + noise * rng.normal())) for bag in bags
    ]


def test_the_predictor_is_checked_on_designs_it_did_not_see() -> None:
    table, pairs = toy_pairs(40)
    fitted = fit_predictor(table, pairs)
    scores = np.array([score for _, score in pairs])
    told = np.array([fitted.predict(tokens) for tokens, _ in pairs])
    assert fitted.usable and fitted.correlation > 0.95 and np.corrcoef(told, scores)[0, 1] > 0.98
    noise = fit_predictor(table, toy_pairs(40, noise=1.0)[1])
    assert not noise.usable and "left-out correlation" in noise.reason
    few = fit_predictor(table, pairs[:15])
    assert not few.usable and "15 scored designs are too few" in few.reason
    assert not fit_predictor(
        table, [(tokens, 1.0) for tokens, _ in pairs]
    ).usable  # nothing to predict


def test_the_closed_form_of_leaving_one_out_is_that_of_refitting() -> None:
    from se_rl.llm.score_predictor import _leave_one_out

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    weights = rng.uniform(0.5, 4.0, size=12)
    x, y = x - weights @ x / weights.sum(), y - weights @ y / weights.sum()
    gram = torch.tensor(x @ x.T)
    penalty = 0.5 * float(gram.diagonal().mean())
    found = _leave_one_out(gram, torch.tensor(y), 0.5, torch.tensor(weights))[0].numpy()
    for i in range(12):
        rest = np.arange(12) != i
        w = weights[rest]
        centre, mean = w @ x[rest] / w.sum(), w @ y[rest] / w.sum()
        left = x[rest] - centre
        square = left.T @ (w[:, None] * left) + penalty * np.eye(3)
        slope = np.linalg.solve(square, left.T @ (w * (y[rest] - mean)))
        assert found[i] == pytest.approx(mean + (x[i] - centre) @ slope)


def test_the_straight_through_gradient_is_that_of_expected_worth(designer: LocalDesigner) -> None:
    """Forward the worth of what was sampled, backward that of all that could have been, position by position."""
    proposals = designer.propose(Request(MESSAGES, GRAMMAR, 120, seed=2), 3)
    engine = designer._engine
    worth = torch.randn(
        len(designer.embeddings), generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    chosen = choices(engine.model, engine.tokens(list(MESSAGES)), proposals)
    moving = replace(chosen, log_probs=chosen.log_probs.detach().requires_grad_())
    values = ste_gradient(ScorePredictor(worth), moving, proposals)
    assert np.allclose(
        values.detach(), [float(worth[list(p.tokens or ())].mean()) for p in proposals], atol=1e-6
    )
    values.sum().backward()
    place = 0
    for proposal in proposals:
        for row, _ in zip(cast(Any, proposal.masks), proposal.drawn or (), strict=True):
            allowed = np.flatnonzero(np.unpackbits(row, bitorder="little"))
            chances = moving.log_probs.detach()[place].exp()
            gradient = cast(Any, moving.log_probs.grad)[place]
            expected = float(
                (chances[chances > 0] * worth[allowed]).sum() / len(proposal.tokens or ())
            )
            assert len(allowed) == int((chances > 0).sum()) and float(
                gradient.sum()
            ) == pytest.approx(expected, abs=1e-6)
            place += 1
    free = Choices(torch.zeros(1, len(worth)), torch.tensor([4]), torch.tensor([0]), 1)
    assert float(
        ste_gradient(ScorePredictor(worth), free, [Proposal("x", tokens=(4,))])
    ) == pytest.approx(float(worth[4]))


def test_straight_through_raises_the_predicted_score(designer: LocalDesigner) -> None:
    lle = LowLevelEnhancement(LoRAConfig(estimator="ste", learning_rate=3e-3, diversity=0.0))
    learner: Any = designer
    for step in range(6):
        learner, learned = lle.learn(learner, outcomes_of(drawn(learner, step)), seed=3)
        assert (
            learned.measured["ste"] == 1.0
            and learned.measured["ste_correlation"] > 0.2
            and not learned.reason
        )
    predictor = fit_predictor(designer.embeddings, list(lle._pairs))
    before, after = (
        np.mean([predictor.predict(p.tokens or ()) for p in drawn(d, 77, n=30)])
        for d in (designer, learner)
    )
    assert after > before + 0.2 and share(learner) > share(designer)


def test_with_few_designs_the_straight_through_option_says_that_reinforce_was_used(
    designer: LocalDesigner,
) -> None:
    outcomes, both = outcomes_of(drawn(designer, 1, n=5)), []
    for estimator in ("ste", "reinforce"):
        learner, learned = LowLevelEnhancement(LoRAConfig(estimator=estimator)).learn(
            cast(Designer, designer), outcomes, seed=1
        )
        both.append((learned.reason, learned.moved, adapter_bytes(cast(Any, learner))))
    assert (
        "15 scored designs are too few" in both[0][0]
        and "REINFORCE was used" in both[0][0]
        and not both[1][0]
    )
    assert both[0][1:] == both[1][1:]


def test_what_is_known_from_before_makes_it_usable_at_once(designer: LocalDesigner) -> None:
    known = [
        (proposal.text, float(proposal.text.count("a"))) for proposal in drawn(designer, 9, n=40)
    ]
    asked = []

    def prior() -> list[tuple[str, float]]:
        asked.append(1)
        return known

    lle = LowLevelEnhancement(LoRAConfig(estimator="ste"), prior=prior)
    learner: Any = designer
    for step in range(2):
        learner, learned = lle.learn(learner, outcomes_of(drawn(designer, step, n=5)), seed=1)
        assert learned.measured["ste"] == 1.0
        assert learned.measured["ste_prior"] == len(known)
    assert asked == [1]  # read once
    untouched = LowLevelEnhancement(LoRAConfig(), prior=prior)
    untouched.learn(cast(Designer, designer), outcomes_of(drawn(designer, 1, n=5)), seed=1)
    assert asked == [1]  # REINFORCE asks for no prior


def test_the_runs_own_designs_count_more_than_what_was_known_before() -> None:
    table, pairs = toy_pairs(40)
    turned = [(tokens, -score) for tokens, score in pairs]
    fitted = fit_predictor(table, pairs, prior=turned)
    told = [fitted.predict(tokens) for tokens, _ in pairs]
    assert np.corrcoef(told, [score for _, score in pairs])[0, 1] > 0.9
