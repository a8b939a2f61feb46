"""`se-rl doctor`: what is installed, and for each thing that is not, the command that would mend
it.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

REQUIRED = ("torch", "numpy", "numba", "gymnasium", "pandas", "pyarrow", "arch", "plotly")
EXTRAS = {
    "stable-baselines3": "baselines",
    "alpaca-py": "vendors",
    "baostock": "vendors",
    "yfinance": "vendors",
    "akshare": "vendors",
    "numba-cuda": "gpu",
    "psycopg": "postgres",
    "ray": "ray",
    "tensorboard": "tensorboard",
}


@dataclass(frozen=True)
class DoctorFinding:
    """One thing that was looked at: whether it is fine, what was found, the command
    that mends it.
    """

    what: str
    ok: bool
    found: str
    mend: str = ""
    optional: bool = False


def examine() -> list[DoctorFinding]:
    """Everything that SE-RL needs or can use on this machine; optional things may be absent."""
    rows = [
        _row(
            "Python",
            sys.version_info >= (3, 11),
            platform.python_version(),
            "install Python 3.11 or newer",
        )
    ]
    for name in REQUIRED:
        rows.append(_package(name, "make setup", optional=False))
    for name, extra in EXTRAS.items():
        rows.append(_package(name, f'pip install "se-rl[{extra}]"', optional=True))
    places = [_cache(), _datasets(), _database()]
    return [*rows, _device(), _isolation(), *_cluster(), *places]


def _row(what: str, ok: bool, found: str, mend: str, *, optional: bool = False) -> DoctorFinding:
    return DoctorFinding(what, ok, found, "" if ok else mend, optional)


def _package(name: str, mend: str, *, optional: bool) -> DoctorFinding:
    try:
        return _row(name, True, version(name), mend, optional=optional)
    except PackageNotFoundError:
        return _row(name, False, "not installed", mend, optional=optional)


def _device() -> DoctorFinding:
    from se_rl.core.plan import usable_cores

    cores = usable_cores()
    try:
        import torch
    except ImportError:
        return _row(
            "device", False, f"{cores} cores; torch does not load", "make setup", optional=True
        )
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU (none is needed)"
    return _row("device", True, f"{cores} cores, {gpu}", "")


def _isolation() -> DoctorFinding:
    from se_rl.sandbox.lockdown import isolation_level

    found = isolation_level()
    layers = ", ".join(found.layers) or "no layer"
    mend = f"{found.why or 'use Linux 5.13 or newer'}; until then designed source is refused"
    return _row(
        "isolation",
        found.level in ("strong", "standard"),
        f"{found.level} ({layers})",
        mend,
        optional=True,
    )


def _cluster() -> list[DoctorFinding]:
    """The nodes of the Ray cluster that this machine belongs to, if there is one."""
    from se_rl.config import ConfigError
    from se_rl.executors.cluster_survey import survey
    from se_rl.executors.node_report import this_node

    try:
        nodes = survey()
    except ConfigError as error:
        said, _, mend = str(error).partition("; ")
        return [_row("cluster", False, said, mend or "ray status", optional=True)]
    here = this_node()
    rows = []
    for node in nodes:
        reason = node.refused_by(here, unsafe=False)
        found = f"{node.cores} cores ({node.processor}), isolation {node.isolation}"
        mend = f"{reason}; install the same se-rl and libraries there, on Linux 5.13 or newer"
        rows.append(_row(f"node {node.host}", not reason, found, mend, optional=True))
    return rows


def _cache() -> DoctorFinding:
    from se_rl.data.cache import cache_folder

    folder = cache_folder()
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    return _row(
        "cache",
        os.access(parent, os.W_OK),
        str(folder),
        "set SE_RL_CACHE to a writable folder",
        optional=True,
    )


def _datasets() -> DoctorFinding:
    from se_rl.data.catalog import imported_names

    names = imported_names()
    mend = "se-rl data import FILE --name nasdaq100 (until then csi100 and nasdaq100 are synthetic)"
    return _row("own data", bool(names), ", ".join(names) or "none imported", mend, optional=True)


def _database() -> DoctorFinding:
    """The database that runs may share, if the user has one."""
    from se_rl.config import ConfigError
    from se_rl.records.postgres import VARIABLE, server_version
    from se_rl.records.schema import ArchiveError

    url = os.environ.get(VARIABLE, "")
    mend = f"export {VARIABLE}=postgresql://USER@HOST/DATABASE (only runs that share need one)"
    if not url:
        return _row("database", False, "none named", mend, optional=True)
    try:
        found = f"PostgreSQL {server_version(url)}, reachable"
    except (ConfigError, ArchiveError) as error:
        what, _, mend = str(error).partition("; ")
        return _row("database", False, what, mend or str(error), optional=True)
    return _row("database", True, found, "", optional=True)
