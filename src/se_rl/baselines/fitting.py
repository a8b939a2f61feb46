"""What baselines learn on train days: feature scales, the volume profile, and the ridge."""

from __future__ import annotations

from dataclasses import dataclass

from se_rl.baselines.ridge import XSRidge
from se_rl.data.catalog import DataSet
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData

MIN_SYMBOLS = 5
MIN_TRAIN_SESSIONS = 3
TrainSets = tuple[tuple[MarketData, FeatureScales], ...]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Scales and ridge; None where they cannot be fitted, for the reason in the notes."""

    scales: FeatureScales | None
    ridge: XSRidge | None
    train: TrainSets
    notes: tuple[str, ...]


def fit_on_train(dataset: DataSet) -> Fitted:
    """Fit scales and ridge on the train days of the set and of the sets known to belong to it."""
    train = _train_sets(dataset)
    if not train:
        sessions = len(dataset.data.dates)
        note = (
            f"VWAP and XS ridge are left out: {dataset.name} has no train days"
            f" ({sessions} sessions in all)"
        )
        return Fitted(None, None, (), (note,))
    scales = _own_scales(dataset, train)
    symbols = min(len(bars.symbols) for bars, _ in train)
    sessions = max(len(bars.dates) for bars, _ in train)
    if scales is None or symbols < MIN_SYMBOLS or sessions < MIN_TRAIN_SESSIONS:
        needs = f"{MIN_SYMBOLS} symbols and {MIN_TRAIN_SESSIONS} train sessions"
        note = f"XS ridge is left out: it needs {needs}, got {symbols} and {sessions}"
        return Fitted(scales, None, train, (note,))
    return Fitted(scales, XSRidge.fit(train), train, ())


def _train_sets(dataset: DataSet) -> TrainSets:
    """The train days of the set and its companions that have bars of the same length."""
    train = []
    for companion in dataset.companions():
        bars = companion.split("train") if companion.has("train") else None
        if bars is not None and bars.grid.bar_minutes == dataset.data.grid.bar_minutes:
            train.append((bars, FeatureScales.fit(bars)))
    return tuple(train)


def _own_scales(dataset: DataSet, train: TrainSets) -> FeatureScales | None:
    """The set's own scales, else those of the last companion whose sessions are as long."""
    chosen = None
    for bars, scales in train:
        if bars.provenance.name == dataset.name:
            return scales
        if len(scales.volume_share) == len(dataset.data.grid):
            chosen = scales
    return chosen
