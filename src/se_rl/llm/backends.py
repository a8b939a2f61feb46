"""What a designer is asked, what it answers, and what it says it can do.

Every back-end (a local model, a remote endpoint, a wrapper around one) speaks these protocols.
Nobody guesses what a designer can do: its `abilities` say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from se_rl.llm.adapters import LoraSettings
    from se_rl.llm.likelihood import Surrogate

Messages = Sequence[Mapping[str, str]]
"""A chat: mappings with `role` (system, user, assistant) and `content`."""
ADDRESS_PREFIXES = ("http://", "https://")
"""How the name of a remote model begins; see `se_rl.llm.generator.open_designer`."""


class LlmError(RuntimeError):
    """A model is missing, broken or out of reach; the one-line message says how to fix it."""


class Unsupported(LlmError):
    """The back-end cannot do this, for instance learn when its weights are remote."""


@dataclass(frozen=True)
class Request:
    """One prompt (plain text is a single user message) and how to answer it.

    Sampling uses neither top-p nor top-k, so log-probs are those of the sampling distribution;
    `temperature` 0 takes the likeliest token each time. Proposal i of a request depends on `seed`
    and i alone, not on how many proposals are asked for.
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
    """One answer of a model to a request, and what learning from it takes.

    `tokens` include the end token if the model wrote one. `drawn` are the positions that were
    sampled; the grammar forced the others, whose log-prob is 0. `masks` are the allowed tokens at
    the drawn positions, one row of bits each (`np.packbits`, little-endian). When the weights are
    remote, tokens, log_prob, drawn and masks are None.
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


@dataclass(frozen=True)
class Abilities:
    """What a designer can do; the default describes a remote model that writes Python.

    `constrained`: it can be held to a grammar. `free_python`: it writes valid Python unaided.
    `learns`: it is a `TrainableDesigner`. `metered`: it is a `MeteredDesigner` (see `ledger`).
    """

    constrained: bool = False
    free_python: bool = True
    learns: bool = False
    metered: bool = False

    @property
    def needs_grammar(self) -> bool:
        """Whether designs are best asked for under a grammar."""
        return self.constrained and not self.free_python


@runtime_checkable
class Designer(Protocol):
    """A language model that writes designs."""

    @property
    def name(self) -> str:
        """What records call the model."""
        ...

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        ...

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals to one request."""
        ...


class TrainableDesigner(Designer, Protocol):
    """A designer whose weights are at hand: an adapter on them learns from the designs' scores."""

    @property
    def adapter(self) -> str | None:
        """Name of the adapter in use; None for the untouched model."""
        ...

    @property
    def embeddings(self) -> Tensor:
        """What the model reads each token as, [token, size]."""
        ...

    def tokens_of(self, text: str) -> Sequence[int]:
        """A text as the model reads it."""
        ...

    def new_adapter(
        self, label: str, *, settings: LoraSettings | None = None, seed: int = 0
    ) -> TrainableDesigner:
        """The same model with a fresh adapter, which changes nothing until `update` is called."""
        ...

    def with_adapter_bytes(self, content: bytes) -> TrainableDesigner:
        """The same model with an adapter from `adapter_bytes`."""
        ...

    def adapter_bytes(self) -> bytes:
        """The adapter and its optimiser's state as one file: same state, same bytes."""
        ...

    def update(
        self,
        proposals: Sequence[Proposal],
        advantages: Sequence[float],
        *,
        learning_rate: float = ...,
        kl_coef: float = ...,
        surrogate: Surrogate | None = None,
    ) -> dict[str, float]:
        """Make proposals with positive advantage likelier, and return what the step measured."""
        ...


def as_trainable(designer: Designer) -> TrainableDesigner | None:
    """The designer as one that learns; None if it says that it does not."""
    return cast(TrainableDesigner, designer) if designer.abilities.learns else None


@runtime_checkable
class Writer(Protocol):
    """The least that an object must have to write designs."""

    name: str

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals to one request."""
        ...


class PlainDesigner:
    """A `Writer` that states no abilities, as a designer with the default ones."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._writer.name

    @property
    def abilities(self) -> Abilities:
        """It writes Python; nothing else is known of it."""
        return Abilities()

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals to one request."""
        return self._writer.propose(request, n)


@runtime_checkable
class TextGenerator(Protocol):
    """Any object that answers a text with a text: a client of your own, or a function's wrapper."""

    def generate(self, prompt: str) -> str:
        """The answer to a prompt."""
        ...


class TextDesigner:
    """A `TextGenerator` as a designer: it is asked once for each proposal, the whole chat as one
    text.
    """

    def __init__(self, generator: TextGenerator) -> None:
        self._generator = generator

    @property
    def name(self) -> str:
        """What records call the model: its own name, or that of its class."""
        return str(getattr(self._generator, "name", type(self._generator).__name__))

    @property
    def abilities(self) -> Abilities:
        """It writes Python; nothing else is known of it."""
        return Abilities()

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """Write n proposals to one request."""
        prompt = "\n\n".join(message["content"] for message in request.messages)
        proposals = []
        for _ in range(n):
            text = self._generator.generate(prompt)
            if not isinstance(text, str):
                raise LlmError(
                    f"generate(prompt) of {self.name} answered {type(text).__name__}; "
                    "let it return the model's text"
                )
            proposals.append(Proposal(text, model=self.name, request=request))
        return proposals


def as_designer(given: object) -> Designer:
    """The object itself if it is a `Designer`; a mere `Writer` gets the default abilities, and one
    that only has `generate(prompt)` is asked by that.
    """
    if isinstance(given, Designer):
        return given
    if isinstance(given, Writer):
        return PlainDesigner(given)
    if isinstance(given, TextGenerator):
        return TextDesigner(given)
    kind = type(given).__name__
    raise LlmError(
        f"{kind} is not a designer; give an object with generate(prompt), "
        "or with a name and propose(request, n)"
    )
