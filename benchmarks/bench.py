"""`se-rl bench`: speeds on this machine, beside peers in the same run.

Ratios carry over to other machines; absolute figures do not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from se_rl_benchmarks.timing import Machine, Measurement, Say, silent

BENCHES = ("book", "market", "outside", "env", "ppo", "sandbox", "llm")


@dataclass(frozen=True)
class BenchOptions:
    """What a caller may choose; each benchmark reads the fields that concern it."""

    seconds: float = 2.0
    device: str = "cpu"
    books: int | None = None
    model: str = "smollm2"
    designs: int = 32
    repairs: int = 3
    episodes: int | None = None


def run_bench(
    what: str, options: BenchOptions | None = None, *, say: Say = silent
) -> dict[str, Any]:
    """Run one benchmark by name and return it as JSON, with the machine it ran on."""
    measurement = measure(what, options or BenchOptions(), say=say)
    return asdict(measurement) | {"machine": asdict(Machine.here())}


def measure(what: str, options: BenchOptions, *, say: Say) -> Measurement:
    """Run one of BENCHES; each is imported when it runs: some need torch, some compile kernels."""
    seconds = options.seconds
    if what == "env":
        from se_rl_benchmarks.bench_env import bench_env

        return bench_env(seconds=seconds, say=say)
    if what == "outside":
        from se_rl_benchmarks.bench_outside import EPISODES, bench_outside

        return bench_outside(episodes=options.episodes or EPISODES, say=say)
    if what == "book":
        from se_rl_benchmarks.bench_book import bench_book

        return bench_book(seconds=seconds, say=say)
    if what == "ppo":
        from se_rl_benchmarks.bench_ppo import bench_ppo

        return bench_ppo(seconds=seconds, say=say)
    if what == "llm":
        from se_rl_benchmarks.bench_llm import bench_llm

        return bench_llm(options.model, n=options.designs, tries=options.repairs, say=say)
    if what == "sandbox":
        from se_rl_benchmarks.bench_sandbox import bench_sandbox

        return bench_sandbox(seconds=seconds, say=say)
    if what == "market":
        from se_rl_benchmarks.bench_market import bench_market

        return bench_market(device=options.device, seconds=seconds, books=options.books, say=say)
    raise ValueError(f"benchmark {what!r} is unknown; use {', '.join(BENCHES)}")
