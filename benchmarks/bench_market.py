"""`se-rl bench market`: order messages per second of whole markets with all their participants."""

from __future__ import annotations

import time

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets
from se_rl_benchmarks.timing import Measurement, Say, silent

BOOKS = 4096
EVENTS_PER_STEP = 32
STEPS = 40
CUDA_BOOKS = 131_072
CUDA_BARS = 10


def bench_market(
    *, device: str = "cpu", seconds: float = 2.0, books: int | None = None, say: Say = silent
) -> Measurement:
    """Markets at 32 events a step on one core, in blocks and step by step, and on all threads.

    With device "cuda", all of them run on the GPU instead.
    """
    if device == "cuda":
        return _bench_cuda(seconds=seconds, books=books or CUDA_BOOKS, say=say)
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
    size = f"{markets.n} markets, {EVENTS_PER_STEP} events a step"
    return Measurement(
        name="simulated market",
        unit=f"order messages/s on one core, {size}, all participants",
        value=one,
        detail={
            "steps a market stays in the cache": STEPS,
            "one core, every market one step at a time": single,
            f"{threads} threads": every,
            "threads against one": every / one,
            "broken markets": int(markets.broken.sum()),
        },
    )


def _rate(markets: Markets, events: npt.NDArray[np.int64], seconds: float) -> float:
    """Messages per wall second, the best of as many repeats as fit."""
    best = 0.0
    end = time.perf_counter() + seconds
    while True:
        started = time.perf_counter()
        bars, _ = markets.run(len(events), events=events)
        best = max(best, float(bars["messages"].sum()) / (time.perf_counter() - started))
        if time.perf_counter() > end:
            return best


def _bench_cuda(*, seconds: float, books: int, say: Say) -> Measurement:
    """All markets on the GPU, after a check that it computes what the CPU does."""
    from se_rl.market.gpu import CudaMarkets

    say("comparing device and CPU")
    same = _cuda_equals_cpu()
    say("running on the device")
    markets = Markets(books, MarketProfile(), warm_up_bars=0)
    device = CudaMarkets(markets)
    device.run(CUDA_BARS)  # fills the books
    device.run(CUDA_BARS)
    best = 0.0
    end = time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        started = time.perf_counter()
        device.run(CUDA_BARS)
        elapsed = time.perf_counter() - started
        best = max(best, float(device.messages().sum()) / elapsed)
    return Measurement(
        name="simulated market on CUDA",
        unit=f"order messages/s, {books} markets, all participants",
        value=best,
        detail={
            "bars a call": CUDA_BARS,
            "events a bar": int(markets.events_per_bar[0]),
            "equal to the CPU bit for bit": same,
            "device": device.name,
        },
    )


def _cuda_equals_cpu() -> bool:
    """Whether 64 markets end in the same state on the device and on the CPU."""
    from se_rl.market.gpu import CudaMarkets

    on_device = Markets(64, MarketProfile(), warm_up_bars=2)
    on_cpu = Markets(64, MarketProfile(), warm_up_bars=2)
    CudaMarkets(on_device).run_and_return(5)
    on_cpu.run(5, record=False)
    pairs = zip(on_device.copy_state(), on_cpu.copy_state(), strict=True)
    return all(np.array_equal(theirs, ours) for theirs, ours in pairs)
