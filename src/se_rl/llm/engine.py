"""A model of transformers in memory, ready to sample and to learn: tokens, grammars, adapters.

The base weights are never changed. Learning goes into an adapter: low-rank updates of the attention's projections, and the
norm gains as whole vectors, which LoRA is not defined for.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError

from se_rl.llm.attention import PromptCache, prepare
from se_rl.llm.backends import LlmError
from se_rl.llm.catalog import KNOWN, ModelSource
from se_rl.llm.decoding import read

CARD = "se_rl_adapter.json"
WEIGHTS = "adapter_model.safetensors"
_KEPT_PREFIXES = 4


@dataclass(frozen=True)
class LoraSettings:
    """Shape of an adapter: rank, scale, the projections that get low-rank updates, and whether norm gains train too."""

    rank: int = 16
    alpha: int = 32
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    norms: bool = True


class Engine:
    """The loaded model, shared by all designers that differ in their adapter only."""

    def __init__(self, source: ModelSource, threads: int | None, dtype: str | None, device: str | None) -> None:
        self.source, self.threads, self.dtype = source, threads, dtype
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.peft: Any = None
        self.adapters = 0
        self.prefixes: dict[tuple[Any, ...], PromptCache] = {}

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.source.folder)

    @cached_property
    def model(self) -> Any:
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
            raise LlmError(f"{self.source.folder} cannot be loaded ({first}); run: se-rl llm pull smollm2") from None
        prepare(model.to(self.device))
        return model

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer."""
        told = self.model.generation_config.eos_token_id
        listed = told if isinstance(told, list) else [told]
        return frozenset(token for token in (*listed, self.tokenizer.eos_token_id) if token is not None)

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
            raise LlmError(
                f"the grammar cannot be read: {matcher.get_error().splitlines()[0][:200]}; mend its Lark text"
            )
        return matcher

    def tokens(self, messages: list[dict[str, str]], *, closed: bool = False) -> list[int]:
        """A chat as the model's template writes it, up to where the answer begins (`closed`: without that opening)."""
        if not self.tokenizer.chat_template:
            return self.tokenizer("\n\n".join(message["content"] for message in messages) + "\n\n")["input_ids"]
        try:
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=not closed)
        except TemplateError as error:
            raise LlmError(
                f"{self.source.name}'s chat template refuses these messages ({error}); use other roles"
            ) from None
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def new_adapter(self, settings: LoraSettings, *, seed: int) -> str:
        """Attach a neutral adapter and return its name inside the model."""
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=list(settings.targets),
            modules_to_save=["norm"] if settings.norms else None,
            lora_dropout=0.0,
            task_type="CAUSAL_LM",
        )
        self.adapters += 1
        name = f"adapter{self.adapters}"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.peft is None:
                self.peft = get_peft_model(self.model, config, adapter_name=name)
            else:
                self.peft.add_adapter(name, config)
        self.peft.eval()
        return name

    @contextlib.contextmanager
    def weights(self, adapter: str | None) -> Iterator[None]:
        """Use the weights of this adapter (a name inside the model), or the untouched ones, on the threads asked for."""
        if self.threads:
            torch.set_num_threads(self.threads)  # each time: kernels with threads of their own change torch's
        if self.peft is None:
            yield
        elif adapter is None:
            with self.peft.disable_adapter():
                yield
        else:
            self.peft.set_adapter(adapter)
            yield

    def save_adapter(self, adapter: str, folder: Path, card: dict[str, Any]) -> None:
        """Write an adapter as safetensors, norm gains included, with a card that names its base; whole or not at all."""
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        state = get_peft_model_state_dict(self.peft, adapter_name=adapter)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as work:
            built = Path(work) / "new"
            self.peft.peft_config[adapter].save_pretrained(str(built))
            save_file({key: value.detach().cpu().contiguous() for key, value in state.items()}, built / WEIGHTS)
            base = {"base": self.source.name, "base_sha256": self.source.base_sha256()}
            (built / CARD).write_text(json.dumps({**base, **card}, indent=2))
            if folder.exists():
                folder.rename(Path(work) / "old")
            built.rename(folder)

    def load_adapter(self, folder: Path) -> tuple[str, dict[str, Any]]:
        """Attach a saved adapter: its name inside the model and its card. One made for another base is refused."""
        from peft import LoraConfig, set_peft_model_state_dict
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            card = json.loads((folder / CARD).read_text())
            config = LoraConfig.from_pretrained(str(folder))
            state = load_file(folder / WEIGHTS)
        except (OSError, ValueError, SafetensorError):
            raise LlmError(f"{folder} is not a whole adapter of se-rl; name a folder that save_adapter wrote") from None
        base = self.source.base_sha256()
        if card["base_sha256"] != base:
            theirs = f"{card['base']} {card['base_sha256'][:12]}"
            ours = f"{self.source.name} {base[:12]}"
            raise LlmError(f"adapter {folder} was trained on {theirs}, not on {ours}; use that model, or no adapter")
        targets = tuple(sorted(config.target_modules or ()))
        settings = LoraSettings(config.r, config.lora_alpha, targets, bool(config.modules_to_save))
        name = self.new_adapter(settings, seed=0)
        set_peft_model_state_dict(self.peft, state, adapter_name=name)
        return name, card

    def prefix(self, messages: list[dict[str, str]], prompt: list[int], key: object) -> PromptCache | None:
        """The prompt's beginning already read: all messages but the last, kept from call to call under `key`.

        It is read apart even when it is new, so that what was kept never changes a result.
        """
        try:
            start = self.tokens(messages[:-1], closed=True) if len(messages) > 1 else []
        except LlmError:  # some templates want a user's message
            start = []
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
