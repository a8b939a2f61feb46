"""Sampling many answers to one prompt under a grammar, with exact log-probs.

The prompt is read once and its keys and values serve every answer. Tokens that the grammar forces cost no draw, have
log-prob 0, and are fed together with the next drawn one; an answer that ends gives its place to the next one waiting.
No top-p, no top-k: the log-prob of an answer is that of the distribution it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from se_rl.llm.attention import PromptCache, forward, logits
from se_rl.llm.backends import LlmError, Proposal

BATCH_ROWS, GPU_BATCH_ROWS = (
    32,
    256,
)  # more gains little; answers that end make room for waiting ones
_NEVER = -1e30  # a log-prob no token has; finite, so that gradients stay numbers


@dataclass(eq=False)
class Answer:
    """One sampled answer in the making: its tokens, which of them were drawn, and from what they were drawn."""

    uniforms: npt.NDArray[np.float64]
    matcher: Any = None
    tokens: list[int] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list)
    masks: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    log_prob: float = 0.0
    finish: str | None = None
    fed: int = 0
    allowed: npt.NDArray[np.uint8] | None = None
    hidden: Tensor | None = None


def _log_softmax(
    model: Any, hidden: Tensor, allowed: npt.NDArray[np.uint8] | None, temperature: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probs [N, U] under masks and temperature, and the U token numbers they belong to."""
    size = model.get_output_embeddings().weight.shape[0]
    if allowed is None:
        return (logits(model, hidden, None) / temperature).log_softmax(-1), torch.arange(
            size, device=hidden.device
        )
    union = np.unpackbits(np.bitwise_or.reduce(allowed), count=size, bitorder="little")
    few = 4 * int(union.sum()) < size
    ids = np.flatnonzero(union) if few else np.arange(size)
    closed = torch.from_numpy((allowed[:, ids >> 3] >> (ids & 7).astype(np.uint8)) & 1 == 0).to(
        hidden.device
    )
    numbers = torch.from_numpy(ids).to(hidden.device)
    scores = logits(model, hidden, numbers if few else None) / temperature
    return scores.masked_fill(closed, _NEVER).log_softmax(-1), numbers


class Sampler:
    """Draws answers to one prompt. `ends` are the tokens that end an answer, `matcher` (llguidance) its grammar."""

    def __init__(
        self,
        model: Any,
        *,
        ends: frozenset[int],
        max_tokens: int,
        temperature: float = 1.0,
        matcher: Any = None,
        fast_forward: bool = True,
    ) -> None:
        self.model, self.ends, self.max_tokens, self.temperature = (
            model,
            ends,
            max_tokens,
            temperature,
        )
        self.matcher, self.fast_forward = matcher, fast_forward
        self.rows = BATCH_ROWS if model.device.type == "cpu" else GPU_BATCH_ROWS
        self.vocabulary = model.get_output_embeddings().weight.shape[0]

    @torch.no_grad()
    def sample(
        self, prompt: Sequence[int], n: int, *, seed: int, cache: PromptCache | None = None
    ) -> list[Answer]:
        """n answers; `cache` may hold a beginning of the prompt and is left as it was. Answer i draws from (seed, i)."""
        uniforms = [np.random.default_rng([seed, i]).random(self.max_tokens) for i in range(n)]
        opening = Answer(uniforms=np.empty(0), matcher=self.matcher and self.matcher.deep_copy())
        self._force(opening)
        cache = cache.fork() if cache else PromptCache()
        opened = [*prompt, *opening.tokens][cache.length :]
        opening.hidden = read(self.model, opened, cache)
        waiting = [self._copy(opening, u) for u in uniforms]
        answers = list(waiting)
        active: list[Answer] = []  # answer i of it has row i of the cache
        while waiting or active:
            while waiting and len(active) < self.rows:
                active.append(waiting.pop(0))
            self._draw(
                [
                    answer
                    for answer in active
                    if answer.fed == len(answer.tokens) and not answer.finish
                ]
            )
            for row in reversed([i for i, answer in enumerate(active) if answer.finish]):
                cache.drop(row, len(active) - 1)
                active[row] = active[-1]
                active.pop()
            if active and not (waiting and len(active) < self.rows):
                self._feed(active, cache, len(opening.tokens))
        return answers

    def _copy(self, opening: Answer, uniforms: npt.NDArray[np.float64]) -> Answer:
        return Answer(
            uniforms=uniforms,
            matcher=opening.matcher and opening.matcher.deep_copy(),
            tokens=list(opening.tokens),
            finish=opening.finish,
            fed=len(opening.tokens),
            allowed=opening.allowed,
            hidden=opening.hidden,
        )

    def _draw(self, answers: list[Answer]) -> None:
        """One token for each, by inverting the distribution function at the answer's own next uniform number."""
        if not answers:
            return
        hidden = torch.stack([answer.hidden for answer in answers if answer.hidden is not None])
        allowed = (
            None
            if self.matcher is None
            else np.stack([a.allowed for a in answers if a.allowed is not None])
        )
        heat = torch.tensor(self.temperature or 1.0, device=hidden.device)
        log_probs, numbers = _log_softmax(self.model, hidden, allowed, heat)
        if self.temperature == 0.0:
            picked = log_probs.argmax(-1, keepdim=True)
        else:
            cumulated = log_probs.double().exp().cumsum(-1)
            level = torch.tensor(
                [[a.uniforms[len(a.drawn)]] for a in answers],
                dtype=torch.float64,
                device=hidden.device,
            )
            below_one = (
                1.0 - 1e-9
            )  # so that rounding never leads past the last token that has a chance
            picked = torch.searchsorted(
                cumulated, level * below_one * cumulated[:, -1:], right=True
            )
        gains = log_probs.gather(1, picked)[:, 0].tolist()
        for answer, token, gain in zip(answers, numbers[picked[:, 0]].tolist(), gains, strict=True):
            answer.drawn.append(len(answer.tokens))
            answer.log_prob += gain
            if answer.allowed is not None:
                answer.masks.append(answer.allowed)
            self._append(answer, token)
            self._force(answer)

    def _append(self, answer: Answer, token: int) -> None:
        answer.tokens.append(token)
        if token in self.ends:
            answer.finish = "stop"
        elif len(answer.tokens) >= self.max_tokens:
            answer.finish = "length"
        elif answer.matcher is not None and not answer.matcher.consume_token(token):
            raise LlmError(
                f"the grammar refused a token it had allowed: {answer.matcher.get_error()}"
            )

    def _force(self, answer: Answer) -> None:
        """Append what the grammar leaves no choice about, then note what it allows next."""
        while answer.matcher is not None and answer.finish is None:
            forced = answer.matcher.compute_ff_tokens()
            if not forced:
                answer.allowed = self._allowed(answer.matcher)
                if int(np.bitwise_count(answer.allowed).sum()) > 1:
                    return
                forced = np.flatnonzero(np.unpackbits(answer.allowed, bitorder="little")).tolist()
            for token in forced:
                if answer.finish is None:
                    self._append(answer, token)

    def _allowed(self, matcher: Any) -> npt.NDArray[np.uint8]:
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        bits = allocate_token_bitmask(1, self.vocabulary)
        fill_next_token_bitmask(matcher, bits)
        if matcher.is_error():
            raise LlmError(f"the grammar cannot go on: {matcher.get_error().splitlines()[0]}")
        return bits.view(np.uint8)[0, : -(-self.vocabulary // 8)]

    def _feed(self, active: list[Answer], cache: PromptCache, opening: int) -> None:
        """Let the model read what was appended: all of it at once, or token by token."""
        counts = [len(answer.tokens) - answer.fed if self.fast_forward else 1 for answer in active]
        device = self.model.device
        cache.feed(counts, [answer.fed - opening for answer in active], device)
        assert cache.place is not None
        tokens = [
            t
            for a, count in zip(active, counts, strict=True)
            for t in a.tokens[a.fed : a.fed + count]
        ]
        hidden = forward(
            self.model, torch.tensor(tokens, device=device), cache.length + cache.place[2], cache
        )
        for answer, count, last in zip(active, counts, np.cumsum(counts) - 1, strict=True):
            answer.fed += count
            answer.hidden = hidden[last]


@torch.no_grad()
def read(model: Any, tokens: Sequence[int], cache: PromptCache) -> Tensor:
    """Read on in a prompt: the last hidden state; keys and values stay in the cache."""
    positions = torch.arange(cache.length, cache.length + len(tokens))
    return forward(model, torch.tensor(tokens, device=model.device), positions, cache)[-1]


@dataclass(frozen=True)
class Choices:
    """What the model thinks of every drawn token of some proposals: log-probs [D, U], the one drawn, whose it is."""

    log_probs: Tensor
    picked: Tensor
    owner: Tensor
    count: int

    @property
    def totals(self) -> Tensor:
        """Log-prob of each proposal."""
        zeros = self.log_probs.new_zeros(self.count)
        return zeros.index_add(0, self.owner, self.log_probs.gather(1, self.picked[:, None])[:, 0])


def choices(model: Any, prompt: Sequence[int], proposals: Sequence[Proposal]) -> Choices:
    """The distributions from which the proposals' tokens were drawn, with gradient; the prompt is read once for all."""
    device, size = model.device, model.get_output_embeddings().weight.shape[0]
    ids, positions, segment = list(prompt), list(range(len(prompt))), [-1] * len(prompt)
    source, token, owner, heat, bits = [], [], [], [], []
    for i, proposal in enumerate(proposals):
        if not proposal.tokens:
            raise LlmError(
                f"proposal {i} has no tokens to learn from; only a local model's proposals have them"
            )
        drawn = range(len(proposal.tokens)) if proposal.drawn is None else proposal.drawn
        source += [len(ids) + j - 1 if j else len(prompt) - 1 for j in drawn]
        token += [proposal.tokens[j] for j in drawn]
        owner += [i] * len(drawn)
        heat += [proposal.request.temperature if proposal.request else 1.0] * len(drawn)
        full = np.full((len(drawn), -(-size // 8)), 255, np.uint8)
        bits.append(full if proposal.masks is None else proposal.masks)
        ids += proposal.tokens[:-1]
        positions += range(len(prompt), len(prompt) + len(proposal.tokens) - 1)
        segment += [i] * (len(proposal.tokens) - 1)
    part = torch.tensor(segment, device=device)
    seen = ((part < 0) | (part == part[:, None])).tril()
    hidden = forward(model, torch.tensor(ids, device=device), torch.tensor(positions), seen)[source]
    log_probs, numbers = _log_softmax(
        model, hidden, np.concatenate(bits), torch.tensor(heat, device=device)[:, None]
    )
    picked = torch.searchsorted(numbers, torch.tensor(token, device=device))
    return Choices(
        log_probs, picked, torch.tensor(owner, device=device, dtype=torch.long), len(proposals)
    )


def log_probs(model: Any, prompt: Sequence[int], proposals: Sequence[Proposal]) -> Tensor:
    """Log-prob of each proposal, with gradient: the sampler's own up to rounding."""
    return choices(model, prompt, proposals).totals
