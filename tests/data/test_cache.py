"""The cache gives back what was stored, and nothing that was damaged."""

from __future__ import annotations

import multiprocessing
import struct
import zlib
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from se_rl.data.cache import cache_folder, cached
from se_rl.data.calendar import session_grid
from se_rl.data.market_data import MarketData, Provenance


def market(seed: int = 0) -> MarketData:
    grid = session_grid("XSHG", bar_minutes=15, label="end")
    close = 10 + np.random.default_rng(seed).random((2, 3, len(grid)))
    return MarketData(
        ("A", "B"),
        np.array([20250102, 20250103, 20250106], dtype=np.int32),
        grid,
        open=close.copy(),
        high=close + 1,
        low=close - 1,
        close=close,
        traded=np.ones(close.shape, dtype=bool),
        volume=close * 100,
        bid=close - 0.01,
        ask=close + 0.01,
        bid_sizes=np.ones((*close.shape, 2)),
        provenance=Provenance("m", sha256="ab", adjusted=False, notes=("one", "two")),
    )


def assert_same(left: MarketData, right: MarketData) -> None:
    for f in fields(MarketData):
        a, b = getattr(left, f.name), getattr(right, f.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "c"))
    return tmp_path / "c"


def refuse() -> MarketData:
    raise AssertionError("built again")


def test_the_folder_is_the_variable_or_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == folder
    monkeypatch.delenv("SE_RL_CACHE")
    monkeypatch.setenv("HOME", "/nowhere")
    assert cache_folder() == Path("/nowhere/.cache/se-rl")


def test_an_entry_comes_back_equal_and_read_only(folder: Path) -> None:
    first = cached("k", market)
    again = cached("k", refuse)
    assert_same(first, market())
    assert_same(again, market())
    assert not first.close.flags.writeable and not again.close.flags.writeable
    assert len(list(folder.iterdir())) == 1


def test_keys_do_not_mix(folder: Path) -> None:
    cached("k", market)
    assert_same(cached("other", lambda: market(1)), market(1))


@pytest.mark.parametrize("where", [0, 9, 14, 40, 0.3, 0.7, -1])
def test_a_flipped_byte_is_found_and_the_entry_rebuilt(folder: Path, where: float) -> None:
    cached("k", market)
    (entry,) = folder.iterdir()
    content = bytearray(entry.read_bytes())
    content[int(where * len(content)) if isinstance(where, float) else where] ^= 0x10
    entry.write_bytes(content)
    assert_same(cached("k", lambda: market(7)), market(7))
    assert_same(cached("k", refuse), market(7))


@pytest.mark.parametrize("length", [0, 5, 19, 20, 300, -1])
def test_a_cut_entry_is_rebuilt(folder: Path, length: int) -> None:
    cached("k", market)
    (entry,) = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:length])
    assert_same(cached("k", lambda: market(7)), market(7))


def test_a_well_formed_entry_of_another_kind_is_rebuilt(folder: Path) -> None:
    cached("k", market)
    (entry,) = folder.iterdir()
    header = (
        b'{"symbols": ["A"], "arrays": [{"name": "open", "dtype": "O", "shape": [1], "offset": 0}]}'
    )
    entry.write_bytes(
        struct.pack("<8sIQ", b"se-rl\x00md", zlib.crc32(header), len(header)) + header
    )
    assert_same(cached("k", market), market())


def test_an_unwritable_folder_means_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "file" / "below"))
    assert_same(cached("k", market), market())
    assert (tmp_path / "file").read_text() == "x"


def test_no_temporary_file_stays_when_writing_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    assert_same(cached("k", market), market())
    assert list(folder.iterdir()) == []


def write_often(rounds: int) -> None:
    for n in range(rounds):
        assert_same(cached(f"k{n % 3}", partial(market, n % 3)), market(n % 3))
        if n % 5 == 4:
            for entry in cache_folder().glob("*.bars"):
                entry.unlink(missing_ok=True)


def test_two_processes_may_write_the_same_entries(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_often, args=(40,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert not list(folder.glob("*.part"))
