"""The champions of searches as one more learned rival: seed k trains the design that search k found."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from se_rl.baselines.registry import TrainRival
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import NamedWorlds, World, several
from se_rl.modules.defaults import Modules
from se_rl.modules.derivation import derivation, spell
from se_rl.modules.loading import load_design
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl.rl.training_worlds import imagined_world
from se_rl_benchmarks.search_results import champions_of


@dataclass(frozen=True, eq=False)
class Champions:
    """The designs' sources by seed; where a search kept the default, that is what its user has."""

    sources: Mapping[int, Mapping[str, str]]
    name: str = "SE-RL champion"

    def without(self, module: str) -> Champions:
        """The same designs with the default's module in place of their own."""
        sources = {}
        for seed, own in self.sources.items():
            sources[seed] = {name: text for name, text in own.items() if name != module}
        return Champions(sources, f"champion, default {module}")

    def load(self) -> TrainRival:
        """The function that trains them."""
        return self.train

    def train(
        self,
        worlds: NamedWorlds,
        *,
        budget: float,
        seed: int,
        neutral: Mapping[str, Neutral],
    ) -> Trained:
        """Train the champion of the search with this seed, as the default is trained."""
        modules = load_design(self.sources.get(seed, {}))
        places = {}
        for name, own in several(worlds).items():
            places[name] = tuple(with_imagined(world, modules, seed) for world in own)
        return train(modules, places, TrainConfig(budget=budget), seed=seed, neutral=neutral)


def with_imagined(world: World, modules: Modules, seed: int) -> World:
    """A world of history with as many imagined episodes, where the design imagines any."""
    if modules.imagine is None or not isinstance(world, StaticWorld):
        return world
    return MixedWorld([world, imagined_world(world, modules.imagine, seed=seed)])


def read_champions(path: Path, *, found_on: str, arm: str) -> Champions:
    """The champions of an arm's searches on a set, out of a champions.jsonl of `search_tables.py`.

    They are built from the choices that the grammar reads in them: nothing else of the file is run.
    """
    designs = {}
    for one in champions_of(path):
        if (one.found_on, one.arm) == (found_on, arm):
            designs[one.seed] = respelled(one.sources)
    if not designs:
        sys.exit(f"{path} has no champion of arm {arm} on {found_on}; give another file or arm")
    return Champions(designs)


def respelled(sources: Mapping[str, str]) -> dict[str, str]:
    """A design as the grammar spells it; refused where it is not the grammar's."""
    spelled = {}
    for code_type, source in sources.items():
        choices = derivation(source, code_type)
        if choices is None:
            sys.exit(f"this champion's {code_type} is free Python, which only a locked run trains")
        spelled[code_type] = spell(choices, code_type)
    return spelled
