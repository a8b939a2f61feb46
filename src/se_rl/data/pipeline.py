"""`FinancialDataPipeline`: from a set's name or a user's own bars to splits, features and PyTorch
windows in one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.features import FeatureScales, observation_table
from se_rl.data.frames import bars_from_frame
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.readers import ReadOptions

if TYPE_CHECKING:
    from torch.utils.data import Dataset

BAR_COLUMNS = ("open", "high", "low", "close", "volume")


@dataclass(frozen=True, eq=False)
class PreparedData:
    """One set, split by date, with scales fitted on its train days."""

    dataset: DataSet

    @cached_property
    def scales(self) -> FeatureScales:
        """Typical sizes and the volume profile, from train days only."""
        return FeatureScales.fit(self.dataset.split("train"))

    @cached_property
    def _observations(self) -> npt.NDArray[np.float32]:
        data = self.dataset.data
        return observation_table(data, self.scales).reshape(*data.shape[:2], len(data.grid) + 1, -1)

    @property
    def splits(self) -> dict[str, MarketData]:
        """The bars of train, valid and test."""
        return {name: self.dataset.split(name) for name in ("train", "valid", "test")}

    def features(self, split: str) -> npt.NDArray[np.float32]:
        """Public observation fields [symbol, session, bar + 1, field] of a split; index t is known
        when bar t opens."""
        return self._observations[:, np.isin(self.dataset.data.dates, self.dataset.dates(split))]

    def windows(self, split: str, *, length: int = 60, stride: int | None = None) -> Dataset[Any]:
        """Windows inside single sessions as a PyTorch dataset of (features [length, 30], bars
        [length, 5]), float32.

        Bars are OHLC in bps of the window's first open and volume over the symbol's mean bar volume
        in train.
        """
        data = self.dataset.split(split)
        if not 1 <= length <= len(data.grid):
            raise DataError(
                f"window length {length} does not fit a session of {len(data.grid)} bars; "
                f"use 1 to {len(data.grid)}"
            )
        return _torch_windows(
            data, self.features(split), self.scales.of(data), length, stride or length
        )


class FinancialDataPipeline:
    """Loads a set by name or by file; `csi100` and `nasdaq100` are the user's imported sets, else
    synthetic ones."""

    def load_csi100_data(self) -> PreparedData:
        """100 Chinese names on the Shanghai calendar."""
        return PreparedData(load_dataset("csi100"))

    def load_nasdaq100_data(self) -> PreparedData:
        """100 US names on the New York calendar."""
        return PreparedData(load_dataset("nasdaq100"))

    def process_custom_data(self, source: Any, options: ReadOptions | None = None) -> PreparedData:
        """The user's own bars: a path, a pandas frame, or MarketData."""
        if isinstance(source, MarketData):
            return PreparedData(DataSet(source))
        if isinstance(source, (str, Path)):
            return PreparedData(load_dataset(str(source), options))
        return PreparedData(DataSet(bars_from_frame(source, options or ReadOptions())))


def _torch_windows(
    data: MarketData,
    features: npt.NDArray[np.float32],
    scales: FeatureScales,
    length: int,
    stride: int,
) -> Dataset[Any]:
    import torch
    from torch.utils.data import Dataset

    symbol, session = np.nonzero(data.has_session)
    starts = np.arange(0, len(data.grid) - length + 1, stride)
    bar_volume = np.maximum(scales.day_volume / len(data.grid), 1e-12)

    class Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
        def __len__(self) -> int:
            return len(symbol) * len(starts)

        def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
            if not -len(self) <= index < len(self):
                raise IndexError(f"window {index} of {len(self)}")
            row, window = divmod(index % len(self), len(starts))
            where = symbol[row], session[row], slice(starts[window], starts[window] + length)
            first = data.open[where][0]
            bars = [1e4 * (getattr(data, name)[where] / first - 1.0) for name in BAR_COLUMNS[:4]]
            bars.append(
                np.zeros(length)
                if data.volume is None
                else data.volume[where] / bar_volume[symbol[row]]
            )
            return torch.from_numpy(features[where]), torch.from_numpy(
                np.stack(bars, axis=1).astype(np.float32)
            )

    return Windows()
