"""One call from a name or a frame to splits, features and windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from se_rl.data.features import PUBLIC_FIELDS
from se_rl.data.market_data import DataError
from se_rl.data.pipeline import FinancialDataPipeline
from se_rl.data.synthetic import SyntheticConfig, synthetic_market

DATA = synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=3, sessions=20, seed=7)
)


def test_splits_are_in_order_and_apart() -> None:
    prepared = FinancialDataPipeline().process_custom_data(DATA)
    splits = prepared.splits
    assert list(splits) == ["train", "valid", "test"]
    assert (
        splits["train"].dates.max()
        < splits["valid"].dates.min()
        < splits["valid"].dates.max()
        < splits["test"].dates.min()
    )
    assert prepared.features("valid").shape == (
        3,
        len(splits["valid"].dates),
        49,
        len(PUBLIC_FIELDS),
    )


def test_windows_are_torch_tensors_of_single_sessions() -> None:
    prepared = FinancialDataPipeline().process_custom_data(DATA)
    windows = prepared.windows("train", length=12)
    assert len(windows) == 3 * 12 * 4
    features, bars = next(iter(DataLoader(windows, batch_size=5)))
    assert features.shape == (5, 12, 28) and bars.shape == (5, 12, 5)
    assert features.dtype == bars.dtype == torch.float32
    assert bars[0, 0, 0] == 0.0
    expected = 1e4 * (DATA.close[0, 0, 12:24] / DATA.open[0, 0, 12] - 1)
    np.testing.assert_allclose(windows[1][1][:, 3].numpy(), expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(windows[1][0].numpy(), prepared.features("train")[0, 0, 12:24])
    with pytest.raises(IndexError):
        windows[len(windows)]
    with pytest.raises(DataError, match="window length 49"):
        prepared.windows("train", length=49)


def test_named_sets_are_synthetic_and_say_so_until_imported() -> None:
    csi, nasdaq = (
        FinancialDataPipeline().load_csi100_data(),
        FinancialDataPipeline().load_nasdaq100_data(),
    )
    assert csi.dataset.data.shape[0] == nasdaq.dataset.data.shape[0] == 100
    assert (csi.dataset.data.shape[2], nasdaq.dataset.data.shape[2]) == (240, 390)
    assert csi.dataset.data.provenance.synthetic and nasdaq.dataset.data.provenance.synthetic


def test_scales_come_from_train_days_only() -> None:
    from dataclasses import replace

    prepared = FinancialDataPipeline().process_custom_data(DATA)
    volume = DATA.volume.copy()
    volume[:, np.isin(DATA.dates, prepared.dataset.dates("test"))] *= 5
    other = FinancialDataPipeline().process_custom_data(replace(DATA, volume=volume, amount=None))
    np.testing.assert_array_equal(other.scales.volume_share, prepared.scales.volume_share)
    np.testing.assert_array_equal(other.scales.day_volume, prepared.scales.day_volume)
