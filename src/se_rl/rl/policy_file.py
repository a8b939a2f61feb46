"""Policies on disk: weights as safetensors, the rest as JSON in the file's header; no pickle.

A file is written beside its place, synced and renamed, so that no reader ever sees half of it; its
own hash stands in the header, so that a damaged file is refused and named.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from se_rl.bounded_reading import read_regular, shown
from se_rl.config import ConfigError
from se_rl.modules.agent_interface import ACTION_KINDS
from se_rl.modules.defaults import Modules
from se_rl.records.files import write_bytes
from se_rl.rl.action_maps import ACTION_MAPS
from se_rl.rl.policy import Neutral, Policy
from se_rl.rl.policy_header import (
    MOST_BYTES,
    Facts,
    check_tensors,
    facts_fault,
    header_of,
    interface_facts,
    interface_from,
    policy_text,
)
from se_rl.rl.sandboxed_training import WEIGHT, TrainedDesign
from se_rl.rl.trainer import Trained

FORMAT = 1
_HASH = re.compile(rb'"sha256":"[0-9a-f]{64}"')
"""The hash's place.

Facts are text inside JSON, where such quotes would be escaped: the first match is the header's.
"""


class PolicyFileError(ConfigError):
    """A policy file cannot be used; one line that says which, why, and what to do."""


def save_weights(path: Path, module: nn.Module, facts: Mapping[str, Any]) -> None:
    """Write a module's weights and the facts that must agree when they are read again."""
    weights = {}
    for name, value in module.state_dict().items():
        weights[name] = value.detach().cpu().contiguous().clone()
    _write(path, weights, facts)


def _write(path: Path, weights: dict[str, Tensor], facts: Mapping[str, Any]) -> None:
    from safetensors.torch import save

    header = {
        "format": str(FORMAT),
        "facts": json.dumps(dict(facts), sort_keys=True),
        "sha256": "0" * 64,
    }
    content = _ordered(save(weights, metadata=header))
    named = f'"sha256":"{digest(content)}"'.encode()
    write_bytes(path, _HASH.sub(named, content, count=1))


def _ordered(content: bytes) -> bytes:
    """The same file with its header in order: equal policies are equal bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    text = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


def read_weights(path: Path) -> tuple[dict[str, Tensor], Facts]:
    """Weights and facts of a file, refused unless it is whole to the last byte."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        content = read_regular(path, most_bytes=MOST_BYTES, follow=True)
    except OSError as error:
        raise PolicyFileError(
            f"policy {path} cannot be read: {error.strerror or error}; give a saved policy"
        ) from None
    try:
        _check_header(path, content)
        check_tensors(content)
        return load(content), policy_text(header_of(content))
    except PolicyFileError:
        raise
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise PolicyFileError(
            f"policy {path} is damaged or no policy of ours; train it again"
        ) from None


def _check_header(path: Path, content: bytes) -> None:
    """Refuse files of newer formats, and files that are not what their hash says."""
    header = header_of(content)["__metadata__"]
    if int(header["format"]) > FORMAT:
        raise PolicyFileError(
            f"policy {path} has format {shown(header['format'])}, newer than {FORMAT}; update se-rl"
        )
    if header["sha256"] != digest(content):
        raise PolicyFileError(
            f"policy {path} is damaged: its content does not match its hash; train it again"
        )


def load_weights(path: Path, module: nn.Module, facts: Mapping[str, Any]) -> None:
    """Put a file's weights into a module made for the same facts."""
    weights, known = read_weights(path)
    for name, value in facts.items():
        if known.get(name) != value:
            raise PolicyFileError(
                f"policy {path} was made for {name} {shown(known.get(name))}, not {value}; "
                "make the agent alike"
            )
    own = module.state_dict()
    if _shapes(own) != _shapes(weights):
        raise PolicyFileError(
            f"policy {path} has other weights than this network; load it into the design it is of"
        )
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in weights.items()}


def save_policy(
    path: Path, trained: Trained, *, design: Mapping[str, str], facts: Mapping[str, Any]
) -> None:
    """Write a trained policy with the design it belongs to (sources by module) and other facts."""
    interface = trained.policy.interface
    if interface.actions not in ACTION_KINDS:
        raise ValueError(
            f"a policy with actions {interface.actions!r} has no file; "
            f"train with {', '.join(ACTION_KINDS)} to keep it"
        )
    about = {
        "shape": trained.policy.shape,
        "action_map": asdict(trained.action_map),
        "neutral": {name: asdict(value) for name, value in trained.neutral.items()},
        "design": dict(design),
        "seed": trained.seed,
        "work": trained.work,
        **interface_facts(interface),
    }
    save_weights(path, trained.policy, {**facts, **about})


def save_locked(path: Path, trained: TrainedDesign, facts: Mapping[str, Any]) -> None:
    """Write a policy that was trained behind the lock, as the same kind of file.

    `facts` hold its seed and neutral schedules.
    """
    weights = {}
    for name, value in (trained.weights or {}).items():
        weights[name.removeprefix(WEIGHT)] = torch.from_numpy(value.copy())
    about = {
        "shape": trained.shape,
        "action_map": trained.action_map,
        "design": dict(trained.sources),
        "work": trained.work,
        **interface_facts(trained.interface),
    }
    _write(path, weights, {**facts, **about})


def read_policy(path: Path, modules: Modules) -> tuple[Trained, Facts]:
    """A saved policy, and its facts; `modules` are the live modules of its design."""
    facts = policy_facts(path)
    asked, live = interface_from(facts), modules.interface
    if asked != live:
        raise PolicyFileError(f"policy {path} asks for {asked}, its design for {live}; they differ")
    policy = Policy(modules, **facts["shape"])
    load_weights(path, policy, {"shape": facts["shape"]})
    trained = Trained(
        policy=policy,
        action_map=ACTION_MAPS[asked.actions](**facts["action_map"]),
        neutral={name: Neutral(**value) for name, value in facts["neutral"].items()},
        curve=(),
        work=facts["work"],
        reason=None,
        seed=facts["seed"],
    )
    return trained, facts


def policy_facts(path: Path) -> Facts:
    """What a file says about its policy, every part of its type and size; others are refused."""
    weights, facts = read_weights(path)
    fault = facts_fault(facts)
    for name, value in weights.items():
        if not fault and value.is_floating_point() and not bool(torch.isfinite(value).all()):
            fault = f"{shown(name)} holds numbers that are not finite"
    if fault:
        raise PolicyFileError(
            f"policy {path} is no trained policy: {fault}; load it where it was saved"
        )
    return facts


def digest(content: bytes) -> str:
    """SHA-256 over every byte of a file, its own hash in the header taken as zeros."""
    blank = b'"sha256":"' + b"0" * 64 + b'"'
    return hashlib.sha256(_HASH.sub(blank, content, count=1)).hexdigest()
