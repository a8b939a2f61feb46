"""`se-rl bench market`: order messages per second of whole markets, all participants in them, on CPU threads or a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np

from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets

BOOKS, EVENTS_PER_STEP, STEPS = 4096, 32, 40
CUDA_BARS = 10


def bench_market(
    *,
    device: str = "cpu",
    seconds: float = 2.0,
    books: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """4,096 markets at 32 events a step on one core, blocked and step by step, and on all threads; or all on the GPU."""
    if device == "cuda":
        return _bench_cuda(seconds=seconds, books=books or 65_536, say=say)
    say("compiling and warming up")
    markets = Markets(books or BOOKS, MarketProfile(), warm_up_bars=10)
    events = np.full((STEPS, markets.n), EVENTS_PER_STEP, np.int64)
    threads = nb.get_num_threads()
    nb.set_num_threads(1)
    say("one core, blocks of steps")
    one = _rate(markets, events, seconds)
    say("one core, step by step")
    single = _rate(markets, events[:1], seconds)
    nb.set_num_threads(threads)
    say(f"{threads} threads")
    every = _rate(markets, events, seconds)
    return {
        "name": "simulated market",
        "unit": f"order messages/s on one core, {markets.n} markets, {EVENTS_PER_STEP} events a step, all participants",
        "value": one,
        "peers": {},
        "ratios": {},
        "detail": {
            "steps a market stays in the cache": STEPS,
            "one core, every market one step at a time": single,
            f"{threads} threads": every,
            "threads against one": every / one,
            "broken markets": int(markets.broken.sum()),
        },
    }


def _rate(markets: Markets, events: Any, seconds: float) -> float:
    """Messages per wall second, the best of as many repeats as fit."""
    best, end = 0.0, time.perf_counter() + seconds
    while True:
        started = time.perf_counter()
        bars, _ = markets.run(len(events), events=events)
        best = max(best, float(bars["messages"].sum()) / (time.perf_counter() - started))
        if time.perf_counter() > end:
            return best


def _bench_cuda(*, seconds: float, books: int, say: Callable[[str], None]) -> dict[str, Any]:
    from se_rl.market.gpu import CudaMarkets

    say("warming up on the CPU")
    markets = Markets(books, MarketProfile(), warm_up_bars=10)
    say("comparing device and CPU")
    check = Markets(64, MarketProfile(), warm_up_bars=2)
    twin = Markets(64, MarketProfile(), warm_up_bars=2)
    CudaMarkets(check).run_and_return(5)
    twin.run(5, record=False)
    same = all(
        np.array_equal(a, b) for a, b in zip(check.copy_state(), twin.copy_state(), strict=True)
    )
    say("running on the device")
    device = CudaMarkets(markets)
    device.run(CUDA_BARS)
    best, end = 0.0, time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        started = time.perf_counter()
        device.run(CUDA_BARS)
        elapsed = time.perf_counter() - started
        best = max(best, float(device.messages().sum()) / elapsed)
    return {
        "name": "simulated market on CUDA",
        "unit": f"order messages/s, {books} markets, all participants",
        "value": best,
        "peers": {},
        "ratios": {},
        "detail": {
            "bars a call": CUDA_BARS,
            "events a bar": int(markets.events_per_bar[0]),
            "equal to the CPU bit for bit": same,
            "device": device.name,
        },
    }
