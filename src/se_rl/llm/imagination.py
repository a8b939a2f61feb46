"""LLM4Imagine: batches of market windows, some real, some made from real ones by a function.

    imagine = LLM4Imagine(ImaginationConfig(imagination_ratio=0.5), llm_interface)
    batch, shares = imagine.get_mixed_batch(static_data, batch_size=256)

Whole windows are mixed, rows never leave their window. What a language model wrote runs only in the
sandbox, and what comes back is checked like any stranger's bars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from se_rl.data.bar_faults import FaultKind, bar_fault
from se_rl.data.market_data import PRICE_FIELDS, DataError
from se_rl.llm.backends import LlmError
from se_rl.sandbox.message import Content

if TYPE_CHECKING:
    from se_rl.sandbox.server import Sandbox

Bars = npt.NDArray[np.float64]
"""[window, bar, 5]: open, high, low, close, volume."""
IN_SANDBOX = "se_rl.llm.imagination:imagine_in_sandbox"
SECONDS = 60.0
"""How long a designed imagination may take for a batch."""
LARGEST = 1e15
"""No price or volume is larger."""
SLACK = 1e-6
"""Share of the close by which a bar's range may be off: bars in float32 are bars too."""
_WORDS: dict[FaultKind, str] = {
    "not finite": "is not finite",
    "price": "has a price that is not positive",
    "volume": "has negative volume",
    "range": "is not low <= open, close <= high",
}


@runtime_checkable
class ImaginationWriter(Protocol):
    """What writes an imagination: an `LLMComponentGenerator`, or an object of your own."""

    def generate_imagination_module(self) -> str:
        """Source of `def imagine(bars, generator)`."""
        ...


@dataclass(frozen=True)
class ImaginationConfig:
    """The share of imagined windows, the independent draws a batch, and the bars of a window."""

    imagination_ratio: float = 0.5
    num_scenarios: int = 10
    scenario_length: int = 100

    def __post_init__(self) -> None:
        if not 0.0 <= self.imagination_ratio <= 1.0:
            raise DataError(
                f"imagination_ratio is {self.imagination_ratio}; give a number from 0 to 1"
            )
        if self.num_scenarios < 1 or self.scenario_length < 2:
            raise DataError(
                f"num_scenarios is {self.num_scenarios}, scenario_length {self.scenario_length};"
                " give at least 1 scenario and 2 bars"
            )


class LLM4Imagine:
    """Mixes real windows with imagined ones.

    `llm_interface` designs the function that imagines: an `ImaginationWriter`, a `Designer`, an
    object with `generate(prompt)` or a model's name; None takes the hand-written function. `source`
    is a design that exists already. `sandbox` is by default the one that validators use.
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
        self._interface = llm_interface
        self._source = source
        self._sandbox = sandbox
        self._rng = np.random.default_rng(seed)

    @property
    def source(self) -> str | None:
        """The designed module, asked for when first needed; None: the hand-written one is used."""
        if self._source is None and self._interface is not None:
            self._source = _writer(self._interface).generate_imagination_module()
        return self._source

    def get_mixed_batch(self, static_data: Any, batch_size: int) -> tuple[Any, dict[str, float]]:
        """Windows [batch_size, scenario_length, 5] in random order, and the shares of both kinds.

        `static_data` is a pandas OHLCV frame, MarketData, or bars [.., T, 5] as an array or a
        tensor; a window stays within one session. A tensor brings a tensor of its kind, everything
        else an array of floats.
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
        borders = np.linspace(0, len(windows), self.config.num_scenarios + 1)
        ends = np.unique(borders.astype(np.int64)[1:])
        seeds = self._rng.integers(2**62, size=len(ends))
        payload = {"bars": windows, "ends": ends, "seeds": seeds}
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
                f"the designed imagination failed on these bars ({wrong});"
                " give another source or none"
            )
        return made.value["bars"]


def imagine_in_sandbox(payload: Content) -> Content:
    """Imagine with a design; call it only inside a locked process that imported all it needs."""
    from se_rl.modules.loading import load_module

    return {"bars": _made(load_module(payload["source"].decode(), "imagination"), payload)}


def _made(imagine: Any, payload: Content) -> Bars:
    """Groups of windows, each imagined with a generator of its own."""
    import torch

    groups = np.split(payload["bars"], payload["ends"][:-1])
    made = []
    for group, seed in zip(groups, payload["seeds"], strict=True):
        generator = torch.Generator().manual_seed(int(seed))
        made.append(imagine(torch.from_numpy(group.copy()), generator))
    return torch.cat(made).double().numpy()


def _writer(interface: Any) -> ImaginationWriter:
    if isinstance(interface, ImaginationWriter):
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
        raise DataError(f"static_data is not a set of bars: {fault}; fix them or leave them out")
    return bars


def _of_sessions(data: Any) -> Bars:
    from se_rl.data.given import as_market_data

    market = as_market_data(data)
    volume = np.zeros(market.shape) if market.volume is None else market.volume
    prices = [getattr(market, name) for name in PRICE_FIELDS]
    bars = np.stack([*prices, volume], axis=-1)
    return np.asarray(bars[market.has_session], np.float64)


def _fault(bars: Any, shape: tuple[int, ...]) -> str:
    """What is wrong with bars that came from outside, in one line; "" if nothing is."""
    if not isinstance(bars, np.ndarray) or bars.dtype != np.float64 or bars.shape != shape:
        return f"no float64 bars of shape {shape}"
    if np.isfinite(bars).all() and bars.size and bars.max() > LARGEST:
        return f"a number is {bars.max():g}; prices and volumes end at {LARGEST:g}"
    fault = bar_fault(bars, relative_slack=SLACK)
    if fault is None:
        return ""
    path, bar = fault.first
    return f"bar {bar} of path {path} {_WORDS[fault.kind]}: {bars[path, bar].tolist()}"
