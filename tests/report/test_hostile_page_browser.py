"""A stranger's archive in a real browser: script in its texts and names stays text."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from run_fixture import make_run
from test_run_page_browser import CHROMIUM, Browser

from se_rl.records.entries import key_of
from se_rl.report.run_page import run_page

SCRIPTS = (
    "</script><script>window.taken=1</script>",
    "\"'><img src=x onerror=window.taken=1><svg onload=window.taken=1>",
    "<a href='javascript:window.taken=1'>go</a>${window.taken=1}{{window.taken=1}}",
    "</title></style><!--<script>window.taken=1//-->]]>",
)
NAMED = ("llm", "version", "operator", "data", "name", "arm", "text", "reason", "summary", "model")
"""Fields whose text is nobody's key."""


def in_texts(value: Any, change: Callable[[str], str], field: str = "") -> Any:
    """The same with free text changed: what has a blank, or stands in a field of its own words."""
    if isinstance(value, dict):
        return {name: in_texts(part, change, name) for name, part in value.items()}
    if isinstance(value, list):
        return [in_texts(part, change, field) for part in value]
    if isinstance(value, str) and (" " in value or field in NAMED):
        return change(value)
    return value


def poison(folder: Path, script: str) -> int:
    """Put the script into every free text of the archive and the results; how many there were."""
    count = 0

    def change(text: str) -> str:
        nonlocal count
        count += 1
        return text + script

    with closing(sqlite3.connect(folder / "archive.sqlite")) as raw:
        raw.execute("DROP TRIGGER event_refuses_update")
        for seq, at, kind, key, payload in raw.execute(
            "SELECT seq, at, kind, key, payload FROM event"
        ).fetchall():
            text = json.dumps(in_texts(json.loads(payload), change))
            sound = key_of(at, kind, key, text)
            raw.execute(
                "UPDATE event SET payload = ?, digest = ? WHERE seq = ?", (text, sound, seq)
            )
        raw.commit()
    results = folder / "results.json"
    results.write_text(json.dumps(in_texts(json.loads(results.read_text()), change)))
    return count


@pytest.mark.parametrize("script", SCRIPTS)
def test_no_text_of_a_stranger_is_run(tmp_path: Path, script: str) -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    folder = make_run(tmp_path)
    assert poison(folder, script) > 100
    page = tmp_path / "report.html"
    page.write_text(run_page(folder), encoding="utf-8")
    assert len(re.findall("window.taken", page.read_text())) > 5, "the texts are on the page"
    with Browser(tmp_path / "profile") as tab:
        tab.open(page.as_uri(), width=1300)
        designs = tab.js("typeof designs === 'undefined' ? 12 : designs.length")
        for number in range(min(int(designs), 12)):
            tab.js(f"try {{ show({number}) }} catch (error) {{ }}; 0")
        tab.js("new Promise(done => setTimeout(done, 300))")
        assert tab.js("window.taken === undefined")
        assert tab.js("document.querySelectorAll('img, svg[onload]').length") == 0
        assert tab.asked() == {page.as_uri()}


@pytest.mark.parametrize("script", SCRIPTS[:2])
def test_the_same_text_would_run_if_a_page_took_it_as_it_is(tmp_path: Path, script: str) -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    page = tmp_path / "bare.html"
    page.write_text(f'<p title="{script}">{script}</p>', encoding="utf-8")
    with Browser(tmp_path / "profile") as tab:
        tab.open(page.as_uri(), width=1300)
        tab.js("new Promise(done => setTimeout(done, 300))")
        assert tab.js("window.taken === 1")
