"""A run for TensorBoard: scores by design and iteration, and the training curves of the designs
that raced.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from se_rl.bounded_reading import plain_json
from se_rl.config import ConfigError
from se_rl.records.archive import Archive
from se_rl.records.run_folder import RunFolder


def write_tensorboard(run: Path, folder: Path) -> int:
    """Write event files and return how many numbers went into them; needs the extra
    `tensorboard`.
    """
    try:
        from tensorboard.summary import Writer
    except ImportError:
        raise ConfigError(
            "TensorBoard is not installed; run: pip install 'se-rl[tensorboard]'"
        ) from None
    with Archive.open(RunFolder(run).archive, read_only=True) as archive:
        rows = [*_iterations(archive), *_curves(archive)]
    writer = Writer(str(folder))
    for tag, value, step in rows:
        writer.add_scalar(tag, value, step)
    writer.close()
    return len(rows)


def _iterations(archive: Archive) -> list[tuple[str, float, int]]:
    names = ("score", "ema", "valid", "repeated", "failed", "mean_gain", "distinct")
    rows = []
    for event in archive.events("iteration"):
        told: dict[str, Any] = dict(event.payload)
        step = int(told["iteration"])
        rows += [
            (f"iteration/{name}", float(told[name]), step)
            for name in names
            if told.get(name) is not None
        ]
        numbers = {
            name: value
            for name, value in (told.get("learnt") or {}).items()
            if isinstance(value, int | float)
        }
        rows += [(f"designer/{name}", float(value), step) for name, value in numbers.items()]
    return rows


def _curves(archive: Archive) -> list[tuple[str, float, int]]:
    rows = []
    for e in archive.evaluations():
        if e.ok and e.rung > 0:
            for step, row in enumerate(plain_json(archive.text(e.curve))):
                tag = f"training/{e.candidate}/rung{e.rung}-seed{e.seed}"
                rows += [
                    (f"{tag}/{name}", float(v), step)
                    for name, v in row.items()
                    if isinstance(v, int | float)
                ]
    return rows
