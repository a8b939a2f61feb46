"""The command line as a person meets it: help, JSON, one-line errors with exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from se_rl.core.plan import SECONDS_PER_WORK
from se_rl.main import main
from se_rl.records.settings import PRESETS, preset
from se_rl.report.stage import Stage
from se_rl.report.terminal import print_bench, print_rows

REPOSITORY = Path(__file__).resolve().parents[1]


def bars(symbols: int = 6, days: int = 10, minutes: int = 390) -> pd.DataFrame:
    """Hand-made US minute bars of a few symbols."""
    rng = np.random.default_rng(0)
    frames = []
    for symbol in range(symbols):
        for day in pd.bdate_range("2024-03-04", periods=days):
            close = 50 * np.exp(np.cumsum(rng.normal(0, 5e-4, minutes)))
            opening = np.r_[50, close[:-1]]
            frame = pd.DataFrame(
                {
                    "timestamp": pd.date_range(
                        day + pd.Timedelta("9h30min"), periods=minutes, freq="min"
                    )
                }
            )
            frame = frame.assign(
                symbol=f"S{symbol}",
                open=opening,
                high=np.maximum(opening, close),
                low=np.minimum(opening, close),
            )
            frames.append(frame.assign(close=close, volume=rng.integers(100, 5000, minutes)))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with one thing wrong each, and a good one."""
    path, good = tmp_path_factory.mktemp("files"), bars(symbols=5, days=6)
    good.to_csv(path / "good.csv", index=False)
    good.drop(columns="volume").to_csv(path / "no_volume.csv", index=False)
    good.rename(columns={"close": "last"}).to_csv(path / "wrong_columns.csv", index=False)
    holed = good.copy()
    holed.loc[17, "close"] = np.nan
    holed.to_csv(path / "nan.csv", index=False)
    good.sort_values("close").to_csv(path / "unsorted.csv", index=False)
    pd.concat([good, good.iloc[[5]]]).sort_values(["symbol", "timestamp"]).to_csv(
        path / "duplicate.csv", index=False
    )
    good.iloc[:390].to_csv(path / "one_day.csv", index=False)
    (path / "config.yaml").write_text("horizont: 60\n")
    (path / "nested.yaml").write_text("horizon: soon\n")
    (path / "broken.yaml").write_text("a: [1,\n")
    return path


BAD_INPUT = {
    "missing file": (["--data", "{}/nowhere.csv"], "cannot be read"),
    "unknown set": (["--data", "sp500"], "neither a file nor a known set"),
    "wrong columns": (["--data", "{}/wrong_columns.csv"], "lacks the columns close"),
    "no volume": (["--data", "{}/no_volume.csv"], "no volume"),
    "no volume, capped": (
        ["--data", "{}/no_volume.csv", "--benchmark", "twap", "--max-participation", "0.1"],
        "no volume",
    ),
    "NaN": (["--data", "{}/nan.csv"], "missing or infinite price"),
    "unsorted": (["--data", "{}/unsorted.csv"], "out of time order"),
    "duplicate": (["--data", "{}/duplicate.csv"], "duplicate (symbol, time) rows"),
    "horizon too long": (
        ["--data", "{}/good.csv", "--horizon", "391"],
        "longer than the session of 390 bars",
    ),
    "horizon no number": (["--data", "{}/good.csv", "--horizon", "long"], "'horizon"),
    "quantity zero": (["--data", "{}/good.csv", "--quantity", "0"], "quantity 0.0 is not positive"),
    "quantity negative": (
        ["--data", "{}/good.csv", "--quantity", "-5"],
        "quantity -5.0 is not positive",
    ),
    "quantity no number": (
        ["--data", "{}/good.csv", "--quantity", "many"],
        "--quantity has value 'many'",
    ),
    "split unknown": (["--data", "{}/good.csv", "--split", "future"], "invalid choice: 'future'"),
    "split empty": (
        ["--data", "{}/one_day.csv", "--split", "train"],
        "split 'train' of one_day is empty",
    ),
    "config key misspelt": (
        ["--config", "{}/config.yaml"],
        "key 'horizont' is unknown; known keys: data, split",
    ),
    "config value wrong": (["--config", "{}/nested.yaml"], "'horizon"),
    "config no YAML": (["--config", "{}/broken.yaml"], "is not YAML"),
    "config missing": (["--config", "{}/none.yaml"], "cannot be read"),
    "option unknown": (["--colour", "red"], "unrecognized arguments: --colour"),
    "symbol unknown": (
        ["--data", "{}/good.csv", "--symbols", "AAPL"],
        "symbol 'AAPL' is not in good",
    ),
    "cap out of range": (
        ["--data", "{}/good.csv", "--max-participation", "7"],
        "max_participation 7.0",
    ),
    "negative cost": (["--data", "{}/good.csv", "--fee-bps", "-1"], "fee_bps"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_line_and_exit_code_2(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, message = BAD_INPUT[case]
    try:
        code = main(["baselines", *(part.format(folder) for part in arguments), "--json"])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert message in err
    assert "Traceback" not in err


def test_json_of_a_users_own_csv(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "baselines",
                "--data",
                str(folder / "good.csv"),
                "--horizon",
                "60",
                "--split",
                "all",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["orders"] == 2 * 5 * 6 * 6
    assert abs(found["methods"]["TWAP"]["PA_vs_twap"]) < 1e-9
    assert found["data"]["synthetic"] is False


def test_some_symbols_are_executed_with_the_whole_universe_known(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--horizon", "session", "--split", "all", "--symbols", "S0", "S3", "--json"]
    assert main(["baselines", "--data", str(folder / "good.csv"), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["orders"] == 2 * 2 * 6
    assert found["symbols"] == 2
    assert "XS ridge" in found["methods"]


def test_results_page_and_config_are_written_together(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    arguments = [
        "--data",
        str(folder / "good.csv"),
        "--horizon",
        "60",
        "--split",
        "all",
        "--html",
        str(page),
    ]
    assert main(["baselines", *arguments, "--out", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    assert "foresight bound" in out and "self-checks passed" in out
    assert str(page) in err
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "run" / "results.json").read_text())["horizon"] == 60
    orders = pd.read_parquet(tmp_path / "run" / "orders.parquet")
    found = json.loads((tmp_path / "run" / "results.json").read_text())
    assert len(orders) == found["orders"]
    assert orders["TWAP: PA"].mean() == pytest.approx(found["methods"]["TWAP"]["PA"], abs=1e-9)
    assert set(orders["side"]) == {1, -1}
    for config in (tmp_path / "page.config.yaml", tmp_path / "run" / "config.yaml"):
        assert yaml.safe_load(config.read_text())["horizon"] == 60


def test_a_written_config_reproduces_the_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "--data",
        str(folder / "good.csv"),
        "--horizon",
        "30",
        "--split",
        "all",
        "--out",
        str(tmp_path),
    ]
    assert main(["baselines", *arguments, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["baselines", "--config", str(tmp_path / "config.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_data_check_import_and_list(
    folder: Path, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    assert main(["data", "check", str(folder / "good.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["usable"] is True
    assert main(["data", "check", str(folder / "duplicate.csv")]) == 1
    assert "duplicate" in capsys.readouterr().out
    assert main(["data", "import", str(folder / "duplicate.csv"), "--name", "nasdaq100"]) == 2
    assert "--repair" in capsys.readouterr().err
    assert (
        main(["data", "import", str(folder / "duplicate.csv"), "--name", "nasdaq100", "--repair"])
        == 0
    )
    assert "the last one kept" in capsys.readouterr().out
    assert main(["data", "list", "--json"]) == 0
    kinds = {row["name"]: row["kind"] for row in json.loads(capsys.readouterr().out)["datasets"]}
    assert kinds["nasdaq100"] == "imported" and kinds["csi100"] == "SYNTHETIC"
    assert (
        main(["baselines", "--data", "nasdaq100", "--split", "all", "--horizon", "60", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["data"]["synthetic"] is False
    assert any("the last one kept" in note for note in found["notes"])


def test_fetch_without_the_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "baostock", None)
    arguments = [
        "--vendor",
        "baostock",
        "--symbols",
        "sh.600519",
        "--start",
        "2025-01-02",
        "--end",
        "2025-01-03",
    ]
    assert main(["data", "fetch", *arguments, "--bar-minutes", "5", "--name", "csi100"]) == 2
    assert "se-rl[vendors]" in capsys.readouterr().err


def test_doctor_and_bench_speak_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("se_rl_benchmarks.bench_env.ORDERS", 256)
    monkeypatch.setattr("se_rl_benchmarks.bench_env.DYNAMIC_ORDERS", 32)
    assert main(["doctor", "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["checks"]}
    assert rows["torch"]["ok"]
    assert all(row["mend"] for row in rows.values() if not row["ok"])
    assert main(["bench", "env", "--seconds", "0.01", "--json"]) == 0
    bench = json.loads(capsys.readouterr().out)
    assert {"name", "unit", "value", "peers", "ratios", "detail", "machine"} <= set(bench)


@pytest.mark.parametrize(
    "verb", [[], ["baselines"], ["data"], ["data", "fetch"], ["bench"], ["doctor"]]
)
def test_every_verb_has_help(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*verb, "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "example:" in out or verb in ([], ["data"])


def test_interrupt_is_one_line(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("se_rl.doctor.examine", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["doctor"]) == 130
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_light_start() -> None:
    """`import se_rl` and `se-rl --help` load neither torch nor pandas nor transformers."""
    code = (
        "import sys, se_rl\n"
        "from se_rl.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'pandas', 'transformers', 'numba', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_errors_of_the_program_itself_are_not_hidden(monkeypatch) -> None:
    monkeypatch.setattr("se_rl.doctor.examine", lambda: (_ for _ in ()).throw(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        main(["doctor"])


def test_the_help_names_the_options_without_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    for option in ("--dataset", "--epochs", "--llm", "--mode", "--checkpoint"):
        assert option in out
    with pytest.raises(SystemExit):
        main(["--data", "nasdaq100", "run"])  # they belong to no verb


def test_the_help_of_run_has_the_presets_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    lines = capsys.readouterr().out.splitlines()
    head = next(line for line in lines if line.split()[:2] == ["preset", "designs"])
    for name in PRESETS:
        row = next(line for line in lines if line.split()[:1] == [name])
        designs = f"{preset(name).budget_designs:,}"
        assert row[head.index("designs") :].startswith(designs)
        assert row[head.index("what for") :].strip()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("se_rl.core.run.run_search", None)
    words = ["run", "--dry-run", "--preset", "quick", "--arm", "random", "--workers", "2"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "up to 18 designs in 3 iterations" in out and "estimate: about" in out
    assert main([*words, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    # 19 screens and 7 races of 4.2 units; of three times as many 6 trainings of the finalist and of
    # the default, 2 of the naive design
    assert plan["work"] == pytest.approx(19 * 4.2 + 7 * 4.2 + 14 * 12.6)
    assert plan["seconds"] == pytest.approx(plan["work"] * SECONDS_PER_WORK / 2)
    assert list(tmp_path.iterdir()) == []
    assert main([*words, "--iterations", "0"]) == 2, "settings are checked all the same"


def test_extras_survive_in_printed_advice(capsys: pytest.CaptureFixture[str]) -> None:
    advice = 'not installed: pip install "se-rl[baselines]"'
    machine = {"cpu": "[bold]two[/bold] cores"}
    bench = {"name": "env", "unit": "steps", "value": 1.0, "peers": {}, "ratios": {}}
    print_bench({**bench, "detail": {"SB3": advice}, "machine": machine})
    out = capsys.readouterr().out
    assert advice in out and "[bold]two[/bold] cores" in out
    print_rows("se-rl doctor", [{"mend": 'pip install "se-rl[vendors]"'}])
    assert "se-rl[vendors]" in capsys.readouterr().out


def test_a_spinner_shows_the_time_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    stage = Stage("loading [red]bars")
    clock[0] += 7.0
    assert stage.__rich__().plain == "loading [red]bars (7 s)"
    stage.begin("loading [red]bars")
    assert str(stage).endswith("(7 s)"), "the same stage goes on"
    stage.begin("training")
    assert str(stage) == "training (0 s)"
