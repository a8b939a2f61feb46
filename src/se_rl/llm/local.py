"""A designer whose weights are on this machine: any causal model of transformers.

It is sampled in batches and trained through a LoRA adapter.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from se_rl.llm.adapters import AdapterCard, LoraSettings
from se_rl.llm.backends import Abilities, LlmError, Proposal, Request, Unsupported
from se_rl.llm.catalog import ModelSource, abilities_of, resolve
from se_rl.llm.decoding import Answer, Sampler
from se_rl.llm.engine import Engine
from se_rl.llm.likelihood import Surrogate, choices
from se_rl.llm.reinforce import prompt_chunks, reinforce_step

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # what AdamW keeps of every weight


class LocalDesigner:
    """A model of this machine as a designer; nothing is loaded before it is first used.

    `source` is a known model's name, a folder or a `ModelSource`. `dtype` is by default what the
    weights are stored in; float32 reproduces the sampler's log-probs to 1e-4, bfloat16 samples up
    to twice as fast. With `coarse_steps` it multiplies in bfloat16 where it learns.
    """

    def __init__(
        self,
        source: ModelSource | str | Path = "smollm2",
        *,
        threads: int | None = None,
        dtype: str | None = None,
        device: str | None = None,
        coarse_steps: bool = False,
    ) -> None:
        found = source if isinstance(source, ModelSource) else resolve(source)
        self._engine = Engine(
            found, threads=threads, dtype=dtype, device=device, coarse_steps=coarse_steps
        )
        self._inside: str | None = None  # the adapter's name inside the model
        self._label = ""
        self._steps = 0
        self._optimizer: torch.optim.Optimizer | None = None

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._engine.source.name

    @property
    def abilities(self) -> Abilities:
        """It learns, and can be held to a grammar; a known model may write Python unaided."""
        return abilities_of(self.name)

    @property
    def adapter(self) -> str | None:
        """Name and number of updates of the adapter in use; None for the untouched model."""
        return None if self._inside is None else f"{self._label}@{self._steps}"

    @property
    def device(self) -> str:
        """Where the model is, as torch names it."""
        return self._engine.device

    @property
    def embeddings(self) -> Tensor:
        """What the model reads each token as, [token, size]; no adapter changes it."""
        return self._engine.model.get_input_embeddings().weight

    def tokens_of(self, text: str) -> Sequence[int]:
        """A text as the model reads it."""
        return self._engine.tokenizer(text, add_special_tokens=False)["input_ids"]

    def new_adapter(
        self, label: str, *, settings: LoraSettings | None = None, seed: int = 0
    ) -> LocalDesigner:
        """The same model with a fresh adapter, which changes nothing until `update` is called."""
        inside = self._engine.adapters.new(settings or LoraSettings(), seed=seed)
        return self._copy(inside, AdapterCard(label, 0))

    def with_adapter(self, folder: str | Path | None) -> LocalDesigner:
        """The same model with an adapter saved in a folder, or with none."""
        if folder is None:
            return self._copy(None, AdapterCard("", 0))
        inside, card = self._engine.adapters.load(Path(folder))
        return self._copy(inside, card)

    def with_adapter_bytes(self, content: bytes) -> LocalDesigner:
        """The same model with an adapter from `adapter_bytes`; it learns on from there."""
        inside, tensors, card = self._engine.adapters.unpack(content)
        other = self._copy(inside, card)
        weights = self._engine.adapters.trainable(inside)
        expected = {f"weight/{name}" for name in weights}
        if {name for name in tensors if name.startswith("weight/")} != expected:
            raise LlmError(
                f"adapter {other.adapter} does not have the weights that {self.name} takes;"
                " use the model it was made for"
            )
        optimizer = other._adam(0.0)
        for name, weight in weights.items():
            weight.data.copy_(tensors[f"weight/{name}"])
            state = _moments(tensors, name, weight.device)
            if state:
                optimizer.state[weight] = state
        return other

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals.

        They share one reading of the prompt, and calls share that of all messages but the last.
        """
        engine, started = self._engine, time.perf_counter()
        prompt = engine.tokens(request.messages)
        self._check_length(len(prompt) + request.max_tokens)
        sampler = self._sampler(request)
        with engine.weights(self._inside):
            cache = engine.prefix(request.messages, prompt, (self._inside, self._steps))
            answers = sampler.sample(prompt, n, seed=request.seed, cache=cache)
        seconds = (time.perf_counter() - started) / max(1, n)
        return [self._proposal(answer, request, len(prompt), seconds) for answer in answers]

    def taught(self, request: Request, texts: Sequence[str]) -> list[Proposal]:
        """Texts as if the model had written them to this request: examples to learn from.

        They have no log-prob of the draw. A text that the request's grammar lacks is refused.
        """
        engine = self._engine
        prompt = engine.tokens(request.messages)
        self._check_length(len(prompt) + request.max_tokens)
        sampler = self._sampler(request)
        found = []
        for text in texts:
            made = self._proposal(sampler.told(text, engine.tokenizer), request, len(prompt), 0.0)
            found.append(replace(made, log_prob=None))
        return found

    def log_probs(self, proposals: Sequence[Proposal]) -> Tensor:
        """Log-prob of each proposal under the weights in use.

        Each is taken with the prompt, grammar and temperature of its own request.
        """
        engine, found = self._engine, torch.empty(len(proposals))
        with engine.weights(self._inside), torch.no_grad():
            for prompt, members in prompt_chunks(engine, proposals):
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
        """One REINFORCE step on the adapter; see `se_rl.llm.reinforce` for the loss."""
        inside = self._need_adapter("does not learn")
        finite = bool(np.isfinite(advantages).all())
        if len(proposals) != len(advantages) or not len(proposals) or not finite:
            raise LlmError(
                f"{len(proposals)} proposals and {len(advantages)} advantages;"
                " give as many finite numbers"
            )
        measured = reinforce_step(
            self._engine,
            self._adam(learning_rate),
            proposals,
            advantages,
            adapter=inside,
            kl_coef=kl_coef,
            max_gradient=max_gradient,
            surrogate=surrogate,
        )
        self._steps += 1
        self._engine.prefixes.clear()
        return measured

    def save_adapter(self, folder: str | Path, *, notes: Mapping[str, Any] | None = None) -> Path:
        """Write the adapter to a folder as peft reads it; `notes` are added to its card."""
        inside = self._need_adapter("has nothing to save")
        self._engine.adapters.save(inside, Path(folder), self._card(), notes=notes or {})
        return Path(folder)

    def adapter_bytes(self, *, to_ship: bool = False) -> bytes:
        """The adapter, AdamW's moments and its base's hash as one file: same state, same bytes.

        One `to_ship` has its weights alone, at half precision: a fifth of the size or less.
        """
        inside = self._need_adapter("has nothing to save")
        adapters = self._engine.adapters
        states = self._optimizer.state if self._optimizer else {}
        weights: dict[str, Tensor] = {}
        moments: dict[str, Tensor] = {}
        for name, weight in adapters.trainable(inside).items():
            weights[f"weight/{name}"] = weight.half() if to_ship else weight
            if to_ship:
                continue
            for kind, tensor in states.get(weight, {}).items():
                moments[f"{kind}/{name}"] = tensor
        return adapters.pack(inside, weights | moments, self._card())

    def _sampler(self, request: Request) -> Sampler:
        engine = self._engine
        return Sampler(
            engine.model,
            ends=engine.ends,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            matcher=engine.matcher(request.grammar),
        )

    def _copy(self, inside: str | None, card: AdapterCard) -> LocalDesigner:
        """The same model with another adapter."""
        other = copy.copy(self)
        other._inside = inside
        other._label = card.label
        other._steps = card.updates
        other._optimizer = None
        return other

    def _card(self) -> AdapterCard:
        return AdapterCard(self._label, self._steps)

    def _adam(self, learning_rate: float) -> torch.optim.Optimizer:
        if self._optimizer is None:
            inside = self._need_adapter("does not learn")
            weights = self._engine.adapters.trainable(inside).values()
            self._optimizer = torch.optim.AdamW(weights, weight_decay=0.0)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        return self._optimizer

    def _need_adapter(self, lack: str) -> str:
        """The adapter's name inside the model; the untouched model has none and is refused."""
        if self._inside is None:
            raise Unsupported(
                f"the untouched {self.name} {lack};"
                " call new_adapter(label) first, or load an adapter"
            )
        return self._inside

    def _check_length(self, tokens: int) -> None:
        limit = getattr(self._engine.model.config, "max_position_embeddings", tokens)
        if tokens > limit:
            raise LlmError(
                f"prompt and answer may take {tokens} tokens, {self.name} reads {limit};"
                " shorten the prompt"
            )

    def _proposal(
        self, answer: Answer, request: Request, prompt_tokens: int, seconds: float
    ) -> Proposal:
        body = answer.tokens[:-1] if answer.finish == "stop" else answer.tokens
        masks = None
        if request.grammar:
            mask_bytes = 0 if answer.allowed is None else len(answer.allowed)
            masks = np.array(answer.masks, np.uint8).reshape(-1, mask_bytes)
        return Proposal(
            text=self._engine.tokenizer.decode(
                body, skip_special_tokens=True, clean_up_tokenization_spaces=False
            ),
            prompt_tokens=prompt_tokens,
            tokens=tuple(answer.tokens),
            log_prob=answer.log_prob if request.temperature > 0 else None,
            masks=masks,
            finish=cast(Literal["stop", "length"], answer.finish),
            model=self.name,
            adapter=self.adapter,
            seconds=seconds,
            drawn=tuple(answer.drawn),
            output_tokens=len(answer.tokens),
            request=request,
        )


def _moments(tensors: Mapping[str, Tensor], name: str, device: torch.device) -> dict[str, Tensor]:
    """AdamW's state of one weight; its step counter stays on the CPU."""
    state: dict[str, Tensor] = {}
    for kind in _MOMENTS:
        tensor = tensors.get(f"{kind}/{name}")
        if tensor is not None:
            state[kind] = tensor if kind == "step" else tensor.to(device)
    return state
