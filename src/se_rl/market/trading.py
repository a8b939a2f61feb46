"""What all participants share: random draws, whole-number division, market orders, the imbalance.

Plain Python that `make_kernel` compiles with the book.
"""

from __future__ import annotations

from se_rl.market.kernel import market
from se_rl.market.layout import own_functions
from se_rl.market.participants import LAST_STATE, SIGNED_VOLUME, STREAM, Sim
from se_rl.market.price_levels import BASE, BUY, FAR, QUEUED, SELL, TOUCH, Book


def draw(sim: Sim, b: int, stream: int) -> int:
    """The next draw of a stream, in [0, 2**31): the upper bits of a xorshift of period 2**63 - 1.

    A state of 32 bits could be searched for by a policy that knows this file.
    """
    x = sim.state[b, STREAM + stream]
    x ^= (x << 5) & LAST_STATE
    x ^= x >> 19
    x ^= (x << 17) & LAST_STATE
    sim.state[b, STREAM + stream] = x
    return (x >> 32) & 0x7FFFFFFF  # the mask tells the compiler that it is not negative


def part(whole: int, divisor: int) -> int:
    """Division that rounds towards zero: floor division would push every value a little down."""
    rounded = abs(whole) // divisor
    return rounded if whole >= 0 else -rounded


def market_order(book: Book, sim: Sim, b: int, side: int, size: int, owner: int) -> int:
    """Send a market order and count its signed volume."""
    filled = market(book, b, side, size, owner, 0)
    sim.state[b, SIGNED_VOLUME] += filled * (1 - 2 * side)
    return filled


def imbalance(book: Book, b: int) -> int:
    """(bids - asks) / (bids + asks) of the three best prices of each side, in 1/1024."""
    bids, asks = near_touch(book, b, BUY), near_touch(book, b, SELL)
    return 0 if bids + asks == 0 else part((bids - asks) * 1024, bids + asks)


def near_touch(book: Book, b: int, side: int) -> int:
    """Quantity at the touch and the two prices behind it."""
    key = book.meta[b, TOUCH + side]
    if key == FAR:
        return 0
    row, total = key - book.meta[b, BASE + side], 0
    for j in range(3):
        if row + j < book.levels.shape[2] - 1:
            total += int(book.levels[b, side, row + j, QUEUED])
    return total


FUNCTIONS = own_functions(globals())
