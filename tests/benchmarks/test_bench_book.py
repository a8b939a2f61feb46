"""The benchmark's stream, and that both books which are timed on it do the same work."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest

from se_rl.market import price_levels as at
from se_rl.market.book import Books
from se_rl_benchmarks.bench_book import bench_book, replay, replay_cpp
from se_rl_benchmarks.book_peers import depth_updates, replay_hftbacktest
from se_rl_benchmarks.book_stream import message_stream


def test_the_stream_has_its_mix_and_its_seed() -> None:
    stream = message_stream(50_000, seed=3)
    limit, _, market, cancel, _ = np.bincount(stream[:, 0], minlength=5) / len(stream)
    assert (limit, cancel, market) == pytest.approx((0.56, 0.32, 0.12), abs=0.02)
    np.testing.assert_array_equal(stream, message_stream(50_000, seed=3))
    assert not np.array_equal(stream, message_stream(50_000, seed=4))
    ours = replay(stream, seconds=0)
    assert 60 < ours.live < 200
    placed = stream[stream[:, 0] == at.LIMIT, 5]
    assert np.isin(stream[stream[:, 0] == at.CANCEL, 5], placed).all()


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_cpp_gives_the_same_trades_volume_and_resting_orders() -> None:
    stream = message_stream(200_000, seed=5)
    theirs = replay_cpp(stream, repeats=1)
    assert not isinstance(theirs, str), theirs
    assert replay(stream, seconds=0)[1:] == theirs[1:]
    assert theirs.trades > 20_000


def test_the_depth_updates_lead_to_our_depth_and_never_cross() -> None:
    stream = message_stream(3_000, seed=6)
    for n in (1, 500, 3_000):
        books, totals = Books(1, log=0, ids=n), np.zeros((2, 512), np.int64)
        books.apply(stream[:n])
        for side, price, quantity in depth_updates(stream[:n]):
            assert totals[side, price] != quantity  # an update changes something
            totals[side, price] = quantity
            bids, asks = (np.flatnonzero(row) for row in totals)
            assert not len(bids) or not len(asks) or bids[-1] < asks[0]
        ours = np.zeros_like(totals)
        for side, depth in enumerate(books.depth(100)[0]):
            ours[side, depth[:, 0]] = depth[:, 1]
        np.testing.assert_array_equal(totals, ours)


def test_hftbacktest_ends_at_our_touch() -> None:
    pytest.importorskip("hftbacktest")
    assert isinstance(replay_hftbacktest(message_stream(20_000, seed=8), repeats=1), float)


def test_without_compiler_and_hftbacktest_the_reasons_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setitem(sys.modules, "hftbacktest", None)
    result = bench_book(seconds=0)
    assert result.peers == {} and "g++ is not installed" in str(result.detail["C++"])
    assert result.detail["hftbacktest"] == "not measured: hftbacktest is not installed"
    assert result.value > 0 and result.name == "order book"
