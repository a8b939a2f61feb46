"""A model of the user's own: asked before anything is written, and one that is of no use ends the search."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from se_rl.core.run import run_search
from se_rl.core.search import NOTHING_USABLE
from se_rl.llm.backends import Abilities, Proposal, Request
from se_rl.llm.generator import open_designer
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.run_folder import RunFolder
from se_rl.report.numbers import money
from se_rl.sandbox.lockdown import isolation_level

sys.path.append(str(Path(__file__).resolve().parents[1] / "llm"))
SERVER: Any = import_module("faulty_server")
TINY: Any = import_module("tiny_run")
KEY = "sk-abcdefgh12345678ijkl"


class Talker(SERVER.Handler):  # type: ignore[misc]
    """Answers everything with the same words, or refuses everything."""

    words = "I would rather not."
    status = 200

    def do_POST(self) -> None:
        self.request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompt = self.request_body["messages"][-1]["content"]
        self.server.books.bodies.append(self.request_body)
        choice = {"message": {"role": "assistant", "content": self.words}, "finish_reason": "stop"}
        many = [choice] * self.request_body.get("n", 1)
        self.send(self.status, self.answer(choices=many) if self.status == 200 else b"no")


@pytest.fixture
def talker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = SERVER.FaultyServer()
    server.RequestHandlerClass = Talker
    with SERVER.running(server):
        yield server


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.strip().splitlines()
    return line


def test_a_server_that_is_not_there_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["run", "--llm", "http://127.0.0.1:9/v1#m", "--out", str(out), "--json"]
    assert main([*words, "--data", str(tmp_path / "never_read.csv")]) != 0
    line = one_line(capsys)
    assert "nothing answers at http://127.0.0.1:9/v1" in line and "fix --llm" in line
    assert not out.exists(), "nothing was loaded or written"


def test_a_refusal_names_what_to_set_and_one_small_request_was_sent(
    talker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Talker, "status", 401)
    assert main(["run", "--llm", f"{talker.url}#m", "--out", str(tmp_path / "run"), "--json"]) != 0
    assert "set OPENAI_API_KEY to a key" in one_line(capsys)
    assert not (tmp_path / "run").exists()
    [body] = talker.books.bodies
    assert body["max_tokens"] <= 16 and len(json.dumps(body)) < 300


def test_a_model_that_answers_without_a_letter_is_there(
    talker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Talker, "words", "")
    designer: Any = open_designer(f"{talker.url}#m")
    designer.greet()
    designer.close()
    assert len(talker.books.bodies) == 1


def test_a_missing_local_model_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "cache"))
    assert main(["run", "--out", str(tmp_path / "run"), "--json"]) != 0
    assert "run: se-rl llm pull smollm2" in one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_reasons_need_free_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--chain-of-thought", "--out", str(tmp_path / "run")]
    for more in ([], ["--dry-run"]):
        assert main([*words, *more, "--json"]) == 2
        assert "smollm2 writes under a grammar; add --free" in one_line(capsys)
    for fine in (["--free"], ["--llm", "qwen-coder"], ["--arm", "local"]):
        assert main([*words, *fine, "--dry-run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["designs"] == 18
    assert not (tmp_path / "run").exists()


class Reluctant:
    """A model that is best held to a grammar; it notes what it is asked."""

    name = "reluctant"
    abilities = Abilities(constrained=True, free_python=False)

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.asked.append(request)
        return [Proposal("I would rather not.", request=request)] * n


def test_a_run_asks_for_free_python_and_for_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    TINY.make_data(tmp_path)
    fast = {"scan": False, "seeds": (1, 1, 1), "worlds": "static", "arm": "full"}
    model = Reluctant()
    config = TINY.tiny_config(**fast, free=True, chain_of_thought=True)
    results = run_search(config, tmp_path / "free", workers=1, designer=model)
    assert results.stop_reason.startswith(NOTHING_USABLE)
    designs = [one for one in model.asked if "one small change" in str(one.messages)]
    assert designs and all(one.grammar is None for one in model.asked)
    assert all("step by step" in str(one.messages) for one in designs)


def test_a_folder_is_bound_to_settings_once_the_run_has_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    out = tmp_path / "run"
    words = ["run", "--preset", "tiny", "--arm", "random", "--out", str(out), "--json"]
    for missing in ("one.csv", "other.csv"):  # the second is not told of the first one's settings
        assert main([*words, "--data", str(tmp_path / missing)]) != 0
        assert f"{missing} cannot be read" in one_line(capsys)
        assert {path.name for path in out.iterdir()} <= {"run.lock"}
    with RunFolder(out) as folder, Archive.open(folder.archive) as archive:
        archive.append("seal", "seal", {"text": "left by a killed process", "origin": "drawn"})
    assert main([*words, "--data", str(tmp_path / "third.csv")]) != 0
    assert "third.csv cannot be read" in one_line(capsys)


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{KEY}@example.com/v1#m",
        f"HTTPS://user:{KEY}@example.com/v1#m",
        f"https://example.com/v1?key={KEY}#m",
        f"https://example.com/{KEY}/v1#m",
        f"https://example.com/v1#{KEY}",
        f"user:{KEY}@example.com/v1",
    ],
)
def test_a_key_in_an_address_is_refused_before_it_is_said_or_stored(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for words in (["run", "--llm", address, "--out", str(out)], ["bench", "llm", "--llm", address]):
        assert main(words) != 0
        said = capsys.readouterr()
        assert KEY not in said.out + said.err and "OPENAI_API_KEY" in said.err
        assert "--llm" in said.err and len(said.err.strip().splitlines()) == 1
    assert not out.exists()
    file = tmp_path / "config.yaml"
    file.write_text(f"llm: '{address}'\n")
    assert main(["run", "--config", str(file), "--out", str(out)]) != 0
    said = capsys.readouterr()
    assert KEY not in said.out + said.err and not out.exists()


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["--iterations", "many"], "--iterations has value 'many'"),
        (["--max-usd", "3"], "--max-usd is 3, but what the model costs is not known"),
        (["--static-share", "0.2"], "--static-share is 0.2"),
    ],
)
def test_messages_name_the_option_that_was_typed(
    words: list[str], start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) != 0
    assert one_line(capsys).removeprefix("se-rl: ").startswith(start)


def test_costs_have_significant_digits() -> None:
    assert [money(usd) for usd in (0.0, 0.000412, 0.0399, 0.5, 1.0, 1234.567)] == [
        "0.00",
        "0.00041",
        "0.040",
        "0.50",
        "1.00",
        "1,234.57",
    ]


@pytest.mark.skipif(not isolation_level().enough, reason="no sandbox is to be had here")
def test_a_model_that_writes_nothing_usable_ends_the_search(
    talker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    TINY.make_data(tmp_path)
    config = TINY.tiny_config(
        arm="full",
        llm=f"{talker.url}#m",
        scan=False,
        seeds=(1, 1, 1),
        iterations=3,
        siblings=2,
        worlds="static",
    )
    results = run_search(config, tmp_path / "run", workers=1)
    assert results.stop_reason.startswith(f"{NOTHING_USABLE} in iteration 1")
    assert results.test_openings == 0
    assert results.designs.scored == 0 and results.measured_on == "validation days"
    with Archive.open(tmp_path / "run" / "archive.sqlite", read_only=True) as archive:
        assert archive.test_openings() == 0
        assert max(one.iteration for one in archive.candidates()) <= 1
