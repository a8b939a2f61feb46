"""What each participant does when its turn comes: noise, informed and momentum traders, news,
pressure; makers.py has the makers.

Plain Python that `make_kernel` compiles with the book. Each participant draws from a stream of its
own, a fixed number of draws per event and whatever the book looks like: with the same seed but
without the agents' orders everybody draws the same, which makes own impact a difference of two
runs. `t` is always the profile's row of numbers; participants.py says what stands where.
"""

from __future__ import annotations

from se_rl.market.kernel import cancel, limit
from se_rl.market.layout import own_functions
from se_rl.market.makers import maker_wakes
from se_rl.market.participants import (
    CALM_BELOW,
    CANCEL_BELOW,
    CLOCK,
    DRAWS,
    FAT_TAIL,
    FOLLOWED,
    IMBALANCE_TILT,
    INFORMED,
    INFORMED_BELOW,
    INFORMED_NOISE,
    INFORMED_STREAM,
    INFORMED_THRESHOLD,
    LAST_MID,
    LEARN_DIVISOR,
    LENGTH_DRAWS,
    LENGTHS,
    LIMIT_BELOW,
    LIMIT_TICKS,
    LOG_VOLATILITY,
    MAKER_BELOW,
    MARKET_BELOW,
    MESSAGES,
    MOMENTUM,
    MOMENTUM_BELOW,
    MOMENTUM_DIVISOR,
    MOMENTUM_STREAM,
    MOMENTUM_THRESHOLD,
    NEWS,
    NEWS_BELOW,
    NEWS_STEP,
    NEWS_STREAM,
    NOISE,
    NOISE_STREAM,
    NORMAL,
    NORMALS,
    PARENT,
    PARENT_BELOW,
    PARENTS,
    PRESSURE,
    PRESSURE_DIVISOR,
    PRESSURE_LAG,
    PRESSURE_STEP,
    PRESSURE_STREAM,
    PROFILE,
    SIZES,
    STRESS_BELOW,
    STRESS_VOLATILITY,
    STRESSED,
    TREND,
    VALUE,
    VOL_DIVISOR,
    VOL_STEP,
    VOLATILITIES,
    VOLATILITY,
    Array,
    Sim,
)
from se_rl.market.price_levels import (
    BUY,
    FAR,
    OWNER,
    QUANTITY,
    SELL,
    TOUCH,
    Book,
    mid_x2,
)
from se_rl.market.profile import FIXED
from se_rl.market.trading import draw, imbalance, market_order, part


def act(book: Book, sim: Sim, b: int) -> None:
    """One event: the clock's draw says whose turn it is."""
    r = draw(sim, b, CLOCK)
    t = sim.numbers[sim.state[b, PROFILE]]
    if r < t[MARKET_BELOW]:
        noise_market(book, sim, b, t)
    elif r < t[LIMIT_BELOW]:
        noise_limit(book, sim, b, t)
    elif r < t[CANCEL_BELOW]:
        noise_cancel(book, sim, b)
    elif r < t[MAKER_BELOW]:
        maker_wakes(book, sim, b, t)
    elif r < t[INFORMED_BELOW]:
        informed_looks(book, sim, b, t)
    elif r < t[MOMENTUM_BELOW]:
        momentum_looks(book, sim, b, t)
    elif r < t[NEWS_BELOW]:
        news_arrives(book, sim, b, t)
        pressure_moves(sim, b, t)


def noise_market(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A market order: a slice of a hidden parent, or a loose one.

    The sign of a loose order leans to the heavier side of the book.
    """
    which, sign_draw = draw(sim, b, NOISE_STREAM), draw(sim, b, NOISE_STREAM)
    size_draw, fresh = draw(sim, b, NOISE_STREAM), draw(sim, b, NOISE_STREAM)
    size = t[SIZES + size_draw % DRAWS]
    if which < t[PARENT_BELOW]:
        k = PARENT + 2 * (which % t[PARENTS])
        if sim.state[b, k] <= 0:
            sim.state[b, k] = t[LENGTHS + fresh % LENGTH_DRAWS]
            sim.state[b, k + 1] = sign_draw & 1
        sim.state[b, k] -= 1
        side = int(sim.state[b, k + 1])
    else:
        # 1024 is a one-sided book, followed fully
        lean = part(imbalance(book, b) * t[IMBALANCE_TILT], 1024)
        side = BUY if (sign_draw & 2047) < 1024 + lean else SELL
    sim.state[b, MESSAGES] += 1
    market_order(book, sim, b, side, size, NOISE)


def noise_limit(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A limit order somewhere within reach of the opposite best."""
    where, side_draw = draw(sim, b, NOISE_STREAM), draw(sim, b, NOISE_STREAM)
    size_draw = draw(sim, b, NOISE_STREAM)
    side = side_draw & 1
    opposite = book.meta[b, TOUCH + 1 - side]
    sim.state[b, MESSAGES] += 1
    distance = 1 + where % t[LIMIT_TICKS]
    anchor = sim.state[b, VALUE] // FIXED if opposite == FAR else opposite * (1 - 2 * side)
    price = anchor - distance * (1 - 2 * side)
    size = t[SIZES + size_draw % DRAWS]
    limit(book, b, side, price, size, NOISE, 0)


def noise_cancel(book: Book, sim: Sim, b: int) -> None:
    """Look at one order slot and withdraw the order there if it is a noise trader's."""
    slot = draw(sim, b, NOISE_STREAM) % book.orders.shape[1]
    if book.orders[b, slot, QUANTITY] > 0 and book.orders[b, slot, OWNER] == NOISE:
        sim.state[b, MESSAGES] += 1
        cancel(book, b, slot, 0)


def informed_looks(book: Book, sim: Sim, b: int, t: Array) -> None:
    """An informed trader compares the value, seen with an error, with the touch."""
    error, size_draw = draw(sim, b, INFORMED_STREAM), draw(sim, b, INFORMED_STREAM)
    seen = sim.state[b, VALUE] + part(t[INFORMED_NOISE] * t[NORMAL + error % NORMALS], 4096)
    size = t[SIZES + size_draw % DRAWS]
    ask, minus_bid = book.meta[b, TOUCH + SELL], book.meta[b, TOUCH + BUY]
    if ask != FAR and seen - ask * FIXED > t[INFORMED_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, BUY, size, INFORMED)
    elif minus_bid != FAR and -minus_bid * FIXED - seen > t[INFORMED_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, SELL, size, INFORMED)


def momentum_looks(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A momentum trader goes with the mid where it has left its slow mean."""
    size_draw = draw(sim, b, MOMENTUM_STREAM)
    size = t[SIZES + size_draw % DRAWS]
    gap = mid_x2(book, b, sim.state[b, LAST_MID]) * FIXED // 2 - sim.state[b, TREND]
    if abs(gap) > t[MOMENTUM_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, BUY if gap > 0 else SELL, size, MOMENTUM)


def news_arrives(book: Book, sim: Sim, b: int, t: Array) -> None:
    """The public value moves by news, learns from the mid, and volatility and regime move on."""
    state = sim.state
    size_draw, vol_draw = draw(sim, b, NEWS_STREAM), draw(sim, b, NEWS_STREAM)
    regime = draw(sim, b, NEWS_STREAM)
    # log volatility = log volatility * (1 - 1 / memory) + step * normal
    log_volatility = state[b, LOG_VOLATILITY]
    log_volatility -= part(log_volatility, t[VOL_DIVISOR])
    log_volatility += part(t[VOL_STEP] * t[NORMAL + vol_draw % NORMALS], 4096)
    state[b, LOG_VOLATILITY] = log_volatility
    entry = min(max(log_volatility // (FIXED // 64) + VOLATILITIES // 2, 0), VOLATILITIES - 1)
    step = t[NEWS_STEP] * t[VOLATILITY + entry] // 4096
    if state[b, STRESSED]:
        step = step * t[STRESS_VOLATILITY] // 4096
        state[b, STRESSED] = 0 if regime < t[CALM_BELOW] else 1
    else:
        state[b, STRESSED] = 1 if regime < t[STRESS_BELOW] else 0
    move = part(step * t[FAT_TAIL + size_draw % NORMALS], 4096)
    middle = mid_x2(book, b, state[b, LAST_MID]) * FIXED // 2
    # value += news + learning * (mid - value)
    state[b, NEWS] += move
    state[b, VALUE] += move + part(middle - state[b, VALUE], t[LEARN_DIVISOR])
    state[b, TREND] += part(middle - state[b, TREND], t[MOMENTUM_DIVISOR])


def pressure_moves(sim: Sim, b: int, t: Array) -> None:
    """Patient traders come and go; what the quotes have followed comes after."""
    state = sim.state
    change = draw(sim, b, PRESSURE_STREAM)
    # pressure = pressure * (1 - 1 / memory) + step * normal
    state[b, PRESSURE] -= part(state[b, PRESSURE], t[PRESSURE_DIVISOR])
    state[b, PRESSURE] += part(t[PRESSURE_STEP] * t[NORMAL + change % NORMALS], 4096)
    state[b, FOLLOWED] += part(state[b, PRESSURE] - state[b, FOLLOWED], t[PRESSURE_LAG])


FUNCTIONS = own_functions(globals())
