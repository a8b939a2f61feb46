"""Which designs a bank holds: edits near and far, random ones, what searches accept, and chains.

scan      the default with one choice made otherwise, each of them
edit      the default with two to six choices made otherwise
near      the combination that most searches end at, with up to three choices made otherwise
random    a whole design from the grammar
accepted  the champion of a search
chain     an edit of the best design of its chain so far; chains begin with the best of the others
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from se_rl.modules.design_bank.readings import DEFAULT_KIND, BankHead, PlannedDesign
from se_rl.modules.edits import drawn_edit, single_edits
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.network_grammar import FURTHER_SETS
from se_rl.records.entries import design_id, sha256

DISTANCES = (2, 3, 4, 5, 6)
"""Choices that edits of the default make otherwise."""
NEAR_DISTANCES = (1, 2, 3)
"""Choices that edits of the leading combination make otherwise."""
CHAIN_STEPS = (0.5, 0.3, 0.2)
"""How often a step of a chain makes one, two or three choices anew."""
SCAN_SHARE, NEAR_SHARE, RANDOM_SHARE, CHAIN_SHARE = 0.25, 0.15, 0.1, 0.1
"""Of all designs: the scan at most, edits of the leading combination, random ones, chains.

The rest are accepted ones and edits of the default at a distance."""
TRIES = 50
"""Draws of a new design before there are taken to be no more."""

LEADING = {
    "network": f"""class Network(nn.Module):
    learning_rate = 0.002
    epochs = 3
    gae_lambda_dynamic = 0.98
    action_scale = 2.0
    batch = 0.25
    inputs = {FURTHER_SETS[-1]}

    def __init__(self, obs_dim, history):
        super().__init__()
        width = 64
        self.feature_dim = width
        self.first = nn.Linear(obs_dim * history, width)

    def forward(self, obs):
        return torch.tanh(self.first(obs.flatten(1)))
"""
}
"""What trials on synthetic validation days led to: the default, and it is shown all that helps."""

Sources = Mapping[str, str]


def named(
    kind: str, sources: Sources, *, parent: str = "", chain: str = "", steps: int = 0
) -> PlannedDesign:
    """A design with its name; one that begins its own chain gives it its name."""
    own = {}
    for module, text in sorted(sources.items()):
        if text != KINDS[module].default_source:
            own[module] = text
    name = design_id({module: sha256(text) for module, text in own.items()})
    return PlannedDesign(name, kind, parent, chain or name, steps, own)


DEFAULT_DESIGN = named("default", {})


def edited(
    sources: Sources, modules: Sequence[str], rng: np.random.Generator, *, steps: int
) -> Sources:
    """Sources after so many changes of one choice, each of any module.

    Modules with many choices are changed more often, by the root of their number.
    """
    made = dict(sources)
    counts = [len(single_edits(KINDS[name].default_source, name, rng)) for name in modules]
    weights = np.sqrt(counts) / np.sqrt(counts).sum()
    for place in rng.choice(len(modules), size=steps, p=weights):
        module = modules[int(place)]
        source = made.get(module) or KINDS[module].default_source
        made[module] = drawn_edit(source, module, rng) or source
    return made


def planned(
    modules: Sequence[str], designs: int, *, seed: int, known: Iterable[PlannedDesign] = ()
) -> list[PlannedDesign]:
    """All designs but the chains, each once, in no order: the known ones and what is missing."""
    rng = np.random.default_rng(seed)
    found = {one.id: one for one in known if one.kind not in (DEFAULT_KIND, "chain")}
    scans = list(_scans(modules, rng))
    most = int(SCAN_SHARE * designs)
    for place in rng.permutation(len(scans)):
        if _count(found, "scan") < most:
            found.setdefault(scans[int(place)].id, scans[int(place)])
    leading = named("near", LEADING, parent=DEFAULT_DESIGN.id)
    if NEAR_SHARE * designs >= 1.0:
        found.setdefault(leading.id, leading)
    _fill(found, "near", round(NEAR_SHARE * designs), lambda n: _near(modules, rng, n))
    _fill(found, "random", round(RANDOM_SHARE * designs), lambda _: _random(modules, rng))
    edits = designs - chain_designs(designs) - len(found) + _count(found, "edit")
    _fill(found, "edit", edits, lambda n: _far(modules, rng, n))
    every = list(found.values())
    return [every[int(place)] for place in rng.permutation(len(every))]


def near_today(head: BankHead, more: int, *, seed: int) -> list[PlannedDesign]:
    """Today's default, all single edits of it and as many others as wanted, in a bank that was
    begun with another default: what differs from that one is spelled out."""
    rng = np.random.default_rng([seed, more])
    today = {module: KINDS[module].default_source for module in head.modules}

    def planned_near(sources: Sources, steps: int) -> PlannedDesign:
        own = {}
        for module, text in sorted({**today, **sources}.items()):
            if text != head.default[module]:
                own[module] = text
        name = design_id({module: sha256(text) for module, text in own.items()})
        return PlannedDesign(name, "near", DEFAULT_DESIGN.id, name, steps, own)

    first = planned_near({}, 0)
    found = {}
    for module in head.modules:
        for source in single_edits(today[module], module, rng):
            one = planned_near({module: source}, 1)
            found[one.id] = one
    for number in range(TRIES * more):
        if len(found) >= more:
            break
        steps = 2 + number % 3
        one = planned_near(edited({}, head.modules, rng, steps=steps), steps)
        found.setdefault(one.id, one)
    every = [one for one in found.values() if one.id not in (first.id, DEFAULT_DESIGN.id)]
    return [first, *(every[int(place)] for place in rng.permutation(len(every)))]


def accepted(sources: Sources) -> PlannedDesign:
    """A search's champion."""
    return named("accepted", sources, parent=DEFAULT_DESIGN.id)


def _fill(
    found: dict[str, PlannedDesign], kind: str, wanted: int, draw: Callable[[int], PlannedDesign]
) -> None:
    """Draw new designs of a kind until there are as many as wanted, or no more are found."""
    for number in range(_count(found, kind), wanted):
        for _ in range(TRIES):
            one = draw(number)
            if one.id not in found and one.id != DEFAULT_DESIGN.id:
                found[one.id] = one
                break


def _count(found: Mapping[str, PlannedDesign], kind: str) -> int:
    return sum(one.kind == kind for one in found.values())


def chain_designs(designs: int) -> int:
    """How many of the designs are steps of chains."""
    return round(CHAIN_SHARE * designs)


def _scans(modules: Sequence[str], rng: np.random.Generator) -> Iterator[PlannedDesign]:
    for module in modules:
        for source in single_edits(KINDS[module].default_source, module, rng):
            yield named("scan", {module: source}, parent=DEFAULT_DESIGN.id, steps=1)


def _far(modules: Sequence[str], rng: np.random.Generator, number: int) -> PlannedDesign:
    steps = DISTANCES[number % len(DISTANCES)]
    sources = edited({}, modules, rng, steps=steps)
    return named("edit", sources, parent=DEFAULT_DESIGN.id, steps=steps)


def _near(modules: Sequence[str], rng: np.random.Generator, number: int) -> PlannedDesign:
    steps = NEAR_DISTANCES[number % len(NEAR_DISTANCES)]
    sources = edited(LEADING, modules, rng, steps=steps)
    return named("near", sources, parent=named("near", LEADING).id, steps=steps)


def _random(modules: Sequence[str], rng: np.random.Generator) -> PlannedDesign:
    """One to all of the modules from their grammars."""
    count = int(rng.integers(1, len(modules) + 1))
    chosen = rng.permutation(len(modules))[:count]
    sources = {modules[int(i)]: KINDS[modules[int(i)]].random_source(rng) for i in chosen}
    return named("random", sources, parent=DEFAULT_DESIGN.id)


class Chains:
    """Chains of accepted edits: each goes on from the best design that it has found so far.

    `known` are designs that are no step of a chain, whether they were trained yet or not.
    """

    def __init__(self, modules: Sequence[str], count: int, *, known: Iterable[str]) -> None:
        self.modules = modules
        self.count = count
        self.designs: dict[str, PlannedDesign] = {}
        self._known = {DEFAULT_DESIGN.id, *known}
        self._gains: dict[str, float] = {}
        self._asked: dict[str, int] = {}

    def book(self, design: PlannedDesign, gain: float) -> None:
        """A design with what it gained over the default."""
        if design.kind == "chain" and design.id not in self._known:  # of an earlier call
            self._asked[design.chain] = self._asked.get(design.chain, 0) + 1
        self._known.add(design.id)
        self.designs[design.id] = design
        self._gains[design.id] = gain

    def step(self, rng: np.random.Generator) -> PlannedDesign | None:
        """A new design of the chain that was asked least; None where none is found."""
        self._begin()
        if not self._asked:
            return None
        chain = min(self._asked, key=lambda name: self._asked[name])
        self._asked[chain] += 1
        parent = self._best(chain)
        for _ in range(TRIES):
            steps = int(rng.choice(len(CHAIN_STEPS), p=CHAIN_STEPS)) + 1
            sources = edited(parent.sources, self.modules, rng, steps=steps)
            one = named("chain", sources, parent=parent.id, chain=chain, steps=steps)
            if one.id not in self._known:
                self._known.add(one.id)
                return one
        return None

    def _begin(self) -> None:
        """Open chains with the best designs that are in none, until there are enough."""
        free = [name for name, one in self.designs.items() if one.kind != "chain"]
        for name in sorted(free, key=lambda name: self._gains[name], reverse=True):
            if len(self._asked) >= self.count:
                break
            self._asked.setdefault(name, 0)

    def _best(self, chain: str) -> PlannedDesign:
        own = [name for name, one in self.designs.items() if one.chain == chain]
        return self.designs[max(own, key=lambda name: self._gains[name])]
