"""Ordinary networks, as people and models write them."""


def _class(
    body: str, head: str = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
) -> str:
    return f"{head}\n\nclass Network(nn.Module):\n{body}"


NETWORKS = {
    "linear": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.layer = nn.Linear(obs_dim * history, 16)

    def forward(self, obs):
        return self.layer(obs.flatten(1))
"""),
    "mlp": _class("""
    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        self.feature_dim = 64
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(obs_dim * history, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs)
"""),
    "further inputs": _class("""
    inputs = ("own_lots", "lots_ahead", "market_flow_5")
    actions = "slices"
    history = 2

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.layer = nn.Linear(obs_dim * history, 16)

    def forward(self, obs):
        return torch.tanh(self.layer(obs.flatten(1)))
"""),
    "constants": _class("""
    learning_rate = 3e-4
    exploration = 0.8
    epochs = 6
    gae_lambda = 0.9
    entropy_bonus = 0.001
    history = 2
    action_zero = 1.5
    action_scale = 0.5

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.fc = nn.Linear(obs_dim * history, self.feature_dim)

    def forward(self, obs):
        return F.relu(self.fc(obs.reshape(obs.shape[0], -1)))
"""),
    "old_super": _class("""
    def __init__(self, obs_dim, history):
        super(Network, self).__init__()
        self.feature_dim = 24
        self.fc1 = nn.Linear(obs_dim * history, 48)
        self.fc2 = nn.Linear(48, 24)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = F.relu(self.fc1(x))
        return F.relu(self.fc2(x))
"""),
    "last_only": _class("""
    history = 4

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.fc = nn.Linear(obs_dim, 32)

    def forward(self, obs):
        return torch.tanh(self.fc(obs[:, -1]))
"""),
    "residual": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.inp = nn.Linear(obs_dim * history, 32)
        self.blocks = nn.ModuleList([nn.Linear(32, 32) for _ in range(3)])

    def forward(self, obs):
        h = F.gelu(self.inp(obs.flatten(1)))
        for block in self.blocks:
            h = h + F.gelu(block(h))
        return h
"""),
    "residual_block_class": """
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width, expansion=2):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width * expansion)
        self.down = nn.Linear(width * expansion, width)
        self.act = nn.SiLU()

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.stem = nn.Linear(obs_dim * history, 32)
        self.body = nn.Sequential(*[Block(32) for _ in range(2)])

    def forward(self, obs):
        return self.body(self.stem(torch.flatten(obs, 1)))
""",
    "layernorm": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 48
        self.norm = nn.LayerNorm(obs_dim)
        self.fc = nn.Linear(obs_dim * history, 48)

    def forward(self, obs):
        return F.elu(self.fc(self.norm(obs).flatten(start_dim=1)))
"""),
    "rms_norm": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.gain = nn.Parameter(torch.ones(obs_dim))
        self.fc = nn.Linear(obs_dim * history, 32)

    def _rms(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain

    def forward(self, obs):
        return F.silu(self.fc(self._rms(obs).flatten(1)))
"""),
    "gru": _class("""
    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.gru = nn.GRU(obs_dim, 32, batch_first=True)

    def forward(self, obs):
        _, h = self.gru(obs)
        return h[-1]
"""),
    "lstm": _class("""
    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.lstm = nn.LSTM(input_size=obs_dim, hidden_size=32, num_layers=1, batch_first=True)

    def forward(self, obs):
        out, (h, c) = self.lstm(obs)
        return out[:, -1, :]
"""),
    "gru_cell_loop": _class("""
    history = 4

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 24
        self.cell = nn.GRUCell(obs_dim, 24)

    def forward(self, obs):
        h = obs.new_zeros(obs.shape[0], self.feature_dim)
        for t in range(obs.shape[1]):
            h = self.cell(obs[:, t], h)
        return h
"""),
    "conv": _class("""
    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.conv = nn.Conv1d(obs_dim, 32, kernel_size=3, padding=1)

    def forward(self, obs):
        return F.relu(self.conv(obs.transpose(1, 2))).mean(dim=-1)
"""),
    "dilated_conv": _class("""
    history = 16

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 24
        self.layers = nn.ModuleList()
        channels = obs_dim
        for i in range(3):
            self.layers.append(nn.Conv1d(channels, 24, 2, dilation=2 ** i))
            channels = 24

    def forward(self, obs):
        x = obs.permute(0, 2, 1)
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(F.pad(x, (2 ** i, 0))))
        return x[..., -1]
"""),
    "attention": _class("""
    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.embed = nn.Linear(obs_dim, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, obs):
        x = self.embed(obs)
        y, _ = self.attention(x[:, -1:], x, x, need_weights=False)
        return (x[:, -1:] + y).squeeze(1)
"""),
    "own_attention": _class(
        """
    history = 6

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.q, self.k, self.v = nn.Linear(obs_dim, 16), nn.Linear(obs_dim, 16), nn.Linear(obs_dim, 16)

    def forward(self, obs):
        q, k, v = self.q(obs[:, -1:]), self.k(obs), self.v(obs)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(16)
        return (scores.softmax(-1) @ v)[:, 0]
""",
        head="import math\nimport torch\nfrom torch import nn\n",
    ),
    "sdpa": _class("""
    history = 4

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.qkv = nn.Linear(obs_dim, 48)

    def forward(self, obs):
        q, k, v = self.qkv(obs).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v)[:, -1]
"""),
    "transformer_layer": _class("""
    history = 4

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.embed = nn.Linear(obs_dim, 16)
        self.position = nn.Parameter(torch.zeros(history, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=0.0, batch_first=True)

    def forward(self, obs):
        return self.layer(self.embed(obs) + self.position)[:, -1]
"""),
    "mixture_of_experts": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.experts = nn.ModuleList(nn.Linear(obs_dim * history, 16) for _ in range(4))
        self.router = nn.Linear(obs_dim * history, 4)

    def forward(self, obs):
        x = obs.flatten(1)
        weights = torch.softmax(self.router(x), dim=-1)
        outputs = torch.stack([torch.tanh(expert(x)) for expert in self.experts], dim=1)
        return torch.einsum("be,bef->bf", weights, outputs)
"""),
    "gated_linear": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.fc = nn.Linear(obs_dim * history, 64)

    def forward(self, obs):
        return F.glu(self.fc(obs.flatten(1)), dim=-1)
"""),
    "time_gate": _class("""
    TIME = 30

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.body = nn.Linear(obs_dim * history, 32)
        self.gate = nn.Linear(1, 32)

    def forward(self, obs):
        left = obs[:, -1, self.TIME : self.TIME + 1]
        return torch.sigmoid(self.gate(left)) * torch.tanh(self.body(obs.flatten(1)))
"""),
    "time_embedding": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 24
        self.embedding = nn.Embedding(11, 8)
        self.body = nn.Linear(obs_dim * history, 16)

    def forward(self, obs):
        bucket = (obs[:, -1, 30].clamp(0.0, 1.0) * 10).long()
        return torch.cat([self.embedding(bucket), torch.tanh(self.body(obs.flatten(1)))], dim=1)
"""),
    "fourier_time": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.register_buffer("frequencies", torch.arange(1, 5, dtype=torch.float32) * math.pi)
        self.fc = nn.Linear(obs_dim * history + 8, 32)

    def forward(self, obs):
        angle = obs[:, -1, 30:31] * self.frequencies
        waves = torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)
        return torch.tanh(self.fc(torch.cat([obs.flatten(1), waves], dim=-1)))
"""),
    "two_towers": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.market = nn.Sequential(nn.Linear((obs_dim - 2) * history, 32), nn.ReLU())
        self.private = nn.Sequential(nn.Linear(2 * history, 16), nn.ReLU())
        self.feature_dim = 48

    def forward(self, obs):
        market, private = obs[..., :-2], obs[..., -2:]
        return torch.cat((self.market(market.flatten(1)), self.private(private.flatten(1))), 1)
"""),
    "film": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.body = nn.Linear(obs_dim * history, 32)
        self.film = nn.Linear(2, 64)

    def forward(self, obs):
        scale, shift = self.film(obs[:, -1, -2:]).split(32, dim=-1)
        return torch.tanh(self.body(obs.flatten(1)) * (1 + scale) + shift)
"""),
    "squeeze_excite": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.squeeze = nn.Linear(obs_dim * history, 8)
        self.excite = nn.Linear(8, obs_dim * history)
        self.fc = nn.Linear(obs_dim * history, 32)

    def forward(self, obs):
        x = obs.flatten(1)
        return F.leaky_relu(self.fc(x * torch.sigmoid(self.excite(F.relu(self.squeeze(x))))), 0.1)
"""),
    "orthogonal_init": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.layers = nn.ModuleList([nn.Linear(obs_dim * history, 32), nn.Linear(32, 32)])
        self.apply(self._init_weights)

    @staticmethod
    def _init_weights(module):
        if isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight, gain=math.sqrt(2))
            nn.init.constant_(module.bias, 0.0)

    def forward(self, obs):
        x = obs.flatten(1)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x
"""),
    "weight_scaling": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.fc = nn.Linear(obs_dim * history, 16)
        with torch.no_grad():
            self.fc.weight.mul_(0.1)
            self.fc.bias.zero_()

    def forward(self, obs):
        return self.fc(obs.flatten(1))
"""),
    "raw_parameters": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.weight = nn.Parameter(torch.randn(obs_dim * history, 16) * 0.05)
        self.bias = nn.Parameter(torch.zeros(16))

    def forward(self, obs):
        return torch.addmm(self.bias, obs.flatten(1), self.weight)
"""),
    "exponential_memory": _class("""
    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 2 * obs_dim
        self.decay = nn.Parameter(torch.zeros(obs_dim))

    def forward(self, obs):
        steps = torch.arange(obs.shape[1] - 1, -1, -1, device=obs.device, dtype=obs.dtype)
        weights = torch.exp(-F.softplus(self.decay)[None, :] * steps[:, None])
        mean = (obs * weights).sum(1) / weights.sum(0)
        return torch.cat([obs[:, -1], mean], dim=-1)
"""),
    "polynomial_features": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 24
        self.fc = nn.Linear(2 * obs_dim * history, 24)

    def forward(self, obs):
        x = obs.flatten(1).clamp(-5, 5)
        return torch.tanh(self.fc(torch.cat([x, x ** 2], -1)))
"""),
    "bilinear": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.left = nn.Linear(obs_dim * history, 16)
        self.right = nn.Linear(obs_dim * history, 16)

    def forward(self, obs):
        x = obs.flatten(1)
        return self.left(x) * torch.tanh(self.right(x))
"""),
    "differences": _class("""
    history = 4

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.fc = nn.Linear(obs_dim * (2 * history - 1), 32)

    def forward(self, obs):
        changes = obs[:, 1:] - obs[:, :-1]
        return F.mish(self.fc(torch.cat([obs, changes], dim=1).flatten(1)))
"""),
    "selected_fields": _class("""
    FIELDS = [13, 14, 26, 29, 30, 31]

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.fc = nn.Linear(len(self.FIELDS), 16)

    def forward(self, obs):
        return torch.tanh(self.fc(obs[:, -1][:, self.FIELDS]))
"""),
    "local_names": _class("""
    def __init__(self, obs_dim, history):
        super().__init__()
        self._width = 16
        self.feature_dim = self._width
        self._fc = nn.Linear(obs_dim * history, self._width)

    def forward(self, obs):
        B, T, F = obs.shape
        return torch.relu(self._fc(obs.reshape(B, T * F)))
"""),
    "ordered_sequential": """
from collections import OrderedDict
from typing import List, Optional

import torch
from torch import nn, Tensor


def make_layers(sizes: List[int]) -> nn.Sequential:
    layers = OrderedDict()
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers["linear{}".format(i)] = nn.Linear(a, b)
        layers[f"act{i}"] = nn.GELU()
    return nn.Sequential(layers)


class Network(nn.Module):
    learning_rate: float = 1e-3

    def __init__(self, obs_dim: int, history: int, sizes: Optional[List[int]] = None):
        super().__init__()
        sizes = sizes or [48, 24]
        self.feature_dim: int = sizes[-1]
        self.body = make_layers([obs_dim * history, *sizes])

    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs.flatten(1))
""",
    "inherited": """
class Base(nn.Module):
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 20
        self.trunk = self.build(obs_dim * history)

    def build(self, size):
        raise NotImplementedError

    def forward(self, obs):
        return self.trunk(obs.flatten(1))


class Network(Base):
    def build(self, size):
        return nn.Sequential(nn.Linear(size, self.feature_dim), nn.Softsign())
""",
    "spectral_norm": """
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Network(nn.Module):
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.fc = weight_norm(nn.Linear(obs_dim * history, 16))

    def forward(self, obs):
        return torch.tanh(self.fc(obs.flatten(1)))
""",
    "checked_input": _class('''
    """Checks its input, for fun."""

    def __init__(self, obs_dim, history):
        super().__init__()
        self.shape = (history, obs_dim)
        self.feature_dim = 16
        self.fc = nn.Linear(obs_dim * history, 16)

    def __repr__(self):
        return "Network(%d, %d)" % self.shape

    def forward(self, obs):
        assert obs.dim() == 3, f"expected three dimensions, got {obs.dim()}"
        try:
            x = obs.flatten(1)
        except RuntimeError as error:
            raise ValueError("bad shape") from error
        return torch.tanh(self.fc(x))
'''),
}
