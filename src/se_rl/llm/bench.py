"""`se-rl bench llm`: real designs by a real model, how many are valid and distinct, and what one costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from se_rl.llm.backends import Designer, Proposal, Request
from se_rl.llm.extraction import extract, normal_form
from se_rl.llm.generator import Attempt, DesignGenerator, Mode, Validator, open_designer
from se_rl.modules.contracts import CODE_TYPES

PORTION = 32
"""Designs of one call: they share the reading of the prompt, and time is looked at in between."""


class Counted:
    """A designer that keeps what it wrote, call by call, and the seconds it took; redraws and repairs included."""

    def __init__(self, designer: Designer) -> None:
        self._designer = designer
        self.calls: list[list[Proposal]] = []
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._designer, name)

    def propose(self, request: Request, n: int) -> list[Proposal]:
        """The designer's own proposals, kept."""
        started = time.perf_counter()
        self.calls.append(self._designer.propose(request, n))
        self.seconds += time.perf_counter() - started
        return self.calls[-1]


def bench_llm(
    model: str | Designer = "smollm2",
    *,
    n: int = 32,
    modules: Sequence[str] = CODE_TYPES,
    seconds: float = float("inf"),
    tries: int = 3,
    mode: Mode = "auto",
    validator: Validator | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Valid, distinct designs per minute of one model over all `modules`, n of each or as many as `seconds` each allow.

    Everything counts: drawing repeats again, repairs, both stages of validation. `distinct` is what the generator hands on;
    `distinct_before_redraws` what the model wrote by itself at first. The caller adds `machine`.
    """
    if n < 1:
        raise ValueError(f"n is {n}; ask for at least 1 design a module")
    designer = open_designer(model)
    generator = DesignGenerator(
        cast(Designer, Counted(designer)), validator, tries=tries, mode=mode
    )
    say(f"loading {designer.name} and the sandbox")
    generator.generate(modules[0], 1)
    detail: dict[str, Any] = {}
    for code_type in modules:
        detail[code_type] = _bench_module(generator, code_type, n=n, seconds=seconds, say=say)
    wall = sum(row["n"] * row["seconds_per_design"] for row in detail.values())
    return {
        "name": f"{designer.name}, {'under grammars' if generator.constrained else 'free Python'}",
        "unit": "valid and distinct designs/min, validation included",
        "value": 60.0 * sum(row["distinct"] for row in detail.values()) / wall,
        "peers": {},
        "ratios": {},
        "detail": detail,
    }


def _bench_module(
    generator: DesignGenerator,
    code_type: str,
    *,
    n: int,
    seconds: float,
    say: Callable[[str], None],
) -> dict[str, Any]:
    counted: Any = generator.designer
    counted.calls, counted.seconds = [], 0.0
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
    answers = [proposal for call in counted.calls for proposal in call]
    valid = [attempt.source for attempt in attempts if attempt.is_valid and attempt.source]
    faults = [attempt.faults[-1] for attempt in attempts if not attempt.is_valid and attempt.faults]
    return {
        "n": len(attempts),
        "valid": len(valid),
        "distinct": len({normal_form(source) for source in valid}),
        "distinct_before_redraws": len(
            {normal_form(extract(p.text, code_type).source or p.text) for p in first}
        ),
        "seconds_per_design": wall / len(attempts),
        "tokens_per_design": sum(answer.output_tokens for answer in answers) / len(attempts),
        "model_seconds_per_design": counted.seconds / len(attempts),
        "answers_per_design": len(answers) / len(attempts),
        "repairs": sum(attempt.repairs for attempt in attempts),
        "faults": {fault: faults.count(fault) for fault in dict.fromkeys(faults)},
    }
