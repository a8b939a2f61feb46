"""What the kit did is counted, and what did not act says why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from se_rl.core.kit_use import STE_FROM_BANK, WITH_CARE, bank_uses, kit_use
from se_rl.core.preparation import make_kit
from se_rl.core.scan import ORDERED_BY_BANK
from se_rl.core.stopping import StopRule
from se_rl.records.archive import Archive
from se_rl.records.entries import Instruction
from se_rl.records.settings import preset

STILL = StopRule(calm=5)


def search(archive: Archive, *, replays: int = 0, progress: StopRule, **changes: Any) -> Any:
    """As much of a search as is counted."""
    config = preset("quick", **changes)
    kit = SimpleNamespace(replays=replays)
    return SimpleNamespace(config=config, archive=archive, kit=kit, progress=progress)


@pytest.fixture
def archive(tmp_path: Path) -> Any:
    with Archive.open(tmp_path / "archive.sqlite") as opened:
        yield opened


def learnt(archive: Archive, key: str, *, moved: bool, **stats: Any) -> None:
    told = {"moved": moved, "reason": "", **stats}
    archive.append("learnt", key, {"adapter": None, "stats": told})


def test_every_part_is_counted(archive: Archive) -> None:
    for name, operator in (("a", "default"), ("b", "mutation"), ("c", "reflection")):
        archive.add_instruction(Instruction(name, "reward", name, operator))
    learnt(archive, "1", moved=True, ste=1.0)
    learnt(archive, "2", moved=True)
    learnt(archive, "3", moved=False, reason="too few")
    used = kit_use(search(archive, replays=2, progress=STILL))
    assert used.bank == (ORDERED_BY_BANK,)
    assert (used.new_instructions, used.reflections, used.replays) == (2, 1, 2)
    assert (used.ste_steps, used.reinforce_steps, used.refused_steps) == (1, 1, 1)
    assert used.stopped_by_rule and used.idle == ()
    assert "1 by STE" in used.words and "the stop rule ended the search" in used.words


def test_where_the_bank_is_heard_with_care_it_is_said() -> None:
    def uses(**changes: Any) -> list[str]:
        return list(bank_uses(preset("quick", data="own.parquet", **changes)))

    assert uses() == [ORDERED_BY_BANK, WITH_CARE]
    assert uses(worlds="dynamic") == [ORDERED_BY_BANK]
    assert uses(worlds="static") == []


def test_what_did_not_act_says_why(archive: Archive) -> None:
    learnt(archive, "1", moved=False, reason="none of 2 groups has designs that differ in score")
    used = kit_use(search(archive, progress=StopRule(), bank_prior=False))
    told = dict(line.split(": ", 1) for line in used.idle)
    assert told["design bank"] == "left out"
    assert "3 iterations, and the run had 3" in told["replay"]
    assert told["weights"].startswith("none of 2 groups")
    assert "no improvement in 10 iterations" in told["stop rule"]
    assert "the run had 3 at most" in told["stop rule"]
    assert told["reflection"] == "the model wrote nothing new"


def test_controls_have_no_kit(archive: Archive) -> None:
    used = kit_use(search(archive, progress=StopRule(), arm="random"))
    told = dict(line.split(": ", 1) for line in used.idle)
    for part in ("instructions", "weights", "design bank"):
        assert told[part] == "not in the arm random"


def test_ste_starts_from_the_bank(archive: Archive) -> None:
    used = kit_use(search(archive, progress=STILL, estimator="ste"))
    assert used.bank == (ORDERED_BY_BANK, STE_FROM_BANK)
    without = kit_use(search(archive, progress=STILL, estimator="ste", bank_prior=False))
    assert without.bank == ()


def test_the_kit_of_a_run_brings_the_bank_to_ste() -> None:
    for changes, knows in (
        ({}, True),
        ({"bank_prior": False}, False),
        ({"scenario": "multi"}, False),
    ):
        kit = make_kit(preset("quick", estimator="ste", **changes))
        assert kit.low is not None
        assert bool(kit.low._prior()) == knows
