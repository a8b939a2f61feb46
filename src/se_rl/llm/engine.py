"""A model of transformers in memory, ready to sample and to learn: tokens, grammars, adapters.

The base weights are never changed. Learning goes into an adapter: low-rank updates of the attention's projections, and the
norm gains as whole vectors, which LoRA is not defined for.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
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
_WRAPPED = re.compile(
    r"\.(?:original_module|modules_to_save|base_layer)\b"
)  # what peft adds behind a module's name


@dataclass(frozen=True)
class LoraSettings:
    """Shape of an adapter: rank, scale, the projections that get low-rank updates, and whether norm gains train too."""

    rank: int = 16
    alpha: int = 32
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    norms: bool = True


def peft_config(model: Any, settings: LoraSettings) -> Any:
    """What peft is told: low-rank updates of the targets, and every norm's gain as a whole vector of its own."""
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    parts = [
        (_WRAPPED.split(name)[0].rsplit(".", 1)[-1], module)
        for name, module in model.named_modules()
    ]
    norms = {name for name, module in parts if type(module).__name__.endswith("Norm")}
    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=list(settings.targets),
        modules_to_save=sorted(norms) if settings.norms else None,
        fan_in_fan_out=any(
            isinstance(module, Conv1D) for name, module in parts if name in settings.targets
        ),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


def _settings(config: Any) -> LoraSettings:
    targets = tuple(sorted(config.target_modules or ()))
    return LoraSettings(config.r, config.lora_alpha, targets, bool(config.modules_to_save))


class Engine:
    """The loaded model, shared by all designers that differ in their adapter only."""

    def __init__(
        self, source: ModelSource, threads: int | None, dtype: str | None, device: str | None
    ) -> None:
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
            raise LlmError(
                f"{self.source.folder} cannot be loaded ({first}); run: se-rl llm pull smollm2"
            ) from None
        prepare(model.to(self.device))
        return model

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer."""
        told = self.model.generation_config.eos_token_id
        listed = told if isinstance(told, list) else [told]
        return frozenset(
            token for token in (*listed, self.tokenizer.eos_token_id) if token is not None
        )

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
            return self.tokenizer("\n\n".join(message["content"] for message in messages) + "\n\n")[
                "input_ids"
            ]
        try:
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=not closed
            )
        except TemplateError as error:
            raise LlmError(
                f"{self.source.name}'s chat template refuses these messages ({error}); use other roles"
            ) from None
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def new_adapter(self, settings: LoraSettings, *, seed: int) -> str:
        """Attach a neutral adapter and return its name inside the model."""
        from peft import get_peft_model

        config = peft_config(self.model, settings)
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
            torch.set_num_threads(
                self.threads
            )  # each time: kernels with threads of their own change torch's
        if self.peft is None:
            yield
        elif adapter is None:
            with self.peft.disable_adapter():
                yield
        else:
            self.peft.set_adapter(adapter)
            yield

    def trainable(self, adapter: str) -> dict[str, torch.nn.Parameter]:
        """What learning changes, by names that are the same for every adapter of one shape."""
        with self.weights(adapter):
            found = [
                (name, weight)
                for name, weight in self.peft.named_parameters()
                if weight.requires_grad
            ]
        return {name.replace(f".{adapter}", ""): weight for name, weight in found}

    def pack(self, adapter: str, tensors: dict[str, torch.Tensor], card: dict[str, Any]) -> bytes:
        """Tensors and a card as safetensors; the card also names the base and the adapter's shape."""
        from safetensors.torch import save

        shape = {"settings": asdict(_settings(self.peft.peft_config[adapter]))}
        text = json.dumps({**self._base(), **shape, **card}, sort_keys=True)
        return save(
            {name: t.detach().cpu().contiguous() for name, t in tensors.items()}, {"card": text}
        )

    def unpack(self, content: bytes) -> tuple[str, dict[str, torch.Tensor], dict[str, Any]]:
        """Attach an adapter of the shape that `pack` was given: its name inside the model, the tensors, the card."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            tensors = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            card = json.loads(header["__metadata__"]["card"])
            told = card["settings"]
            settings = LoraSettings(
                told["rank"], told["alpha"], tuple(told["targets"]), told["norms"]
            )
        except (ValueError, KeyError, TypeError, SafetensorError):
            raise LlmError(
                f"these {len(content)} bytes are no whole adapter; give what adapter_bytes made"
            ) from None
        self._check_base(card, card.get("label", ""))
        return self.new_adapter(settings, seed=0), tensors, card

    def save_adapter(self, adapter: str, folder: Path, card: dict[str, Any]) -> None:
        """Write an adapter as safetensors, norm gains included, with a card that names its base; whole or not at all."""
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        state = get_peft_model_state_dict(self.peft, adapter_name=adapter)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as work:
            built = Path(work) / "new"
            self.peft.peft_config[adapter].save_pretrained(str(built))
            save_file(
                {key: value.detach().cpu().contiguous() for key, value in state.items()},
                built / WEIGHTS,
            )
            (built / CARD).write_text(json.dumps({**self._base(), **card}, indent=2))
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
            raise LlmError(
                f"{folder} is not a whole adapter of se-rl; name a folder that save_adapter wrote"
            ) from None
        self._check_base(card, folder)
        name = self.new_adapter(_settings(config), seed=0)
        set_peft_model_state_dict(self.peft, state, adapter_name=name)
        return name, card

    def _base(self) -> dict[str, str]:
        return {"base": self.source.name, "base_sha256": self.source.base_sha256()}

    def _check_base(self, card: dict[str, Any], adapter: object) -> None:
        ours = self._base()
        if card["base_sha256"] != ours["base_sha256"]:
            theirs, ours_told = (
                f"{each['base']} {each['base_sha256'][:12]}" for each in (card, ours)
            )
            raise LlmError(
                f"adapter {adapter} was trained on {theirs}, not on {ours_told}; use that model, or no adapter"
            )

    def prefix(
        self, messages: list[dict[str, str]], prompt: list[int], key: object
    ) -> PromptCache | None:
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
