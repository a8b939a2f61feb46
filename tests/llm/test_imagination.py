"""Mixed batches of windows, and designed imagination behind the lock."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch

from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.llm.backends import LlmError
from se_rl.llm.imagination import ImaginationConfig, LLM4Imagine
from se_rl.modules.kinds import KINDS

MIRROR = """def imagine(bars, generator):
    start = bars[:, :1, :1]
    prices = start * start / bars[..., :4]
    return torch.stack([prices[..., 0], prices[..., 2], prices[..., 1], prices[..., 3], bars[..., 4]], -1)
"""


def _bars(paths: int = 3, steps: int = 300, seed: int = 0) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    ticks = 50.0 * np.exp(
        0.001 * rng.standard_normal((paths, steps, 8)).reshape(paths, -1).cumsum(1)
    )
    ticks = ticks.reshape(paths, steps, 8)
    volume = rng.integers(1, 1000, (paths, steps)).astype(float)
    return np.stack([ticks[..., 0], ticks.max(-1), ticks.min(-1), ticks[..., -1], volume], -1)


def _frame(bars: npt.NDArray[np.float64]) -> pd.DataFrame:
    index = pd.date_range("2024-01-02 00:00", periods=len(bars), freq="1min")
    return pd.DataFrame(bars, columns=["open", "high", "low", "close", "volume"], index=index)


def _is_real(
    batch: npt.NDArray[np.float64], bars: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Which windows stand in the bars, bar by bar in their order."""
    length = batch.shape[1]
    known = {path[i : i + length].tobytes() for path in bars for i in range(len(path) - length + 1)}
    return np.array([window.tobytes() in known for window in batch])


def test_the_seeds_example() -> None:
    bars = _bars(paths=1, steps=600)
    config = ImaginationConfig(imagination_ratio=0.5, num_scenarios=10, scenario_length=100)
    mixed_batch, metadata = LLM4Imagine(config, None).get_mixed_batch(
        _frame(bars[0]), batch_size=256
    )
    assert metadata == {"static_ratio": 0.5, "imagined_ratio": 0.5}
    assert mixed_batch.shape == (256, 100, 5) and np.isfinite(mixed_batch).all()
    real = _is_real(mixed_batch, bars)
    assert real.sum() == 128 and 0 < real[:128].sum() < 128, "whole windows, in random order"


@pytest.mark.parametrize(
    "ratio, size, imagined", [(0.0, 7, 0), (1.0, 7, 7), (0.5, 7, 4), (0.25, 8, 2), (0.5, 1, 0)]
)
def test_shares_are_those_of_the_batch(ratio: float, size: int, imagined: int) -> None:
    bars = _bars()
    batch, shares = LLM4Imagine(ImaginationConfig(ratio, scenario_length=50)).get_mixed_batch(
        bars, size
    )
    assert (~_is_real(batch, bars)).sum() == imagined
    assert shares == pytest.approx(
        {"static_ratio": 1 - imagined / size, "imagined_ratio": imagined / size}
    )


def test_same_seed_same_batches() -> None:
    first, second, other = (LLM4Imagine(seed=seed) for seed in (3, 3, 4))
    for _ in range(2):
        one, two, three = (
            imagine.get_mixed_batch(_bars(), 16)[0] for imagine in (first, second, other)
        )
        assert np.array_equal(one, two) and not np.array_equal(one, three)


def test_scenarios_are_draws_of_their_own() -> None:
    """The hand-written function mirrors all paths of a draw or none: one scenario has one sign, ten have both."""
    rising = _bars(paths=1, steps=50)
    rising[..., :4] = np.linspace(50.0, 55.0, 50)[:, None]
    kinds = {}
    for scenarios in (1, 10):
        config = ImaginationConfig(1.0, num_scenarios=scenarios, scenario_length=50)
        batch = LLM4Imagine(config, seed=1).get_mixed_batch(rising, 64)[0]
        kinds[scenarios] = len(set(np.sign(batch[:, -1, 3] - batch[:, 0, 0])))
    assert kinds == {1: 1, 10: 2}


def test_tensors_market_data_and_more_axes() -> None:
    tensor = torch.tensor(_bars(), dtype=torch.float32).reshape(3, 1, 300, 5)
    batch, _ = LLM4Imagine().get_mixed_batch(tensor, 6)
    assert (
        isinstance(batch, torch.Tensor)
        and batch.dtype == torch.float32
        and batch.shape == (6, 100, 5)
    )
    market = synthetic_market(SyntheticConfig(symbols=2, sessions=2))
    assert LLM4Imagine().get_mixed_batch(market, 6)[0].shape == (6, 100, 5)
    flat, _ = LLM4Imagine().get_mixed_batch(_bars()[0], 6)
    assert flat.shape == (6, 100, 5)


def test_a_design_runs_behind_the_lock() -> None:
    bars = _bars()
    config = ImaginationConfig(1.0, num_scenarios=3, scenario_length=60)
    batch, _ = LLM4Imagine(config, source=MIRROR, seed=5).get_mixed_batch(bars, 8)
    assert not _is_real(batch, bars).any()
    back = batch[:, :1, :1] ** 2 / batch[..., 3:4]
    closes = np.concatenate(
        [np.lib.stride_tricks.sliding_window_view(path[:, 3], 60) for path in bars]
    )
    gaps = np.abs(closes[:, None] - back[None, :, :, 0]).max(-1).min(0)
    assert gaps.max() < 1e-9, "mirrored twice, each window is a real one again"


def test_the_interface_is_asked_once_for_a_design() -> None:
    class Interface:
        asked = 0

        def generate_imagination_module(self) -> str:
            self.asked += 1
            return KINDS["imagination"].contract.examples[0]

    interface = Interface()
    imagine = LLM4Imagine(ImaginationConfig(0.5, scenario_length=20), interface)
    assert interface.asked == 0
    for _ in range(2):
        batch, _ = imagine.get_mixed_batch(_bars(), 4)
        assert (~_is_real(batch, _bars())).sum() == 2
    assert interface.asked == 1 and imagine.source == KINDS["imagination"].contract.examples[0]
    with pytest.raises(LlmError, match="se-rl llm pull smollm2"):
        LLM4Imagine(None, "smollm2").get_mixed_batch(_bars(), 4)


@pytest.mark.parametrize(
    "body, said",
    [
        ("return bars[:, :5]", "no float64 bars of shape"),
        ("return -bars", "has a price that is not positive"),
        ("return bars * float('nan')", "is not finite"),
        ("return bars[..., [0, 2, 1, 3, 4]]", "is not low <= open, close <= high"),
        ("return bars.missing", "AttributeError"),
        ("return open('/etc/passwd').read()", "NameError"),
    ],
)
def test_bad_designs_end_in_one_line(body: str, said: str) -> None:
    imagine = LLM4Imagine(
        ImaginationConfig(1.0), source=f"def imagine(bars, generator):\n    {body}\n"
    )
    with pytest.raises(LlmError, match="the designed imagination failed") as error:
        imagine.get_mixed_batch(_bars(), 2)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "data, said",
    [
        (np.ones((10, 4)), r"shape \(10, 4\); give \[.., T, 5\]"),
        (_bars(steps=40), "40 bars and scenario_length is 100"),
        (-_bars(), "not positive"),
        (np.full((200, 5), np.nan), "not finite"),
    ],
)
def test_bad_data_is_refused(data: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        LLM4Imagine().get_mixed_batch(data, 4)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(DataError, match=r"imagination_ratio is 1.5"):
        ImaginationConfig(1.5)
    with pytest.raises(DataError, match="num_scenarios is 0"):
        ImaginationConfig(num_scenarios=0)
    with pytest.raises(DataError, match="batch_size is 0"):
        LLM4Imagine().get_mixed_batch(_bars(), 0)
