"""The runtime stage: tries a module on recorded steps and says in one line what is wrong with it.

Trusted code that runs inside a locked process, together with the module. A hostile module may forge
its own verdict there and gains nothing by it: it is trained behind the same lock, and scored by the
parent from its actions alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.modules.allowed_names import IMPORTS
from se_rl.modules.contracts import REWARD_FIELDS
from se_rl.modules.errors import ModuleError, one_line
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import BEHAVIOUR, Floats, Recorded
from se_rl.modules.loading import load_module
from se_rl.modules.module_probe import ModuleProbe, is_out_of_memory
from se_rl.sandbox.message import Content
from se_rl.sandbox.worker import shared_data

LINE_LENGTH = 480
"""The longest line of a verdict, in characters."""


@dataclass(frozen=True, eq=False)
class RuntimeVerdict:
    """How a module did: what is wrong in one line ("": nothing), a digest of all its outputs, its
    outputs on a few rows (scaled, for comparing designs), and what it should do better."""

    error: str
    fingerprint: str = ""
    behaviour: Floats = field(default_factory=lambda: np.zeros(BEHAVIOUR, np.float32))
    warnings: tuple[str, ...] = ()


def probe(source: str, code_type: str, recorded: Recorded, *, salt: int = 0) -> RuntimeVerdict:
    """Try a module. Call it in two processes with different salts: equal fingerprints mean that it
    is deterministic.

    The salt moves what the module makes in memory: two forks of one process would agree on
    addresses otherwise. Running out of memory is left to the caller, the sandbox has a word for it.
    """
    kind = KINDS[code_type]
    trial = ModuleProbe(kind, salt)
    load = partial(trial.attempt, load_module, source, code_type, what="its first lines")
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            behaviour = kind.check(load, recorded, trial)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        line = str(error) if isinstance(error, ModuleError) else one_line(error, code_type)
        return RuntimeVerdict(" ".join(line.split())[:LINE_LENGTH])
    return RuntimeVerdict("", trial.digest.hexdigest(), behaviour, tuple(trial.warnings))


def probe_in_sandbox(payload: Content) -> Content:
    """`probe` as the sandbox calls it: the source comes as bytes, the recorded steps are shared as
    "recorded"."""
    source = payload["source"].decode()
    recorded = shared_data()["recorded"]
    verdict = probe(source, payload["code_type"], recorded, salt=payload["salt"])
    return asdict(verdict) | {"warnings": list(verdict.warnings)}


def warm_up() -> None:
    """In the fork-server: import all that a module may, load the market's kernels, use each kind of
    layer both ways."""
    for name in IMPORTS:
        import_module(name)
    invented = _invented_steps()
    for code_type, kind in KINDS.items():
        for source in kind.contract.examples:
            probe(source, code_type, invented)
    from torch.nn.utils.parametrizations import weight_norm

    layers = (
        nn.LSTM(8, 8, batch_first=True),
        nn.GRU(8, 8),
        nn.RNN(8, 8),
        nn.TransformerEncoderLayer(8, 2, 8, batch_first=True),
        nn.Conv1d(4, 4, 3),
        weight_norm(nn.Linear(8, 8)),
        nn.GELU(),
        nn.Softplus(),
    )
    x = torch.ones(2, 4, 8, requires_grad=True)
    for layer in layers:
        out = layer(x)
        (out[0] if isinstance(out, tuple) else out).sum().backward()


def _invented_steps() -> dict[str, npt.NDArray[Any]]:
    """Stand-ins for recorded steps, enough to call everything once."""
    rng = np.random.default_rng(0)
    low = np.array([known.low for known in REWARD_FIELDS.values()])[:, None, None]
    high = np.array([known.high for known in REWARD_FIELDS.values()])[:, None, None]
    fields = (low + (high - low) * rng.random((3, len(low), 20, 70))).astype(np.float32)
    closes = 50.0 * np.exp(1e-3 * rng.standard_normal((2, 3, 120, 1)))
    bars = np.concatenate([closes, closes * 1.001, closes * 0.999, closes, closes], -1)
    return {
        "fields_static": fields,
        "merit_static": np.arange(3.0),
        "observations": rng.random((256, 20, len(OBSERVATION_FIELDS)), np.float32),
        "bars": bars,
    }
