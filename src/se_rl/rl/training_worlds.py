"""Training worlds: those of one design, from train data and its own profile and imagination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from se_rl.config import option, settings
from se_rl.data.calendar import SessionGrid
from se_rl.data.features import FeatureScales, observation_table
from se_rl.data.market_data import MarketData, Provenance
from se_rl.environments.costs import Costs
from se_rl.environments.dynamic_world import DynamicWorld, EpisodeBank
from se_rl.environments.imagined import imagined_data
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import SIZES
from se_rl.environments.worlds import Observation, World
from se_rl.market.family import MarketKind, free_kinds, twins_of
from se_rl.market.profile import MarketProfile
from se_rl.modules.defaults import Imagine, Modules

Worlds = Literal["both", "static", "dynamic"]
Bars = npt.NDArray[np.float64]
SCALE = "scale_"
"""What stands before the names of scales among the arrays."""


HELD_BACK = 0.15
"""Share of the train days and of the simulated episodes that no update sees: a training chooses its
best snapshot on them."""
TWIN_SESSIONS = 1200
"""Sessions that twins follow at most, from train days that are spread evenly."""


@settings
class TrainingWorldsConfig:
    """The worlds a design is trained in; `kinds` are free markets, which `twins` doubles."""

    worlds: Worlds = option(
        "both", "static, dynamic or both", choices=("both", "static", "dynamic")
    )
    horizons: tuple[int, ...] = option((240, 120), "bars of an order on history")
    dynamic_horizons: tuple[int, ...] = option((40, 20), "steps of an order in simulated markets")
    sizes: tuple[float, float] = option(SIZES, "orders' share of the usual volume")
    kinds: tuple[MarketKind, ...] = option(free_kinds(), "kinds of simulated market")
    twins: bool = option(True, "markets that follow train days, as many as free ones")
    takes_price: bool = option(True, "simulated markets: limit orders (else market orders)")
    agents: int = option(1, "agents that trade in one simulated book", metavar="N")
    bank: int = option(4096, "simulated episodes to train on", metavar="N")
    bank_seed: int = option(1, "seed of these episodes", metavar="N")
    half_spread_bps: float = option(0.0, "history: half-spread paid on every fill", metavar="BPS")
    fee_bps: float = option(0.0, "history: fee on every fill", metavar="BPS")
    max_participation: float | None = option(
        None, "history: share of a bar's volume that an order may take", metavar="SHARE"
    )
    fill_model: str = option("price_taker", "history: how orders are filled", metavar="NAME")


@dataclass(frozen=True, eq=False)
class TrainingWorlds:
    """What a training plays: worlds by name, one for each horizon.

    Those that are `held_back` have days and episodes that those of `train` never draw.
    """

    train: dict[str, tuple[World, ...]]
    held_back: dict[str, tuple[World, ...]]


def make_worlds(
    modules: Modules,
    config: TrainingWorldsConfig,
    *,
    data: MarketData | None,
    scales: FeatureScales | None = None,
    table: Observation | None = None,
    banks: Mapping[int, EpisodeBank] | None = None,
    seed: int = 0,
) -> TrainingWorlds:
    """The design's worlds.

    Half of the static world's episodes are imagined where the design imagines any. `data` holds
    train days only, `table` their observations where they exist already, `banks` simulated episodes
    of the usual markets by horizon. Raises ValueError, in one line, where imagined bars break their
    contract.
    """
    found = TrainingWorlds({}, {})
    inputs = modules.interface.inputs
    if config.worlds != "dynamic":
        if data is None:
            raise ValueError(
                "the static world needs data; give some or train in the dynamic world alone"
            )
        real = StaticWorld(
            data,
            horizon=config.horizons[0],
            scales=scales,
            table=table,
            sizes=config.sizes,
            costs=Costs.of(config),
        ).showing(inputs)
        _add_static(found, config, real, modules.imagine, seed=seed)
    if config.worlds != "static":
        usual = modules.profile == MarketProfile()
        kinds = config.kinds
        if not usual:  # half of the episodes: a designed market stands beside the usual ones
            kinds += (MarketKind("designed", modules.profile),) * len(kinds)
        worlds = dynamic_worlds(
            replace(config, kinds=kinds), data=data, scales=scales, banks=banks if usual else None
        )
        seen = tuple(world.showing(inputs) for world in worlds)
        found.train["dynamic"], found.held_back["dynamic"] = _parts_of_banks(seen)
    return found


def dynamic_worlds(
    config: TrainingWorldsConfig,
    *,
    data: MarketData | None = None,
    scales: FeatureScales | None = None,
    banks: Mapping[int, EpisodeBank] | None = None,
) -> tuple[DynamicWorld, ...]:
    """The simulated markets to train in, by horizon, whose episodes may be known already."""
    known = banks or {}
    entries = max(1, config.bank // len(config.dynamic_horizons))
    worlds = []
    for place, horizon in enumerate(config.dynamic_horizons):
        twins = config.twins and data is not None and horizon <= len(data.grid)
        world = mixed_markets(
            data if twins else None,
            config.kinds,
            scales=scales,
            horizon=horizon,
            sizes=config.sizes,
            takes_price=config.takes_price,
            agents=config.agents,
            bank=known.get(horizon, entries),
            seed=config.bank_seed + 1000 * place,
        )
        worlds.append(world)
    return tuple(worlds)


def mixed_markets(
    data: MarketData | None,
    kinds: tuple[MarketKind, ...],
    *,
    scales: FeatureScales | None,
    **options: Any,
) -> DynamicWorld:
    """Free markets of these kinds and, with train days, as many twins of some of them.

    Limits are measured by volatility, so that one policy can serve markets of unlike ticks.
    """
    options["limit_unit"] = "volatility"
    if data is None:
        return DynamicWorld(kinds=kinds, **options)
    days = len(data.dates)
    count = int(np.clip(TWIN_SESSIONS // len(data.symbols), min(2, days), days))
    chosen = np.unique(np.linspace(0, days - 1, count).astype(np.int64))
    followed = data.select(dates=data.dates[chosen])
    return DynamicWorld(followed, kinds=(*kinds, *twins_of(kinds)), scales=scales, **options)


def _add_static(
    found: TrainingWorlds,
    config: TrainingWorldsConfig,
    real: StaticWorld,
    imagine: Imagine | None,
    *,
    seed: int,
) -> None:
    """History by horizon: the first train days to learn from, the last ones held back."""
    dates = real.data.dates
    kept = len(dates) - round(HELD_BACK * len(dates))
    learned, rest = (dates[:kept], dates[kept:]) if 0 < kept < len(dates) else (dates, dates)
    imagined = None if imagine is None else imagined_world(real, imagine, seed=seed)
    worlds: list[World] = []
    held_back: list[World] = []
    for horizon in config.horizons:
        own = real.over(horizon=horizon, dates=learned)
        other = None if imagined is None else imagined.over(horizon=horizon, dates=learned)
        worlds.append(own if other is None else MixedWorld([own, other]))
        held_back.append(real.over(horizon=horizon, dates=rest))
    found.train["static"], found.held_back["static"] = tuple(worlds), tuple(held_back)


def imagined_world(real: StaticWorld, imagine: Imagine, *, seed: int) -> StaticWorld:
    """A world of history whose bars are imagined from its own."""
    bars = imagined_data(real.data, numpy_imagine(imagine, seed=seed))
    world = StaticWorld(
        bars, horizon=real.horizon, scales=real.scales, sizes=real.sizes, costs=real.costs
    )
    return world.showing(real.further)


def _parts_of_banks(
    worlds: tuple[DynamicWorld, ...],
) -> tuple[tuple[World, ...], tuple[World, ...]]:
    """The first entries of the banks to learn from, the last ones held back."""
    train: list[World] = []
    held_back: list[World] = []
    for world in worlds:
        size = len(world.bank)
        kept = max(1, size - round(HELD_BACK * size))
        train.append(world.over(range(kept)))
        held_back.append(world.over(range(kept if kept < size else 0, size)))
    return tuple(train), tuple(held_back)


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
