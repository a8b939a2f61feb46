"""Designs from a language model: ask, extract, validate, ask again with the reason.

A failure is data, not an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from se_rl.llm.backends import (
    ADDRESS_PREFIXES,
    Designer,
    LlmError,
    Proposal,
    Request,
    TextGenerator,
    as_designer,
)
from se_rl.llm.code_validator import CodeValidator, ValidationResult
from se_rl.llm.extraction import Extraction, extract, normal_form
from se_rl.llm.ledger import as_metered
from se_rl.llm.prompts import NO_ROOM, Messages, build_prompt, repair_prompt
from se_rl.modules.kinds import KINDS
from se_rl.records.secrets import model_fault, scrub

Mode = Literal["auto", "grammar", "free"]

FREE_TOKENS, REASON_TOKENS, FREE_TEMPERATURE = 900, 300, 0.8
"""How long Python without a grammar may be, how much longer with reasons, and how freely written."""
HEAT, ROUNDS, HOTTEST = 1.5, 4, 5.0
"""A design that repeats another is drawn again, each time this much hotter, in so many rounds."""
Faults = tuple[str, ...]
Read = Callable[[str], Extraction]
"""Takes the module out of an answer."""


class Validator(Protocol):
    """What judges a module: `CodeValidator`, or anything that answers like it."""

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """Whether the module may be trained, and why not."""
        ...


@dataclass(frozen=True)
class Attempt:
    """One design asked for: its source and verdict if it got so far.

    `faults` has one line for each try that failed.
    """

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
        """How often the model was asked to fix it."""
        return max(0, len(self.faults) - (not self.is_valid))


class DesignGenerator:
    """Modules written by `designer` and judged by `validator`, with up to `tries` repairs each.

    `mode` "grammar" has a local model write under the module's grammar, "free" has it write Python,
    which alone is repaired; "auto" goes by the designer's abilities. With `chain_of_thought` it
    gives its reasons first, for which a grammar leaves no room.
    """

    def __init__(
        self,
        designer: Designer,
        validator: Validator | None = None,
        *,
        tries: int = 3,
        mode: Mode = "auto",
        chain_of_thought: bool = False,
    ) -> None:
        if mode not in ("auto", "grammar", "free"):
            raise ValueError(f"mode is {mode!r}; use auto, grammar or free")
        self.designer = as_designer(designer)
        self.tries = tries
        self.validator: Validator = validator or CodeValidator()
        self.constrained = mode == "grammar"
        if mode == "auto":
            self.constrained = self.designer.abilities.needs_grammar
        if self.constrained and chain_of_thought:
            raise ValueError(NO_ROOM)
        self.chain_of_thought = chain_of_thought
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
        """n attempts at one module, the failed ones included. Same seed, same designs.

        `prompt` goes to `build_prompt`. Under a grammar, what repeats another attempt or a source
        in `avoid` is drawn again.
        """
        words = {"chain_of_thought": self.chain_of_thought, **prompt}
        messages = build_prompt(code_type, constrained=self.constrained, **words)
        if self.constrained:
            heat = 1.0 if temperature is None else temperature
            kind = KINDS[code_type]
            request = Request(messages, kind.lark_grammar, kind.most_bytes, heat, seed)
            distinct = self.distinct(request, n, avoid)
            return [self.judged(code_type, proposal) for proposal in distinct]
        heat = FREE_TEMPERATURE if temperature is None else temperature
        most = FREE_TOKENS + REASON_TOKENS * words["chain_of_thought"]
        proposals = self.designer.propose(Request(messages, None, most, heat, seed), n)
        judged = [self.judged(code_type, proposal) for proposal in proposals]
        attempts: list[Attempt] = []
        for place, attempt in enumerate(judged):
            attempts.append(self._repaired(attempt, messages, [seed, place]))
        missing = n - len(attempts)
        if missing > 0:
            attempts += [Attempt(code_type, faults=(self.silence(),))] * missing
        return attempts

    def distinct(
        self, request: Request, n: int, avoid: Collection[str], *, read: Read | None = None
    ) -> list[Proposal]:
        """n proposals whose modules differ; repeats are drawn again, hotter, as far as it helps."""
        known = {normal_form(source) for source in avoid}
        found: dict[str, Proposal] = {}
        spare: list[Proposal] = []
        for turn in range(ROUNDS):
            heat = min(request.temperature * HEAT**turn, HOTTEST)
            again = replace(request, seed=_seed(request.seed, turn), temperature=heat)
            for proposal in self.designer.propose(again, n - len(found)):
                module = proposal.text if read is None else read(proposal.text).source
                form = normal_form(module or proposal.text)
                if form in known or found.setdefault(form, proposal) is not proposal:
                    spare.append(proposal)
            if len(found) >= n or not request.temperature:
                break
        return [*found.values(), *spare][:n]

    def judged(
        self, code_type: str, proposal: Proposal, faults: Faults = (), *, read: Read | None = None
    ) -> Attempt:
        """An answer's module, validated; the same module is validated once."""
        found = extract(proposal.text, code_type) if read is None else read(proposal.text)
        # again: what reading leaves out may have stood between the letters of a key
        reason = scrub(found.reason)
        if found.source is None:
            if proposal.finish == "length":
                cut = proposal.output_tokens
                reason = f"the answer was cut at {cut} tokens; write a shorter module"
            return Attempt(code_type, None, proposal, None, (*faults, reason))
        source = scrub(found.source)
        key = code_type, source
        if key not in self._verdicts:
            with _same_threads():
                self._verdicts[key] = self.validator.validate(source, code_type)
        verdict = self._verdicts[key]
        if not verdict.is_valid:
            faults = (*faults, f"{verdict.stage}: {verdict.error_message}")
        return Attempt(code_type, source, proposal, verdict, faults)

    def _repaired(self, attempt: Attempt, messages: Messages, place: Sequence[int]) -> Attempt:
        """The attempt after the repairs it needs and may have; words cannot fix the sandbox."""
        for turn in range(self.tries):
            broken = attempt.validation is not None and attempt.validation.stage == "sandbox"
            if attempt.is_valid or broken or attempt.proposal is None:
                return attempt
            asked = attempt.proposal.request
            heat = FREE_TEMPERATURE if asked is None else asked.temperature
            chat = repair_prompt(messages, attempt.proposal.text, attempt.faults[-1])
            request = Request(chat, None, FREE_TOKENS, heat, _seed(*place, turn))
            answers = self.designer.propose(request, 1)
            if not answers:
                return replace(attempt, faults=(*attempt.faults, self.silence()))
            attempt = self.judged(attempt.code_type, answers[0], attempt.faults)
        return attempt

    def silence(self) -> str:
        """That no answer came, and the latest reason for it."""
        metered = as_metered(self.designer)
        failures = metered.failures if metered else ()
        reason = f": {failures[-1].reason}" if failures else ""
        return f"no answer from {self.designer.name}{reason}"


class GenerationError(LlmError):
    """No valid module came out; the line gives the reasons."""


class LLMComponentGenerator:
    """One call per module: each returns the source of a valid one, or raises `GenerationError`.

    `designer` is a model's name, a folder, any `Designer`, or an object with `generate(prompt)`;
    `candidates` are asked for at once and the first valid one wins.
    """

    def __init__(
        self,
        designer: Designer | TextGenerator | str = "smollm2",
        validator: Validator | None = None,
        *,
        candidates: int = 4,
        tries: int = 3,
        mode: Mode = "auto",
    ) -> None:
        self.generator = DesignGenerator(open_designer(designer), validator, tries=tries, mode=mode)
        self.candidates = candidates

    def generate_reward_function(self, instruction: str | None = None, **settings: Any) -> str:
        """Source of `def reward(step)`; `settings` go to `DesignGenerator.generate`."""
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
        generate = self.generator.generate
        attempts = generate(code_type, self.candidates, micro=instruction, **settings)
        for attempt in attempts:
            if attempt.is_valid and attempt.source:
                return attempt.source
        reasons = dict.fromkeys(attempt.faults[-1] for attempt in attempts if attempt.faults)
        raise GenerationError(
            f"{self.generator.designer.name} wrote no valid {code_type}"
            f" in {len(attempts)} attempts: {'; '.join(reasons)}"
        )


def open_designer(
    designer: Designer | TextGenerator | str,
    *,
    threads: int | None = None,
    prices: tuple[float, float] = (0.0, 0.0),
) -> Designer:
    """A designer as it is, or the one of that name.

    A name is that of a local model, a folder, or `URL#MODEL` for one behind an endpoint at these
    `prices` (USD per million tokens read and written).
    """
    if not isinstance(designer, str):
        return as_designer(designer)
    if fault := model_fault(designer):
        raise LlmError(f"--llm {fault}; put the key into the variable OPENAI_API_KEY")
    if designer.startswith(ADDRESS_PREFIXES):
        from se_rl.llm.endpoint import named_endpoint

        return named_endpoint(designer, prices)
    from se_rl.llm.local import LocalDesigner

    return LocalDesigner(designer, threads=threads)


@contextmanager
def _same_threads() -> Iterator[None]:
    """Keep torch's threads: kernels that record steps set OpenMP's, and a model would spin."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def _seed(*place: int) -> int:
    return int(np.random.SeedSequence(list(place)).generate_state(1)[0])
