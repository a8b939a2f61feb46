"""Files of strangers that are no files: pipes, sockets, devices, links and endless ones, in every place.

For each plant, every command that reads the place ends in figures or in one line, quickly, and leaves
what lies outside of the folder alone.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from report.run_fixture import make_run
from se_rl.config import ConfigError, dump_yaml
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.run_folder import RunFolder
from se_rl.records.settings import preset

SLOWEST_SECONDS = 30.0
SMALL_ADDRESS = 100
"""Letters that the path of a socket may have."""


def a_socket(path: Path) -> None:
    if len(str(path)) > SMALL_ADDRESS:
        pytest.skip(f"a socket's path is too long here: {path}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def an_endless_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def a_chain(path: Path) -> None:
    """Fifty links, one to the next, and the last one to the first."""
    for number in range(50):
        path.with_name(f"{path.name}{number}").symlink_to(f"{path.name}{(number + 1) % 50}")
    path.symlink_to(f"{path.name}0")


PLANTS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": a_socket,
    "a folder": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to a secret": lambda path: path.symlink_to("/etc/passwd"),
    "a link to a folder": lambda path: path.symlink_to("/proc/self"),
    "a link to nothing": lambda path: path.symlink_to("gone"),
    "a chain of links": a_chain,
    "an endless file": an_endless_file,
    "an empty file": Path.touch,
    "a file of zeros": lambda path: path.write_bytes(bytes(1 << 20)),
    "a memory of this process": lambda path: path.symlink_to("/proc/self/mem"),
}
PLACES: dict[str, list[list[str]]] = {
    "archive.sqlite": [["show", "RUN"], ["report", "RUN", "--out", "PAGE"], ["replay", "RUN", "all"]],
    "archive.sqlite-wal": [["show", "RUN"]],
    "archive.sqlite-journal": [["show", "RUN"]],
    "results.json": [["compare", "RUN"], ["show", "RUN"], ["report", "RUN", "--out", "PAGE"]],
    "config.yaml": [["replay", "RUN", "all"], ["score", "RUN", "--reward", "MINE"]],
    "best.policy": [["evaluate", "RUN", "--data", "nasdaq100"]],
    "blobs": [["show", "RUN", "DESIGN"], ["report", "RUN", "--out", "PAGE"]],
    "run.lock": [["score", "RUN", "--reward", "MINE"]],
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("m"), rounds=3)
    (folder / "config.yaml").write_text(dump_yaml(preset("tiny")))
    return folder


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_no_file_is_one_line(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], plant: str, place: str
) -> None:
    run = Path(shutil.copytree(made, tmp_path / "r"))
    with Archive.open(run / "archive.sqlite", read_only=True) as archive:
        design = archive.candidates()[-1].id
    target = run / place
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    PLANTS[plant](target)
    (tmp_path / "mine.py").write_text("import os\n")
    stands = {"RUN": run, "PAGE": tmp_path / "page.html", "MINE": tmp_path / "mine.py"}
    for words in PLACES[place]:
        started = time.monotonic()
        code = main([str(stands.get(word, design if word == "DESIGN" else word)) for word in words])
        said = capsys.readouterr()
        assert time.monotonic() - started < SLOWEST_SECONDS
        last = said.err.rstrip("\n").split("\n")[-1]
        assert code == 0 or (last.startswith("se-rl: ") and last.isprintable()), said.err
        assert "root:" not in said.out + said.err and "Traceback" not in said.err
        if (tmp_path / "page.html").exists():
            assert "root:x:" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", ["bars.csv", "bars.parquet", "A_2020-01-02_message.csv"])
@pytest.mark.parametrize("plant", PLANTS)
def test_data_that_is_no_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plant: str, name: str
) -> None:
    """A stranger's settings may name any path."""
    if plant == "an endless file":
        pytest.skip("data may be as long as memory lets it be")
    PLANTS[plant](tmp_path / name)
    assert main(["baselines", "--data", str(tmp_path / name)]) in (1, 2)
    line = capsys.readouterr().err.rstrip("\n").split("\n")[-1]
    assert line.startswith("se-rl: ") and "daemon" not in line


@pytest.mark.parametrize("plant", PLANTS)
def test_a_run_does_not_begin_in_a_folder_of_strange_files(tmp_path: Path, plant: str) -> None:
    """The lock's place, which is written to before anything is read."""
    before = Path("/etc/passwd").read_bytes()
    PLANTS[plant](tmp_path / "run.lock")
    if plant in ("an empty file", "a file of zeros", "an endless file"):
        with RunFolder(tmp_path) as folder:
            assert folder.lock.is_file()
    else:
        with pytest.raises(ConfigError, match="cannot hold a run"):
            RunFolder(tmp_path).open()
    assert Path("/etc/passwd").read_bytes() == before


READ_ONLY = """
import sys
from se_rl.main import main
sys.exit(main(sys.argv[1:]))
"""


def on_a_read_only_disk(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a namespace of its own where the folder cannot be written to."""
    mounts = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    inside = f'{mounts} && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", inside, "sh", sys.executable, "-c", READ_ONLY, *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120)
    except OSError as error:
        pytest.skip(f"no namespace is to be had here: {error}")


def test_reading_needs_no_writing(made: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(made, tmp_path / "r"))
    page = tmp_path / "page.html"
    said = on_a_read_only_disk(run, "show", str(run))
    if "unshare" in said.stderr or "mount" in said.stderr:
        pytest.skip(f"no namespace is to be had here: {said.stderr}")
    assert said.returncode == 0 and "best:" in said.stdout, said.stderr
    said = on_a_read_only_disk(run, "report", str(run), "--out", str(page))
    assert said.returncode == 0 and page.stat().st_size > 10_000, said.stderr
    for words, line in {
        ("report", str(run)): "cannot be written: Read-only file system",
        ("score", str(run), "--reward", str(page)): "cannot hold a run: Read-only file system",
    }.items():
        said = on_a_read_only_disk(run, *words)
        assert said.returncode in (1, 2) and line in said.stderr and "Traceback" not in said.stderr
