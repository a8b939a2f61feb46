"""What a file holds, packed or not, before anybody asks for its columns."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from se_rl.data.columns import one_line
from se_rl.data.market_data import DataError

if TYPE_CHECKING:
    import pandas as pd

MOST_UNPACKED = 8 << 30
"""Bytes that a packed file may hold."""
_GZIP = b"\x1f\x8b"
_TWO_HEADERS = re.compile(rb"Price,[^\n]*\nTicker,")
"""How files begin that yfinance's frames are written to."""
_ZONE = re.compile(r".{10}.*([+-]\d\d:?\d\d|Z)$")


def bare_name(path: Path) -> str:
    """A file's name without its endings: bars for bars.csv.gz."""
    return path.with_suffix("").stem if path.suffix.lower() == ".gz" else path.stem


def file_content(path: Path) -> bytes:
    """The bytes of a file, unpacked where they are packed; one line where there are none."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give one CSV or parquet file")
    if path.exists() and not path.is_file():  # it might never end
        raise DataError(f"{path} is a pipe or a device; give one CSV or parquet file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from None
    if content[:2] == _GZIP:
        content = _unpacked(content, path)
    if not content.strip():
        raise DataError(f"{path} is empty; give a CSV or parquet file with rows")
    return content


def _unpacked(content: bytes, path: Path) -> bytes:
    """What a gzip file holds: the same bars packed or not are the same file."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            unpacked = packed.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({one_line(error)}); pack it anew") from None
    if len(unpacked) > MOST_UNPACKED:
        raise DataError(
            f"{path} holds more than {MOST_UNPACKED >> 30} GiB; give it in parts, or as parquet"
        )
    return unpacked


def is_two_headed(content: bytes) -> bool:
    """Whether a text has a row of prices above a row of tickers."""
    return _TWO_HEADERS.match(content) is not None


def two_headed(content: bytes, path: Path) -> pd.DataFrame:
    """Such a text as the frame that it was."""
    import pandas as pd

    try:
        frame = pd.read_csv(io.BytesIO(content), header=[0, 1], index_col=0)
        first = str(frame.index[0])
        return frame.set_axis(pd.to_datetime(frame.index, utc=_ZONE.match(first) is not None))
    except (ValueError, TypeError, LookupError) as error:
        raise DataError(
            f"{path} is damaged or no table ({one_line(error)}); write it anew"
        ) from None
