"""How many attacks there are of each class, counted in the tables that the tests play."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
TABLES: dict[str, tuple[str, ...]] = {
    "score frauds (look-ahead, state, channels, recognition, encoded and regenerated days)": (
        "scoring/frauds:ALL",
    ),
    "forged results": (
        "rl/test_forged_results:FORGED",
        "rl/test_forged_results:FRAMES",
        "rl/test_forged_results:VERDICTS",
    ),
    "ways around the static stage": (
        "modules/walkaround_sources:WALKAROUNDS",
        "modules/memory_walkarounds:MORE_WALKAROUNDS",
    ),
    "time": ("llm/test_slow_inputs:SLOW",),
    "run folders, policy files, data, modules by hand": (
        "test_hostile_files:PLANTS",
        "test_commands_fuzz:MODULES",
    ),
    "fairness: work that is hidden": (
        "rl/test_fair_work:HIDDEN",
        "rl/test_fair_work:CHEAP",
        "rl/test_fair_work:CUBIC",
        "rl/test_fair_work:WIDE",
    ),
    "fairness: keys that are echoed": ("test_echoed_key:ECHOES",),
}
"""Where the attacks of a class stand, as module:table under tests."""


def attack_counts() -> dict[str, int]:
    """Attacks by class."""
    counts = {}
    for name, tables in TABLES.items():
        counts[name] = 0
        for table in tables:
            module, _, variable = table.partition(":")
            folder, _, file = module.rpartition("/")
            for place in (TESTS, TESTS / folder):
                if str(place) not in sys.path:
                    sys.path.append(str(place))
            counts[name] += len(getattr(import_module(file), variable))
    return counts
