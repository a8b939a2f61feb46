"""Published strategies in others' markets: our figures are within three standard errors of theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from se_rl.baselines.outside import (
    LOT_STRATEGIES,
    QUEUE_STRATEGIES,
    MeanReturn,
    PublishedStrategy,
    play,
    world_named,
)
from se_rl.main import main

EPISODES = {"qrm": 4000, "cw": 400}
PLAYED = [row for row in (*QUEUE_STRATEGIES, *LOT_STRATEGIES) if row.rule is not None]


@pytest.mark.parametrize("strategy", PLAYED, ids=lambda row: f"{row.market}: {row.name}")
def test_a_published_row_comes_out(strategy: PublishedStrategy) -> None:
    assert strategy.rule is not None
    episodes = EPISODES[strategy.market.split("-")[0]]
    played = play(world_named(strategy.market), strategy.rule, episodes=episodes)
    assert abs(played.returned.errors_from(strategy.published)) < 3.0
    assert played.returned.spread == pytest.approx(strategy.published.spread, rel=0.15)


def test_a_difference_is_measured_in_errors_of_both() -> None:
    ours, theirs = MeanReturn(1.0, 3.0, 900), MeanReturn(0.5, 4.0, 1600)
    assert ours.errors_from(theirs) == pytest.approx(0.5 / (0.1**2 + 0.1**2) ** 0.5)


def test_the_command_prints_every_row_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "outside.md"
    main(["bench", "outside", "--episodes", "4", "--json", "--out", str(page)])
    found = json.loads(capsys.readouterr().out)
    rows = found["detail"]["rows"]
    assert len(rows) == len(QUEUE_STRATEGIES) + len(LOT_STRATEGIES)
    assert sum(row["ours"] is not None for row in rows) == 5 + 12
    text = page.read_text()
    assert "| cw-strategic-60 | actor-critic, logistic-normal | 0.110, 2.42 | quoted |" in text
    assert json.loads(page.with_suffix(".json").read_text())["detail"]["rows"] == rows


def test_too_few_episodes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "outside", "--episodes", "1"]) == 2
    assert "--episodes is 1; give at least 2" in capsys.readouterr().err
