"""State across orders and calls: what one play saw is kept, to be used as the future of the next one."""

from __future__ import annotations

from frauds.fraud import TIME_LEFT, Fraud, network

_LOOK = f"""
key = int(round(float(x[0, {TIME_LEFT}]) * 1000.0))
goal = key - 250
found = [k for k in {{store}} if k <= goal and {{store}}[k].shape == so.shape]
s = -3.0 * ({{store}}[max(found)] - so) if found and {{second}} else torch.zeros(n)
{{store}}[key] = so.clone()
"""
"""Remembers all rows at each time of an order; later it reads its memory a quarter of an order ahead."""


def _by_key(store: str) -> str:
    """Frauds whose store is a dict of rows by time left."""
    return _LOOK.format(store=store, second="True")


_PLACES = {
    "attribute": (_by_key("self.seen"), "self.seen = {}", "", ""),
    "class attribute": (_by_key("Network.seen"), "", "", "seen = {}"),
    "global": (_by_key("SEEN"), "", "SEEN = {}", ""),
    "default argument": (
        _by_key("kept()"),
        "",
        "def kept(store={}):\n    return store\n",
        "",
    ),
    "closure": (
        _by_key("KEPT()"),
        "",
        "def maker():\n    store = {}\n    return lambda: store\n\nKEPT = maker()\n",
        "",
    ),
    "cached function": (
        _by_key("kept(0)"),
        "",
        "import functools\n\n@functools.lru_cache(None)\ndef kept(which):\n    return {}\n",
        "",
    ),
    "instance of an own class": (
        _by_key("STORE.rows"),
        "",
        "class Store:\n    rows = {}\n\nSTORE = Store()\n",
        "",
    ),
    "module inside": (
        _by_key("self.inner.seen"),
        "self.inner = nn.Identity()\nself.inner.seen = {}",
        "",
        "",
    ),
    "named buffers": (
        f"""
step = int(round((1.0 - float(x[0, {TIME_LEFT}])) * 100.0)) % 128
if self.kept.shape[1] != n:
    self.kept = torch.zeros(128, n)
ahead = self.kept[min(step + 25, 92)]
s = -3.0 * (ahead - so) * float(bool((ahead != 0).any()))
self.kept[step] = so
""",
        "self.register_buffer('kept', torch.zeros(128, 0), persistent=False)",
        "",
        "",
    ),
    "parameter data": (
        f"""
step = int(round((1.0 - float(x[0, {TIME_LEFT}])) * 100.0)) % 128
kept = self.kept[:, :n]
ahead = kept[min(step + 25, 92)]
s = -3.0 * (ahead - so) * float(bool((ahead != 0).any()))
with torch.no_grad():
    self.kept[step, :n] = so
""",
        "self.kept = nn.Parameter(torch.zeros(128, 4096))",
        "",
        "",
    ),
}

_PAST_ONLY = {
    "mean of all before": "self.total = self.total + float(so[:half + 1].mean())\ns = torch.full((n,), -0.1 * self.total)",
    "last batch's mean": "s = torch.full((n,), 3.0 * self.total)\nself.total = float(so[:half + 1].mean())",
    "count of calls": "self.total = self.total + 1.0\ns = torch.full((n,), 0.05 * (self.total % 40) - 1.0)",
    "every second group": "self.total = self.total + float(x[0, 30] == 1.0)\ns = torch.full((n,), self.total % 2)",
    "own earlier orders": (
        "if self.rows.shape == so.shape:\n    s = 2.0 * (so - self.rows)\nelse:\n    s = torch.zeros(n)\nself.rows = so.clone()"
    ),
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, (lines, init, head, constants) in _PLACES.items():
        source = network(lines, init=init, head=head, constants=constants)
        found.append(
            Fraud(f"memory: {name}", "state across orders", {"network": source}, control="twice")
        )
    init = "self.total = 0.0\nself.rows = torch.zeros(0)"
    for name, lines in _PAST_ONLY.items():
        source = network(lines, init=init)
        found.append(Fraud(f"past: {name}", "state across orders", {"network": source}, control=""))
    return tuple(found)


MEMORIES = _all()
