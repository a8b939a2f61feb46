"""Ordinary communications, profiles and imaginations, as people and models write them."""


def _talk(init: str, forward: str) -> str:
    return (
        "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\nclass Communication(nn.Module):\n"
        f"    def __init__(self, agents, size):\n        super().__init__()\n{init}\n    def forward(self, messages):\n{forward}"
    )


COMMUNICATIONS = {
    "silence": _talk("", "        return torch.zeros_like(messages)\n"),
    "echo_of_mean": _talk(
        "", "        return messages.mean(dim=1, keepdim=True).expand_as(messages)\n"
    ),
    "mean_of_others": _talk(
        "        self.mix = nn.Linear(size, size)\n",
        """        n = messages.shape[1]
        others = (messages.sum(1, keepdim=True) - messages) / max(1, n - 1)
        return torch.tanh(self.mix(others))
""",
    ),
    "attention": _talk(
        "        self.q, self.k = nn.Linear(size, size), nn.Linear(size, size)\n        self.v = nn.Linear(size, size)\n",
        """        q, k, v = self.q(messages), self.k(messages), self.v(messages)
        weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
        return torch.tanh(weights @ v)
""",
    ),
    "multihead": _talk(
        "        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)\n",
        "        return self.attention(messages, messages, messages, need_weights=False)[0]\n",
    ),
    "loudest": _talk(
        "",
        "        return messages.max(dim=1, keepdim=True).values.expand(-1, messages.size(1), -1)\n",
    ),
    "ring": _talk(
        "        self.mix = nn.Linear(2 * size, size)\n",
        "        both = torch.cat([messages.roll(1, dims=1), messages.roll(-1, dims=1)], dim=-1)\n"
        "        return torch.tanh(self.mix(both))\n",
    ),
    "gated": _talk(
        "        self.gate = nn.Linear(size, size)\n",
        """        total = messages.sum(dim=1, keepdim=True) - messages
        return torch.sigmoid(self.gate(messages)) * F.hardtanh(total)
""",
    ),
    "learned_links": _talk(
        "        self.links = nn.Parameter(torch.eye(agents) * 0.1)\n",
        '        return torch.tanh(torch.einsum("ij,bjk->bik", self.links, messages))\n',
    ),
    "masked_self": _talk(
        "        self.value = nn.Linear(size, size)\n",
        """        n = messages.shape[1]
        mask = 1.0 - torch.eye(n, device=messages.device, dtype=messages.dtype)
        mask = mask / mask.sum(-1, keepdim=True).clamp(min=1.0)
        return torch.tanh(self.value(mask @ messages))
""",
    ),
    "two_rounds": _talk(
        "        self.first = nn.Linear(2 * size, size)\n        self.second = nn.Linear(2 * size, size)\n",
        """        h = messages
        for layer in (self.first, self.second):
            h = torch.tanh(layer(torch.cat([h, h.mean(1, keepdim=True).expand_as(h)], dim=-1)))
        return h
""",
    ),
    "median_voice": _talk(
        "        self.scale = nn.Parameter(torch.ones(size))\n",
        "        return messages.median(dim=1, keepdim=True)[0] * self.scale + 0.0 * messages\n",
    ),
}

PROFILES = {
    "empty": "def profile():\n    return {}\n",
    "busy": 'def profile():\n    return {"noise_market_rate": 5.0, "units_per_minute": 20.0}\n',
    "thin": 'def profile() -> dict:\n    return {"maker_lots": 2.0, "maker_levels": 12.0, "noise_limit_rate": 0.005}\n',
    "deep": "def profile():\n    return dict(maker_lots=12.0, makers=2.0)\n",
    "toxic": """
def profile():
    \"\"\"Many well-informed traders.\"\"\"
    settings = {}
    settings["informed_rate"] = 0.8
    settings["informed_noise"] = 0.2
    settings["informed_threshold"] = 4.0
    return settings
""",
    "momentum": """
def profile():
    base = {"momentum_rate": 0.05, "momentum_threshold": 3.0}
    base.update(momentum_memory=200.0)
    return base
""",
    "stressed": 'def profile():\n    return {"stress_rate": 0.01, "calm_rate": 0.01, "stress_volatility": 2.5}\n',
    "calm": 'def profile():\n    return {\n        "stress_rate": 0.0,\n        "news_volatility": 0.8,\n    }\n',
    "long_memory": 'SHARE = 0.7\n\ndef profile():\n    return {"parent_share": SHARE, "parent_tail": 1.3}\n',
    "integers": 'def profile():\n    return {"makers": 3, "maker_levels": 8, "maker_memory": 1000}\n',
    "computed": """
import math

def profile():
    half_life = 120
    return {"news_memory": half_life / math.log(2), "learning": 1 / 2000, "maker_lag": round(math.pi, 1)}
""",
    "merged": """
MAKERS = {"maker_half_spread": 1.0, "maker_skew": 0.8}
NOISE = {"noise_cancel_rate": 0.02}

def profile():
    return {**MAKERS, **NOISE, **{name: 0.5 for name in ("imbalance_response",)}}
""",
}

_TAIL = """
    open_, close = prices[..., 0], prices[..., 3]
    high = prices.amax(dim=-1)
    low = prices.amin(dim=-1)
    return torch.stack([open_, high, low, close, volume], dim=-1)
"""

IMAGINATIONS = {
    "unchanged": "def imagine(bars, generator):\n    return bars.clone()\n",
    "mirror": f"""
import torch

def imagine(bars, generator):
    start = bars[:, :1, :1]
    sign = torch.where(torch.rand((bars.shape[0], 1, 1), generator=generator) < 0.5, -1.0, 1.0).to(bars.dtype)
    prices = start * torch.exp(sign * torch.log(bars[..., :4] / start))
    volume = bars[..., 4]
{_TAIL}""",
    "stretch": f"""
import torch

def imagine(bars: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    scale = torch.exp(0.3 * torch.randn(bars.shape[0], 1, 1, generator=generator))
    start = bars[:, :1, :1]
    prices = start * (bars[..., :4] / start) ** scale.to(bars.dtype)
    volume = bars[..., 4]
{_TAIL}""",
    "jitter": f"""
import torch

def imagine(bars, generator):
    noise = torch.randn(bars.shape[:2], generator=generator, dtype=bars.dtype).unsqueeze(-1)
    noise = noise - noise.mean()
    prices = bars[..., :4] * torch.exp(2e-4 * noise)
    volume = bars[..., 4]
{_TAIL}""",
    "random_volume": """
import torch

def imagine(bars, generator):
    out = bars.clone()
    factor = torch.exp(0.4 * torch.randn(bars.shape[:2], generator=generator, dtype=bars.dtype))
    out[..., 4] = out[..., 4] * factor
    return out
""",
    "block_bootstrap": f"""
import torch

BLOCK = 15

def imagine(bars, generator):
    B, T, C = bars.shape
    previous = torch.cat([bars[:, :1, 0], bars[:, :-1, 3]], dim=1)
    ratios = torch.log(bars[..., :4] / previous.unsqueeze(-1))
    count = (T + BLOCK - 1) // BLOCK
    starts = torch.randint(0, max(1, T - BLOCK), (count,), generator=generator)
    index = torch.cat([s + torch.arange(BLOCK) for s in starts])[:T].clamp(max=T - 1)
    ratios = ratios[:, index]
    ratios = ratios - ratios[..., 3].mean() + torch.log(bars[:, 1:, 3] / bars[:, :-1, 3]).mean()
    closes = torch.cumsum(ratios[..., 3], dim=1)
    before = closes - ratios[..., 3]
    prices = bars[:, :1, :1] * torch.exp(before.unsqueeze(-1) + ratios)
    volume = bars[:, index, 4]
{_TAIL}""",
    "regimes": f"""
import torch

def imagine(bars, generator):
    T = bars.shape[1]
    calm, wild = 0.7, 1.6
    logs = bars[..., :4].log()
    anchor = torch.cat([logs[:, :1, :1], logs[:, :-1, 3:4]], dim=1)
    moves = logs - anchor
    switch = torch.rand((bars.shape[0], T), generator=generator) < 0.05
    state = torch.cumsum(switch.long(), dim=1) % 2
    factor = torch.where(state == 0, calm, wild).to(bars.dtype).unsqueeze(-1)
    moves = moves * factor
    moves = moves - moves[..., 3].mean() + (logs[..., 3] - anchor[..., 0]).mean()
    path = torch.cumsum(moves[..., 3], 1) - moves[..., 3]
    prices = torch.exp(logs[:, :1, :1] + path.unsqueeze(-1) + moves)
    volume = bars[..., 4]
{_TAIL}""",
    "mix_of_paths": f"""
import torch

def imagine(bars, generator):
    order = torch.randperm(bars.shape[0], generator=generator)
    a = bars[..., :4] / bars[:, :1, :1]
    b = a[order]
    w = 0.3 * torch.rand((bars.shape[0], 1, 1), generator=generator, dtype=bars.dtype)
    prices = bars[:, :1, :1] * torch.exp((1 - w) * a.log() + w * b.log())
    volume = bars[..., 4]
{_TAIL}""",
    "swap_sessions": """
import torch

def imagine(bars, generator):
    order = torch.randperm(bars.shape[0], generator=generator)
    return bars[order].contiguous()
""",
    "time_warp": f"""
import torch

def imagine(bars, generator):
    steps = bars.shape[1]
    speed = torch.exp(0.3 * torch.randn(steps, generator=generator))
    clock = torch.cumsum(speed, dim=0)
    index = torch.searchsorted(clock / clock[-1], torch.linspace(0.0, 1.0, steps)).clamp(0, steps - 1)
    prices = bars[:, index, :4]
    volume = bars[:, index, 4]
{_TAIL}""",
    "smoothed": f"""
import torch
import torch.nn.functional as F

def smooth(x, width):
    padded = F.pad(x.transpose(1, 2), (width - 1, 0), mode="replicate")
    return F.avg_pool1d(padded, width, stride=1).transpose(1, 2)

def imagine(bars, generator):
    width = int(torch.randint(1, 4, (1,), generator=generator).item())
    prices = smooth(bars[..., :4], width)
    volume = bars[..., 4]
{_TAIL}""",
    "wider_ranges": """
import torch

def imagine(bars, generator):
    o, h, l, c, v = bars.unbind(dim=-1)
    extra = 0.5 * torch.rand(o.shape, generator=generator, dtype=bars.dtype)
    body_top, body_low = torch.maximum(o, c), torch.minimum(o, c)
    h = body_top + (h - body_top) * (1 + extra)
    l = body_low - (body_low - l) * (1 + extra)
    return torch.stack((o, h, l, c, v), dim=-1)
""",
}
