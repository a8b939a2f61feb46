"""src keeps the house's limits; `python benchmarks/house.py --list` names what breaks one."""

from __future__ import annotations

import pytest

from se_rl_benchmarks.house import Measure, measures, read_package


@pytest.mark.parametrize("measure", measures(read_package()), ids=lambda measure: measure.name)
def test_limit_is_kept(measure: Measure) -> None:
    offenders = "\n".join(measure.offenders[:40])
    assert measure.ok, f"{measure.name}: {measure.value:.4g}, limit {measure.limit}\n{offenders}"
