"""Worlds whose best execution is known: what a learner must find before it is trusted elsewhere.

Almgren-Chriss (impact against risk), Obizhaeva-Wang (impact that decays) and Bertsimas-Lo (a signal
worth waiting for). Costs are what the papers minimise; noise that no policy can use (the price's
own martingale) is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from se_rl.data.market_data import DataError
from se_rl.environments.closed_form import Array, ClosedForm, Cost, Draws, Observation, Rule

__all__ = [
    "CLOSED_FORMS",
    "AlmgrenChriss",
    "BertsimasLo",
    "ClosedForm",
    "Cost",
    "Draws",
    "ObizhaevaWang",
    "Observation",
    "Rule",
]


class AlmgrenChriss(ClosedForm):
    """Temporary impact against the risk of waiting: sum of eta n_j^2 / tau + lambda s^2 tau x_j^2.

    eta = T = 1. `urgency` is kT, which fixes lambda s^2 = 2 (cosh(k tau) - 1) / tau^2; x_j is what
    remains after trade j. The permanent impact's constant is left out. Observed: time left,
    inventory.
    """

    name = "almgren_chriss"
    observation_size = 2

    def __init__(self, urgency: float = 3.0, steps: int = 20) -> None:
        _require_positive(urgency=urgency, steps=steps)
        super().__init__(steps)
        self.urgency = urgency
        self.tau = 1.0 / steps
        self.risk = 2.0 * (np.cosh(urgency * self.tau) - 1.0) / self.tau**2

    def trajectory(self) -> Array:
        """Optimal inventory x_0 = 1 .. x_N = 0."""
        time_left = np.linspace(1.0, 0.0, self.horizon + 1)
        return np.sinh(self.urgency * time_left) / np.sinh(self.urgency)

    def optimum(self) -> float:
        """Cost of the hyperbolic-sine trajectory."""
        x = self.trajectory()
        impact = np.sum(np.diff(x) ** 2) / self.tau
        return float(impact + self.risk * self.tau * np.sum(x[1:] ** 2))

    def _pay(self, shares: Array) -> Array:
        self.inventory = self.inventory - shares
        return shares**2 / self.tau + self.risk * self.tau * self.inventory**2

    def _optimal_shares(self) -> Array:
        x = self.trajectory()
        return self.inventory * (1.0 - x[self.step_index + 1] / x[self.step_index])


class ObizhaevaWang(ClosedForm):
    """Impact that decays: kappa / 2 sum_ij x_i x_j a^|i-j|, with a = exp(-rho T / N), kappa = 1.

    N intervals, N + 1 trades. `decay` is rho T. Observed: time left, inventory, and the state: the
    impact still standing, in units of what equal slices hold up in the long run.
    """

    name = "obizhaeva_wang"

    def __init__(self, decay: float = 5.0, intervals: int = 60) -> None:
        _require_positive(decay=decay, intervals=intervals)
        super().__init__(intervals + 1)
        self.keep = float(np.exp(-decay / intervals))
        self.state_scale = self.horizon * (1.0 - self.keep)
        self.state_centre = 1.0

    def optimum(self) -> float:
        """Two end blocks and equal slices between them."""
        return (1.0 + self.keep) / 2.0 / self._spread(self.horizon - 1)

    def _spread(self, intervals: int) -> float:
        """The order as a multiple of its first block."""
        return 2.0 + (intervals - 1) * (1.0 - self.keep)

    def _pay(self, shares: Array) -> Array:
        cost = shares * (self.state + shares / 2.0)
        self.inventory = self.inventory - shares
        self.state = (self.state + shares) * self.keep
        return cost

    def _optimal_shares(self) -> Array:
        """Impact that still stands counts as traded in this very step.

        So the formula of the first block holds at any time.
        """
        if self.steps_left == 1:
            return self.inventory.copy()
        return (self.inventory + self.state) / self._spread(self.steps_left - 1) - self.state


class BertsimasLo(ClosedForm):
    """A buy with a signal: P_t = P_t-1 + theta S_t + gamma Z_t + e_t, with theta = gamma = 1.

    Z is AR(1) and starts stationary. Cost is the expected sum of P_t S_t less P_0. A step pays
    theta S_t W_t plus rho Z_t times what it leaves: the drift that is known when it decides. What
    is left out (e and the innovations of Z, on inventory chosen before) has mean 0. Observed: time
    left, inventory, and the state: Z, in standard deviations.

    `optimum` may sell back and buy ahead; `constrained_optimum` is the best with ratios in [0, 1],
    1.3 % above it with the settings given here. Ratios of policies are taken over `optimum`.
    """

    name = "bertsimas_lo"
    sample_size = 200_000

    def __init__(self, steps: int = 8, persistence: float = 0.7, innovation: float = 0.08) -> None:
        _require_positive(steps=steps, innovation=innovation)
        if not abs(persistence) < 1.0:
            raise DataError(
                f"persistence {persistence} makes no stationary signal: give one between -1 and 1"
            )
        super().__init__(steps)
        self.persistence = persistence
        self.innovation = innovation
        self.shocks = steps
        self.signal_sd = innovation / np.sqrt(1.0 - persistence**2)
        self.state_scale = 1.0 / self.signal_sd
        self._a, self._b, self._c = self._coefficients()

    def _coefficients(self) -> tuple[Array, Array, Array]:
        """a, b, c of the value with k steps left after this one.

        It is a_k W^2 + b_k Z W + c_k Z^2 + innovation^2 * (sum of earlier c).
        """
        rho = self.persistence
        a = np.ones(self.horizon)
        b = np.ones(self.horizon)
        c = np.zeros(self.horizon)
        for k in range(1, self.horizon):
            a[k] = 1.0 - 1.0 / (4.0 * a[k - 1])
            b[k] = 1.0 + rho * b[k - 1] / (2.0 * a[k - 1])
            c[k] = rho**2 * (c[k - 1] - b[k - 1] ** 2 / (4.0 * a[k - 1]))
        return a, b, c

    def optimum(self) -> float:
        """Expected cost of the linear rule, trades of either sign."""
        chance = self.innovation**2 * self._c[:-1].sum()
        return float(self._a[-1] + self._c[-1] * self.signal_sd**2 + chance)

    def constrained_optimum(self, *, levels: int = 401, signals: int = 301) -> float:
        """Expected cost of the best policy with ratios in [0, 1], to 5e-5.

        Dynamic programming on a grid of inventory and signal.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        weights = weights / weights.sum()
        w = np.linspace(0.0, 1.0, levels)
        z = np.linspace(-6.5, 6.5, signals) * self.signal_sd
        drift = self.persistence * z
        reach = drift + self.innovation * nodes[:, None]
        expect = np.stack([weights @ np.interp(reach, z, hat) for hat in np.eye(signals)])
        value = np.tile((w**2)[:, None], (1, signals))  # [inventory, signal]
        for _ in range(1, self.horizon):
            after = drift * w[:, None] + value @ expect
            value = np.empty_like(after)
            for i in range(levels):
                # pay W (W - W') for going from W to W' <= W, then go on from W'
                value[i] = np.min(w[i] * (w[i] - w[: i + 1, None]) + after[: i + 1], 0)
        return float(weights @ np.interp(self.signal_sd * nodes, z, value[-1]))

    def _first_state(self) -> Array:
        return self.signal_sd * self._shocks[:, 0]

    def _pay(self, shares: Array) -> Array:
        before = self.inventory
        self.inventory = before - shares
        drift = self.persistence * self.state
        if self.steps_left > 1:
            self.state = drift + self.innovation * self._shocks[:, self.step_index + 1]
        return shares * before + drift * self.inventory

    def _optimal_shares(self) -> Array:
        k = self.steps_left - 1
        if k == 0:
            return self.inventory.copy()
        a, b = self._a[k - 1], self._b[k - 1]
        by_signal = self.state * self.persistence * b / (2.0 * a)
        return self.inventory * (1.0 - 1.0 / (2.0 * a)) + by_signal


CLOSED_FORMS: dict[str, Callable[[], ClosedForm]] = {
    "almgren_chriss": AlmgrenChriss,
    "obizhaeva_wang": ObizhaevaWang,
    "bertsimas_lo": BertsimasLo,
}
"""The three worlds by name; without arguments, equal slices are 10-35 % worse than the optimum."""


def _require_positive(**values: float) -> None:
    wrong = [f"{name} is {value}" for name, value in values.items() if not value > 0]
    if wrong:
        raise DataError(f"{', '.join(wrong)}: give a positive number")
