"""Every rival that a design is compared with, in the order of the table's rows.

A new one is a file of its own and one line here. A planned rival fixes the shares of every order in
advance; a learned one trains a policy and is run with `se-rl baselines --learned`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from se_rl.baselines import classical
from se_rl.baselines.classical import Planning
from se_rl.baselines.schedules import Array
from se_rl.bounded_reading import shown
from se_rl.config import ConfigError

if TYPE_CHECKING:  # torch is loaded only where something is learned
    from se_rl.environments.worlds import NamedWorlds
    from se_rl.modules.defaults import Modules
    from se_rl.rl.policy import Neutral
    from se_rl.scoring.execution import Actor

TWAP = "TWAP"
RIDGE = "XS ridge"


@dataclass(frozen=True)
class PlannedRival:
    """A row of the table: `plan` gives shares per step, or None where the data does not allow it.

    `side_blind` says that a buy and a sell order get the same plan; a self-check holds it to that.
    """

    name: str
    plan: Callable[[Planning], Array | None]
    side_blind: bool = True


class TrainedRival(Protocol):
    """What a training leaves: its seed, why it ended early (None: it did not), and a policy."""

    @property
    def seed(self) -> int:
        """The seed it was trained with."""

    @property
    def reason(self) -> str | None:
        """Why training ended early; None where the budget was spent."""

    def runner(self, world: str) -> Actor:
        """The policy in use in the world of that name, without noise."""


class TrainRival(Protocol):
    """Trains in the worlds for `budget` work units; `neutral` says what an output of 0 means."""

    def __call__(
        self,
        worlds: NamedWorlds,
        *,
        budget: float,
        seed: int,
        neutral: Mapping[str, Neutral],
    ) -> TrainedRival:
        """Train once."""


@dataclass(frozen=True)
class LearnedRival:
    """A row that is trained first; `source`, "module:function", is imported when needed.

    `network`, "module:class", is that of its stored policies; "" is the default design's.
    """

    name: str
    source: str
    network: str = ""

    def load(self) -> TrainRival:
        """The function that trains it."""
        return cast(TrainRival, _imported(self.source))


def _imported(place: str) -> Any:
    """What stands at "module:name"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


PLANNED: tuple[PlannedRival, ...] = (
    PlannedRival(TWAP, classical.plan_twap),
    PlannedRival("VWAP", classical.plan_vwap),
    PlannedRival("Almgren-Chriss", classical.plan_almgren_chriss),
    PlannedRival(RIDGE, classical.plan_ridge, side_blind=False),
    PlannedRival("XS ridge (gentle)", classical.plan_gentle_ridge, side_blind=False),
)
RIVALS = "se_rl.baselines.rivals"
LEARNED: tuple[LearnedRival, ...] = (
    LearnedRival("PPO strong", "se_rl.baselines.ppo:train_strong"),
    LearnedRival("PPO naive", "se_rl.baselines.ppo:train_naive"),
    LearnedRival("DDQN", f"{RIVALS}.double_dqn:train", f"{RIVALS}.double_dqn:QNetwork"),
    LearnedRival("OPD", f"{RIVALS}.oracle_distillation:train", f"{RIVALS}.choices:ChoiceNetwork"),
    LearnedRival("HALOP", f"{RIVALS}.hybrid_price:train", f"{RIVALS}.hybrid_price:HybridNetwork"),
    LearnedRival("MacMic", f"{RIVALS}.macro_micro:train", f"{RIVALS}.macro_micro:HierarchyNetwork"),
)


def field_rivals() -> tuple[str, ...]:
    """The names of the learned rivals with a network of their own: those that are no PPO of ours."""
    return tuple(rival.name for rival in LEARNED if rival.network)


def rival_named(name: str) -> LearnedRival:
    """The rival with a network of its own that has this name, in small letters or large."""
    for rival in LEARNED:
        if rival.network and rival.name.lower() == name.lower():
            return rival
    known = ", ".join(field_rivals())
    raise ConfigError(f"rival {shown(name)} is unknown; known are {known}")


def modules_of(name: str, *, actions: int) -> Modules:
    """The live modules of a stored policy of the rival of this name."""
    from se_rl.baselines.rivals.choices import RivalFactory
    from se_rl.modules.defaults import Modules

    network = rival_named(name).network
    return Modules(network=RivalFactory(_imported(network), actions))
