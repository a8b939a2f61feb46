"""LLM4Agent: the network between what the agent observes and its policy and value heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.data.features import CLIP, OBSERVATION_FIELDS
from se_rl.modules.contracts import ALWAYS, LIMITS, NETWORK_CONSTANTS, Contract
from se_rl.modules.default_sources import source_of_default
from se_rl.modules.errors import ModuleError, need
from se_rl.modules.grammar import Rules, one_of
from se_rl.modules.kinds.kind import BEHAVIOUR, Floats, Load, ModuleKind, Recorded

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
    lines.append(f"obs[..., i] holds, in this order: {', '.join(OBSERVATION_FIELDS)}")
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
        "class attributes may set learning constants within their ranges",
        "each row depends on its own row only; gradients must reach the parameters",
        *ALWAYS,
    ),
    examples=EXAMPLES,
    glossary=_glossary(),
)

_FORWARD = "\n    def forward(self, obs):\n"
_GATE = f"{OBSERVATION_FIELDS.index('time_left')}:{OBSERVATION_FIELDS.index('inventory_left') + 1}"
WIDTHS = one_of("8 16 24 32 48 64 96")

RULES: Rules = {
    "start": (
        "class Network(nn.Module):\n"
        "    learning_rate = <learning_rate>\n"
        "    exploration = <exploration>\n"
        "    exploration_end = <exploration_end>\n"
        "    epochs = <epochs>\n"
        "    gae_lambda = <gae_lambda>\n"
        "    gae_lambda_dynamic = <gae_lambda_dynamic>\n"
        "    entropy_bonus = <entropy_bonus>\n"
        "    action_zero = <action_zero>\n"
        "    action_scale = <action_scale>\n"
        "    history = <family>",
    ),
    "learning_rate": one_of("0.0003 0.0005 0.001 0.002 0.003 0.005"),
    "exploration": one_of("0.2 0.3 0.4 0.6 0.8 1.0 1.2"),
    "exploration_end": one_of("0.1 0.2 0.3 0.5 0.8"),
    "epochs": one_of("1 2 3 4 6 8"),
    "gae_lambda": one_of("0.6 0.7 0.8 0.9 0.95 1.0"),
    "gae_lambda_dynamic": one_of("0.9 0.95 0.98 1.0"),
    "entropy_bonus": one_of("0.0 0.001 0.003 0.01"),
    "action_zero": one_of("0.5 0.75 1.0 1.25 1.5 2.0"),
    "action_scale": one_of("0.25 0.5 1.0 1.5 2.0"),
    "family": (
        "1\n<init><flat>",
        "2\n<init><flat>",
        "3\n<init><flat>",
        "4\n<init><sequence>",
        "8\n<init><sequence>",
        "16\n<init><sequence>",
    ),
    "init": (
        "\n    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n"
        "        width = <width>\n"
        "        self.feature_dim = width\n",
    ),
    "width": WIDTHS,
    "flat": ("        self.first = nn.Linear(obs_dim * history, width)\n<hidden>",),
    "hidden": (
        f"{_FORWARD}        return self.first(obs.flatten(1))\n",
        "        self.act = nn.<act>()\n<deep>",
    ),
    "act": one_of("Tanh ReLU SiLU GELU ELU"),
    "deep": (
        f"{_FORWARD}        return self.act(self.first(obs.flatten(1)))\n",
        "        self.norm = nn.LayerNorm(width)\n"
        f"{_FORWARD}        return self.act(self.norm(self.first(obs.flatten(1))))\n",
        "        self.gate = nn.Linear(2, width)\n"
        f"{_FORWARD}        gate = torch.sigmoid(self.gate(obs[:, -1, {_GATE}]))\n"
        "        return gate * self.act(self.first(obs.flatten(1)))\n",
        "        self.second = nn.Linear(width, width)\n"
        f"{_FORWARD}        hidden = self.act(self.first(obs.flatten(1)))\n"
        "        return <joined>\n",
    ),
    "joined": (
        "self.act(self.second(hidden))",
        "hidden + self.act(self.second(hidden))",
        "hidden * torch.sigmoid(self.second(hidden))",
    ),
    "sequence": (
        "        self.memory = nn.<memory>(obs_dim, width, batch_first=True)\n"
        f"{_FORWARD}        return self.memory(obs)[0][:, -1]\n",
        "        self.act = nn.<act>()\n"
        "        self.filter = nn.Conv1d(obs_dim, width, min(history, <kernel>))\n"
        f"{_FORWARD}        return self.act(self.filter(obs.transpose(1, 2)))<pool>\n",
        "        self.score = nn.Linear(obs_dim, 1)\n"
        "        self.value = nn.Linear(obs_dim, width)\n"
        f"{_FORWARD}        weight = torch.softmax(self.score(obs), 1)\n"
        "        return (weight * torch.tanh(self.value(obs))).sum(1)\n",
    ),
    "memory": one_of("GRU LSTM RNN"),
    "kernel": one_of("2 3 4"),
    "pool": (".amax(-1)", ".mean(-1)", "[..., -1]"),
}


def _without(*groups: tuple[str, str], instead: str = "0.0 * obs[..., {0}]") -> str:
    """A line that puts something else in the places of some neighbouring observations."""
    pieces = []
    place = 0
    for first, last in groups:
        begin, end = OBSERVATION_FIELDS.index(first), OBSERVATION_FIELDS.index(last) + 1
        if begin > place:
            pieces.append(f"obs[..., {place}:{begin}]")
        pieces.append(instead.format(f"{begin}:{end}"))
        place = end
    pieces.append(f"obs[..., {place}:]")
    return f"        obs = torch.cat([{', '.join(pieces)}], -1)\n"


_MARKET_RETURNS = ("return_1", "return_60")
_SPECIFIC = (
    f"{OBSERVATION_FIELDS.index('specific_return_1')}:"
    f"{OBSERVATION_FIELDS.index('specific_return_60') + 1}"
)
_VOLUME = f"{OBSERVATION_FIELDS.index('volume_1')}:{OBSERVATION_FIELDS.index('volume_1') + 1}"
_TWO = (
    "        self.second = nn.Linear(width, width)\n"
    f"{_FORWARD}<inputs>        hidden = <activation>(self.first(obs.flatten(1)))\n"
)

_TRUNKS: Rules = {
    "trunk": (
        f"{_TWO}        return <activation>(self.second(hidden))\n",
        f"{_TWO}        return hidden + <activation>(self.second(hidden))\n",
        f"{_TWO}        return hidden * torch.sigmoid(self.second(hidden))\n",
        f"{_FORWARD}<inputs>        return self.first(obs.flatten(1))\n",
        f"{_FORWARD}<inputs>        return <activation>(self.first(obs.flatten(1)))\n",
        "        self.straight = nn.Linear(obs_dim * history, width)\n"
        f"{_TWO}        return self.straight(obs.flatten(1)) + <activation>(self.second(hidden))\n",
        "        self.straight = nn.Linear(obs_dim * history, width)\n"
        "        self.gate = nn.Linear(obs_dim * history, width)\n"
        f"{_FORWARD}<inputs>        flat = obs.flatten(1)\n"
        "        gate = torch.sigmoid(self.gate(flat))\n"
        "        return gate * <activation>(self.first(flat)) + (1.0 - gate) * self.straight(flat)\n",
        "        self.gate = nn.Linear(2, width)\n"
        f"{_FORWARD}<inputs>        gate = torch.sigmoid(self.gate(obs[:, -1, {_GATE}]))\n"
        "        return gate * <activation>(self.first(obs.flatten(1)))\n",
    ),
    "inputs": (
        "",
        _without(_MARKET_RETURNS, ("return_since_open", "range_position")),
        _without(_MARKET_RETURNS),
        _without(("bid_size_1", "ask_size_5")),
        _without(("return_1", "range_position")),
        # each symbol's own returns times its volume, where the market's returns would stand
        _without(_MARKET_RETURNS, instead=f"obs[..., {_SPECIFIC}] * obs[..., {_VOLUME}]"),
    ),
    "activation": one_of("torch.tanh F.relu F.silu F.gelu F.elu"),
}
"""What stands between observations and heads: trunks from two layers to a straight line, and sets of
inputs (all; without what the whole market did; without the book; the book alone; products)."""


def _default_rules() -> Rules:
    """The default with its trunk, width and inputs as choices; any learning constant may be set."""
    rules: Rules = {}
    settings = ""
    for name, known in NETWORK_CONSTANTS.items():
        values = one_of("1 2 3 4 8 16") if name == "history" else RULES[name]
        lines = []
        for value in values:  # in their order, with nothing where the default stands
            lines.append("" if float(value) == known.default else f"    {name} = {value}\n")
        rules[f"set_{name}"] = tuple(lines)
        settings += f"<set_{name}>"
    rules |= _TRUNKS
    rules["default"] = (
        f"class Network(nn.Module):\n{settings}\n"
        "    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n"
        "        width = <width>\n"
        "        self.feature_dim = width\n"
        "        self.first = nn.Linear(obs_dim * history, width)\n"
        "<trunk>",
    )
    return rules


def check_constants(network: Any) -> Any:
    """The class itself, if the learning constants that it sets lie in their ranges."""
    for name, known in NETWORK_CONSTANTS.items():
        value = getattr(network, name, known.default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not known.low <= value <= known.high:
            raise ModuleError(
                f"{name} = {value!r} is out of range;"
                f" set a number from {known.low:g} to {known.high:g}"
            )
    return network


def check_network(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Observations of every kind, training and saving, and the wider input of agents that talk."""
    from torch.nn import functional

    from se_rl.modules.module_probe import SPLIT, normal, scaled

    factory = load()
    history = int(getattr(factory, "history", NETWORK_CONSTANTS["history"].default))
    fields, heard = len(OBSERVATION_FIELDS), LIMITS.message_size
    rows = _windows(recorded, history)
    live, width = _with_width(trial, factory, fields, history)
    values = trial.batches(live, rows, edges=_edges(history), tail=(width,))
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


def _windows(recorded: Recorded, history: int) -> Tensor:
    """Recorded observations in windows [row, history, field], in no order."""
    import torch
    from torch.nn import functional

    from se_rl.modules.module_probe import mixed

    observations = torch.tensor(recorded["observations"])  # [order, step, field]
    padded = functional.pad(observations, (0, 0, history - 1, 0))  # zeros before the first
    windows = padded.unfold(1, history, 1).transpose(2, 3).flatten(0, 1)
    return windows[mixed(len(windows))].contiguous()


def _edges(history: int) -> dict[str, Tensor]:
    """Windows at the ends of what observations can be."""
    import torch

    from se_rl.modules.module_probe import normal

    fields = len(OBSERVATION_FIELDS)
    extreme = CLIP * normal((64, history, fields), 1).sign()
    extreme[..., -2:] = (extreme[..., -2:] > 0).float()  # time and inventory left are shares
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
    return np.array(shares, np.float32)


NETWORK = ModuleKind(
    contract=CONTRACT,
    part="network",
    default_source=source_of_default("Network"),
    rules=RULES,
    default_rules=_default_rules(),
    check=check_network,
    finish=check_constants,
)
