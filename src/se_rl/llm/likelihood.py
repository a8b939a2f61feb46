"""How likely a model finds proposals that it wrote: exact, and with gradient.

Each drawn token is judged under the mask and temperature that it was drawn with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from se_rl.llm.attention import forward
from se_rl.llm.backends import LlmError, Proposal
from se_rl.llm.decoding import masked_log_softmax


@dataclass(frozen=True)
class Choices:
    """The distributions that the tokens of some proposals were drawn from.

    D tokens were drawn, and the grammar ever allowed U different ones.
    """

    log_probs: Tensor  # [D, U]
    picked: Tensor  # [D], the column of the token that was drawn
    owner: Tensor  # [D], the proposal it belongs to
    count: int

    @property
    def totals(self) -> Tensor:
        """Log-prob of each proposal."""
        zeros = self.log_probs.new_zeros(self.count)
        return zeros.index_add(0, self.owner, self.log_probs.gather(1, self.picked[:, None])[:, 0])


Surrogate = Callable[[Choices, Sequence[Proposal]], Tensor]
"""What learning may maximise instead of advantage * log p: one number a proposal, with gradient."""


class _Packed:
    """Proposals laid out one after the other behind their prompt, to be read in one pass."""

    def __init__(self, prompt: Sequence[int], mask_bytes: int) -> None:
        self.mask_bytes = mask_bytes
        self.prompt_length = len(prompt)
        self.ids = list(prompt)
        self.positions = list(range(len(prompt)))
        self.segment = [-1] * len(prompt)  # which proposal a token belongs to; -1: the prompt
        # one entry for each drawn token
        self.source: list[int] = []  # where the token before it stands in `ids`
        self.token: list[int] = []
        self.owner: list[int] = []
        self.heat: list[float] = []
        self.masks: list[npt.NDArray[np.uint8]] = []

    def add(self, number: int, proposal: Proposal) -> None:
        """Append a proposal, all but its last token, which nothing follows."""
        if not proposal.tokens:
            raise LlmError(
                f"proposal {number} has no tokens to learn from;"
                " only a local model's proposals have them"
            )
        drawn = range(len(proposal.tokens)) if proposal.drawn is None else proposal.drawn
        heat = proposal.request.temperature if proposal.request else 1.0
        for place in drawn:
            before = len(self.ids) + place - 1 if place else self.prompt_length - 1
            self.source.append(before)
            self.token.append(proposal.tokens[place])
            self.owner.append(number)
            self.heat.append(heat)
        everything = np.full((len(drawn), self.mask_bytes), 255, np.uint8)
        self.masks.append(everything if proposal.masks is None else proposal.masks)
        start, length = self.prompt_length, len(proposal.tokens) - 1
        self.ids += proposal.tokens[:-1]
        self.positions += range(start, start + length)
        self.segment += [number] * length


def choices(model: Any, prompt: Sequence[int], proposals: Sequence[Proposal]) -> Choices:
    """The distributions that the proposals' tokens were drawn from, with gradient.

    The prompt is read once for all of them.
    """
    device = model.device
    size = model.get_output_embeddings().weight.shape[0]
    packed = _Packed(prompt, mask_bytes=-(-size // 8))
    for number, proposal in enumerate(proposals):
        packed.add(number, proposal)
    part = torch.tensor(packed.segment, device=device)
    seen = ((part < 0) | (part == part[:, None])).tril()  # the prompt and its own proposal
    ids = torch.tensor(packed.ids, device=device)
    hidden = forward(model, ids, torch.tensor(packed.positions), seen)[packed.source]
    heat = torch.tensor(packed.heat, device=device)[:, None]
    log_probs, numbers = masked_log_softmax(model, hidden, np.concatenate(packed.masks), heat)
    picked = torch.searchsorted(numbers, torch.tensor(packed.token, device=device))
    owner = torch.tensor(packed.owner, device=device, dtype=torch.long)
    return Choices(log_probs, picked, owner, len(proposals))


def log_probs(model: Any, prompt: Sequence[int], proposals: Sequence[Proposal]) -> Tensor:
    """Log-prob of each proposal, with gradient: the sampler's own up to rounding."""
    return choices(model, prompt, proposals).totals
