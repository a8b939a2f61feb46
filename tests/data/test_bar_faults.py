"""The one check of bars that a function made, fault by fault."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from se_rl.data.bar_faults import FaultKind, bar_fault

GOOD = np.tile([10.0, 11.0, 9.0, 10.5, 100.0], (2, 4, 1))


def changed(column: int, value: float) -> npt.NDArray[np.float64]:
    bars = GOOD.copy()
    bars[1, 2:, column] = value
    return bars


def test_bars_of_a_market_have_no_fault() -> None:
    assert bar_fault(GOOD) is None and bar_fault(GOOD.astype(np.float32)) is None


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        (3, np.nan, "not finite"),
        (4, np.inf, "not finite"),
        (2, 0.0, "price"),
        (4, -1.0, "volume"),
        (1, 10.0, "range"),
        (2, 10.2, "range"),
    ],
)
def test_each_fault_is_named_counted_and_found(column: int, value: float, kind: FaultKind) -> None:
    fault = bar_fault(changed(column, value))
    assert fault is not None and fault.kind == kind
    assert fault.count == 2 and fault.first == (1, 2) and fault.where.shape == (2, 4)


def test_rounding_is_forgiven_up_to_the_slack() -> None:
    bars = changed(1, 10.5 * (1 - 1e-7))
    assert bar_fault(bars) is not None and bar_fault(bars, relative_slack=1e-6) is None
