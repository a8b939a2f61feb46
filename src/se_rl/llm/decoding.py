"""Sample many answers to one prompt under a grammar, with exact log-probs.

The prompt is read once and its keys and values serve every answer. Tokens that the grammar forces
cost no draw, have log-prob 0, and are fed together with the next drawn one; an answer that ends
gives its row to the next one waiting. There is no top-p and no top-k: the log-prob of an answer is
that of the distribution it came from.
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
from se_rl.llm.backends import LlmError

BATCH_ROWS, GPU_BATCH_ROWS = 32, 256
"""Answers sampled at once; more gains little."""
_NEVER = -1e30  # a log-prob no token has; finite, so that gradients stay numbers


@dataclass(eq=False)
class Answer:
    """An answer being sampled: its tokens, which of them were drawn, and from what."""

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

    @property
    def is_ready(self) -> bool:
        """Whether the model has read all its tokens and the next one can be drawn."""
        return self.fed == len(self.tokens) and not self.finish


def masked_log_softmax(
    model: Any, hidden: Tensor, allowed: npt.NDArray[np.uint8] | None, temperature: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probs [N, U] under masks and temperature, and the U token numbers they belong to."""
    size = model.get_output_embeddings().weight.shape[0]
    if allowed is None:
        scores = logits(model, hidden, None) / temperature
        return scores.log_softmax(-1), torch.arange(size, device=hidden.device)
    union = np.unpackbits(np.bitwise_or.reduce(allowed), count=size, bitorder="little")
    few = 4 * int(union.sum()) < size
    ids = np.flatnonzero(union) if few else np.arange(size)
    bits = (allowed[:, ids >> 3] >> (ids & 7).astype(np.uint8)) & 1  # [N, U]
    closed = torch.from_numpy(bits == 0).to(hidden.device)
    numbers = torch.from_numpy(ids).to(hidden.device)
    scores = logits(model, hidden, numbers if few else None) / temperature
    return scores.masked_fill(closed, _NEVER).log_softmax(-1), numbers


def _has(allowed: npt.NDArray[np.uint8], token: int) -> bool:
    """Whether a mask allows a token."""
    return bool(allowed[token >> 3] >> (token & 7) & 1)


class Sampler:
    """Draws answers to one prompt.

    `ends` are the tokens that end an answer, `matcher` (llguidance) is its grammar.
    """

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
        self.model = model
        self.ends = ends
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.matcher = matcher
        self.fast_forward = fast_forward
        self.rows = BATCH_ROWS if model.device.type == "cpu" else GPU_BATCH_ROWS
        self.vocabulary = model.get_output_embeddings().weight.shape[0]

    @torch.no_grad()
    def sample(
        self, prompt: Sequence[int], n: int, *, seed: int, cache: PromptCache | None = None
    ) -> list[Answer]:
        """n answers, of which answer i draws its numbers from (seed, i).

        `cache` may hold the start of the prompt; it stays as it was.
        """
        opening = Answer(uniforms=np.empty(0), matcher=self.matcher and self.matcher.deep_copy())
        self._force(opening)
        cache = cache.fork() if cache else PromptCache()
        opened = [*prompt, *opening.tokens][cache.length :]
        opening.hidden = read(self.model, opened, cache)
        waiting: list[Answer] = []
        for i in range(n):
            uniforms = np.random.default_rng([seed, i]).random(self.max_tokens)
            waiting.append(self._copy(opening, uniforms))
        answers = list(waiting)
        active: list[Answer] = []  # active[i] has row i of the cache
        while waiting or active:
            while waiting and len(active) < self.rows:
                active.append(waiting.pop(0))
            self._draw([answer for answer in active if answer.is_ready])
            for row in reversed(range(len(active))):
                if active[row].finish:
                    cache.drop(row, len(active) - 1)
                    active[row] = active[-1]
                    active.pop()
            if active and not (waiting and len(active) < self.rows):
                self._feed(active, cache, len(opening.tokens))
        return answers

    def told(self, text: str, tokenizer: Any) -> Answer:
        """A text as if it had been drawn: its tokens, and what could have stood in their places.

        It has no log-prob yet; LlmError for a text that the grammar does not have.
        """
        answer = Answer(uniforms=np.empty(0), matcher=self.matcher and self.matcher.deep_copy())
        self._force(answer)
        while answer.finish is None:
            written = tokenizer.decode(answer.tokens, clean_up_tokenization_spaces=False)
            token = None
            if text.startswith(written):
                token = self._token_of(text[len(written) :], answer, tokenizer)
            if token is None:
                raise LlmError(
                    f"the grammar does not have {text[:60]!r}; give an answer that it can end in"
                )
            answer.drawn.append(len(answer.tokens))
            if answer.allowed is not None:
                answer.masks.append(answer.allowed)
            self._append(answer, token)
            self._force(answer)
        return answer

    def _token_of(self, text: str, answer: Answer, tokenizer: Any) -> int | None:
        """The token that a text goes on with: the tokenizer's own, or a part of it where the
        grammar ends in its middle; None where no token is allowed.
        """
        allowed = answer.allowed
        if not text:
            ends = [end for end in sorted(self.ends) if allowed is None or _has(allowed, end)]
            return ends[0] if ends else None
        first = tokenizer(text, add_special_tokens=False)["input_ids"][0]
        if allowed is None or _has(allowed, first):
            return int(first)
        for length in reversed(range(1, len(tokenizer.decode([first])))):
            cut = tokenizer(text[:length], add_special_tokens=False)["input_ids"]
            if len(cut) == 1 and _has(allowed, cut[0]):
                return int(cut[0])
        return None

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
        """Draw one token for each answer."""
        if not answers:
            return
        hidden = torch.stack([answer.hidden for answer in answers if answer.hidden is not None])
        allowed = None
        if self.matcher is not None:
            allowed = np.stack([a.allowed for a in answers if a.allowed is not None])
        heat = torch.tensor(self.temperature or 1.0, device=hidden.device)
        log_probs, numbers = masked_log_softmax(self.model, hidden, allowed, heat)
        picked = self._picked(log_probs, answers)
        gains = log_probs.gather(1, picked)[:, 0].tolist()
        for answer, token, gain in zip(answers, numbers[picked[:, 0]].tolist(), gains, strict=True):
            answer.drawn.append(len(answer.tokens))
            answer.log_prob += gain
            if answer.allowed is not None:
                answer.masks.append(answer.allowed)
            self._append(answer, token)
            self._force(answer)

    def _picked(self, log_probs: Tensor, answers: list[Answer]) -> Tensor:
        """Columns of the drawn tokens [N, 1]: the likeliest, or by the answers' uniform numbers."""
        if self.temperature == 0.0:
            return log_probs.argmax(-1, keepdim=True)
        # the distribution function F, inverted at the answer's own next uniform number u
        cumulated = log_probs.double().exp().cumsum(-1)
        uniforms = [[answer.uniforms[len(answer.drawn)]] for answer in answers]
        level = torch.tensor(uniforms, dtype=torch.float64, device=log_probs.device)
        below_one = 1.0 - 1e-9  # rounding must not lead past the last token that has a chance
        return torch.searchsorted(cumulated, level * below_one * cumulated[:, -1:], right=True)

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
        device = self.model.device
        counts: list[int] = []
        offsets: list[int] = []
        tokens: list[int] = []
        for answer in active:
            new = answer.tokens[answer.fed :] if self.fast_forward else [answer.tokens[answer.fed]]
            counts.append(len(new))
            offsets.append(answer.fed - opening)
            tokens += new
        cache.feed(counts, offsets, device)
        assert cache.place is not None
        positions = cache.length + cache.place[2]
        hidden = forward(self.model, torch.tensor(tokens, device=device), positions, cache)
        for answer, count, last in zip(active, counts, np.cumsum(counts) - 1, strict=True):
            answer.fed += count
            answer.hidden = hidden[last]


@torch.no_grad()
def read(model: Any, tokens: Sequence[int], cache: PromptCache) -> Tensor:
    """Read on in a prompt: the last hidden state; keys and values stay in the cache."""
    positions = torch.arange(cache.length, cache.length + len(tokens))
    return forward(model, torch.tensor(tokens, device=model.device), positions, cache)[-1]
