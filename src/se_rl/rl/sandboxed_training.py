"""Training behind the lock: the trusted functions that run in a locked process, and the parent's side of them.

The whole training of a design happens in one locked process, which holds train data only and answers with weights and a
curve as plain numbers. For evaluation the policy sits behind the lock again and only answers observations with actions:
the parent runs the market, books the fills and computes the score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from se_rl.config import parse, to_dict
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_design
from se_rl.rl.policy import ActionMap, Neutral, Policy, PolicyRunner
from se_rl.rl.trainer import TrainConfig, train
from se_rl.rl.training_worlds import (
    TrainingWorldsConfig,
    data_arrays,
    data_from_arrays,
    make_worlds,
)
from se_rl.sandbox.calls import Call, Result
from se_rl.sandbox.policy_server import PolicyServer
from se_rl.sandbox.server import Sandbox
from se_rl.sandbox.worker import shared_data

TRAIN, BANK, WEIGHT = "train", "bank", "weight:"
Weights = dict[str, npt.NDArray[Any]]


# behind the lock


def train_design(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Load a design and train it on the sandbox's data; weights, curve and reason as plain numbers and text."""
    return _train(payload, shared_data().get(TRAIN), shared_data().get(BANK))


def _train(
    payload: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]] | None,
    episodes: Mapping[str, npt.NDArray[Any]] | None = None,
) -> dict[str, Any]:
    torch.set_num_threads(1)
    modules = load_design(payload["sources"])
    config, seed = parse(TrainConfig, payload["train"]), int(payload["seed"])
    ground = parse(TrainingWorldsConfig, payload["ground"])
    data, scales = data_from_arrays(arrays) if arrays else (None, None)
    table = arrays["table"] if arrays else None
    bank = EpisodeBank.from_arrays(episodes) if episodes else None
    worlds = make_worlds(
        modules, ground, data=data, scales=scales, table=table, bank=bank, seed=seed
    )
    neutral = {name: Neutral(**value) for name, value in payload["neutral"].items()}
    trained = train(modules, worlds, config, seed=seed, neutral=neutral)
    weights = {
        WEIGHT + name: value.detach().numpy() for name, value in trained.policy.state_dict().items()
    }
    shape = {
        name: getattr(trained.policy, name)
        for name in ("observation_size", "actions", "agents", "message_size")
    }
    about = {
        "reason": trained.reason,
        "work": trained.work,
        "shape": shape,
        "action_map": asdict(trained.action_map),
    }
    return {**about, "curve": [dict(row) for row in trained.curve], **weights}


def make_actor(
    payload: Mapping[str, Any],
) -> Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]:
    """The design's policy with its trained weights as a function of observations, for the policy server."""
    torch.set_num_threads(1)
    policy = Policy(load_design(payload["sources"]), **payload["shape"])
    state = {
        name.removeprefix(WEIGHT): torch.from_numpy(v)
        for name, v in payload.items()
        if name.startswith(WEIGHT)
    }
    policy.load_state_dict(state)
    runner = PolicyRunner(
        policy, ActionMap(**payload["action_map"]), neutral=Neutral(**payload["neutral"])
    )
    return _Served(runner, int(payload["horizon"]))


class _Served:
    """A runner that learns the number of orders from the first observation of an episode."""

    def __init__(self, runner: PolicyRunner, horizon: int) -> None:
        self._runner, self._horizon, self._started = runner, horizon, False

    def reset(self) -> None:
        """A new batch of orders begins."""
        self._started = False

    def __call__(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if not self._started:
            self._runner.start(len(observation), self._horizon)
            self._started = True
        return np.stack(self._runner.act(np.ascontiguousarray(observation)), axis=1).astype(
            np.float32
        )


def warm_up() -> None:
    """Import, compile and run everything once: behind the lock nothing can be imported or compiled any more."""
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market
    from se_rl.modules import runtime_check

    torch.set_num_threads(1)
    runtime_check.warm_up()
    data = synthetic_market(SyntheticConfig(symbols=5, sessions=2))
    arrays = data_arrays(data, FeatureScales.fit(data))
    for array in arrays.values():  # as shared data is: kernels are compiled for what they are given
        array.flags.writeable = False
    few = to_dict(TrainConfig(budget=1e-4, samples=64))
    imagining = {"imagination": KINDS["imagination"].contract.examples[0]}
    for agents, takes_price, sources in ((1, True, {}), (2, False, imagining)):
        ground = TrainingWorldsConfig(
            horizon=4, dynamic_horizon=3, agents=agents, takes_price=takes_price, bank=8
        )
        payload = {
            "sources": sources,
            "ground": to_dict(ground),
            "train": few,
            "seed": 0,
            "neutral": {},
        }
        trained = _train(payload, arrays)
        actor = make_actor({**payload, **trained, "neutral": {}, "horizon": 3})
        actor(np.zeros((agents, trained["shape"]["observation_size"]), np.float32))


# the parent's side


@dataclass(frozen=True, eq=False)
class TrainedDesign:
    """A finished training as the parent sees it: untrusted numbers of the right form, or why there are none."""

    sources: Mapping[str, str]
    status: str
    reason: str | None
    isolation: str
    seconds: float
    work: float = 0.0
    curve: tuple[dict[str, Any], ...] = ()
    shape: Mapping[str, int] | None = None
    action_map: Mapping[str, float] | None = None
    weights: Weights | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a policy to evaluate."""
        return self.status == "ok" and self.reason is None

    @classmethod
    def of(cls, result: Result, sources: Mapping[str, str]) -> TrainedDesign:
        """Check the form of what came back."""
        if not result.ok or result.value is None:
            return cls(
                sources,
                result.status,
                result.error or result.status,
                result.isolation,
                result.seconds,
            )
        value = result.value
        weights = {name: array for name, array in value.items() if name.startswith(WEIGHT)}
        finite = all(isinstance(a, np.ndarray) and np.isfinite(a).all() for a in weights.values())
        known = {"reason", "work", "shape", "action_map", "curve"}
        if not weights or not finite or set(value) - set(weights) != known:
            return cls(
                sources,
                "invalid",
                "the answer has not the agreed fields",
                result.isolation,
                result.seconds,
            )
        return cls(
            sources,
            "ok",
            value["reason"],
            result.isolation,
            result.seconds,
            float(value["work"]),
            tuple(value["curve"]),
            value["shape"],
            value["action_map"],
            weights,
        )


class SandboxedTrainer:
    """A room in which designs are trained: opened before keys and sealed data are loaded, fed with train data alone."""

    def __init__(
        self,
        *,
        data: MarketData | None = None,
        scales: FeatureScales | None = None,
        bank: EpisodeBank | None = None,
        **options: Any,
    ) -> None:
        self.sandbox = Sandbox("se_rl.rl.sandboxed_training", **options)
        if data is not None:
            self.sandbox.share(TRAIN, data_arrays(data, scales or FeatureScales.fit(data)))
        if bank is not None:
            self.share_bank(bank)

    def share_bank(self, bank: EpisodeBank) -> None:
        """Give trainings the simulated episodes of the default market, which each would simulate anew."""
        self.sandbox.share(BANK, bank.arrays())

    def start(
        self,
        sources: Mapping[str, str],
        *,
        ground: TrainingWorldsConfig,
        config: TrainConfig,
        seed: int,
        neutral: Mapping[str, Neutral] | None = None,
        seconds: float = 600.0,
        memory_bytes: int = 3 << 30,
    ) -> Call:
        """Begin a training; `TrainedDesign.of(call.wait(), sources)` is its end."""
        payload = {
            "sources": dict(sources),
            "ground": to_dict(ground),
            "train": to_dict(config),
            "seed": seed,
            "neutral": {name: asdict(value) for name, value in (neutral or {}).items()},
        }
        return self.sandbox.start(
            "se_rl.rl.sandboxed_training:train_design",
            payload,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )

    def train(self, sources: Mapping[str, str], **options: Any) -> TrainedDesign:
        """Train and wait."""
        return TrainedDesign.of(self.start(sources, **options).wait(), sources)

    def actor(
        self, trained: TrainedDesign, *, horizon: int, rows: int, neutral: Neutral | None = None
    ) -> SandboxedPolicy:
        """The trained policy behind the lock, for evaluation by the parent."""
        return SandboxedPolicy(
            self.sandbox, trained, horizon=horizon, rows=rows, neutral=neutral or Neutral()
        )

    def stop(self) -> None:
        """End the sandbox and everything in it."""
        self.sandbox.stop()

    def __enter__(self) -> SandboxedTrainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class SandboxedPolicy:
    """A policy in use (`evaluation.execution.Actor`) whose network lives in a locked process."""

    def __init__(
        self, sandbox: Sandbox, trained: TrainedDesign, *, horizon: int, rows: int, neutral: Neutral
    ) -> None:
        if not trained.ok or trained.weights is None or trained.shape is None:
            raise ValueError(f"there is no policy to run: {trained.reason}")
        payload = {
            "sources": dict(trained.sources),
            "shape": dict(trained.shape),
            "action_map": trained.action_map,
            "neutral": asdict(neutral),
            "horizon": horizon,
            **trained.weights,
        }
        self._server = PolicyServer(
            sandbox,
            "se_rl.rl.sandboxed_training:make_actor",
            payload,
            rows=rows,
            obs_shape=(trained.shape["observation_size"],),
            action_shape=(2,),
        )

    @property
    def isolation(self) -> str:
        """The level of the lock that holds the policy."""
        return self._server.isolation

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        self._server.reset()

    def act(
        self, observation: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Ratios, kept to [0, 1], and offsets in ticks."""
        actions = self._server.act(observation).astype(np.float64)
        return np.clip(actions[:, 0], 0.0, 1.0), np.clip(actions[:, 1], -20.0, 20.0)

    def close(self) -> None:
        """End the process."""
        self._server.close()
