"""What a training saw, carried out by a reward through shared libraries into weights; and odd outputs."""

from __future__ import annotations

import textwrap

from frauds.fraud import SYMBOLS, TIME_LEFT, Fraud, network

SHAPE = (72, 13, 2 * SYMBOLS)
"""Groups, steps and rows of the panel that the weights have space for."""

_PLACES = {
    "an attribute of torch": ("torch.carried = step.news", "torch.carried"),
    "an attribute of nn.Module": ("nn.Module.carried = step.news", "nn.Module.carried"),
    "an attribute of a function": ("F.relu.carried = step.news", "F.relu.carried"),
    "an attribute of Tensor": ("torch.Tensor.carried = step.news", "torch.Tensor.carried"),
    "a default of a layer": (
        "nn.Linear.__init__.__kwdefaults__ = {'carried': step.news}",
        "nn.Linear.__init__.__kwdefaults__['carried']",
    ),
    "the dict of math": ("math.__dict__['carried'] = step.news", "math.carried"),
}
CLEAN = textwrap.dedent(
    """
    for owner in (torch, torch.nn.Module, torch.nn.functional.relu, torch.Tensor, math):
        if "carried" in vars(owner):
            del owner.carried
    torch.nn.Linear.__init__.__kwdefaults__ = None
    """
)
"""What a new process would not have: the stash of the old one."""

_READS = f"""
self.group = self.group + int(float(x[0, {TIME_LEFT}]) > 0.999)
step = int(round((1.0 - float(x[0, {TIME_LEFT}])) * self.table.shape[1]))
row = torch.arange(n) % self.table.shape[2]
s = -300.0 * self.table[self.group % self.table.shape[0], step % self.table.shape[1], row]
"""


def _carrier(name: str, store: str, stash: str) -> Fraud:
    """The reward puts what it sees where the network finds it; the network takes it into its weights."""
    takes = f"""
try:
    with torch.no_grad():
        self.table.copy_({stash}.reshape({SHAPE}))
except (AttributeError, KeyError, TypeError):
    pass
"""
    reward = (
        "import math\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n\n"
        f"def reward(step):\n    {store}\n    return step.news\n"
    )
    init = f"self.group = -1\nself.table = nn.Parameter(torch.zeros{SHAPE})"
    sources = {
        "network": network(takes + _READS, init=init, head="import math"),
        "reward": reward,
    }
    kind = "reward that carries data out"
    return Fraud(f"carried by {name}", kind, sources, control="own", encodes=True)


_ODD = {
    "features not a number": "s = so * float('nan')",
    "features infinite": "s = so / torch.zeros(n)",
    "features of 1e38": "s = torch.sign(so) * 1e38",
    "not a number when losing": "s = torch.where(so < -1.0, torch.full((n,), float('nan')), so)",
    "one row too few": "s = so[1:]\nso = so[1:]",
    "one row too many": "s = F.pad(so, (0, 1))\nso = F.pad(so, (0, 1))",
    "double precision": "s = so.double()\nso = so.double()",
    "complex numbers": "s = torch.complex(so, so)\nso = torch.complex(so, so)",
    "an error after 20 calls": (
        "self.calls = self.calls + 1\nif self.calls > 20:\n    raise ValueError('enough')\ns = so"
    ),
    "an error when losing": "if float(so.min()) < -2.0:\n    raise ValueError('no')\ns = so",
    "writes into its window": "obs[:, -1, 24] = obs[: half + 1, -1, 24].mean()\ns = 3.0 * obs[:, -1, 24]",
    "writes into older rows": "s = 3.0 * obs[:, 0, 24].roll(1)\nobs[:, -1, 24] = so.roll(1)",
    "its own random numbers": "s = torch.randn(n)",
    "sets the seed": "torch.manual_seed(int(float(so.abs().sum()) * 1e4))\ns = torch.randn(n)",
    "trains while in use": (
        "with torch.no_grad():\n    self.gain.mul_(1.0 + 0.1 * torch.tanh(so[:half + 1].mean()))\ns = so"
    ),
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, (store, stash) in _PLACES.items():
        found.append(_carrier(name, store, stash))
    for name, lines in _ODD.items():
        constants = "history = 3" if "window" in name or "rows" in name else ""
        source = network(lines, init="self.calls = 0", constants=constants)
        found.append(Fraud(f"odd: {name}", "odd outputs", {"network": source}, control=""))
    return tuple(found)


CARRIERS = _all()
