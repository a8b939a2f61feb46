"""ModuleKind: all that is particular to one kind of module, in one object.

A kind's file needs no torch to be imported: reports and the command line read contracts. What
checks or loads a live module imports torch where it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from se_rl.modules.contracts import Contract
from se_rl.modules.grammar import Rules, draw, lark_text, longest, most_choices

if TYPE_CHECKING:
    from se_rl.modules.module_probe import ModuleProbe

BEHAVIOUR = 64
"""Numbers in a behaviour vector."""

FAMILIES = ("start", "default")
"""The rules that a sentence of a kind's grammar begins with: what is drawn, and the default with
its constants as choices, which is parsed and edited but never drawn."""

Floats = npt.NDArray[np.float32]

Recorded = Mapping[str, npt.NDArray[Any]]
"""What modules are tried on: `fields_WORLD` [schedule, field, step, order] and `merit_WORLD`
[schedule] (higher is better, NaN unknown; the second half of the orders are the first half's other
sides), `observations` [order, step, field], `bars` [date, path, bar, 5]."""

Load = Callable[[], Any]
"""Loads the module on trial anew."""

RuntimeCheck = Callable[[Load, Recorded, "ModuleProbe"], Floats]
"""Tries a module and returns its behaviour vector; ModuleError where it breaks its contract."""

Draws = Literal["never", "from the generator", "freely"]
"""Whether a module may draw random numbers."""


def _unchanged(entry: Any) -> Any:
    return entry


def _no_more(entry: ast.stmt) -> None:
    """The signature is all that the static check asks for."""


@dataclass(frozen=True)
class Counterpart:
    """What a designed module is held against to see what it is worth by itself.

    `name` says it in words, `source` takes the module's place; None leaves the module out.
    """

    name: str
    source: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleKind:
    """One kind of module: contract, default, grammar, and how it is loaded and tried."""

    contract: Contract
    part: str
    """The field of `Modules` that a loaded module fills."""
    default_source: str
    """The hand-written default as a designer would write it."""
    rules: Rules
    """The grammar that designs are drawn from; every sentence of it is a valid module."""
    default_rules: Rules
    """The default's own family: `default` spells the default's text with choices for constants."""
    check: RuntimeCheck
    finish: Callable[[Any], Any] = _unchanged
    """Turns the loaded function or class into the live part; ModuleError where it is unfit."""
    check_entry: Callable[[Any], None] = _no_more
    """What the static check asks of the entry beyond its signature; raises SourceRefused."""
    draws: Draws = "freely"
    may_be_double: bool = False
    """Whether results in float64 are as good as in float32."""
    counterpart: Counterpart | None = None
    """What a designed module of this kind must be worth more than; None: its parent is enough."""

    @property
    def code_type(self) -> str:
        """The name of the kind in a design."""
        return self.contract.code_type

    @cached_property
    def all_rules(self) -> Rules:
        """Both families together."""
        return self.rules | self.default_rules

    @cached_property
    def lark_grammar(self) -> str:
        """The drawn family as Lark text for constrained decoding."""
        return lark_text(self.rules)

    @cached_property
    def most_tokens(self) -> int:
        """The most tokens of a module that a model chooses; everything else is forced.

        Twice the choices, as a model's tokens may also split the text before a choice.
        """
        return 2 * most_choices(self.rules)

    @cached_property
    def most_bytes(self) -> int:
        """The longest module of the grammar: as a cap on new tokens it cuts no sample."""
        return longest(self.rules)

    def random_source(self, rng: np.random.Generator) -> str:
        """A module drawn without a model."""
        return draw(self.rules, rng)
