"""A causal model of transformers, fitted for many answers to one prompt.

Attention reads one shared prompt, and frozen weights are kept in a fast layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from se_rl.llm.backends import LlmError

ATTENTION = "se_rl_shared_prompt"
_TYPICAL_ROWS = 32
"""Rows of a decoding step; oneDNN chooses the layout of its weights for it."""
_ROUNDING = {torch.float32: 0.01}
_COARSE_ROUNDING = 0.25
"""Relative errors that rounding alone stays below."""


class PromptCache:
    """Keys and values by layer: the prompt's once, and each answer's own in rows that grow."""

    def __init__(self) -> None:
        self.prompt: dict[int, tuple[Tensor, Tensor]] = {}
        self.own: dict[int, tuple[Tensor, Tensor]] = {}
        # row, column in the feed and offset of the tokens being fed
        self.place: tuple[Tensor, Tensor, Tensor] | None = None
        self.rows = self.width = self.reach = 0

    @property
    def length(self) -> int:
        """Tokens of the prompt read so far."""
        return next(iter(self.prompt.values()))[0].shape[1] if self.prompt else 0

    def fork(self) -> PromptCache:
        """The same prompt so far, to be continued in another way."""
        other = PromptCache()
        other.prompt = dict(self.prompt)
        return other

    def feed(self, counts: Sequence[int], offsets: Sequence[int], device: torch.device) -> None:
        """Say what comes next: `counts[i]` tokens of answer i behind `offsets[i]` known ones."""
        row: list[int] = []
        column: list[int] = []
        offset: list[int] = []
        for i, (start, count) in enumerate(zip(offsets, counts, strict=True)):
            row += [i] * count
            column += range(count)
            offset += range(start, start + count)
        self.place = (
            torch.tensor(row, device=device),
            torch.tensor(column, device=device),
            torch.tensor(offset, device=device),
        )
        self.rows = len(counts)
        self.width = max(counts)
        self.reach = max(offset) + 1

    def drop(self, row: int, last: int) -> None:
        """Forget an answer; the last one moves into its row."""
        for keys, values in self.own.values():
            if row < last < len(keys):  # an answer that was never fed has nothing to move
                keys[row], values[row] = keys[last], values[last]

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
    ) -> Tensor:
        """Attention of `query` [1, heads, N, size] to what is known, and to `key` and `value`.

        These become known.
        """
        if self.place is None:
            return self._read(layer, query, key, value, scaling)
        prompt_keys, prompt_values = self.prompt[layer]
        row, _, offset = self.place
        own_keys, own_values = self._own_rows(layer, key)
        own_keys[row, :, offset] = key[0].transpose(0, 1)
        own_values[row, :, offset] = value[0].transpose(0, 1)
        own_keys = own_keys[: self.rows, :, : self.reach]
        own_values = own_values[: self.rows, :, : self.reach]

        # scores of the answer's own tokens and of the prompt's: [shared heads, group, N, tokens]
        grouped = (query[0] * scaling).unflatten(0, (key.shape[1], -1))
        own = self._by_token(self._by_row(grouped) @ own_keys.transpose(2, 3))
        later = torch.arange(self.reach, device=own.device) > offset[:, None]
        own.masked_fill_(later, -torch.inf)
        shared = grouped.flatten(1, 2) @ prompt_keys.transpose(1, 2)
        shared = shared.unflatten(1, grouped.shape[1:3])
        weights = torch.cat([shared, own], -1).softmax(-1, dtype=torch.float32).to(query.dtype)
        length = prompt_keys.shape[1]
        out = (weights[..., :length].flatten(1, 2) @ prompt_values).unflatten(1, grouped.shape[1:3])
        out = out + self._by_token(self._by_row(weights[..., length:]) @ own_values)
        return out.permute(2, 0, 1, 3).flatten(1, 2)[None]

    def _read(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
    ) -> Tensor:
        if layer in self.prompt:
            key = torch.cat([self.prompt[layer][0][None], key], 2)
            value = torch.cat([self.prompt[layer][1][None], value], 2)
        self.prompt[layer] = key[0], value[0]
        new, known = query.shape[2], key.shape[2]
        mask = torch.ones(new, known, dtype=torch.bool, device=key.device).tril(known - new)
        return _masked(query, key, value, mask, scaling)

    def _own_rows(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Space for the answers' own keys and values, grown if it is too small."""
        have = self.own.get(layer)
        rows, reach = (have[0].shape[0], have[0].shape[2]) if have else (0, 0)
        if rows >= self.rows and reach >= self.reach and have:
            return have
        shape = (max(rows, self.rows), like.shape[1], max(reach, 2 * self.reach, 64), like.shape[3])
        grown = like.new_zeros(shape), like.new_zeros(shape)
        if have:
            for new, old in zip(grown, have, strict=True):
                new[:rows, :, :reach] = old
        self.own[layer] = grown
        return grown

    def _by_row(self, tokens: Tensor) -> Tensor:
        """[shared heads, group, N, x] -> [rows, shared heads, group * width, x], zero-padded."""
        heads, group, _, size = tokens.shape
        if self.width == 1:
            return tokens.permute(2, 0, 1, 3)
        assert self.place is not None
        padded = tokens.new_zeros(self.rows, self.width, heads, group, size)
        padded[self.place[0], self.place[1]] = tokens.permute(2, 0, 1, 3)
        return padded.permute(0, 2, 3, 1, 4).flatten(2, 3)

    def _by_token(self, rows: Tensor) -> Tensor:
        """The way back of `_by_row`."""
        if self.width == 1:
            return rows.permute(1, 2, 0, 3)
        assert self.place is not None
        return (
            rows.unflatten(2, (-1, self.width))
            .permute(0, 3, 1, 2, 4)[self.place[0], self.place[1]]
            .permute(1, 2, 0, 3)
        )


def _masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float) -> Tensor:
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    return F.scaled_dot_product_attention(query, key, value, mask, scale=scaling).transpose(1, 2)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    shared: PromptCache | Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention of every layer: over a prompt cache, under a mask [N, N], or plainly causal."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    window = others.get("sliding_window")
    known = shared.length + shared.reach if isinstance(shared, PromptCache) else 0
    if window and key.shape[2] + known > window:
        raise LlmError(
            f"prompt and answer are longer than the model's attention window of {window} tokens;"
            " shorten the prompt"
        )
    if isinstance(shared, PromptCache):
        layer: Any = module.layer_idx
        return shared.attend(layer, query, key, value, scaling), None
    mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=key.device).tril()
    return _masked(query, key, value, mask if shared is None else shared, scaling), None


def prepare(model: Any) -> None:
    """Fit a causal model for sampling and learning; one with another attention is refused."""
    from transformers import AttentionInterface

    probe = torch.arange(3, 15, device=model.device) % model.config.vocab_size
    model.eval().requires_grad_(False)
    AttentionInterface.register(ATTENTION, _attend)
    with torch.no_grad():
        expected = model(probe[None]).logits[0, -1].float()
        model.set_attn_implementation(ATTENTION)
        try:
            gap = (_probe(model, probe) - expected).abs().max()
            error = float(gap / (1.0 + expected.abs().max()))
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            error = float("inf")
    if not error < _ROUNDING.get(model.dtype, _COARSE_ROUNDING):
        raise LlmError(
            f"{type(model).__name__} has no plain causal attention (error {error:.2g});"
            " use smollm2 or qwen-coder"
        )
    if model.device.type == "cpu" and torch.backends.mkldnn.is_available():
        _pack(model)


def _probe(model: Any, tokens: Tensor) -> Tensor:
    """Logits after the last token, by way of a cache that holds the first five as its prompt."""
    cache = PromptCache()
    forward(model, tokens[:5], torch.arange(5), cache)
    cache.feed([len(tokens) - 5], [0], model.device)
    hidden = forward(model, tokens[5:], torch.arange(5, len(tokens)), cache)
    return logits(model, hidden[-1:], None)[0]


def _pack(model: nn.Module) -> None:
    """Keep every frozen weight also in oneDNN's layout: up to twice as fast for a few rows."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            packed = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach(), _TYPICAL_ROWS)
            module.forward = partial(_packed_linear, module, packed)  # type: ignore[method-assign]


def _packed_linear(module: nn.Linear, packed: Tensor, x: Tensor) -> Tensor:
    if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):  # no packed bfloat16
        return F.linear(x, module.weight, module.bias)
    return torch.ops.mkldnn._linear_pointwise(x, packed, module.bias, "none", [], "")


def forward(model: Any, ids: Tensor, positions: Tensor, shared: PromptCache | Tensor) -> Tensor:
    """Last hidden states [N, size] of tokens in a row, whichever answer they belong to."""
    where = positions.to(ids.device)[None]
    return model.base_model(
        input_ids=ids[None], position_ids=where, use_cache=False, shared=shared
    ).last_hidden_state[0]


def logits(model: Any, hidden: Tensor, ids: Tensor | None) -> Tensor:
    """Logits of the tokens `ids` (None: of all); a grammar seldom allows more than a few."""
    head = model.get_output_embeddings()
    if ids is None:
        return head(hidden).float()
    bias = None if head.bias is None else head.bias[ids]
    return F.linear(hidden, head.weight[ids], bias).float()
