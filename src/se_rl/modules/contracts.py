"""The five contracts: what a language model may write, stated once.

Prompts, grammars, the validator, the docs page and the tests are all made from what stands here. A design is a mapping
from module name (`code_type`) to source text; a module that is not designed keeps its default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.market.profile import PROFILE_RANGES, MarketProfile

__all__ = [
    "CODE_TYPES",
    "CONTRACTS",
    "LIMITS",
    "NETWORK_CONSTANTS",
    "OBSERVATION_FIELDS",
    "PROFILE_RANGES",
    "REWARD_FIELDS",
    "Constant",
    "Contract",
    "Field",
    "MarketProfile",
]


@dataclass(frozen=True)
class Field:
    """One named tensor of a reward's `step`: its unit, the range it keeps to, and what it means."""

    unit: str
    low: float
    high: float
    help: str


PRICE = "share of the arrival price"
PARENT = "share of the parent order"

REWARD_FIELDS: dict[str, Field] = {
    "fill_price": Field(
        PRICE,
        0.5,
        2.0,
        "average price of our fills in this step; benchmark_price where nothing filled",
    ),
    "benchmark_price": Field(PRICE, 0.5, 2.0, "the market's average price in this step"),
    "traded_share": Field(
        PARENT, 0.0, 1.0, "what we traded in this step, forced completion included"
    ),
    "half_spread": Field(
        PRICE, 0.0, 0.1, "half the bid-ask spread when the step was decided (0 where none is known)"
    ),
    "volatility": Field(
        PRICE, 0.0, 0.1, "standard deviation of a one-step return, known when the step was decided"
    ),
    "imbalance": Field("ratio", -1.0, 1.0, "displayed book, positive where it favours our order"),
    "inventory_left": Field(PARENT, 0.0, 1.0, "what is still to trade after this step"),
    "time_left": Field("share of the horizon", 0.0, 1.0, "time left after this step"),
    "own_impact": Field(
        PRICE, -0.5, 0.5, "how far our trading so far has pushed the mid against us"
    ),
    "mid_before": Field(PRICE, 0.5, 2.0, "mid when the step was decided"),
    "mid_after": Field(PRICE, 0.5, 2.0, "mid at the end of the step"),
    "no_order_mid": Field(
        PRICE, 0.5, 2.0, "mid at the end of the step in the same market without our order"
    ),
    "no_order_mid_before": Field(
        PRICE, 0.5, 2.0, "mid when the step was decided in the same market without our order"
    ),
    "news": Field(
        PRICE,
        -0.5,
        0.5,
        "move of the mid in this step that our order did not cause and nobody can time: the"
        " move without our order in the simulated market, the mean move of all symbols on history",
    ),
    "twap_fill_price": Field(PRICE, 0.5, 2.0, "price TWAP got in this step of the same episode"),
    "twap_traded_share": Field(
        PARENT, 0.0, 1.0, "what TWAP traded in this step of the same episode"
    ),
    "twap_inventory_left": Field(PARENT, 0.0, 1.0, "what TWAP has still to trade after this step"),
    "passive_share": Field(
        PARENT, 0.0, 1.0, "part of traded_share that our resting limit orders earned"
    ),
    "forced_share": Field(PARENT, 0.0, 1.0, "part of traded_share completed by force at the end"),
}
"""The attributes of `step`. Prices are divided by the arrival price and turned so that higher is better for our order,
whether we sell or buy (a buy at p counts as 2 - p/arrival); `imbalance` and `news` are turned the same way."""


@dataclass(frozen=True)
class Constant:
    """A number that a network may set as a class attribute: range and default."""

    low: float
    high: float
    default: float
    help: str


NETWORK_CONSTANTS: dict[str, Constant] = {
    "learning_rate": Constant(1e-5, 1e-2, 1e-3, "step size of Adam"),
    "exploration": Constant(0.05, 1.5, 1.0, "standard deviation of the first policy's noise"),
    "epochs": Constant(1, 10, 4, "passes over each batch (a whole number)"),
    "gae_lambda": Constant(
        0.5, 1.0, 0.8, "how far advantages look ahead on history, where we move no price"
    ),
    "gae_lambda_dynamic": Constant(
        0.5, 1.0, 1.0, "the same in simulated markets, where our impact returns much later"
    ),
    "entropy_bonus": Constant(0.0, 0.05, 0.0, "reward for keeping noise"),
    "history": Constant(1, 16, 1, "observations of the past that forward() sees (a whole number)"),
    "action_zero": Constant(0.25, 4.0, 1.0, "multiple of the TWAP slice that an output of 0 means"),
    "action_scale": Constant(0.1, 4.0, 1.0, "how far an output of 1 moves the action, in log-odds"),
}


@dataclass(frozen=True)
class ModuleLimits:
    """What a module may cost."""

    source_bytes: int = 64_000
    nesting: int = 100
    parameters: int = 300_000
    microseconds_per_row: float = 50.0
    reward_magnitude: float = 1e4
    imagined_drift: float = 0.1  # of the mean log return of a bar, in standard deviations of one
    message_size: int = 8
    feature_dim: int = 512


LIMITS = ModuleLimits()


@dataclass(frozen=True)
class Contract:
    """What one module must be: the name the framework calls, its signature, and the rules the validator holds it to."""

    code_type: str
    title: str
    entry: str
    signature: str
    task: str
    rules: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def glossary(self) -> tuple[str, ...]:
        """The names that the module may use or set, one line each with unit or range and meaning."""
        return _GLOSSARIES.get(self.code_type, ())


_ALWAYS = (
    "use only torch, nn, F and math",
    "deterministic: no clocks, no global state, no randomness of its own",
)

_EXAMPLES: dict[str, tuple[str, ...]] = {
    "reward": (
        """def reward(step):
    own = step.traded_share * (step.fill_price - step.mid_before)
    own = own + step.inventory_left * (step.mid_after - step.mid_before - step.news)
    twap = step.twap_traded_share * (step.twap_fill_price - step.no_order_mid_before)
    return own - twap
""",
        """import torch


def reward(step):
    gain = step.traded_share * (step.fill_price - step.no_order_mid)
    risk = step.volatility * (step.inventory_left - step.time_left).square()
    patience = step.half_spread * step.passive_share * torch.sigmoid(2.0 * step.imbalance)
    return gain - 0.1 * risk + 0.5 * patience
""",
    ),
    "network": (
        """import torch
from torch import nn


class Network(nn.Module):
    learning_rate = 0.002
    exploration = 0.8
    action_zero = 1.5

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.first = nn.Linear(obs_dim * history, 32)

    def forward(self, obs):
        return torch.tanh(self.first(obs.flatten(1)))
""",
        """import torch
from torch import nn


class Network(nn.Module):
    history = 4
    epochs = 3

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 48
        self.norm = nn.LayerNorm(obs_dim)
        self.memory = nn.GRU(obs_dim, 48, batch_first=True)
        self.gate = nn.Linear(obs_dim, 48)

    def forward(self, obs):
        recalled, _ = self.memory(self.norm(obs))
        return recalled[:, -1] * torch.sigmoid(self.gate(obs[:, -1]))
""",
    ),
    "communication": (
        """import torch
from torch import nn


class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()
        self.mix = nn.Linear(size, size)

    def forward(self, messages):
        others = messages.sum(1, keepdim=True) - messages
        return torch.tanh(self.mix(others / max(1, messages.shape[1] - 1)))
""",
        """import torch
from torch import nn


class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)

    def forward(self, messages):
        scores = self.query(messages) @ self.key(messages).transpose(1, 2)
        own = torch.eye(messages.shape[1], device=messages.device)
        return torch.softmax(scores - 100.0 * own, -1) @ messages
""",
    ),
    "profiling": (
        """def profile():
    return {
        "parent_share": 0.6,
        "imbalance_response": 0.5,
        "maker_skew": 1.6,
        "stress_rate": 0.006,
    }
""",
        """def profile():
    return {
        "noise_market_rate": 3.5,
        "maker_lots": 3.0,
        "informed_rate": 0.5,
        "news_volatility": 2.0,
        "news_clustering": 0.6,
    }
""",
    ),
    "imagination": (
        """import torch


def imagine(bars, generator):
    stretch = torch.exp(0.3 * torch.randn((bars.shape[0], 1, 1), generator=generator, dtype=bars.dtype))
    start = bars[:, :1, :1]
    prices = start * (bars[..., :4] / start) ** stretch
    return torch.cat([prices, bars[..., 4:]], -1)
""",
        """import torch


def imagine(bars, generator):
    steps, block = bars.shape[1], 20
    start, before = bars[:, :1, :1], torch.cat([bars[:, :1, :1], bars[:, :-1, 3:4]], 1)
    moves = (bars[..., :4] / before).log()
    order = torch.randperm(-(-steps // block), generator=generator)
    index = (order[:, None] * block + torch.arange(block)).flatten()
    index = index[index < steps]
    moves, volume = moves[:, index], bars[:, index, 4:]
    path = moves[..., 3:4].cumsum(1)
    prices = start * torch.exp(path - moves[..., 3:4] + moves)
    return torch.cat([prices, volume], -1)
""",
    ),
}
"""Two good modules of each kind, complete as a model should write them."""

CONTRACTS: dict[str, Contract] = {
    contract.code_type: contract
    for contract in (
        Contract(
            "reward",
            "LLM4Reward",
            "reward",
            "def reward(step) -> torch.Tensor",
            "Score one step of executing a parent order, for many orders at once; the agent maximises the sum.",
            (
                "step has one float tensor of shape [B] per field; return a float tensor of shape [B]",
                "each row depends on its own row only",
                "finite everywhere; its scale does not matter, the framework normalises it",
                *_ALWAYS,
            ),
            _EXAMPLES["reward"],
        ),
        Contract(
            "network",
            "LLM4Agent",
            "Network",
            "class Network(nn.Module): __init__(self, obs_dim, history); forward(self, obs) -> features",
            "Turn what the agent has observed into features; the framework puts policy and value heads on them.",
            (
                "obs has shape [B, history, obs_dim], the newest observation last; return [B, self.feature_dim]",
                "set self.feature_dim in __init__; call super().__init__() first",
                "class attributes may set learning constants within their ranges",
                "each row depends on its own row only; gradients must reach the parameters",
                *_ALWAYS,
            ),
            _EXAMPLES["network"],
        ),
        Contract(
            "communication",
            "LLM4Communication",
            "Communication",
            "class Communication(nn.Module): __init__(self, agents, size); forward(self, messages) -> inbox",
            "Say what each of N agents that trade in one book hears of what the others said in the last step.",
            (
                "messages has shape [B, N, K], values in [-1, 1]; return an inbox of the same shape",
                "an inbox is kept to [-1, 1] by the framework",
                "each book (row of B) depends on its own row only",
                *_ALWAYS,
            ),
            _EXAMPLES["communication"],
        ),
        Contract(
            "profiling",
            "LLM4Profiling",
            "profile",
            "def profile() -> dict",
            "Describe the participants of the simulated market in which the agent is trained.",
            (
                "keys are profile numbers, values lie in their ranges; numbers not named keep their defaults",
                "the market must trade and move, and keep both sides of its book",
            ),
            _EXAMPLES["profiling"],
        ),
        Contract(
            "imagination",
            "LLM4Imagine",
            "imagine",
            "def imagine(bars, generator) -> torch.Tensor",
            "Make new, plausible market paths from real ones for the agent to train on.",
            (
                "bars has shape [B, T, 5]: open, high, low, close (positive prices) and volume; return the same shape",
                "low <= open, close <= high; prices positive, volume not negative, all finite",
                "random numbers only from the torch.Generator handed in; the result must depend on it or on bars",
                "no drift that pays one side: the mean log return over the batch stays near that of the bars",
                "use only torch, nn, F and math",
            ),
            _EXAMPLES["imagination"],
        ),
    )
}
CODE_TYPES: tuple[str, ...] = tuple(CONTRACTS)

_GLOSSARIES: dict[str, tuple[str, ...]] = {
    "reward": tuple(
        f"step.{name}: {f.unit}, {f.low:g} to {f.high:g}; {f.help}"
        for name, f in REWARD_FIELDS.items()
    ),
    "network": (
        *(
            f"{name}: {c.low:g} to {c.high:g}, default {c.default:g}; {c.help}"
            for name, c in NETWORK_CONSTANTS.items()
        ),
        f"obs[..., i] holds, in this order: {', '.join(OBSERVATION_FIELDS)}",
    ),
    "profiling": tuple(
        f"{f.name}: {f.metadata['range'][0]:g} to {f.metadata['range'][1]:g}, default {f.default:g}; {f.metadata['help']}"
        for f in fields(MarketProfile)
    ),
}
