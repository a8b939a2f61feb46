"""Settings of a run, and the presets: apart from the code, so that `se-rl --help` stays light."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from se_rl.config import ConfigError, option, settings
from se_rl.records.rungs import Rungs
from se_rl.records.secrets import model_fault
from se_rl.records.setting_values import check_together, check_values
from se_rl.seal import check_seal

SINGLE = ("reward", "network", "imagination")
MULTI = ("reward", "network", "communication", "profiling", "imagination")
ARMS = ("full", "local", "best-of-n", "frozen", "random")
"""The controls of an experiment.

`local` is `full` with edits drawn at random instead of chosen by a model; `best-of-n` drafts from
the first prompt and has no parents; `frozen` has parents and history in the prompt, but a designer
that never changes; `random` draws whole designs from the grammar and asks no model.
"""
RISK = 0.02
"""The price of risk, per bps: a tracking error of 5 bps a day costs 0.25."""
STARTS = ("none", "ridge", "foresight", "constant")
"""Whose schedule a policy learns before RL."""
FILL_MODELS = ("price_taker", "limit_on_bars", "queue")
"""How orders are filled on history."""
DEVICES = ("cpu", "cuda", "host")
"""Where designs are trained that need no lock; `host` is the CPU in a GPU's place, to try it out."""


@settings
class RunConfig:
    """All that a run's result depends on, beside the data's content and the model's weights."""

    data: str = option(
        "nasdaq100",
        "file, imported set, or csi100 / nasdaq100 (synthetic unless imported)",
        metavar="D",
    )
    llm: str = option(
        "smollm2", "embedded model, folder, or URL#MODEL of an endpoint", metavar="NAME"
    )
    adapter: str = option(
        "shipped", "what the model has learned: shipped, none, or an adapter's file", metavar="A"
    )
    free: bool = option(
        False, "a local model writes free Python, whichever it is, in place of a grammar's choices"
    )
    chain_of_thought: bool = option(
        False, "the model gives its reasons first; for free Python, so with --free for smollm2"
    )
    scenario: Literal["single", "multi"] = option(
        "single", "one agent, or several that talk in one book", choices=("single", "multi")
    )
    seed: int = option(
        0, "seed of the search; trainings use seeds 0, 1, ... of their own", metavar="N"
    )
    seal: str | None = option(
        None, "repeat the sealed draws of another run (none: a secret is drawn)", metavar="TEXT"
    )
    scored_days: int = option(
        120, "synthetic sets: days to validate on, and as many to test on", metavar="N"
    )
    train_until: str | None = option(
        None, "last train day (none: as the set says, else by share)", metavar="DATE"
    )
    valid_until: str | None = option(None, "last validation day; test days follow", metavar="DATE")
    half_spread_bps: float = option(0.0, "history: half-spread paid on every fill", metavar="BPS")
    fee_bps: float = option(0.0, "history: fee on every fill", metavar="BPS")
    max_participation: float | None = option(
        None, "history: share of a bar's volume that an order may take", metavar="SHARE"
    )
    fill_model: Literal["price_taker", "limit_on_bars", "queue"] = option(
        "price_taker", "history: how orders are filled", choices=FILL_MODELS
    )
    arm: Literal["full", "local", "best-of-n", "frozen", "random"] = option(
        "full", "who designs: the whole kit, or a control at the same budget", choices=ARMS
    )
    scan: bool = option(
        True, "the first iteration tries the default with single choices made otherwise"
    )
    against: Literal["trainings", "bank"] = option(
        "trainings",
        "what designs are scored by: trainings, or the bank's surrogate, which is no result",
        choices=("trainings", "bank"),
    )
    bank_prior: bool = option(True, "start from what the design bank's published trainings tell")
    hle: bool = option(True, "enhance prompts (high level)")
    lle: bool = option(True, "enhance weights (low level)")
    estimator: Literal["reinforce", "ste"] = option(
        "reinforce",
        "how weights learn: REINFORCE, or straight-through over a learned score",
        choices=("reinforce", "ste"),
    )
    start: Literal["none", "ridge", "foresight", "constant"] = option(
        "none", "whose schedule designs that set none learn before RL", choices=STARTS
    )
    imagine: bool = option(True, "let designs imagine market paths")
    worlds: Literal["both", "static", "dynamic"] = option(
        "both", "worlds to train and score in", choices=("both", "static", "dynamic")
    )
    device: Literal["cpu", "cuda", "host"] = option(
        "cpu", "train designs that need no lock side by side on a GPU: cuda", choices=DEVICES
    )
    islands: bool = option(False, "trade leading designs with other searches on one archive")
    iterations: int = option(3, "outer iterations at most", metavar="N")
    parents: int = option(2, "prompts per iteration", metavar="N")
    siblings: int = option(3, "designs per prompt", metavar="N")
    promoted: int = option(2, "designs per iteration that race on with other seeds", metavar="N")
    finalists: int = option(2, "designs of the last rung, beside the default", metavar="N")
    work: float = option(
        6.0,
        "work units of a search training; last-rung trainings take three times this",
        metavar="W",
    )
    seeds: tuple[int, int, int] = option((1, 1, 3), "trainings per design that each rung adds")
    horizons: tuple[int, ...] = option(
        (240, 120), "bars of an order on history: those that fit", metavar="N,N", also="horizon"
    )
    dynamic_horizons: tuple[int, ...] = option(
        (40, 20), "steps of a simulated order", metavar="N,N", also="dynamic_horizon"
    )
    sizes: tuple[float, float] = option(
        (0.01, 0.30), "orders' share of the usual volume, from least to most", metavar="S,S"
    )
    profiles: tuple[str, ...] = option(
        ("small tick", "large tick", "stressed"),
        "simulated markets: names of the family, or JSON files",
        metavar="P,P",
        also="profile",
    )
    twins: bool = option(True, "half of the simulated markets follow train days", metavar="BOOL")
    agents: int = option(4, "multi scenario: agents in one book", metavar="N")
    episodes: tuple[int, int, int] = option(
        (500, 500, 1000), "simulated orders to score on at each rung"
    )
    day_orders: int = option(64, "pairs of orders on history to score on per day, at most")
    samples: int = option(16_384, "order steps per update and world, about", metavar="N")
    bank: int = option(4096, "simulated episodes to train on", metavar="N")
    static_share: float = option(
        0.5, "weight of history in the score, at least half", metavar="SHARE"
    )
    risk: float = option(
        RISK, "price of risk: the score loses half of it times the daily variance", metavar="R"
    )
    epsilon: float = option(
        0.1, "stop when the smoothed score moves less than this, bps", metavar="BPS"
    )
    gamma: float = option(1.0, "discount per step of the trainings", metavar="G")
    learning_rate: float | None = option(
        None, "of trainings, where a design sets none (none: the default's)", metavar="LR"
    )
    gae_lambda: float | None = option(None, "the same", metavar="L")
    clip: float = option(0.2, "PPO's clip", metavar="C")
    initial_alpha: float = option(
        0.5, "first weight of the static world in the joint phase", metavar="A"
    )
    lora_rank: int = option(16, "rank of the designer's adapter", metavar="N")
    lora_alpha: int = option(32, "scale of the designer's adapter", metavar="N")
    replay: float = option(0.1, "how often an old instruction is tried again", metavar="P")
    rivals: tuple[str, ...] = option(
        (), "learned rivals for the final tables, trained as long as a finalist", metavar="NAME"
    )
    max_designs: int | None = option(None, "budget: designs", metavar="N")
    max_minutes: float | None = option(
        None, "budget: minutes that trainings and answers take", metavar="MIN"
    )
    max_tokens: int | None = option(
        None, "budget: tokens read and written by the model", metavar="N"
    )
    max_usd: float | None = option(
        None, "budget: money for the model, at the prices given", metavar="USD"
    )
    usd_in: float = option(0.0, "price of a million tokens read by the model", metavar="USD")
    usd_out: float = option(0.0, "price of a million tokens written by it", metavar="USD")

    def __post_init__(self) -> None:
        check_values(self)
        if self.seal is not None:
            check_seal(self.seal)
        if fault := model_fault(self.llm):
            raise ConfigError(f"llm {fault}; put the key into the variable OPENAI_API_KEY")
        check_together(self)
        if self.budget_designs < 3:
            raise ConfigError(
                f"the budget buys {self.budget_designs} designs; a search needs 3 or more: "
                "raise iterations, parents, siblings or max_designs"
            )

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that may be designed."""
        known = MULTI if self.scenario == "multi" else SINGLE
        return tuple(name for name in known if self.imagine or name != "imagination")

    @property
    def book_agents(self) -> int:
        """Agents that trade in one simulated book."""
        return self.agents if self.scenario == "multi" else 1

    def fitting(self, bars: int) -> RunConfig:
        """The settings with those horizons alone that fit into a session of so many bars."""
        fitting = tuple(horizon for horizon in self.horizons if horizon <= bars)
        if not fitting and self.weights["static"]:
            raise ConfigError(
                f"horizons is {self.horizons}, but a session has {bars} bars; "
                f"use --horizon {bars} or less"
            )
        return replace(self, horizons=fitting or self.horizons)

    @property
    def rungs(self) -> Rungs:
        """The ladder that designs climb: screen, search, last."""
        return Rungs.of(self.work, seeds=self.seeds, episodes=self.episodes)

    @property
    def budget_designs(self) -> int:
        """Designs that may be proposed in all."""
        planned = self.iterations * self.parents * self.siblings
        return planned if self.max_designs is None else min(planned, self.max_designs)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each world in the score."""
        share = {"both": self.static_share, "static": 1.0, "dynamic": 0.0}[self.worlds]
        return {"static": share, "dynamic": 1.0 - share}

    @property
    def evolves(self) -> bool:
        """Whether designs have parents; controls that only sample start from the default."""
        return self.arm in ("full", "local", "frozen")

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked for anything."""
        return self.arm not in ("local", "random")

    @property
    def designer(self) -> str:
        """Who writes the designs."""
        return self.llm if self.asks_model else "no model"

    @property
    def levels(self) -> tuple[bool, bool]:
        """Whether prompts and weights are enhanced."""
        return self.arm == "full" and self.hle, self.arm == "full" and self.lle


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "iterations": 2,
        "parents": 1,
        "siblings": 2,
        "promoted": 1,
        "finalists": 1,
        "scored_days": 11,
        "work": 0.12,
        "seeds": (1, 1, 1),
        "horizons": (30, 15),
        "dynamic_horizons": (10, 5),
        "episodes": (20, 20, 20),
        "bank": 64,
        "samples": 1024,
    },
    "quick": {"work": 4.2, "scored_days": 60, "finalists": 1, "seeds": (1, 1, 6)},
    "standard": {
        "iterations": 4,
        "parents": 2,
        "siblings": 4,
        "finalists": 4,
        "work": 3.6,
        "seeds": (1, 2, 8),
        "episodes": (1000, 1000, 2000),
    },
    "paper": {
        "iterations": 50,
        "parents": 4,
        "siblings": 4,
        "finalists": 5,
        "seeds": (2, 3, 10),
        "work": 18.0,
        "episodes": (2000, 2000, 4000),
    },
}
"""`quick` takes minutes on two cores, `standard` is for tables, `paper` takes many hours.

`tiny` tests the machinery: its scores mean nothing.
"""


def preset(name: str, **changes: Any) -> RunConfig:
    """The settings of a preset, with changes."""
    if name not in PRESETS:
        raise ConfigError(f"preset {name!r} is unknown; use one of {', '.join(PRESETS)}")
    return replace(RunConfig(**PRESETS[name]), **changes)
