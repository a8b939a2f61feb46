"""One step of REINFORCE on an adapter.

loss = -mean(advantage * log p) / mean drawn tokens + kl_coef * KL

KL is the exact divergence from the untouched model at the drawn tokens, under the same masks and
temperature. A surrogate may replace advantage * log p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from se_rl.llm.backends import LlmError, Proposal
from se_rl.llm.engine import Engine
from se_rl.llm.likelihood import Choices, Surrogate, choices

_CHUNK_TOKENS = 1024  # of answers in one backward pass: bounds its memory


@dataclass
class _Sums:
    """What an update adds up over its chunks, and the largest drift seen in them."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    log_prob: float = 0.0
    drift: float = 0.0

    def add(self, loss: Tensor, kl: Tensor, entropy: Tensor, log_prob: Tensor) -> None:
        """Add one chunk."""
        self.loss += float(loss.detach())
        self.kl += float(kl.detach())
        self.entropy += float(entropy.detach())
        self.log_prob += float(log_prob.detach())

    def measured(self, drawn: int, *, gradient: float) -> dict[str, float]:
        """The sums per drawn token, and what belongs to the step as a whole."""
        return {
            "loss": self.loss / max(1, drawn),
            "kl": self.kl / max(1, drawn),
            "entropy": self.entropy / max(1, drawn),
            "log_prob": self.log_prob / max(1, drawn),
            "gradient": gradient,
            "drift": self.drift,
            "drawn_tokens": float(drawn),
        }


def reinforce_step(
    engine: Engine,
    optimizer: torch.optim.Optimizer,
    proposals: Sequence[Proposal],
    advantages: Sequence[float],
    *,
    adapter: str,
    kl_coef: float,
    max_gradient: float,
    surrogate: Surrogate | None,
) -> dict[str, float]:
    """Move the weights of an adapter (a name inside the model) once; what the step measured.

    `drift` is the largest gap between recomputed log-probs and the sampler's: it is large if the
    weights have changed since the proposals were drawn.
    """
    drawn = sum(map(_drawn_tokens, proposals))
    gains = torch.tensor(advantages, dtype=torch.float32, device=engine.device)
    sums = _Sums()
    with engine.weights(adapter):
        for prompt, members in prompt_chunks(engine, proposals):
            chosen = [proposals[i] for i in members]
            with engine.rounding():
                ours = choices(engine.model, prompt, chosen)
            here = ours.totals
            kl, entropy = _divergence(engine, prompt, chosen, ours=ours, kl=kl_coef > 0)
            wanted = gains[members] * here if surrogate is None else surrogate(ours, chosen)
            # loss = (kl_coef * KL - sum of advantage * log p) / drawn tokens
            loss = (kl_coef * kl - wanted.sum()) / max(1, drawn)
            loss.backward()
            sums.add(loss * drawn, kl, entropy, here.sum())
            sums.drift = max(sums.drift, _drift(chosen, here))
        weights = optimizer.param_groups[0]["params"]
        norm = torch.nn.utils.clip_grad_norm_(weights, max_gradient)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return sums.measured(drawn, gradient=float(norm))


def prompt_chunks(
    engine: Engine, proposals: Sequence[Proposal]
) -> Iterator[tuple[list[int], list[int]]]:
    """Prompts, each with the numbers of proposals to it, a bounded number of tokens a time."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, proposal in enumerate(proposals):
        if proposal.request is None or not proposal.tokens:
            raise LlmError(
                f"proposal {i} has no tokens to learn from;"
                " only a local model's proposals have them"
            )
        prompt = tuple(engine.tokens(proposal.request.messages))
        groups.setdefault(prompt, []).append(i)
    for prompt, members in groups.items():
        parts: dict[int, list[int]] = {}
        end = 0
        for i in members:
            end += len(proposals[i].tokens or ())
            parts.setdefault(end // _CHUNK_TOKENS, []).append(i)
        for chosen in parts.values():
            yield list(prompt), chosen


def _divergence(
    engine: Engine, prompt: list[int], proposals: list[Proposal], *, ours: Choices, kl: bool
) -> tuple[Tensor, Tensor]:
    """KL to the untouched model and entropy, summed over drawn tokens, with gradient."""
    chances = ours.log_probs.exp()
    # H = -sum p log p
    entropy = -(chances * ours.log_probs).sum()
    if not kl:
        return entropy.new_zeros(()), entropy
    with engine.weights(None), engine.rounding(), torch.no_grad():
        base = choices(engine.model, prompt, proposals)
    # KL = sum p (log p - log p_base)
    return (chances * (ours.log_probs - base.log_probs)).sum(), entropy


def _drawn_tokens(proposal: Proposal) -> int:
    return len(proposal.tokens or ()) if proposal.drawn is None else len(proposal.drawn)


def _drift(proposals: Sequence[Proposal], totals: Tensor) -> float:
    """The largest gap between the sampler's log-probs and these; 0 where the sampler gave none."""
    told = [np.nan if p.log_prob is None else p.log_prob for p in proposals]
    gaps = (torch.tensor(told) - totals.detach().cpu()).abs()
    return float(gaps.nan_to_num(0.0).max())
