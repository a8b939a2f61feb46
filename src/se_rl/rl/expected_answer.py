"""What the parent knows of a training's answer before the training begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.modules.agent_interface import AgentInterface, further_width
from se_rl.modules.contracts import LIMITS, NETWORK_CONSTANTS
from se_rl.rl.action_maps import ACTION_MAPS
from se_rl.rl.learner import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig
from se_rl.rl.work import PASS, batch_overhead, work_of_step
from se_rl.rl.world_sampler import orders_of_batch

BATCH = NETWORK_CONSTANTS["batch"]
FASTER = 60.0
"""How much more work than seconds of acting a row may count, where a fast machine admits a network.

A machine may be 20 times faster than the one that units are made for, and learning from a row takes
three times as long as acting on it.
"""


@dataclass(frozen=True)
class ExpectedAnswer:
    """What the parent knows of an answer before the training begins.

    `shape` are the sizes of a usual policy, `charged` the order steps that one update in each world is
    charged for (the fewest and the most, by lengths of orders and sizes of batches), `longest` the steps
    of the longest order, `budget` the work to spend.
    """

    shape: Mapping[str, int]
    charged: Mapping[str, tuple[float, float]]
    longest: int
    budget: float

    @classmethod
    def of(cls, worlds: TrainingWorldsConfig, config: TrainConfig) -> ExpectedAnswer:
        """Everything from the settings of the training."""
        horizons = {"static": worlds.horizons, "dynamic": worlds.dynamic_horizons}
        if worlds.worlds != "both":
            horizons = {worlds.worlds: horizons[worlds.worlds]}
        simulated = "dynamic" in horizons
        agents = worlds.agents if simulated else 1
        charged = {}
        for name, lengths in horizons.items():
            copies = config.copies_in(name)
            bounds = [_charged(config.samples, horizon, agents, copies) for horizon in lengths]
            charged[name] = (min(low for low, _ in bounds), max(high for _, high in bounds))
        limits_on_history = "static" in horizons and worlds.fill_model == "limit_on_bars"
        takes_price = limits_on_history or (simulated and worlds.takes_price)
        shape = {
            "observation_size": len(OBSERVATION_FIELDS),
            "actions": 2 if takes_price else 1,
            "agents": agents,
            "message_size": config.message_size if agents > 1 else 0,
            "worlds": len(horizons),
        }
        longest = max(map(max, horizons.values()))
        return cls(shape, charged, longest, config.budget)

    def shape_of(self, interface: AgentInterface) -> Mapping[str, int]:
        """The sizes of a policy that asks for this; `shape` is that of one that asks for nothing."""
        seen = self.shape["observation_size"] + further_width(interface.inputs)
        outputs = ACTION_MAPS[interface.actions]().outputs(self.shape["actions"] > 1)
        return {**self.shape, "observation_size": seen, "actions": outputs}

    @property
    def phases(self) -> dict[str, tuple[str, ...]]:
        """The worlds of each phase."""
        phases: dict[str, tuple[str, ...]] = {name: (name,) for name in self.charged}
        if len(phases) > 1:
            phases["joint"] = tuple(self.charged)
        return phases

    def least_work(self, phase: str) -> float:
        """The least that an update can cost: one epoch of a network that computes nothing."""
        return self._work(phase, row=PASS, epochs=1, most=False)

    def most_work(self, phase: str) -> float:
        """The most that an update can cost: all epochs of the slowest network that is admitted."""
        row = FASTER * LIMITS.microseconds_per_row * 1e-6
        epochs = round(NETWORK_CONSTANTS["epochs"].high)
        return self._work(phase, row=row, epochs=epochs, most=True)

    def _work(self, phase: str, *, row: float, epochs: int, most: bool) -> float:
        talks = self.shape["message_size"] > 0
        total = 0.0
        for world in self.phases[phase]:
            cost = work_of_step(world, row=row, epochs=epochs, talks=talks)
            total += self.charged[world][most] * cost
        return total


def _charged(samples: int, horizon: int, agents: int, copies: int) -> tuple[float, float]:
    """The fewest and the most order steps that an update is charged for, whatever its batch.

    A batch has whole groups of orders, and a larger one is charged less for each of them: the fewest
    are those of the smallest batch, charged as if it were all but large enough for one group more.
    """
    fewest = orders_of_batch(round(BATCH.low * samples), horizon, agents, copies)
    most = orders_of_batch(round(BATCH.high * samples), horizon, agents, copies)
    one_more = (fewest + 2 * agents * copies) * horizon / samples
    least = fewest * batch_overhead(min(max(one_more, BATCH.low), BATCH.high))
    dearest = max(fewest * batch_overhead(BATCH.low), most * batch_overhead(BATCH.high))
    return horizon * least, horizon * dearest
