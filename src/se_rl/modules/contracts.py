"""The contracts' words and numbers: what a language model may write, stated once.

Prompts, grammars, the validator, the docs page and the tests are all made from what stands here and
in `kinds`. A design is a mapping from module name (`code_type`) to source text; a module that is
not designed keeps its default.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What one module must be, in words: the name that the framework calls, its signature, and the
    rules that the validator holds it to."""

    code_type: str
    title: str
    entry: str
    signature: str
    task: str
    rules: tuple[str, ...]
    examples: tuple[str, ...]
    """Good modules, complete as a model should write them."""
    glossary: tuple[str, ...] = ()
    """The names that a module may use or set, one line each with unit or range and meaning."""

    @property
    def is_class(self) -> bool:
        """Whether the entry is a class (an nn.Module) and not a function."""
        return self.signature.startswith("class")


ONLY_TORCH = "use only torch, nn, F and math"
ALWAYS = (ONLY_TORCH, "deterministic: no clocks, no global state, no randomness of its own")
"""Rules of every module that computes with tensors."""


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
        "move of the price in this step that our order did not cause and nobody can time: what"
        " news does to the public value in the simulated market, the mean move of all symbols on"
        " history",
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
"""The attributes of `step`. Prices are divided by the arrival price and turned so that higher is
better for our order, whether we sell or buy (a buy at p counts as 2 - p/arrival); `imbalance` and
`news` are turned the same way."""


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
    "exploration_end": Constant(
        0.05, 1.5, 0.3, "the most that is left of it when the training ends"
    ),
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
    "batch": Constant(
        0.25, 2.0, 1.0, "order steps of an update, as a multiple of the usual number"
    ),
    "static_share": Constant(
        0.0, 0.6, 0.2, "the part of the training that is on history alone, which comes first"
    ),
    "joint_share": Constant(
        0.1, 1.0, 0.4, "the part in both worlds, which comes last; between is simulated alone"
    ),
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
