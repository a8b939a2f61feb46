"""Where results come from: the facts about their data."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from se_rl.data.catalog import DataSet
from se_rl.data.market_data import DataError, MarketData


def data_facts(dataset: DataSet) -> dict[str, Any]:
    """What the results say about the data."""
    data = dataset.data
    days: dict[str, int] = {}
    for split in ("train", "valid", "test"):
        if not dataset.has(split):
            have = f"{dataset.name} has no {split} days ({len(dataset.all_dates)} sessions in all)"
            raise DataError(f"{have}; give more sessions, or other split dates")
        days[f"{split}_days"] = len(dataset.dates(split))
    return {
        "name": dataset.name,
        "synthetic": data.provenance.synthetic,
        "sha256": data_hash(data),
        "train_sha256": bars_hash(dataset.split("train")),
        "symbols": len(data.symbols),
        "first_date": int(data.dates[0]),
        "last_date": int(dataset.all_dates[-1]),
        **days,
    }


def data_hash(data: MarketData) -> str:
    """The digest of the file that the bars come from, or of the bars themselves."""
    if data.provenance.sha256:
        return data.provenance.sha256
    return bars_hash(data)


def bars_hash(data: MarketData) -> str:
    """The digest of the bars themselves."""
    digest = hashlib.sha256()
    for array in (data.open, data.high, data.low, data.close, data.volume):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
