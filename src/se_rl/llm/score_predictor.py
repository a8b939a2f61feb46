"""The straight-through estimator (STE), over a learned predictor of the score.

A sampled token has no gradient, and neither has the market. What can be differentiated is a
predictor fitted on designs and their scores. STE asks it: the sampled one-hot goes forward, the
softmax probabilities go backward. The result is biased twice, by the predictor's error and because
a token's effect on the tokens after it is ignored; it climbs the predictor and not the market. It
is off by default: REINFORCE needs neither assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from se_rl.llm.backends import Proposal
from se_rl.llm.likelihood import Choices

MIN_PAIRS = 16
"""Scored designs that a predictor needs."""
MIN_CORRELATION = 0.2
"""Of predicted and true scores of designs left out of the fit; below it nobody should follow it."""
OWN_WEIGHT = 4.0
"""How many designs of the prior one of the run's own counts for."""
_RIDGES = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True, eq=False)
class ScorePredictor:
    """A design's score, in standard deviations, as the mean worth of its tokens.

    It is linear in the bag of token embeddings. `correlation` is that of leave-one-out predictions;
    `reason` says why the predictor may not be used ("": it may).
    """

    worth: Tensor  # [token]
    correlation: float = 0.0
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Whether it saw enough designs and predicts those it did not see."""
        return not self.reason

    def predict(self, tokens: Sequence[int]) -> float:
        """The predicted score of a design."""
        return float(self.worth[list(tokens)].mean())


TokenScores = Sequence[tuple[Sequence[int], float]]
"""The tokens and the score of each design."""


def fit_predictor(
    embeddings: Tensor, pairs: TokenScores, *, prior: TokenScores = ()
) -> ScorePredictor:
    """Ridge regression from mean token embedding to score, its strength chosen by leaving one out.

    `embeddings` are [token, size]. What is known from before, `prior`, counts less than `pairs`.
    """
    table = embeddings.detach().double()
    own = [OWN_WEIGHT] * len(pairs)
    weights = torch.tensor([*own, *[1.0] * len(prior)], dtype=torch.float64, device=table.device)
    pairs = [*pairs, *prior]
    if len(pairs) < MIN_PAIRS:
        nothing = torch.zeros(len(table), dtype=torch.float64, device=table.device)
        reason = f"{len(pairs)} scored designs are too few for a predictor ({MIN_PAIRS})"
        return ScorePredictor(nothing, reason=reason)
    bags = torch.stack([table[list(tokens)].mean(0) for tokens, _ in pairs])  # [design, size]
    scores = torch.tensor([score for _, score in pairs], dtype=torch.float64, device=table.device)
    shares = weights / weights.sum()
    centre, mean = shares @ bags, shares @ scores
    bags, scores = bags - centre, (scores - mean) / scores.std().clamp_min(1e-12)
    gram = bags @ bags.T
    fits = [_leave_one_out(gram, scores, strength, weights) for strength in _RIDGES]
    left_out, dual = min(fits, key=lambda fit: float(shares @ (fit[0] - scores).square()))
    correlation = float(torch.nan_to_num(torch.corrcoef(torch.stack([left_out, scores]))[0, 1]))
    worth = (table - centre) @ (bags.T @ dual)
    reason = ""
    if not correlation >= MIN_CORRELATION:
        reason = (
            f"the predictor's left-out correlation is {correlation:.2f}, below {MIN_CORRELATION}"
        )
    return ScorePredictor(worth, correlation, reason)


def ste_gradient(
    predictor: ScorePredictor, chosen: Choices, proposals: Sequence[Proposal]
) -> Tensor:
    """The predicted score of each proposal, whose gradient is the straight-through one.

    Forward it is the score of the sampled tokens; backward, each drawn token pulls on the
    probabilities of all that could have stood there. Biased: it differentiates the predictor, not
    the market.
    """
    worth = predictor.worth.to(chosen.log_probs.device, chosen.log_probs.dtype)
    chances = chosen.log_probs.exp()
    sampled = F.one_hot(chosen.picked, chances.shape[1]).to(chances.dtype)
    through = (sampled + chances - chances.detach()) @ worth[_numbers(chosen, proposals)]
    written = [list(proposal.tokens or ()) for proposal in proposals]
    totals = torch.stack([worth[tokens].sum() for tokens in written])
    lengths = torch.tensor(list(map(len, written)), device=worth.device)
    moving = through - through.detach()  # forced and drawn tokens are in the totals already
    return (totals + torch.zeros_like(totals).index_add(0, chosen.owner, moving)) / lengths


def _leave_one_out(
    gram: Tensor, scores: Tensor, strength: float, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Predictions of each score by a ridge fitted on all the others, in closed form.

    With them come the dual weights of the fit on all.
    """
    ridge = strength * gram.diagonal().mean().clamp_min(1e-12)
    inverse = torch.linalg.inv(gram + torch.diag(ridge / weights))
    # hat matrix = K (K + ridge / w)^-1, plus each one's share in the mean, which is fitted too
    hat = gram @ inverse + weights / weights.sum()
    # left-out residual = residual / (1 - h_ii)
    residual = (scores - hat @ scores) / (1.0 - hat.diagonal()).clamp_min(1e-6)
    return scores - residual, inverse @ scores


def _numbers(chosen: Choices, proposals: Sequence[Proposal]) -> Tensor:
    """The tokens that the columns of `chosen.log_probs` stand for: those a mask allows, or all."""
    width, device = chosen.log_probs.shape[1], chosen.log_probs.device
    masks = [proposal.masks for proposal in proposals if proposal.masks is not None]
    if masks:
        union = np.bitwise_or.reduce(np.concatenate(masks))
        allowed = np.flatnonzero(np.unpackbits(union, bitorder="little"))
        if len(allowed) == width:
            return torch.tensor(allowed, device=device)
    return torch.arange(width, device=device)
