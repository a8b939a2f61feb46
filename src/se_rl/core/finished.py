"""Whether a run has ended, and with which results."""

from __future__ import annotations

from collections.abc import Iterator

from se_rl.core.rivals import RIVAL_TRAINED
from se_rl.records.archive import Archive
from se_rl.records.results import RunResults
from se_rl.records.results_file import NoResults, read_results
from se_rl.records.run_folder import RunFolder


def finished_results(folder: RunFolder, archive: Archive) -> RunResults | None:
    """The results of a finished run; None where there is none, or where a file of it was lost and
    must be made anew.
    """
    if archive.find("finished") is None or not _is_whole(archive):
        return None
    if not (folder.report.exists() and folder.policy.exists()):
        return None
    try:
        return read_results(folder.results)
    except NoResults:
        return None


def _is_whole(archive: Archive) -> bool:
    """Whether every file that the archive names is there and undamaged."""
    return all(archive.has_blob(name) for name in set(_blobs(archive)))


def _blobs(archive: Archive) -> Iterator[str]:
    """The name of every file that the archive rests on."""
    for evaluation in archive.evaluations():
        if evaluation.ok:
            yield from (evaluation.arrays, evaluation.policy, evaluation.curve)
    for adapter in archive.adapters():
        yield adapter.weights
    for event in archive.events(RIVAL_TRAINED):
        yield event.payload["policy"]
    for call in archive.calls():
        yield call.reply
    for candidate in archive.candidates():
        yield from candidate.modules.values()
        if candidate.prompt:
            yield candidate.prompt
