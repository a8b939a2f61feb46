"""Adapters of a loaded model: attached, chosen, packed into bytes, saved to a folder.

The base weights never change. Learning goes into an adapter: low-rank updates of the attention's
projections, and the norm gains as whole vectors, since LoRA is not defined for vectors.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from se_rl.llm.adapter_file import adapter_head
from se_rl.llm.backends import LlmError
from se_rl.llm.catalog import ModelSource

CARD = "se_rl_adapter.json"
WEIGHTS = "adapter_model.safetensors"
_WRAPPED = re.compile(r"\.(?:original_module|modules_to_save|base_layer)\b")
"""What peft adds behind a module's name."""

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class LoraSettings:
    """Shape of an adapter: rank, scale, the projections it updates, and whether norms train."""

    rank: int = 16
    alpha: int = 32
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    norms: bool = True


@dataclass(frozen=True)
class AdapterCard:
    """What an adapter is called and how often it was updated."""

    label: str
    updates: int


def peft_config(model: Any, settings: LoraSettings) -> Any:
    """The settings as peft reads them; every norm's gain trains as a whole vector of its own."""
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    norms: set[str] = set()
    transposed = False
    for path, module in model.named_modules():
        name = _WRAPPED.split(path)[0].rsplit(".", 1)[-1]
        if type(module).__name__.endswith("Norm"):
            norms.add(name)
        if name in settings.targets and isinstance(module, Conv1D):
            transposed = True
    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=list(settings.targets),
        modules_to_save=sorted(norms) if settings.norms else None,
        fan_in_fan_out=transposed,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


@contextlib.contextmanager
def fresh_weights(seed: int) -> Iterator[None]:
    """While peft draws an adapter's first weights: from `seed`, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # peft asks transformers for this by its old name
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        torch.manual_seed(seed)
        yield


class AttachedAdapters:
    """All adapters of one loaded model, each under its own name inside it."""

    def __init__(self, source: ModelSource, model: Any) -> None:
        self.source = source
        self.model = model
        self.peft: Any = None
        self._count = 0

    def new(self, settings: LoraSettings, *, seed: int) -> str:
        """Attach a neutral adapter and return its name inside the model."""
        from peft import get_peft_model

        config = peft_config(self.model, settings)
        self._count += 1
        name = f"adapter{self._count}"
        with fresh_weights(seed):
            if self.peft is None:
                self.peft = get_peft_model(self.model, config, adapter_name=name)
            else:
                self.peft.add_adapter(name, config)
        self.peft.eval()
        return name

    @contextlib.contextmanager
    def use(self, adapter: str | None) -> Iterator[None]:
        """Use the weights of this adapter (a name inside the model), or the untouched ones."""
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
        found: dict[str, torch.nn.Parameter] = {}
        with self.use(adapter):
            for name, weight in self.peft.named_parameters():
                if weight.requires_grad:
                    found[name.replace(f".{adapter}", "")] = weight
        return found

    def pack(self, adapter: str, tensors: Tensors, card: AdapterCard) -> bytes:
        """Tensors and a card as safetensors; the card also names the base and the shape."""
        from safetensors.torch import save

        shape = asdict(_settings(self.peft.peft_config[adapter]))
        told = {**self._base(), "settings": shape, **asdict(card)}
        return save(_plain(tensors), {"card": json.dumps(told, sort_keys=True)})

    def unpack(self, content: bytes) -> tuple[str, dict[str, torch.Tensor], AdapterCard]:
        """Attach an adapter of the packed shape: its name inside the model, tensors and card."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        head = adapter_head(content)
        tensors: dict[str, torch.Tensor] = {}
        with contextlib.suppress(SafetensorError):
            tensors = load(content)
        if head is None or not tensors:
            raise LlmError(
                f"these {len(content)} bytes are not a complete adapter;"
                " give what adapter_bytes made"
            )
        self._check_base(asdict(head), head.label)
        settings = LoraSettings(head.rank, head.alpha, head.targets, head.norms)
        return self.new(settings, seed=0), tensors, AdapterCard(head.label, head.updates)

    def save(
        self, adapter: str, folder: Path, card: AdapterCard, *, notes: Mapping[str, Any]
    ) -> None:
        """Write an adapter as peft reads it, with a card naming its base; whole or not at all."""
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        state = get_peft_model_state_dict(self.peft, adapter_name=adapter)
        told = {**self._base(), **asdict(card), **notes}
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as work:
            built = Path(work) / "new"
            self.peft.peft_config[adapter].save_pretrained(str(built))
            save_file(_plain(state), built / WEIGHTS)
            (built / CARD).write_text(json.dumps(told, indent=2))
            if folder.exists():
                folder.rename(Path(work) / "old")
            built.rename(folder)

    def load(self, folder: Path) -> tuple[str, AdapterCard]:
        """Attach a saved adapter: its name inside the model and its card."""
        from peft import LoraConfig, set_peft_model_state_dict
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            told = json.loads((folder / CARD).read_text())
            config = LoraConfig.from_pretrained(str(folder))
            state = load_file(folder / WEIGHTS)
        except (OSError, ValueError, SafetensorError):
            raise LlmError(
                f"{folder} is not a complete adapter of se-rl;"
                " name a folder that save_adapter wrote"
            ) from None
        self._check_base(told, folder)
        name = self.new(_settings(config), seed=0)
        set_peft_model_state_dict(self.peft, state, adapter_name=name)
        return name, AdapterCard(told["label"], told["updates"])

    def _base(self) -> dict[str, str]:
        return {"base": self.source.name, "base_sha256": self.source.base_sha256()}

    def _check_base(self, told: Mapping[str, Any], adapter: object) -> None:
        """Refuse an adapter that was made for other weights."""
        ours = self._base()
        if told["base_sha256"] == ours["base_sha256"]:
            return
        raise LlmError(
            f"adapter {adapter} was trained on {_short(told)}, not on {_short(ours)};"
            " use that model, or no adapter"
        )


def _settings(config: Any) -> LoraSettings:
    targets = tuple(sorted(config.target_modules or ()))
    return LoraSettings(config.r, config.lora_alpha, targets, bool(config.modules_to_save))


def _plain(tensors: Tensors) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _short(base: Mapping[str, Any]) -> str:
    return f"{base['base']} {base['base_sha256'][:12]}"
