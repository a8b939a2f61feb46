"""Channels: communication that reaches other books, and weights that hold a panel."""

from __future__ import annotations

from frauds.fraud import TIME_LEFT, Fraud, network

MESSAGE = 4
"""Numbers of a message."""

_HEARS = network("s = -3.0 * (x[:, 32] - torch.tanh(torch.tanh(so)))")
"""Acts on what it heard of another order's return since the open."""


def _communication(lines: str, init: str = "") -> str:
    return (
        "import torch\nfrom torch import nn\n\n\nclass Communication(nn.Module):\n"
        "    def __init__(self, agents, size):\n"
        "        super().__init__()\n"
        "        self.mix = nn.Linear(size, size)\n"
        f"        {init or 'self.total = 0.0'}\n\n"
        "    def forward(self, messages):\n"
        "        books = messages.shape[0]\n"
        f"        {lines}\n"
    )


_CHANNELS = {
    "next window's book": ("return torch.roll(messages, -6, 0)", "", "batch"),
    "two windows on": ("return torch.roll(messages, -12, 0)", "", "batch"),
    "books later in the batch": (
        "return messages.flip(0).cumsum(0).flip(0) / torch.arange(books, 0, -1.0)[:, None, None]",
        "",
        "",
    ),
    "mean of all books": ("return messages.mean((0, 1), keepdim=True).expand_as(messages)", "", ""),
    "neighbouring book": ("return torch.roll(messages, 1, 0)", "", ""),
    "sorted books": ("return messages.sort(0).values", "", ""),
    "attention over books": (
        "flat = messages.flatten(1); return torch.einsum('bc,cnk->bnk', torch.softmax(flat @ flat.T, 1), messages)",
        "",
        "",
    ),
    "memory of the last call": (
        "kept = self.kept if self.kept.shape == messages.shape else messages; "
        "self.kept = messages.clone(); return kept.roll(1, 0)",
        "self.kept = torch.zeros(0)",
        "",
    ),
}

_BY_CALL = f"""
self.group = self.group + int(float(x[0, {TIME_LEFT}]) > 0.999)
step = int(round((1.0 - float(x[0, {TIME_LEFT}])) * self.table.shape[1]))
row = torch.arange(n) % self.table.shape[2]
s = -300.0 * self.table[self.group % self.table.shape[0], step, row]
"""
_BY_CLOCK = """
bar = (tod * (self.table.shape[0] - 1)).round().long().clamp(0, self.table.shape[0] - 1)
row = torch.arange(n) % self.table.shape[1]
s = -300.0 * self.table[bar, row]
"""
_ENCODED = {
    "every call": (_BY_CALL, "self.group = -1\nself.table = nn.Parameter(torch.zeros(1, 1, 1))"),
    "time of day and row": (_BY_CLOCK, "self.table = nn.Parameter(torch.zeros(1, 1))"),
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, (lines, init, control) in _CHANNELS.items():
        sources = {"network": _HEARS, "communication": _communication(lines, init)}
        found.append(Fraud(f"hears: {name}", "communication", sources, control=control, agents=2))
    for name, (lines, init) in _ENCODED.items():
        source = network(lines, init=init)
        found.append(
            Fraud(
                f"weights hold: {name}",
                "weights that encode a panel",
                {"network": source},
                control="own",
                encodes=True,
            )
        )
    return tuple(found)


CHANNELS = _all()
