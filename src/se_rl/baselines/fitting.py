"""What baselines learn on train days: feature scales, the volume profile, and the ridge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from se_rl.data.catalog import DataSet, load_train_days
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.ridge import XSRidge

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


def fit_on_train(dataset: DataSet, *, fit_on: Sequence[str] = ()) -> Fitted:
    """Fit scales and ridge on the train days of the set and of those named in `fit_on`."""
    train = _train_sets(dataset, fit_on)
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


def _train_sets(dataset: DataSet, fit_on: Sequence[str]) -> TrainSets:
    """The train days of the set and of the others, whose bars must be as long."""
    sets = [dataset] if dataset.has("train") else []
    for spec in fit_on:
        other = load_train_days(spec)
        if other.data.grid.bar_minutes != dataset.data.grid.bar_minutes:
            raise DataError(
                f"{spec} has bars of {other.data.grid.bar_minutes} minutes and {dataset.name} of "
                f"{dataset.data.grid.bar_minutes}; fit on bars of one length"
            )
        sets.append(other)
    train = []
    for one in sets:
        bars = one.split("train")
        train.append((bars, FeatureScales.fit(bars)))
    return tuple(train)


def _own_scales(dataset: DataSet, train: TrainSets) -> FeatureScales | None:
    """The set's own scales, else those of the last other set whose sessions are as long."""
    chosen = None
    for bars, scales in train:
        if bars.provenance.name == dataset.name:
            return scales
        if len(scales.volume_share) == len(dataset.data.grid):
            chosen = scales
    return chosen
