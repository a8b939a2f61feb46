"""How far selection can be trusted: whole searches among designs whose truth is known.

    python benchmarks/gate.py [--searches 500] [--designs 64] [--preset standard] [--seed 0]
        [--json]

The searches go through the ladder's own code. Nothing is trained: a planted training pool draws the
scores that trainings would have brought. Orders share most of their noise, all designs bet on the
market's days, training seeds add their luck, to some designs much of it, and how a design stands
after a short training says something, not all, of how it stands in the end (figures: `World`;
screens and races train alike).
What the ladder expects of designs beforehand is drawn, too, and tells nothing: a bank that misleads.
In the null case no design is better than the default in the end, though some learn faster; in the
second every eighth gains half a basis point and no other anything; in the third truths are drawn
with a standard deviation of 0.3 bps. Every search screens all designs, promotes the best of each
batch, holds the last rung on fresh days, picks a champion and opens the test days once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.records.entries import DEFAULT, Candidate, Evaluation, design_id, key_of
from se_rl.records.gains import Gain
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.score import Array, ScoreRule, contributions, difference
from se_rl.scoring.score_summary import gain_of

SIZES = ("small", "usual", "large")
TEST = 3
"""The block of days that no rung scores on."""
NULL, HALF, SPREAD = "null", "half", "planted"
"""Cases: no design is better than the default, every eighth is by 0.5 bps, or truths are drawn."""
EVERY = 8


@dataclass(frozen=True)
class World:
    """What scores are made of, in bps, by what the design bank measured.

    Orders have noise, most of it shared by all designs, and training seeds have luck: `seed_sd`
    (the bank: .18), and for every `restless`-th design `restless_sd`, which is assumed and more
    than any group of the bank has. The whole gain has a bet on the market's day in it, of which designs share nine tenths. Truths
    differ by `effect_sd`; `fidelity` is the correlation of a design's true gain after a third of
    the last rung's budget with that after all of it, and `foresight_sd` how far a bank's
    expectations reach that have nothing to do with the truth.
    """

    shared_sd: float = 4.47
    own_sd: float = 1.7
    own_day_sd: float = 0.34
    bet_sd: float = 5.0
    own_bet_sd: float = 0.5
    seed_sd: float = 0.2
    restless_sd: float = 0.3
    restless: int = 4
    effect_sd: float = 0.3
    fidelity: float = 0.72
    foresight_sd: float = 0.15
    days: tuple[int, int, int, int] = (24, 24, 48, 120)
    orders_per_day: int = 32
    episodes: int = 1000


class PlantedTrainingPool:
    """Stands in for trainings: scores from `effects`, each design's true gain at every rung."""

    def __init__(
        self,
        effects: Mapping[str, Sequence[float]],
        *,
        seed: int,
        world: World | None = None,
    ) -> None:
        self.effects = effects
        self.seed = seed
        self.world = world or World()
        self.trainings = [0, 0, 0]
        self._kept: dict[str, Array] = {}

    @property
    def cells(self) -> dict[str, tuple[str, ...]]:
        """Simulated orders of three sizes."""
        return {"dynamic": SIZES}

    def regimes(self, rung: Rung) -> dict[str, npt.NDArray[np.bool_]]:
        """Every other order is a calm one."""
        calm = np.arange(self.world.days[rung.index] * self.world.orders_per_day) % 2 == 0
        return {"calm": calm, "wild": ~calm}

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job, done."""
        for job in jobs:
            rung = job.rung.index
            self.trainings[rung] += 1
            place = f"{job.candidate.id} {rung} {job.seed}"
            yield job, Evaluation(job.candidate.id, rung, job.seed, "ok", arrays=place), False

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores per order of one training."""
        return self.scores(
            evaluation.candidate, evaluation.rung, evaluation.seed, block=evaluation.rung
        )

    def scores(self, name: str, rung: int, seed: int, *, block: int) -> dict[str, Array]:
        """What a design's training at a rung gets on a block of days.

        The first two rungs see the same days.
        """
        block = max(block, 1)
        luck = self._spread(name) * float(self._noise("luck", name, rung, seed, size=1)[0])
        level = self.effects[name][rung] + luck
        day = np.repeat(
            np.arange(self.world.days[block], dtype=np.float64), self.world.orders_per_day
        )
        by_day = self.world.own_day_sd * self._noise(
            "days", name, block, size=self.world.days[block]
        )
        static = self._orders(name, block, "static", len(day)) + by_day[day.astype(int)]
        dynamic = self._orders(name, block, "dynamic", self.world.episodes)
        bet = self.world.bet_sd * self._noise("market", block, size=self.world.days[block])
        bet = bet + self.world.own_bet_sd * self._noise(
            "bet", name, block, size=self.world.days[block]
        )
        return {
            "static": static + level,
            "static_total": static + level + bet[day.astype(int)],
            "static_day": day,
            "dynamic": dynamic + level,
            "dynamic_cell": np.arange(self.world.episodes, dtype=np.float64) % len(SIZES),
        }

    def foresight(self, name: str, rung: Rung) -> float:
        """What a bank expects that knows nothing."""
        return self.world.foresight_sd * float(self._noise("bank", name, rung.index, size=1)[0])

    def _spread(self, name: str) -> float:
        """What a design's training seeds differ by; which ones are restless, its name tells."""
        is_restless = int(key_of("restless", name), 16) % self.world.restless == 0
        return self.world.restless_sd if is_restless else self.world.seed_sd

    def _orders(self, name: str, block: int, world: str, size: int) -> Array:
        shared = self.world.shared_sd * self._noise(world, block, size=size)
        return shared + self.world.own_sd * self._noise(world, name, block, size=size)

    def _noise(self, *place: str | int, size: int) -> Array:
        key = key_of(self.seed, *place)
        if key not in self._kept:
            self._kept[key] = np.random.default_rng(int(key, 16)).standard_normal(size)
        return self._kept[key]


@dataclass
class Journal:
    """Takes the place of the archive, which a simulation does not need."""

    kinds: list[str] = field(default_factory=list)

    def append(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        """Note that something happened."""
        self.kinds.append(kind)
        return True


def truths(n: int, case: str, *, world: World, rng: np.random.Generator) -> Array:
    """What designs truly gain over the default in the end."""
    if case == NULL:
        return np.zeros(n)
    if case == HALF:
        return np.where(np.arange(n) % EVERY == 0, 0.5, 0.0)
    return world.effect_sd * rng.standard_normal(n)


def planted(
    n: int, *, world: World, case: str, rng: np.random.Generator
) -> tuple[list[Candidate], dict[str, Any]]:
    """The default and n designs, and what each truly gains over it at every rung."""
    names = [design_id({"reward": str(i)}) for i in range(n)]
    end = truths(n, case, world=world, rng=rng)
    other = world.effect_sd * rng.standard_normal(n)
    early = world.fidelity * end + np.sqrt(1.0 - world.fidelity**2) * other
    by_rung = np.stack([early, early, end], axis=1)  # [design, rung]
    default = Candidate(design_id({}), {}, DEFAULT)
    designs = [
        Candidate(name, {"reward": str(i)}, "draft", (default.id,)) for i, name in enumerate(names)
    ]
    return [default, *designs], {
        default.id: (0.0, 0.0, 0.0),
        **dict(zip(names, by_rung.tolist(), strict=True)),
    }


def search_once(
    config: RunConfig, n: int, *, case: str, seed: int, world: World | None = None
) -> dict[str, float]:
    """One whole search, from screens to the test days; gains and errors in bps."""
    world = world or World()
    (default, *designs), effects = planted(
        n, world=world, case=case, rng=np.random.default_rng(seed)
    )
    training_pool = PlantedTrainingPool(effects, seed=seed, world=world)
    ladder = Ladder(
        config,
        Journal(),
        training_pool,
        default,
        on_event=lambda *_, **__: None,
        foresight=training_pool.foresight,
    )
    batch = config.parents * config.siblings
    for i in range(0, n, batch):
        ladder.run(designs[i : i + batch], config.rungs.screen)
        ladder.promote([c.id for c in designs[i : i + batch]])
    champion = ladder.champion(ladder.finals())
    last = config.rungs.last
    shown = _on_test_days(training_pool, champion, default.id, rung=last, rule=ladder.rule)
    truth = effects[champion][last.index]
    trainings = zip(training_pool.trainings, config.rungs, strict=True)
    work = sum(done * rung.work for done, rung in trainings)
    is_default = champion == default.id
    best = max(effect[last.index] for effect in effects.values())
    return {
        "success": float(not is_default and shown.ci95[0] > 0.0),
        "default": float(is_default),
        "valid": ladder.standings[champion, last.index].score - truth,
        "test": shown.mean - truth,
        "truth": truth,
        "regret": best - truth,
        "regret_all": 0.0
        if case == NULL
        else best - effects[_best_of_all(training_pool, config)][last.index],
        "cost": work / ((n + 1) * last.seeds * last.work),
    }


def _on_test_days(
    training_pool: PlantedTrainingPool, ours: str, theirs: str, *, rung: Rung, rule: ScoreRule
) -> Gain:
    """Our score over theirs on the test days and their simulated orders, seed by seed."""
    mine = []
    default = []
    for seed in rung.training_seeds:
        mine.append(training_pool.scores(ours, rung.index, seed, block=TEST))
        default.append(training_pool.scores(theirs, rung.index, seed, block=TEST))
    return gain_of(difference(mine, default, rule))


def _best_of_all(training_pool: PlantedTrainingPool, config: RunConfig) -> str:
    """Whom one would choose after training every design at the last rung."""

    def level(name: str) -> float:
        last = config.rungs.last
        runs = []
        for seed in last.training_seeds:
            runs.append(training_pool.scores(name, last.index, seed, block=last.index))
        return contributions(runs, ScoreRule.of(config)).score

    return max(training_pool.effects, key=level)


def campaign(
    config: RunConfig, *, searches: int, designs: int, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Means over many searches, in the null case and with planted truths.

    The standard error of each stands under `NAME_se`.
    """
    found = {}
    for case in (NULL, HALF, SPREAD):
        rows = []
        for i in range(searches):
            rows.append(search_once(config, designs, case=case, seed=seed + i))
        means = {}
        errors = {}
        for name in rows[0]:
            value = np.array([row[name] for row in rows])
            means[name] = float(value.mean())
            errors[f"{name}_se"] = float(value.std() / np.sqrt(searches))
        found[case] = means | errors
    return found


ROWS = {
    "success": ("success declared on the test days", 100.0, "%"),
    "default": ("the default stays champion", 100.0, "%"),
    "valid": ("claimed minus true, last rung's validation days", 1.0, "bps"),
    "test": ("claimed minus true, test days", 1.0, "bps"),
    "truth": ("the champion's true gain over the default", 1.0, "bps"),
    "regret": ("regret: the truly best design's gain minus the champion's", 1.0, "bps"),
    "regret_all": ("the same, were all designs trained at the last rung", 1.0, "bps"),
    "cost": ("trainings' cost against all designs at the last rung", 100.0, "%"),
}


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """The campaign as markdown, with standard errors."""
    lines = ["| | unit | no design is better | every eighth by 0.5 bps | truths of sd 0.3 bps |"]
    lines.append("|---|---|--:|--:|--:|")
    for name, (title, scale, unit) in ROWS.items():
        decimals = 2 if unit == "bps" else 1
        cells = []
        for case in found.values():
            error = scale * case[f"{name}_se"]
            cells.append(f"{scale * case[name]:.{decimals}f} ± {error:.{decimals}f}")
        lines.append(f"| {title} | {unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--searches", type=int, default=500, help="whole searches per case")
    parser.add_argument("--designs", type=int, default=64, help="designs per search")
    parser.add_argument("--preset", default="standard", help="whose rungs, seeds and batches")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print numbers instead of a table")
    given = parser.parse_args()
    found = campaign(
        preset(given.preset), searches=given.searches, designs=given.designs, seed=given.seed
    )
    print(json.dumps({"world": asdict(World()), **found}, indent=1) if given.json else table(found))


if __name__ == "__main__":
    main()
