"""Bars as a few small arrays in one file, for a machine that has neither the sets nor a reader.

Prices are whole numbers of 1e-4, stored as differences: of closes from bar to bar, of the open from
the close before, of high and low from the bar's own body. The amount is kept as the bar's average
price in 1e-4, so it comes back to half of that. Volumes come back within 2.2 %: they are kept as
sixteenths of their binary logarithm, enough for a profile or a ratio. What is left after
differences are byte planes that compress well.
"""

from __future__ import annotations

import bz2
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import SessionGrid
from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.market_data import MarketData, Provenance, SplitDates
from se_rl.data.splits import given_split
from se_rl_benchmarks.real_sets import REAL_SETS

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
UNIT = 1e4
STEPS = 16.0
"""Steps of a doubling of the volume."""


def write_packed(path: Path, sets: Mapping[str, MarketData]) -> None:
    """Write all sets to one .npz."""
    arrays: dict[str, Bytes] = {}
    for name, data in sets.items():
        for key, value in _packed(data).items():
            arrays[f"{name}/{key}"] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def read_packed(path: Path) -> dict[str, MarketData]:
    """The sets of a file that `write_packed` made."""
    with np.load(path) as stored:
        names = dict.fromkeys(key.split("/")[0] for key in stored.files)
        sets = {}
        for name in names:
            parts = {}
            for key in stored.files:
                if key.startswith(f"{name}/"):
                    parts[key.split("/")[1]] = stored[key]
            sets[name] = _unpacked(parts)
    return sets


def known_set(name: str, packed: Path | None) -> tuple[Mapping[str, Any], DataSet | None]:
    """What a run on a set changes in its settings, and the bars of a real one.

    A real set goes by its name or its file's; on one whose orders take a whole session they take a
    session or half of it. Other sets are read by the run itself.
    """
    for known, real in REAL_SETS.items():
        if name not in (known, real.file):
            continue
        if packed is not None:
            dataset = DataSet(read_packed(packed)[known], packed)
        else:
            split = given_split(real.train_until, real.valid_until)
            dataset = load_dataset(str(real.path), split=split)
        bars = len(dataset.data.grid)
        horizons = {"horizons": (bars, bars // 2)} if real.horizon == "session" else {}
        return {"data": name} | horizons, dataset
    return {"data": name}, None


def _packed(data: MarketData) -> dict[str, Bytes]:
    live = data.has_session[..., None]
    whole = {}
    for name in ("open", "high", "low", "close"):
        price = np.where(live, getattr(data, name), np.nan)
        whole[name] = np.rint(_carried(price) * UNIT).astype(np.int64)
    opened, closed = whole["open"], whole["close"]
    before = _before(closed)
    parts = {
        "close": closed - before,
        "open": opened - before,
        "high": whole["high"] - np.maximum(opened, closed),
        "low": np.minimum(opened, closed) - whole["low"],
        "traded": data.traded.astype(np.int64),
        "volume": _log_steps(np.where(live, data.require_volume("packing"), 0.0)),
    }
    if data.amount is not None:
        average = np.where(live, data.price, 0.0)
        parts["average"] = np.where(live, np.rint(average * UNIT).astype(np.int64) - closed, 0)
    split = data.provenance.split
    facts = {
        "symbols": data.symbols,
        "dates": data.dates.tolist(),
        "grid": asdict(data.grid),
        "name": data.provenance.name,
        "sha256": data.provenance.sha256,
        "split": asdict(split) if split else None,
        "session": data.has_session.astype(int).tolist(),
    }
    packed = {name: _squeezed(values) for name, values in parts.items()}
    packed["facts"] = np.frombuffer(bz2.compress(json.dumps(facts).encode()), np.uint8)
    return packed


def _unpacked(parts: Mapping[str, Bytes]) -> MarketData:
    facts = json.loads(bz2.decompress(parts["facts"].tobytes()))
    grid = SessionGrid(**{**facts["grid"], "minutes": tuple(facts["grid"]["minutes"])})
    session = np.array(facts["session"], bool)
    shape = (*session.shape, len(grid))
    numbers = {name: _restored(parts[name], shape) for name in parts if name != "facts"}
    flat = numbers["close"].reshape(len(session), -1)
    closed = np.cumsum(flat, axis=1).reshape(shape)
    opened = _before(closed) + numbers["open"]
    high = np.maximum(opened, closed) + numbers["high"]
    low = np.minimum(opened, closed) - numbers["low"]
    # the inverse of steps = round(STEPS * log2(1 + volume))
    volume = np.rint(np.exp2(numbers["volume"] / STEPS) - 1.0)
    amount = None
    if "average" in numbers:
        amount = volume * (closed + numbers["average"]) / UNIT
    prices = {}
    for name, values in (("open", opened), ("high", high), ("low", low), ("close", closed)):
        prices[name] = np.where(session[..., None], values / UNIT, np.nan)
    split = SplitDates(**facts["split"]) if facts["split"] else None
    return MarketData(
        tuple(facts["symbols"]),
        np.array(facts["dates"], np.int32),
        grid,
        **prices,
        traded=numbers["traded"].astype(bool),
        volume=volume,
        amount=amount,
        provenance=Provenance(facts["name"], facts["sha256"], split=split),
    )


def _log_steps(volume: npt.NDArray[np.float64]) -> Ints:
    return np.rint(STEPS * np.log2(1.0 + volume)).astype(np.int64)


def _carried(price: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Prices with those of absent sessions replaced by the last one before, or 0."""
    flat = price.reshape(len(price), -1)
    place = np.where(np.isfinite(flat), np.arange(flat.shape[1]), 0)
    newest = np.maximum.accumulate(place, axis=1)
    return np.nan_to_num(np.take_along_axis(flat, newest, axis=1)).reshape(price.shape)


def _before(closed: Ints) -> Ints:
    """The close of the bar before, across sessions; 0 before the first."""
    flat = closed.reshape(len(closed), -1)
    start = np.zeros((len(flat), 1), np.int64)
    return np.concatenate([start, flat[:, :-1]], axis=1).reshape(closed.shape)


def _squeezed(values: Ints) -> Bytes:
    """Signs folded in, then the four bytes of every number one plane after the other."""
    folded = np.where(values < 0, -2 * values - 1, 2 * values).astype(np.uint32)
    planes = folded.ravel().view(np.uint8).reshape(-1, 4).T
    return np.frombuffer(bz2.compress(np.ascontiguousarray(planes).tobytes()), np.uint8)


def _restored(packed: Bytes, shape: tuple[int, ...]) -> Ints:
    planes = np.frombuffer(bz2.decompress(packed.tobytes()), np.uint8).reshape(4, -1)
    folded = np.ascontiguousarray(planes.T).view(np.uint32).astype(np.int64)
    values = np.where(folded % 2 == 1, -(folded + 1) // 2, folded // 2)
    return np.asarray(values).reshape(shape)
