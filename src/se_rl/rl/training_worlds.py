"""Training worlds: those of one design, from train data and its own profile and imagination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from se_rl.config import option, settings
from se_rl.data.calendar import SessionGrid
from se_rl.data.features import FeatureScales, observation_table
from se_rl.data.market_data import MarketData, Provenance
from se_rl.environments.dynamic_world import DynamicWorld, EpisodeBank
from se_rl.environments.imagined import imagined_data
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.scripted_markets import default_kind
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Observation, World
from se_rl.market.profile import MarketProfile
from se_rl.modules.defaults import Imagine, Modules

Worlds = Literal["both", "static", "dynamic"]
Bars = npt.NDArray[np.float64]
SCALE = "scale_"
"""What stands before the names of scales among the arrays."""


@settings
class TrainingWorldsConfig:
    """The worlds a design is trained in."""

    worlds: Worlds = option(
        "both", "static, dynamic or both", choices=("both", "static", "dynamic")
    )
    horizon: int = option(240, "bars of an order on history", metavar="N")
    dynamic_horizon: int = option(40, "steps of an order in simulated markets", metavar="N")
    participation: float = option(
        0.10, "simulated markets: the order's share of the usual volume", metavar="SHARE"
    )
    takes_price: bool = option(True, "simulated markets: limit orders (else market orders)")
    agents: int = option(1, "agents that trade in one simulated book", metavar="N")
    bank: int = option(4096, "simulated episodes to train on", metavar="N")
    bank_seed: int = option(1, "seed of these episodes", metavar="N")


def make_worlds(
    modules: Modules,
    config: TrainingWorldsConfig,
    *,
    data: MarketData | None,
    scales: FeatureScales | None = None,
    table: Observation | None = None,
    bank: EpisodeBank | None = None,
    seed: int = 0,
) -> dict[str, World]:
    """The design's worlds.

    Half of the static world's episodes are imagined where the design imagines any. `data` holds
    train days only, `table` their observations where they exist already, `bank` simulated episodes
    of the default market. Raises ValueError, in one line, where imagined bars break their contract.
    """
    worlds: dict[str, World] = {}
    if config.worlds != "dynamic":
        if data is None:
            raise ValueError(
                "the static world needs data; give some or train in the dynamic world alone"
            )
        real = StaticWorld(data, horizon=config.horizon, scales=scales, table=table)
        worlds["static"] = real
        if modules.imagine is not None:
            imagined = _imagined(modules.imagine, real, scales, seed)
            worlds["static"] = MixedWorld([real, imagined])
    if config.worlds != "static":
        known = bank if modules.profile == MarketProfile() else None
        worlds["dynamic"] = dynamic_world(config, profile=modules.profile, bank=known)
    return worlds


def dynamic_world(
    config: TrainingWorldsConfig,
    *,
    profile: MarketProfile | None = None,
    bank: EpisodeBank | None = None,
) -> DynamicWorld:
    """The simulated market to train in, whose episodes may be known already."""
    return DynamicWorld(
        kinds=[default_kind(None, profile)],
        horizon=config.dynamic_horizon,
        sizes=(config.participation, config.participation),
        takes_price=config.takes_price,
        agents=config.agents,
        bank=bank or config.bank,
        seed=config.bank_seed,
    )


def _imagined(
    imagine: Imagine, real: StaticWorld, scales: FeatureScales | None, seed: int
) -> StaticWorld:
    """The same train days with imagined bars."""
    data = imagined_data(real.data, numpy_imagine(imagine, seed=seed))
    return StaticWorld(data, horizon=real.horizon, scales=scales)


def numpy_imagine(imagine: Imagine, *, seed: int) -> Callable[[Bars], Bars]:
    """An imagination as a function of arrays, drawing from one generator of its own."""
    generator = torch.Generator().manual_seed(seed)

    def made(bars: Bars) -> Bars:
        with torch.no_grad():
            return imagine(torch.from_numpy(bars), generator).double().numpy()

    return made


def data_arrays(data: MarketData, scales: FeatureScales) -> dict[str, npt.NDArray[Any]]:
    """Train data as plain arrays for a locked process; symbols and dates stay behind."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for f in fields(data):
        value = getattr(data, f.name)
        if isinstance(value, np.ndarray) and value.ndim >= 3:
            arrays[f.name] = np.ascontiguousarray(value)
    for name in _scale_names():
        arrays[SCALE + name] = getattr(scales, name)
    arrays["table"] = observation_table(data, scales)
    arrays["minutes"] = np.array(data.grid.minutes, np.int64)
    arrays["exchange"] = np.frombuffer(data.grid.exchange.encode(), np.uint8)
    arrays["label"] = np.frombuffer(data.grid.label.encode(), np.uint8)
    arrays["bar_minutes"] = np.array([data.grid.bar_minutes])
    return arrays


def data_from_arrays(
    arrays: Mapping[str, npt.NDArray[Any]],
) -> tuple[MarketData, FeatureScales]:
    """The inverse, with numbers for names."""
    grid = SessionGrid(
        arrays["exchange"].tobytes().decode(),
        int(arrays["bar_minutes"][0]),
        arrays["label"].tobytes().decode(),
        tuple(arrays["minutes"].tolist()),
    )
    symbols = tuple(f"S{i}" for i in range(len(arrays["open"])))
    dates = np.arange(1, arrays["open"].shape[1] + 1, dtype=np.int32)
    bars = {f.name: arrays[f.name] for f in fields(MarketData) if f.name in arrays}
    data = MarketData(symbols, dates, grid, **bars, provenance=Provenance("train days"))
    scales = {name: arrays[SCALE + name] for name in _scale_names()}
    return data, FeatureScales(symbols, **scales)


def _scale_names() -> list[str]:
    """The arrays of the scales."""
    return [f.name for f in fields(FeatureScales) if f.name != "symbols"]
