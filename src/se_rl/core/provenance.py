"""Where results come from: the data's facts, and a digest of the code that scores depend on."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.data.catalog import DataSet
from se_rl.data.market_data import DataError, MarketData

_NO_SCORE_DEPENDS_ON = ("report", "commands", "main.py", "doctor.py")


def data_facts(dataset: DataSet) -> dict[str, Any]:
    """What the results say about the data."""
    data = dataset.data
    for split in ("train", "valid", "test"):
        if not dataset.has(split):
            raise DataError(
                f"{dataset.name} has no {split} days ({len(data.dates)} sessions in all); give more sessions"
            )
    days = {f"{split}_days": len(dataset.dates(split)) for split in ("train", "valid", "test")}
    return {
        "name": dataset.name,
        "synthetic": data.provenance.synthetic,
        "sha256": data_hash(data),
        "symbols": len(data.symbols),
        "first_date": int(data.dates[0]),
        "last_date": int(data.dates[-1]),
        **days,
    }


def data_hash(data: MarketData) -> str:
    """The digest of the file that the bars come from, or of the bars themselves."""
    if data.provenance.sha256:
        return data.provenance.sha256
    digest = hashlib.sha256()
    for array in (data.open, data.high, data.low, data.close, data.volume):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@lru_cache
def code_hash() -> str:
    """A digest of this package's source: what a score depends on beside its settings and data."""
    digest, root = hashlib.sha256(), Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in _NO_SCORE_DEPENDS_ON:
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
