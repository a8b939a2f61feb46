"""What trading on history is assumed to cost: one record for environments, training and scoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from se_rl.data.market_data import DataError

FILLS = ("price_taker", "limit_on_bars", "queue")
"""Fill models of the static world; `queue` needs a historical order book."""


class CostSettings(Protocol):
    """Settings that say what trading on history costs: those of a run, a training or a table."""

    @property
    def half_spread_bps(self) -> float:
        """Half-spread paid on every share taken."""

    @property
    def fee_bps(self) -> float:
        """Fee on every share."""

    @property
    def max_participation(self) -> float | None:
        """Cap on the fills of a bar, as a share of its volume."""

    @property
    def fill_model(self) -> str:
        """One of FILLS."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The fill model of the static world and what a fill costs; the default is free and uncapped.

    `half_spread_bps` and `fee_bps` are paid on every share taken at market, `fee_bps` on passive
    fills too. `max_participation` caps the fills of a bar at this share of its volume.
    """

    fills: str = "price_taker"
    half_spread_bps: float = 0.0
    fee_bps: float = 0.0
    max_participation: float | None = None

    def __post_init__(self) -> None:
        if self.fills not in FILLS:
            raise DataError(f"fills {self.fills!r} is unknown; use one of {', '.join(FILLS)}")
        for name in ("half_spread_bps", "fee_bps"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise DataError(
                    f"{name} {value} is not a cost; use 0 for none, or a positive number"
                )
        cap = self.max_participation
        if cap is not None and not 0.0 < cap <= 1.0:
            raise DataError(
                f"max_participation {cap} is not a share of the volume; use e.g. 0.1, at most 1"
            )
        if self.fills == "queue" and (self.half_spread_bps or cap is not None):
            raise DataError(
                "fills 'queue' takes spread and size from the book; "
                "leave half_spread_bps and max_participation out"
            )

    @classmethod
    def of(cls, settings: CostSettings) -> Costs:
        """The costs that settings ask for; impossible ones are refused."""
        return cls(
            fills=settings.fill_model,
            half_spread_bps=settings.half_spread_bps,
            fee_bps=settings.fee_bps,
            max_participation=settings.max_participation,
        )

    def words(self) -> str:
        """The costs in a few words, for people."""
        cap = self.max_participation
        parts = [
            f"half-spread {self.half_spread_bps:g} bps",
            f"fee {self.fee_bps:g} bps",
            "no cap" if cap is None else f"cap {cap:g} of a bar's volume",
            f"fill model {self.fills}",
        ]
        return ", ".join(parts)

    @property
    def half_spread(self) -> float:
        """The half-spread as a share of the price."""
        return self.half_spread_bps * 1e-4

    @property
    def fee(self) -> float:
        """The fee as a share of the cash exchanged."""
        return self.fee_bps * 1e-4

    @property
    def taker_cost(self) -> float:
        """Half-spread and fee together, as a share of the price."""
        return (self.half_spread_bps + self.fee_bps) * 1e-4


FREE = Costs()
"""No costs and no cap: every order is filled at the bar price."""
