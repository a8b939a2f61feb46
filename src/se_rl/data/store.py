"""Our own file of bars: parquet rows (symbol, date, minute, OHLC, volume, amount, best quotes) that `read_bars` reads back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.data.calendar import CONTINUOUS
from se_rl.data.market_data import PRICE_FIELDS, DataError, MarketData

_LABELS = {"start": "start of bar", "end": "end of bar", "open+end": "end of bar, extra opening print"}


def write_bars(data: MarketData, path: Path, *, notes: tuple[str, ...] = ()) -> None:
    """Write the printed bars (flat filler is left out: reading puts it back); whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if data.grid.exchange == CONTINUOUS:
        raise DataError(
            f"{data.provenance.name} fits no exchange's hours, so it has no sessions to store; use the file by its path"
        )
    symbol, day, bar = np.nonzero(data.traded)
    columns: dict[str, Any] = {
        "symbol": pa.DictionaryArray.from_arrays(symbol.astype(np.int32), list(data.symbols)),
        "date": data.dates[day],
        "minute": np.asarray(data.grid.minutes, np.int32)[bar],
    }
    columns |= {name: getattr(data, name)[data.traded] for name in PRICE_FIELDS}
    columns |= {
        name: values[data.traded]
        for name in ("volume", "amount", "bid", "ask")
        if (values := getattr(data, name)) is not None
    }
    if data.bid_sizes is not None and data.ask_sizes is not None:
        columns |= {"bsz": data.bid_sizes[data.traded][:, 0], "asz": data.ask_sizes[data.traded][:, 0]}
    meta = {"bar_label": _LABELS[data.grid.label], "notes": json.dumps([*data.provenance.notes, *notes])}
    if data.provenance.adjusted is not None:
        meta["adjust"] = "adjusted" if data.provenance.adjusted else "none"
    table = pa.table(columns).replace_schema_metadata(meta)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            pq.write_table(table, stream, compression="zstd")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
