"""Runs side by side: arms over their seeds, differences by day, and what may not be compared."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from se_rl.config import ConfigError, to_dict
from se_rl.records.files import to_json
from se_rl.records.plain import to_plain
from se_rl.records.results import ACCEPTED, NO_IMPROVEMENT, OURS, STRONG
from se_rl.records.settings import PRESETS, RunConfig
from se_rl.report.comparison_table import print_comparison
from se_rl.scoring.comparable import BUDGET
from se_rl.scoring.comparison import compare
from se_rl.scoring.run_groups import arm_of
from se_rl.scoring.score import Contributions, Stratum

DAYS = 12
LUCK = np.random.default_rng(0).normal(size=(9, DAYS))


def finished(
    folder: Path,
    *,
    gain: float,
    seed: int = 0,
    sha256: str = "ab",
    noise: float = 0.1,
    train: str = "",
    name: str = "bars",
    outcome: str = ACCEPTED,
    rivals: dict[str, float] | None = None,
    **changes: Any,
) -> Path:
    """A folder with results of a run that gained so many bps a day over TWAP, and half of it over the default.

    `rivals` gained so much over the default.
    """
    ours = gain + noise * LUCK[seed]
    over = float(ours.mean()) / 2
    estimate = {"mean": over, "se": 0.15, "ci95": [over - 0.3, over + 0.3]}
    config = RunConfig(seed=seed, **changes)
    simulated = {} if config.worlds == "static" else {"simulated": {"mean": gain}}
    folder.mkdir()
    (folder / "results.json").write_text(
        to_json(
            {
                "config": to_dict(config),
                "data": {
                    "sha256": sha256,
                    "name": name,
                    "train_sha256": train,
                    "synthetic": bool(train),
                },
                "seal": {"origin": "given", "text": config.seal or ""},
                "seeds": {"search": seed},
                "best": "b",
                "outcome": outcome,
                "by_day": {},
                "dynamic": {},
                "score_by_day": {
                    OURS: ours.tolist(),
                    STRONG: (ours / 2).tolist(),
                    **{name: (ours / 2 + own).tolist() for name, own in (rivals or {}).items()},
                }
                if outcome == ACCEPTED
                else {},
                "rivals": {
                    name: {"score": {"mean": own, "se": 0.1, "ci95": [own - 0.2, own + 0.2]}}
                    for name, own in (rivals or {}).items()
                },
                "baselines": {
                    name: {"PA": own} for name, own in {STRONG: 1.0, **(rivals or {})}.items()
                },
                "finalists": [{"candidate": "b", "score": gain}],
                "final_metrics": {
                    "PA": 1.0,
                    "over_TWAP": estimate,
                    "over_default": {"mean": 7.0},
                    "score_over_default": {"score": estimate, **simulated},
                },
                "designs": {"proposed": 18},
                "learning": {},
                "spa_p": math.nan,
                "llm": {"tokens_in": 10, "tokens_out": 5},
                "times": {"minutes": 1.0},
            }
        )
    )
    return folder


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "full"),
        ({"hle": False}, "no-hle"),
        ({"lle": False}, "no-lle"),
        ({"hle": False, "lle": False}, "no-dek"),
        ({"imagine": False, "worlds": "static"}, "no-imagine static-only"),
        ({"worlds": "dynamic"}, "dynamic-only"),
        ({"arm": "random", "hle": False}, "random"),
        ({"arm": "best-of-n", "worlds": "static"}, "best-of-n static-only"),
        ({"seed": 5, "work": 9.0, "llm": "other"}, "full"),
    ],
)
def test_an_arm_is_named_after_what_is_left(changes: dict[str, Any], name: str) -> None:
    assert arm_of(to_dict(RunConfig(**changes))) == name


def test_arms_over_their_seeds(tmp_path: Path) -> None:
    full = [finished(tmp_path / f"full{s}", gain=2.0, seed=s) for s in range(3)]
    control = [finished(tmp_path / f"random{s}", gain=0.0, seed=s, arm="random") for s in range(3)]
    found = compare([*full, *control])
    groups = {group.group: group for group in found.groups}
    gains = [(2.0 + 0.1 * LUCK[s].mean()) / 2 for s in range(3)]
    assert groups["full"].by_seed == pytest.approx(gains) and groups["full"].runs == 3
    days = [2.0 + 0.1 * LUCK[s] for s in range(3)]
    halves = np.array(days) / 2
    both = Contributions((Stratum("static", "score", 1.0, halves),)).estimate()
    assert groups["full"].ci95 == pytest.approx(both.ci95) and both.mean == pytest.approx(
        np.mean(gains)
    )
    assert groups["full"].over_default == 7.0, "price advantage is beside the score"
    assert groups["full"].simulated == 2.0 and groups["full"].score_valid == 2.0
    [test] = found.tests
    assert (test.a, test.b) == ("full", "random") and test.difference == pytest.approx(1.0)
    assert found.equal_budget and found.spa_p < 0.01
    ahead = (
        f"full is ahead with a score of {np.mean(gains):+.2f} bps over the default PPO on test days"
    )
    assert found.sentence == f"{ahead}; shown against random (Bonferroni)"
    assert json.loads(to_json(to_plain(found)))["runs"][0]["group"] == "full"


def test_rivals_are_groups_of_their_own_and_count_in_the_test_of_all(tmp_path: Path) -> None:
    rivals = {"DDQN": 3.0, "OPD": -1.0}
    full = [finished(tmp_path / f"full{s}", gain=2.0, seed=s, rivals=rivals) for s in range(2)]
    control = finished(tmp_path / "random", gain=0.0, arm="random")
    found = compare([*full, control])
    groups = {group.group: group for group in found.groups}
    assert list(groups) == ["full", "random", "DDQN", "OPD"] and len(found.runs) == 3
    assert [group.rival for group in groups.values()] == [False, False, True, True]
    ddqn = groups["DDQN"]
    assert (ddqn.runs, ddqn.mean, ddqn.ci95) == (1, 3.0, (2.8, 3.2)), "one draw of days: one row"
    assert ddqn.over_default == pytest.approx(2.0) and ddqn.tokens == 0
    pairs = {(test.a, test.b) for test in found.tests}
    assert ("full", "DDQN") in pairs and ("DDQN", "OPD") not in pairs and len(pairs) == 5
    assert found.family == "4 groups (2 of them rivals)"
    assert found.sentence.startswith("DDQN is ahead with a score of +3.00 bps")
    other = finished(tmp_path / "long", gain=0.0, work=9.0, rivals=rivals)
    names = {group.group for group in compare([full[0], other]).groups if group.rival}
    assert names == {"DDQN, work 6.0", "DDQN, work 9.0", "OPD, work 6.0", "OPD, work 9.0"}
    kept = finished(tmp_path / "kept", gain=0.0, arm="local", outcome=NO_IMPROVEMENT)
    assert not any(group.rival for group in compare([kept]).groups)


def test_a_control_that_wins_is_named_first_and_nothing_is_claimed_without_a_difference(
    tmp_path: Path,
) -> None:
    worse = finished(tmp_path / "full", gain=-1.0)
    better = finished(tmp_path / "random", gain=1.0, seed=1, arm="random")
    assert compare([worse, better]).sentence.startswith("random is ahead with a score of +0.4")
    alike = [
        finished(tmp_path / f"alike{a}", gain=0.0, noise=1.0, seed=s, arm=a)
        for s, a in enumerate(("full", "frozen"))
    ]
    sentence = compare(alike).sentence
    assert sentence.endswith("no difference between groups is shown") and "ahead" not in sentence
    assert sentence.startswith("no group is shown to beat the default; the highest mean is that of")


def test_several_searches_with_the_same_find_have_the_chance_of_one(tmp_path: Path) -> None:
    lucky = 0.3 - 3.0 * float(
        LUCK[0].mean()
    )  # on the mean of these days, and on no more of them than half
    same = [finished(tmp_path / f"full{s}", gain=lucky, noise=3.0) for s in range(3)]
    same += [finished(tmp_path / "random", gain=-1.0, noise=0.0, arm="random")]
    found = compare(same)
    group = found.groups[0]
    assert group.by_seed == pytest.approx([0.15] * 3) and group.ci95[0] < -0.2 < 0.5 < group.ci95[1]
    assert found.sentence.startswith("no group is shown to beat the default")


def test_equal_runs_and_a_single_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = [finished(tmp_path / arm, gain=0.3, arm=arm) for arm in ("full", "best-of-n", "random")]
    found = compare(same)
    assert [(t.difference, t.p) for t in found.tests] == [(0.0, 1.0)] * 3
    more = [finished(tmp_path / f"again{s}", gain=0.3, seed=s, noise=0.0) for s in range(3)]
    twice = [
        finished(tmp_path / f"frozen{s}", gain=0.3, seed=s, noise=0.0, arm="frozen")
        for s in range(2)
    ]
    assert [(t.difference, t.p) for t in compare([*more, *twice]).tests] == [(0.0, 1.0)]
    alone = compare(same[:1])
    assert alone.tests == () and alone.groups[0].ci95 == alone.runs[0].score_over_default.ci95
    assert alone.sentence.startswith("full: a score of +0.1") and alone.sentence.endswith("1 runs")
    for comparison in (found, alone):
        print_comparison(comparison)
    out = capsys.readouterr().out
    assert (
        "best-of-n" in out
        and "18" in out
        and "proposed" not in out
        and "SPA p that none of the " in out
        and "groups beats the default on the shared test days" in out
    )


@pytest.mark.parametrize("name", BUDGET)
def test_other_budgets_are_noticed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other: dict[str, Any] = {name: (1, 1, 9) if name == "seeds" else 7}
    found = compare(
        [
            finished(tmp_path / "a", gain=0.0, noise=0.0),
            finished(tmp_path / "b", gain=0.0, noise=0.0, **other),
        ]
    )
    assert not found.equal_budget
    print_comparison(found)
    assert "BUDGETS DIFFER" in capsys.readouterr().out


def test_history_alone_has_no_simulated_figure(tmp_path: Path) -> None:
    [group] = compare([finished(tmp_path / "a", gain=1.0, worlds="static")]).groups
    assert group.group == "static-only" and math.isnan(group.simulated)


def test_what_may_not_be_compared(tmp_path: Path) -> None:
    good = finished(tmp_path / "good", gain=1.0)
    old = finished(tmp_path / "old", gain=1.0)
    told = json.loads((old / "results.json").read_text())
    del told["score_by_day"]
    (old / "results.json").write_text(to_json(told))
    unfinished, broken, strange, no_object = (
        tmp_path / name for name in ("unfinished", "broken", "strange", "list")
    )
    for folder, text in (
        (broken, '{"data": '),
        (strange, '{"methods": {}}'),
        (no_object, "[1, 2]"),
    ):
        folder.mkdir()
        (folder / "results.json").write_text(text)
    unfinished.mkdir()
    for bad, words in (
        (unfinished, f"{unfinished} has no results.json: the run has not finished; finish it"),
        (
            tmp_path / "nowhere",
            f"there is no folder {tmp_path / 'nowhere'}; give that of a finished",
        ),
        (broken, "broken/results.json is damaged; run the same"),
        (strange, "strange/results.json holds no results of a run; give"),
        (no_object, "list/results.json holds no results of a run; give"),
        (old, f"{old} has no score by test day: an older se-rl made it; compare"),
        (good, f"{good} is given twice; a run counts once"),
        (tmp_path / "old" / ".." / "good", "is given twice"),
    ):
        with pytest.raises(ConfigError) as error:
            compare([good, bad])
        assert words in str(error.value) and "\n" not in str(error.value)


def sealed(folder: Path, seal: str, **changes: Any) -> Path:
    """A run on a synthetic set whose later days follow from this seal."""
    return finished(folder, sha256=f"days of {seal}", train="train days", seal=seal, **changes)


def test_runs_with_the_same_seal_are_paired_by_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compare(
        [
            sealed(tmp_path / "full", "s", gain=2.0),
            sealed(tmp_path / "random", "s", gain=0.0, arm="random"),
        ]
    )
    assert found.basis.startswith("paired by test day") and found.tests[0].p < 0.001
    print_comparison(found)
    assert "paired by test day: all runs have the same test days" in capsys.readouterr().out


def test_runs_with_different_seals_are_compared_over_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = []
    for seed in range(4):
        for arm, gain in (("full", 2.0), ("random", 0.2)):
            place = tmp_path / f"{arm}{seed}"
            places.append(sealed(place, f"{arm} {seed}", gain=gain, noise=1.0, seed=seed, arm=arm))
    found = compare(places)
    full, random = found.groups
    gains = np.array(full.by_seed)
    assert full.runs == 4 and full.mean == pytest.approx(gains.mean())
    half = 3.182446 * gains.std(ddof=1) / 2.0  # Student's t with 3 degrees of freedom
    assert full.ci95 == pytest.approx((gains.mean() - half, gains.mean() + half))
    [test] = found.tests
    assert test.difference == pytest.approx(full.mean - random.mean) and test.p < 0.01
    assert math.isnan(found.spa_p), "there is no common day to test on"
    said = "over runs, not paired by day: 8 seals, so 8 draws of the test days"
    assert found.basis == said
    print_comparison(found)
    assert said in capsys.readouterr().out
    one = compare([sealed(tmp_path / "a", "a", gain=1.0), sealed(tmp_path / "b", "b", gain=1.0)])
    assert one.groups[0].runs == 2
    pair = compare([places[0], places[1]])
    assert pair.tests[0].ci95[0] < pair.tests[0].difference < pair.tests[0].ci95[1]


def test_other_train_days_are_other_data_whatever_the_seal(tmp_path: Path) -> None:
    one = sealed(tmp_path / "one", "a", gain=1.0)
    other = finished(tmp_path / "other", gain=1.0, sha256="x", train="others", seal="b")
    found = compare([one, other])
    assert found.by == ("data",) and len({group.group for group in found.groups}) == 2
    assert all(group.group.startswith("bars ") for group in found.groups), "one name, two sets"
    assert found.tests == () and math.isnan(found.spa_p)
    assert found.basis.startswith("2 data sets: groups on different ones are not tested")


def kept(folder: Path, **changes: Any) -> Path:
    """A run that kept the default and opened no sealed day."""
    place = finished(folder, gain=0.0, noise=0.0, outcome=NO_IMPROVEMENT, **changes)
    told = json.loads((place / "results.json").read_text())
    nothing = {"mean": 0.0, "se": 0.0, "ci95": [0.0, 0.0]}
    told["final_metrics"]["score_over_default"]["score"] = nothing
    (place / "results.json").write_text(to_json(told))
    return place


def test_a_run_that_kept_the_default_gains_nothing_on_any_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compare(
        [
            finished(tmp_path / "full", gain=2.0),
            kept(tmp_path / "random", arm="random"),
            kept(tmp_path / "random1", arm="random", seed=1),
        ]
    )
    full, random = found.groups
    assert (full.accepted, random.accepted) == (1, 0) and random.mean == 0.0
    assert random.ci95 == (0.0, 0.0) and random.by_seed == (0.0, 0.0)
    [test] = found.tests
    assert test.difference == pytest.approx(full.mean) and found.spa_p < 0.01
    alone = compare([kept(tmp_path / "a"), kept(tmp_path / "b", arm="frozen")])
    assert alone.sentence.startswith("no group found a design") and alone.spa_p == 1.0
    print_comparison(found)
    assert "improvement" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "by", "names"),
    [
        ({"scenario": "multi"}, ("scenario",), ("single", "multi")),
        ({"estimator": "ste"}, ("estimator",), ("reinforce", "ste")),
        ({"llm": "qwen"}, ("model",), ("smollm2", "qwen")),
        ({"horizons": (60,)}, ("horizons",), ("horizons 240 120", "horizons 60")),
        ({"arm": "frozen", "llm": "qwen"}, ("arm", "model"), ("full, smollm2", "frozen, qwen")),
        ({"arm": "random", "llm": "qwen"}, ("arm",), ("full", "random")),
        ({"worlds": "static"}, ("arm",), ("full", "static-only")),
        ({"work": 9.0}, ("work",), ("work 6.0", "work 9.0")),
        ({"name": "mine", "sha256": "cd"}, ("data",), ("bars", "mine")),
    ],
)
def test_groups_are_named_by_what_differs_alone(
    changes: dict[str, Any], by: tuple[str, ...], names: tuple[str, ...], tmp_path: Path
) -> None:
    one = finished(tmp_path / "one", gain=1.0)
    found = compare([one, finished(tmp_path / "other", gain=1.0, seed=3, **changes)])
    assert found.by == by and tuple(group.group for group in found.groups) == names


def test_presets_have_their_names_and_several_settings_stand_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = []
    for name in ("quick", "standard"):
        for scenario in ("single", "multi"):
            settings = PRESETS[name] | {"scenario": scenario}
            places.append(finished(tmp_path / f"{name} {scenario}", gain=1.0, **settings))
    found = compare(places)
    assert found.by == ("scenario", "preset")
    names = [group.group for group in found.groups]
    assert names == ["single, quick", "multi, quick", "single, standard", "multi, standard"]
    assert "scores are of different tasks (scenario)" in found.basis
    print_comparison(found)
    out = capsys.readouterr().out
    assert "scenario, preset" in out and "estimator" not in out and "BUDGETS DIFFER" in out
