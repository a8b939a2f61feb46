"""What the worlds with a known optimum share: inventory, time, and the measuring of policies.

The parent order is 1, and each step's only field is its reward: minus the cost of the step, plus
what equal slices pay in that step of the same episode. Every world runs n orders at once; nothing
here is Python per order.
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
"""(observation [n, size], steps left with this one) -> the ratio of the inventory to trade, [n]."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What chance decides in a batch of episodes: standard normal shocks [episode, shock]."""

    shocks: Array

    def __len__(self) -> int:
        return len(self.shocks)


class Cost(NamedTuple):
    """A mean cost and its standard error (0 where the world has no chance in it)."""

    mean: float
    standard_error: float


class ClosedForm(ABC):
    """A world whose best execution is known.

    `state` is what the best rule must know beyond time and inventory (nothing in Almgren-Chriss).
    """

    name: str
    agents = 1
    takes_price = False
    field_names = ("reward",)
    observation_size = 3
    shocks = 0
    sample_size = 2
    state_scale = 1.0
    state_centre = 0.0

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    def draw(self, rng: np.random.Generator, n: int) -> Draws:
        """n episodes in antithetic pairs: i + n/2 has the shocks of i with the other sign."""
        if n < 2 or n % 2:
            raise DataError(
                f"episodes are drawn in pairs, {n} were asked for: ask for an even number"
            )
        half = rng.standard_normal((n // 2, self.shocks))
        return Draws(np.concatenate([half, -half]))

    def reset(self, episodes: Draws) -> Observation:
        """Start these episodes; the first observation, an array that later steps reuse."""
        self._twap = self._costs(episodes, self._slice)
        self._start(episodes)
        return self._observe()

    @property
    def steps_left(self) -> int:
        """Steps still to take, the coming one included."""
        return self.horizon - self.step_index

    def step(self, ratio: Ratio, offset: Array | None, fields: Observation) -> Observation:
        """Trade `ratio` in [0, 1] of what remains, in the last step all of it.

        fields[0] becomes the gain over TWAP.
        """
        fields[0] = self._twap[self.step_index] - self._trade(self._shares(ratio))
        return self._observe()

    def optimal_ratio(self) -> Array:
        """The closed-form rule in the present state.

        Bertsimas-Lo's may leave [0, 1]: it sells back, or buys ahead.
        """
        inventory = np.where(np.abs(self.inventory) < 1e-12, 1.0, self.inventory)
        return self._optimal_shares() / inventory

    def cost_of(self, policy: Rule | Array, *, episodes: int | None = None, seed: int = 0) -> Cost:
        """Expected cost of a rule, or of one fixed ratio per step.

        Everybody who has the same seed is measured on the same draws.
        """
        rule: Rule = policy if callable(policy) else lambda _, left: np.asarray(policy)[-left]

        def shares() -> Array:
            return self._shares(rule(self._observe(), self.steps_left))

        draws = self.draw(np.random.default_rng(seed), episodes or self.sample_size)
        total = self._costs(draws, shares).sum(0)
        if self.shocks:  # a control variate: the closed-form rule's luck on these draws has mean 0
            total += self.optimum() - self._costs(draws, self._optimal_shares).sum(0)
        pairs = total.reshape(2, -1).mean(0)
        return Cost(float(pairs.mean()), float(pairs.std() / np.sqrt(len(pairs))))

    def twap_cost(self) -> float:
        """Exact cost of equal slices, which ignore all signals: one episode without shocks."""
        return float(self._costs(Draws(np.zeros((1, self.shocks))), self._slice).sum())

    def _slice(self) -> Array:
        return self.inventory / self.steps_left

    def _shares(self, ratio: Ratio) -> Array:
        if self.steps_left == 1:
            return self.inventory.copy()
        return np.clip(np.asarray(ratio, np.float64), 0.0, 1.0) * self.inventory

    def _start(self, episodes: Draws) -> None:
        n = len(episodes)
        self.step_index = 0
        self.inventory = np.ones(n)
        self.broken = np.zeros(n, bool)
        self._shocks = episodes.shocks
        self._observation = np.empty((n, self.observation_size), np.float32)
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
