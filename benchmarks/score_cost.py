"""What an honest score costs: play in groups and the fraud check, as shares of a finished run.

    python benchmarks/score_cost.py RUN [--designs 3] [--times 5] [--out docs/results]

The stored policies of a run are played again on the orders of the search rung: as scoring plays them;
behind the lock in groups, as it plays free Python; and behind the lock with all orders in one batch,
which nobody may have who could look ahead. Every evaluation that was played in groups paid the
difference of the last two (while the next training went on beside it, so this is the most that it can
have cost), and each finalist a fraud check. Writes score_cost.md and .json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from se_rl.core.fraud import check_design
from se_rl.core.replay import open_stored_run
from se_rl.core.run import Run
from se_rl.environments.worlds import Episodes
from se_rl.records.results_file import read_results
from se_rl.rl.written_policy import is_written
from se_rl.scoring.execution import execute
from se_rl.scoring.history_orders import HistoryOrders
from se_rl.scoring.play import Open
from se_rl_benchmarks.markdown_tables import number, table


@dataclass(frozen=True)
class PlayedDesign:
    """One design's orders on history: seconds of each way, and how far scores are apart at most."""

    design: str
    seconds: float
    grouped_seconds: float
    batch_seconds: float
    apart_bps: float


@dataclass(frozen=True)
class ScoreCost:
    """A run's seconds (trainings, scores, answers), and those of groups and the fraud check."""

    run_seconds: float
    evaluations: int
    in_groups: int
    checked: int
    check_seconds: float
    designs: tuple[PlayedDesign, ...]

    @property
    def groups_share(self) -> float:
        """What play in groups added to the run, at most."""
        each = [one.grouped_seconds - one.batch_seconds for one in self.designs]
        return self.in_groups * float(np.mean(each)) / self.run_seconds

    @property
    def check_share(self) -> float:
        """What the fraud check took of the run."""
        return self.check_seconds / self.run_seconds


def as_scored(history: HistoryOrders, policy: Open) -> float:
    """The mean gain over TWAP as scoring plays such a policy, bps."""
    return float(np.mean(history.scores(policy)["static"]))


def in_one_batch(history: HistoryOrders, policy: Open) -> float:
    """The same, with the orders of all days in one batch."""
    found = []
    for panel in history.panels:
        actor = policy(panel.world.name, panel.world.horizon, len(panel.orders))
        found.append(panel.scores(execute(panel.world, actor, Episodes(panel.orders)))["static"])
        actor.close()
    return float(np.mean(np.concatenate(found)))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measured(place: Path, *, designs: int, times: int) -> ScoreCost:
    """Play the policies of a run's best designs again."""
    results = read_results(place / "results.json")
    with ExitStack() as stack:
        stored = open_stored_run(stack, place, read_only=True)
        run = Run(stored.config, stored.folder, stored.archive, say=lambda _: None)
        stack.callback(run.close)
        stored.check_data(run)
        last = stored.config.rungs.last.index
        done = [one for one in stored.archive.evaluations() if one.ok]
        names = dict.fromkeys(one.candidate for one in reversed(done) if one.rung == last)
        pool = run.training_pool
        history = pool.validation._history[False]
        in_groups = 0
        for one in done:
            in_groups += not is_written(
                stored.archive.sources(stored.archive.candidate(one.candidate))
            )
        played = []
        for name in list(names)[:designs]:
            own = [one for one in done if one.candidate == name and one.rung == last]
            trained = pool.policy(stored.archive.candidate(name), own[0])
            played.append(
                _played(history, pool.opened(trained), pool.scorer.locked(trained), name, times)
            )
        check = 0.0
        for name in results.fraud_checks:
            own = [one for one in done if one.candidate == name and one.rung == last]
            candidate = stored.archive.candidate(name)
            check += seconds(partial(check_design, run, candidate, own))
    minutes = results.times.minutes
    checked = len(results.fraud_checks)
    return ScoreCost(60.0 * minutes, len(done), in_groups, checked, check, tuple(played))


def _played(
    history: HistoryOrders, opened: Open, locked: Open, name: str, times: int
) -> PlayedDesign:
    """One design in all three ways, in turn."""
    ways = (
        partial(as_scored, history, opened),
        partial(as_scored, history, locked),
        partial(in_one_batch, history, locked),
    )
    gains = [way() for way in ways]
    took = [[seconds(way) for way in ways] for _ in range(times)]  # [time, way]
    scored, grouped, batch = np.median(took, axis=0).tolist()
    return PlayedDesign(name, scored, grouped, batch, max(gains) - min(gains))


def page(cost: ScoreCost, command: str) -> str:
    """The table in Markdown."""
    rows = []
    for one in cost.designs:
        took = (one.seconds, one.grouped_seconds, one.batch_seconds)
        rows.append([f"`{one.design}`", *map(number, took), f"{one.apart_bps:.1e}"])
    head = (
        "design",
        "as scored, s",
        "locked, in groups, s",
        "locked, one batch, s",
        "scores apart, bps",
    )
    return (
        "# What an honest score costs\n\n"
        f"Made by `{command}`; do not edit. A run whose trainings, their scores and the model's "
        f"answers took {cost.run_seconds:.0f} seconds (what comes before and after, the test days for "
        f"instance, is not in it), with {cost.evaluations} evaluations, {cost.in_groups} of them of free "
        f"Python and played in groups, and {cost.checked} finalist(s). Medians of plays in turn, "
        "orders on history of the search rung.\n\n"
        f"{table(head, rows)}\n\n"
        f"Play in groups added at most {cost.groups_share:.1%} to the run, the fraud check took "
        f"{cost.check_share:.1%} ({cost.check_seconds:.1f} s).\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--designs", type=int, default=3, help="designs to play again")
    parser.add_argument("--times", type=int, default=5, help="plays of each in each way")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    cost = measured(options.run, designs=options.designs, times=options.times)
    text = page(cost, "python benchmarks/score_cost.py RUN")
    options.out.mkdir(parents=True, exist_ok=True)
    told = asdict(cost) | {"groups_share": cost.groups_share, "check_share": cost.check_share}
    (options.out / "score_cost.json").write_text(json.dumps(told, indent=1) + "\n")
    (options.out / "score_cost.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
