"""Worlds whose best execution is known in closed form: what a learner must find before it is trusted elsewhere.

Almgren-Chriss (impact against risk), Obizhaeva-Wang (impact that decays) and Bertsimas-Lo (a signal worth waiting for).
The parent order is 1, costs are what the papers minimise, and each step's only field is its reward: minus the cost of
the step, plus what equal slices pay in that step of the same episode. Noise that no policy can use (the price's own
martingale) is left out. Every world runs n orders at once; nothing here is Python per order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]
Ratio = npt.NDArray[np.floating]
Rule = Callable[[Observation, int], Ratio]
"""(observation [n, size], steps left, this one included) -> the ratio of the remaining inventory to trade, [n]."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What chance decides in a batch of episodes: standard normal shocks [count, shocks of one episode]."""

    shocks: Array

    def __len__(self) -> int:
        return len(self.shocks)


class Cost(NamedTuple):
    """A mean cost and its standard error (0 where the world has no chance in it)."""

    mean: float
    standard_error: float


class ClosedForm(ABC):
    """What the three worlds share: bookkeeping of inventory and time, and the measuring of policies.

    `state` is what the best rule must know beyond time and inventory (nothing in Almgren-Chriss).
    """

    name: str
    agents = 1
    takes_price = False
    field_names = ("reward",)
    observation_size = 3
    shocks = 0
    sample_size = 2
    state_scale, state_centre = 1.0, 0.0

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    def draw(self, rng: np.random.Generator, n: int) -> Draws:
        """n episodes in antithetic pairs: the shocks of i + n/2 are those of i with the other sign."""
        if n < 2 or n % 2:
            raise DataError(
                f"episodes are drawn in pairs, {n} were asked for: ask for an even number"
            )
        half = rng.standard_normal((n // 2, self.shocks))
        return Draws(np.concatenate([half, -half]))

    def reset(self, episodes: Draws) -> Observation:
        """Start these episodes; returns the first observation (the array is reused by every later step)."""
        self._twap = self._costs(episodes, self._slice)
        self._start(episodes)
        return self._observe()

    @property
    def steps_left(self) -> int:
        """Steps still to take, the coming one included."""
        return self.horizon - self.step_index

    def step(self, ratio: Ratio, offset: Array | None, fields: Observation) -> Observation:
        """Trade `ratio` in [0, 1] of what remains (all of it in the last step); fields[0] becomes the gain over TWAP."""
        fields[0] = self._twap[self.step_index] - self._trade(self._shares(ratio))
        return self._observe()

    def optimal_ratio(self) -> Array:
        """The closed-form rule in the present state; Bertsimas-Lo's may leave [0, 1] (it sells back, or buys ahead)."""
        return self._optimal_shares() / np.where(
            np.abs(self.inventory) < 1e-12, 1.0, self.inventory
        )

    def cost_of(self, policy: Rule | Array, *, episodes: int | None = None, seed: int = 0) -> Cost:
        """Expected cost of a rule, or of one fixed ratio per step, on the same draws for everybody who has that seed."""
        rule: Rule = policy if callable(policy) else lambda _, left: np.asarray(policy)[-left]
        draws = self.draw(np.random.default_rng(seed), episodes or self.sample_size)
        total = self._costs(
            draws, lambda: self._shares(rule(self._observe(), self.steps_left))
        ).sum(0)
        if self.shocks:  # a control variate: the closed-form rule's luck on these draws has mean 0
            total += self.optimum() - self._costs(draws, self._optimal_shares).sum(0)
        pairs = total.reshape(2, -1).mean(0)
        return Cost(float(pairs.mean()), float(pairs.std() / np.sqrt(len(pairs))))

    def twap_cost(self) -> float:
        """Exact cost of equal slices; they ignore all signals, so one episode without shocks tells it."""
        return float(self._costs(Draws(np.zeros((1, self.shocks))), self._slice).sum())

    def _slice(self) -> Array:
        return self.inventory / self.steps_left

    def _shares(self, ratio: Ratio) -> Array:
        if self.steps_left == 1:
            return self.inventory.copy()
        return np.clip(np.asarray(ratio, np.float64), 0.0, 1.0) * self.inventory

    def _start(self, episodes: Draws) -> None:
        n = len(episodes)
        self.step_index, self.inventory, self.broken = 0, np.ones(n), np.zeros(n, bool)
        self._shocks, self._observation = (
            episodes.shocks,
            np.empty((n, self.observation_size), np.float32),
        )
        self.state = self._first_state()

    def _costs(self, draws: Draws, shares: Callable[[], Array]) -> Array:
        """Costs [step, episode] when every step trades what `shares` says, of either sign."""
        self._start(draws)
        return np.stack([self._trade(shares()) for _ in range(self.horizon)])

    def _trade(self, shares: Array) -> Array:
        cost = self._pay(shares)
        self.step_index += 1
        return cost

    def _observe(self) -> Observation:
        out = self._observation
        out[:, 0] = 2.0 * self.steps_left / self.horizon - 1.0
        out[:, 1] = 2.0 * self.inventory - 1.0
        if self.observation_size > 2:
            out[:, 2] = self.state * self.state_scale - self.state_centre
        return out

    def _first_state(self) -> Array:
        return np.zeros_like(self.inventory)

    @abstractmethod
    def optimum(self) -> float:
        """Expected cost of the best policy, from the closed form."""

    @abstractmethod
    def _pay(self, shares: Array) -> Array:
        """Trade, move the state on, and return the cost."""

    @abstractmethod
    def _optimal_shares(self) -> Array:
        """What the closed-form rule trades in the present state."""


class AlmgrenChriss(ClosedForm):
    """Temporary impact against the risk of waiting: sum of eta n_j^2 / tau + lambda s^2 tau x_j^2, with eta = T = 1.

    `urgency` is kT, which fixes lambda s^2 = 2 (cosh(k tau) - 1) / tau^2; x_j is what remains after trade j. The
    permanent impact's constant is left out. Observed: time left, inventory.
    """

    name = "almgren_chriss"
    observation_size = 2

    def __init__(self, urgency: float = 3.0, steps: int = 20) -> None:
        _require_positive(urgency=urgency, steps=steps)
        super().__init__(steps)
        self.urgency, self.tau = urgency, 1.0 / steps
        self.risk = 2.0 * (np.cosh(urgency * self.tau) - 1.0) / self.tau**2

    def trajectory(self) -> Array:
        """Optimal inventory x_0 = 1 .. x_N = 0."""
        return np.sinh(self.urgency * np.linspace(1.0, 0.0, self.horizon + 1)) / np.sinh(
            self.urgency
        )

    def optimum(self) -> float:
        """Cost of the hyperbolic-sine trajectory."""
        x = self.trajectory()
        return float(np.sum(np.diff(x) ** 2) / self.tau + self.risk * self.tau * np.sum(x[1:] ** 2))

    def _pay(self, shares: Array) -> Array:
        self.inventory = self.inventory - shares
        return shares**2 / self.tau + self.risk * self.tau * self.inventory**2

    def _optimal_shares(self) -> Array:
        x = self.trajectory()
        return self.inventory * (1.0 - x[self.step_index + 1] / x[self.step_index])


class ObizhaevaWang(ClosedForm):
    """Impact that decays: kappa / 2 sum_ij x_i x_j a^|i-j|, a = exp(-rho T / N), N intervals, N + 1 trades, kappa = 1.

    `decay` is rho T. Observed: time left, inventory, and the state: the impact still standing, in units of what
    equal slices hold up in the long run.
    """

    name = "obizhaeva_wang"

    def __init__(self, decay: float = 5.0, intervals: int = 60) -> None:
        _require_positive(decay=decay, intervals=intervals)
        super().__init__(intervals + 1)
        self.keep = float(np.exp(-decay / intervals))
        self.state_scale, self.state_centre = self.horizon * (1.0 - self.keep), 1.0

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
        """Impact that still stands counts as traded in this very step, so the first-block formula holds at any time."""
        if self.steps_left == 1:
            return self.inventory.copy()
        return (self.inventory + self.state) / self._spread(self.steps_left - 1) - self.state


class BertsimasLo(ClosedForm):
    """A buy with a signal: P_t = P_t-1 + theta S_t + gamma Z_t + e_t, Z AR(1) and started stationary; theta = gamma = 1.

    Cost is the expected sum of P_t S_t less P_0. A step pays theta S_t W_t plus rho Z_t times what it leaves: the drift
    that is known when it decides. What is left out (e and the innovations of Z, on inventory chosen before) has mean 0.
    Observed: time left, inventory, and the state: Z, in standard deviations.

    `optimum` may sell back and buy ahead; `constrained_optimum` is the best with ratios in [0, 1], 1.3 % above it with
    the settings given here. Ratios of policies are taken over `optimum`.
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
        self.persistence, self.innovation, self.shocks = persistence, innovation, steps
        self.signal_sd = innovation / np.sqrt(1.0 - persistence**2)
        self.state_scale = 1.0 / self.signal_sd
        self._a, self._b, self._c = self._coefficients()

    def _coefficients(self) -> tuple[Array, Array, Array]:
        """Value with k steps left after this one: a_k W^2 + b_k Z W + c_k Z^2 + innovation^2 sum of earlier c."""
        rho, a, b, c = (
            self.persistence,
            np.ones(self.horizon),
            np.ones(self.horizon),
            np.zeros(self.horizon),
        )
        for k in range(1, self.horizon):
            a[k] = 1.0 - 1.0 / (4.0 * a[k - 1])
            b[k] = 1.0 + rho * b[k - 1] / (2.0 * a[k - 1])
            c[k] = rho**2 * (c[k - 1] - b[k - 1] ** 2 / (4.0 * a[k - 1]))
        return a, b, c

    def optimum(self) -> float:
        """Expected cost of the linear rule, trades of either sign."""
        return float(
            self._a[-1] + self._c[-1] * self.signal_sd**2 + self.innovation**2 * self._c[:-1].sum()
        )

    def constrained_optimum(self, *, levels: int = 401, signals: int = 301) -> float:
        """Expected cost of the best policy with ratios in [0, 1]: dynamic programming on a grid, within 5e-5 of it."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        weights = weights / weights.sum()
        w, z = np.linspace(0.0, 1.0, levels), np.linspace(-6.5, 6.5, signals) * self.signal_sd
        drift = self.persistence * z
        reach = drift + self.innovation * nodes[:, None]
        expect = np.stack([weights @ np.interp(reach, z, hat) for hat in np.eye(signals)])
        value = np.broadcast_to((w**2)[:, None], (levels, signals))
        for _ in range(1, self.horizon):
            after = drift * w[:, None] + value @ expect
            value = np.stack(
                [
                    np.min(w[i] * (w[i] - w[: i + 1, None]) + after[: i + 1], 0)
                    for i in range(levels)
                ]
            )
        return float(weights @ np.interp(self.signal_sd * nodes, z, value[-1]))

    def _first_state(self) -> Array:
        return self.signal_sd * self._shocks[:, 0]

    def _pay(self, shares: Array) -> Array:
        before, self.inventory = self.inventory, self.inventory - shares
        drift = self.persistence * self.state
        if self.steps_left > 1:
            self.state = drift + self.innovation * self._shocks[:, self.step_index + 1]
        return shares * before + drift * self.inventory

    def _optimal_shares(self) -> Array:
        k = self.steps_left - 1
        if k == 0:
            return self.inventory.copy()
        a, b = self._a[k - 1], self._b[k - 1]
        return self.inventory * (1.0 - 1.0 / (2.0 * a)) + self.state * self.persistence * b / (
            2.0 * a
        )


CLOSED_FORMS: dict[str, Callable[[], ClosedForm]] = {
    w.name: w for w in (AlmgrenChriss, ObizhaevaWang, BertsimasLo)
}
"""The three worlds by name; called without arguments each has the settings in which equal slices are 10-35 % worse."""


def _require_positive(**values: float) -> None:
    wrong = [f"{name} is {value}" for name, value in values.items() if not value > 0]
    if wrong:
        raise DataError(f"{', '.join(wrong)}: give a positive number")
