"""`se-rl bench book`: messages per second of the order book, beside a plain C++ ladder on the same stream."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.bench_peers import HFTBACKTEST, replay_hftbacktest
from se_rl.market.book import CPU, MESSAGE_FIELDS, Books

LADDER_SOURCE = Path(__file__).parents[3] / "benchmarks" / "ladder.cpp"
MESSAGES, CENTRE_TICKS, MOST_LIVE = 1_000_000, 256, 160
MANY = 256
_limit, _market, _cancel = CPU.limit, CPU.market, CPU.cancel


class Replay(NamedTuple):
    """What one replay of a stream gave, and the CPU seconds of the fastest."""

    seconds: float
    trades: int
    volume: int
    live: int


def bench_book(
    *, seconds: float = 2.0, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """One book on one core without the trade log, beside the peers found here; threads and log as detail.

    The caller adds `machine`.
    """
    say("making the stream")
    stream = message_stream(MESSAGES, seed=7)
    say("our book")
    ours = replay(stream, seconds=seconds)
    say("C++ ladder")
    peer = replay_cpp(stream)
    say("hftbacktest")
    depth = replay_hftbacktest(stream)
    logged = replay(stream, seconds=seconds / 2, log=MESSAGES)
    say("many books on all threads")
    streams = np.stack([message_stream(MESSAGES // MANY, seed=seed) for seed in range(MANY)])
    one, all_threads = (
        _wall_rate(streams, seconds=seconds / 2, parallel=parallel) for parallel in (False, True)
    )
    rate, peers = len(stream) / ours.seconds, {}
    if isinstance(peer, Replay):
        peers["C++ ladder, -O3 -march=native"] = len(stream) / peer.seconds
        peer = (
            "equal trades, volume, resting"
            if peer[1:] == ours[1:]
            else f"differs: {list(peer[1:])}"
        )
    if isinstance(depth, float):
        peers[HFTBACKTEST] = depth
        depth = "equal touch; updates/s, where ours are messages/s with matching"
    kinds = np.bincount(stream[:, 0], minlength=5) / len(stream)
    return {
        "name": "order book",
        "unit": "messages/s on one core, one book, owners' accounts kept, trade log off",
        "value": rate,
        "peers": peers,
        "ratios": {name: rate / value for name, value in peers.items()},
        "detail": {
            "stream": f"{kinds[at.LIMIT]:.0%} limit, {kinds[at.CANCEL]:.0%} cancel, {kinds[at.MARKET]:.0%} market",
            "trades, volume, resting": list(ours[1:]),
            "C++": peer,
            "hftbacktest": depth,
            "with the trade log": len(stream) / logged.seconds,
            f"{MANY} books, one thread": one,
            f"{MANY} books, {nb.get_num_threads()} threads": all_threads,
            "threads against one": all_threads / one,
        },
    }


def replay(stream: npt.NDArray[np.int32], *, seconds: float, log: int = 0) -> Replay:
    """Replay through our book as often as fits; the messages' checks and the accounts are inside the clock."""
    books = Books(1, log=log, ids=len(stream))
    best = _fastest(books, stream, seconds=seconds, clock=time.process_time)
    return Replay(best, *(int(books.total(field)[0]) for field in (at.TRADES, at.VOLUME, at.LIVE)))


def replay_cpp(stream: npt.NDArray[np.int32], *, repeats: int = 15) -> Replay | str:
    """The same stream through the C++ ladder, compiled now; or why that cannot be done here."""
    compiler = shutil.which("g++")
    if compiler is None:
        return "not measured: g++ is not installed"
    if not LADDER_SOURCE.is_file():
        return "not measured: benchmarks/ladder.cpp is not here; run from the repository"
    with tempfile.TemporaryDirectory() as folder:
        program, data = Path(folder) / "ladder", Path(folder) / "stream"
        stream.tofile(data)
        built = subprocess.run(
            [
                compiler,
                "-O3",
                "-march=native",
                "-std=c++17",
                str(LADDER_SOURCE),
                "-o",
                str(program),
            ],
            capture_output=True,
            text=True,
        )
        if built.returncode:
            return f"not measured: g++ failed ({built.stderr.splitlines()[0]})"
        command = [str(program), str(data), str(len(stream)), str(repeats)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Replay(float(answer[0]), *(int(number) for number in answer[1:]))


def message_stream(n: int, *, seed: int) -> npt.NDArray[np.int32]:
    """int32[n, 6]: about 56 % limit, 32 % cancel and 12 % market messages around a wandering price, 80-160 resting.

    Every cancel names a resting order; prices stay near CENTRE_TICKS, so that a ladder of 512 prices holds them.
    """
    rng, book = np.random.default_rng(seed), Books(1, orders=512, log=0).book
    draws = rng.random((n, 6))
    draws[:, 4] = rng.exponential(4.0, n)  # ticks from the touch
    steps = rng.normal(0.0, 0.03, n)
    messages = np.zeros((n, len(MESSAGE_FIELDS)), np.int32)
    _write_stream(book, draws, steps, messages)
    return messages


def _make_writer(source_hash: int) -> Callable[..., None]:
    """Chooses each message by the book that those before it have left; the hash is for numba's cache (make_kernel)."""

    @nb.njit(cache=True)
    def write(book, draws, steps, messages):  # type: ignore[no-untyped-def]
        _ = source_hash
        fair, resting = float(CENTRE_TICKS), np.zeros(book.orders.shape[1], np.int64)
        for m in range(len(messages)):
            fair += steps[m] + 0.0005 * (CENTRE_TICKS - fair)
            live, what, side = book.meta[0, at.LIVE], draws[m, 0], int(draws[m, 1] * 2)
            cancels = 0.6 if live > MOST_LIVE else 0.42 if live > MOST_LIVE // 2 else 0.2
            two_sided = book.meta[0, at.TOUCH] != at.FAR and book.meta[0, at.TOUCH + 1] != at.FAR
            ident, price, size = m, 0, 0
            if what < cancels and live > 0:
                found = 0
                for slot in range(len(resting)):
                    if book.orders[0, slot, at.QUANTITY] > 0:
                        resting[found] = slot
                        found += 1
                slot = resting[int(draws[m, 2] * found)]
                kind, side, ident = (
                    at.CANCEL,
                    int(book.orders[0, slot, at.SIDE]),
                    int(book.orders[0, slot, at.ID]),
                )
                _cancel(book, 0, slot, 0)
            elif what > 0.88 and two_sided:
                kind, size = at.MARKET, 1 + int(draws[m, 3] * 40)
                _market(book, 0, side, size, 0, m)
            else:
                away = 1 + int(draws[m, 4]) - (1 if draws[m, 5] < 0.08 else 0)
                kind, size, price = (
                    at.LIMIT,
                    1 + int(draws[m, 3] * 20),
                    round(fair) - (1 - 2 * side) * away,
                )
                _limit(book, 0, side, price, size, 0, m)
            messages[m] = (kind, side, price, size, 0, ident)

    return write


_write_stream = _make_writer(CPU.source_hash)


def _wall_rate(streams: npt.NDArray[np.int32], *, seconds: float, parallel: bool) -> float:
    """Messages per wall-clock second of many books, each with a stream of its own."""
    many, length, _ = streams.shape
    books = Books(many, log=0, ids=length)
    return (
        many
        * length
        / _fastest(books, streams, seconds=seconds, clock=time.perf_counter, parallel=parallel)
    )


def _fastest(
    books: Books,
    stream: npt.NDArray[np.int32],
    *,
    seconds: float,
    clock: Callable[[], float],
    parallel: bool = False,
) -> float:
    """The shortest time of a replay, of as many as fit; emptying the books between them is not timed."""
    books.apply(stream[..., :1, :], parallel=parallel)  # compiles, or loads the machine code
    best, end = np.inf, time.perf_counter() + seconds
    while best == np.inf or time.perf_counter() < end:
        books.reset()
        started = clock()
        books.apply(stream, parallel=parallel)
        best = min(best, clock() - started)
    return best
