"""The two compiled loops of the synthetic market: how volatility moves, and how prices print."""

from __future__ import annotations

import numpy as np
from numba import njit

from se_rl.data.market_data import Array
from se_rl.data.synthetic_draws import STEPS

_FAST_MINUTES = 5.0
_SLOW_MINUTES = 60.0
"""How long what will be undone is remembered: most of it goes soon, the rest over hours."""
_MOVE_LIMIT = 0.1  # symmetric: no drift comes from it


@njit(cache=True)
def log_volatilities(shocks: Array, persistence: Array, sds: Array) -> Array:
    """Sum of stationary first-order autoregressions, one for each column of shocks."""
    state = sds * shocks[0]
    innovation = sds * np.sqrt(1.0 - persistence**2)
    total = np.empty(len(shocks))
    for n in range(len(shocks)):
        total[n] = 0.0
        for j in range(len(state)):
            if n:
                state[j] = persistence[j] * state[j] + innovation[j] * shocks[n, j]
            total[n] += state[j]
    return total


@njit(cache=True)
def print_bars(
    bars: Array,
    price: float,
    beta: float,
    market: Array,
    specific: Array,
    step_shares: Array,
    undone: Array,
    bar_minutes: int,
) -> None:
    """Walk the price through every step; `undone` is the share of a minute's specific move that
    each of the two pulls takes back."""
    for day in range(specific.shape[0]):
        fast = slow = 0.0
        for minute in range(specific.shape[1]):
            bar = minute // bar_minutes
            if minute % bar_minutes == 0:
                bars[:4, day, bar] = price
                bars[4:, day, bar] = 0.0
            shares = step_shares[day, minute]
            if shares == 0.0:
                continue
            fast_pull = fast / _FAST_MINUTES
            slow_pull = slow / _SLOW_MINUTES
            pull = fast_pull + slow_pull
            own = 0.0
            for step in range(STEPS):
                own += specific[day, minute, step]
                move = beta * market[day, minute, step] + specific[day, minute, step] - pull / STEPS
                price *= 1.0 + min(max(move, -_MOVE_LIMIT), _MOVE_LIMIT)
                if bars[4, day, bar] == 0.0:
                    bars[:3, day, bar] = price
                bars[1, day, bar] = max(bars[1, day, bar], price)
                bars[2, day, bar] = min(bars[2, day, bar], price)
                bars[3, day, bar] = price
                bars[4, day, bar] += shares
                bars[5, day, bar] += shares * price
            # The overnight move, which sits in the first minute, is not taken back.
            taken_back = undone[day, minute] * own if minute else 0.0
            fast += taken_back - fast_pull
            slow += taken_back - slow_pull
