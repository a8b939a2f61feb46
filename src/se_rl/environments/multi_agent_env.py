"""The multi-agent world: executing agents with an order each in one book, and with messages.

`MultiAgentEnvironment` has PettingZoo's parallel API; `MultiAgentCore` steps many books at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from se_rl.data.features import CLIP, OBSERVATION_FIELDS
from se_rl.data.given import GivenBars, as_market_data
from se_rl.data.market_data import DataError
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.dynamic_env import make_dynamic_core
from se_rl.environments.execution_env import (
    ExecutionEnvConfig,
    OrderSource,
    default_config,
    limit_prices,
)
from se_rl.environments.metrics import Metrics, price_advantage
from se_rl.environments.order_source import Info
from se_rl.environments.render import (
    RENDER_MODES,
    RenderMode,
    check_render_mode,
    drawn,
    order_line,
)
from se_rl.environments.task import Orders

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]
Inbox = Callable[[Array], Array]
"""A protocol: messages sent [book, agent, K] become inboxes read [book, agent, K]."""


def mean_of_others(messages: Array) -> Array:
    """Everybody hears the mean of what the others said last; alone, nothing."""
    others = messages.shape[1] - 1
    return (messages.sum(axis=1, keepdims=True) - messages) / max(1, others)


class MultiAgentCore:
    """Batched books with `agents` executing agents each: a DynamicCore, and messages beside it.

    Arrays have the shape [book, agent, ...]. What a step did is in `core`, whose orders are those
    of book 0, then book 1 and so on. An observation is the order's fields and the inbox; messages
    are kept to [-1, 1].
    """

    def __init__(
        self, core: DynamicCore, *, message_size: int = 8, inbox: Inbox = mean_of_others
    ) -> None:
        if message_size < 0:
            raise DataError(
                f"message_size is {message_size}; use 0 for no messages, or a positive number"
            )
        self.core = core
        self.agents = core.agents
        self.message_size = message_size
        self._inbox = inbox

    def reset(self, orders: Orders, *, seeds: npt.ArrayLike | None = None) -> Observation:
        """Start the orders, all inboxes empty; those of a book are neighbours in one window."""
        for name in ("row", "start"):
            values = getattr(orders, name).reshape(-1, self.agents)
            if np.any(values != values[:, :1]):
                raise DataError(
                    f"orders of one book differ in {name}; neighbours must trade in the same window"
                )
        public = self.core.reset(orders, seeds=seeds)
        books = len(orders) // self.agents
        return self._join(public, np.zeros((books, self.agents, self.message_size)))

    def step(
        self, ratio: Array, limit: Array | None = None, *, messages: Array | None = None
    ) -> Observation:
        """One bar for every book: ratios, limits and outgoing messages, each [book, agent, ...]."""
        shape = (len(self.core.orders) // self.agents, self.agents, self.message_size)
        said = np.zeros(shape) if messages is None else np.clip(messages, -1.0, 1.0)
        if said.shape != shape or not np.all(np.isfinite(said)):
            raise ValueError(
                f"messages have shape {said.shape} or are not finite; give finite numbers {shape}"
            )
        public = self.core.step(ratio.ravel(), None if limit is None else limit.ravel())
        return self._join(public, self._inbox(said))

    @property
    def reward(self) -> Array:
        """[book, agent]: the rewards of the last step."""
        return self.core.reward.reshape(-1, self.agents)

    def _join(self, public: Observation, inbox: Array) -> Observation:
        fields = public.reshape(-1, self.agents, public.shape[1])
        expected = (*fields.shape[:2], self.message_size)
        if inbox.shape != expected:
            raise ValueError(f"the inbox has shape {inbox.shape}, expected {expected}")
        return np.concatenate([fields, np.clip(inbox, -1.0, 1.0).astype(np.float32)], axis=2)


def draw_shared_orders(
    source: OrderSource, rng: np.random.Generator, books: int, *, agents: int
) -> Orders:
    """Orders for `agents` agents in each of `books` books: a window per book, a side per agent."""
    drawn = source.draw(rng, books * agents)
    lead = np.arange(books * agents) // agents * agents
    return replace(drawn, row=drawn.row[lead], start=drawn.start[lead])


class MultiAgentEnvironment(ParallelEnv[str, Observation, Observation]):
    """
    ## Description
    `agents` executing agents, each with a parent order of its own (sides drawn unless the config
    fixes them), in one simulated book: they move the price for one another. With `data` the market
    is the twin of a drawn session.

    ## Action Space
    Box: the ratio in [0, 1] (and with `ratio_and_price` the distance in [-1, 1], as in
    DynamicEnvironment), then the outgoing message, `message_size` numbers in [-1, 1].

    ## Observation Space
    Box: the 32 `OBSERVATION_FIELDS` of the agent's own order, then its inbox, `message_size`
    numbers in [-1, 1]. An agent sees nothing of another's order except through messages.

    ## Rewards, Episode End
    As in DynamicEnvironment, for each agent's own order; all agents end together.

    ## Arguments
    `data`, `config` and `options` (profile, scales, shadow) as in DynamicEnvironment;
    `participation` is each agent's.
    `inbox`: the protocol by which messages [1, agents, K] become inboxes.
    `render_mode`: "ansi" has `render` give a line per agent, "human" prints them after every step.
    """

    metadata = {"name": "se_rl_multi_agent_v0", "render_modes": list(RENDER_MODES)}  # noqa: RUF012

    def __init__(
        self,
        data: GivenBars | None = None,
        config: ExecutionEnvConfig | None = None,
        *,
        agents: int = 4,
        message_size: int = 8,
        inbox: Inbox = mean_of_others,
        render_mode: RenderMode | None = None,
        **options: Any,
    ) -> None:
        if agents < 1:
            raise DataError(f"agents is {agents}; at least one must execute")
        check_render_mode(render_mode)
        self.render_mode: RenderMode | None = render_mode
        bars = None if data is None else as_market_data(data)
        self.config = config or default_config(bars)
        self.source = OrderSource(bars, self.config)
        self.world = make_dynamic_core(bars, self.config, agents=agents, **options)
        self.core = MultiAgentCore(self.world, message_size=message_size, inbox=inbox)
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.agents: list[str] = []
        self._own_numbers = 1 if self.config.action == "ratio" else 2
        low = np.full(self._own_numbers + message_size, -1.0, np.float32)
        low[0] = 0.0  # the ratio
        reach = np.ones(len(OBSERVATION_FIELDS) + message_size, np.float32)
        reach[: len(OBSERVATION_FIELDS)] = CLIP
        self.action_spaces: dict[str, spaces.Box] = {}
        self.observation_spaces: dict[str, spaces.Box] = {}
        for name in self.possible_agents:
            self.action_spaces[name] = spaces.Box(low, np.ones_like(low))
            self.observation_spaces[name] = spaces.Box(-reach, reach)
        self._rng = seeding.np_random(None)[0]
        self._pa: list[float] = []
        self._leftover: list[float] = []
        self.broken_orders = 0

    def observation_space(self, agent: str) -> spaces.Box:
        """The agent's own space object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box:
        """The agent's own space object."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Draw a window and the agents' orders.

        There are no options, but PettingZoo's own test hands some in.
        """
        if seed is not None:
            self._rng = seeding.np_random(seed)[0]
        orders = draw_shared_orders(self.source, self._rng, 1, agents=len(self.possible_agents))
        observation = self.core.reset(orders, seeds=self._rng.integers(2**62, size=1))
        self.agents = list(self.possible_agents)
        infos = {}
        for which, name in enumerate(self.agents):
            infos[name] = self.source.describe(orders, which=which)
        self._show()
        return self._by_name(observation[0]), infos

    def step(
        self, actions: dict[str, Observation]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Info],
    ]:
        """One bar for everybody; at the end `infos` has each order's PA, AFI and `broken`."""
        names = list(self.agents)
        if not names:
            raise ValueError("nobody is executing; call reset() before step()")
        world = self.world
        own = self._own_numbers
        values = np.stack([self._checked(name, actions) for name in names])  # [agent, number]
        limits = limit_prices(world, values[:, 1:own].ravel(), self.config.price_range_bps)
        observation = self.core.step(values[None, :, 0], limits, messages=values[None, :, own:])
        infos = self._infos()
        if world.done:
            self.agents = []
        self._show()
        done = dict.fromkeys(names, world.done)
        never = dict.fromkeys(names, False)
        rewards = dict(zip(names, map(float, world.reward), strict=True))
        return self._by_name(observation[0]), rewards, done, never, infos

    def render(self) -> str | None:
        """Every agent's order as a line of text with `render_mode="ansi"`; printed with "human"."""
        lines = []
        for which, name in enumerate(self.possible_agents):
            lines.append(order_line(self.world, which=which, name=name))
        return drawn(self.render_mode, lines)

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def get_metrics(self) -> dict[str, float]:
        """As in ExecutionEnvironment, over the orders that count, and how many were void."""
        pa, leftover, told = self._pa, self._leftover, {"broken": float(self.broken_orders)}
        if not pa and self.agents and self.world.step_index:
            pa, leftover = self._so_far()
            told["unfinished"] = 1.0
        return {**Metrics.of(pa, leftover).as_dict(), **told}

    def _checked(self, name: str, actions: dict[str, Observation]) -> Array:
        if name not in actions:
            raise ValueError(f"no action for {name}; every agent in `agents` acts in every step")
        values = np.asarray(actions[name], np.float64)
        if values.shape != self.action_spaces[name].shape or not np.all(np.isfinite(values)):
            raise ValueError(
                f"action {actions[name]!r} of {name} does not fit {self.action_spaces[name]}"
            )
        return values

    def _by_name(self, observation: Observation) -> dict[str, Observation]:
        return dict(zip(self.possible_agents, observation, strict=True))

    def _infos(self) -> dict[str, Info]:
        """What was filled, and at the end each order's result."""
        world = self.world
        infos: dict[str, Info] = {}
        for i, name in enumerate(self.possible_agents):
            infos[name] = {
                "filled": float(world.shares[i]),
                "remaining": float(world.remaining[i]),
            }
        if world.done:
            self._finish(infos)
        return infos

    def _finish(self, infos: dict[str, Info]) -> None:
        """Add each order's result to its info; those that count enter the metrics."""
        pa, leftover = self._so_far()
        broken = self.world.broken
        for i, info in enumerate(infos.values()):
            info["PA"] = pa[i]
            info["AFI"] = leftover[i]
            info["broken"] = bool(broken[i])
            if not broken[i]:
                self._pa.append(pa[i])
                self._leftover.append(leftover[i])
        self.broken_orders += int(broken.sum())

    def _so_far(self) -> tuple[list[float], list[float]]:
        """Each order's PA against the VWAP of the bars gone by, and the share of it that is left."""
        record = self.world.record()
        vwap = self.world.benchmarks().named("vwap")
        pa = price_advantage(record.net_price, vwap, record.orders.side)
        return pa.tolist(), record.leftover.tolist()
