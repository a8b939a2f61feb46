"""The seal of a run: stored first, published last, and in no process in which a design runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from se_rl.config import ConfigError
from se_rl.core.framework import SERLConfig
from se_rl.core.preparation import run_seal
from se_rl.core.run import Run, run_search
from se_rl.data import catalog
from se_rl.data.catalog import load_dataset
from se_rl.data.synthetic import SyntheticConfig
from se_rl.executors.training_settings import train_config, training_worlds_of
from se_rl.records.archive import Archive
from se_rl.records.jobs import TrainingJob
from se_rl.records.order_details import SimulatedReplay
from se_rl.records.plain import from_plain
from se_rl.records.results_file import read_results
from se_rl.records.run_folder import RunFolder
from se_rl.sandbox.lockdown import isolation_level
from se_rl.scoring import validation
from se_rl.scoring.validation import HISTORY_ORDERS, LAST_RUNG_MARKETS, SEARCH_MARKETS, TEST_MARKETS
from se_rl.seal import Seal, seal_digest, sealed_seed

TINY: Any = import_module("tiny_run")
SECRET = "5f3a90c1d47be2268a0b96e4c7d1f835"
locked = pytest.mark.skipif(
    not isolation_level().enough, reason="no sandbox is to be had on this machine"
)


@pytest.fixture(autouse=True)
def small_universe(private_cache: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A universe that is quickly made, in a home of its own."""
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    config = SyntheticConfig(symbols=4, sessions=24, seed=4, bar_minutes=5)
    monkeypatch.setitem(catalog.UNIVERSES, "small", config)


def new_run(folder: Path, **changes: Any) -> Run:
    place = RunFolder(folder)
    folder.mkdir(parents=True)
    archive = Archive.open(place.archive, blobs=place.blobs)
    return Run(TINY.tiny_config(**{"data": "small", **changes}), place, archive, workers=1)


def test_a_seal_is_stored_before_it_is_used_and_found_again(tmp_path: Path) -> None:
    with Archive.open(tmp_path / "a.sqlite") as archive:
        drawn = run_seal(TINY.tiny_config(seal=None), archive)
        assert drawn.origin == "drawn" and archive.events()[0].kind == "seal"
        assert run_seal(TINY.tiny_config(seal=None), archive) == drawn
    with Archive.open(tmp_path / "b.sqlite") as archive:
        assert run_seal(TINY.tiny_config(seal="x"), archive) == Seal("x", "given")
    with Archive.open(tmp_path / "older.sqlite") as archive:
        archive.append("run_started", "run_started", {})
        with pytest.raises(ConfigError, match="has no seal: an older se-rl began it; finish"):
            run_seal(TINY.tiny_config(seal="x"), archive)
    with Archive.open(tmp_path / "forged.sqlite") as archive:
        archive.append("seal", "seal", {"text": ["x"], "origin": "drawn"})
        with pytest.raises(ConfigError, match="printable characters"):
            run_seal(TINY.tiny_config(), archive)


def test_the_framework_takes_a_seal() -> None:
    assert SERLConfig(seal="again").run.seal == "again" and SERLConfig().run.seal is None


def test_what_is_sealed_follows_from_the_seal_and_the_rest_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [new_run(tmp_path / str(n), seal=seal) for n, seal in enumerate(("one", "one", "two"))]
    one, again, two = runs
    rungs = one.config.rungs
    seeds = []
    made = SimpleNamespace(name="dynamic")
    monkeypatch.setattr(
        validation, "SimulatedOrders", lambda *_, seed, **__: seeds.append(seed) or made
    )
    for run in runs:
        for rung in (rungs.screen, rungs.search, rungs.last):
            run.training_pool.validation._episodes(rung)
    assert seeds[:2] == seeds[2:4] and len(set(seeds)) == 4, "search and last rung, by seal"
    assert one.facts["train_sha256"] == two.facts["train_sha256"]
    assert one.facts["sha256"] == again.facts["sha256"] != two.facts["sha256"]
    job = TrainingJob(one.search.default, rungs.screen, 0)
    keys = [run.training_pool.key(job) for run in runs]
    assert keys[0] == keys[1] != keys[2]
    for run in runs:
        run.close()
        run.archive.close()


def test_the_orders_that_are_scored_on_depend_on_the_seal_in_every_world(tmp_path: Path) -> None:
    TINY.make_data(tmp_path / "home")
    for worlds in ("both", "static"):
        keys = []
        for seal in ("one", "two"):
            run = new_run(tmp_path / worlds / seal, data=TINY.DATA, seal=seal, worlds=worlds)
            job = TrainingJob(run.search.default, run.config.rungs.screen, 0)
            keys.append(run.training_pool.key(job))
            run.close()
            run.archive.close()
        assert keys[0] != keys[1]


# what a worker holds


def descendants(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from descendants(int(child))


def memory_of(pid: int) -> Iterator[bytes]:
    """What a process has in memory of its own or shares, with its command line and environment."""
    for name in ("cmdline", "environ"):
        yield Path(f"/proc/{pid}/{name}").read_bytes()
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, _, _, inode, *_ = line.split()
            start, end = (int(edge, 16) for edge in span.split("-"))
            if rights[0] != "r" or (inode != "0" and rights[1] != "w" and "memfd" not in line):
                continue  # files on the disk, as they are there
            for place in range(start, end, 64 << 20):
                try:
                    memory.seek(place)
                    yield memory.read(min(64 << 20, end - place))
                except (OSError, ValueError, OverflowError):  # no memory behind it
                    break


def found_in(pids: list[int], texts: dict[str, bytes], words: dict[str, bytes]) -> set[str]:
    """Which texts, and which words of 8 bytes (at multiples of 4), these processes hold."""
    values = {int(np.frombuffer(word, np.uint64)[0]): name for name, word in words.items()}
    wanted = np.array(list(values), np.uint64)
    likely = np.zeros(1 << 16, np.bool_)
    likely[_middle(wanted)] = True
    found = set()
    for pid in pids:
        for region in memory_of(pid):
            found |= {name for name, text in texts.items() if text in region}
            for shift in (0, 4):
                rest = region[shift:]
                there = np.frombuffer(rest[: len(rest) // 8 * 8], np.uint64)
                there = there[likely[_middle(there)]]
                found |= {values[int(value)] for value in there[np.isin(there, wanted)]}
    return found


def _middle(words: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return (words >> np.uint64(24)) & np.uint64(0xFFFF)


def seed_words() -> dict[str, bytes]:
    """The sealed seeds and their generators' increments, half of each."""
    needles = {}
    for purpose in (
        HISTORY_ORDERS,
        SEARCH_MARKETS,
        LAST_RUNG_MARKETS,
        TEST_MARKETS,
        "days of XNYS, seed 4",
    ):
        seed = sealed_seed(SECRET, purpose)
        needles[purpose] = seed.to_bytes(16, "little")[:8]
        state = np.random.default_rng((seed, 0)).bit_generator.state["state"]
        needles[f"{purpose}, increment"] = int(state["inc"]).to_bytes(16, "little")[:8]
    return needles


def bar_words(split: str) -> dict[str, bytes]:
    """A price, and two as short numbers, of every day and symbol of a split."""
    close = load_dataset("small", seal=SECRET).split(split).close  # [symbol, day, bar]
    needles = {}
    for place in np.ndindex(close.shape[:2]):
        needles[f"{split} {place}"] = close[place][20:21].tobytes()
        needles[f"{split} short {place}"] = close[place][20:22].astype(np.float32).tobytes()
    return needles


@locked
def test_neither_the_seal_nor_a_sealed_day_is_in_a_process_that_trains(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", seal=SECRET)
    try:
        trainer = run.training_pool.sandbox.trainer
        long = TINY.tiny_config(work=20.0)  # still under way when its memory is searched
        call = trainer.start(
            {},
            training_worlds=training_worlds_of(run.config),
            config=train_config(long, long.rungs.last),
            seed=0,
            neutral=run.markets.neutral(),
        )
        time.sleep(2.0)
        pids = list(descendants(trainer.sandbox.pid))
        assert len(pids) >= 2, "the server and the training"
        try:
            next(iter(memory_of(pids[-1])))
        except PermissionError:
            pytest.skip("the memory of other processes cannot be read on this machine")
        texts = {"text": SECRET.encode(), "wide text": SECRET.encode("utf-32-le")}
        texts["digest"] = seal_digest(SECRET).encode()
        sealed = seed_words() | bar_words("valid") | bar_words("test")
        train = bar_words("train")
        found = found_in(pids, texts, sealed | train)
        assert not found & {*texts, *sealed}
        prices = {name for name in train if "short" not in name}
        assert prices <= found, "the search finds what is there"
        call.close()
    finally:
        run.close()
        run.archive.close()


@locked
def test_the_seal_is_published_with_the_results_and_repeats_the_run(tmp_path: Path) -> None:
    small = {"data": "small", "seeds": (1, 1, 1), "iterations": 1, "siblings": 3}
    drawn = TINY.tiny_config(**small, seal=None)
    first = run_search(drawn, tmp_path / "first", workers=2)
    assert first.seal.origin == "drawn" and len(first.seal.text) == 32
    page = (tmp_path / "first" / "report.html").read_text()
    assert f"drawn: {first.seal.text}" in page
    assert read_results(tmp_path / "first" / "results.json").seal == first.seal
    _look_at_the_simulated_orders(tmp_path / "first", page)
    config = (tmp_path / "first" / "config.yaml").read_text()
    assert "seal: null" in config
    again = run_search(
        TINY.tiny_config(**small, seal=first.seal.text), tmp_path / "again", workers=2
    )
    assert again.seal.origin == "given" and again.seal.text == first.seal.text
    assert again.final_metrics == first.final_metrics and again.by_day == first.by_day
    assert json.dumps(_scores(tmp_path / "again")) == json.dumps(_scores(tmp_path / "first"))
    with pytest.raises(ConfigError, match="began with seal null and is now given"):
        run_search(TINY.tiny_config(**small, seal="other"), tmp_path / "first", workers=2)


def _look_at_the_simulated_orders(folder: Path, page: str) -> None:
    """Every design that was held best has one order in its book to look at."""
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        stored = [event.payload for event in archive.events("simulated_order")]
        held = {event.payload["candidate"] for event in archive.events("execution")}
    replays = [from_plain(SimulatedReplay, payload) for payload in stored]
    assert replays and {replay.candidate for replay in replays} == held
    for replay in replays:
        assert sum(replay.traded) == pytest.approx(1.0, abs=1e-3) and replay.impact[0] == 0.0
    assert "One simulated order in its book" in page


def _scores(folder: Path) -> list[Any]:
    """What every training scored."""
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        return sorted([e.candidate, e.rung, e.seed, e.arrays] for e in archive.evaluations())
