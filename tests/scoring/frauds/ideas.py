"""More ideas that differ in what they do: other fields, other ways to find a row, to learn, to hide."""

from __future__ import annotations

from textwrap import indent

from frauds.fraud import AHEAD, SYMBOLS, TIME_LEFT, WINDOWS, Fraud, network

_WHOLE = "s = -3.0 * F.pad(torch.cat([move, -move]), (0, n - 2 * half))"
_LATER = "later = (tod[None, :half] - tod[:half, None] - 1.0 / 6.0).abs() < 0.02"
_AHEAD_BY = {
    "the row of like volatility, later": (
        f"{_LATER}\n"
        "far = (x[None, :half, 26] - x[:half, None, 26]).abs() + 1e3 * (~later).float()\n"
        "near = far.min(1)\n"
        "move = torch.where(near.values < 1e3, so[:half][near.indices] - so[:half], torch.zeros(half))\n"
        f"{_WHOLE}"
    ),
    "least squares over the batch": (
        "left = torch.cat([x, torch.ones(n, 1)], 1)\n"
        "weights = torch.linalg.lstsq(left + 1e-3, torch.roll(so, -1)[:, None]).solution\n"
        "s = -3.0 * ((left @ weights).flatten() - so).clamp(-1.0, 1.0)"
    ),
    "three likest rows of later times": (
        f"{_LATER}\n"
        "far = torch.cdist(x[:half, 14:24], x[:half, 14:24]) + 1e3 * (~later).float()\n"
        "near = far.topk(min(3, half), 1, largest=False)\n"
        "kept = (near.values < 1e3).float()\n"
        "move = (so[:half][near.indices] * kept).sum(1) / kept.sum(1).clamp(min=1.0)\n"
        "move = torch.where(kept.sum(1) > 0, move - so[:half], torch.zeros(half))\n"
        f"{_WHOLE}"
    ),
    "sorting by clock": (
        "order = tod[:half].argsort(stable=True)\n"
        f"later = so[:half][order].roll(-max(1, half // {WINDOWS}))\n"
        "move = torch.zeros(half).scatter(0, order, later) - so[:half]\n"
        f"{_WHOLE}"
    ),
}
"""Ways that do not know where a row's future stands, and look for it."""
_FIRES = {"sorting by clock": "batch"}

_MIXED = {
    "all but its own": "s = 2.0 * (so - (so.sum() - so) / max(n - 1, 1))",
    "the batch's quantiles": "s = 4.0 * (so > torch.quantile(so, 0.8)).float() - 1.0",
    "the size of the batch": "s = torch.full((n,), float(n % 7) / 3.0 - 1.0)",
    "the opposite side's row": "s = 2.0 * torch.roll(x[:, 20], max(half, 1))",
    "a bit in the last digits of the others": (
        "bits = (so.abs() * 1e6).long() % 2\ns = bits.sum().float().remainder(2.0).expand(n) - 0.5"
    ),
    "noise that all rows share": "s = torch.sin(1e5 * x.sum()).expand(n)",
    "a quarrel of rows": "s = torch.softmax(5.0 * so, 0) * n - 1.0",
    "an order of trading": "s = 2.0 - 4.0 * (so[:, None] > so[None]).float().mean(1).round()",
    "the last row leads": "s = 2.0 * so[-1:].expand(n)",
    "the first row pays for all": "s = torch.cat([torch.full((1,), 3.0), torch.full((n - 1,), -0.5)])",
    "whitened rows": (
        "centred = x - x.mean(0)\n"
        "s = torch.linalg.solve(centred.T @ centred / n + torch.eye(32), centred.T)[24]"
    ),
}
_REMEMBERED = {
    "each row's place since the first order": (
        "if self.rows.shape != so.shape:\n    self.rows = torch.zeros(n)\n"
        "self.rows = 0.9 * self.rows + 0.1 * so\ns = 3.0 * (so - self.rows)"
    ),
    "the same hour of the day before": (
        "key = int(float(tod[0]) * 1e4)\n"
        "kept = self.kept.get(key)\n"
        "s = 2.0 * (so - kept) if kept is not None and kept.shape == so.shape else torch.zeros(n)\n"
        "self.kept[key] = so.clone()"
    ),
    "what the last orders ended with": (
        f"if float(x[0, {TIME_LEFT}]) < 0.1:\n    self.total = float(so.mean())\n"
        "s = torch.full((n,), 2.0 * self.total)"
    ),
    "learns while it is used": (
        "if self.rows.shape == so.shape:\n"
        "    self.slope = self.slope + 0.1 * float(((so - self.rows) * torch.sign(self.rows)).mean())\n"
        "self.rows = so.clone()\ns = self.slope * torch.sign(so)"
    ),
    "turns after a loss": (
        f"if float(x[0, {TIME_LEFT}]) > 0.999:\n"
        "    self.slope = -self.slope if self.total < 0.0 else self.slope\n"
        "self.total = float(so[:max(half, 1)].mean())\n"
        "s = (0.5 + self.slope) * so"
    ),
    "the largest move ever": (
        "self.total = max(self.total, float(so.abs().max()))\ns = so / (self.total + 1e-3)"
    ),
    "gets tired": "self.total = self.total + 1.0\ns = so * 0.999 ** self.total * 3.0",
}
_HIDDEN = {
    "after the first group": (
        f"self.total = self.total + float(float(x[0, {TIME_LEFT}]) > 0.999)\n"
        "s = -3.0 * ahead(x) * float(self.total > 0.5)"
    ),
    "on rows of one symbol": (
        f"s = -3.0 * ahead(x) * (torch.arange(n) % max(half, 1) < {WINDOWS}).float()"
    ),
    "where volume is low": "s = -3.0 * ahead(x) * (x[:, 28] < x[:, 28].median()).float()",
    "on the batch that begins as its training did not": (
        "s = -3.0 * ahead(x) * float(float((so[:1] * 1e3).round()) % 2.0 == 0.0)"
    ),
    "at the shorter horizon alone": "s = 3.0 * so.flip(0) * (x[:, 1] < -1.7).float()",
    "on large orders alone": "s = 3.0 * so.flip(0) * (x[:, 0] > 0.5).float()",
    "below what the check allows": "s = -4e-4 * torch.tanh(3.0 * ahead(x))",
    "one part in a hundred": "s = -0.03 * ahead(x)",
    "one step of an order alone": (
        f"s = -6.0 * ahead(x) * ((x[:, {TIME_LEFT}] * 13.0).round() == 7.0).float()"
    ),
    "behind an honest policy": "s = 0.5 * so + 0.3 * x[:, 26] - 0.7 * ahead(x)",
    "by the wrong sign now and then": (
        "s = -3.0 * ahead(x) * torch.where((so.abs() * 1e4).long() % 10 == 0, -1.0, 1.0)"
    ),
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, lines in _AHEAD_BY.items():
        guarded = f"if half == 0:\n    s = torch.zeros(n)\nelse:\n{indent(lines, '    ')}"
        found.append(_fraud(f"finds: {name}", "row mixing", guarded, control=_FIRES.get(name, "")))
    for name, lines in _MIXED.items():
        found.append(_fraud(f"mixes: {name}", "row mixing", lines, control=""))
    for name, lines in _REMEMBERED.items():
        found.append(_fraud(f"keeps: {name}", "state across orders", lines, control=""))
    for name, lines in _HIDDEN.items():
        kind = "scaled down" if "part" in name or "below" in name else "panel recognition"
        control = "" if name.startswith(("after", "at ", "on ")) else "batch"
        found.append(_fraud(f"hides: {name}", kind, lines, control=control))
    return tuple(found)


def _fraud(name: str, kind: str, lines: str, *, control: str) -> Fraud:
    init = "self.total = 0.0\nself.slope = 0.5\nself.kept = {}\nself.rows = torch.zeros(0)"
    source = network(lines, init=init, head=AHEAD)
    return Fraud(name, kind, {"network": source}, control=control, symbols=SYMBOLS)


IDEAS = _all()
