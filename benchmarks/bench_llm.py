"""`se-rl bench llm`: how many designs of a model are valid and distinct, and what one costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from se_rl.llm.backends import Abilities, Designer, Proposal, Request
from se_rl.llm.extraction import extract, normal_form
from se_rl.llm.generator import Attempt, DesignGenerator, Mode, Validator, open_designer
from se_rl.llm.ledger import Failure, Ledger, as_metered
from se_rl.modules.kinds import KINDS
from se_rl_benchmarks.timing import Measurement, Say, silent

PORTION = 32
"""Designs of one call: they share the reading of the prompt, and time is checked in between."""


class CountedDesigner:
    """A designer that keeps what it wrote, call by call, and the seconds it took.

    Redraws and repairs are included.
    """

    def __init__(self, designer: Designer) -> None:
        self._designer = designer
        self.calls: list[list[Proposal]] = []
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._designer.name

    @property
    def abilities(self) -> Abilities:
        """What the designer itself can do, except that nobody learns here."""
        return replace(self._designer.abilities, learns=False)

    @property
    def ledger(self) -> Ledger:
        """What the designer's calls used."""
        metered = as_metered(self._designer)
        return metered.ledger if metered else Ledger()

    @property
    def failures(self) -> Sequence[Failure]:
        """The designer's calls that brought nothing."""
        metered = as_metered(self._designer)
        return metered.failures if metered else ()

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """The designer's own proposals, kept."""
        started = time.perf_counter()
        self.calls.append(self._designer.propose(request, n))
        self.seconds += time.perf_counter() - started
        return self.calls[-1]


@dataclass(frozen=True)
class ModuleFigures:
    """What a model achieved on one module: counts, costs per design, and the faults by name."""

    n: int
    valid: int
    distinct: int
    distinct_before_redraws: int
    seconds_per_design: float
    tokens_per_design: float
    model_seconds_per_design: float
    answers_per_design: float
    repairs: int
    faults: dict[str, int]


def bench_llm(
    model: str | Designer = "smollm2",
    *,
    n: int = 32,
    modules: Sequence[str] = tuple(KINDS),
    seconds: float = float("inf"),
    tries: int = 3,
    mode: Mode = "auto",
    validator: Validator | None = None,
    say: Say = silent,
) -> Measurement:
    """Valid, distinct designs per minute of one model: n per module, or as many as `seconds` allow.

    Everything counts: redraws of repeats, repairs, both stages of validation. `distinct` is what
    the generator hands on; `distinct_before_redraws` is what the model wrote by itself at first.
    """
    if n < 1:
        raise ValueError(f"n is {n}; ask for at least 1 design a module")
    designer = open_designer(model)
    counted = CountedDesigner(designer)
    generator = DesignGenerator(counted, validator, tries=tries, mode=mode)
    say(f"loading {designer.name} and the sandbox")
    generator.generate(modules[0], 1)
    detail: dict[str, object] = {}
    wall = 0.0
    distinct = 0
    for code_type in modules:
        row = _bench_module(generator, counted, code_type, n=n, seconds=seconds, say=say)
        wall += row.n * row.seconds_per_design
        distinct += row.distinct
        detail[code_type] = asdict(row)
    return Measurement(
        name=f"{designer.name}, {'under grammars' if generator.constrained else 'free Python'}",
        unit="valid and distinct designs/min, validation included",
        value=60.0 * distinct / wall,
        detail=detail,
    )


def _bench_module(
    generator: DesignGenerator,
    counted: CountedDesigner,
    code_type: str,
    *,
    n: int,
    seconds: float,
    say: Say,
) -> ModuleFigures:
    """Generate designs of one module and count."""
    counted.calls = []
    counted.seconds = 0.0
    attempts: list[Attempt] = []
    first: list[Proposal] = []
    started = time.perf_counter()
    while len(attempts) < n and time.perf_counter() - started < seconds:
        say(f"{code_type}: {len(attempts)} of {n}")
        written = [attempt.source for attempt in attempts if attempt.source]
        portion = min(PORTION, n - len(attempts))
        calls = len(counted.calls)
        attempts += generator.generate(code_type, portion, seed=len(attempts), avoid=written)
        first += counted.calls[calls]
    wall = time.perf_counter() - started
    valid = [attempt.source for attempt in attempts if attempt.is_valid and attempt.source]
    answers = sum(len(call) for call in counted.calls)
    return ModuleFigures(
        n=len(attempts),
        valid=len(valid),
        distinct=len(set(map(normal_form, valid))),
        distinct_before_redraws=_distinct(first, code_type),
        seconds_per_design=wall / len(attempts),
        tokens_per_design=_tokens(counted.calls) / len(attempts),
        model_seconds_per_design=counted.seconds / len(attempts),
        answers_per_design=answers / len(attempts),
        repairs=sum(attempt.repairs for attempt in attempts),
        faults=_last_faults(attempts),
    )


def _distinct(proposals: Sequence[Proposal], code_type: str) -> int:
    """How many different sources the proposals hold."""
    forms = set()
    for proposal in proposals:
        source = extract(proposal.text, code_type).source or proposal.text
        forms.add(normal_form(source))
    return len(forms)


def _tokens(calls: Sequence[Sequence[Proposal]]) -> int:
    """Output tokens of all calls."""
    total = 0
    for call in calls:
        total += sum(answer.output_tokens for answer in call)
    return total


def _last_faults(attempts: Sequence[Attempt]) -> dict[str, int]:
    """The last fault of every attempt that stayed invalid, counted."""
    faults: Counter[str] = Counter()
    for attempt in attempts:
        if not attempt.is_valid and attempt.faults:
            faults[attempt.faults[-1]] += 1
    return dict(faults)
