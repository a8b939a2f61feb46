"""The meta-test in small: champions of a file on one held-out task, and the page of what came of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from se_rl.core.suite import evaluators
from se_rl.core.suite.tasks import SECOND, OutsideTask
from se_rl.modules.default_sources import naive_reward_source, source_of_default
from se_rl_benchmarks import meta_test
from se_rl_benchmarks.search_results import Champion

WIDE = source_of_default("Network").replace("width = 64", "width = 96")
NARROW = source_of_default("Network").replace("width = 64", "width = 8")


def test_champions_of_a_file_are_held_against_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queue = next(task for task in SECOND if isinstance(task, OutsideTask))
    monkeypatch.setattr(meta_test, "SECOND", (replace(queue, work=1e-3, samples=500),))
    monkeypatch.setattr(meta_test, "REAL", ("us_2015",))
    monkeypatch.setitem(
        meta_test.REAL_SETS, "us_2015", replace(meta_test.REAL_SETS["us_2015"], file="nothing")
    )
    monkeypatch.setattr(evaluators, "EPISODES", 60)
    told = []
    for arm, seed, sources in (
        ("full", 1, {"network": NARROW}),
        ("full", 0, {"network": WIDE}),
        ("full", 2, {"reward": naive_reward_source()}),
        ("random", 0, {"network": NARROW}),
    ):
        told.append(json.dumps(asdict(Champion("nasdaq100", "tiny", arm, seed, "a", sources))))
    champions, out = tmp_path / "champions.jsonl", tmp_path / "meta_test.md"
    champions.write_text("\n".join(told) + "\n")
    words = ["--champions", str(champions), "--keep", str(tmp_path / "kept"), "--out", str(out)]
    meta_test.main([*words, "--workers", "1", "--seeds", "2"])
    page = out.read_text()
    assert "3 champions" in page and "| full 0 | network | 1 |" in page
    assert "full 2 on qrm" in page and "not there: us_2015" in page
    found = json.loads(out.with_suffix(".json").read_text())
    designs = [one["design"] for one in found["result"]["effects"]]
    assert designs == ["full 0", "full 1", "full 2", "mean of all designs"]
    with pytest.raises(SystemExit, match="no champion is given"):
        meta_test.main([*words, "--arm", "nobody"])
