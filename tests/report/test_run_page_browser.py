"""The run's page in a real browser: clicks and the slider work, nothing complains, nothing is asked of the network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import run_fixture
from run_fixture import BEST, HOSTILE, make_run

from se_rl.modules.default_sources import source_of_default
from se_rl.records.settings import preset
from se_rl.report.run_page import run_page

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"
)
LAUNCH = (  # the browser listens on descriptor 3 and answers on 4
    "import fcntl, os, sys\n"
    "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]\n"
    "os.dup2(ends[0], 3), os.dup2(ends[1], 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])"
)
NEWS = (
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
    "Network.requestWillBeSent",
)


class Browser:
    """A headless Chromium with one tab, spoken to over a pipe; `heard` holds complaints and requests."""

    def __init__(self, profile: Path) -> None:
        theirs, ours = os.pipe(), os.pipe()
        command = [
            sys.executable,
            "-c",
            LAUNCH,
            str(theirs[0]),
            str(ours[1]),
            CHROMIUM,
            *FLAGS.split(),
        ]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs[0], ours[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs[0])
        os.close(ours[1])
        self.write, self.read = (
            os.fdopen(theirs[1], "wb", buffering=0),
            os.fdopen(ours[0], "rb", buffering=0),
        )
        self.heard, self.rest, self.count, self.session = list[dict[str, Any]](), b"", 0, ""

    def __enter__(self) -> Self:
        tab = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=tab["targetId"], flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self.write.close()
        self.process.terminate()
        self.process.wait(20)
        self.read.close()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        self.write.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def wait(self, event: str) -> None:
        """Read on until the browser tells of this event."""
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = self.read.read(1 << 16)
            assert more, "the browser has gone"
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if message.get("method") in NEWS:
            self.heard.append(message)
        return message

    def open(self, url: str, *, width: int) -> None:
        """Load a page in a window of this width."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Page.navigate", url=url)
        self.wait("Page.loadEventFired")
        self.js("typeof drawn === 'undefined' ? 0 : drawn.then(() => 0)")  # charts come last

    def asked(self) -> set[str]:
        """The addresses that were asked for; what a page draws from its own data is none."""
        requests = [m["params"]["request"]["url"] for m in self.heard if m["method"] == NEWS[-1]]
        return {url for url in requests if not url.startswith("data:")}

    def js(self, expression: str) -> Any:
        """The value of an expression on the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Press and release the mouse."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    folder = make_run(tmp_path_factory.mktemp("run"))
    page = folder / "report.html"
    page.write_text(run_page(folder), encoding="utf-8")
    with Browser(tmp_path_factory.mktemp("profile")) as tab:
        tab.open(page.as_uri(), width=1300)
        yield tab


def test_the_best_design_is_shown_first_and_its_text_stays_text(browser: Browser) -> None:
    text = browser.js("panel.innerText")
    assert HOSTILE in text and "over the default" in text
    assert browser.js("document.querySelectorAll('img').length") == 0


def test_a_click_on_a_mark_shows_that_design(browser: Browser) -> None:
    traces = "[...document.querySelectorAll('.clickable .trace')]"
    browser.js(
        f"var mark = {traces}.find(t => t.__data__[0].trace.name === 'not valid').querySelector('.point'); 0"
    )
    browser.js("mark.scrollIntoView({block: 'center'})")
    box = browser.js("mark.getBoundingClientRect().toJSON()")
    before = browser.js("panel.querySelector('h3').textContent")
    browser.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    text = browser.js("panel.innerText")
    assert browser.js("panel.querySelector('h3').textContent") != before
    assert "not valid" in text and "wanted [B] <b>" in text


def test_a_parent_in_the_panel_leads_to_it(browser: Browser) -> None:
    browser.js(f"show({BEST})")
    parent = browser.js("panel.querySelector('.link').textContent")
    browser.js("panel.querySelector('.link').click()")
    assert browser.js("panel.querySelector('h3').textContent") == f"Design {parent}"


def test_filters_act_on_the_tables_and_the_tree(browser: Browser) -> None:
    rows = "[...document.querySelectorAll('#edits tr[data-row]')].filter(row => !row.hidden).length"
    assert browser.js(rows) == 36 and browser.js("tree.querySelectorAll('li').length") == 37
    browser.js("filters[0].value = 'reward'; filters[0].dispatchEvent(new Event('input'))")
    assert browser.js(rows) == 12 and browser.js("shown.textContent") == "12 of 37 designs"
    assert browser.js("tree.querySelectorAll('.aside').length") > 0  # ancestors of other modules
    browser.js("search.value = 'no such text'; search.dispatchEvent(new Event('input'))")
    assert browser.js(rows) == 0 and "no design" in browser.js("tree.innerText")
    browser.js("document.getElementById('reset').click()")
    assert browser.js(rows) == 36 and browser.js("shown.textContent") == "37 of 37 designs"


def test_any_two_designs_are_compared(browser: Browser) -> None:
    text = browser.js("diff.innerText")
    assert HOSTILE in text  # as text
    browser.js("right.value = left.value; right.dispatchEvent(new Event('change'))")
    assert "same design twice" in browser.js("diff.innerText")
    browser.js("left.value = 0; left.dispatchEvent(new Event('change'))")
    before = browser.js("diff.querySelector('h3').innerText")
    assert "the default's |" in before or "none |" in before
    browser.js("document.getElementById('swap').click()")
    assert (
        browser.js("right.value") == "0"
        and browser.js("diff.querySelector('h3').innerText") != before
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a\nb\nc", "a\nx\nc"),
        ("", "a"),
        ("a\nb", ""),
        ("a\na\nb", "b\na\na"),
        ("x\n" * 900, "y\n" * 900),
    ],
)
def test_a_diff_holds_both_texts(browser: Browser, left: str, right: str) -> None:
    texts = f"{json.dumps(left)}, {json.dumps(right)}"
    rows = browser.js(f"sideBySide({texts})")
    assert [old for old, _ in rows if old is not None] == left.split("\n")
    assert [new for _, new in rows if new is not None] == right.split("\n")


def test_an_edit_shows_the_lines_that_it_changed(browser: Browser) -> None:
    places = "[...document.querySelectorAll('[data-change]')].map(place => place.innerText)"
    assert all(browser.js(places))
    assert any("haste =" in text for text in browser.js(places))


def test_the_slider_moves_through_the_minutes(browser: Browser) -> None:
    assert "59" in browser.js("now.innerText")
    browser.js("slider.value = 10; slider.dispatchEvent(new Event('input'))")
    told = dict(
        browser.js(
            "[...now.children].map(c => [c.firstChild.textContent, c.lastChild.textContent])"
        )
    )
    assert told["minute"] == "10" and told["TWAP holds"] == "81.7 %"
    assert browser.js("replays[0].querySelector('.chart').data[3].x.length") == 11
    browser.js("which.value = 1; which.dispatchEvent(new Event('change'))")
    assert browser.js("replays.map(r => r.hidden)") == [True, False] and "59" in browser.js(
        "now.innerText"
    )


def test_play_runs_to_the_end_and_stops(browser: Browser) -> None:
    browser.js("slider.value = slider.max - 2; play.click()")
    assert browser.js("play.getAttribute('aria-pressed')") == "true"
    browser.js(
        "new Promise(done => { const poll = setInterval(() => { if (slider.value === slider.max) "
        "{ clearInterval(poll); setTimeout(done, 100); } }, 20); })"
    )
    assert browser.js("[slider.value === slider.max, play.getAttribute('aria-pressed')]") == [
        True,
        "false",
    ]


def test_the_simulated_order_is_replayed(browser: Browser) -> None:
    assert browser.js("[step.value, step.max]") == ["3", "3"]
    told = "Object.fromEntries([...stepNow.children].map(c => [c.firstChild.textContent, c.lastChild.textContent]))"
    assert browser.js(told)["own impact"] == "3.0 bps"
    browser.js("step.value = 1; step.dispatchEvent(new Event('input'))")
    now = browser.js(told)
    assert now["traded now"] == "100.0 %" and now["mid"] == "−1.0 bps" and now["left"] == "0.0 %"
    sizes = (
        "[...document.querySelectorAll('#simulated .chart')].map(chart => chart.data[0].x.length)"
    )
    assert browser.js(sizes) == [2, 2]
    browser.js("stepPlay.click()")
    browser.js("new Promise(done => setTimeout(done, 600))")
    assert browser.js("step.value") == "3" and browser.js(sizes) == [4, 4]
    assert browser.js("stepPlay.getAttribute('aria-pressed')") == "false"


def test_a_dark_desktop_gets_a_dark_page(browser: Browser) -> None:
    light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    chart = (
        "getComputedStyle(document.querySelector('.chart text')).fill.match(/\\d+/g).map(Number)"
    )
    seen = {}
    for scheme in ("light", "dark"):
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.ask("Emulation.setEmulatedMedia", features=media)
        browser.open(browser.js("location.href"), width=1300)
        seen[scheme] = max(browser.js(light)), max(browser.js(chart)[:3])
    browser.ask("Emulation.setEmulatedMedia", features=[])
    assert seen["light"][0] > 200 > 100 > seen["dark"][0]
    assert seen["light"][1] < 150 < seen["dark"][1], "letters stand out from what is behind them"


def test_a_phone_is_not_scrolled_sideways(browser: Browser) -> None:
    browser.open(browser.js("location.href"), width=390)
    assert browser.js("document.documentElement.scrollWidth") <= 390


def test_the_page_of_a_standard_run_is_small_and_painted_at_once(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many designs as `standard` proposes, each with a module as long as three of the default."""
    text = "\n".join(source_of_default(name) for name in ("Network", "reward", "imagine"))
    monkeypatch.setattr(run_fixture, "reward_source", lambda number: f"# {number}\n{text}")
    assert preset("standard").budget_designs <= run_fixture.ROUNDS * run_fixture.PER_ROUND
    page = make_run(tmp_path) / "report.html"
    page.write_text(run_page(tmp_path), encoding="utf-8")
    orders = 200_000  # bytes that replays and order tables of a real run have more
    assert page.stat().st_size + orders <= 3_000_000
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    here = browser.js("location.href")
    taken = []
    for _ in range(3):  # a busy machine is not the page's fault
        browser.open(page.as_uri(), width=1300)
        taken.append(browser.js(paint))
    browser.open(here, width=1300)
    browser.heard = [m for m in browser.heard if page.as_uri() not in json.dumps(m)]
    assert min(taken) <= 2_000.0, taken


def test_nothing_complained_and_nothing_was_asked_of_the_network(browser: Browser) -> None:
    assert browser.asked() == {browser.js("location.href")}  # the page itself and nothing else
    assert [m for m in browser.heard if m["method"] != NEWS[-1]] == []
