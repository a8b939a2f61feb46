"""An endpoint that echoes the key it is sent, wherever a model may write: no file of the run holds it.

The key looks like none that is known, so that nothing but its own letters can give it away.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import count
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "llm"))
sys.path.append(str(Path(__file__).parent / "core"))
from faulty_server import FaultyServer, Handler, running
from tiny_run import make_data, tiny_config

from se_rl.config import dump_yaml
from se_rl.llm.backends import Proposal, Request
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.editing import BlockEdits
from se_rl.llm.generator import DesignGenerator
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.entries import NAIVE
from se_rl.records.secrets import INVISIBLE, scrub
from se_rl.sandbox.lockdown import isolation_level

KEY = 'Ravens 77 "over" the\\old mill'
REWARD = "def reward(step):\n    return {} * step.news - step.own_impact\n"
NETWORK = """
class Network(nn.Module):
    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = {size}
        self.layer = nn.Linear(obs_dim * history, {size})

    def forward(self, obs):
        return torch.tanh(self.layer(obs.flatten(1)))
"""
EDIT = "<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n"


def split(mark: str) -> str:
    """The key with something in its middle that reading an answer leaves out."""
    return KEY[:9] + mark + KEY[9:]


ECHOES = (
    "# {key}\n```python\n{reward}```\nYour key is {key}.",
    "```python\n# {unseen}\n{reward}```",
    "```python\n# {unseen}\n{network}```",
    "```python\nNAME = r'''{key}'''\n\n{network}```",
    "```python\n{reward}    {key}\n```",
    "```python\n{reward}    {unseen} oops\n```",
    "<<<<<<< SEARCH\n{key}\n=======\n{key}\n>>>>>>> REPLACE\n",
    "Charge for haste, and remember {key} and {unseen}.",
    "import {key}\n{reward}",
)
"""Texts of every kind that a run asks for, the key in each of them in another place."""


def said_by_the_model(number: int) -> str:
    """One of them, each time with another module."""
    return ECHOES[number % len(ECHOES)].format(
        key=KEY,
        unseen=split(INVISIBLE[number % len(INVISIBLE)]),
        reward=REWARD.format(number),
        network=NETWORK.format(size=8 + number),
    )


class EchoHandler(Handler):
    """Answers every prompt with a text of another kind."""

    numbers = count()

    def do_POST(self) -> None:
        self.request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompt = self.request_body["messages"][-1]["content"]
        self.server.books.keys.append(self.headers["Authorization"])
        choices = []
        for _ in range(self.request_body.get("n", 1)):
            message = {"role": "assistant", "content": said_by_the_model(next(self.numbers))}
            choices.append({"message": message, "finish_reason": KEY, "name": KEY})
        self.send(200, self.answer(choices=choices, model=KEY, id=KEY, system_fingerprint=KEY))


@pytest.fixture
def echo() -> Iterator[FaultyServer]:
    server = FaultyServer()
    server.RequestHandlerClass = EchoHandler
    EchoHandler.numbers = count()
    with running(server):
        yield server


def spellings() -> list[bytes]:
    """The key as it is, in JSON, in JSON within JSON, in HTML, and a half of it."""
    once = json.dumps(KEY)[1:-1]
    twice = json.dumps(once)[1:-1]
    html = KEY.replace('"', "&#34;")
    return [text.encode() for text in (KEY, once, twice, html, KEY[:9])]


@pytest.mark.skipif(not isolation_level().enough, reason="no sandbox is to be had here")
def test_a_key_that_is_echoed_is_in_no_file_of_a_run(
    echo: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    make_data(tmp_path)
    changes = {"seeds": (1, 1, 1), "siblings": 6, "iterations": 1, "worlds": "static"}
    config = tiny_config(arm="full", llm=f"{echo.url}#m", scan=False, **changes)
    (tmp_path / "tiny.yaml").write_text(dump_yaml(config))
    out, said = tmp_path / "run", io.StringIO()
    words = ["run", "--config", str(tmp_path / "tiny.yaml"), "--out", str(out), "--workers", "1"]
    with redirect_stdout(said), redirect_stderr(said):
        assert main(words) == 0
        assert main(["show", str(out)]) == main(["report", str(out)]) == 0
        with Archive.open(out / "archive.sqlite", read_only=True) as archive:
            designs = [one for one in archive.candidates() if one.operator != NAIVE]
        for design in designs:
            assert main(["show", str(out), design.id]) == 0
    assert set(echo.books.keys) == {f"Bearer {KEY}"} and len(echo.books.keys) >= 2
    assert len(designs) >= 5 and any(not design.reason for design in designs[1:])
    files = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    assert {"archive.sqlite", "results.json", "report.html"} <= {file.name for file in files}
    assert any(b"***" in content for content in files.values())
    for spelling in spellings():
        assert [file for file, content in files.items() if spelling in content] == []
        assert spelling.decode() not in said.getvalue()


class SilentDesigner:
    """A model that is not asked."""

    name = "m"

    def propose(self, request: Request, n: int) -> list[Proposal]:
        return []


class NoValidator:
    """Lets everything pass and keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        self.seen.append(code)
        return ValidationResult(True, "", behaviour=[])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "mark",
    ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "<think>a</think>", "<think></thinking>"],
)
def test_a_key_in_pieces_is_not_put_together_again(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    validator = NoValidator()
    generator = DesignGenerator(SilentDesigner(), validator, mode="free")
    text = f"<think></think>```python\n# {split(mark)}\n{REWARD.format(1)}```"
    attempt = generator.judged("reward", Proposal(text, 1))
    assert attempt.source and KEY not in attempt.source and "***" in validator.seen[0]
    broken = generator.judged("reward", Proposal(text.replace("return", "return return"), 1))
    assert broken.source is None and KEY not in "".join(broken.faults)


def test_a_key_in_two_blocks_is_not_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    source = "# one\n" + REWARD.format(1)
    one = EDIT.format("# one\n", f"# {KEY[:9]}<->\n{KEY[9:]}\n")
    two = EDIT.format("<->\n", "")
    generator = DesignGenerator(SilentDesigner(), NoValidator(), mode="free")
    read = BlockEdits(source, "reward").read
    assert KEY in (read(one + two).source or "")
    attempt = generator.judged("reward", Proposal(one + two, 1), read=read)
    assert attempt.source and KEY not in attempt.source


def test_a_key_is_found_in_json_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert json.loads(scrub(json.dumps({"a": [KEY, 1]}))) == {"a": ["***", 1]}
