"""`se-rl bench book`: messages per second of the order book, beside a plain C++ ladder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.book import Books
from se_rl_benchmarks.book_peers import HFTBACKTEST, replay_hftbacktest
from se_rl_benchmarks.book_stream import message_stream
from se_rl_benchmarks.timing import Measurement, Say, ratios_to, silent

LADDER_SOURCE = Path(__file__).parent / "ladder.cpp"
LADDER = "C++ ladder, -O3 -march=native"
MESSAGES = 1_000_000
MANY = 256


class Replay(NamedTuple):
    """What one replay of a stream gave, and the CPU seconds of the fastest."""

    seconds: float
    trades: int
    volume: int
    live: int


def bench_book(*, seconds: float = 2.0, say: Say = silent) -> Measurement:
    """One book on one core without the trade log, beside the peers that are installed here.

    Many books on all threads, and one book with its log, stand in the detail.
    """
    say("making the stream")
    stream = message_stream(MESSAGES, seed=7)
    say("our book")
    ours = replay(stream, seconds=seconds)
    say("C++ ladder")
    ladder = replay_cpp(stream)
    say("hftbacktest")
    depth = replay_hftbacktest(stream)
    logged = replay(stream, seconds=seconds / 2, log=MESSAGES)
    say("many books on all threads")
    streams = np.stack([message_stream(MESSAGES // MANY, seed=seed) for seed in range(MANY)])
    one = _wall_rate(streams, seconds=seconds / 2, parallel=False)
    all_threads = _wall_rate(streams, seconds=seconds / 2, parallel=True)
    rate = len(stream) / ours.seconds
    peers: dict[str, float] = {}
    if isinstance(ladder, Replay):
        peers[LADDER] = len(stream) / ladder.seconds
        same = ladder[1:] == ours[1:]
        ladder = "equal trades, volume, resting" if same else f"differs: {list(ladder[1:])}"
    if isinstance(depth, float):
        peers[HFTBACKTEST] = depth
        depth = "equal touch; updates/s, where ours are messages/s with matching"
    return Measurement(
        name="order book",
        unit="messages/s on one core, one book, owners' accounts kept, trade log off",
        value=rate,
        peers=peers,
        ratios=ratios_to(rate, peers),
        detail={
            "stream": _mix(stream),
            "trades, volume, resting": list(ours[1:]),
            "C++": ladder,
            "hftbacktest": depth,
            "with the trade log": len(stream) / logged.seconds,
            f"{MANY} books, one thread": one,
            f"{MANY} books, {nb.get_num_threads()} threads": all_threads,
            "threads against one": all_threads / one,
        },
    )


def replay(stream: npt.NDArray[np.int32], *, seconds: float, log: int = 0) -> Replay:
    """Replay a stream through our book as often as fits.

    The clock includes checking the messages and keeping the accounts.
    """
    books = Books(1, log=log, ids=len(stream))
    best = _fastest(books, stream, seconds=seconds, clock=time.process_time)
    trades = int(books.total(at.TRADES)[0])
    volume = int(books.total(at.VOLUME)[0])
    return Replay(best, trades, volume, int(books.total(at.LIVE)[0]))


def replay_cpp(stream: npt.NDArray[np.int32], *, repeats: int = 15) -> Replay | str:
    """The same stream through the C++ ladder, compiled now; or why that is not possible here."""
    compiler = shutil.which("g++")
    if compiler is None:
        return "not measured: g++ is not installed"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ladder"
        data = Path(folder) / "stream"
        stream.tofile(data)
        flags = ["-O3", "-march=native", "-std=c++17"]
        build = [compiler, *flags, str(LADDER_SOURCE), "-o", str(program)]
        built = subprocess.run(build, capture_output=True, text=True)
        if built.returncode:
            return f"not measured: g++ failed ({built.stderr.splitlines()[0]})"
        command = [str(program), str(data), str(len(stream)), str(repeats)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    seconds, trades, volume, live = answer
    return Replay(float(seconds), int(trades), int(volume), int(live))


def _mix(stream: npt.NDArray[np.int32]) -> str:
    """The shares of the kinds of messages, in words."""
    share = np.bincount(stream[:, 0], minlength=5) / len(stream)
    limit = f"{share[at.LIMIT]:.0%} limit"
    return f"{limit}, {share[at.CANCEL]:.0%} cancel, {share[at.MARKET]:.0%} market"


def _wall_rate(streams: npt.NDArray[np.int32], *, seconds: float, parallel: bool) -> float:
    """Messages per wall-clock second of many books, each with a stream of its own."""
    many, length, _ = streams.shape
    books = Books(many, log=0, ids=length)
    fastest = _fastest(books, streams, seconds=seconds, clock=time.perf_counter, parallel=parallel)
    return many * length / fastest


def _fastest(
    books: Books,
    stream: npt.NDArray[np.int32],
    *,
    seconds: float,
    clock: Callable[[], float],
    parallel: bool = False,
) -> float:
    """The shortest time of a replay, of as many as fit; emptying the books is not timed."""
    books.apply(stream[..., :1, :], parallel=parallel)  # compiles, or loads the machine code
    best = np.inf
    end = time.perf_counter() + seconds
    while best == np.inf or time.perf_counter() < end:
        books.reset()
        started = clock()
        books.apply(stream, parallel=parallel)
        best = min(best, clock() - started)
    return best
