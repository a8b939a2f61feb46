"""Open-loop schedules: TWAP, VWAP by profile, Almgren-Chriss, and the foresight bound.

Each gives planned shares per step [order, step], rows summing to 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from se_rl.environments.task import SELL, Orders
from se_rl.scoring.order_scores import twap_weights as twap

Array = npt.NDArray[np.float64]


def vwap(orders: Orders, volume_share: Array) -> Array:
    """In proportion to the session's volume profile: mean share by bar, fitted on earlier days."""
    weights = volume_share[orders.bars()]
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=twap(orders), where=total > 0)


def almgren_chriss(orders: Orders, *, urgency: float = 2.0) -> Array:
    """The optimal trajectory of a risk-averse trader; `urgency` is kT, and 0 gives TWAP."""
    if urgency <= 0:
        return twap(orders)
    inventory = almgren_chriss_inventory(orders.horizon, urgency)
    return np.broadcast_to(-np.diff(inventory), (len(orders), orders.horizon)).copy()


def almgren_chriss_inventory(horizon: int, urgency: float) -> Array:
    """The share that is left before every step and at the end [horizon + 1]."""
    # inventory(t) = sinh(k (T - t)) / sinh(k T)
    left = 1.0 - np.arange(horizon + 1) / horizon
    inventory: Array = np.sinh(urgency * left) / np.sinh(urgency)
    return inventory


def foresight(orders: Orders, price: Array, *, max_shares: Array | None = None) -> Array:
    """The best that can be done knowing the bar prices: best bars first, each up to its cap.

    Caps are shares of the order [order, step]. The last bar has none, because what is left there is
    completed in it, whatever its volume.
    """
    steps = np.arange(len(orders))
    keys = np.where(orders.side[:, None] == SELL, -price, price)
    weights = np.zeros_like(price)
    if max_shares is None:
        weights[steps, keys.argmin(axis=1)] = 1.0
        return weights
    caps = max_shares.copy()
    caps[:, -1] = 1.0
    ranking = keys.argsort(axis=1, kind="stable")
    filled = np.minimum(np.cumsum(np.take_along_axis(caps, ranking, axis=1), axis=1), 1.0)
    np.put_along_axis(weights, ranking, np.diff(filled, axis=1, prepend=0.0), axis=1)
    return weights
