"""What a policy was trained on and for: a policy file carries it, so that the policy can be used.

An observation is measured against the scales of the train days and lies on the session grid of
their bars; without both, the same bars would look different to the policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from se_rl.data.calendar import LABELS, TIME_ZONES, SessionGrid
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.costs import Costs
from se_rl.records.plain import RecordError

MOST_HORIZON = 1441
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class TrainedScales:
    """`FeatureScales` as a file holds them: one number per symbol, `volume_share` one per bar."""

    symbols: tuple[str, ...]
    variance: Numbers
    day_volume: Numbers
    spread_bps: Numbers
    best_size: Numbers
    volume_share: Numbers

    def __post_init__(self) -> None:
        for name in ("variance", "day_volume", "spread_bps", "best_size"):
            if len(getattr(self, name)) != len(self.symbols) or not self.symbols:
                raise RecordError(f"scales.{name} does not have one number for each symbol")
        for name in ("variance", "day_volume", "spread_bps", "best_size", "volume_share"):
            values = np.array(getattr(self, name))
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise RecordError(f"scales.{name} holds numbers that are no sizes")

    @classmethod
    def of(cls, scales: FeatureScales) -> TrainedScales:
        """The same numbers as plain tuples."""
        return cls(
            symbols=scales.symbols,
            variance=tuple(scales.variance.tolist()),
            day_volume=tuple(scales.day_volume.tolist()),
            spread_bps=tuple(scales.spread_bps.tolist()),
            best_size=tuple(scales.best_size.tolist()),
            volume_share=tuple(scales.volume_share.tolist()),
        )

    def feature_scales(self) -> FeatureScales:
        """The scales that features are made with."""
        return FeatureScales(
            symbols=self.symbols,
            variance=np.array(self.variance),
            day_volume=np.array(self.day_volume),
            spread_bps=np.array(self.spread_bps),
            best_size=np.array(self.best_size),
            volume_share=np.array(self.volume_share),
        )


@dataclass(frozen=True)
class TrainedBars:
    """The train days' bars: where they come from and the grid that they lie on."""

    name: str
    sha256: str
    synthetic: bool
    first_date: int
    last_date: int
    exchange: str
    bar_minutes: int
    bar_label: str
    minutes: tuple[int, ...]
    has_volume: bool

    def __post_init__(self) -> None:
        if self.exchange not in TIME_ZONES or self.bar_label not in LABELS:
            raise RecordError(f"bars of {self.exchange!r} labelled {self.bar_label!r} are unknown")
        labels = np.array(self.minutes)
        if (
            not len(labels)
            or labels.min() < 0
            or labels.max() > 1440
            or (np.diff(labels) < 1).any()
        ):
            raise RecordError("bars.minutes are no minutes of one day, in order")
        if self.bar_minutes < 1:
            raise RecordError(f"bars.bar_minutes is {self.bar_minutes}")

    @classmethod
    def of(cls, train: MarketData, *, sha256: str) -> TrainedBars:
        """The facts of these train days."""
        return cls(
            name=train.provenance.name,
            sha256=sha256,
            synthetic=train.provenance.synthetic,
            first_date=int(train.dates[0]),
            last_date=int(train.dates[-1]),
            exchange=train.grid.exchange,
            bar_minutes=train.grid.bar_minutes,
            bar_label=train.grid.label,
            minutes=tuple(int(minute) for minute in train.grid.minutes),
            has_volume=train.volume is not None,
        )

    @property
    def grid(self) -> SessionGrid:
        """The session grid."""
        return SessionGrid(self.exchange, self.bar_minutes, self.bar_label, self.minutes)


@dataclass(frozen=True)
class PolicyOrigin:
    """Bars, scales, costs and orders that a policy was trained with.

    `horizons` are the bars of its orders on history, `dynamic_horizons` the steps of simulated
    ones; `sizes` are the least and the most of an order as a share of the usual volume.
    """

    bars: TrainedBars
    scales: TrainedScales
    costs: Costs
    horizons: tuple[int, ...]
    dynamic_horizons: tuple[int, ...]
    sizes: tuple[float, float]

    def __post_init__(self) -> None:
        if len(self.scales.volume_share) != len(self.bars.minutes):
            raise RecordError("scales.volume_share does not have one number for each bar")
        for name in ("horizons", "dynamic_horizons"):
            lengths = getattr(self, name)
            if not lengths or min(lengths) < 1 or max(lengths) > MOST_HORIZON:
                raise RecordError(f"{name} are no lengths of orders")

    def differences(self, grid: SessionGrid, *, horizon: int, world: str = "static") -> list[str]:
        """How the bars and the length of an order differ from those of the training, in words."""
        found = []
        if grid.bar_minutes != self.bars.bar_minutes:
            found.append(
                f"bars of {grid.bar_minutes} min, but the policy was trained on bars of "
                f"{self.bars.bar_minutes} min"
            )
        trained = self.horizons if world == "static" else self.dynamic_horizons
        if horizon not in trained:
            lengths = ", ".join(map(str, trained))
            found.append(f"an order of {horizon} bars, but the policy was trained on {lengths}")
        return found

    def scales_on(self, grid: SessionGrid) -> FeatureScales:
        """The scales for bars of another length: the same day, cut into more or fewer parts."""
        scales = self.scales.feature_scales()
        bars, trained = len(grid), len(self.bars.minutes)
        if bars == trained:
            return scales
        # share of the day's volume before each bar's edge, taken as even inside a bar
        known = np.concatenate([[0.0], np.cumsum(scales.volume_share)])
        before = np.interp(
            np.linspace(0.0, 1.0, bars + 1), np.linspace(0.0, 1.0, trained + 1), known
        )
        return FeatureScales(
            symbols=scales.symbols,
            variance=scales.variance * (grid.bar_minutes / self.bars.bar_minutes),
            day_volume=scales.day_volume,
            spread_bps=scales.spread_bps,
            best_size=scales.best_size,
            volume_share=np.diff(before),
        )
