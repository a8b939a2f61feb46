"""LLM4Imagine: batches of market windows, part real, part made from real ones by a designed function.

    imagine = LLM4Imagine(ImaginationConfig(imagination_ratio=0.5), llm_interface)
    batch, shares = imagine.get_mixed_batch(static_data, batch_size=256)

Whole windows are mixed, rows never leave their window. What a language model wrote runs in the sandbox alone, and what
comes back is checked like any stranger's bars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import PRICE_FIELDS, DataError
from se_rl.llm.backends import LlmError

if TYPE_CHECKING:
    from se_rl.sandbox.server import Sandbox

Bars = npt.NDArray[np.float64]
IN_SANDBOX = "se_rl.llm.imagination:imagine_in_sandbox"
SECONDS = 60.0


@dataclass(frozen=True)
class ImaginationConfig:
    """How much is imagined, in how many independent draws of the imagination a batch, and in windows of how many bars."""

    imagination_ratio: float = 0.5
    num_scenarios: int = 10
    scenario_length: int = 100

    def __post_init__(self) -> None:
        if not 0.0 <= self.imagination_ratio <= 1.0:
            raise DataError(
                f"imagination_ratio is {self.imagination_ratio}; give a number from 0 to 1"
            )
        if self.num_scenarios < 1 or self.scenario_length < 2:
            seen = f"num_scenarios is {self.num_scenarios}, scenario_length {self.scenario_length}"
            raise DataError(f"{seen}; give at least 1 scenario and 2 bars")


class LLM4Imagine:
    """Mixes real windows with imagined ones.

    `llm_interface` designs the function that imagines: an `LLMComponentGenerator`, a `Designer` or a model's name; None takes
    the hand-written one. `source` is a design that there is already. `sandbox` is by default the validators' own.
    """

    def __init__(
        self,
        config: ImaginationConfig | None = None,
        llm_interface: Any = None,
        *,
        source: str | None = None,
        sandbox: Sandbox | None = None,
        seed: int = 0,
    ) -> None:
        self.config = config or ImaginationConfig()
        self._interface, self._source, self._sandbox = llm_interface, source, sandbox
        self._rng = np.random.default_rng(seed)

    @property
    def source(self) -> str | None:
        """The designed module, asked for when it is first needed; None where the hand-written one is used."""
        if self._source is None and self._interface is not None:
            self._source = _component_generator(self._interface).generate_imagination_module()
        return self._source

    def get_mixed_batch(self, static_data: Any, batch_size: int) -> tuple[Any, dict[str, float]]:
        """Windows [batch_size, scenario_length, 5] in random order, and which shares of them are real and imagined.

        `static_data`: a pandas OHLCV frame, MarketData, or bars [.., T, 5] as an array or a tensor; a window stays within
        one session. A tensor brings a tensor of its kind, everything else an array of floats.
        """
        if batch_size < 1:
            raise DataError(f"batch_size is {batch_size}; give at least 1")
        paths = _paths(static_data, self.config.scenario_length)
        imagined = round(self.config.imagination_ratio * batch_size)
        windows = self._windows(paths, batch_size)
        if imagined:
            windows[:imagined] = self._imagined(windows[:imagined])
        batch: Any = windows[self._rng.permutation(batch_size)]
        if hasattr(static_data, "new_tensor"):
            batch = static_data.new_tensor(batch)
        share = imagined / batch_size
        return batch, {"static_ratio": 1.0 - share, "imagined_ratio": share}

    def _windows(self, paths: Bars, count: int) -> Bars:
        length = self.config.scenario_length
        path = self._rng.integers(len(paths), size=count)
        start = self._rng.integers(paths.shape[1] - length + 1, size=count)
        return paths[path[:, None], start[:, None] + np.arange(length)]

    def _imagined(self, windows: Bars) -> Bars:
        """Imagined windows, in as many groups as there are scenarios, each from one draw."""
        ends = np.unique(
            np.linspace(0, len(windows), self.config.num_scenarios + 1).astype(np.int64)[1:]
        )
        payload = {
            "bars": windows,
            "ends": ends,
            "seeds": self._rng.integers(2**62, size=len(ends)),
        }
        if self.source is None:
            from se_rl.modules import defaults

            return _made(defaults.imagine, payload)
        from se_rl.llm.code_validator import shared_sandbox

        sandbox = self._sandbox or shared_sandbox()
        made = sandbox.call(
            IN_SANDBOX,
            payload | {"source": self.source.encode()},
            seconds=SECONDS,
            result_bytes=windows.nbytes + (1 << 16),
        )
        wrong = made.error if not made.ok else _fault(made.value.get("bars"), windows.shape)
        if wrong:
            raise LlmError(
                f"the designed imagination failed on these bars ({wrong}); give another source or none"
            )
        return made.value["bars"]


def imagine_in_sandbox(payload: dict[str, Any]) -> dict[str, Any]:
    """Imagine with a design; call it inside a locked process only, where all it needs has been imported."""
    from se_rl.modules.loading import load_module

    return {"bars": _made(load_module(payload["source"].decode(), "imagination"), payload)}


def _made(imagine: Any, payload: dict[str, Any]) -> Bars:
    """Groups of windows, each imagined with a generator of its own."""
    import torch

    groups = np.split(payload["bars"], payload["ends"][:-1])
    made = [
        imagine(torch.from_numpy(group.copy()), torch.Generator().manual_seed(int(seed)))
        for group, seed in zip(groups, payload["seeds"], strict=True)
    ]
    return torch.cat(made).double().numpy()


def _component_generator(interface: Any) -> Any:
    if hasattr(interface, "generate_imagination_module"):
        return interface
    from se_rl.llm.generator import LLMComponentGenerator

    return LLMComponentGenerator(interface)


def _paths(data: Any, length: int) -> Bars:
    """Real sessions as bars [path, bar, 5], checked, each long enough for a window."""
    if hasattr(data, "detach"):
        data = data.detach().cpu().numpy()
    bars = _of_arrays(data) if isinstance(data, np.ndarray) else _of_sessions(data)
    if bars.shape[1] < length:
        raise DataError(
            f"sessions have {bars.shape[1]} bars and scenario_length is {length}; make it smaller"
        )
    return bars


def _of_arrays(data: npt.NDArray[Any]) -> Bars:
    if data.ndim < 2 or data.shape[-1] != 5 or not data.size:
        raise DataError(
            f"static_data has shape {data.shape}; give [.., T, 5]: open, high, low, close, volume"
        )
    bars = data.reshape(-1, *data.shape[-2:]).astype(np.float64)
    if fault := _fault(bars, bars.shape):
        raise DataError(f"static_data is not a set of bars: {fault}; mend them or leave them out")
    return bars


def _of_sessions(data: Any) -> Bars:
    from se_rl.environments.execution_env import as_market_data

    market = as_market_data(data)
    volume = np.zeros(market.shape) if market.volume is None else market.volume
    bars = np.stack([*(getattr(market, name) for name in PRICE_FIELDS), volume], axis=-1)
    return np.asarray(bars[market.has_session], np.float64)


def _fault(bars: Any, shape: tuple[int, ...]) -> str:
    """What is wrong with bars that came from outside, in one line; "" where nothing is."""
    if not isinstance(bars, np.ndarray) or bars.dtype != np.float64 or bars.shape != shape:
        return f"no float64 bars of shape {shape}"
    open_, high, low, close, volume = np.moveaxis(bars, -1, 0)
    slack = 1e-6 * np.abs(close)  # bars in float32 are bars too
    wrong = {
        "is not finite": ~np.isfinite(bars).all(axis=-1),
        "has a price that is not positive": ~(bars[..., :4] > 0).all(axis=-1),
        "has negative volume": ~(volume >= 0),
        "is not low <= open, close <= high": (np.minimum(open_, close) < low - slack)
        | (np.maximum(open_, close) > high + slack),
    }
    for what, where in wrong.items():
        if where.any():
            path, bar = np.argwhere(where)[0]
            return f"bar {bar} of path {path} {what}: {bars[path, bar].tolist()}"
    return ""
