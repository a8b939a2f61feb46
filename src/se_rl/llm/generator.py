"""Designs from a language model: ask, extract, validate, ask again with the reason. What fails is data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast

import numpy as np

from se_rl.llm.backends import Designer, LlmError, Proposal, Request
from se_rl.llm.code_validator import CodeValidator, ValidationResult
from se_rl.llm.extraction import extract, normal_form
from se_rl.llm.prompts import Messages, build_prompt, repair_prompt
from se_rl.modules.kinds import KINDS

Mode = Literal["auto", "grammar", "free"]

FREE_WRITERS = ("qwen-coder",)
"""Known local models that write Python unaided; the others write under a grammar unless told otherwise."""
FREE_TOKENS, FREE_TEMPERATURE = 900, 0.8
HEAT, ROUNDS = 1.5, 4
"""A design that repeats another is drawn again, each time this much hotter, in at most so many rounds."""


class Validator(Protocol):
    """What judges a module: `CodeValidator`, or anything that answers like it."""

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult: ...


@dataclass(frozen=True)
class Attempt:
    """One design asked for: its source and verdict where it got so far, and in `faults` one line per try that failed."""

    code_type: str
    source: str | None = None
    proposal: Proposal | None = None
    validation: ValidationResult | None = None
    faults: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether there is a module that may be trained."""
        return self.validation is not None and self.validation.is_valid

    @property
    def repairs(self) -> int:
        """How often the model was asked to mend it."""
        return max(0, len(self.faults) - (not self.is_valid))


class DesignGenerator:
    """Modules written by `designer` and judged by `validator`; each free one gets up to `tries` repairs.

    `mode` "grammar" has a local model write under the module's grammar, "free" has it write Python; "auto" chooses.
    """

    def __init__(
        self,
        designer: Designer,
        validator: Validator | None = None,
        *,
        tries: int = 3,
        mode: Mode = "auto",
    ) -> None:
        if mode not in ("auto", "grammar", "free"):
            raise ValueError(f"mode is {mode!r}; use auto, grammar or free")
        self.designer, self.tries = designer, tries
        self.validator: Validator = validator or CodeValidator()
        can_constrain = hasattr(designer, "log_probs") and designer.name not in FREE_WRITERS
        self.constrained = can_constrain if mode == "auto" else mode == "grammar"
        self._verdicts: dict[tuple[str, str], ValidationResult] = {}

    def generate(
        self,
        code_type: str,
        n: int = 1,
        *,
        seed: int = 0,
        temperature: float | None = None,
        avoid: Collection[str] = (),
        **prompt: Any,
    ) -> list[Attempt]:
        """n attempts at one module, the failed ones included; `prompt` goes to `build_prompt`. Same seed, same designs.

        Under a grammar, what repeats another attempt or a source in `avoid` is drawn again.
        """
        messages = build_prompt(code_type, constrained=self.constrained, **prompt)
        if self.constrained:
            heat = 1.0 if temperature is None else temperature
            kind = KINDS[code_type]
            request = Request(messages, kind.lark_grammar, kind.most_bytes, heat, seed)
            return [
                self._judged(code_type, proposal) for proposal in self._distinct(request, n, avoid)
            ]
        heat = FREE_TEMPERATURE if temperature is None else temperature
        proposals = self.designer.propose(Request(messages, None, FREE_TOKENS, heat, seed), n)
        attempts = [self._judged(code_type, proposal) for proposal in proposals]
        attempts = [
            self._repaired(attempt, messages, [seed, place])
            for place, attempt in enumerate(attempts)
        ]
        return attempts + [Attempt(code_type, faults=(self._silence(),))] * (n - len(attempts))

    def _distinct(self, request: Request, n: int, avoid: Collection[str]) -> list[Proposal]:
        """n proposals under a grammar; those that repeat an earlier one are drawn again, hotter, as far as that helps."""
        known = {normal_form(source) for source in avoid}
        found: dict[str, Proposal] = {}
        spare: list[Proposal] = []
        for turn in range(ROUNDS):
            again = replace(
                request,
                seed=_seed(request.seed, turn),
                temperature=request.temperature * HEAT**turn,
            )
            for proposal in self.designer.propose(again, n - len(found)):
                form = normal_form(proposal.text)
                if form in known or found.setdefault(form, proposal) is not proposal:
                    spare.append(proposal)
            if len(found) >= n or not request.temperature:
                break
        return [*found.values(), *spare][:n]

    def _judged(self, code_type: str, proposal: Proposal, faults: tuple[str, ...] = ()) -> Attempt:
        """An answer's module, validated; the same module is validated once."""
        found = extract(proposal.text, code_type)
        if found.source is None:
            cut = f"the answer was cut at {proposal.output_tokens} tokens; write a shorter module"
            return Attempt(
                code_type,
                None,
                proposal,
                None,
                (*faults, cut if proposal.finish == "length" else found.reason),
            )
        key = code_type, found.source
        if key not in self._verdicts:
            with _same_threads():
                self._verdicts[key] = self.validator.validate(found.source, code_type)
        verdict = self._verdicts[key]
        if not verdict.is_valid:
            faults = (*faults, f"{verdict.stage}: {verdict.error_message}")
        return Attempt(code_type, found.source, proposal, verdict, faults)

    def _repaired(self, attempt: Attempt, messages: Messages, place: Sequence[int]) -> Attempt:
        """The attempt after as many repairs as it needs and may have; a room that is missing cannot be mended by words."""
        for turn in range(self.tries):
            broken = attempt.validation is not None and attempt.validation.stage == "sandbox"
            if attempt.is_valid or broken or attempt.proposal is None:
                return attempt
            asked = attempt.proposal.request
            heat = FREE_TEMPERATURE if asked is None else asked.temperature
            chat = repair_prompt(messages, attempt.proposal.text, attempt.faults[-1])
            answers = self.designer.propose(
                Request(chat, None, FREE_TOKENS, heat, _seed(*place, turn)), 1
            )
            if not answers:
                return replace(attempt, faults=(*attempt.faults, self._silence()))
            attempt = self._judged(attempt.code_type, answers[0], attempt.faults)
        return attempt

    def _silence(self) -> str:
        failures = getattr(self.designer, "failures", ())
        return f"no answer from {self.designer.name}" + (
            f": {failures[-1].reason}" if failures else ""
        )


class GenerationError(LlmError):
    """No valid module came out; the line gives the reasons."""


class LLMComponentGenerator:
    """One call per module: each returns the source of a valid one, or raises `GenerationError` with the reasons.

    `designer` is a model's name, a folder or any `Designer`; `candidates` are asked for at once and the first valid wins.
    """

    def __init__(
        self,
        designer: Designer | str = "smollm2",
        validator: Validator | None = None,
        *,
        candidates: int = 4,
        tries: int = 3,
        mode: Mode = "auto",
    ) -> None:
        self.generator = DesignGenerator(open_designer(designer), validator, tries=tries, mode=mode)
        self.candidates = candidates

    def generate_reward_function(self, instruction: str | None = None, **settings: Any) -> str:
        """Source of `def reward(step)`; `settings` are those of `DesignGenerator.generate`."""
        return self._first_valid("reward", instruction, settings)

    def generate_network_architecture(self, instruction: str | None = None, **settings: Any) -> str:
        """Source of `class Network`."""
        return self._first_valid("network", instruction, settings)

    def generate_imagination_module(self, instruction: str | None = None, **settings: Any) -> str:
        """Source of `def imagine(bars, generator)`."""
        return self._first_valid("imagination", instruction, settings)

    def generate_communication_protocol(
        self, instruction: str | None = None, **settings: Any
    ) -> str:
        """Source of `class Communication`."""
        return self._first_valid("communication", instruction, settings)

    def generate_agent_profile(self, instruction: str | None = None, **settings: Any) -> str:
        """Source of `def profile()`, the participants of the simulated market."""
        return self._first_valid("profiling", instruction, settings)

    def _first_valid(
        self, code_type: str, instruction: str | None, settings: dict[str, Any]
    ) -> str:
        attempts = self.generator.generate(
            code_type, self.candidates, micro=instruction, **settings
        )
        for attempt in attempts:
            if attempt.is_valid and attempt.source:
                return attempt.source
        reasons = "; ".join(
            dict.fromkeys(attempt.faults[-1] for attempt in attempts if attempt.faults)
        )
        raise GenerationError(
            f"{self.generator.designer.name} wrote no valid {code_type} in {len(attempts)} attempts: {reasons}"
        )


def open_designer(
    designer: Designer | str,
    *,
    threads: int | None = None,
    prices: tuple[float, float] = (0.0, 0.0),
) -> Designer:
    """A designer as it is, the local model of that name or folder, or, as `URL#MODEL`, one behind an endpoint at these prices."""
    if not isinstance(designer, str):
        return designer
    if designer.startswith(("http://", "https://")):
        from se_rl.llm.endpoint import EndpointDesigner

        address, _, model = designer.partition("#")
        if not model:
            raise LlmError(
                f"{designer} names no model; write it behind a #, as in http://localhost:8000/v1#my-model"
            )
        return EndpointDesigner(
            address, model, usd_per_million_in=prices[0], usd_per_million_out=prices[1]
        )
    from se_rl.llm.local import LocalDesigner

    return cast(Designer, LocalDesigner(designer, threads=threads))


@contextmanager
def _same_threads() -> Iterator[None]:
    """The kernels that record steps for validation set the threads of OpenMP, and so torch's: a model would spin on them."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def _seed(*place: int) -> int:
    return int(np.random.SeedSequence(list(place)).generate_state(1)[0])
