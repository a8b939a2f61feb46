"""What the engine of the static world compiles: booking a step, and writing what orders see next."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def settle(  # type: ignore[no-untyped-def]
    price,
    row,
    bar,
    side,
    quantity,
    horizon,
    arrival,
    half_spread,
    fee,
    last,
    fills,
    remaining,
    gross,
    paid,
    leftover,
    reward,
):
    """Book the step's fills; in the last step complete the rest at the bar price.

    The completion pays half-spread and fee. The reward is the step's gain over TWAP's slice in bps
    of the arrival price: summed over an episode it is the PA against arrival minus TWAP's, on the
    same prices and at the same costs.
    """
    for i in range(row.shape[0]):
        bar_price = price[row[i], bar[i]]
        filled = min(fills.shares[i], remaining[i])
        rest = remaining[i] - filled
        money = fills.cash[i]
        expense = fills.cost[i] + fee * money
        if last:
            leftover[i] = rest if rest > 1e-9 * quantity[i] else 0.0
            money += rest * bar_price
            expense += rest * bar_price * (half_spread + fee)
            filled += rest
            rest = 0.0
        remaining[i] = rest
        gross[i] += money
        paid[i] += expense
        # own = (net cash) / (Q P_arrival) - filled / Q;  twap = (net bar price / P_arrival - 1) / T
        own = (money - side[i] * expense) / (quantity[i] * arrival[i]) - filled / quantity[i]
        twap = (bar_price * (1.0 - side[i] * (half_spread + fee)) / arrival[i] - 1.0) / horizon
        reward[i] = 1e4 * side[i] * (own - twap)


@njit(cache=True, nogil=True, error_model="numpy")
def copy_observation(  # type: ignore[no-untyped-def]
    table,
    further,
    row,
    start,
    side,
    step,
    horizon,
    quantity,
    remaining,
    turned_field,
    turned_sign,
    first_public,
    time_place,
    inventory_place,
    bar,
    observation,
):
    """Each order's public fields at its next bar, turned for a buyer, what is left, and what bars
    tell further; and `bar`.

    Positions are arguments and not globals: a cached kernel would keep old ones. Flat arrays with
    unsigned places, which cannot count from the end, take a quarter of the time.
    """
    time_left = (horizon - step) / horizon
    bars, fields = table.shape[1:]
    public, seen = table.reshape(-1), observation.reshape(-1)
    for i in range(row.shape[0]):
        bar[i] = start[i] + step
        source = np.uint64((row[i] * bars + bar[i]) * fields)
        target = np.uint64(i * observation.shape[1] + first_public)
        if side[i] > 0:
            for k in range(fields):
                seen[target + np.uint64(k)] = public[source + np.uint64(k)]
        else:
            for k in range(fields):
                other = np.uint64(turned_field[k])
                seen[target + np.uint64(k)] = turned_sign[k] * public[source + other]
        observation[i, time_place] = time_left
        observation[i, inventory_place] = remaining[i] / quantity[i]
        for k in range(further.columns.shape[0]):
            told = further.table[row[i], bar[i], further.columns[k]]
            observation[i, further.places[k]] = side[i] * told
