"""What a designer is asked and what it answers: one request, several proposals, and learning where weights are at hand.

Every back-end (a local model, a remote endpoint) speaks this protocol; nothing here knows which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Messages = Sequence[Mapping[str, str]]
"""A chat: mappings with `role` (system, user, assistant) and `content`."""


class LlmError(RuntimeError):
    """A model is missing, broken or out of reach: one line that names the command which mends it."""


class Unsupported(LlmError):
    """The back-end cannot do this, for instance learn where the weights are remote."""


@dataclass(frozen=True)
class Request:
    """One prompt (plain text is a single user message) and how to write: under which grammar, how long, how freely.

    Sampled without top-p or top-k, so that log-probs are those of the sampling distribution; `temperature` 0 takes the
    likeliest token each time. Proposal i of a request depends on `seed` and i alone, not on how many are asked for.
    """

    prompt: str | Messages
    grammar: str | None = None
    max_tokens: int = 512
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.prompt:
            raise LlmError("the prompt is empty; give a text or a list of messages")
        if self.max_tokens < 1:
            raise LlmError(f"max_tokens is {self.max_tokens}; give at least 1")
        if self.seed < 0:
            raise LlmError(f"seed is {self.seed}; give 0 or more")
        if not 0.0 <= self.temperature <= 10.0:
            raise LlmError(f"temperature is {self.temperature}; give a number from 0 to 10")

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as a list of chat messages."""
        if isinstance(self.prompt, str):
            return [{"role": "user", "content": self.prompt}]
        return [{"role": message["role"], "content": message["content"]} for message in self.prompt]


@dataclass(frozen=True)
class Proposal:
    """What a model wrote to a request, and what it takes to learn from it.

    `tokens` hold the end token where the model wrote one. `drawn` are the positions that were sampled: the others were
    forced by the grammar and have log-prob 0. `masks` are the allowed tokens at the drawn positions, one row of bits each
    (`np.packbits`, little-endian). Where weights are remote, tokens, log_prob, drawn and masks are None.
    """

    text: str
    prompt_tokens: int = 0
    tokens: tuple[int, ...] | None = None
    log_prob: float | None = None
    masks: npt.NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    finish: Literal["stop", "length"] = "stop"
    model: str = ""
    adapter: str | None = None
    seconds: float = 0.0
    drawn: tuple[int, ...] | None = None
    output_tokens: int = 0
    request: Request | None = field(default=None, repr=False)


@runtime_checkable
class Designer(Protocol):
    """A language model that writes designs, and learns from their scores where it can."""

    @property
    def name(self) -> str:
        """What records call the model."""
        ...

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals to one request."""
        ...

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        """Make proposals with positive advantage likelier; raises `Unsupported` where the weights are remote."""
        ...
