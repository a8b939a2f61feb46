"""The table of frauds: it survives an interruption, and its page states what was counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from se_rl_benchmarks import frauds
from se_rl_benchmarks.fraud_page import FraudRow, FraudTable, HonestDesign, Play, markdown


def row(name: str, *, succeeded: bool = False, control: Any = (5.0, 1.0)) -> FraudRow:
    play = Play((0.1, 0.2), succeeded=succeeded)
    verdicts = {"history": "acts on other orders"}
    return FraudRow(name, "kind a", control, {"several": play}, verdicts)


def test_a_campaign_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[str] = []

    def attack(fraud: Any, *, quick: bool) -> FraudRow:
        if len(played) == 3:
            played.append("interrupted")
            raise KeyboardInterrupt
        played.append(fraud.name)
        return row(fraud.name)

    monkeypatch.setattr(frauds, "attack", attack)
    words = ["--quick", "--out", str(tmp_path / "new"), "--resume"]
    with pytest.raises(KeyboardInterrupt):
        frauds.main(words)
    assert len(FraudTable.read(tmp_path / "new").rows) == 3
    assert frauds.main(words) == 0
    table = FraudTable.read(tmp_path / "new")
    names = [one.name for one in table.rows]
    assert len(names) == len(set(names)) >= 120 and len(played) == len(names) + 1
    assert (tmp_path / "new" / "frauds.md").read_text() == markdown(table)


def test_the_page_states_counts_controls_and_honest_designs() -> None:
    honest = [HonestDesign(0, 1), HonestDesign(0, 2), HonestDesign(1, 1, "acts on its own row")]
    rows = [row("a"), row("b", control=None), row("c", control=(1.0, 1.0))]
    page = markdown(FraudTable(rows, honest=honest, classes={"time": 30, "forged results": 9}))
    assert "3 frauds, 3 plays: 0 scored, 0 crashed the parent" in page
    assert "1 of 2 frauds that need a future or a memory earn more than 4 standard errors" in page
    assert "Of 3 honest designs" in page and "(1 of them two agents that talk)" in page
    assert "something against 1; seed 1: acts on its own row." in page
    assert "| time | 30 |" in page and "| all | 39 |" in page
    assert "| kind a | 3 | 0 | 3 acts on other orders |" in page


def test_a_fraud_that_scores_and_an_honest_design_that_is_flagged_are_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(frauds, "attack", lambda fraud, quick: row(fraud.name, succeeded=True))
    assert frauds.main(["--quick"]) == 1


def test_every_class_of_attack_has_its_share() -> None:
    from frauds.classes import attack_counts  # beside the corpus, which the benchmark has found

    counts = attack_counts()
    assert len(counts) == 7 and min(counts.values()) >= 8
    assert sum(counts.values()) >= 400
