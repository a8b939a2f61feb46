"""A model of transformers in memory, ready to sample and to learn: tokens, grammars, prompts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from jinja2 import TemplateError

from se_rl.llm.adapters import AttachedAdapters
from se_rl.llm.attention import PromptCache, prepare
from se_rl.llm.backends import LlmError
from se_rl.llm.catalog import KNOWN, ModelSource
from se_rl.llm.decoding import read

_KEPT_PREFIXES = 4


class Engine:
    """The loaded model, shared by all designers that differ only in their adapter."""

    def __init__(
        self,
        source: ModelSource,
        *,
        threads: int | None = None,
        dtype: str | None = None,
        device: str | None = None,
        coarse_steps: bool = False,
    ) -> None:
        self.source = source
        self.threads = threads
        self.dtype = dtype
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.coarse_steps = coarse_steps
        self.prefixes: dict[tuple[Any, ...], PromptCache] = {}

    @cached_property
    def tokenizer(self) -> Any:
        """The model's own tokenizer."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.source.folder)

    @cached_property
    def model(self) -> Any:
        """The model, checked, loaded and prepared when it is first needed."""
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        self.source.check()
        logging.disable_progress_bar()
        known = KNOWN.get(self.source.name)
        dtype = self.dtype or (known.dtype if known else "auto")
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(self.source.folder, dtype=dtype)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            first = (str(error).splitlines() or [""])[0][:150]
            raise LlmError(
                f"{self.source.folder} cannot be loaded ({first}); run: se-rl llm pull smollm2"
            ) from None
        prepare(model.to(self.device))
        return model

    @cached_property
    def adapters(self) -> AttachedAdapters:
        """The adapters attached to the model."""
        return AttachedAdapters(self.source, self.model)

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer."""
        told = self.model.generation_config.eos_token_id
        listed = told if isinstance(told, list) else [told]
        return frozenset({*listed, self.tokenizer.eos_token_id} - {None})

    @cached_property
    def guide(self) -> Any:
        """The tokenizer as llguidance sees it."""
        from llguidance.hf import from_tokenizer

        size = self.model.get_output_embeddings().weight.shape[0]
        return from_tokenizer(self.tokenizer, n_vocab=size, eos_token=self.tokenizer.eos_token_id)

    def matcher(self, grammar: str | None) -> Any:
        """A grammar (Lark) at its start; one that llguidance cannot read is refused."""
        if grammar is None:
            return None
        from llguidance import LLMatcher

        matcher = LLMatcher(self.guide, LLMatcher.grammar_from_lark(grammar), log_level=0)
        if matcher.is_error():
            first = matcher.get_error().splitlines()[0][:200]
            raise LlmError(f"the grammar cannot be read: {first}; fix its Lark text")
        return matcher

    def tokens(self, messages: list[dict[str, str]], *, closed: bool = False) -> list[int]:
        """A chat as the model's template writes it, up to where the answer begins.

        `closed` leaves out the opening of the answer.
        """
        if not self.tokenizer.chat_template:
            text = "\n\n".join(message["content"] for message in messages) + "\n\n"
            return self.tokenizer(text)["input_ids"]
        try:
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=not closed
            )
        except TemplateError as error:
            raise LlmError(
                f"{self.source.name}'s chat template refuses these messages ({error});"
                " use other roles"
            ) from None
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    @contextlib.contextmanager
    def weights(self, adapter: str | None) -> Iterator[None]:
        """Use this adapter (a name inside the model) or none, on the threads asked for."""
        if self.threads:  # each time: kernels with threads of their own change torch's setting
            torch.set_num_threads(self.threads)
        with self.adapters.use(adapter):
            yield

    def rounding(self) -> torch.autocast:
        """How what is learned from is multiplied: as the weights are stored, or in bfloat16."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.coarse_steps)

    def prefix(
        self, messages: list[dict[str, str]], prompt: list[int], key: object
    ) -> PromptCache | None:
        """The start of the prompt already read: all messages but the last, kept under `key`.

        It is read separately even when it is new, so that keeping it never changes a result.
        """
        start = self._opening(messages)
        if not start or prompt[: len(start)] != start or len(start) == len(prompt):
            return None
        place = (key, tuple(start))
        cache = self.prefixes.pop(place, None)
        if cache is None:
            cache = PromptCache()
            read(self.model, start, cache)
        self.prefixes[place] = cache  # the newest last; the oldest goes
        while len(self.prefixes) > _KEPT_PREFIXES:
            self.prefixes.pop(next(iter(self.prefixes)))
        return cache

    def _opening(self, messages: list[dict[str, str]]) -> list[int]:
        """Tokens of all messages but the last; none if the template refuses to stop there."""
        if len(messages) < 2:
            return []
        try:
            return self.tokens(messages[:-1], closed=True)
        except LlmError:  # some templates want a user's message
            return []
