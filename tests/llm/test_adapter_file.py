"""Which adapter a run begins with: none, the package's own, or a file, and one line where that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_model import GRAMMAR, MESSAGES, build_model

from se_rl.llm import adapter_file
from se_rl.llm.adapter_file import adapter_head, chosen_adapter, read_adapter
from se_rl.llm.adapters import LoraSettings
from se_rl.llm.backends import LlmError, Request
from se_rl.llm.local import LocalDesigner

REQUEST = Request(MESSAGES, GRAMMAR, 60, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", sharpness=2.0)


@pytest.fixture(scope="module")
def designer(folder: Path) -> LocalDesigner:
    torch.set_num_threads(1)
    return LocalDesigner(folder, threads=1)


@pytest.fixture(scope="module")
def learned(designer: LocalDesigner) -> LocalDesigner:
    """A model after two steps."""
    settings = LoraSettings(2, 4, ("q_proj", "down_proj"))
    learner = designer.new_adapter("edits", settings=settings, seed=1)
    proposals = designer.propose(REQUEST, 4)
    for _ in range(2):
        learner.update(proposals, [1.0, -1.0, 0.5, -0.5], learning_rate=1e-2)
    return learner


def test_what_ships_is_small_and_writes_the_same(
    designer: LocalDesigner, learned: LocalDesigner
) -> None:
    whole, shipped = learned.adapter_bytes(), learned.adapter_bytes(to_ship=True)
    assert len(shipped) < len(whole) / 3
    head = adapter_head(shipped)
    assert head is not None and head.id == "edits@2" == learned.adapter
    assert (head.rank, head.alpha, head.targets, head.norms) == (
        2,
        4,
        ("down_proj", "q_proj"),
        True,
    )
    again = designer.with_adapter_bytes(shipped)
    proposals = learned.propose(REQUEST, 4)
    gap = (again.log_probs(proposals) - learned.log_probs(proposals)).abs().max()
    assert 0 < float(gap) < 0.05, "half precision alone is between them"
    assert float((designer.log_probs(proposals) - learned.log_probs(proposals)).abs().max()) > 0.1


def test_a_file_is_found_read_and_held_against_its_model(
    folder: Path, learned: LocalDesigner, tmp_path: Path
) -> None:
    place = tmp_path / "adapter.safetensors"
    place.write_bytes(learned.adapter_bytes(to_ship=True))
    found = chosen_adapter(str(place), str(folder))
    assert found is not None and found.content == place.read_bytes() and found.place == place
    assert chosen_adapter("none", str(folder)) is None
    other = build_model(tmp_path / "other", seed=5)
    with pytest.raises(LlmError, match=r"was trained on tiny .* use that model, or --adapter none"):
        chosen_adapter(str(place), str(other))
    with pytest.raises(LlmError, match=r"takes no adapter.*use --adapter none"):
        chosen_adapter(str(place), "http://127.0.0.1:9/v1#m")


@pytest.mark.parametrize("content", [b"", b"x" * 40, b"\x02" + b"\0" * 7 + b"{}"])
def test_a_damaged_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    place = tmp_path / "adapter.safetensors"
    place.write_bytes(content)
    with pytest.raises(LlmError, match="damaged or no adapter") as told:
        read_adapter(place)
    assert "\n" not in str(told.value) and str(place) in str(told.value)


def test_a_file_that_was_cut_off_or_is_not_there_is_one_line(
    learned: LocalDesigner, tmp_path: Path
) -> None:
    place = tmp_path / "adapter.safetensors"
    place.write_bytes(learned.adapter_bytes(to_ship=True)[:-1])
    with pytest.raises(LlmError, match="damaged"):
        read_adapter(place)
    for missing in (tmp_path / "nobody", tmp_path):
        with pytest.raises(LlmError, match=r"cannot be read; give the adapter.safetensors"):
            read_adapter(missing)


def test_what_ships_is_small_has_its_card_and_is_the_models_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen_adapter("shipped", str(folder)) is None
    shipped = list(adapter_file.SHIPPED_FOLDER.glob("*.safetensors"))
    assert [place.stem for place in shipped] == ["smollm2"]
    for place in shipped:
        assert place.stat().st_size <= 10_000_000 and place.with_suffix(".md").exists()
        assert read_adapter(place).head.base == place.stem
    monkeypatch.setattr(adapter_file, "SHIPPED_FOLDER", tmp_path)
    assert chosen_adapter("shipped", "smollm2") is None
    (tmp_path / "smollm2.safetensors").write_bytes(b"broken")
    with pytest.raises(LlmError, match=r"smollm2.safetensors is damaged"):
        chosen_adapter("shipped", "smollm2")


def test_a_text_is_taught_as_if_it_had_been_drawn(designer: LocalDesigner) -> None:
    for drawn in designer.propose(REQUEST, 6):
        [told] = designer.taught(REQUEST, [drawn.text])
        assert told.text == drawn.text and told.finish == "stop" and told.log_prob is None
        assert told.drawn is not None and told.masks is not None
        assert len(told.drawn) == len(told.masks)
        if told.tokens == drawn.tokens:
            assert told.drawn == drawn.drawn and (told.masks == drawn.masks).all()
            assert float(designer.log_probs([told])[0]) == pytest.approx(drawn.log_prob, abs=1e-3)
    with pytest.raises(LlmError, match="the grammar does not have 'def reward"):
        designer.taught(REQUEST, ["def reward(step):\n    return step.nothing"])
