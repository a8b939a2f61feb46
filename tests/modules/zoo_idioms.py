"""Idioms of torch and Python that were refused once, or that strict rules could easily refuse."""

_HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n"


def _network(init: str, forward: str, head: str = "", members: str = "") -> str:
    """A network of 8 features with a layer `fc`."""
    lines = [f"        {line}\n" for line in init.strip().splitlines()]
    body = [f"        {line}\n" for line in forward.strip().splitlines()]
    more = [f"    {line}\n" for line in members.strip("\n").splitlines()]
    return (
        f"{_HEAD}{head}\nclass Network(nn.Module):\n"
        "    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n        self.feature_dim = 8\n"
        "        self.fc = nn.Linear(obs_dim * history, 8)\n"
        f"{''.join(lines)}\n    def forward(self, obs):\n{''.join(body)}\n{''.join(more)}"
    )


def _reward(head: str, value: str) -> str:
    return f"{_HEAD}{head}\n\ndef reward(step):\n{value}\n"


_GAIN = "step.traded_share * (step.fill_price - step.mid_before)"
_PLAIN = f"    return {_GAIN}"
_FC = "return torch.tanh(self.fc(obs.flatten(1)))"

IDIOM_NETWORKS = {
    "dropout": _network(
        "self.drop = nn.Dropout(0.2)", "return self.drop(torch.tanh(self.fc(obs.flatten(1))))"
    ),
    "dropout_in_sequence": _network(
        "self.net = nn.Sequential(self.fc, nn.Dropout(), nn.Tanh(), nn.AlphaDropout(0.1))",
        "return self.net(obs.flatten(1))",
    ),
    "default_transformer_layer": _network(
        "self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)",
        "return self.layer(self.fc(obs.flatten(1))[:, None])[:, 0]",
    ),
    "transformer_encoder": _network(
        "layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16,"
        " batch_first=True)\n"
        "self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)",
        "return self.encoder(self.fc(obs.flatten(1)).unsqueeze(1)).squeeze(1)",
    ),
    "attention_with_dropout": _network(
        "self.mix = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)",
        "x = self.fc(obs.flatten(1))[:, None]\nreturn x[:, 0] + self.mix(x, x, x)[0][:, 0]",
    ),
    "deep_gru_with_dropout": _network(
        "self.gru = nn.GRU(obs_dim, 8, num_layers=2, dropout=0.1, batch_first=True)",
        "return self.gru(obs)[0][:, -1] + self.fc(obs.flatten(1))",
    ),
    "prints_a_tensor": _network("", f"print(obs.mean(), obs)\n{_FC}"),
    "layer_at_the_top": _network("", "return ACT(self.fc(obs.flatten(1)))", head="ACT = nn.Tanh()"),
    "layers_at_the_top": _network(
        "",
        "x = self.fc(obs.flatten(1))\nfor act in ACTS:\n    x = act(x)\nreturn x",
        head="ACTS = [lambda x: x, torch.tanh, nn.ELU()]",
    ),
    "table_of_classes": _network(
        'self.act = ACTS["tanh"]()',
        "return self.act(self.fc(obs.flatten(1)))",
        head='ACTS = {"tanh": nn.Tanh, "relu": nn.ReLU}',
    ),
    "class_as_argument": _network(
        "self.body = mlp([8, 8, 8], act=nn.SiLU)",
        "return self.body(self.fc(obs.flatten(1)))",
        head="def mlp(sizes, act=nn.ReLU):\n    layers = []\n"
        "    for a, b in zip(sizes[:-1], sizes[1:]):\n        layers += [nn.Linear(a, b), act()]\n"
        "    return nn.Sequential(*layers)\n",
    ),
    "weights_by_data": _network("self.fc.weight.data = 0.5 * self.fc.weight.data", _FC),
    "weights_by_loop": _network(
        "for layer in [self.fc]:\n    layer.weight.data.mul_(0.5)\n    layer.bias.data.zero_()", _FC
    ),
    "frozen_bias": _network("self.fc.bias.requires_grad = False", _FC),
    "tied_weights": _network(
        "self.up = nn.Linear(8, 8)\nself.down = nn.Linear(8, 8)\nself.down.weight = self.up.weight",
        "return self.down(torch.relu(self.up(self.fc(obs.flatten(1)))))",
    ),
    "fresh_layer_changed": _network(
        "layer = nn.Linear(8, 8)\nlayer.bias = nn.Parameter(torch.zeros(8))\nself.out = layer",
        "return self.out(torch.tanh(self.fc(obs.flatten(1))))",
    ),
    "base_init_by_name": _network("", _FC).replace(
        "super().__init__()", "nn.Module.__init__(self)"
    ),
    "sequential_as_base": """
from torch import nn


class Network(nn.Sequential):
    def __init__(self, obs_dim, history):
        super().__init__(nn.Flatten(), nn.Linear(obs_dim * history, 8), nn.Tanh())
        self.feature_dim = 8

    def forward(self, obs):
        return super().forward(obs)
""",
    "own_norm_named_norm": _network(
        "self.norm = nn.LayerNorm(8)\nself.mean = nn.Linear(8, 8)",
        "return self.mean(self.norm(self.fc(obs.flatten(1))))",
    ),
    "asks_for_types": _network(
        "for module in self.modules():\n    if type(module) is nn.Linear:\n"
        "        nn.init.xavier_uniform_(module.weight)\n"
        "    elif type(module) == nn.LayerNorm:\n        pass",
        _FC,
    ),
    "names_of_types": _network("self.title = type(self).__name__", _FC),
    "hidden_state_kept_private": _network(
        "self._scale = 0.5\nself.__shift = 0.1",
        "return self._scale * self.fc(obs.flatten(1)) + self.__shift",
    ),
    "property_and_extra_repr": _network(
        "",
        "return self.half_width * torch.tanh(self.fc(obs.flatten(1)))",
        members="@property\ndef half_width(self):\n    return 0.5\n\n"
        'def extra_repr(self):\n    return "width=8"\n',
    ),
    "class_method_constant": _network(
        "self.gain = self.pick()",
        "return self.gain * self.fc(obs.flatten(1))",
        members="GAIN = 0.5\n\n@classmethod\ndef pick(cls):\n    return cls.GAIN\n",
    ),
    "function_inside_forward": _network(
        "", "def act(x):\n    return torch.tanh(x)\n\nreturn act(self.fc(obs.flatten(1)))"
    ),
    "named_layers": _network(
        "for i in range(2):\n    self.add_module('layer{}'.format(i), nn.Linear(8, 8))",
        "return self.layer1(torch.tanh(self.layer0(self.fc(obs.flatten(1)))))",
    ),
}

IDIOM_REWARDS = {
    "lambdas_at_the_top": _reward(
        "TERMS = [lambda s: s.traded_share, lambda s: s.fill_price - s.mid_before]",
        "    return TERMS[0](step) * TERMS[1](step)",
    ),
    "weights_at_the_top": _reward(
        "WEIGHTS = torch.tensor([1.0, 0.5])", f"    return WEIGHTS[0] * {_GAIN}"
    ),
    "computed_at_the_top": _reward(
        "import math\n\nSCALE = math.sqrt(2.0)\nPOWERS = [2**i for i in range(3)]",
        f"    return SCALE * POWERS[1] * {_GAIN}",
    ),
    "layer_in_a_reward": _reward("SQUASH = nn.Tanh()", f"    return SQUASH({_GAIN})"),
    "prints_the_step": _reward("", f"    print('news', step.news, sep=': ')\n{_PLAIN}"),
    "object_with_state": _reward(
        "class Account:\n    def __init__(self):\n        self.total = 0.0\n\n"
        "    def add(self, value):\n        self.total = self.total + value\n"
        "        return self\n",
        f"    account = Account()\n    account.add({_GAIN})\n    return account.total",
    ),
    "attribute_of_a_fresh_object": _reward(
        "class Terms:\n    pass\n",
        f"    terms = Terms()\n    terms.gain = {_GAIN}\n    return terms.gain",
    ),
    "callable_object": _reward(
        "class Scaled:\n    def __init__(self, scale):\n        self.scale = scale\n\n"
        "    def __call__(self, value):\n        return self.scale * value\n",
        f"    return Scaled(2.0)({_GAIN})",
    ),
    "named_tuple": _reward(
        "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    share: float\n"
        "    price: float\n",
        "    pair = Pair(step.traded_share, step.fill_price - step.mid_before)\n"
        "    return pair.share * pair.price",
    ),
    "data_class_with_default": _reward(
        "from dataclasses import dataclass, field\n\n\n@dataclass(frozen=True)\nclass Weights:\n"
        "    gain: float = 1.0\n    others: list = field(default_factory=list)\n",
        f"    return Weights().gain * {_GAIN}",
    ),
    "own_error": _reward(
        "class BadStep(ValueError):\n    pass\n",
        f"    if step.news.dim() > 3:\n        raise BadStep('too many')\n{_PLAIN}",
    ),
    "reduced_terms": _reward(
        "from functools import partial, reduce\n\n\ndef weigh(value, weight):\n"
        "    return weight * value\n",
        "    half = partial(weigh, weight=0.5)\n"
        f"    return reduce(lambda a, b: a + b, [half({_GAIN}), half({_GAIN})])",
    ),
}

IDIOM_COMMUNICATIONS = {
    "dropout": """
from torch import nn


class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(size, size), nn.Dropout(0.1), nn.Tanh())

    def forward(self, messages):
        return self.mix(messages.sum(1, keepdim=True) - messages)
""",
}
