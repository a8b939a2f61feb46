"""Before a run begins: is its model there, does the folder hold something, what can be reused?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from se_rl.baselines.registry import rival_named
from se_rl.config import ConfigError, to_dict
from se_rl.core.preparation import run_seal
from se_rl.core.provenance import data_hash
from se_rl.data.catalog import load_dataset
from se_rl.data.splits import given_split
from se_rl.executors.device_executor import torch_device
from se_rl.llm.adapter_file import AdapterFile, chosen_adapter
from se_rl.llm.catalog import abilities_of
from se_rl.llm.greeting import greet
from se_rl.records.archive import Archive
from se_rl.records.postgres import is_url, use_database
from se_rl.records.run_folder import RunFolder
from se_rl.records.schema import ArchiveError
from se_rl.records.settings import RunConfig
from se_rl.records.shared_archive import SharedArchive

ADAPTER_EVENT = "adapter_given"
"""Kind and key of the event that says which adapter a run began with."""

NO_ADAPTER = {"id": "none", "sha256": ""}


def check_device_and_model(config: RunConfig) -> None:
    """Find out whether the device of a run is there and its model can be asked at all, before
    anything is loaded.
    """
    torch_device(config.device)
    if config.asks_model:
        check_reasons(config)
        greet(config.llm)
        chosen_adapter(config.adapter, config.llm, free=config.free)


def check_reasons(config: RunConfig) -> None:
    """Refuse to ask a model for reasons that writes under a grammar."""
    needs_grammar = abilities_of(config.llm).needs_grammar and not config.free
    if config.chain_of_thought and needs_grammar:
        raise ConfigError(
            f"--chain-of-thought is for free Python, and {config.llm} writes under a grammar; "
            "add --free, or leave it out"
        )


def discard_unbegun(folder: RunFolder) -> None:
    """Delete what a run left that failed, or was killed, before it had begun: its folder is free for
    other settings.
    """
    if folder.config.exists() or not folder.holds_run:
        return
    try:
        with Archive.open(folder.archive, read_only=True) as archive:
            has_begun = archive.find("run_started") is not None
    except ArchiveError:
        return  # damaged or not to be reached, so nobody knows: it stays
    if has_begun:
        return
    if is_url(folder.archive):
        with Archive.open(folder.archive) as archive:
            assert isinstance(archive, SharedArchive)
            archive.discard()
    folder.discard()


def open_run(
    stack: ExitStack,
    folder: RunFolder,
    config: RunConfig,
    *,
    url: str = "",
    blobs: str | None = None,
) -> Archive:
    """The archive of the run in this process's folder, open for as long as the stack is.

    That of a new run is made: in the folder, or in the database behind `url`.
    """
    if config.islands and not url and not folder.address.exists():
        raise ConfigError("--islands needs an archive that searches share; give --archive URL")
    for name in config.rivals:
        rival_named(name)  # an unknown one is refused
    if blobs and not url:
        raise ConfigError(f"--blobs is {blobs}, which is for a shared archive; give --archive too")
    if url:
        use_database(url)
    discard_unbegun(folder)
    stack.callback(discard_unbegun, folder)
    folder.check_config(to_dict(config))
    if url:
        folder.use_archive(url)
    return stack.enter_context(Archive.open(folder.archive, blobs=blobs))


def adapter_of(config: RunConfig, archive: Archive) -> AdapterFile | None:
    """The adapter that a run begins with, which must be the one that it was begun with."""
    if not config.asks_model:
        return None
    found = chosen_adapter(config.adapter, config.llm, free=config.free)
    now = {"id": found.head.id, "sha256": found.sha256} if found else NO_ADAPTER
    if found is not None and archive.find("run_started") is None:
        archive.append(ADAPTER_EVENT, ADAPTER_EVENT, now)
    then = archive.find(ADAPTER_EVENT) or NO_ADAPTER
    if then != now:
        raise ConfigError(
            f"{archive.place} began with the adapter {then['id']} ({then['sha256'][:8] or '-'}) and"
            f" is now given {now['id']} ({now['sha256'][:8] or '-'}); use the same file, or another"
            " --out"
        )
    return found


def check_data(config: RunConfig, archive: Archive) -> None:
    """Refuse to answer for other data than a finished run was made with.

    A file is known by what it holds: under another name or path it is the same. A run that goes on
    loads its data anyway, and holds them against its record then.
    """
    begun = archive.find("run_started")
    is_file = Path(config.data).is_file()
    if begun is None or (begun["config"]["data"] == config.data and not is_file):
        return
    dataset = load_dataset(
        config.data,
        seal=run_seal(config, archive).text,
        split=given_split(config.train_until, config.valid_until),
        scored_days=config.scored_days,
        with_test=False,
    )
    refuse_other_data(config, archive, data_hash(dataset.data))


def refuse_other_data(config: RunConfig, archive: Archive, now: str) -> None:
    """Refuse data with another digest than those that the run was begun with, if it was."""
    begun = archive.find("run_started")
    if begun is None or begun["data"]["sha256"] == now:
        return
    then = begun["data"]["sha256"]
    raise ConfigError(
        f"{archive.place} began with data {begun['config']['data']} ({then[:8]}) and is now "
        f"given {config.data} ({now[:8]}), which holds something else; use the same data, or "
        "another --out"
    )


def library_of(stack: ExitStack, places: Sequence[str | Path]) -> list[Archive]:
    """The archives of other runs; evaluations of other code have other keys."""
    library = []
    for place in places:
        folder = RunFolder(place)
        if folder.holds_run:
            archive = Archive.open(folder.archive, read_only=True)
            library.append(stack.enter_context(archive))
    return library
