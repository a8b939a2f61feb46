"""How likely an action is, given a policy's outputs, and the derivatives of that by hand.

What belongs to a row lies along the last dimension; between the first, the numbers of an action, and
it there may be others, such as many policies at once. A law serves one minibatch: `log_prob` keeps what
`differentiate` needs.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class ActionLaw(Protocol):
    """Log-probs of what was done, then their derivatives."""

    def log_prob(self, outputs: Tensor, taken: Tensor) -> Tensor:
        """Of what was done [taken, n], given outputs [action, n]."""
        ...

    def differentiate(self, by_log_prob: Tensor, to_outputs: Tensor, *, scale: float) -> None:
        """Write the loss's derivatives by the outputs, given those by the log-probs [n].

        What the loss takes from the law itself (a bonus) counts `scale` a row.
        """
        ...


class NormalLaw:
    """Numbers around the first outputs; `noise` are the logarithms of their standard deviations.

    The derivatives by the noise are added to `to_noise`, with the bonus for entropy.
    """

    def __init__(self, noise: Tensor, to_noise: Tensor, *, bonus: float) -> None:
        self._noise = noise
        self._to_noise = to_noise
        self._bonus = bonus

    def log_prob(self, outputs: Tensor, taken: Tensor) -> Tensor:
        """Log densities."""
        used = len(taken)
        self._inverse = torch.exp(-self._noise)[..., None]
        # log-prob = sum(-z^2 / 2 - log s - log(2 pi) / 2), z = (x - m) / s
        self._z = (taken - outputs[:used]).mul_(self._inverse)
        constant = self._noise.sum(0) + 0.5 * used * math.log(2 * math.pi)
        return self._z.square().sum(0).mul_(-0.5).sub_(constant[..., None])

    def differentiate(self, by_log_prob: Tensor, to_outputs: Tensor, *, scale: float) -> None:
        """By the means, and by the noise."""
        used = len(self._z)
        # d log-prob / d m = z / s, d log-prob / d log s = z^2 - 1
        pull = self._z * by_log_prob
        to_outputs[used:].zero_()
        torch.mul(pull, self._inverse, out=to_outputs[:used])
        self._to_noise += pull.mul_(self._z).sub_(by_log_prob).sum(-1)
        # L = ... - c H, and d H / d log s = 1
        self._to_noise -= scale * by_log_prob.shape[-1] * self._bonus


class ChoiceLaw:
    """One of the outputs, with the probability that their softmax gives."""

    def __init__(self, *, bonus: float) -> None:
        self._bonus = bonus

    def log_prob(self, outputs: Tensor, taken: Tensor) -> Tensor:
        """Of the chosen ones, whose numbers are `taken` [1, n]."""
        self._chosen = taken.long()
        self._logs = functional.log_softmax(outputs, dim=0)
        return self._logs.gather(0, self._chosen)[0]

    def differentiate(self, by_log_prob: Tensor, to_outputs: Tensor, *, scale: float) -> None:
        """By the scores."""
        chances = torch.exp(self._logs)
        # d log p_i / d score_j = [i = j] - p_j
        torch.mul(chances, -by_log_prob, out=to_outputs)
        to_outputs.scatter_add_(0, self._chosen, by_log_prob[None])
        if self._bonus:
            # L = ... - c H, and d H / d score_j = -p_j (log p_j + H)
            entropy = -(chances * self._logs).sum(0)
            to_outputs += chances.mul_(self._logs + entropy).mul_(scale * self._bonus)
