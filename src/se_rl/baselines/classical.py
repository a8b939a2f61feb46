"""Plans of the classical baselines: each turns a task into shares per step [order, step]."""

from __future__ import annotations

from functools import cached_property

from se_rl.baselines import schedules
from se_rl.baselines.fitting import Fitted
from se_rl.baselines.schedules import Array
from se_rl.baselines.task import BaselineTask

KAPPA = 2.0
GENTLE_KAPPA = 0.5


class Planning:
    """What a plan may look at: the task, and what was fitted on train days."""

    def __init__(self, task: BaselineTask, fitted: Fitted) -> None:
        self.task = task
        self.fitted = fitted

    @cached_property
    def forecast(self) -> Array | None:
        """The ridge's forecast [symbol, session, bar]; None where no ridge could be fitted."""
        if self.fitted.ridge is None or self.fitted.scales is None:
            return None
        return self.fitted.ridge.forecast(self.task.data, self.fitted.scales)


def plan_twap(planning: Planning) -> Array:
    """Equal slices."""
    return schedules.twap(planning.task.orders)


def plan_vwap(planning: Planning) -> Array | None:
    """Slices by the volume profile of the train days."""
    data = planning.task.data
    scales = planning.fitted.scales
    if scales is None or data.volume is None:
        return None
    return schedules.vwap(planning.task.orders, scales.of(data).volume_share)


def plan_almgren_chriss(planning: Planning) -> Array:
    """The risk-averse trajectory with the configured urgency."""
    task = planning.task
    return schedules.almgren_chriss(task.orders, urgency=task.config.urgency)


def plan_ridge(planning: Planning) -> Array | None:
    """TWAP tilted by the ridge's forecast."""
    return _tilted(planning, KAPPA)


def plan_gentle_ridge(planning: Planning) -> Array | None:
    """The same with a quarter of the tilt."""
    return _tilted(planning, GENTLE_KAPPA)


def _tilted(planning: Planning, kappa: float) -> Array | None:
    ridge = planning.fitted.ridge
    if ridge is None or planning.forecast is None:
        return None
    return ridge.schedule(planning.task.orders, planning.forecast, kappa=kappa)
