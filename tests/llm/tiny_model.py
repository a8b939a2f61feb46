"""A Llama of two layers with random weights and a byte-level tokenizer of its own, in a folder as transformers reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, TokenizersBackend

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GRAMMAR = r"""
start: "def reward(step):\n    return " term (" + " term)?
term: "step." FIELD | NUMBER " * step." FIELD
FIELD: "fill_price" | "time_left" | "volatility"
NUMBER: /[1-9]\.[0-9]/
"""
PATTERN = r"def reward\(step\):\n    return {0}( \+ {0})?".format(
    r"([1-9]\.[0-9] \* )?step\.(fill_price|time_left|volatility)"
)
MESSAGES = (
    {"role": "system", "content": "You write rewards in Python."},
    {"role": "user", "content": "Write def reward(step)."},
)


def build_tokenizer() -> Any:
    """Byte-level BPE with a few merges, so that forced text has several ways to be cut into tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    corpus = [
        "def reward(step):\n    return step.fill_price + 2.5 * step.time_left",
        "Write def reward(step). volatility",
    ]
    tokenizer.train_from_iterator(corpus * 4, trainer)
    tokenizer.add_special_tokens(
        [AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)]
    )
    wrapped = TokenizersBackend(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    wrapped.chat_template = CHAT
    return wrapped


def build_model(folder: Path, *, seed: int = 0, sharpness: float = 3.0) -> Path:
    """Write the model; its output weights are sharpened so that its choices are not all alike."""
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 5,  # as in real models, more outputs than tokens
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, std=sharpness / 8 if weight.ndim == 2 else 0.1)
        if "norm" in name:
            weight.data += 1.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
