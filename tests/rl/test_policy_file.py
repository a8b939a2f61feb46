"""Policies on disk: read back bit for bit, refused in one line where damaged, never run as code."""

from __future__ import annotations

import ast
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rl.toy_worlds import CheapHalf
from se_rl.modules.defaults import Modules, Network
from se_rl.rl import policy_file
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import (
    FORMAT,
    PolicyFileError,
    load_weights,
    read_policy,
    read_weights,
    save_policy,
    save_weights,
)
from se_rl.rl.ppo_agent import PPOAgent
from se_rl.rl.trainer import TrainConfig, Trained, train

FACTS = {
    "state_dim": 3,
    "rate": 1.0,
    "sources": {"reward": "return step.reward", "zeros": "0" * 64},
}


def layer(seed: int = 0) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(3, 4)


def refusal(path: Path) -> str:
    """The line with which a file is refused; fails where it is read or anything else is raised."""
    with pytest.raises(PolicyFileError) as caught:
        read_weights(path)
    line = str(caught.value)
    assert str(path) in line and "\n" not in line
    return line


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "a.policy"
    save_weights(path, layer(), FACTS)
    return path


@pytest.fixture
def trained() -> Trained:
    modules, config = (
        Modules(reward=lambda step: step.reward),
        TrainConfig(budget=1e-3, samples=256),
    )
    return train(
        modules, {"static": CheapHalf()}, config, seed=5, neutral={"static": Neutral(1.5, -2.0)}
    )


def test_weights_and_facts_come_back_bit_for_bit(saved: Path) -> None:
    weights, facts = read_weights(saved)
    assert facts == FACTS
    for name, value in layer().state_dict().items():
        assert torch.equal(weights[name], value) and weights[name].dtype == value.dtype


def test_a_trained_policy_comes_back_and_acts_the_same(tmp_path: Path, trained: Trained) -> None:
    path = tmp_path / "new" / "t.policy"
    save_policy(path, trained, design={"reward": "text"}, facts={"name": "PPO"})
    again, facts = read_policy(path, Modules())
    assert facts["design"] == {"reward": "text"} and facts["name"] == "PPO"
    assert (again.seed, again.work, again.action_map) == (
        trained.seed,
        trained.work,
        trained.action_map,
    )
    assert again.neutral == trained.neutral
    seen = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    for run in (one := trained.runner("static"), two := again.runner("static")):
        run.start(6, 8)
    for ours, theirs in zip(one.act(seen), two.act(seen), strict=True):
        assert np.array_equal(ours, theirs)


def test_every_changed_byte_is_detected(saved: Path) -> None:
    whole, rng = saved.read_bytes(), np.random.default_rng(0)
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [*range(header), *rng.integers(header, len(whole), 50)]
    for at in places:  # each byte once, by a random change
        damaged = bytearray(whole)
        damaged[at] ^= int(rng.integers(1, 256))
        saved.write_bytes(damaged)
        refusal(saved)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"format":"1"', b'"format":"0"'),
        (b'"format":"1"', b'"fermat":"1"'),
        (b'"format":"1"', b'"format":"x"'),
        (b'"sha256"', b'"sha257"'),
        (b"1.0", b"1e0"),  # the same number, but not the same file
    ],
)
def test_changes_that_a_parser_would_forgive_are_detected(
    saved: Path, old: bytes, new: bytes
) -> None:
    whole = saved.read_bytes()
    changed = whole.replace(old, new, 1)
    assert changed != whole
    saved.write_bytes(changed)
    refusal(saved)


def test_another_padding_is_detected(saved: Path) -> None:
    whole = saved.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    saved.write_bytes(
        end.to_bytes(8, "little") + whole[8:end] + b" " * 8 + whole[end:]
    )  # as valid as it was before
    assert "does not match its hash" in refusal(saved)


def test_every_truncation_and_extension_is_detected(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in (*range(0, len(whole), 7), len(whole) - 1):
        saved.write_bytes(whole[:length])
        refusal(saved)
    saved.write_bytes(whole + b"\0")
    refusal(saved)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 64, (2).to_bytes(8, "little") + b"[]", b"{}", b"PK\x03\x04" + b"\0" * 99],
)
def test_files_of_other_kinds_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.policy"
    path.write_bytes(content)
    assert "damaged or no policy" in refusal(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "missing.policy")
    assert "cannot be read" in refusal(tmp_path)


class Bomb:
    """Unpickling this makes a file: the proof that something was run."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    mark, path = tmp_path / "ran", tmp_path / "p.policy"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    refusal(path)
    torch.save({"weights": Bomb(mark)}, path)
    refusal(path)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))  # the bomb is real
    assert mark.exists()


def test_the_reader_has_no_pickle_in_it() -> None:
    tree = ast.parse(Path(policy_file.__file__).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not {"pickle", "joblib", "dill"} & imported
    assert not any(
        isinstance(node, ast.Name) and node.id in ("eval", "exec") for node in ast.walk(tree)
    )
    assert not ("torch" in imported and {"save", "load"} & used)


def test_a_newer_format_is_refused_as_such(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_file, "FORMAT", FORMAT + 1)
    save_weights(saved, layer(), FACTS)
    monkeypatch.undo()
    assert "newer" in refusal(saved) and "update se-rl" in refusal(saved)


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_an_interrupted_write_leaves_the_old_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = saved.read_bytes()

    def crash(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(step, crash)
    with pytest.raises(OSError, match="disk full"):
        save_weights(saved, layer(seed=1), FACTS)
    monkeypatch.undo()
    assert saved.read_bytes() == before and list(saved.parent.iterdir()) == [saved]
    assert torch.equal(read_weights(saved)[0]["weight"], layer().weight)


def test_a_policy_of_another_design_is_refused(tmp_path: Path, trained: Trained) -> None:
    class Wide(Network):
        history = 3

    path = tmp_path / "t.policy"
    save_policy(path, trained, design={}, facts={})
    with pytest.raises(PolicyFileError, match="other weights than this network"):
        read_policy(path, Modules(network=Wide))


def test_an_agents_file_is_no_trained_policy(tmp_path: Path) -> None:
    path = tmp_path / "agent.policy"
    PPOAgent(3, 1).save(path)
    with pytest.raises(PolicyFileError, match="no trained policy"):
        read_policy(path, Modules())


def test_weights_for_other_facts_are_refused_and_nothing_is_loaded(saved: Path) -> None:
    own = layer(seed=1)
    before = own.weight.detach().clone()
    with pytest.raises(PolicyFileError, match="state_dim 3, not 4"):
        load_weights(saved, own, {"state_dim": 4})
    with pytest.raises(PolicyFileError, match="other weights"):
        load_weights(saved, nn.Linear(3, 5), {"state_dim": 3})
    assert torch.equal(own.weight, before)
    load_weights(saved, own, {"state_dim": 3})
    assert torch.equal(own.weight, layer().weight)


def test_the_header_is_json_that_anyone_can_read(saved: Path) -> None:
    whole = saved.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])["__metadata__"]
    assert json.loads(header["facts"]) == FACTS and header["format"] == str(FORMAT)
