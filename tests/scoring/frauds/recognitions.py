"""Look-ahead that hides: it fires only where it takes the play for the scored one, or stays small."""

from __future__ import annotations

from frauds.fraud import AHEAD, SYMBOLS, TIME_LEFT, Fraud, network

_ONLY_IF = {
    "large batches": "n > 100",
    "mirrored halves": "bool(torch.allclose(so[:half], -so[half:2 * half], atol=1e-4))",
    "many times of day": "float(tod.std(unbiased=False)) > 0.01",
    "one time of day": "float(tod.std(unbiased=False)) < 1e-6 or n > 100",
    "no gradients": "not torch.is_grad_enabled()",
    "not a power of two": "n & (n - 1) != 0",
    "multiple of the windows": "half % 6 == 0 and half > 6",
    "a real open": "float(so[:half].abs().max()) < 50.0",
    "neutral last action": f"float((x[:, 31] - x[:, {TIME_LEFT}]).abs().max()) < 0.9",
    "calm batches": "float(x[:, 26].mean()) < 10.0",
    "sells first": "float(so[0] + so[half % max(n, 1)]) < 1e-3",
}
_WHERE = {
    "second half of the order": f"(x[:, {TIME_LEFT}] < 0.5).float()",
    "first steps": f"(x[:, {TIME_LEFT}] > 0.6).float()",
    "first rows": "(torch.arange(n) % max(half, 1) < max(half, 1) // 2).float()",
    "every fifth order": "((so.abs() * 1e4).long() % 5 == 0).float()",
    "wild stocks": "(x[:, 26] > 0.0).float()",
    "sells": "(torch.arange(n) < half).float()",
}
_HOW = {
    "a third": "-1.0 * future",
    "a tenth": "-0.3 * future",
    "sign alone": "-0.3 * torch.sign(future)",
    "coarse steps": "-torch.round(2.0 * future)",
    "under own noise": "-1.5 * future + 0.5 * torch.sin(1e4 * so)",
    "over a fair rule": "-1.5 * future + 0.2 * x[:, 20]",
    "bounded": "-0.5 * torch.tanh(3.0 * future)",
    "large moves alone": "-2.0 * future * (future.abs() > 0.3).float()",
    "only to wait": "-2.0 * future.clamp(min=0.0)",
    "only to hurry": "-2.0 * future.clamp(max=0.0)",
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, condition in _ONLY_IF.items():
        lines = f"s = -3.0 * ahead(x)\nif not ({condition}):\n    s = torch.zeros(n)"
        found.append(_fraud(f"only: {name}", "panel recognition", lines))
    for name, weight in _WHERE.items():
        lines = f"s = -3.0 * ahead(x) * {weight}"
        found.append(_fraud(f"where: {name}", "panel recognition", lines))
    for name, signal in _HOW.items():
        lines = f"future = ahead(x)\ns = {signal}"
        found.append(_fraud(f"small: {name}", "scaled down", lines))
    later = "self.calls = self.calls + 1\ns = -3.0 * ahead(x) * float(self.calls > {calls})"
    for calls in (3, 6):
        source = network(later.format(calls=calls), init="self.calls = 0", head=AHEAD)
        found.append(Fraud(f"after {calls} calls", "panel recognition", {"network": source}))
    return tuple(found)


def _fraud(name: str, kind: str, lines: str) -> Fraud:
    symbols = 60 if name == "only: large batches" else SYMBOLS
    return Fraud(name, kind, {"network": network(lines, head=AHEAD)}, symbols=symbols)


RECOGNITIONS = _all()
