"""`se-rl bench ppo`: order steps per CPU second of the whole inner loop on one core, beside SB3 in the same run.

Two peers: SB3 as people run it, and SB3 given our batched world, network and settings. All take turns, so that a busy
machine slows them alike, and train for the same CPU seconds; what their policies then gain on later days stands beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.execution_env import ExecutionEnvConfig
from se_rl.environments.static_env import StaticEnvironment
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Array, Episodes, Int, Observation, World, new_fields
from se_rl.modules.contracts import LIMITS
from se_rl.modules.defaults import Modules, Network, reward
from se_rl.rl.policy import ActionMap, Neutral, PolicyRunner
from se_rl.rl.ppo import Batch, PPOSettings
from se_rl.rl.rollout import advantages, collect, without_hindsight
from se_rl.rl.trainer import TrainConfig, Training, train

HORIZON, SESSIONS, VALID_SESSIONS, VALID_ORDERS = 240, 20, 40, 4096
TURNS = 4.0
"""CPU seconds of training for each second that the caller grants."""
SPREAD_BPS = 10.0
"""About the spread of an order's return; the peer's rewards are divided by it, as ours are by the measured one."""
SAME = PPOSettings(kl_stop=float("inf"))
"""What both sides can have: SB3 stops at another estimate of the KL divergence, so neither side stops."""
PEERS = (
    "SB3 PPO, its defaults, 8 Gymnasium environments",
    "SB3 PPO, our batched world, network and settings",
)
INSTALL = 'not installed: pip install "se-rl[baselines]"'

Act = Callable[[Observation, int], Array]
"""Observations and steps left -> ratios, without noise."""


@dataclass
class Contender:
    """One that trains: `iterate` plays and learns one batch and returns its order steps; and what it took so far."""

    iterate: Callable[[], int]
    act: Act
    cpu_seconds: float = 0.0
    rates: list[float] = field(default_factory=list)


def bench_ppo(
    *, seconds: float = 2.0, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Order steps per CPU second of ours and of SB3, rollout to update; the caller adds `machine`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        say("making data")
        past, later = make_data()
        found = contenders(past)
        say("training all in turns")
        take_turns(found, seconds=TURNS * seconds)
        say("parts of an update")
        detail = _gains(found, past, later) | parts(
            StaticWorld(past, horizon=HORIZON), seconds=seconds
        )
    finally:
        torch.set_num_threads(threads)
    say("one design in both worlds")
    rates = {name: float(np.median(one.rates)) for name, one in found.items()}
    peers = {name: rates[name] for name in PEERS if name in rates}
    beside = dict(zip(PEERS, ("ours", "ours, same settings"), strict=True))
    return {
        "name": "PPO end to end, static world",
        "unit": "order steps per CPU second on one core: rollout, reward, advantages and update",
        "value": rates["ours"],
        "peers": peers,
        "ratios": {name: rates[beside[name]] / value for name, value in peers.items()},
        "detail": {"SB3": "measured" if peers else INSTALL, "data": past.provenance.label}
        | {"ours, same settings": rates["ours, same settings"]}
        | detail
        | design_in_fresh_process(),
    }


def make_data(seed: int = 0) -> tuple[MarketData, MarketData]:
    """Synthetic train days, and the days after them."""
    data = synthetic_market(
        SyntheticConfig(symbols=20, sessions=SESSIONS + VALID_SESSIONS, seed=seed)
    )
    return data.select(dates=data.dates[:SESSIONS]), data.select(dates=data.dates[SESSIONS:])


def contenders(data: MarketData) -> dict[str, Contender]:
    """Ours with its defaults and with what SB3 can have too, and both peers where SB3 is installed."""
    world, same, peer = (
        StaticWorld(data, horizon=HORIZON) for _ in range(3)
    )  # each is left in mid-episode
    found = {"ours": ours(world, PPOSettings()), "ours, same settings": ours(same, SAME)}
    try:
        return found | dict(zip(PEERS, (_sb3_defaults(data), _sb3_same(peer)), strict=True))
    except ImportError:
        return found


def take_turns(found: dict[str, Contender], *, seconds: float) -> None:
    """Whoever has used the least CPU time goes next, until everybody has used as many seconds."""
    while (one := min(found.values(), key=lambda one: one.cpu_seconds)).cpu_seconds < seconds:
        started = time.process_time()
        steps = one.iterate()
        spent = time.process_time() - started
        one.cpu_seconds += spent
        one.rates.append(steps / spent)


def ours(world: World, ppo: PPOSettings) -> Contender:
    """Our trainer at a constant learning rate, as SB3's."""
    training = Training(Modules(), {world.name: world}, TrainConfig(anneal=False, ppo=ppo), seed=0)

    def iterate() -> int:
        training.iterate(world.name)
        return training.worlds[world.name].orders * world.horizon

    return Contender(iterate, _acting(PolicyRunner(training.policy, training.action_map), world))


def _acting(runner: PolicyRunner, world: World) -> Act:
    def act(observation: Observation, steps_left: int) -> Array:
        if steps_left == world.horizon:
            runner.start(len(observation), world.horizon)
        return runner.act(observation)[0]

    return act


def _sb3_defaults(data: MarketData) -> Contender:
    """SB3 as its manual has it: one Gymnasium environment after the other in one process, 8 of them."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    config = ExecutionEnvConfig(total_time=HORIZON, transaction_cost=0.0)
    envs = DummyVecEnv([lambda: StaticEnvironment(data, config)] * 8)
    model = PPO("MlpPolicy", envs, seed=0, device="cpu")
    return Contender(_learning(model), lambda seen, _: _predicted(model, seen))


def _sb3_same(world: StaticWorld) -> Contender:
    """SB3 with our network as its features, our heads' size, and every setting of ours that it knows."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Trunk(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, features_dim=64)
            self.network = Network(space.shape[0], 1)

        def forward(self, rows: Tensor) -> Tensor:
            return self.network(rows)

    training = Training(Modules(), {world.name: world}, TrainConfig(), seed=0)
    constant, orders = Modules().constant, training.worlds[world.name].orders
    model = PPO(
        "MlpPolicy",
        vector_world(world, orders=orders, seed=0),
        seed=0,
        device="cpu",
        n_steps=world.horizon,
        batch_size=orders * world.horizon // SAME.minibatches,
        n_epochs=training.ppo.epochs,
        learning_rate=constant("learning_rate"),
        gamma=1.0,
        gae_lambda=constant("gae_lambda"),
        clip_range=SAME.clip,
        clip_range_vf=SAME.value_clip,
        vf_coef=SAME.value_weight / 2.0,
        ent_coef=0.0,
        max_grad_norm=SAME.gradient_norm,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "net_arch": [],
            "log_std_init": float(np.log(constant("exploration"))),
        },
    )

    def act(observation: Observation, steps_left: int) -> Array:
        return _ratios(_predicted(model, observation), steps_left)

    return Contender(_learning(model), act)


def vector_world(world: StaticWorld, *, orders: int, seed: int) -> Any:
    """A static world as SB3's `VecEnv`: all orders end together, and the last step already shows the next ones.

    Actions are our policies' outputs, 0 being the TWAP slice; rewards the gain over it in units of SPREAD_BPS.
    """
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import VecEnv

    rng, none = np.random.default_rng(seed), [dict[str, Any]() for _ in range(orders)]

    class VectorWorld(VecEnv):
        render_mode = None

        def __init__(self) -> None:
            seen = spaces.Box(-np.inf, np.inf, (world.observation_size,), np.float32)
            super().__init__(orders, seen, spaces.Box(-20.0, 20.0, (1,), np.float32))

        def reset(self) -> Observation:
            return world.reset(world.draw(rng, orders)).copy()

        def step_async(self, actions: npt.NDArray[np.float32]) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            core = world.core
            seen = core.step(_ratios(self._actions[:, 0], world.horizon - core.step_index)).copy()
            rewards, done, infos = (
                (core.reward / SPREAD_BPS).astype(np.float32),
                np.full(orders, core.done),
                none,
            )
            if core.done:
                infos = [
                    {"terminal_observation": row, "TimeLimit.truncated": False} for row in seen
                ]
                seen = self.reset()
            return seen, rewards, done, infos

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(self, attr_name) for _ in self._get_indices(indices)]

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

        def close(self) -> None: ...

        def set_attr(self, *_: Any, **options: Any) -> None:
            raise NotImplementedError(
                "the orders of a batch have nothing of their own to set or to call"
            )

        env_method: Any = set_attr

    return VectorWorld()


def _learning(model: Any) -> Callable[[], int]:
    """One rollout and update of an SB3 model."""
    steps = model.n_steps * model.n_envs

    def iterate() -> int:
        model.learn(steps, reset_num_timesteps=False)
        return steps

    return iterate


def _predicted(model: Any, observation: Observation) -> Array:
    return np.asarray(model.predict(observation, deterministic=True)[0][:, 0], np.float64)


def _ratios(outputs: npt.NDArray[np.floating], steps_left: int) -> Array:
    return (
        ActionMap()
        .ratio(torch.from_numpy(outputs), steps_left=steps_left, neutral=Neutral())
        .double()
        .numpy()
    )


def over_twap(world: World, act: Act, episodes: Episodes, *, clusters: Int) -> tuple[float, float]:
    """Mean gain over TWAP in bps with its error, orders of one cluster being one observation.

    Summed over an order, the default reward is its gain less TWAP's, with the news taken out.
    """
    observation, fields, gain = (
        world.reset(episodes),
        new_fields(len(episodes)),
        np.zeros(len(episodes)),
    )
    seen = SimpleNamespace(**dict(zip(world.field_names, torch.from_numpy(fields), strict=True)))
    for step in range(world.horizon):
        observation = world.step(act(observation, world.horizon - step), None, fields)
        gain += 1e4 * reward(seen).numpy()
    kept = ~world.broken
    mean = gain[kept].mean()
    misses = np.bincount(
        np.unique(clusters[kept], return_inverse=True)[1], weights=gain[kept] - mean
    )
    return float(mean), float(np.sqrt(np.sum(misses**2)) / kept.sum())


def _gains(found: dict[str, Contender], past: MarketData, later: MarketData) -> dict[str, str]:
    """What every policy gains on valid orders, and in how many CPU seconds of training."""
    valid = StaticWorld(later, horizon=HORIZON, scales=FeatureScales.fit(past))
    episodes = valid.draw(np.random.default_rng(1), VALID_ORDERS)
    lines = {}
    for name, one in found.items():
        mean, error = over_twap(valid, one.act, episodes, clusters=episodes.orders.row)
        lines[f"gain over TWAP, {name}"] = (
            f"{mean:.2f} +- {error:.2f} bps after {one.cpu_seconds:.1f} CPU s"
        )
    return lines


class _Autograd(Network):
    """The same network with a forward of its own, which the gradient by hand does not know."""

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs)


def parts(world: World, *, seconds: float) -> dict[str, float]:
    """Shares of an iteration's time, and nanoseconds per sample-pass of the update by hand and by autograd."""
    fused, autograd = (
        _laps(world, Modules(network=kind), seconds=seconds / 2) for kind in (Network, _Autograd)
    )
    shares = {f"share of {part}": ns / sum(fused.values()) for part, ns in fused.items()}
    per_pass = {"fused": fused["update"], "autograd": autograd["update"]}
    return shares | {
        f"ns per sample-pass, {k}": ns / round(Modules().constant("epochs"))
        for k, ns in per_pass.items()
    }


def _laps(world: World, modules: Modules, *, seconds: float) -> dict[str, float]:
    """CPU nanoseconds per order step of each part of an iteration, medians."""
    training = Training(modules, {world.name: world}, TrainConfig(anneal=False, ppo=SAME), seed=0)
    ground, laps, end = (
        training.worlds[world.name],
        list[list[float]](),
        time.perf_counter() + seconds,
    )
    while not laps or time.perf_counter() < end:
        times = [time.process_time()]
        rollout = collect(
            world,
            training.policy,
            training.action_map,
            world.draw(ground.rng, ground.orders),
            generator=ground.generator,
            neutral=ground.neutral,
            device=training.device,
        )
        times.append(time.process_time())
        rewards = rollout.rewards(modules.reward, bound=LIMITS.reward_magnitude)
        times.append(time.process_time())
        lam = modules.constant("gae_lambda")
        estimates = advantages(rewards / rewards.std(), rollout.values, gamma=1.0, lam=lam)
        batch = Batch.of(
            rollout, without_hindsight(estimates, rollout, discount=lam), policy=training.policy
        )
        times.append(time.process_time())
        training.ppo.update([batch])
        times.append(time.process_time())
        laps.append([1e9 * lap / rollout.values.numel() for lap in np.diff(times)])
    return dict(
        zip(
            ("rollout", "reward", "advantages", "update"),
            np.median(laps, axis=0).tolist(),
            strict=True,
        )
    )


def quick_design(seed: int = 0, *, budget: float = 2.0) -> dict[str, float]:
    """The default design trained with a small budget in both worlds and scored on fresh orders of both.

    Seconds are those of training and scoring together, with the episodes of the simulated world made on the way; data and
    tables are made once for many designs and not counted.
    """
    import resource

    from se_rl.environments.dynamic_world import DynamicWorld

    torch.set_num_threads(
        1
    )  # asked for, not only by the environment: the simulator's threads share torch's runtime
    past, later = make_data(seed)
    worlds: dict[str, World] = {
        "static": StaticWorld(past, horizon=HORIZON),
        "dynamic": DynamicWorld(bank=1024, seed=1),
    }
    fresh = (
        StaticWorld(later, horizon=HORIZON, scales=FeatureScales.fit(past)),
        DynamicWorld(bank=256, seed=2),
    )
    wall, cpu = time.perf_counter(), time.process_time()
    trained = train(Modules(), worlds, TrainConfig(budget=budget), seed=seed)
    result: dict[str, float] = {}
    for world in fresh:
        episodes = world.draw(np.random.default_rng(seed), 512)
        clusters = episodes.orders.row if episodes.seeds is None else episodes.seeds
        gain, error = over_twap(
            world, _acting(trained.runner(world.name), world), episodes, clusters=clusters
        )
        result |= {f"gain over TWAP in bps, {world.name}": gain, f"its error, {world.name}": error}
    result |= {"wall seconds": time.perf_counter() - wall, "CPU seconds": time.process_time() - cpu}
    return result | {"peak memory in MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def design_in_fresh_process(*, threads: int = 2) -> dict[str, Any]:
    """`quick_design` where nothing else has used memory; a very small one before it loads what is compiled."""
    code = f"import json; from {__name__} import quick_design as q; q(budget=0.01); print(json.dumps(q()))"
    limits = {"NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | limits, capture_output=True, text=True
    )
    if done.returncode:
        return {"quick design": f"failed: {done.stderr.strip().splitlines()[-1]}"}
    return {
        f"quick design on {threads} threads, {name}": value
        for name, value in json.loads(done.stdout).items()
    }
