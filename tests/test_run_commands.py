"""The verbs of a run as a person meets them: run, show, score, replay, report, compare, evaluate, and the seeds' spelling.

One run with several agents serves all tests that only look at it; its designs are drawn at random, so no model is needed.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from se_rl.commands.run import ABLATIONS, INTERRUPTED, settings_of
from se_rl.commands.without_verb import as_verb
from se_rl.config import dump_yaml
from se_rl.main import build_parser, main
from se_rl.modules.kinds import KINDS
from se_rl.records.archive import Archive
from se_rl.records.results import ACCEPTED, OURS, STRONG
from se_rl.records.settings import MULTI, preset
from se_rl.sandbox.lockdown import isolation_level

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.append(str(REPOSITORY / "tests" / "core"))
TINY: Any = import_module("tiny_run")
SMALLER = {"seeds": (1, 1, 1), "iterations": 1, "siblings": 3}
locked = pytest.mark.skipif(
    not isolation_level().enough, reason="no sandbox is to be had on this machine"
)


class Said(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


def call(*words: str | Path) -> Said:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def run_words(home: Path, name: str, *more: str) -> list[str]:
    return [
        "run",
        "--config",
        str(home / "tiny.yaml"),
        "--out",
        str(home / name),
        "--workers",
        "2",
        *more,
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data and settings of all runs here."""
    folder = tmp_path_factory.mktemp("home")
    TINY.make_data(folder)
    (folder / "tiny.yaml").write_text(dump_yaml(TINY.tiny_config(**SMALLER)))
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SE_RL_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _at_home(private_cache: None, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(home))


@pytest.fixture(scope="module")
def several(home: Path) -> Said:
    """A run with two agents in one book, in both worlds."""
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    return call(*run_words(home, "several", "--scenario", "multi", "--agents", "2", "--json"))


@pytest.fixture(scope="module")
def simulated(home: Path) -> Said:
    """A run in simulated markets alone."""
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    return call(*run_words(home, "simulated", "--dynamic-only", "--json"))


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        return [dict(event.payload) for event in archive.events(kind)]


def untimed(results: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in results.items() if name != "times"}


def test_a_run_prints_its_results_as_json_and_nothing_else(home: Path, several: Said) -> None:
    assert several.code == 0 and several.err == ""
    results = json.loads(several.out)
    assert {"PA", "PA_std", "WR", "GLR", "AFI", "ci95"} <= set(results["final_metrics"])
    assert {"proposed", "valid", "scored", "failed"} <= set(results["designs"])
    accepted = results["outcome"] == ACCEPTED
    assert (OURS in results["baselines"]) == accepted and STRONG in results["baselines"]
    assert {
        "baselines",
        "stop_reason",
        "spa_p",
        "seeds",
        "isolation",
        "llm",
        "data",
        "verdict",
    } <= set(results)
    assert results["test_openings"] == accepted and results["data"]["synthetic"]
    assert bool(results["dynamic"]) == accepted
    weights = results["world_weights"]
    assert weights["alpha"] and set(map(len, weights.values())) == {len(weights["alpha"])}
    assert json.loads((home / "several" / "results.json").read_text()) == results
    assert {"report.html", "archive.sqlite", "best.policy", "config.yaml"} <= {
        p.name for p in (home / "several").iterdir()
    }
    [started] = events(home / "several", "run_started")
    assert started["config"]["scenario"] == "multi" and results["config"] == started["config"]


def test_the_same_command_on_a_finished_run_says_the_same_again(home: Path, several: Said) -> None:
    words = run_words(home, "several", "--scenario", "multi", "--agents", "2")
    assert call(*words, "--json") == several
    said = call(*words)
    assert said.code == 0 and json.loads(several.out)["verdict"].split()[0] in said.out
    assert str(home / "several" / "report.html") in said.out and "Traceback" not in said.err


def test_simulated_markets_alone(home: Path, simulated: Said) -> None:
    assert simulated.code == 0
    results = json.loads(simulated.out)
    assert (
        0.0 <= results["spa_p"] <= 1.0  # episodes are units as days are
        and results["config"]["worlds"] == "dynamic"
        and bool(results["dynamic"]) == (results["outcome"] == ACCEPTED)
    )
    [path] = events(home / "simulated", "execution")
    assert path["world"] == "dynamic" and not any(path["price"]) and "fill_price" not in path
    assert len(path["inventory"]) == len(path["minutes"]) == TINY.SMALL["dynamic_horizons"][0]
    said = call("report", home / "simulated", "--html", home / "page.html")
    assert said.code == 0 and "SIMULATED" in (home / "page.html").read_text().upper()
    assert call("show", home / "simulated").code == 0


def test_show(home: Path, several: Said) -> None:
    found = json.loads(call("show", home / "several", "--json").out)
    assert found["status"].startswith("finished: ") and found["test_openings"] <= 1
    assert found["counts"]["proposed"] == 3 and len(found["designs"]) >= 3
    best = found["designs"][0]["id"]
    design = json.loads(call("show", home / "several", best[:6], "--json").out)
    assert design["id"] == best
    for words in ([], [best]):
        said = call("show", home / "several", *words)
        assert said.code == 0 and best[:6] in said.out and said.err == ""


@locked
def test_every_accepted_design_is_the_same_again_and_blind(home: Path, several: Said) -> None:
    said = call("replay", home / "several", "all", "--json")
    found = json.loads(said.out)
    assert said.code == 0 and said.err == "" and found["equal"]
    with Archive.open(home / "several" / "archive.sqlite", read_only=True) as archive:
        done = archive.evaluations()
    worth = {e.candidate for e in done if e.ok and e.rung}
    again = {
        (d["design"], e["rung"], e["seed"]): e for d in found["designs"] for e in d["evaluations"]
    }
    assert len(worth) >= 3 and set(again) == {
        (e.candidate, e.rung, e.seed) for e in done if e.candidate in worth
    }
    assert all(
        e["equal"] and e["future_blind"] and e["again"] == e["stored"] for e in again.values()
    )
    assert {d["isolation"] for d in found["designs"]} == {done[0].isolation} and found["designs"][
        0
    ]["same_code"]


@pytest.fixture
def copy(home: Path, several: Said, tmp_path: Path) -> Path:
    """A copy of the run, to be changed."""
    return Path(shutil.copytree(home / "several", tmp_path / "copy"))


@locked
def test_modules_by_hand_are_placed_among_the_designs(copy: Path, tmp_path: Path) -> None:
    words: list[str | Path] = []
    for name in MULTI:
        (tmp_path / f"{name}.py").write_text(KINDS[name].contract.examples[0])
        words += [f"--{name}", tmp_path / f"{name}.py"]
    said = call("score", copy, *words, "--json")
    found = json.loads(said.out)
    assert said.code == 0 and said.err == "" and found["reason"] == ""
    assert (
        found["rows"][found["place"] - 1]["design"] == found["design"]
        and found["of"] == len(found["rows"]) >= 2
    )
    assert [row["score"] for row in found["rows"]] == sorted(
        (row["score"] for row in found["rows"]), reverse=True
    )
    with Archive.open(copy / "archive.sqlite", read_only=True) as archive:
        design = archive.candidate(found["design"])
    assert design.operator == "by hand" and set(design.modules) == set(MULTI)
    assert found["design"] in call("show", copy, found["design"]).out
    assert (
        call("report", copy).code == 0 and found["design"][:6] in (copy / "report.html").read_text()
    )


def test_an_invalid_module_by_hand_is_refused_and_leaves_no_trace(
    copy: Path, tmp_path: Path
) -> None:
    file = tmp_path / "bad.py"
    file.write_text("import os\n\ndef reward(step):\n    return 1.0\n")
    before = len(events(copy, "proposed"))
    said = call("score", copy, "--reward", file)
    assert said.code == 2 and f"{file} is no valid reward (" in said.err.splitlines()[-1]
    assert len(events(copy, "proposed")) == before and said.out == ""


def test_report_and_tensorboard(
    home: Path, several: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    said = call("report", home / "several", "--html", page, "--json")
    assert said.code == 0 and json.loads(said.out) == {"page": str(page)} and said.err == ""
    assert page.read_text().startswith("<!doctype html>")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "tensorboard.summary", None)
        said = call("report", home / "several", "--html", page, "--tensorboard", tmp_path / "board")
        assert (
            said.code == 2
            and "pip install 'se-rl[tensorboard]'" in said.err
            and not (tmp_path / "board").exists()
        )
    pytest.importorskip("tensorboard.summary")
    assert (
        call("report", home / "several", "--html", page, "--tensorboard", tmp_path / "board").code
        == 0
    )
    assert [
        p
        for p in (tmp_path / "board").iterdir()
        if "tfevents" in p.name and p.stat().st_size > 1000
    ]


def test_compare(home: Path, several: Said, simulated: Said) -> None:
    said = call("compare", home / "several", home / "simulated", "--json")
    found = json.loads(said.out)
    assert (
        said.code == 0
        and said.err == ""
        and [run["arm"] for run in found["runs"]] == ["random", "random dynamic-only"]
    )
    assert found["equal_budget"] and len(found["tests"]) == 1
    said = call("compare", home / "several", home / "simulated")
    assert said.code == 0 and found["sentence"] in said.out


@locked
def test_the_best_policy_of_a_run_on_data_in_the_seeds_words(home: Path, several: Said) -> None:
    words = (
        "--dataset",
        TINY.DATA,
        "--horizon",
        "20",
        "--split",
        "valid",
        "--json",
    )  # its test days stay sealed
    said = call("--mode", "eval", "--checkpoint", home / "several", *words)
    found = json.loads(said.out)
    assert said.code == 0 and found["policy"]["name"] == json.loads(several.out)["best"]
    assert "foresight bound" in found["methods"]


BAD_INPUT = {
    "no world left": (
        "run --static-only --dynamic-only",
        "--static-only and --dynamic-only leave no world; give one",
    ),
    "no workers": ("run --workers 0", "--workers is 0; use 1 or more"),
    "several agents on history": (
        "run --scenario multi --static-only",
        "the multi scenario needs simulated markets",
    ),
    "no such rival": ("run --rivals SARSA", "rival 'SARSA' is unknown; known are DDQN, OPD"),
    "no such preset": ("run --preset fast", "invalid choice: 'fast'"),
    "no such arm": ("run --arm best", "invalid choice: 'best'"),
    "no number": ("run --iterations many", "--iterations has value 'many'"),
    "no iterations": ("run --iterations 0", "iterations is 0; use a whole number"),
    "no data": ("run --data {home}/nowhere.csv --arm random --out {home}/new", "nowhere.csv"),
    "no settings": ("run --config {home}/nowhere.yaml", "nowhere.yaml"),
    "other settings": (
        "run --config {home}/tiny.yaml --out {home}/several --seed 9",
        'began with scenario "multi" and is now given "single"',
    ),
    "show: no run": (
        "show {home}/nowhere",
        "{home}/nowhere holds no run (no archive.sqlite); give",
    ),
    "show: unknown design": ("show {home}/several zzz", "zzz"),
    "replay: no run": ("replay {home} all", "{home} holds no run"),
    "replay: unknown design": ("replay {home}/several zzz", "zzz"),
    "replay: no such rung": ("replay {home}/several all --rung 3", "invalid choice: 3"),
    "score: no module": ("score {home}/several", "no module is given; name at least one file"),
    "score: no run": ("score {home} --reward r.py", "{home} holds no run"),
    "score: no file": ("score {home}/several --reward {home}/none.py", "none.py cannot be read"),
    "score: a folder": ("score {home}/several --network {home}", "{home} cannot be read"),
    "report: no run": ("report {home}/nowhere", "holds no run"),
    "compare: unfinished": (
        "compare {home}/several {home}",
        "{home} has no results.json: the run has not finished",
    ),
    "compare: no folder": (
        "compare {home}/several {home}/nowhere",
        "there is no folder {home}/nowhere; give that of a finished run",
    ),
    "compare: twice": ("compare {home}/several {home}/several", "is given twice"),
    "compare: broken": (
        "compare {home}/several {home}/broken",
        "broken/results.json is damaged; run the same",
    ),
    "eval: no checkpoint": ("--mode eval", "--mode eval needs --checkpoint"),
    "eval: no policy": ("--mode eval --checkpoint {home}/model.pt --dataset csi100", "model.pt"),
    "seeds: no mode": ("--mode sleep", "invalid choice: 'sleep'"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_line_and_exit_code_2(case: str, home: Path, several: Said) -> None:
    (home / "broken").mkdir(exist_ok=True)
    (home / "broken" / "results.json").write_text(several.out[:99])
    words, said = (text.format(home=home) for text in BAD_INPUT[case])
    found = call(*words.split(), "--json")
    assert (found.code, found.out) == (2, ""), found.err
    assert said in found.err and found.err.count("\n") == 1 and "Traceback" not in found.err


def test_a_model_that_is_not_here_is_told_before_anything_is_trained(home: Path) -> None:
    said = call(*run_words(home, "no-model", "--arm", "full", "--llm", "gpt-9", "--json"))
    assert (
        said.code == 1
        and "model 'gpt-9' is unknown; use smollm2" in said.err
        and said.err.count("\n") == 1
    )
    assert not (home / "no-model").exists()  # nothing is written


@locked
def test_an_interrupted_run_says_how_to_go_on_and_ends_as_if_it_had_not_been(
    home: Path, simulated: Said
) -> None:
    words = run_words(home, "interrupted", "--dynamic-only")
    with subprocess.Popen(
        [sys.executable, "-m", "se_rl", *words],
        env=TINY.environment(home) | {"COLUMNS": "200"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        heard = []
        for line in process.stderr:
            heard.append(line)
            if "default" in line and "..." not in line:  # the first design has its score
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                break
        out, err = process.communicate(timeout=240)
    told = err.strip().splitlines()[-1]
    assert process.returncode == INTERRUPTED == 130, heard
    assert (
        "Traceback" not in err
        and out == ""
        and told.startswith("se-rl: interrupted; all that was finished is saved")
    )
    assert not (home / "interrupted" / "results.json").exists() and events(
        home / "interrupted", "evaluated"
    )
    resume = told.partition("go on with: se-rl ")[2].split()
    assert resume == [
        "run",
        "--config",
        str(home / "interrupted" / "config.yaml"),
        "--out",
        str(home / "interrupted"),
    ]
    again = call(*words, "--json")
    assert again.code == 0 and untimed(json.loads(again.out)) == untimed(json.loads(simulated.out))
    assert call(*resume, "--json").out == again.out


# the seeds' command line, and what becomes of it


def parsed(words: Sequence[str]) -> Any:
    return settings_of(build_parser().parse_args(list(words)))


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("--dataset csi100 --epochs 3", {"data": "csi100", "iterations": 3}),
        ("--dataset csi100 --epochs 50", {"data": "csi100", "iterations": 50}),
        ("--dataset nasdaq100 --llm owner/Model-70B", {"llm": "owner/Model-70B"}),
        (
            "--epochs 4 --seed 3 --no-dek --horizon 60",
            {"iterations": 4, "seed": 3, "hle": False, "lle": False, "horizons": (60,)},
        ),
        (
            "--mode train --dataset my/bars.csv --preset standard",
            {"preset": "standard", "data": "my/bars.csv"},
        ),
    ],
)
def test_the_seeds_command_line_trains(words: str, changes: dict[str, Any]) -> None:
    name = changes.pop("preset", "quick")
    assert parsed(as_verb(words.split())) == preset(name, **changes)


def test_the_seeds_command_line_evaluates() -> None:
    spelt = as_verb(["--mode", "eval", "--checkpoint", "path/to/model.pt"])
    assert spelt == ["evaluate", "path/to/model.pt", "--data", "nasdaq100"]
    assert build_parser().parse_args(spelt).policy == Path("path/to/model.pt")


@locked
def test_evaluating_on_the_runs_own_test_days_is_an_opening(home: Path, several: Said) -> None:
    own, words = home / "opened", ["--horizon", "20", "--json"]
    shutil.copytree(home / "several", own)
    other = ["--data", "nasdaq100", "--scored-days", "4"]
    elsewhere = json.loads(call("evaluate", own, *other, *words).out)
    valid = json.loads(call("evaluate", own, "--data", TINY.DATA, "--split", "valid", *words).out)
    assert not [note for one in (elsewhere, valid) for note in one["notes"] if "opened" in note]
    before = len(events(own, "test_opened"))  # none where the run kept the default
    for _ in range(2):  # the same figures again are no further look
        told = json.loads(call("evaluate", own, "--data", TINY.DATA, *words).out)
        note = f"these are the run's own test days: opened {before + 1} times by now"
        assert note in told["notes"]
    assert len(events(own, "test_opened")) == before + 1


@pytest.mark.parametrize("flag", ABLATIONS)
def test_what_is_left_out(flag: str) -> None:
    assert parsed(["run", f"--{flag}"]) == preset("quick", **ABLATIONS[flag][1])
    both = parsed(["run", f"--{flag}", "--no-imagine", "--arm", "random"])
    assert both == replace(preset("quick", **ABLATIONS[flag][1]), imagine=False, arm="random")


def experiment(
    words: str, monkeypatch: pytest.MonkeyPatch, *, code: int = 0
) -> tuple[int, list[list[str]]]:
    """The commands that an experiment gives."""
    given: list[list[str]] = []

    def note(_: Any, command: list[str]) -> int:
        given.append(command)
        return code

    monkeypatch.setattr("se_rl.commands.experiment.call_verb", note)
    return main(["experiment", *words.split()]), given


def test_the_seeds_experiment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, given = experiment("--dataset nasdaq100 --seeds 2 --no-dek", monkeypatch)
    folders = [f"out/experiment/nasdaq100-no-dek-{seed}" for seed in range(2)]
    assert code == 0 and given[-1] == ["compare", *folders]
    runs = [parsed(words) for words in given[:-1]]
    seal = (tmp_path / "out" / "experiment" / "seal").read_text().strip()
    assert len(seal) == 32, "drawn once for all runs"
    assert runs == [
        preset("quick", data="nasdaq100", seed=seed, seal=seal, hle=False, lle=False)
        for seed in range(2)
    ]
    assert build_parser().parse_args(given[1]).reuse == [Path(folders[0])]
    again = experiment("--dataset nasdaq100 --seeds 2 --no-dek", monkeypatch)[1]
    assert again == given, "the same command goes on with the same seal"
    assert experiment("--seal another", monkeypatch) == (2, [])
    assert "was begun with" in capsys.readouterr().err
    script = REPOSITORY / "scripts" / "run_experiment.py"
    asked = [sys.executable, script, "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert "--no-dek" in told and "se-rl experiment --dataset nasdaq100" in told


def test_an_experiment_of_several_arms_and_one_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = "full no-dek local random best-of-n static-only"
    _, given = experiment(
        f"--dataset csi100 --seeds 1 --preset tiny --out x --arms {arms} --json --epsilon 0.2"
        " --seal repeated",
        monkeypatch,
    )
    runs = [parsed(words) for words in given[:-1]]
    base = preset("tiny", data="csi100", epsilon=0.2, seal="repeated")
    assert runs == [
        base,
        replace(base, hle=False, lle=False),
        replace(base, arm="local"),
        replace(base, arm="random"),
        replace(base, arm="best-of-n"),
        replace(base, worlds="static"),
    ]
    assert given[-1] == ["compare", *(f"x/csi100-{arm}-0" for arm in arms.split()), "--json"]
    code, given = experiment("--seeds 3", monkeypatch, code=130)
    assert code == 130 and len(given) == 1, "the others are not begun"
    for words, said in (
        ("--seeds 0", "--seeds is 0; use 1 or more"),
        ("--arms best", "arm 'best' is unknown; use full"),
    ):
        assert experiment(words, monkeypatch) == (2, []) and said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["doctor", "--epsilon", "0.2"])  # only an experiment hands options on


def test_an_experiment_hands_commands_to_the_verbs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--seeds", "1", "--preset", "tiny", "--arms", "random", "--dry-run", "--out", "x"]
    assert main(["experiment", *words]) == 2, "there is no run to compare"
    out, err = capsys.readouterr()
    assert "plan: nasdaq100, designed by no model, in x/nasdaq100-random-0" in out
    assert "there is no folder x/nasdaq100-random-0" in err
