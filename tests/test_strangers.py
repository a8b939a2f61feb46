"""Run folders that somebody else made: one line or the right figures, never a traceback, a hang or a write."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from report.run_fixture import make_run
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.entries import key_of

SECRET = "sk-proj-0123456789abcdefABCDEF"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), rounds=1, ended=False)


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that a command ends with."""
    assert main([str(word) for word in words]) in (1, 2)
    line = capsys.readouterr().err.rstrip("\n").split("\n")[-1]
    assert line.startswith("se-rl: ") and line.isprintable()
    return line


def rewrite(folder: Path, kind: str, **changes: object) -> None:
    """Change the payload of the first event of a kind as a forger would, digest included."""
    with closing(sqlite3.connect(folder / "archive.sqlite")) as raw:
        raw.execute("DROP TRIGGER IF EXISTS event_refuses_update")
        statement = "SELECT seq, at, key, payload FROM event WHERE kind = ? ORDER BY seq DESC"
        seq, at, key, payload = raw.execute(statement, (kind,)).fetchone()
        text = json.dumps(json.loads(payload) | changes)
        raw.execute(
            "UPDATE event SET payload = ?, digest = ? WHERE seq = ?",
            (text, key_of(at, kind, key, text), seq),
        )
        raw.commit()


def last_id(folder: Path) -> str:
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        return archive.candidates()[-1].id


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(file.relative_to(folder)): (file.stat().st_size, file.stat().st_mtime_ns)
        for file in folder.rglob("*")
    }


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../etc/passwd", "0" * 63, "A" * 64, ""])
def test_a_blob_name_that_is_a_path_is_neither_opened_nor_named(
    run: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rewrite(run, "proposed", modules={"reward": name})
    line = refused(capsys, "show", run, last_id(run))
    assert "no SHA-256" in line and "passwd" not in line and "delete" not in line


def test_a_pipe_a_link_and_a_device_in_place_of_a_blob_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive.open(run / "archive.sqlite", read_only=True) as archive:
        candidate = archive.candidates()[-1]
    sha = next(iter(candidate.modules.values()))
    file = run / "blobs" / sha[:2] / sha[2:]
    whole = file.read_bytes()
    for plant in (
        lambda: os.mkfifo(file),
        lambda: file.symlink_to("/dev/zero"),
        lambda: file.symlink_to("/etc/passwd"),
        lambda: file.mkdir(),
    ):
        file.unlink()
        plant()
        assert "blob" in refused(capsys, "show", run, candidate.id)
        assert main(["report", str(run), "--out", str(run.parent / "page.html")]) == 0
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
        file.write_bytes(whole)


@pytest.mark.parametrize("name", ["archive.sqlite", "results.json", "config.yaml"])
def test_a_pipe_in_place_of_a_file_does_not_hang(
    run: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    verbs = {"archive.sqlite": ["show"], "results.json": ["compare"], "config.yaml": ["replay"]}
    refused(capsys, *verbs[name], run, *(["all"] if name == "config.yaml" else []))


def test_reading_leaves_the_folder_as_it_was(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(run)
    page = run.parent / "page.html"
    assert main(["show", str(run)]) == main(["report", str(run), "--out", str(page)]) == 0
    assert listing(run) == before and page.stat().st_size > 10_000


def test_a_leftover_log_is_read_from_a_copy(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after a crash, copied without the file of shared memory."""
    with Archive.open(run / "archive.sqlite") as archive:
        archive.append("iteration", "late", {"iteration": 9, "text": "in the log alone"})
        copied = run.parent / "copied"
        shutil.copytree(run, copied, ignore=shutil.ignore_patterns("*-shm"))
    assert (copied / "archive.sqlite-wal").stat().st_size
    before = listing(copied)
    assert main(["show", str(copied)]) == 0
    assert "in the log alone" in capsys.readouterr().out and listing(copied) == before


def test_a_page_that_cannot_be_written_says_where_else(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report.html").mkdir()
    assert "--out PAGE" in refused(capsys, "report", run)


def test_a_view_in_place_of_a_table_never_runs(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    with closing(sqlite3.connect(run / "archive.sqlite")) as raw:
        raw.executescript(f"DROP TABLE test_use; CREATE VIEW test_use AS {endless};")
    assert "test_use is a view" in refused(capsys, "show", run)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("proposed", {"parents": 3}),
        ("proposed", {"operator": ["x"]}),
        ("proposed", {"surprise": 1}),
        ("evaluated", {"work": "much"}),
        ("evaluated", {"scores": [1]}),
        ("standing", {"ci95": [1]}),
        ("standing", {"score": 10**400}),
        ("model_call", {"usd": None, "tokens_in": "x"}),
        ("iteration", {"iteration": {"a": []}}),
        ("run_started", {"data": {"symbols": "x"}}),
        ("run_started", {"config": [1]}),
    ],
)
def test_a_record_of_the_wrong_type_is_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], kind: str, changes: dict[str, object]
) -> None:
    rewrite(run, kind, **changes)
    for words in (["show", run], ["report", run, "--out", run.parent / "page.html"]):
        if main([str(word) for word in words]):
            line = capsys.readouterr().err.rstrip("\n")
            assert line.startswith("se-rl: ") and line.isprintable()


def test_control_characters_do_not_reach_the_terminal(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite(run, "iteration", text="\x1b]0;owned\x07\x1b[2J\u202egood \ud800")
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(out) and "good" in out
    page = run.parent / "page.html"
    assert main(["report", str(run), "--out", str(page)]) == 0
    assert "good" in page.read_text()


def test_deep_and_endless_texts_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "results.json").write_text("[" * 100_000)
    assert "damaged" in refused(capsys, "compare", run)
    (run / "results.json").write_bytes(b"")
    os.truncate(run / "results.json", 1 << 34)
    assert "longer than" in refused(capsys, "compare", run)
    for bomb in (
        "a: &a [1]\nb: *a\n",
        "[" * 5000,
        "seed: !!bool maybe\n",
        "seed: !!int ''\n",
        "\0",
    ):
        (run / "config.yaml").write_text(bomb)
        assert "config.yaml" in refused(capsys, "replay", run, "all")


def test_a_lock_that_is_a_link_is_not_written_through(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from se_rl.config import ConfigError
    from se_rl.records.run_folder import RunFolder

    kept = run.parent / "kept"
    kept.write_text("mine")
    (run / "run.lock").symlink_to(kept)
    with pytest.raises(ConfigError, match="cannot hold a run"):
        RunFolder(run).open()
    assert kept.read_text() == "mine"


def test_a_key_in_an_address_is_refused_before_it_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for address in (
        f"https://host/v1?key={SECRET}#m",
        f"https://{SECRET}@host/v1#m",
        f"https://host/{SECRET}/v1#m",
        f"https://host/v1#{SECRET}",
        f"https://host:{SECRET}/v1#m",
    ):
        line = refused(capsys, "run", "--llm", address, "--out", tmp_path / "out")
        assert SECRET not in line and "OPENAI_API_KEY" in line
    assert not (tmp_path / "out").exists()


def test_no_key_is_stored_in_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "a secret of mine, 123")
    with Archive.open(tmp_path / "archive.sqlite") as archive:
        said = f"echo {SECRET}, a secret of mine, 123, Bearer abcdef0123456789abcdef"
        archive.append("failed", "failed", {"reason": said})
        assert archive.find("failed") == {"reason": "echo ***, ***, ***"}
        plain = {"reason": "risk-adjusted-implementation-shortfall, sk-learn-like-long-words-here"}
        archive.append("plain", "plain", plain)
        assert archive.find("plain") == plain
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()
