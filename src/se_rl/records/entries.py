"""What a run writes down: frozen records of designs, evaluations, model calls, instructions and
adapters.

A design is a mapping from module name to source; the text itself is a blob named by its SHA-256.
Derived numbers are properties, and a design that fails is a record with a reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

DEFAULT = "default"
"""The operator of the design that every run starts from."""
NAIVE = "naive default"
"""The operator of the plain design that the last rung holds the others against; it is no proposal.
"""

WITHOUT = "without"
"""The operator of a design less one of its modules, trained to see what that module is worth; it is
no proposal either.
"""
REFERENCES = (NAIVE, WITHOUT)
"""Operators of designs that nobody proposed: others are held against them."""


def sha256(content: bytes | str) -> str:
    """The name of a blob."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def key_of(*parts: Any) -> str:
    """A name for a piece of work, from everything its outcome depends on (plain data)."""
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False))[:32]


def design_id(modules: Mapping[str, str]) -> str:
    """The name of a design, from the hashes of its modules: the same modules have the same name."""
    return key_of(sorted(modules.items()))[:12]


@dataclass(frozen=True)
class Candidate:
    """One design that was proposed. `modules` maps code_type to the hash of its source; {} is the
    default design.

    `module` is the code_type that was changed ("" where it is none or several), `iteration` counts
    outer iterations from 1, `call` and `place` say which answer of which model call it was (""
    where no model wrote it), `prompt` is the blob of the chat that asked for it (JSON), `reason`
    says why it may not be trained ("" where it may), `twin` names the earlier candidate that it
    repeats ("" where it is new).
    """

    id: str
    modules: Mapping[str, str]
    operator: str
    parents: tuple[str, ...] = ()
    module: str = ""
    iteration: int = 0
    call: str = ""
    place: int = 0
    macro: str = ""
    micro: str = ""
    model: str = ""
    adapter: str = ""
    reason: str = ""
    twin: str = ""
    behaviour: tuple[float, ...] = ()
    prompt: str = ""


@dataclass(frozen=True)
class Evaluation:
    """One training of a design at one rung with one seed, and what its policy scored on validation
    days and episodes.

    `scores` are summary numbers in bps over TWAP (score, static, static_total, dynamic, ...);
    `arrays` is the blob (npz) of the same per order, `policy` that of the trained weights, `curve`
    that of the training's rows as JSON. A training that gave no policy has status "failed" and a
    reason. `origin` names the run that it was taken from ("" where this run made it), `device` what
    it was trained on together with others ("" where it had a locked process of its own).
    """

    candidate: str
    rung: int
    seed: int
    status: str
    reason: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    arrays: str = ""
    policy: str = ""
    curve: str = ""
    work: float = 0.0
    seconds: float = 0.0
    isolation: str = ""
    attempts: int = 1
    origin: str = ""
    device: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is a score."""
        return self.status == "ok"


@dataclass(frozen=True)
class StoredStanding:
    """How a design stands over the default at one rung, in bps: the one place where a score and its
    error are stored.

    `se` holds the errors of orders and of training seeds, `ci95` is its interval, `seeds` counts
    the trainings, `by_seed` are their scores and `training_seeds` their seeds; at the search rung
    those of the screen are among them. `gain` is the score less the first parent's at the same rung, `gain_se` its error
    on the same orders and seeds; both are None where the parent does not stand there. `by_part`
    splits the score: gain and risk on history, every cell of simulated orders; `part_se` has their
    errors, of orders and seeds. `credits` has by
    module what it is worth against its counterpart, and the error of that. The default itself
    stands at 0 for certain.
    """

    candidate: str
    rung: int
    seeds: int
    score: float
    se: float
    ci95: tuple[float, float]
    by_seed: tuple[float, ...]
    by_world: Mapping[str, float]
    gain: float | None = None
    gain_se: float | None = None
    by_part: Mapping[str, float] = field(default_factory=dict)
    training_seeds: tuple[int, ...] = ()
    credits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    part_se: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of its event: a standing that changed is a new event, the same one is stored
        once.
        """
        return key_of("standing", vars(self))


@dataclass(frozen=True)
class Leader:
    """The design that leads a search after an iteration, for other searches with the same task.

    `modules` maps code_type to the hash of its source, `score` is its standing in bps.
    """

    task: str
    iteration: int
    candidate: str
    modules: Mapping[str, str]
    score: float
    se: float


@dataclass(frozen=True)
class ModelCall:
    """One request to a language model, answered: the answers are a blob, so that a resumed run need
    not ask again.
    """

    key: str
    model: str
    adapter: str
    proposals: int
    tokens_in: int
    tokens_out: int
    usd: float
    seconds: float
    reply: str


@dataclass(frozen=True)
class Instruction:
    """A text that tells the designer what to do: on the whole task (kind "macro") or on one module
    (kind: its code_type).
    """

    id: str
    kind: str
    text: str
    operator: str
    parents: tuple[str, ...] = ()
    iteration: int = 0


@dataclass(frozen=True)
class Adapter:
    """One version of the designer's trained weights; `weights` is its blob, `stats` what the update
    measured.
    """

    id: str
    parent: str
    weights: str
    iteration: int
    stats: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """One line of the journal. `key` is unique: what is written twice stands once."""

    seq: int
    at: float
    kind: str
    key: str
    payload: Mapping[str, Any]


class EventListener(Protocol):
    """Called with every event; `stored` says that it stood in the archive already."""

    def __call__(self, kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None: ...
