"""Runs attacks, unprotected (the control) or behind the lock, and says which got their way.

    python -c "from attacks.campaign import main; main()" '{"bare": [["network", "tcp"]], "together": 1}'

A campaign has a process of its own: it holds the secret, plays the parent, and would be the first to be hurt.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attack_sandbox
import numpy as np
from attack_sandbox import ORACLES, RESULT_BYTES, ROWS, Evidence
from process_checks import children, eventually

from attacks import CORPUS
from attacks.canaries import NAME, Canaries
from attacks.control import BARS, LONG_SECONDS, QUIET, SHORT_SECONDS, Control
from se_rl.sandbox.lockdown import LAYERS, SandboxError
from se_rl.sandbox.policy_server import PolicyServer
from se_rl.sandbox.server import Sandbox

MEMORY_BYTES = 128 << 20
ONE_WORKER = ("leak", "claim", "alarm")
"""Oracles whose attacks may share a worker: behind the lock they fail one by one."""
ABREAST = 8
"""How many workers are attacked from at once where attacks need not be alone."""
Pair = tuple[str, str]
Row = tuple[str, str, bool, str, str]
"""Category, name, whether it got its way, how it ended, what was said."""


def main() -> None:
    """One campaign as the first argument's JSON says: control, bare and guarded name attacks; layers, unsafe, together."""
    words = json.loads(sys.argv[1])
    attack_sandbox.TOKEN = os.environ[NAME]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    control, bare, guarded = (
        [(c, n) for c, n in words.get(part, [])] for part in ("control", "bare", "guarded")
    )
    report: dict[str, Any] = {}
    with Canaries(attack_sandbox.TOKEN) as canaries:
        if control:
            plain = Control(canaries)
            report["control"] = [_row(pair, plain.evidence(*attack(pair))) for pair in control]
        if bare or guarded:
            with Sandbox(
                "attack_sandbox",
                layers=words.get("layers", LAYERS),
                unsafe=words.get("unsafe", False),
            ) as sandbox:
                report["level"] = sandbox.isolation.level
                for part, pairs in (("bare", bare), ("guarded", guarded)):
                    locked = Locked(
                        sandbox, canaries, guarded=part == "guarded", together=words["together"]
                    )
                    report[part] = list(locked.rows(pairs))
    print(json.dumps(report))


def attack(pair: Pair) -> tuple[str, str]:
    """Source and oracle of an attack; in the category `quiet`, of a harmless design under the oracle named."""
    return (QUIET, pair[1]) if pair[0] == "quiet" else CORPUS[pair[0]][pair[1]]


class Locked:
    """Attacks in a sandbox; `guarded` loads them with the framework's loader; together is 1 where each must be alone."""

    def __init__(
        self, sandbox: Sandbox, canaries: Canaries, *, guarded: bool, together: int
    ) -> None:
        self.sandbox, self.canaries, self.guarded, self.together = (
            sandbox,
            canaries,
            guarded,
            together,
        )
        sandbox.share("train", {"bars": BARS})
        self.honest = self.neighbour()

    def rows(self, pairs: Sequence[Pair]) -> Iterator[Row]:
        """One row for each attack."""
        sharing = self.together > 1 and not self.guarded
        easy = [pair for pair in pairs if sharing and attack(pair)[1] in ONE_WORKER]
        hard = [pair for pair in pairs if pair not in easy]
        for start in range(0, len(easy), self.together):
            yield from self.in_one_worker(easy[start : start + self.together])
        size = ABREAST if self.together > 1 else 1
        for start in range(0, len(hard), size):
            yield from self.abreast(hard[start : start + size])

    def in_one_worker(self, pairs: Sequence[Pair]) -> Iterator[Row]:
        """Several attacks in one worker; in halves where that worker did not live to its end."""
        if len(pairs) == 1:
            yield from self.abreast(pairs)
            return
        result = self.sandbox.call(
            "attack_sandbox:run_many",
            {"sources": [*map(self.source, pairs)]},
            **_limits(LONG_SECONDS),
        )
        if not result.ok:
            yield from self.in_one_worker(pairs[: len(pairs) // 2])
            yield from self.in_one_worker(pairs[len(pairs) // 2 :])
            return
        alarms = self.canaries.alarms()
        for i, pair in enumerate(pairs):
            error = result.value["errors"][i]
            found = Evidence(
                "failed" if error else "ok", result.value.get(str(i), ()), error, alarms
            )
            yield self.judged(pair, found)

    def abreast(self, pairs: Sequence[Pair]) -> Iterator[Row]:
        """Each attack in a worker of its own, all at once; an alarm or damage then counts for all of them."""
        started = [(pair, self.start(pair)) for pair in pairs]
        ended = [(pair, self.evidence(pair, calls)) for pair, calls in started]
        alarms = self.canaries.alarms()
        damage = (
            any(attack(pair)[1] in ("harm", "struck") for pair in pairs)
            and self.neighbour() != self.honest
        )
        left = not eventually(lambda: not children(self.sandbox.pid), LONG_SECONDS)
        for pair, found in ended:
            found.alarms, found.harm = alarms, found.harm or damage
            found.status = "running" if left else found.status
            yield self.judged(pair, found)

    def judged(self, pair: Pair, found: Evidence) -> Row:
        """An attack succeeds by its own oracle, and also by any alarm, leak or damage it was not meant for."""
        other = found.status in ("broken", "running") or bool(found.alarms) or found.leaked()
        return _row(pair, found, other)

    def source(self, pair: Pair) -> str:
        """The source of an attack, told where the canaries are."""
        return self.canaries.fill(attack(pair)[0], server=self.sandbox.pid)

    def start(self, pair: Pair) -> list[Any]:
        """The calls that an attack's oracle needs: two where it is whether they agree."""
        oracle = attack(pair)[1]
        if oracle == "policy":
            return []
        twice = 2 if oracle == "varies" else 1
        payload = {"source": self.source(pair), "guarded": self.guarded, "calls": twice}
        limits = _limits(SHORT_SECONDS if oracle == "endless" else LONG_SECONDS)
        return [self.sandbox.start("attack_sandbox:run", payload, **limits) for _ in range(twice)]

    def evidence(self, pair: Pair, calls: list[Any]) -> Evidence:
        """How an attack ended. Whatever is raised in the parent is a success of the attacker."""
        try:
            if not calls:
                return self.policy(self.source(pair))
            results = [call.wait() for call in calls]
        except Exception as error:
            return Evidence("broken", error=f"{type(error).__name__}: {error}")
        first = results[0]
        values = [result.value.get("value", np.zeros(0)) for result in results]
        found = Evidence(first.status, values[0], first.error, forged=first.ok)
        if len(calls) == 2 and all(result.ok for result in results):
            found.harm = (
                len({part.tobytes() for value in values for part in np.array_split(value, 2)}) == 1
            )
        return found

    def neighbour(self) -> bytes:
        """What an honest computation gives in the next worker."""
        result = self.sandbox.call("attack_sandbox:honest", seconds=LONG_SECONDS)
        return result.value["value"].tobytes() if result.ok else result.error.encode()

    def policy(self, source: str) -> Evidence:
        """The attack behind a policy server: only finite numbers of the right shape, or SandboxError."""
        payload = {"source": source, "guarded": self.guarded}
        shape: dict[str, Any] = {"rows": ROWS, "obs_shape": (1,), "stall_seconds": SHORT_SECONDS}
        try:
            with PolicyServer(self.sandbox, "attack_sandbox:policy", payload, **shape) as server:
                actions = [server.act(np.ones((ROWS, 1))) for _ in range(2)]
        except SandboxError as error:
            return Evidence("failed", error=f"SandboxError: {error}"[:500])
        return Evidence(
            "ok", harm=any(a.shape != (ROWS,) or not np.isfinite(a).all() for a in actions)
        )


def _limits(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "memory_bytes": MEMORY_BYTES, "result_bytes": RESULT_BYTES}


def _row(pair: Pair, found: Evidence, other: bool = False) -> Row:
    said = found.error[:200].encode("ascii", "replace").decode()
    return *pair, other or ORACLES[attack(pair)[1]](found), found.status, said
