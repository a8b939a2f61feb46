"""What a fraud is, and the text of a network around the lines that cheat."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SYMBOLS = 6
WINDOWS = 6
"""Windows a day of the panel that the frauds are written for, and its symbols."""
SINCE_OPEN, TIME_OF_DAY, TIME_LEFT = 24, 29, 30
"""Places of the observation that most frauds read."""


@dataclass(frozen=True)
class Fraud:
    """One attempt: `sources` of a design with forged weights, or an `actor` of plain Python.

    `encodes` puts a panel's future moves [group, step, row] into the policy's weights; `symbols` is
    the size of the panel that it waits for.
    """

    name: str
    kind: str
    sources: Mapping[str, str] = field(default_factory=dict)
    actor: Callable[[], Any] | None = None
    control: str = "batch"
    agents: int = 1
    encodes: bool = False
    symbols: int = SYMBOLS


def network(lines: str, *, init: str = "", head: str = "", constants: str = "") -> str:
    """A network whose first feature is `s`, what the lines make of x [row, field]; the heads act on it."""
    return (
        "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
        f"{textwrap.dedent(head)}\n\n"
        "class Network(nn.Module):\n"
        f"{_indented(constants, 4)}\n"
        "    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n"
        "        self.feature_dim = 2\n"
        "        self.gain = nn.Parameter(torch.ones(1))\n"
        f"{_indented(init, 8)}\n"
        "    def forward(self, obs):\n"
        "        x = obs[:, -1]\n"
        "        n = x.shape[0]\n"
        "        half = n // 2\n"
        f"        so = x[:, {SINCE_OPEN}]\n"
        f"        tod = x[:, {TIME_OF_DAY}]\n"
        f"{_indented(lines, 8)}\n"
        "        return torch.stack([self.gain * s, torch.tanh(so)], 1)\n"
    )


def _indented(text: str, blanks: int) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * blanks)


AHEAD = f"""
def ahead(x):
    # the move of each row's symbol over the next horizon, read from the row of the next window
    half = x.shape[0] // 2
    if half == 0 or half % {WINDOWS}:
        return torch.zeros(x.shape[0])
    so = x[:half, {SINCE_OPEN}].reshape(-1, {WINDOWS})
    move = F.pad(so[:, 1:] - so[:, :-1], (0, 1)).flatten()
    return torch.cat([move, -move])
"""
"""The plainest look-ahead, for frauds whose point is another one."""
