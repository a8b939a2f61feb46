"""LLM4Agent: the network between what the agent observes and its policy and value heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.data.features import CLIP, OBSERVATION_FIELDS
from se_rl.modules.agent_interface import (
    ACTION_KINDS,
    FURTHER_INPUTS,
    USUAL_ACTIONS,
    AgentInterface,
    further_width,
)
from se_rl.modules.contracts import ALWAYS, LIMITS, NETWORK_CONSTANTS, Contract
from se_rl.modules.default_sources import source_of_default
from se_rl.modules.errors import ModuleError, need
from se_rl.modules.kinds.kind import BEHAVIOUR, Floats, Load, ModuleKind, Recorded
from se_rl.modules.kinds.network_grammar import DEFAULT_RULES, RULES
from se_rl.records.settings import STARTS

if TYPE_CHECKING:
    from torch import Tensor, nn

    from se_rl.modules.module_probe import ModuleProbe

EXAMPLES = (
    """import torch
from torch import nn


class Network(nn.Module):
    learning_rate = 0.002
    exploration = 0.8
    action_zero = 1.5

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.first = nn.Linear(obs_dim * history, 32)

    def forward(self, obs):
        return torch.tanh(self.first(obs.flatten(1)))
""",
    """import torch
from torch import nn


class Network(nn.Module):
    history = 4
    epochs = 3

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 48
        self.norm = nn.LayerNorm(obs_dim)
        self.memory = nn.GRU(obs_dim, 48, batch_first=True)
        self.gate = nn.Linear(obs_dim, 48)

    def forward(self, obs):
        recalled, _ = self.memory(self.norm(obs))
        return recalled[:, -1] * torch.sigmoid(self.gate(obs[:, -1]))
""",
)


def _glossary() -> tuple[str, ...]:
    lines = []
    for name, known in NETWORK_CONSTANTS.items():
        numbers = f"{known.low:g} to {known.high:g}, default {known.default:g}"
        lines.append(f"{name}: {numbers}; {known.help}")
    lines.append(f"start: {', '.join(STARTS)}; whose schedule is learned before RL, a text")
    lines.append(f"obs[..., i] holds, in this order: {', '.join(OBSERVATION_FIELDS)}")
    lines.append(
        "inputs: a tuple of names, none by default; what obs holds behind these. Inputs of bars are 0"
        " in the simulated market, all others are 0 on history"
    )
    for name, known_input in FURTHER_INPUTS.items():
        count = known_input.width
        numbers = "1 number" if count == 1 else f"{count} numbers"
        whose = "of bars; " if known_input.of_bars else ""
        lines.append(f"inputs = ('{name}',): {numbers}; {whose}{known_input.help}")
    for name, meaning in ACTION_KINDS.items():
        lines.append(f"actions = '{name}': {meaning}")
    return tuple(lines)


CONTRACT = Contract(
    code_type="network",
    title="LLM4Agent",
    entry="Network",
    signature="class Network(nn.Module): __init__(self, obs_dim, history);"
    " forward(self, obs) -> features",
    task="Turn what the agent has observed into features;"
    " the framework puts policy and value heads on them.",
    rules=(
        "obs has shape [B, history, obs_dim], the newest observation last;"
        " return [B, self.feature_dim]",
        "set self.feature_dim in __init__; call super().__init__() first",
        "class attributes may set learning constants within their ranges, `inputs` and `actions`",
        "each row depends on its own row only; gradients must reach the parameters",
        *ALWAYS,
    ),
    examples=EXAMPLES,
    glossary=_glossary(),
)


def check_attributes(network: Any) -> Any:
    """The class itself, if its learning constants lie in their ranges and it asks for what there is."""
    for name, known in NETWORK_CONSTANTS.items():
        value = getattr(network, name, known.default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not known.low <= value <= known.high:
            raise ModuleError(
                f"{name} = {value!r} is out of range;"
                f" set a number from {known.low:g} to {known.high:g}"
            )
    try:
        interface_of(network)
    except ValueError as error:
        raise ModuleError(str(error)) from None
    start = getattr(network, "start", STARTS[0])
    if not isinstance(start, str) or start not in STARTS:
        raise ModuleError(f"start = {start!r} is unknown; set one of {', '.join(STARTS)}")
    return network


def interface_of(network: Any) -> AgentInterface:
    """What a network class asks to see and to do; a ValueError where there is no such thing."""
    actions = getattr(network, "actions", USUAL_ACTIONS)
    return AgentInterface.checked(getattr(network, "inputs", ()), actions)


def check_network(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Observations of every kind, training and saving, and the wider input of agents that talk."""
    from torch.nn import functional

    from se_rl.modules.module_probe import SPLIT, normal, scaled

    factory = load()
    history = int(getattr(factory, "history", NETWORK_CONSTANTS["history"].default))
    further = further_width(interface_of(factory).inputs)
    fields, heard = len(OBSERVATION_FIELDS) + further, LIMITS.message_size
    rows = _windows(recorded, history, further)
    live, width = _with_width(trial, factory, fields, history)
    values = trial.batches(live, rows, edges=_edges(history, fields), tail=(width,))
    varies = (values.std(0) > 1e-6 * values.abs().max()).any()
    need(varies, "the features are the same for all recorded observations; let them depend on obs")
    trial.learns(live, rows[:SPLIT])
    trial.survives_saving(live, lambda: trial.build(factory, fields, history), rows[:64])
    wide, wide_width = _with_width(trial, factory, fields + heard, history)
    trial.run(
        wide,
        functional.pad(rows[:8], (0, heard)),
        what=f"obs_dim {fields + heard}, as where agents talk",
        shape=(8, wide_width),
    )
    shown = scaled(values @ normal((width,), 2))
    return np.concatenate([_constants(factory), shown])[:BEHAVIOUR]


def _windows(recorded: Recorded, history: int, further: int) -> Tensor:
    """Recorded observations in windows [row, history, field], in no order.

    Further inputs were not recorded; numbers drawn at random stand in their places.
    """
    import torch
    from torch.nn import functional

    from se_rl.modules.module_probe import mixed, normal

    observations = torch.tensor(recorded["observations"])  # [order, step, field]
    if further:
        drawn = normal((*observations.shape[:2], further), 4).clamp(-CLIP, CLIP)
        observations = torch.cat([observations, drawn], dim=2)
    padded = functional.pad(observations, (0, 0, history - 1, 0))  # zeros before the first
    windows = padded.unfold(1, history, 1).transpose(2, 3).flatten(0, 1)
    return windows[mixed(len(windows))].contiguous()


def _edges(history: int, fields: int) -> dict[str, Tensor]:
    """Windows at the ends of what observations can be."""
    import torch

    from se_rl.modules.module_probe import normal

    extreme = CLIP * normal((64, history, fields), 1).sign()
    left = slice(len(OBSERVATION_FIELDS) - 2, len(OBSERVATION_FIELDS))
    extreme[..., left] = (extreme[..., left] > 0).float()  # time and inventory left are shares
    return {
        "observations of 0": torch.zeros(1, history, fields),
        f"observations of {CLIP:g} and -{CLIP:g}": extreme,
    }


def _with_width(
    trial: ModuleProbe, factory: Callable[..., Any], obs_dim: int, history: int
) -> tuple[nn.Module, int]:
    live = trial.build(factory, obs_dim, history)
    most = LIMITS.feature_dim
    width: Any = getattr(live, "feature_dim", None)
    need(
        type(width) is int and 1 <= width <= most,
        f"self.feature_dim is {width!r}; set it in __init__ to a whole number from 1 to {most}",
    )
    return live, width


def _constants(factory: Any) -> Floats:
    """The learning constants as shares of their ranges."""
    shares = []
    for name, known in NETWORK_CONSTANTS.items():
        value = getattr(factory, name, known.default)
        shares.append((value - known.low) / (known.high - known.low))
    start = getattr(factory, "start", STARTS[0])
    if start != STARTS[0]:  # in front, so that the others' numbers stay
        shares.insert(0, STARTS.index(start) / len(STARTS))
    return np.array(shares, np.float32)


NETWORK = ModuleKind(
    contract=CONTRACT,
    part="network",
    default_source=source_of_default("Network"),
    rules=RULES,
    default_rules=DEFAULT_RULES,
    check=check_network,
    finish=check_attributes,
)
