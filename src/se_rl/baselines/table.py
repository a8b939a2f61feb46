"""The table of baselines on a data set: who earns what over TWAP, with intervals, both sides, and the self-checks.

`run_baselines(config)` returns plain data (what `--json` prints); the terminal table and the page are drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.baselines import schedules
from se_rl.baselines.ridge import XSRidge
from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
from se_rl.config import to_dict
from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.task import Orders, order_pairs
from se_rl.scoring.checks import (
    BLOCKING_P,
    Check,
    bound_checks,
    collapse_check,
    identity_checks,
    no_edge_check,
    require,
)
from se_rl.scoring.order_scores import Panel, Score, log_price_advantage
from se_rl.scoring.statistics import clustered_mean, day_means, spa_p_value

if TYPE_CHECKING:  # torch is loaded only where something is learned
    from se_rl.baselines.learned import LearnedBaseline

KAPPAS = {"XS ridge": 2.0, "XS ridge (gentle)": 0.5}
MIRROR_BPS = 0.25
MIN_SYMBOLS = 5
MIN_TRAIN_SESSIONS = 3


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was learned on train days: scales, the ridge (None where it cannot be fitted, with the reason), and on what."""

    scales: FeatureScales | None
    ridge: XSRidge | None
    train: tuple[tuple[MarketData, FeatureScales], ...]
    notes: tuple[str, ...]


class BaselineTask:
    """One data set and its orders under the configured costs: every policy is scored on exactly the same."""

    def __init__(self, config: BaselinesConfig, data: MarketData, orders: Orders) -> None:
        self.config, self.data, self.orders = config, data, orders
        costs = Costs(
            half_spread_bps=config.half_spread_bps,
            fee_bps=config.fee_bps,
            max_participation=config.max_participation,
        )
        self.panel = Panel.of(data, orders, benchmark=config.benchmark)
        self._core = StaticCore(data, costs=costs)

    def score(self, name: str, weights: schedules.Array) -> Score:
        """Execute planned shares [order, step]."""
        return Score(
            name, self.panel, self._core.execute(self.orders, ratios_from_weights(weights))
        )

    def bound(self) -> Score:
        """The perfect-foresight bound under the configured cap."""
        caps = None
        if self.config.max_participation is not None:
            volume = self.orders.gather(self.data.require_volume("a participation cap"))
            caps = self.config.max_participation * volume / self.orders.quantity[:, None]
        return self.score(
            "foresight bound", schedules.foresight(self.orders, self.panel.price, max_shares=caps)
        )


def run_baselines(
    config: BaselinesConfig,
    *,
    learned: LearnedConfig | None = None,
    others: Callable[[BaselineTask, DataSet, Fitted], list[LearnedBaseline]] | None = None,
    per_order: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run every baseline on one set; raises CheckError instead of returning a table that breaks a self-check.

    `learned` also trains the default PPO, on history and in simulated markets; `others` brings policies of one's own.
    `per_order` adds the columns of every single order (numpy arrays) under that key, and the policies under `policies`.
    """
    dataset, trial = open_trial(config, say=say)
    data = dataset.data
    say(f"fitting on train days ({data.provenance.label})")
    fitted = fit_on_train(dataset)
    say(f"executing {len(trial.orders):,} orders")
    side_blind, tilted, forecast = _policies(trial, fitted)
    policies = _learned(trial, dataset, fitted, learned, say) if learned else []
    policies += others(trial, dataset, fitted) if others else []
    taught = [Score(policy.name, trial.panel, policy.record) for policy in policies]
    twap, scores, bound = side_blind[0], side_blind + tilted + taught, trial.bound()
    say("running the self-checks")
    capped = config.max_participation is not None
    rng = np.random.default_rng(config.seed)
    checks = identity_checks([*scores, bound], twap=twap, side_blind=side_blind, capped=capped)
    checks += bound_checks(scores, bound)
    checks += [] if capped else [collapse_check(score) for score in side_blind + tilted]
    noise = rng.exponential(size=(len(trial.orders), trial.orders.horizon))
    random = trial.score("random", noise / noise.sum(axis=1, keepdims=True))
    checks.append(no_edge_check("a random policy shows no edge", random, twap))
    if forecast is not None:
        checks += _ridge_checks(trial, fitted, forecast, honest=tilted[0], twap=twap, rng=rng)
    require(checks)
    checks += (
        [] if capped else [collapse_check(score) for score in taught]
    )  # a learner's own fault, for the reader to see
    results = results_table(config, dataset, fitted, [*scores, bound], checks)
    for policy in policies:
        results["methods"][policy.name] |= policy.seeds()
    if learned:
        results["learned"] = to_dict(learned)
        results["dynamic"] = simulated_tables(learned, say=say)
    if per_order:
        results |= {"per_order": order_columns([*scores, bound]), "policies": policies}
    return results


def open_trial(
    config: BaselinesConfig, *, say: Callable[[str], None] = lambda _: None
) -> tuple[DataSet, BaselineTask]:
    """The data set that a configuration names and its orders."""
    say(f"loading {config.data}")
    dataset = load_dataset(config.data)
    data = dataset.data
    horizon = None if config.horizon == "session" else config.horizon
    dates = dataset.dates(config.split)
    orders = order_pairs(data, horizon, dates=dates, start=config.start, quantity=config.quantity)
    if config.symbols:
        chosen = [data.symbol_index(symbol) for symbol in config.symbols]
        orders = orders.take(np.isin(orders.row // len(data.dates), chosen))
    return dataset, BaselineTask(config, data, orders)


def _learned(
    trial: BaselineTask,
    dataset: DataSet,
    fitted: Fitted,
    config: LearnedConfig,
    say: Callable[[str], None],
) -> list[LearnedBaseline]:
    """The default PPO trained on the train days and executing the trial's orders."""
    from se_rl.baselines.learned import learned_on_history

    if fitted.scales is None or not dataset.has("train"):
        raise DataError(
            f"{dataset.name} has no train days to learn on; leave --learned out or give more sessions"
        )
    if trial.config.max_participation is not None:
        raise DataError(
            "learned baselines trade without a cap; leave --max-participation or --learned out"
        )
    return learned_on_history(
        trial.data,
        trial.orders,
        fitted.scales,
        train_dates=dataset.dates("train"),
        config=config,
        half_spread_bps=trial.config.half_spread_bps,
        fee_bps=trial.config.fee_bps,
        say=say,
    )


def simulated_tables(
    config: LearnedConfig, *, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The learned policies in simulated markets beside TWAP and the best constant schedule, with and without limits."""
    from se_rl.baselines.learned import dynamic_rows

    kinds = {"market orders": False, "limit orders": True}
    return {
        kind: dynamic_rows(config, takes_price=takes_price, say=say)
        for kind, takes_price in kinds.items()
    }


def _policies(
    trial: BaselineTask, fitted: Fitted
) -> tuple[list[Score], list[Score], schedules.Array | None]:
    """The schedules that treat both sides alike (TWAP first), the ridge's tilted ones, and its forecast."""
    orders, data = trial.orders, trial.data
    side_blind = [trial.score("TWAP", schedules.twap(orders))]
    if fitted.scales is not None and data.volume is not None:
        side_blind.append(
            trial.score("VWAP", schedules.vwap(orders, fitted.scales.of(data).volume_share))
        )
    chriss = schedules.almgren_chriss(orders, urgency=trial.config.urgency)
    side_blind.append(trial.score("Almgren-Chriss", chriss))
    if fitted.ridge is None or fitted.scales is None:
        return side_blind, [], None
    forecast = fitted.ridge.forecast(data, fitted.scales)
    plans = {
        name: fitted.ridge.schedule(orders, forecast, kappa=kappa) for name, kappa in KAPPAS.items()
    }
    return side_blind, [trial.score(name, plan) for name, plan in plans.items()], forecast


def fit_on_train(dataset: DataSet) -> Fitted:
    """Fit scales and ridge on the train days of the set (and of the sets known to belong to it)."""
    companions = dataset.companions()
    train = []
    for companion in companions:
        bars = companion.split("train") if companion.has("train") else None
        if bars is not None and bars.grid.bar_minutes == dataset.data.grid.bar_minutes:
            train.append((bars, FeatureScales.fit(bars)))
    if not train:
        note = f"VWAP and XS ridge are left out: {dataset.name} has no train days ({len(dataset.data.dates)} sessions in all)"
        return Fitted(None, None, (), (note,))
    own = [scales for bars, scales in train if bars.provenance.name == dataset.name]
    fitting = [s for _, s in train if len(s.volume_share) == len(dataset.data.grid)]
    scales = own[0] if own else fitting[-1] if fitting else None
    smallest = (
        min(len(bars.symbols) for bars, _ in train),
        max(len(bars.dates) for bars, _ in train),
    )
    if scales is None or smallest[0] < MIN_SYMBOLS or smallest[1] < MIN_TRAIN_SESSIONS:
        needs = f"{MIN_SYMBOLS} symbols and {MIN_TRAIN_SESSIONS} train sessions"
        note = f"XS ridge is left out: it needs {needs}, got {smallest[0]} and {smallest[1]}"
        return Fitted(scales, None, tuple(train), (note,))
    return Fitted(scales, XSRidge.fit(train), tuple(train), ())


def _ridge_checks(
    trial: BaselineTask,
    fitted: Fitted,
    forecast: schedules.Array,
    *,
    honest: Score,
    twap: Score,
    rng: np.random.Generator,
) -> list[Check]:
    """Tests that a forecast policy must pass: shuffled, delayed, leaking and mirrored features."""
    ridge, scales, orders = fitted.ridge, fitted.scales, trial.orders
    assert ridge is not None and scales is not None
    shuffled = trial.score("shuffled", ridge.schedule(orders, rng.permuted(forecast, axis=0)))

    def shifted(shift: int) -> Score:
        refit = XSRidge.fit(fitted.train, shift=shift)
        return trial.score(
            "shifted", refit.schedule(orders, refit.forecast(trial.data, scales, shift=shift))
        )

    delayed = clustered_mean(shifted(1).pa() - honest.pa(), trial.panel.day)
    helps = delayed.mean > 0 and delayed.p_value < BLOCKING_P
    leak = float((shifted(-1).pa() - honest.pa()).mean())
    swapped = replace(orders, side=(-orders.side).astype(np.int8))
    image = BaselineTask(trial.config, mirrored(trial.data), swapped)
    reflection = image.score("mirror", ridge.schedule(swapped, ridge.forecast(image.data, scales)))
    gap = float(log_price_advantage(reflection).mean() - log_price_advantage(honest).mean())
    return [
        no_edge_check("shuffled features show no edge", shuffled, twap),
        Check(
            "features delayed by a bar do not help",
            not helps,
            f"{delayed.mean:+.3f} bps, SE {delayed.se:.3f}",
        ),
        Check(
            "features one bar early would help (the leak detector works)",
            leak > 0,
            f"{leak:+.3f} bps",
        ),
        Check(
            "mirrored prices and swapped sides give the same PA",
            abs(gap) <= MIRROR_BPS,
            f"{gap:+.3f} bps",
        ),
    ]


def mirrored(data: MarketData) -> MarketData:
    """The same market with negated log prices: every rise is a fall of the same size."""
    level = np.square(np.nanmean(data.open[..., 0], axis=1))[
        :, None, None
    ]  # one per symbol, so that gaps mirror too
    volume = data.volume
    return replace(
        data,
        open=level / data.open,
        high=level / data.low,
        low=level / data.high,
        close=level / data.close,
        amount=None if volume is None else np.where(volume > 0, volume * level / data.price, 0.0),
        bid=None if data.ask is None else level / data.ask,
        ask=None if data.bid is None else level / data.bid,
    )


def results_table(
    config: BaselinesConfig,
    dataset: DataSet,
    fitted: Fitted,
    scores: list[Score],
    checks: list[Check],
) -> dict[str, Any]:
    """Everything a reader needs to believe or reproduce the table, as plain data."""
    twap, bound, panel = scores[0], scores[-1], scores[0].panel
    data, policies = dataset.data, scores[1:-1]
    by_day = {s.name: day_means(s.pa(), panel.day) for s in scores}
    table = np.stack([by_day[s.name] for s in policies], axis=1)
    spa = {
        "policies": [s.name for s in policies],
        "over": "TWAP",
        "p_value": spa_p_value(by_day["TWAP"], table),
    }
    days = np.unique(panel.day)
    in_sample = fitted.ridge is not None and config.split in ("all", "train")
    notes = [*data.provenance.notes, *fitted.notes]
    notes += (
        ["VWAP and XS ridge were fitted on days that this split contains: their rows are in-sample"]
        if in_sample
        else []
    )
    return {
        "orders": len(panel.orders),
        "symbols": len(np.unique(panel.orders.row // len(data.dates))),
        "days": len(days),
        "horizon": panel.orders.horizon,
        "data": {
            "name": dataset.name,
            "synthetic": data.provenance.synthetic,
            "sha256": data.provenance.sha256,
            "split": config.split,
            "first_date": int(data.dates[days[0]]),
            "last_date": int(data.dates[days[-1]]),
            "bars_missing": float(1.0 - data.traded[data.has_session].mean()),
        },
        "benchmark": panel.benchmark,
        "costs": {
            "half_spread_bps": config.half_spread_bps,
            "fee_bps": config.fee_bps,
            "cap": config.max_participation,
        },
        "methods": {s.name: s.row(twap, bound=bound) for s in scores},
        "spa": spa,
        "ridge_fitted_on": list(fitted.ridge.fitted_on) if fitted.ridge else [],
        "checks": [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in checks],
        "notes": notes,
        "config": to_dict(config),
        "by_day": {"dates": data.dates[days].tolist()}
        | {name: values.tolist() for name, values in by_day.items()},
        "paths": {s.name: _mean_path(s) for s in scores},
    }


def order_columns(scores: list[Score]) -> dict[str, Any]:
    """One row per order: who and when, its benchmarks, and each method's prices, PA and leftover."""
    panel = scores[0].panel
    orders, data = panel.orders, panel.data
    columns: dict[str, Any] = {
        "symbol": np.array(data.symbols)[orders.row // len(data.dates)],
        "date": data.dates[panel.day],
        "start": orders.start,
        "side": orders.side,
        "twap": panel.benchmarks.twap,
        "arrival": panel.benchmarks.arrival,
    }
    if panel.benchmarks.vwap is not None:
        columns["vwap"] = panel.benchmarks.vwap
    for score in scores:
        record = score.record
        columns[f"{score.name}: gross price"], columns[f"{score.name}: net price"] = (
            record.gross_price,
            record.net_price,
        )
        columns[f"{score.name}: PA"], columns[f"{score.name}: leftover"] = (
            score.pa(),
            record.leftover,
        )
    return columns


def _mean_path(score: Score) -> dict[str, list[float]]:
    """Mean inventory left after each step, per side: what the policy does, for the chart."""
    left = 1.0 - np.cumsum(score.record.forced_fills, axis=1)
    side = score.panel.orders.side
    return {
        name: np.round(left[side == sign].mean(axis=0), 5).tolist()
        for name, sign in (("buy", -1), ("sell", 1))
    }
