"""The simulation of large clusters, where it can be computed by hand."""

from __future__ import annotations

import math

import pytest

from se_rl.records.settings import preset
from se_rl_benchmarks import scale
from se_rl_benchmarks.virtual_time import Clock, Server, when_all

FREE = scale.ServiceTimes(
    work_unit=1.0, variation=0.0, writing=0.0, checking=0.0, handing=0.0, storing=0.0
)


@pytest.fixture(autouse=True)
def lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "HOURS_TO_LOSS", math.inf)


def test_work_waits_for_a_place_and_every_kind_is_counted() -> None:
    clock, ends = Clock(), list[float]()
    server = Server(clock, places=2)
    last = when_all(3, lambda: ends.append(clock.now))
    for kind, seconds in (("a", 4.0), ("b", 1.0), ("b", 2.0)):
        server.serve(kind, seconds, last)
    clock.run()
    assert ends == [4.0] and server.spent == {"a": 4.0, "b": 3.0}
    assert server.share() == 7.0 / 8.0 and server.share("b") == 3.0 / 8.0


def test_workers_wait_for_the_ends_of_batches_and_for_nothing_else() -> None:
    rungs = preset(scale.PRESET).rungs
    screens, races = 10 * rungs.screen.seeds, 2 * rungs.search.seeds
    plan = scale.SearchPlan("exact", screens, 1, 10, 2)
    found = scale.simulate(plan, FREE)
    assert found.workers_busy == pytest.approx((screens + races) / (2 * screens))
    assert found.first_bottleneck == "ends of batches"


def test_a_slow_archive_sets_the_pace_of_all_searches() -> None:
    slow = scale.ServiceTimes(**{**vars(FREE), "storing": 100.0})
    found = scale.simulate(scale.SearchPlan("slow", 500, 8, 16, 4), slow)
    assert found.first_bottleneck == scale.STORING
    assert found.evaluations_per_second == pytest.approx(1 / 100.0, rel=0.02)
