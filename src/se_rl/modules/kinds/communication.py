"""LLM4Communication: what each of several agents in one book hears of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.modules.contracts import ALWAYS, LIMITS, Contract
from se_rl.modules.default_sources import source_of_default
from se_rl.modules.errors import need
from se_rl.modules.grammar import Rules, one_of
from se_rl.modules.kinds.kind import Counterpart, Floats, Load, ModuleKind, Recorded

if TYPE_CHECKING:
    from torch import Tensor, nn

    from se_rl.modules.module_probe import ModuleProbe

AGENTS = 3
"""Agents in a book on trial; 1 and 2 are tried as well."""

EXAMPLES = (
    """import torch
from torch import nn


class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()
        self.mix = nn.Linear(size, size)

    def forward(self, messages):
        others = messages.sum(1, keepdim=True) - messages
        return torch.tanh(self.mix(others / max(1, messages.shape[1] - 1)))
""",
    """import torch
from torch import nn


class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)

    def forward(self, messages):
        scores = self.query(messages) @ self.key(messages).transpose(1, 2)
        own = torch.eye(messages.shape[1], device=messages.device)
        return torch.softmax(scores - 100.0 * own, -1) @ messages
""",
)

CONTRACT = Contract(
    code_type="communication",
    title="LLM4Communication",
    entry="Communication",
    signature="class Communication(nn.Module): __init__(self, agents, size);"
    " forward(self, messages) -> inbox",
    task="Say what each of N agents that trade in one book hears of what the others said"
    " in the last step.",
    rules=(
        "messages has shape [B, N, K], values in [-1, 1]; return an inbox of the same shape",
        "an inbox is kept to [-1, 1] by the framework",
        "each book (row of B) depends on its own row only",
        *ALWAYS,
    ),
    examples=EXAMPLES,
)

SILENCE = """class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()

    def forward(self, messages):
        return torch.zeros_like(messages)
"""
"""The protocol in which nobody hears anything."""

_OTHERS = "(messages.sum(1, keepdim=True) - messages) / max(1, messages.shape[1] - 1)"
_OWN = "        own = torch.eye(messages.shape[1], device=messages.device)\n"
_HEAR = "\n    def forward(self, messages):\n"

RULES: Rules = {
    "start": (
        "class Communication(nn.Module):\n"
        "    def __init__(self, agents, size):\n"
        "        super().__init__()\n"
        "        hidden = <hidden>\n"
        "        self.mix = nn.Sequential("
        "nn.Linear(size, hidden), nn.<act>(), nn.Linear(hidden, size))\n"
        "<family>        heard = self.mix(heard)<keep>\n"
        "        return <gain> * <squash>(heard) * float(messages.shape[1] > 1)\n",
    ),
    "hidden": one_of("4 8 12 16 24"),
    "act": one_of("Tanh ReLU SiLU GELU ELU"),
    "family": (
        "        self.gate = nn.Linear(size, size)\n"
        f"{_HEAR}        heard = {_OTHERS}\n"
        "        heard = heard * torch.sigmoid(self.gate(messages))\n",
        "        self.query = nn.Linear(size, size)\n"
        "        self.key = nn.Linear(size, size)\n"
        f"{_HEAR}{_OWN}"
        "        scores = <sharp> * self.query(messages) @ self.key(messages).transpose(1, 2)\n"
        "        heard = torch.softmax(scores - 1000.0 * own, -1) @ messages\n",
        "        self.links = nn.Parameter(torch.full((agents, agents), <link>))\n"
        f"{_HEAR}{_OWN}"
        "        heard = (torch.tanh(self.links) * (1.0 - own)) @ messages\n",
        f"{_HEAR}<fixed>",
    ),
    "sharp": one_of("0.5 1.0 2.0"),
    "link": one_of("0.1 0.3 0.5 1.0"),
    "fixed": (
        f"        heard = {_OTHERS}\n",
        "        heard = messages.roll(<shift>, 1)\n",
        f"{_OWN}        heard = (messages[:, None] <most>\n",
    ),
    "shift": one_of("1 -1"),
    "most": ("- 4.0 * own[None, :, :, None]).amax(2)", "+ 4.0 * own[None, :, :, None]).amin(2)"),
    "keep": ("", " + <share> * heard"),
    "share": one_of("0.25 0.5 1.0 2.0"),
    "gain": one_of("0.25 0.5 0.75 1.0"),
    "squash": one_of("torch.tanh F.softsign F.hardtanh"),
}

DEFAULT_RULES: Rules = {
    "default": (
        "class Communication(nn.Module):\n"
        "\n"
        "    def __init__(self, agents, size):\n"
        "        super().__init__()\n"
        "        self.mix = nn.Linear(size, size)\n"
        f"{_HEAR}        others = {_OTHERS}\n"
        "        return <quieter><squash>(self.mix(others)<keep_others>)"
        " * float(messages.shape[1] > 1)\n",
    ),
    "quieter": ("", "0.25 * ", "0.5 * ", "0.75 * "),
    "keep_others": ("", " + <share> * others"),
}


def check_communication(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Books of one, two and three agents, training and saving, and whether anybody hears."""
    import torch

    from se_rl.modules.module_probe import ROWS, SPLIT, normal, scaled

    factory = load()
    fields, size = len(OBSERVATION_FIELDS), LIMITS.message_size
    seen = torch.tensor(recorded["observations"]).flatten(0, 1)  # [row, field]
    said = torch.tanh(seen @ normal((fields, size), 1) / fields**0.5)
    said = said.repeat(-(-AGENTS * ROWS // len(said)), 1)
    for agents in (1, 2):
        few = said[: 8 * agents].view(8, agents, size)
        trial.run(trial.build(factory, agents, size), few, what=f"{agents} agents", shape=few.shape)
    messages = said[: AGENTS * ROWS].view(ROWS, AGENTS, size)  # [book, agent, number]
    edges = {
        "messages of 0": torch.zeros(1, AGENTS, size),
        "messages of -1 and 1": normal((64, AGENTS, size), 2).sign(),
    }
    live = trial.build(factory, AGENTS, size)
    values = trial.batches(live, messages, edges=edges, tail=(AGENTS, size))
    trial.learns(live, messages[:SPLIT])
    trial.survives_saving(live, lambda: trial.build(factory, AGENTS, size), messages[:64])
    with torch.no_grad():
        _check_hearing(live, messages[:64], trial)
    return scaled(values.flatten())


def _check_hearing(live: nn.Module, messages: Tensor, trial: ModuleProbe) -> None:
    """Somebody's inbox depends on others, or all are silent.

    The weights have been moved by now, so that links which start from 0 show as well.
    """
    import torch

    inbox = live(messages)
    for agent in range(AGENTS):
        others = -messages.flip(0)
        others[:, agent] = messages[:, agent]
        if not torch.equal(live(others)[:, agent], inbox[:, agent]):
            return
    mend = "use the messages of the others, or return torch.zeros_like(messages) for silence"
    need(not inbox.any(), f"no agent's inbox depends on what the others say; {mend}")
    trial.warnings.append(
        "silent: nobody hears anything; let the inbox depend on the messages of the others"
    )


COMMUNICATION = ModuleKind(
    contract=CONTRACT,
    part="communication",
    default_source=source_of_default("Communication"),
    rules=RULES,
    default_rules=DEFAULT_RULES,
    check=check_communication,
    counterpart=Counterpart("silence", SILENCE),
)
