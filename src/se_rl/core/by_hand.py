"""A design written by hand, trained as the search would and set beside a run's designs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from se_rl.bounded_reading import read_regular
from se_rl.config import ConfigError
from se_rl.core.operators import hashes
from se_rl.core.replay import Say, open_stored_run
from se_rl.core.run import Run
from se_rl.modules.contracts import LIMITS
from se_rl.modules.static_check import check_source
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, design_id
from se_rl.scoring.ladder import Ladder


@dataclass(frozen=True)
class ScoreRow:
    """A design trained to the search's budget: its score over the default and its error, in bps."""

    design: str
    score: float
    se: float
    ci95: tuple[float, float]
    by_world: Mapping[str, float]


@dataclass(frozen=True)
class HandScore:
    """A design by hand among a run's designs, best first; `reason` says why it has no score.

    `place` is its number from the top, of as many as `of`.
    """

    design: str
    place: int | None
    of: int
    reason: str
    rows: tuple[ScoreRow, ...]


def score_by_hand(
    place: Path, files: Mapping[str, Path], *, unsafe: bool = False, say: Say = lambda _: None
) -> HandScore:
    """Validate modules written by hand, train them, and set them beside the run's designs.

    The design joins the run's archive: every design ever scored is counted.
    """
    with ExitStack() as stack:
        stored = open_stored_run(stack, place, read_only=False)
        sources = read_modules(files)
        run = Run(stored.config, stored.folder, stored.archive, say=say, unsafe=unsafe)
        stack.callback(run.close)
        stored.check_data(run)
        for code_type, text in sources.items():
            say(f"validating {code_type}")
            verdict = run.training_pool.validate(text, code_type)
            if not verdict.is_valid:
                _refuse(files[code_type], code_type, verdict.stage, verdict.error_message)
        candidate = Candidate(design_id(hashes(sources)), hashes(sources), "by hand")
        stored.archive.add_candidate(candidate, sources)
        say("training")
        return _placed(_climb(run, stored.archive, candidate), candidate)


def _climb(run: Run, archive: Archive, candidate: Candidate) -> Ladder:
    """The design at the search's rung, beside all that were trained there."""
    config = run.config
    search = config.rungs.search
    ladder = Ladder(
        config,
        archive,
        run.training_pool,
        run.search.default,
        on_event=lambda *_, **__: None,
        stores=False,  # the run's own standings stay as they are
    )
    done = {e.candidate for e in archive.evaluations() if e.rung == search.index and e.ok}
    others = [archive.candidate(name) for name in sorted(done - {candidate.id, ladder.default.id})]
    for rung in (config.rungs.screen, search):  # in the race the screen's trainings count, too
        ladder.run([candidate, *others], rung)
    if (candidate.id, search.index) in ladder.standings:
        one = ladder.stored_standing(candidate.id, search)
        archive.append("standing", one.key, asdict(one))
    return ladder


def _placed(ladder: Ladder, candidate: Candidate) -> HandScore:
    search = ladder.rungs.search.index
    rows = []
    for (name, rung), one in ladder.standings.items():
        if rung == search and name != ladder.default.id:
            rows.append(ScoreRow(name, one.score, one.se, one.ci95, dict(one.by_world)))
    rows.sort(key=lambda row: -row.score)
    names = [row.design for row in rows]
    return HandScore(
        candidate.id,
        names.index(candidate.id) + 1 if candidate.id in names else None,
        len(rows),
        ladder.failures.get(candidate.id, ""),
        tuple(rows),
    )


def read_modules(files: Mapping[str, Path]) -> dict[str, str]:
    """The text of each module, refused by the static check before anything heavy is done."""
    sources: dict[str, str] = {}
    for code_type, path in files.items():
        try:
            most = LIMITS.source_bytes
            sources[code_type] = read_regular(path, most_bytes=most, follow=True).decode()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"{path} cannot be read ({why}); give a Python file") from None
    for code_type, text in sources.items():
        if (problem := check_source(text, code_type)) is not None:
            _refuse(files[code_type], code_type, "static", problem.message)
    return sources


def _refuse(path: Path, code_type: str, stage: str, message: str) -> None:
    raise ConfigError(f"{path} is no valid {code_type} ({stage}): {message}")
