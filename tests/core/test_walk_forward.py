"""A walk forward pools blocks by days, and needs a run whose design it can train anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from se_rl.baselines.settings import BaselinesConfig
from se_rl.config import ConfigError
from se_rl.core import walk_forward
from se_rl.core.walk_forward import walk_design_forward


def test_a_place_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder of a run") as error:
        walk_design_forward(tmp_path, BaselinesConfig(), blocks=2)
    assert "\n" not in str(error.value)


def test_blocks_are_pooled_with_days_as_clusters() -> None:
    rng = np.random.default_rng(1)
    date = np.repeat(np.arange(12, dtype=np.int32), 5)
    whole, specific = rng.normal(size=60), rng.normal(size=60)
    parts = []
    for days in (date < 4, date >= 4):
        parts.append({"m": walk_forward._Gains(whole[days], specific[days], date[days])})
    row = walk_forward._pooled(parts)["m"]
    by_day = whole.reshape(12, 5).mean(axis=1)
    assert row.over_TWAP.mean == pytest.approx(by_day.mean())
    assert row.over_TWAP.se == pytest.approx(by_day.std(ddof=1) / np.sqrt(12))
    assert row.over_TWAP_specific.mean == pytest.approx(specific.mean())
