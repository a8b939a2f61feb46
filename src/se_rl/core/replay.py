"""A stored score once more: the design is trained and scored again from the record, and must give the same bits.

Also here: a design written by hand, scored against a run's archive, and the proof that no policy sees the future.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.config import ConfigError, load_yaml
from se_rl.core.operators import hashes
from se_rl.core.run import Run
from se_rl.data.market_data import MarketData
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.modules.static_check import check_source
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation, design_id
from se_rl.records.jobs import TrainingJob
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import Actor, execute
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.validation import Open, opened

Say = Callable[[str], None]


def replay(
    place: Path,
    designs: Sequence[str],
    *,
    rung: int | None = None,
    unsafe: bool = False,
    say: Say = lambda _: None,
) -> list[dict[str, Any]]:
    """Train and score designs again, in fresh processes, and compare every number with the record bit for bit.

    `rung` limits it to one rung (0, 1 or 2). Nothing is written to the run's folder.
    """
    with ExitStack() as stack:
        folder, archive, config = _opened(stack, place, read_only=True)
        stored = [(c, _trained(archive, c, rung)) for c in map(archive.candidate, designs)]
        scratch = stack.enter_context(
            Archive.open(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "again.sqlite")
        )
        if (neutral := archive.find("neutral")) is not None:
            scratch.append("neutral", "neutral", neutral)
        run = Run(config, folder, scratch, say=say, unsafe=unsafe)
        stack.callback(run.close)
        begun = archive.find("run_started") or {}
        _same_data(begun.get("data", {}), run.facts)
        found = []
        for candidate, evaluations in stored:
            scratch.add_candidate(
                replace(candidate, parents=()), archive.sources(candidate)
            )  # they are not in scratch
            found.append(
                _again(run, candidate, evaluations)
                | {"same_code": begun.get("code_hash") == run.code}
            )
        return found


def _trained(archive: Archive, candidate: Candidate, rung: int | None) -> list[Evaluation]:
    found = [e for e in archive.evaluations(candidate.id) if rung is None or e.rung == rung]
    if not found:
        where = "" if rung is None else f" at rung {rung}"
        raise ConfigError(
            f"design {candidate.id} was not trained{where}; se-rl show lists the rungs"
        )
    return found


def _again(run: Run, candidate: Candidate, stored: Sequence[Evaluation]) -> dict[str, Any]:
    """One design's trainings once more, each beside what stands in the record."""
    training_pool, rows = run.training_pool, []
    run.say(f"training {candidate.id} again, {len(stored)} times")
    jobs = [TrainingJob(candidate, run.config.rungs[e.rung], e.seed) for e in stored]
    again = {(job.rung.index, job.seed): e for job, e, _ in training_pool.evaluate(jobs)}
    for e in stored:
        new, blind = again[e.rung, e.seed], None
        same = (new.arrays, new.policy, new.status) == (e.arrays, e.policy, e.status)
        if new.ok and run.config.worlds != "dynamic":
            policy = training_pool.opened(training_pool.policy(candidate, new))
            blind = future_blind(training_pool.validation.data, run.config, policy, run.scales)
        rows.append(
            {
                "rung": e.rung,
                "seed": e.seed,
                "stored": dict(e.scores),
                "again": dict(new.scores),
                "equal": same,
                "reason": new.reason,
                "future_blind": blind,
            }
        )
        run.say(f"rung {e.rung}, seed {e.seed}: {'the same bits' if same else 'DIFFERENT'}")
    return {
        "design": candidate.id,
        "evaluations": rows,
        "equal": all(row["equal"] for row in rows),
        "future_blind": all(row["future_blind"] is not False for row in rows),
        "isolation": ", ".join(sorted({e.isolation for e in again.values()})),
    }


def score_by_hand(
    place: Path, files: Mapping[str, Path], *, unsafe: bool = False, say: Say = lambda _: None
) -> dict[str, Any]:
    """Validate modules written by hand, train them as the search would, and set them beside the run's designs.

    The design joins the run's archive: every design ever scored is counted.
    """
    with ExitStack() as stack:
        folder, archive, config = _opened(stack, place, read_only=False)
        sources = {name: _read(path) for name, path in files.items()}
        for code_type, text in sources.items():
            if (problem := check_source(text, code_type)) is not None:  # before anything heavy
                raise ConfigError(
                    f"{files[code_type]} is no valid {code_type} (static): {problem.message}"
                )
        run = Run(config, folder, archive, say=say, unsafe=unsafe)
        stack.callback(run.close)
        _same_data((archive.find("run_started") or {}).get("data", {}), run.facts)
        for code_type, text in sources.items():
            say(f"validating {code_type}")
            verdict = run.training_pool.validate(text, code_type)
            if not verdict.is_valid:
                raise ConfigError(
                    f"{files[code_type]} is no valid {code_type} ({verdict.stage}): {verdict.error_message}"
                )
        candidate = Candidate(design_id(hashes(sources)), hashes(sources), "by hand")
        archive.add_candidate(candidate, sources)
        search = config.rungs.search
        ladder = Ladder(  # the run's own standings stay as they are
            config,
            archive,
            run.training_pool,
            run.search.default,
            on_event=lambda *_, **__: None,
            stores=False,
        )
        say("training")
        for rung in (config.rungs.screen, search):
            ladder.run([candidate], rung)
        done = [e for e in archive.evaluations() if e.rung == search.index and e.ok]
        others = {e.candidate for e in done} - {candidate.id, ladder.default.id}
        ladder.run([archive.candidate(name) for name in sorted(others)], search)
        if (candidate.id, search.index) in ladder.standings:
            one = ladder.stored_standing(candidate.id, search)
            archive.append("standing", one.key, asdict(one))
        rows = [
            {
                "design": s.candidate,
                "score": s.score,
                "se": s.se,
                "ci95": list(s.ci95),
                "by_world": dict(s.by_world),
            }
            for (name, rung), s in sorted(ladder.standings.items(), key=lambda item: -item[1].score)
            if rung == search.index and name != ladder.default.id
        ]
        place_of = next(
            (i + 1 for i, row in enumerate(rows) if row["design"] == candidate.id), None
        )
        return {
            "design": candidate.id,
            "place": place_of,
            "of": len(rows),
            "reason": ladder.failures.get(candidate.id, ""),
            "rows": rows,
        }


def future_blind(
    data: MarketData, config: RunConfig, open_policy: Open, scales: Any, *, seed: int = 0
) -> bool:
    """Whether a policy's actions stay the same, bit for bit, when everything after the middle of its window is shuffled."""
    day = max(0, len(data.dates) - 2)
    orders = order_pairs(data, config.horizon, dates=data.dates[day : day + 1])
    agents = config.agents if config.scenario == "multi" else 1
    first = orders.start == orders.start.min()
    steps = config.horizon // 2
    bar = int(orders.start.min()) + steps
    seen = []
    for bars in (data, _shuffled(data, day, bar, rng=np.random.default_rng(seed))):
        world = StaticWorld(
            bars, horizon=config.horizon, dates=data.dates[day : day + 1], scales=scales
        )
        actor = _Watched(opened(world, orders, open_policy, agents=agents))
        execute(world, actor, Episodes(orders))
        actor.close()
        seen.append(np.stack([step[first] for step in actor.actions[: steps + 1]]))
    return bool(np.array_equal(seen[0], seen[1]))


class _Watched:
    """An actor whose actions are kept, a row per order: the ratio and the price's offset."""

    def __init__(self, inner: Actor) -> None:
        self._inner, self.actions = inner, list[npt.NDArray[np.float64]]()

    def start(self, n: int, horizon: int) -> None:
        self._inner.start(n, horizon)

    def act(
        self, observation: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        ratio, offset = self._inner.act(observation)
        self.actions.append(np.stack([ratio, offset], axis=-1))
        return ratio, offset

    def close(self) -> None:
        self._inner.close()


def _shuffled(data: MarketData, day: int, bar: int, *, rng: np.random.Generator) -> MarketData:
    """The same sessions with the day's bars from `bar` on, and those of all later days, in another order.

    Days before stay as they are: they are the past, and a policy may know them.
    """
    rest, later = bar + rng.permutation(len(data.grid) - bar), rng.permutation(len(data.grid))
    arrays: dict[str, Any] = {}
    for f in fields(data):
        if isinstance(value := getattr(data, f.name), np.ndarray) and value.ndim >= 3:
            arrays[f.name] = value.copy()
            arrays[f.name][:, day, bar:] = value[:, day, rest]
            arrays[f.name][:, day + 1 :] = value[:, day + 1 :, later]
    return replace(data, **arrays)


def _opened(
    stack: ExitStack, place: Path, *, read_only: bool
) -> tuple[RunFolder, Archive, RunConfig]:
    folder = RunFolder(place)
    if not folder.archive.exists():
        raise ConfigError(
            f"{place} holds no run (no {folder.archive.name}); give the folder of one"
        )
    if not read_only:
        stack.enter_context(folder)
    config = load_yaml(RunConfig, folder.config)
    archive = stack.enter_context(
        Archive.open(folder.archive, blobs=folder.blobs, read_only=read_only)
    )
    return folder, archive, config


def _same_data(stored: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if stored.get("sha256") != now["sha256"]:
        raise ConfigError(
            f"the data {now['name']} is not what the run used (its hash differs); put the same file in its place"
        )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); give a Python file") from None


def accepted(place: Path, *, rung: int | None = None) -> list[str]:
    """The designs of a run that were worth a longer training, and the default; with `rung` those that were trained there."""
    with ExitStack() as stack:
        _, archive, config = _opened(stack, place, read_only=True)
        done = archive.evaluations()
    worth = {e.candidate for e in done if e.ok and e.rung >= config.rungs.search.index}
    found = list(
        dict.fromkeys(e.candidate for e in done if e.candidate in worth and rung in (None, e.rung))
    )
    if not found:
        raise ConfigError(
            f"{place} holds no design that was trained longer than a screen; let `se-rl run` go on with it"
        )
    return found
