"""Settings of the baselines table, apart from its code so that `se-rl --help` stays light."""

from __future__ import annotations

from typing import Literal

from se_rl.config import option, settings
from se_rl.records.settings import RISK

SPLITS = ("all", "train", "valid", "test")
BENCHMARKS = ("vwap", "twap", "arrival")
FILL_MODELS = ("price_taker", "limit_on_bars", "queue")


@settings
class BaselinesConfig:
    """What `se-rl baselines` runs on."""

    data: str = option(
        "nasdaq100",
        "file, imported set, or csi100 / nasdaq100 (synthetic unless imported)",
        metavar="PATH|NAME",
    )
    split: Literal["all", "train", "valid", "test"] = option(
        "test", "which dates to execute on", choices=SPLITS
    )
    seal: str | None = option(
        None,
        "synthetic sets: the seal that days after the train days follow from "
        "(none: the evaluated run's own, else public practice days)",
        metavar="TEXT",
    )
    scored_days: int | None = option(
        None,
        "synthetic sets: days of the valid and of the test split, each "
        "(none: the evaluated run's own, else the set's)",
        metavar="N",
    )
    train_until: str | None = option(
        None, "last train day (none: as the set says, else by share)", metavar="DATE"
    )
    valid_until: str | None = option(None, "last valid day; test days follow", metavar="DATE")
    fit_on: tuple[str, ...] = option(
        (), "sets whose days until a date are fitted on too, each as SET@DATE", metavar="SET@DATE"
    )
    symbols: tuple[str, ...] = option((), "execute for these symbols only", metavar="SYMBOL")
    horizon: int | Literal["session"] = option(
        240, "bars an order may take, or 'session'", metavar="N|session"
    )
    start: int = option(
        0, "first bar of the first window; later windows follow without a gap", metavar="BAR"
    )
    benchmark: Literal["vwap", "twap", "arrival"] = option(
        "vwap", "what the primary PA is measured against", choices=BENCHMARKS
    )
    quantity: float = option(
        10_000.0, "shares per order (matters only with a cap)", metavar="SHARES"
    )
    half_spread_bps: float = option(0.0, "half-spread paid on every fill", metavar="BPS")
    fee_bps: float = option(0.0, "fee on every fill", metavar="BPS")
    max_participation: float | None = option(
        None, "cap: share of a bar's volume an order may take", metavar="SHARE"
    )
    fill_model: Literal["price_taker", "limit_on_bars", "queue"] = option(
        "price_taker", "how orders are filled on history", choices=FILL_MODELS
    )
    risk: float = option(
        RISK, "price of risk: the score loses half of it times the daily variance", metavar="R"
    )
    urgency: float = option(2.0, "kT of the Almgren-Chriss schedule", metavar="KT")
    seed: int = option(0, "seed of the random policies in the self-checks", metavar="N")


@settings
class LearnedConfig:
    """How the learned baselines are trained."""

    budget: float = option(
        6.0, "work units per training: about seconds of one core", metavar="WORK"
    )
    seeds: int = option(3, "trainings per row", metavar="N")
    participation: float = option(
        0.10, "simulated markets: the order's share of the usual volume", metavar="SHARE"
    )
    dynamic_horizon: int = option(40, "simulated markets: steps an order may take", metavar="N")
    fresh_orders: int = option(2000, "simulated markets: orders to score on", metavar="N")
