"""The grammar of networks: those that are drawn, and the default's relatives that edits lead to."""

from __future__ import annotations

from se_rl.data.bar_inputs import BAR_INPUTS
from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.modules.contracts import NETWORK_CONSTANTS
from se_rl.modules.grammar import Rules, one_of

_FORWARD = "\n    def forward(self, obs):\n"
_GATE = f"{OBSERVATION_FIELDS.index('time_left')}:{OBSERVATION_FIELDS.index('inventory_left') + 1}"
WIDTHS = one_of("8 16 24 32 48 64 96")
_PRESSURES = tuple(BAR_INPUTS)
_FLOWS = ("market_flow_1", "market_flow_5", "limit_flow_1", "limit_flow_5")
FURTHER_SETS = (
    ("book_before",),
    _FLOWS,
    ("book_before", *_FLOWS),
    ("own_lots", "lots_ahead"),
    ("deep_queues",),
    ("pressure_60",),
    ("pressure_5", "pressure_60"),
    _PRESSURES,
    (*_PRESSURES, "book_before", *_FLOWS),
)
"""Further inputs, of books and of bars, that a network may be given."""

RULES: Rules = {
    "start": (
        "class Network(nn.Module):\n"
        "    learning_rate = <learning_rate>\n"
        "    exploration = <exploration>\n"
        "    exploration_end = <exploration_end>\n"
        "    epochs = <epochs>\n"
        "    gae_lambda = <gae_lambda>\n"
        "    gae_lambda_dynamic = <gae_lambda_dynamic>\n"
        "    entropy_bonus = <entropy_bonus>\n"
        "    action_zero = <action_zero>\n"
        "    action_scale = <action_scale>\n"
        "<own_batch>"
        "<own_shares>"
        "<set_inputs>"
        "    history = <family>",
    ),
    "own_batch": ("", "    batch = <batch>\n"),
    "own_shares": (
        "",
        "    static_share = <static_share>\n    joint_share = <joint_share>\n",
    ),
    "static_share": one_of("0.05 0.1 0.2 0.3 0.4"),
    "joint_share": one_of("0.2 0.3 0.4 0.6 0.8"),
    "set_inputs": ("", *(f"    inputs = {names!r}\n" for names in FURTHER_SETS)),
    "batch": one_of("0.25 0.5 1.0 2.0"),
    "learning_rate": one_of("0.0003 0.0005 0.001 0.002 0.003 0.005"),
    "exploration": one_of("0.2 0.3 0.4 0.6 0.8 1.0 1.2"),
    "exploration_end": one_of("0.1 0.2 0.3 0.5 0.8"),
    "epochs": one_of("1 2 3 4 6 8"),
    "gae_lambda": one_of("0.6 0.7 0.8 0.9 0.95 1.0"),
    "gae_lambda_dynamic": one_of("0.9 0.95 0.98 1.0"),
    "entropy_bonus": one_of("0.0 0.001 0.003 0.01"),
    "action_zero": one_of("0.5 0.75 1.0 1.25 1.5 2.0"),
    "action_scale": one_of("0.25 0.5 1.0 1.5 2.0"),
    "family": (
        "1\n<init><flat>",
        "2\n<init><flat>",
        "3\n<init><flat>",
        "4\n<init><sequence>",
        "8\n<init><sequence>",
        "16\n<init><sequence>",
    ),
    "init": (
        "\n    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n"
        "        width = <width>\n"
        "        self.feature_dim = width\n",
    ),
    "width": WIDTHS,
    "flat": ("        self.first = nn.Linear(obs_dim * history, width)\n<hidden>",),
    "hidden": (
        f"{_FORWARD}        return self.first(obs.flatten(1))\n",
        "        self.act = nn.<act>()\n<deep>",
    ),
    "act": one_of("Tanh ReLU SiLU GELU ELU"),
    "deep": (
        f"{_FORWARD}        return self.act(self.first(obs.flatten(1)))\n",
        "        self.norm = nn.LayerNorm(width)\n"
        f"{_FORWARD}        return self.act(self.norm(self.first(obs.flatten(1))))\n",
        "        self.gate = nn.Linear(2, width)\n"
        f"{_FORWARD}        gate = torch.sigmoid(self.gate(obs[:, -1, {_GATE}]))\n"
        "        return gate * self.act(self.first(obs.flatten(1)))\n",
        "        self.second = nn.Linear(width, width)\n"
        f"{_FORWARD}        hidden = self.act(self.first(obs.flatten(1)))\n"
        "        return <joined>\n",
    ),
    "joined": (
        "self.act(self.second(hidden))",
        "hidden + self.act(self.second(hidden))",
        "hidden * torch.sigmoid(self.second(hidden))",
    ),
    "sequence": (
        "        self.memory = nn.<memory>(obs_dim, width, batch_first=True)\n"
        f"{_FORWARD}        return self.memory(obs)[0][:, -1]\n",
        "        self.act = nn.<act>()\n"
        "        self.filter = nn.Conv1d(obs_dim, width, min(history, <kernel>))\n"
        f"{_FORWARD}        return self.act(self.filter(obs.transpose(1, 2)))<pool>\n",
        "        self.score = nn.Linear(obs_dim, 1)\n"
        "        self.value = nn.Linear(obs_dim, width)\n"
        f"{_FORWARD}        weight = torch.softmax(self.score(obs), 1)\n"
        "        return (weight * torch.tanh(self.value(obs))).sum(1)\n",
    ),
    "memory": one_of("GRU LSTM RNN"),
    "kernel": one_of("2 3 4"),
    "pool": (".amax(-1)", ".mean(-1)", "[..., -1]"),
}


def _with(*groups: tuple[str, str, str]) -> str:
    """A line that puts something else in the places of some neighbouring observations.

    A group is its first and its last name and the text that stands there instead; {0} are its places.
    """
    pieces = []
    place = 0
    for first, last, instead in groups:
        begin, end = OBSERVATION_FIELDS.index(first), OBSERVATION_FIELDS.index(last) + 1
        if begin > place:
            pieces.append(f"obs[..., {place}:{begin}]")
        pieces.append(instead.format(f"{begin}:{end}"))
        place = end
    pieces.append(f"obs[..., {place}:]")
    return f"        obs = torch.cat([{', '.join(pieces)}], -1)\n"


def _without(*groups: tuple[str, str]) -> str:
    """A line that puts 0 in the places of some neighbouring observations."""
    return _with(*((first, last, "0.0 * obs[..., {0}]") for first, last in groups))


def _places(first: str, last: str) -> str:
    return f"obs[..., {OBSERVATION_FIELDS.index(first)}:{OBSERVATION_FIELDS.index(last) + 1}]"


_MARKET_RETURNS = ("return_1", "return_60")
_OWN_VOLUME = _places("volume_1", "volume_1")
_TWO = (
    "        self.second = nn.Linear(width, width)\n"
    f"{_FORWARD}<inputs>        hidden = <activation>(self.first(obs.flatten(1)))\n"
)

_TRUNKS: Rules = {
    "trunk": (
        f"{_TWO}        return <activation>(self.second(hidden))\n",
        f"{_TWO}        return hidden + <activation>(self.second(hidden))\n",
        f"{_TWO}        return hidden * torch.sigmoid(self.second(hidden))\n",
        f"{_FORWARD}<inputs>        return self.first(obs.flatten(1))\n",
        f"{_FORWARD}<inputs>        return <activation>(self.first(obs.flatten(1)))\n",
        "        self.straight = nn.Linear(obs_dim * history, width)\n"
        f"{_TWO}        return self.straight(obs.flatten(1)) + <activation>(self.second(hidden))\n",
        "        self.straight = nn.Linear(obs_dim * history, width)\n"
        "        self.gate = nn.Linear(obs_dim * history, width)\n"
        f"{_FORWARD}<inputs>        flat = obs.flatten(1)\n"
        "        gate = torch.sigmoid(self.gate(flat))\n"
        "        return gate * <activation>(self.first(flat)) + (1.0 - gate) * self.straight(flat)\n",
        "        self.gate = nn.Linear(2, width)\n"
        f"{_FORWARD}<inputs>        gate = torch.sigmoid(self.gate(obs[:, -1, {_GATE}]))\n"
        "        return gate * <activation>(self.first(obs.flatten(1)))\n",
    ),
    "inputs": (
        "",
        _without(_MARKET_RETURNS, ("return_since_open", "range_position")),
        _without(_MARKET_RETURNS),
        _without(("bid_size_1", "ask_size_5")),
        _without(("return_1", "range_position")),
        # each symbol's own returns times its volume, where the market's returns would stand
        _with(
            (
                *_MARKET_RETURNS,
                f"{_places('specific_return_1', 'specific_return_60')} * {_OWN_VOLUME}",
            )
        ),
        # the same, returns of longer spans times the volume of a longer one
        _with(
            (
                "return_1",
                "return_1",
                f"{_places('specific_return_1', 'specific_return_1')} * {_OWN_VOLUME}",
            ),
            (
                "return_5",
                "return_60",
                f"{_places('specific_return_5', 'specific_return_60')} * {_places('volume_5', 'volume_5')}",
            ),
        ),
    ),
    "activation": one_of("torch.tanh F.relu F.silu F.gelu F.elu"),
}
"""What stands between observations and heads: trunks from two layers to a straight line, and sets of
inputs (all; without what the whole market did; without the book; the book alone; products)."""


def _default_rules() -> Rules:
    """The default with its trunk, width and inputs as choices; any learning constant may be set."""
    rules: Rules = {}
    settings = ""
    for name, known in NETWORK_CONSTANTS.items():
        values = one_of("1 2 3 4 8 16") if name == "history" else RULES[name]
        lines = []
        for value in values:  # in their order, with nothing where the default stands
            lines.append("" if float(value) == known.default else f"    {name} = {value}\n")
        rules[f"set_{name}"] = tuple(lines)
        settings += f"<set_{name}>"
    rules["set_inputs"] = RULES["set_inputs"]
    settings += "<set_inputs>"
    rules |= _TRUNKS
    rules["default"] = (
        f"class Network(nn.Module):\n{settings}\n"
        "    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n"
        "        width = <width>\n"
        "        self.feature_dim = width\n"
        "        self.first = nn.Linear(obs_dim * history, width)\n"
        "<trunk>",
    )
    return rules


DEFAULT_RULES = _default_rules()
