"""Other people's books on the benchmark's stream, measured where their packages are installed."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.book import Books

HFTBACKTEST = "hftbacktest ROI depth, backtest loop over L2 updates (no matching)"


def replay_hftbacktest(stream: npt.NDArray[np.int32], *, repeats: int = 5) -> float | str:
    """Depth updates per CPU second of hftbacktest, or why there is no figure.

    Its Python package offers no call that updates a depth, so a backtest without orders is run over the updates. They
    are marked for the local side only: otherwise each would be applied twice, to the exchange's depth as well.
    """
    if importlib.util.find_spec("hftbacktest") is None:
        return "not measured: hftbacktest is not installed"
    import hftbacktest as peer
    from hftbacktest.types import event_dtype

    side, price, quantity = depth_updates(stream).T
    events = np.zeros(len(side), event_dtype)
    sides = np.where(side == at.BUY, peer.BUY_EVENT, peer.SELL_EVENT)
    events["ev"] = peer.DEPTH_EVENT | peer.LOCAL_EVENT | sides
    events["exch_ts"] = events["local_ts"] = np.arange(1, len(side) + 1)
    events["px"], events["qty"] = price, quantity
    runs = [_elapse_all(peer, events, roi_ticks=int(price.max()) + 1) for _ in range(repeats)]
    books = Books(1, log=0, ids=len(stream))
    books.apply(stream)
    ours, theirs = books.depth(1)[0, :, 0].ravel().tolist(), list(runs[0][1])
    return (
        len(events) / min(seconds for seconds, _ in runs)
        if ours == theirs
        else f"differs: {theirs}, ours {ours}"
    )


def depth_updates(stream: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """(side, price, new total quantity) of every price that a message changed, in order, takers' fills before rests.

    For a stream of LIMIT, MARKET and CANCEL messages, of which each order's id is its row number.
    """
    n = len(stream)
    books = Books(
        1, log=2 * n, ids=n
    )  # a trade ends its maker or its taker, so that there are at most 2 n
    books.apply(stream)
    kind, side, price, size, _, ident = stream.astype(np.int64).T
    trades = books.trades().astype(np.int64)
    traded, filled = (
        np.bincount(trades[:, of], trades[:, at.LOG_QUANTITY], n).astype(np.int64)
        for of in (at.TAKER_ID, at.MAKER_ID)
    )
    rested = size - traded
    change = np.where(
        kind == at.LIMIT, rested, np.where(kind == at.CANCEL, -(rested - filled)[ident], 0)
    )
    at_price = np.where(kind == at.CANCEL, price[ident], price)
    fills = (
        trades[:, at.TAKER_ID],
        1 - trades[:, at.TAKER_SIDE],
        trades[:, at.LOG_PRICE],
        -trades[:, at.LOG_QUANTITY],
    )
    row, side, price, change = (
        np.concatenate(pair)
        for pair in zip(fills, (np.arange(n), side, at_price, change), strict=True)
    )
    order = np.argsort(row, kind="stable")
    return _totals(*(column[order][change[order] != 0] for column in (row, side, price, change)))


def _totals(
    row: npt.NDArray[np.int64],
    side: npt.NDArray[np.int64],
    price: npt.NDArray[np.int64],
    change: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """The changes as totals per side and price, one for each message and price."""
    level = 2 * price + side
    order = np.argsort(level, kind="stable")
    total = np.empty_like(change)
    total[order] = np.cumsum(
        change[order]
    )  # every level's changes lie together; what came before is taken off
    first = np.flatnonzero(np.diff(level[order], prepend=-1))
    before = np.cumsum(change[order])[first] - change[order][first]
    total[order] -= np.repeat(before, np.diff(first, append=len(order)))
    again = (row[order][1:] == row[order][:-1]) & (level[order][1:] == level[order][:-1])
    last = np.ones(len(order), bool)
    last[order[:-1][again]] = False
    return np.stack([side, price, total], axis=1)[last]


def _elapse_all(
    peer: Any, events: npt.NDArray[Any], *, roi_ticks: int
) -> tuple[float, tuple[int, ...]]:
    """CPU seconds of one backtest over all events, and its last (bid, quantity, ask, quantity); building is not timed."""
    asset = peer.BacktestAsset().data(events).linear_asset(1.0).constant_order_latency(0, 0)
    asset = (
        asset.risk_adverse_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0.0, 0.0)
    )
    asset = (
        asset.tick_size(1.0)
        .lot_size(1.0)
        .roi_lb(0.0)
        .roi_ub(float(roi_ticks))
        .last_trades_capacity(0)
    )
    backtest = peer.ROIVectorMarketDepthBacktest([asset])
    backtest.elapse(1)  # loads the data, and compiles
    started = time.process_time()
    backtest.elapse(len(events))
    seconds = time.process_time() - started
    depth = backtest.depth(0)
    bid, ask = depth.best_bid_tick, depth.best_ask_tick
    best = (
        bid,
        depth.bid_qty_at_tick(bid),
        ask,
        depth.ask_qty_at_tick(ask),
    )  # its best_bid_qty gives the price
    backtest.close()
    return seconds, tuple(int(number) for number in best)
