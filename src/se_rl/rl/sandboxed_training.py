"""Training in the sandbox, the parent's side: start trainings, check what comes back, use policies.

The parent runs the market, books the fills and computes the score; what a design wrote runs behind
the lock alone (`se_rl.rl.locked_training`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.config import to_dict
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.modules.agent_interface import USUAL_INTERFACE, AgentInterface
from se_rl.rl.action_maps import MAX_OFFSET
from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.locked_training import BANK, TRAIN, WEIGHT
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_answer import AnswerError, Weights, checked
from se_rl.rl.training_worlds import TrainingWorldsConfig, data_arrays
from se_rl.sandbox.calls import Call, Result, printable
from se_rl.sandbox.policy_server import PolicyServer, WaitAllowance
from se_rl.sandbox.server import Sandbox

__all__ = ["WEIGHT", "SandboxedPolicy", "SandboxedTrainer", "TrainedDesign", "Weights"]

Actions = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
LOCKED = "se_rl.rl.locked_training"
"""The module whose functions run behind the lock."""


@dataclass(frozen=True, eq=False)
class TrainedDesign:
    """A finished training as the parent sees it.

    Its numbers are untrusted but of the agreed form (`training_answer`); where there are none,
    `reason` says why.
    """

    sources: Mapping[str, str]
    status: str
    reason: str | None
    isolation: str
    seconds: float
    work: float = 0.0
    curve: tuple[Mapping[str, float | str], ...] = ()
    shape: Mapping[str, int] | None = None
    action_map: Mapping[str, float] | None = None
    weights: Weights | None = None
    interface: AgentInterface = USUAL_INTERFACE

    @property
    def ok(self) -> bool:
        """Whether there is a policy to evaluate."""
        return self.status == "ok" and self.reason is None

    @classmethod
    def of(
        cls, result: Result, sources: Mapping[str, str], expected: ExpectedAnswer
    ) -> TrainedDesign:
        """What came back, where it is what this training can have given; else why it is not."""
        isolation, seconds = result.isolation, result.seconds
        if not result.ok:
            reason = printable(result.error) or result.status
            return cls(sources, result.status, reason, isolation, seconds)
        try:
            answer = checked(result.value, expected)
        except AnswerError as error:
            reason = f"the training's answer was refused: {error}"
            return cls(sources, "invalid", reason, isolation, seconds)
        return cls(
            sources,
            "ok",
            answer.reason,
            isolation,
            seconds,
            work=answer.work,
            curve=answer.curve,
            shape=expected.shape_of(answer.interface),
            action_map=answer.action_map,
            weights=answer.weights,
            interface=answer.interface,
        )


class SandboxedTrainer:
    """A sandbox in which designs are trained.

    It is opened before keys and sealed data are loaded, and is given train data alone.
    """

    def __init__(
        self,
        *,
        data: MarketData | None = None,
        scales: FeatureScales | None = None,
        banks: Mapping[int, EpisodeBank] | None = None,
        **options: Any,
    ) -> None:
        self.sandbox = Sandbox(LOCKED, **options)
        if data is not None:
            self.sandbox.share(TRAIN, data_arrays(data, scales or FeatureScales.fit(data)))
        self.share_banks(banks or {})

    def share_banks(self, banks: Mapping[int, EpisodeBank]) -> None:
        """Give trainings the usual markets' episodes by horizon: each would simulate them anew."""
        for horizon, bank in banks.items():
            self.sandbox.share(f"{BANK}{horizon}", bank.arrays())

    def start(
        self,
        sources: Mapping[str, str],
        *,
        training_worlds: TrainingWorldsConfig,
        config: TrainConfig,
        seed: int,
        neutral: Mapping[str, Neutral] | None = None,
        seconds: float = 600.0,
        memory_bytes: int = 3 << 30,
    ) -> Call:
        """Begin a training; `TrainedDesign.of` takes what it ends with."""
        payload = {
            "sources": dict(sources),
            "worlds": to_dict(training_worlds),
            "train": to_dict(config),
            "seed": seed,
            "neutral": {name: asdict(value) for name, value in (neutral or {}).items()},
        }
        return self.sandbox.start(
            f"{LOCKED}:train_design", payload, seconds=seconds, memory_bytes=memory_bytes
        )

    def train(
        self,
        sources: Mapping[str, str],
        *,
        training_worlds: TrainingWorldsConfig,
        config: TrainConfig,
        **options: Any,
    ) -> TrainedDesign:
        """Train and wait."""
        call = self.start(sources, training_worlds=training_worlds, config=config, **options)
        return TrainedDesign.of(call.wait(), sources, ExpectedAnswer.of(training_worlds, config))

    def actor(
        self,
        trained: TrainedDesign,
        *,
        world: str,
        horizon: int,
        rows: int,
        neutral: Neutral | None = None,
        allowance: WaitAllowance | None = None,
    ) -> SandboxedPolicy:
        """The trained policy behind the lock, for evaluation by the parent in one world.

        Actors of one play share an `allowance` of time.
        """
        return SandboxedPolicy(
            self.sandbox,
            trained,
            world=world,
            horizon=horizon,
            rows=rows,
            neutral=neutral or Neutral(),
            allowance=allowance,
        )

    def stop(self) -> None:
        """End the sandbox and everything in it."""
        self.sandbox.stop()

    def __enter__(self) -> SandboxedTrainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def bounded(actions: npt.NDArray[np.float32]) -> Actions:
    """Ratios in [0, 1] and offsets in ticks of a policy's numbers [order, 2]."""
    numbers = actions.astype(np.float64)
    ratio = np.clip(numbers[:, 0], 0.0, 1.0)
    return ratio, np.clip(numbers[:, 1], -MAX_OFFSET, MAX_OFFSET)


class SandboxedPolicy:
    """A policy in use (`scoring.execution.Actor`) whose network lives in a locked process."""

    def __init__(
        self,
        sandbox: Sandbox,
        trained: TrainedDesign,
        *,
        world: str,
        horizon: int,
        rows: int,
        neutral: Neutral,
        allowance: WaitAllowance | None = None,
    ) -> None:
        if not trained.ok or trained.weights is None or trained.shape is None:
            raise ValueError(f"there is no policy to run: {trained.reason}")
        payload = {
            "sources": dict(trained.sources),
            "shape": dict(trained.shape),
            "action_map": trained.action_map,
            "neutral": asdict(neutral),
            "world": world,
            "horizon": horizon,
            **trained.weights,
        }
        self.inputs = trained.interface.inputs
        self._server = PolicyServer(
            sandbox,
            f"{LOCKED}:make_actor",
            payload,
            rows=rows,
            obs_shape=(trained.shape["observation_size"],),
            action_shape=(2,),
            allowance=allowance,
        )

    @property
    def isolation(self) -> str:
        """The level of the lock that holds the policy."""
        return self._server.isolation

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        self._server.reset()

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        """Ratios, kept to [0, 1], and offsets in ticks."""
        return self.begin(observation)()

    def begin(self, observation: npt.NDArray[np.float32]) -> Callable[[], Actions]:
        """Ask the process; what is returned waits for its answer."""
        self._server.ask(observation)
        return self._answer

    def _answer(self) -> Actions:
        return bounded(self._server.answer())

    def close(self) -> None:
        """End the process."""
        self._server.close()
