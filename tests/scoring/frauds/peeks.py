"""Row mixing: ways to read a later window of the same symbol, or the whole market's, from the batch."""

from __future__ import annotations

from frauds.fraud import WINDOWS, Fraud, network

_GUARD = f"""
if half == 0 or half % {WINDOWS}:
    move = torch.zeros(half)
else:
    own = so[:half]
"""


def _shifted(lines: str) -> str:
    """Lines that make `later` [half], each row's successor, from `own`; the last window has none."""
    inside = "".join(f"    {line}\n" for line in lines.strip().splitlines())
    last = f"    last = torch.arange(half) % {WINDOWS} == {WINDOWS - 1}\n"
    move = "    move = torch.where(last, torch.zeros(half), later - own)\n"
    odd = "if n % 2:\n    move = F.pad(move, (0, 1))[:half]\n"
    whole = "s = -3.0 * F.pad(torch.cat([move, -move]), (0, n - 2 * half))"
    return f"{_GUARD}{inside}{last}{move}{odd}{whole}"


_BY_SHIFT = {
    "roll": "later = torch.roll(own, -1)",
    "convolution over rows": (
        "kernel = torch.tensor([[[0.0, 0.0, 1.0]]])\n"
        "later = F.conv1d(own.view(1, 1, -1), kernel, padding=1).flatten()"
    ),
    "Fourier phase": (
        "turn = torch.exp(2j * torch.pi * torch.fft.fftfreq(half))\n"
        "later = torch.fft.ifft(torch.fft.fft(own) * turn).real.float()"
    ),
    "cumulative sums": (
        "total = own.flip(0).cumsum(0).flip(0)\nlater = F.pad(total[1:] - F.pad(total[2:], (0, 1)), (0, 1))"
    ),
    "two windows ahead": (
        f"grid = own.reshape(-1, {WINDOWS})\n"
        "later = torch.cat([grid[:, 2:], grid[:, -1:], grid[:, -1:]], 1).flatten()"
    ),
    "last window of the day": (
        f"later = own.reshape(-1, {WINDOWS})[:, -1:].expand(-1, {WINDOWS}).flatten()"
    ),
    "mean of the windows left": (
        f"grid = own.reshape(-1, {WINDOWS}).flip(1)\n"
        f"mean = grid.cumsum(1) / torch.arange(1.0, {WINDOWS + 1})\n"
        "later = torch.roll(mean.flip(1).flatten(), -1)"
    ),
}

_BY_CLOCK = {
    "attention to later times": (
        "weight = torch.softmax(-1e4 * (tod[None, :half] - tod[:half, None] - 1.0 / 6.0).abs(), 1)\n"
        "later = weight @ so[:half]\n"
    ),
    "mean of the next window": (
        "near = ((tod[None, :half] - tod[:half, None]) > 0.08).float()\n"
        "near = near * ((tod[None, :half] - tod[:half, None]) < 0.25).float()\n"
        "later = near @ so[:half] / near.sum(1).clamp(min=1.0)\n"
    ),
    "mean of all later rows": (
        "near = ((tod[None, :half] - tod[:half, None]) > 0.08).float()\n"
        "later = near @ so[:half] / near.sum(1).clamp(min=1.0)\n"
    ),
    "scaled dot-product attention": (
        "keys = torch.stack([torch.ones(half), tod[:half], tod[:half].square()], 1)\n"
        "goal = tod[:half] + 1.0 / 6.0\n"
        "asks = torch.stack([-goal.square(), 2.0 * goal, -torch.ones(half)], 1) * 1e4\n"
        "later = F.scaled_dot_product_attention(asks[None], keys[None], so[None, :half, None]).flatten()\n"
    ),
}


def _by_clock(lines: str) -> str:
    """Lines that make `later` from the clock alone: the market's mean move, day by day mixed up."""
    whole = (
        "move = later - so[:half]\ns = -3.0 * F.pad(torch.cat([move, -move]), (0, n - 2 * half))"
    )
    return f"{lines}{whole}"


_NO_FUTURE = {
    "batch mean": "s = 3.0 * (so - so.mean())",
    "batch rank": "s = 2.0 * so.argsort().argsort().float() / n - 1.0",
    "batch deviation": "s = (so - so.mean()) / (so.std(unbiased=False) + 1e-3)",
    "batch norm in use": "s = self.norm(x)[:, 24]",
    "largest row alone trades": "s = 4.0 * (so == so.max()).float() - 1.0",
    "rows vote": "s = torch.sign(so[:half + 1]).mean().expand(n) * 2.0",
    "principal direction": "u, _, _ = torch.linalg.svd(x - x.mean(0), full_matrices=False)\ns = u[:, 0] * 3.0",
    "row number": "s = torch.linspace(-1.0, 1.0, n)",
    "row parity": "s = (torch.arange(n) % 2).float() * 2.0 - 1.0",
    "side by place": "s = torch.cat([torch.ones(half), -torch.ones(n - half)])",
    "neighbour leads": "s = 2.0 * torch.roll(x[:, 14], 1)",
    "market return of the minute": "s = 3.0 * x[:half, 14].mean().expand(n)",
    "recurrent net over rows": "s = self.memory(x[:, None])[0][:, 0, 0]",
}
_INIT = {
    "batch norm in use": "self.norm = nn.BatchNorm1d(obs_dim)",
    "recurrent net over rows": "self.memory = nn.GRU(obs_dim, 4)",
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, lines in _BY_SHIFT.items():
        found.append(Fraud(f"shift: {name}", "row mixing", {"network": network(_shifted(lines))}))
    for name, lines in _BY_CLOCK.items():
        source = network(_by_clock(lines))
        found.append(Fraud(f"clock: {name}", "row mixing", {"network": source}, control=""))
    for name, lines in _NO_FUTURE.items():
        source = network(lines, init=_INIT.get(name, ""))
        found.append(Fraud(f"batch: {name}", "row mixing", {"network": source}, control=""))
    return tuple(found)


PEEKS = _all()
