"""A run and a design in the terminal, from a small record written through the archive's own API."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from se_rl.config import ConfigError
from se_rl.records.archive import Archive
from se_rl.records.entries import (
    DEFAULT,
    Candidate,
    Evaluation,
    Instruction,
    StoredStanding,
    design_id,
    sha256,
)
from se_rl.records.files import to_json
from se_rl.records.plain import to_plain
from se_rl.records.results import DesignCounts
from se_rl.report.design_rows import design_rows
from se_rl.report.show_design import design_json, print_design, show_design, sparkline
from se_rl.report.show_run import print_run, show_run

DAYS, ORDERS, EPISODES = 8, 5, 30
HOSTILE = "[red]\x1b[2J\x07 [/bold] \u202e"
SOURCE = f"def reward(step):\n    # {HOSTILE}\n    return step.fill_price\n"


def orders(seed: int, *, static: float = 0.0, dynamic: float = 0.0) -> dict[str, Any]:
    """Scores per order over TWAP: market noise of the seed that all designs share, and what a design adds to it."""
    rng, by_day = np.random.default_rng(seed), added(static, DAYS)
    day = np.repeat(np.arange(20240102, 20240102 + DAYS), ORDERS)
    found = {
        "static": rng.normal(0.5, 3.0, DAYS * ORDERS) + np.repeat(by_day, ORDERS),
        "static_day": day.astype(float),
    }
    found["dynamic"] = rng.normal(4.0, 2.0, EPISODES) + added(dynamic, EPISODES)
    found["dynamic"][3] = np.nan  # a market that broke: no score for that order
    return found


def added(level: float, units: int) -> np.ndarray[Any, Any]:
    return level * np.random.default_rng(units).normal(1.0, 0.4, units)


class Run:
    """A run folder in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.archive = folder, Archive.open(folder / "archive.sqlite")
        config = {"iterations": 3, "worlds": "both", "static_share": 0.6}
        data = {"name": "nasdaq100", "synthetic": True, "sha256": "ab" * 32}
        started = {
            "config": config,
            "data": data,
            "llm": "tiny",
            "seed": 7,
            "isolation": "strong",
            "version": "0.1.0",
        }
        self.archive.append("run_started", "run", started)

    def propose(self, text: str = "", parents: tuple[str, ...] = (), **fields: Any) -> str:
        """A design of one module, or the default where it has no text."""
        sources = {"reward": text} if text else {}
        modules = {name: sha256(source) for name, source in sources.items()}
        known = (
            {"operator": "tweak", "module": "reward", "iteration": 1}
            if text
            else {"operator": DEFAULT}
        )
        made = Candidate(design_id(modules), modules, parents=parents, **known | fields)
        self.archive.add_candidate(made, sources)
        return made.id

    def train(
        self, name: str, *, rung: int = 0, seed: int = 0, static: float = 0.0, dynamic: float = 0.0
    ) -> None:
        """A training with its scores per order and its curve."""
        found = orders(100 * rung + seed, static=static, dynamic=dynamic)
        content = io.BytesIO()
        np.savez(content, **found)
        rows = [
            {"phase": "static", "work": k, "reward_static": math.nan if k == 3 else 0.1 * k}
            for k in range(80)
        ]
        done = Evaluation(
            name,
            rung,
            seed,
            "ok",
            scores={"static_specific": float(found["static"].mean())},
            arrays=self.archive.put_blob(content.getvalue()),
            curve=self.archive.put_blob(json.dumps(rows).encode()),
            work=2.0,
            isolation="strong",
        )
        self.archive.add_evaluation(done, key=f"{name} {rung} {seed}")

    def stand(self, name: str, rung: int, by_seed: tuple[float, ...], **more: Any) -> None:
        """How the search says that a design stands."""
        score = sum(by_seed) / len(by_seed)
        bounds = (score - 0.2, score + 0.2)
        standing = StoredStanding(
            name,
            rung,
            len(by_seed),
            score,
            0.1,
            bounds,
            by_seed,
            {"static": score},
            training_seeds=tuple(range(len(by_seed))),
            **more,
        )
        self.archive.append("standing", standing.key, asdict(standing))


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Run]:
    """A run that has stored its start alone."""
    run = Run(tmp_path)
    yield run
    run.archive.close()


@pytest.fixture
def run(begun: Run) -> Run:
    """Designs of every fate: the best, one dropped, a crossover, an invalid one, a repeat, a failed training."""
    run, archive, default = begun, begun.archive, begun.propose()
    for rung, seed in ((0, 0), (1, 1), (1, 2)):
        run.train(default, rung=rung, seed=seed)
    archive.add_instruction(
        Instruction("micro1", "reward", f"Pair with TWAP. {HOSTILE}", "default")
    )
    chat = archive.put_blob(
        json.dumps([{"role": "user", "content": f"Write a reward.\n{HOSTILE}"}]).encode()
    )
    best = run.propose(SOURCE, (default,), prompt=chat, micro="micro1", model="tiny")
    archive.append("repeated", "repeated", {"id": best, "twin": best})
    for rung, seed in ((0, 0), (1, 1), (1, 2)):
        run.train(best, rung=rung, seed=seed, static=0.4, dynamic=1.0)
    archive.append("promoted", "p", {"candidate": best, "rung": 1})
    dropped = run.propose("# dropped", (default,))
    run.train(dropped, static=-0.5)
    archive.append(
        "dropped", "d", {"candidate": dropped, "rung": 0, "reason": f"hopeless {HOSTILE}"}
    )
    crossed = run.propose(
        "# crossed", (best, dropped), operator="crossover", module="", iteration=2
    )
    run.train(crossed, static=0.1, dynamic=0.5)
    run.propose("import os", (best,), reason=f"line 1: {HOSTILE}")
    archive.add_evaluation(
        Evaluation(run.propose("# nan"), 0, 0, "failed", "loss is nan"), key="nan"
    )
    for name, rung, by_seed in (
        (default, 0, (0.0,)),
        (default, 1, (0.0, 0.0, 0.0)),
        (best, 0, (0.8,)),
        (best, 1, (0.8, 0.7, 0.9)),
        (dropped, 0, (-0.5,)),
    ):
        run.stand(name, rung, by_seed)
    run.stand(crossed, 0, (0.3,), gain=-0.5, gain_se=0.1)
    told = {"iteration": 2, "best": best, "score": 1.0, "text": f"reward moved {HOSTILE}"}
    archive.append("iteration", "iteration 2", told)
    return run


def ids(run: Run) -> dict[str, str]:
    names = ("default", "best", "dropped", "crossed", "invalid", "failed")
    return dict(zip(names, (c.id for c in run.archive.candidates()), strict=True))


def printed(print_it: Any, found: Any, *, terminal: bool = False, **settings: Any) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=140, force_terminal=terminal, _environ={"TERM": "xterm"})
    print_it(found, console=console, **settings)
    text = stream.getvalue()
    assert "\x1b[2J" not in text and "\x07" not in text and "\u202e" not in text
    return text


def test_a_score_is_the_stored_standing_at_the_highest_rung(run: Run) -> None:
    rows = {row.id: row for row in design_rows(run.archive)}
    known, stored = ids(run), run.archive.standings()
    for name, rung in (("best", 1), ("crossed", 0), ("dropped", 0), ("default", 1)):
        row, standing = rows[known[name]], stored[known[name], rung]
        assert (row.rung, row.score, row.se) == (rung, standing.score, standing.se)
    assert not rows[known["invalid"]].is_scored and not rows[known["failed"]].is_scored


def test_a_training_shows_its_part_of_the_standing(run: Run) -> None:
    """A training stands under the rung where it was made; the standing of a race counts the screen's, too."""
    best = ids(run)["best"]
    found = show_design(run.folder, best)
    stored = run.archive.standings()
    assert [training.over_default for training in found.evaluations] == [
        *stored[best, 0].by_seed,
        *stored[best, 1].by_seed[1:],
    ]
    assert found.rungs["1"].ci95 == stored[best, 1].ci95


def test_without_a_stored_standing_there_is_no_score(begun: Run) -> None:
    run = begun
    run.train(run.propose(), rung=0)
    run.train(run.propose("# other"), rung=0)
    assert not any(row.is_scored for row in design_rows(run.archive))
    assert "scored" in printed(print_run, show_run(run.folder))


def test_a_run_at_a_glance(run: Run) -> None:
    found, known = show_run(run.folder), ids(run)
    assert found.best == known["best"] and found.iteration == 2 and found.iterations == 3
    assert found.counts == DesignCounts(proposed=6, valid=4, scored=3, failed=2, repeated=1)
    order = [row.id for row in found.designs if row.is_scored]
    assert order == [known[name] for name in ("best", "crossed", "default", "dropped")]
    verdicts = {row.id: row.verdict for row in found.designs}
    assert verdicts[known["default"]] == "the default" and verdicts[known["best"]] == "best"
    assert (
        verdicts[known["dropped"]].startswith("dropped: hopeless")
        and verdicts[known["failed"]] == "failed: loss is nan"
    )
    crossed = next(row for row in found.designs if row.id == known["crossed"])
    assert crossed.gain == -0.5, "the gain over the first parent, as stored"
    plain = json.loads(to_json(to_plain(found)))
    assert plain["designs"][0]["score"] == pytest.approx(0.8)
    assert plain["designs"][-1]["score"] is None


def test_a_run_printed(run: Run) -> None:
    text = printed(print_run, show_run(run.folder))
    assert "SYNTHETIC DATA" in text and "not finished" in text and "iteration 2 of 3" in text
    assert (
        f"best: {ids(run)['best']} +" in text
        and "invalid: line 1: [red]" in text
        and "crossover" in text
    )
    run.archive.append(
        "finished", "end", {"stop_reason": "3 iterations done", "best": ids(run)["best"]}
    )
    assert "finished: 3 iterations done" in printed(print_run, show_run(run.folder), terminal=True)


def test_a_run_that_has_just_begun(begun: Run) -> None:
    assert "best: none yet" in printed(print_run, show_run(begun.folder))


def test_a_design(run: Run) -> None:
    known = ids(run)
    found = show_design(run.folder, known["crossed"][:9])
    assert [row.id for row in found.lineage] == [
        known[n] for n in ("default", "best", "dropped", "crossed")
    ]
    found = show_design(run.folder, known["best"])
    assert found.sources == {"reward": SOURCE}
    assert found.prompt == ({"role": "user", "content": f"Write a reward.\n{HOSTILE}"},)
    assert found.instructions == {"macro": "", "micro": f"Pair with TWAP. {HOSTILE}"}
    assert [(e.rung, e.seed) for e in found.evaluations] == [(0, 0), (1, 1), (1, 2)]
    low, high = found.rungs["1"].ci95
    assert low < found.row.score < high and len(found.curve["reward_static"]) == 79
    plain = json.loads(to_json(design_json(found)))
    assert plain["id"] == known["best"] and plain["score"] == pytest.approx(0.8)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_design_printed(run: Run, terminal: bool) -> None:
    text = printed(print_design, show_design(run.folder, ids(run)["best"]), terminal=terminal)
    for word in (
        "lineage",
        "over default",
        "static_specific",
        "Pair with TWAP. [red]",
        "Write a reward.",
        "▁",
        "█",
    ):
        assert word in text
    assert ("def reward(step):" in text) == (not terminal), (
        "in a terminal colours stand between the words"
    )
    assert "failed: loss is nan" in printed(
        print_design, show_design(run.folder, ids(run)["failed"])
    )
    assert "every module is the default one" in printed(
        print_design, show_design(run.folder, ids(run)["default"])
    )


def test_what_is_not_there_is_said_in_one_line(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no design 'zz'"):
        show_design(run.folder, "zz")
    with pytest.raises(ConfigError, match="there is no archive"):
        show_run(tmp_path / "nowhere")


def test_a_curve_in_one_line() -> None:
    assert sparkline([0.0, 1.0]) == "▁█" and sparkline([2.0, 2.0, 2.0]) == "▁▁▁"
    assert sparkline(list(range(8))) == "▁▂▃▄▅▆▇█"
    assert len(sparkline(list(range(1000)), width=60)) == 60
