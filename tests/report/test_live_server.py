"""A run's page over HTTP: what it answers, whom it refuses, and how it follows the run."""

from __future__ import annotations

import http.client
import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_fixture import HOSTILE, make_run
from test_run_page_browser import CHROMIUM, NEWS, Browser

from se_rl.config import ConfigError
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.report.live_server import LOOPBACK, PageServer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = make_run(tmp_path_factory.mktemp("served"), ended=False, rounds=1)
    with PageServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def ask(
    server: PageServer, path: str, *, host: str = "", method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    port = server.server_address[1]
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    try:
        connection.request(method, path, headers={"Host": host or f"{LOOPBACK}:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_the_page_and_its_state_are_served(served: PageServer) -> None:
    status, page, headers = ask(served, "/")
    assert status == 200 and "Iteration 1 of 3" in page and "connect-src &#39;self&#39;" in page
    assert headers["X-Frame-Options"] == "DENY" and headers["Cache-Control"] == "no-store"
    status, text, _ = ask(served, "/state")
    state = json.loads(text)
    assert status == 200 and state["version"] in page and not state["ended"]
    assert state["line"].startswith("iteration 1 of 3")


def test_it_listens_on_this_machine_alone(served: PageServer) -> None:
    assert served.server_address[0] == LOOPBACK and served.url.startswith(f"http://{LOOPBACK}:")
    port = served.server_address[1]
    assert ask(served, "/", host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", LOOPBACK, f"{LOOPBACK}:{port}.evil", "x"):
        assert ask(served, "/", host=host)[0] == 403
        assert ask(served, "/state", host=host)[0] == 403


@pytest.mark.parametrize("path", ["/results.json", "/../archive.sqlite", "//etc/passwd", "/state/"])
def test_there_is_nothing_else(served: PageServer, path: str) -> None:
    assert ask(served, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(served: PageServer, method: str) -> None:
    assert ask(served, "/", method=method)[0] == 501


def test_a_port_that_is_taken_is_one_line(served: PageServer) -> None:
    with pytest.raises(ConfigError, match="is taken; give another by --port"):
        PageServer(served.watch.folder.path, port=served.server_address[1])
    with pytest.raises(ConfigError, match="give another by --port"):
        PageServer(served.watch.folder.path, port=70_000)


def test_the_page_follows_the_run(served: PageServer, tmp_path: Path) -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    with Browser(tmp_path / "profile") as tab:
        tab.open(served.url, width=1300)
        tab.js("window.first = true; show(3)")
        chosen = tab.js("panel.dataset.shown")
        with Archive.open(served.watch.folder.archive) as archive:
            news = {"iteration": 2, "of": 3, "best": "", "text": f"It went on. {HOSTILE}"}
            archive.append("iteration", "iteration 2", news)
        tab.wait("Page.loadEventFired")  # it loads itself anew
        tab.js("drawn.then(() => 0)")
        assert tab.js("window.first === undefined") and tab.js("panel.dataset.shown") == chosen
        tab.js(
            "new Promise(done => { const poll = setInterval(() => { if (live.textContent !== 'live') "
            "{ clearInterval(poll); done(); } }, 50); })"
        )
        assert "It went on." in tab.js("live.textContent") and HOSTILE in tab.js("live.textContent")
        assert tab.asked() == {served.url, f"{served.url}state"}
        assert [m for m in tab.heard if m["method"] != NEWS[-1]] == []


def test_the_command_serves_until_it_is_interrupted(served: PageServer) -> None:
    place = str(served.watch.folder.path)
    command = [sys.executable, "-m", "se_rl.main", "serve", place, "--port", "0", "--json"]
    ignoring = f"trap '' INT; exec {shlex.join(command)}"  # as a shell does in the background
    with subprocess.Popen(["sh", "-c", ignoring], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(3)]
        url = json.loads("".join(lines))["url"]
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=60)
        connection.request("GET", "/state")
        assert connection.getresponse().status == 200
        connection.close()
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0


def test_a_folder_without_a_run_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
