"""The policy: a design's network with the framework's heads; its outputs as orders."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from se_rl.modules.defaults import Modules
from se_rl.modules.dropout import without_dropout
from se_rl.rl.action_maps import ActionMap, Neutral, action_kind

WORLD_NAMES = ("static", "dynamic")
"""The worlds that a policy may have heads of its own for, in the order of these heads."""


class Policy(nn.Module):
    """The design's network with the framework's heads.

    Its features give the mean outputs, a value and, with several agents, a message to the others.
    A policy of two `worlds` has heads and noise of its own for each, on the same features: what is
    worth doing and how much it earns differ, what there is to see does not. One that `chooses` takes
    an output with the probability that its softmax gives, others add normal noise to all.
    """

    def __init__(
        self,
        modules: Modules,
        *,
        observation_size: int,
        actions: int = 2,
        agents: int = 1,
        message_size: int = 0,
        worlds: int = 1,
    ) -> None:
        super().__init__()
        self.interface = modules.interface
        self.chooses = action_kind(modules).chooses
        self.worlds = worlds
        self.history = int(modules.constant("history"))
        self.actions = actions
        self.agents = agents
        self.observation_size = observation_size
        self.message_size = message_size if agents > 1 else 0
        self.network = without_dropout(
            modules.network(observation_size + self.message_size, self.history)
        )
        width = int(self.network.feature_dim)  # type: ignore[arg-type]
        self.heads = nn.Linear(width, worlds * (actions + 1))
        with torch.no_grad():  # start at the neutral schedule, with a value of 0
            self.heads.weight.mul_(0.01)
            self.heads.weight[actions :: actions + 1].zero_()
            self.heads.bias.zero_()
        log_std = math.log(modules.constant("exploration"))
        self.log_std = nn.Parameter(torch.full((worlds * actions,), log_std))
        if self.message_size:
            self.speak = nn.Linear(width, self.message_size)
            talk = modules.communication(agents, self.message_size)
            self.communication = without_dropout(talk)

    @property
    def shape(self) -> dict[str, int]:
        """The sizes that a policy of the same design needs to have the same weights."""
        return {
            "observation_size": self.observation_size,
            "actions": self.actions,
            "agents": self.agents,
            "message_size": self.message_size,
            "worlds": self.worlds,
        }

    def place(self, world: str) -> int:
        """Which heads a world has; a policy of one world uses the same ones everywhere."""
        if world not in WORLD_NAMES:
            raise ValueError(f"world {world!r} is unknown; give one of {', '.join(WORLD_NAMES)}")
        return min(WORLD_NAMES.index(world), self.worlds - 1)

    def head_rows(self, place: int) -> slice:
        """The rows of `heads` that belong to a world: its mean outputs, then its value."""
        size = self.actions + 1
        return slice(place * size, (place + 1) * size)

    def noise(self, place: int, used: int | None = None) -> Tensor:
        """The logarithms of the noise of a world's first `used` outputs."""
        start = place * self.actions
        return self.log_std[start : start + (used or self.actions)]

    def answer(self, window: Tensor, place: int) -> tuple[Tensor, Tensor]:
        """[B, history, obs] -> mean outputs and value [actions + 1, B], features [B, width]."""
        features = self.network(window)
        rows = self.head_rows(place)
        # not as one product W x' + b: its last bits depend on where in memory W lies
        outputs = functional.linear(features, self.heads.weight[rows], self.heads.bias[rows])
        return outputs.t().contiguous(), features

    def forward(self, window: Tensor, place: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """[B, history, obs] -> mean outputs [B, actions], values [B], features [B, width]."""
        outputs, features = self.answer(window, place)
        return outputs[:-1].t(), outputs[-1], features

    def inbox(self, features: Tensor) -> Tensor:
        """What each agent reads next of what all in its book say now [B, message_size]."""
        said = torch.tanh(self.speak(features)).view(-1, self.agents, self.message_size)
        return self.communication(said).clamp(-1.0, 1.0).reshape(-1, self.message_size)

    def draw_noise(
        self, steps: int, used: int, n: int, *, generator: torch.Generator, place: int
    ) -> Tensor:
        """What makes actions of mean outputs [step, used, n]; see `take`."""
        if self.chooses:  # the largest of scores with Gumbel noise is a draw from their softmax
            uniform = torch.rand((steps, used, n), generator=generator).clamp_(min=1e-12)
            return (-torch.log(-torch.log(uniform))).to(self.log_std.device)
        drawn = torch.randn((steps, n, used), generator=generator).to(self.log_std.device)
        return (drawn * torch.exp(self.noise(place, used))).transpose(1, 2).contiguous()

    def take(self, means: Tensor, noise: Tensor | None = None) -> Tensor:
        """What is done [number, n] for mean outputs [used, n]: the number of the chosen one, or all."""
        noisy = means if noise is None else means + noise
        return noisy.argmax(0, keepdim=True).to(means.dtype) if self.chooses else noisy

    def log_prob(self, mean: Tensor, outputs: Tensor, place: int = 0) -> Tensor:
        """Log density of outputs [B, a] for the first `a` of the policy's actions."""
        if self.chooses:
            scores = functional.log_softmax(mean[..., : self.actions], dim=-1)
            return scores.gather(-1, outputs.long())[..., 0]
        used = outputs.shape[-1]
        log_std = self.noise(place, used)
        # log N(x; m, s) = -z^2 / 2 - log s - log(2 pi) / 2 with z = (x - m) / s
        z = (outputs - mean[..., :used]) * torch.exp(-log_std)
        return (-0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)


class PolicyRunner:
    """A policy in use in one world, without noise.

    Keeps a batch's window of observations and its inboxes.
    """

    def __init__(
        self,
        policy: Policy,
        action_map: ActionMap,
        *,
        neutral: Neutral | None = None,
        world: str = WORLD_NAMES[0],
    ) -> None:
        self.policy = policy
        self.place = policy.place(world)
        self.action_map = action_map
        self.neutral = neutral or Neutral()
        self._window: Window | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it must be shown beside the usual observation."""
        return self.policy.interface.inputs

    def start(self, n: int, horizon: int) -> None:
        """Forget everything; `n` orders of `horizon` steps begin."""
        self._window = Window(self.policy, n, next(self.policy.parameters()).device)
        self._steps_left = horizon

    @torch.no_grad()
    def act(
        self, observation: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Ratios and offsets in ticks [n] for the next step."""
        if self._window is None:
            raise ValueError("call start() before act()")
        window = self._window.push(torch.from_numpy(observation))
        mean, _, features = self.policy(window, self.place)
        self._window.hear(features)
        ratio, offset = self.action_map.actions(
            self.policy.take(mean.t()), steps_left=self._steps_left, neutral=self.neutral
        )
        self._steps_left -= 1
        return ratio.double().cpu().numpy(), offset.double().cpu().numpy()

    def close(self) -> None:
        """Nothing to end: the policy lives in this process."""


class Window:
    """The last observations of a batch, the inbox beside each, newest last.

    Before the first observation there are zeros.
    """

    def __init__(self, policy: Policy, n: int, device: torch.device) -> None:
        self._policy = policy
        size = policy.observation_size + policy.message_size
        self._rows = torch.zeros((n, policy.history, size), device=device)
        self._inbox = torch.zeros((n, policy.message_size), device=device)

    def push(self, observation: Tensor) -> Tensor:
        """Add the newest observation; the window [n, history, obs] (reused by the next push)."""
        if self._policy.history > 1:
            self._rows[:, :-1] = self._rows[:, 1:].clone()
        size = self._policy.observation_size
        self._rows[:, -1, :size] = observation
        self._rows[:, -1, size:] = self._inbox
        return self._rows

    def hear(self, features: Tensor) -> None:
        """Deliver the messages that these features say, for the next step."""
        if self._policy.message_size:
            self._inbox = self._policy.inbox(features)
