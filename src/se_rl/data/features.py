"""What an agent observes: the layout of an observation, and the public fields of whole histories.

The fields themselves, with their units and formulas, stand in `observation_fields.py`; what is
known at each bar stands in `known.py`. Here are the positions that follow from the list of fields.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from se_rl.data.feature_scales import FeatureScales
from se_rl.data.known import CLIP, PRIOR_MINUTES, Known, demean_over_symbols
from se_rl.data.market_data import MarketData
from se_rl.data.observation_fields import (
    BOOK_LEVELS,
    FIELDS,
    RETURN_MINUTES,
    BookView,
    InBook,
    ObservationField,
    OnHistory,
)

__all__ = [
    "BOOK_LEVELS",
    "CLIP",
    "FIRST_PUBLIC",
    "OBSERVATION_FIELDS",
    "OBSERVATION_PLACE",
    "PRIOR_MINUTES",
    "PUBLIC_FIELDS",
    "PUBLIC_PLACES",
    "PUBLIC_RECORDS",
    "RETURN_MINUTES",
    "TURNED_FIELD",
    "TURNED_SIGN",
    "BookView",
    "FeatureScales",
    "InBook",
    "Known",
    "ObservationField",
    "OnHistory",
    "demean_over_symbols",
    "observation_table",
    "observations_of",
]

PUBLIC_RECORDS = tuple(field for field in FIELDS if not field.private)
"""The fields that show the market."""
PUBLIC_FIELDS: tuple[str, ...] = tuple(field.name for field in PUBLIC_RECORDS)
"""Their names: the columns of `observation_table`."""
OBSERVATION_FIELDS: tuple[str, ...] = tuple(field.name for field in FIELDS)
"""The observed numbers, in order, the same in every world; docs/environments.md gives their units.

They are turned for the order's side: a buyer sees the market upside down, so that one policy can
serve both sides and a rise is good news to whoever sees one."""
OBSERVATION_PLACE: dict[str, int] = {name: place for place, name in enumerate(OBSERVATION_FIELDS)}
"""The position of each field in an observation."""
FIRST_PUBLIC = OBSERVATION_PLACE[PUBLIC_FIELDS[0]]
PUBLIC_PLACES = slice(FIRST_PUBLIC, FIRST_PUBLIC + len(PUBLIC_FIELDS))
"""The public fields' positions in an observation: they stand together."""
if OBSERVATION_FIELDS[PUBLIC_PLACES] != PUBLIC_FIELDS:
    raise ValueError("a private field stands among the public ones; list it before or after them")

TURNED_FIELD = np.array(
    [PUBLIC_FIELDS.index(field.mirror or field.name) for field in PUBLIC_RECORDS]
)
TURNED_SIGN = np.array([-1.0 if field.negated else 1.0 for field in PUBLIC_RECORDS], np.float32)
"""A buyer's public field k is TURNED_SIGN[k] times the seller's field TURNED_FIELD[k]."""


def observation_table(data: MarketData, scales: FeatureScales) -> npt.NDArray[np.float32]:
    """The public fields of all sessions as float32 [symbol * session, bar + 1, field]."""
    return observations_of(Known(data, scales))


def observations_of(known: Known, symbols: slice = slice(None)) -> npt.NDArray[np.float32]:
    """The public fields of some symbols' sessions as float32 [symbol * session, bar + 1, field]."""
    shape = known.sigma.shape
    started = known.started[symbols]
    table = np.zeros((*started.shape, len(PUBLIC_FIELDS)), dtype=np.float32)
    for place, field in enumerate(PUBLIC_RECORDS):
        assert field.on_history is not None  # a public field has both formulas
        values = np.clip(field.on_history(known), -CLIP, CLIP)
        own = np.broadcast_to(values, shape)[symbols]
        table[..., place] = np.where(started | field.known_early, own, 0.0)
    table[~known.data.has_session[symbols]] = 0.0
    np.nan_to_num(table, copy=False)  # where a bar lacks a quote its book fields are 0
    return table.reshape(-1, shape[2], len(PUBLIC_FIELDS))
