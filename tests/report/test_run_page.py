"""The page of a run: what it says at each stage, what it must never load, and texts and files it must survive."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from run_fixture import BEST, HOSTILE, OURS, PER_ROUND, estimate, make_run, results, reward_source

from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, StoredStanding, design_id, sha256
from se_rl.records.plain import from_plain
from se_rl.records.results import NO_IMPROVEMENT, VALIDATION_DAYS, RunResults
from se_rl.report import run_details
from se_rl.report.page import packed_plotly
from se_rl.report.page_numbers import interval, signed
from se_rl.report.run_designs import Design
from se_rl.report.run_page import run_page
from se_rl.report.run_verdict import final_verdict

DEFAULT_ID = design_id({})


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("ended"))


@pytest.fixture(scope="module")
def page(ended: Path) -> str:
    return run_page(ended)


@pytest.fixture(scope="module")
def under_way(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("under_way"), ended=False, rounds=2)


def body(page: str) -> str:
    """The page without its scripts."""
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body(page))).split())


def figures(page: str) -> list[dict[str, Any]]:
    return [
        json.loads(html.unescape(text), parse_constant=pytest.fail)
        for text in re.findall(r'data-figure="([^"]*)"', page)
    ]


def panels(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="designs">(.*?)</script>', page, flags=re.DOTALL
    )
    assert found is not None
    return json.loads(found[1], parse_constant=pytest.fail)


def record(told: dict[str, Any]) -> RunResults:
    return from_plain(RunResults, told)


def best_of(folder: Path) -> str:
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        return archive.candidates()[BEST].id


def test_page_loads_nothing_from_elsewhere(page: str) -> None:
    assert not re.search(r"<(script|img|iframe|link)\b[^>]*\b(src|href)=", body(page))
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", body(page))
    assert "http" not in body(page).replace("http-equiv", "")
    assert "default-src 'none'" in page and page.count(packed_plotly()) == 1


def test_an_ended_run_gives_its_verdict_and_every_method(page: str, ended: Path) -> None:
    text = words(page)
    assert (
        f"Design {best_of(ended)} earns +0.41 bps [+0.11, +0.71] over the default PPO on the sealed test days"
        in text
    )
    assert "The interval excludes 0, on days that the search never saw." in text
    assert (
        "specific to the symbols +1.08, common market timing +0.12." in text
        and "about 0.22 bps" in text
    )
    rows = re.findall(r'<th scope="row">([^<]+)', page)
    scores, methods = rows[:3], rows[3:6]
    assert scores == ["SE-RL (best design)", "PPO strong", "best design over the default"]
    assert methods == ["SE-RL (best design)", "XS ridge", "PPO strong"]
    cells = "−0.16 +1.10 [+0.90, +1.30] 4.0 +1.10 [+0.90, +1.30] +2.10 [+1.90, +2.30]"
    assert cells in text and "stressed twin, 3-10 %" in text
    assert (
        "PPO strong +0.79 [+0.49, +1.09] +0.79 [+0.49, +1.09] +0.71 [+0.41, +1.01] 3.5 +0.63 [+0.33, +0.93] "
        "+0.41 [+0.11, +0.71] 26.6" in text
    )
    assert '<section class="verdict shown"' in page
    told = results("x")
    rows = {*told["baselines"], *told["dynamic"]["x1"]}
    assert all(f'<th scope="row">{html.escape(name)}' in page for name in rows)
    assert (
        "SPA p, validation: none beats TWAP 0.012 SPA p, validation: none beats the default 0.031"
        in text
    )
    assert list(dict.fromkeys(re.findall(r'<th scope="row">([^<]+)</th>\n<td>', page))) == [
        OURS,
        "PPO strong",
        "grid constant",
        "TWAP",
    ]
    assert "6.80 +5.20 [+4.40, +6.00] 43.3 70 1.0 15.20" in text


def test_evidence_is_there(page: str) -> None:
    text = words(page)
    assert "SYNTHETIC DATA: no market ever printed these prices" in text and "UNSAFE" not in text
    assert (
        "dropped: cannot reach the best" in text
        and "training failed: diverged after N updates" in text
    )
    assert "preset: quick" in text and "prices are unadjusted" in text and "minutes 4.2" in text
    assert (
        "data SHA-256 " + "fa8d015c" * 8 in text
        and "2024-01-02 to 2024-03-25, 36 train | 11 valid | 11 test" in text
    )
    assert (
        "tokens read 12,000 tokens written 7,500" in text
        and "rung 0 +0.70 · rung 1 +0.65 · rung 2 +0.60" in text
    )
    assert "Score by part, every design" in text and "+0.60 [+0.50, +0.70] −0.10" in text
    assert "adapter-2" in text and "whole task −0.12 9 default" in text
    assert (
        "[user] Write a module for round 3." in text
        and "macro instruction Beat TWAP on the same orders." in text
    )


def test_a_run_under_way_says_what_is_known(under_way: Path) -> None:
    page = run_page(under_way)
    with Archive.open(under_way / "archive.sqlite", read_only=True) as archive:
        best = archive.candidates()[20].id
        stored = archive.standings()[best, 0]
    text = words(page)
    score = f"{signed(stored.score)} {interval(stored.ci95)}"
    headline = f"Iteration 2 of 3: best design so far {best} scores {score} bps over the default"
    assert headline in text and stored.score == pytest.approx(0.14)
    assert "a reward that charges for its own impact" in text and "opened once, at the end" in text
    assert "still running" in text and "Methods on the sealed test days" not in text
    assert len(panels(page)["designs"]) == 1 + 2 * PER_ROUND


def test_before_the_first_iteration_there_is_a_page(tmp_path: Path) -> None:
    text = words(run_page(make_run(tmp_path, ended=False, rounds=0)))
    assert "Under way: no outer iteration has ended yet About 5 minutes on this machine." in text
    assert "0 designs proposed (none scored yet); none is held better than the default." in text


def test_a_best_that_is_the_default_is_no_gain(tmp_path: Path) -> None:
    make_run(tmp_path, ended=False, rounds=0)
    with Archive.open(tmp_path / "archive.sqlite") as archive:
        start = archive.candidates()[0].id
        archive.append(
            "iteration", "iteration 1", {"iteration": 1, "of": 3, "best": start, "text": "None."}
        )
    assert "Iteration 1 of 3: no design beats the default so far None." in words(run_page(tmp_path))


def test_hostile_text_stays_text(page: str) -> None:
    assert "<script>alert" not in page and "<img" not in body(page) and "{{ 7 * 7 }}" in page
    told = panels(page)
    sha = sha256(reward_source(BEST))
    assert told["designs"][BEST]["modules"]["reward"] == sha and told["sources"][
        sha
    ] == reward_source(BEST)
    assert HOSTILE in told["prompts"][told["designs"][BEST]["prompt"]]
    assert html.escape(HOSTILE, quote=False) in body(page)  # in the diff


def test_what_is_unsafe_or_unsealed_is_loud(tmp_path: Path) -> None:
    make_run(tmp_path, ended=False, rounds=0, isolation="none (unsafe)")
    with Archive.open(tmp_path / "archive.sqlite") as archive:
        for opening in range(2):
            archive.open_test(key=f"opening {opening}", data_hash="d", candidate="c")
    page = run_page(tmp_path)
    assert (
        '<p class="banner" role="alert">UNSAFE RUN: source of a language model ran with isolation none (unsafe)'
        in page
    )
    assert "TEST DAYS OPENED 2 TIMES" in page


def test_lost_files_do_not_cost_the_page(tmp_path: Path) -> None:
    make_run(tmp_path, rounds=3)
    for blob in (tmp_path / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"damaged")
    page = run_page(tmp_path)
    assert set(panels(page)["sources"].values()) == {run_details.LOST}
    assert "How the best design learned" in page  # the learning curve of the results remains
    assert {design["facts"][0][1] for design in panels(page)["designs"]} >= {
        "scored, rung 0",
        "not valid",
    }


@pytest.mark.parametrize(
    ("over", "half", "state", "said"),
    [
        (0.4, 0.3, "shown", "excludes 0"),
        (0.1, 0.3, "open", "contains 0"),
        (-0.5, 0.2, "worse", "is below 0"),
    ],
)
def test_the_verdict_follows_the_interval(over: float, half: float, state: str, said: str) -> None:
    verdict = final_verdict(record(results("abc", over=over, half=half)))
    assert verdict.state == state and said in verdict.meaning


def test_one_day_shows_nothing() -> None:
    told = results("abc")
    told["final_metrics"]["score_over_default"]["score"]["ci95"] = [None, None]
    verdict = final_verdict(record(told))
    assert verdict.state == "open" and "Too few days" in verdict.meaning


def test_a_kept_default_is_no_row_of_ours_and_opens_no_days(tmp_path: Path) -> None:
    make_run(tmp_path, ended=False, rounds=2)
    told = results(DEFAULT_ID)
    sentence = (
        "No improvement found: of 26 scored designs none stood out; the days were not opened."
    )
    told |= {"outcome": NO_IMPROVEMENT, "measured_on": VALIDATION_DAYS, "verdict": sentence}
    told |= {"scores": {}, "dynamic": {}, "test_openings": 0}
    del told["baselines"][OURS]
    (tmp_path / "results.json").write_text(json.dumps(told))
    page = run_page(tmp_path)
    assert sentence in page and '<section class="verdict open"' in page
    assert "Methods on the validation days" in page and "sealed test days, bps" not in page
    assert f'<th scope="row">{OURS}' not in page and "The default was kept" in page
    assert "On the validation days the default gains +1.20 bps" in page


def test_modules_and_what_they_are_worth(ended: Path, tmp_path: Path) -> None:
    make_run(tmp_path, ended=False, rounds=2)
    told = results(DEFAULT_ID)
    told["modules"] = {"profiling": {"proposed": 4, "valid": 3, "best": "abc", "best_gain": 0.7}}
    credit = {"candidate": "abc", "module": "profiling", "rung": 1, "against": "the usual markets"}
    told["module_credits"] = [credit | {"credit": -0.42, "ci95": [-0.9, 0.06], "seeds": 3}]
    (tmp_path / "results.json").write_text(json.dumps(told))
    text = words(run_page(tmp_path))
    assert "profiling 4 3 0 0 +0.70 abc" in text
    assert "abc profiling the usual markets 1 −0.42 [−0.90, +0.06] 3" in text
    assert "What protocols and markets are worth" not in words(run_page(ended))


def test_a_credit_is_among_the_facts_of_a_design() -> None:
    standing = StoredStanding(
        "a", 1, 3, 0.5, 0.1, (0.3, 0.7), (0.5,), {}, credits={"communication": (0.25, 0.125)}
    )
    design = Design(1, Candidate("a", {}, "edit"), "scored", standing)
    assert (
        "credit",
        "communication +0.25 [+0.01, +0.49] bps against silence",
    ) in run_details.facts(design)


def test_the_chips_say_what_is_tested(page: str) -> None:
    for against in ("TWAP", "the default"):
        assert f"SPA p, validation: none beats {against}" in page
    assert "how likely such scores are if none of them beats TWAP" in page


def test_too_good_is_suspect() -> None:
    told = results("abc")
    assert "leak" not in final_verdict(record(told)).meaning
    told["final_metrics"]["over_TWAP"] = estimate(7.0, 1.0)
    assert "leak" in final_verdict(record(told)).meaning


def test_every_figure_is_one_that_plotly_draws(page: str) -> None:
    drawn = figures(page)
    # days (2), orders (3), impact, evolution, edits, a simulated order (2), two replays, curves,
    # three of training, two of progress
    assert len(drawn) == 18
    for figure in drawn:
        go.Figure(data=figure["data"], layout=figure["layout"])
    assert page.count('role="img" aria-label="') == len(drawn) and 'aria-label=""' not in page


def test_importing_the_page_stays_light() -> None:
    code = "import sys, se_rl.report.run_page; print({'pandas', 'torch', 'plotly', 'jinja2'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


def test_a_page_is_small(page: str) -> None:
    """Three megabytes are allowed for a whole `standard` run."""
    assert len(page.encode()) < 2.3e6


def test_nothing_is_empty(page: str, under_way: Path) -> None:
    """No table cell, heading or chart without anything in it; the cells of changed lines are filled
    by the page's script.
    """
    for text in (page, run_page(under_way)):
        told = re.sub(
            r"<td[^>]*data-change=[^>]*></td>|<tr class=\"groups\">.*?</tr>", "", body(text)
        )
        assert not re.search(r"<(td|th|p|h2|h3|dd|li|tbody)\b[^>]*>\s*</\1>", told)
        assert all(figure["data"] for figure in figures(text))
