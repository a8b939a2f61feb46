"""Tables of whole numbers, parquet or CSV without a header, as books and ticks are stored in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError

Array = npt.NDArray[Any]


class NumberTable:
    """A parquet or headless CSV file whose columns come out checked, or with a DataError that names
    the column."""

    def __init__(self, path: Path, csv_columns: Sequence[str] = ()) -> None:
        import pyarrow as pa
        from pyarrow import csv, parquet

        self.path = path
        if not path.is_file():
            self._refuse(f"is not in {path.parent}; check the path")
        headless = csv.ReadOptions(autogenerate_column_names=True)
        try:
            self._table = (
                csv.read_csv(path, headless) if path.suffix == ".csv" else parquet.read_table(path)
            )
        except pa.ArrowInvalid as error:
            self._refuse(f"is no table ({str(error).splitlines()[0]}); give CSV or parquet")
        names = csv_columns if path.suffix == ".csv" else self._table.column_names
        self.names = list(names[: self._table.num_columns])

    def column(self, name: str, *, dtype: type = np.int32, used: Array | bool = True) -> Array:
        """One column, 0 where not used; refused if absent, with gaps or text, or not representable
        in the type."""
        if name not in self.names:
            self._refuse(
                f"has no column {name} among {len(self.names)}; check that it is the right file"
            )
        values = self._table.column(self.names.index(name)).to_numpy()
        if values.dtype.kind not in "if" or not np.isfinite(values).all():
            self._refuse(
                f"has gaps or text in column {name}; give each row a number (and CSV no header)"
            )
        values = np.where(used, values, 0)
        with np.errstate(invalid="ignore"):
            cast: Array = values.astype(dtype)
        if (wrong := cast != values).any():
            self._refuse(
                f"has {name} {values[wrong][0]}; "
                f"it must be a whole number that fits {np.dtype(dtype)}"
            )
        return cast

    def side(self, side: str) -> dict[str, npt.NDArray[np.int32]]:
        """Prices and sizes [rows, levels]; LOBSTER gives an empty level size 0 and a dummy price,
        which becomes 0."""
        levels = range(1, max(1, len(self.names) // 4) + 1)
        sizes = [self.column(f"{side[0]}sz{level}") for level in levels]
        prices = [
            self.column(f"{side}{k}", used=size > 0) for k, size in zip(levels, sizes, strict=True)
        ]
        return {f"{side}_e4": np.stack(prices, axis=1), f"{side}_size": np.stack(sizes, axis=1)}

    def said(self, key: str) -> str:
        """The symbol or date that the parquet metadata gives, else LOBSTER's file name."""
        metadata = self._table.schema.metadata or {}
        if key.encode() in metadata:
            return metadata[key.encode()].decode()
        named = re.match(r"(?P<symbol>[A-Z0-9.-]+)_(?P<date>\d{4}-\d{2}-\d{2})_", self.path.name)
        if named is None:
            self._refuse(
                f"does not say its {key}; name it SYMBOL_YYYY-MM-DD_... or set its metadata"
            )
        return named[key]

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self.path.name} {what}") from None
