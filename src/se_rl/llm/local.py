"""A designer whose weights are on this machine: any causal model of transformers, sampled in batches, trained by LoRA."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from se_rl.llm.backends import LlmError, Proposal, Request, Unsupported
from se_rl.llm.catalog import ModelSource, resolve
from se_rl.llm.decoding import Answer, Choices, Sampler, choices
from se_rl.llm.engine import Engine, LoraSettings

_CHUNK_TOKENS = 1024  # of answers in one backward pass: bounds its memory
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # what AdamW keeps of every weight

Surrogate = Callable[[Choices, Sequence[Proposal]], Tensor]
"""What may be maximised instead of advantage * log p: one number a proposal, with gradient."""


class LocalDesigner:
    """A model of this machine as a designer; nothing is loaded before it is first used.

    `source` is a known model's name, a folder or a `ModelSource`. `dtype` is by default what
    the weights are stored in; float32 gives the sampler's log-probs again to 1e-4, bfloat16 samples up to twice as fast.
    """

    def __init__(
        self,
        source: ModelSource | str | Path = "smollm2",
        *,
        threads: int | None = None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> None:
        found = source if isinstance(source, ModelSource) else resolve(source)
        self._engine = Engine(found, threads, dtype, device)
        self._inside: str | None = None  # the adapter's name inside the model
        self._label, self._steps = "", 0
        self._optimizer: torch.optim.Optimizer | None = None

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._engine.source.name

    @property
    def adapter(self) -> str | None:
        """Name and number of updates of the adapter in use; None for the untouched model."""
        return None if self._inside is None else f"{self._label}@{self._steps}"

    @property
    def embeddings(self) -> Tensor:
        """What the model reads a token as, [tokens, size]; no adapter changes it."""
        return self._engine.model.get_input_embeddings().weight

    def new_adapter(
        self, label: str, *, settings: LoraSettings | None = None, seed: int = 0
    ) -> LocalDesigner:
        """The same model with a fresh adapter, which changes nothing until `update` is called."""
        other = self.with_adapter(None)
        other._inside = self._engine.new_adapter(settings or LoraSettings(), seed=seed)
        other._label = label
        return other

    def with_adapter(self, folder: str | Path | None) -> LocalDesigner:
        """The same model with an adapter saved in a folder, or with none: the untouched weights."""
        other = copy.copy(self)
        other._inside, other._label, other._steps, other._optimizer = None, "", 0, None
        if folder is not None:
            other._inside, card = self._engine.load_adapter(Path(folder))
            other._label, other._steps = card["label"], card["updates"]
        return other

    def with_adapter_bytes(self, content: bytes) -> LocalDesigner:
        """The same model with an adapter out of `adapter_bytes`, which learns on as if it had never been away."""
        other = self.with_adapter(None)
        other._inside, tensors, card = self._engine.unpack(content)
        other._label, other._steps = card["label"], card["updates"]
        weights = self._engine.trainable(other._inside)
        if {name for name in tensors if name.startswith("weight/")} != {
            f"weight/{name}" for name in weights
        }:
            raise LlmError(
                f"adapter {other.adapter} has other weights than {self.name} takes; use its own model"
            )
        optimizer = other._adam(0.0)
        for name, weight in weights.items():
            weight.data.copy_(tensors[f"weight/{name}"])
            kept = {
                kind: tensors[f"{kind}/{name}"] for kind in _MOMENTS if f"{kind}/{name}" in tensors
            }
            if kept:
                optimizer.state[weight] = {
                    k: t if k == "step" else t.to(weight.device) for k, t in kept.items()
                }
        return other

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals; they share the reading of the prompt, and of all its messages but the last across calls."""
        engine, started = self._engine, time.perf_counter()
        prompt = engine.tokens(request.messages)
        self._check_length(len(prompt) + request.max_tokens)
        sampler = Sampler(
            engine.model,
            ends=engine.ends,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            matcher=engine.matcher(request.grammar),
        )
        with engine.weights(self._inside):
            cache = engine.prefix(request.messages, prompt, (self._inside, self._steps))
            answers = sampler.sample(prompt, n, seed=request.seed, cache=cache)
        seconds = (time.perf_counter() - started) / max(1, n)
        return [self._proposal(answer, request, len(prompt), seconds) for answer in answers]

    def log_probs(self, proposals: Sequence[Proposal]) -> Tensor:
        """Log-prob of each proposal under the weights in use, from its own prompt, grammar and temperature."""
        engine, found = self._engine, torch.empty(len(proposals))
        with engine.weights(self._inside), torch.no_grad():
            for prompt, members in self._chunks(proposals):
                totals = choices(engine.model, prompt, [proposals[i] for i in members]).totals
                found[members] = totals.float().cpu()
        return found

    def update(
        self,
        proposals: Sequence[Proposal],
        advantages: Sequence[float],
        *,
        learning_rate: float = 1e-4,
        kl_coef: float = 0.05,
        max_gradient: float = 1.0,
        surrogate: Surrogate | None = None,
    ) -> dict[str, float]:
        """One REINFORCE step on the adapter: loss = -mean(advantage * log p) / mean drawn tokens + kl_coef * KL.

        KL is the exact divergence from the untouched model at the drawn tokens, under the same masks and temperature.
        A `surrogate` stands in for advantage * log p.
        `drift` is the largest gap between recomputed log-probs and the sampler's: large where the weights have moved on.
        """
        inside = self._need_adapter("does not learn")
        if (
            len(proposals) != len(advantages)
            or not len(proposals)
            or not np.isfinite(advantages).all()
        ):
            raise LlmError(
                f"{len(proposals)} proposals and {len(advantages)} advantages; give as many finite numbers"
            )
        optimizer = self._adam(learning_rate)
        drawn = sum(len(p.drawn if p.drawn is not None else p.tokens or ()) for p in proposals)
        gains = torch.tensor(advantages, dtype=torch.float32, device=self._engine.device)
        sums = {"loss": 0.0, "kl": 0.0, "entropy": 0.0, "log_prob": 0.0}
        drift = 0.0
        with self._engine.weights(inside):
            for prompt, members in self._chunks(proposals):
                chosen = [proposals[i] for i in members]
                ours = choices(self._engine.model, prompt, chosen)
                here, (kl, entropy) = (
                    ours.totals,
                    self._divergence(prompt, chosen, ours, kl=kl_coef > 0),
                )
                wanted = gains[members] * here if surrogate is None else surrogate(ours, chosen)
                loss = (kl_coef * kl - wanted.sum()) / max(1, drawn)
                loss.backward()
                told = torch.tensor(
                    [p.log_prob if p.log_prob is not None else np.nan for p in chosen]
                )
                drift = max(drift, float((told - here.detach().cpu()).abs().nan_to_num(0.0).max()))
                for key, value in zip(sums, (loss * drawn, kl, entropy, here.sum()), strict=True):
                    sums[key] += float(value.detach())
            norm = torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_gradient)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._steps += 1
        self._engine.prefixes.clear()
        per_token = {key: value / max(1, drawn) for key, value in sums.items()}
        return {**per_token, "gradient": float(norm), "drift": drift, "drawn_tokens": float(drawn)}

    def save_adapter(self, folder: str | Path, *, notes: dict[str, Any] | None = None) -> Path:
        """Write the adapter to a folder as peft reads it, with the base it belongs to; `notes` join its card."""
        inside = self._need_adapter("has nothing to save")
        card = {"label": self._label, "updates": self._steps, **(notes or {})}
        self._engine.save_adapter(inside, Path(folder), card)
        return Path(folder)

    def adapter_bytes(self) -> bytes:
        """The adapter with AdamW's moments and its base's hash, as one file: the same state gives the same bytes."""
        inside = self._need_adapter("has nothing to save")
        weights = self._engine.trainable(inside)
        tensors: dict[str, Tensor] = {f"weight/{name}": weight for name, weight in weights.items()}
        moments = self._optimizer.state if self._optimizer else {}
        for name, weight in weights.items():
            tensors |= {
                f"{kind}/{name}": tensor for kind, tensor in moments.get(weight, {}).items()
            }
        return self._engine.pack(inside, tensors, {"label": self._label, "updates": self._steps})

    def _divergence(
        self, prompt: list[int], proposals: list[Proposal], ours: Choices, *, kl: bool
    ) -> tuple[Tensor, Tensor]:
        """Summed over drawn tokens, with gradient: KL to the untouched model, and entropy."""
        chances = ours.log_probs.exp()
        entropy = -(chances * ours.log_probs).sum()
        if not kl:
            return entropy.new_zeros(()), entropy
        with self._engine.weights(None), torch.no_grad():
            base = choices(self._engine.model, prompt, proposals)
        return (chances * (ours.log_probs - base.log_probs)).sum(), entropy

    def _chunks(self, proposals: Sequence[Proposal]) -> Iterator[tuple[list[int], list[int]]]:
        """Prompts, each with the proposals to it (by number), a bounded number of tokens at a time."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, proposal in enumerate(proposals):
            if proposal.request is None or not proposal.tokens:
                raise LlmError(
                    f"proposal {i} has no tokens to learn from; only a local model's proposals have them"
                )
            groups.setdefault(tuple(self._engine.tokens(proposal.request.messages)), []).append(i)
        for prompt, members in groups.items():
            ends = np.cumsum([len(proposals[i].tokens or ()) for i in members])
            for part in range(int(ends[-1]) // _CHUNK_TOKENS + 1):
                chosen = [
                    i for i, end in zip(members, ends, strict=True) if end // _CHUNK_TOKENS == part
                ]
                if chosen:
                    yield list(prompt), chosen

    def _adam(self, learning_rate: float) -> torch.optim.Optimizer:
        if self._optimizer is None:
            weights = self._engine.trainable(self._need_adapter("does not learn")).values()
            self._optimizer = torch.optim.AdamW(weights, weight_decay=0.0)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        return self._optimizer

    def _need_adapter(self, lack: str) -> str:
        """The adapter's name inside the model; the untouched model, which has none, is refused."""
        if self._inside is None:
            raise Unsupported(
                f"the untouched {self.name} {lack}; call new_adapter(label) first, or load an adapter"
            )
        return self._inside

    def _check_length(self, tokens: int) -> None:
        limit = getattr(self._engine.model.config, "max_position_embeddings", tokens)
        if tokens > limit:
            raise LlmError(
                f"prompt and answer may take {tokens} tokens, {self.name} reads {limit}; shorten the prompt"
            )

    def _proposal(
        self, answer: Answer, request: Request, prompt_tokens: int, seconds: float
    ) -> Proposal:
        engine, width = self._engine, (0 if answer.allowed is None else len(answer.allowed))
        body = answer.tokens[:-1] if answer.finish == "stop" else answer.tokens
        return Proposal(
            text=engine.tokenizer.decode(
                body, skip_special_tokens=True, clean_up_tokenization_spaces=False
            ),
            prompt_tokens=prompt_tokens,
            tokens=tuple(answer.tokens),
            log_prob=answer.log_prob if request.temperature > 0 else None,
            masks=np.array(answer.masks, np.uint8).reshape(-1, width) if request.grammar else None,
            finish=cast(Literal["stop", "length"], answer.finish),
            model=self.name,
            adapter=self.adapter,
            seconds=seconds,
            drawn=tuple(answer.drawn),
            output_tokens=len(answer.tokens),
            request=request,
        )
