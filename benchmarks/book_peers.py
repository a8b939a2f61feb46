"""Other people's books on the benchmark's stream, measured where their packages are installed."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.book import Books

Int = npt.NDArray[np.int64]
HFTBACKTEST = "hftbacktest ROI depth, backtest loop over L2 updates (no matching)"


def replay_hftbacktest(stream: npt.NDArray[np.int32], *, repeats: int = 5) -> float | str:
    """Depth updates per CPU second of hftbacktest, or why there is no figure.

    Its Python package offers no call that updates a depth, so a backtest without orders runs over
    the updates. They are marked for the local side only: otherwise each would be applied twice, to
    the exchange's depth as well.
    """
    if importlib.util.find_spec("hftbacktest") is None:
        return "not measured: hftbacktest is not installed"
    import hftbacktest as peer
    from hftbacktest.types import event_dtype

    updates = depth_updates(stream)
    price = updates[:, 1]
    events = np.zeros(len(updates), event_dtype)
    sides = np.where(updates[:, 0] == at.BUY, peer.BUY_EVENT, peer.SELL_EVENT)
    events["ev"] = peer.DEPTH_EVENT | peer.LOCAL_EVENT | sides
    events["exch_ts"] = events["local_ts"] = np.arange(1, len(updates) + 1)
    events["px"] = price
    events["qty"] = updates[:, 2]
    runs = [_elapse_all(peer, events, roi_ticks=int(price.max()) + 1) for _ in range(repeats)]
    books = Books(1, log=0, ids=len(stream))
    books.apply(stream)
    ours = books.depth(1)[0, :, 0].ravel().tolist()
    theirs = list(runs[0][1])
    if ours != theirs:
        return f"differs: {theirs}, ours {ours}"
    return len(events) / min(seconds for seconds, _ in runs)


def depth_updates(stream: npt.NDArray[np.int32]) -> Int:
    """(side, price, new total quantity) of every price that a message changed, in order.

    The fills of a taker come before what rests of it. For a stream of LIMIT, MARKET and CANCEL
    messages in which each order's id is its row number.
    """
    n = len(stream)
    # A trade ends its maker or its taker, so that there are at most 2 n.
    books = Books(1, log=2 * n, ids=n)
    books.apply(stream)
    kind, side, price, size, _, ident = stream.astype(np.int64).T
    trades = books.trades().astype(np.int64)
    quantity = trades[:, at.LOG_QUANTITY]
    traded = np.bincount(trades[:, at.TAKER_ID], quantity, n).astype(np.int64)
    filled = np.bincount(trades[:, at.MAKER_ID], quantity, n).astype(np.int64)
    rested = size - traded
    cancelled = np.where(kind == at.CANCEL, -(rested - filled)[ident], 0)
    change = np.where(kind == at.LIMIT, rested, cancelled)
    at_price = np.where(kind == at.CANCEL, price[ident], price)
    rows = np.concatenate([trades[:, at.TAKER_ID], np.arange(n)])
    sides = np.concatenate([1 - trades[:, at.TAKER_SIDE], side])
    prices = np.concatenate([trades[:, at.LOG_PRICE], at_price])
    changes = np.concatenate([-quantity, change])
    order = np.argsort(rows, kind="stable")
    order = order[changes[order] != 0]
    return _totals(rows[order], sides[order], prices[order], changes[order])


def _totals(row: Int, side: Int, price: Int, change: Int) -> Int:
    """The changes as totals per side and price, one for each message and price."""
    level = 2 * price + side
    order = np.argsort(level, kind="stable")
    total = np.empty_like(change)
    # The changes of a level lie together; the sum of the levels before it is taken off.
    total[order] = np.cumsum(change[order])
    first = np.flatnonzero(np.diff(level[order], prepend=-1))
    before = np.cumsum(change[order])[first] - change[order][first]
    total[order] -= np.repeat(before, np.diff(first, append=len(order)))
    again = (row[order][1:] == row[order][:-1]) & (level[order][1:] == level[order][:-1])
    last = np.ones(len(order), bool)
    last[order[:-1][again]] = False
    return np.stack([side, price, total], axis=1)[last]


def _elapse_all(
    peer: Any, events: npt.NDArray[Any], *, roi_ticks: int
) -> tuple[float, tuple[int, int, int, int]]:
    """CPU seconds of one backtest over all events, and its last (bid, quantity, ask, quantity).

    Building the backtest is not timed.
    """
    asset = peer.BacktestAsset().data(events).linear_asset(1.0).constant_order_latency(0, 0)
    asset = asset.risk_adverse_queue_model().no_partial_fill_exchange()
    asset = asset.trading_value_fee_model(0.0, 0.0).tick_size(1.0).lot_size(1.0)
    asset = asset.roi_lb(0.0).roi_ub(float(roi_ticks)).last_trades_capacity(0)
    backtest = peer.ROIVectorMarketDepthBacktest([asset])
    backtest.elapse(1)  # loads the data, and compiles
    started = time.process_time()
    backtest.elapse(len(events))
    seconds = time.process_time() - started
    depth = backtest.depth(0)
    bid = int(depth.best_bid_tick)
    ask = int(depth.best_ask_tick)
    bid_size = int(depth.bid_qty_at_tick(bid))  # its best_bid_qty gives the price
    ask_size = int(depth.ask_qty_at_tick(ask))
    backtest.close()
    return seconds, (bid, bid_size, ask, ask_size)
