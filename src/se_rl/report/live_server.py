"""`se-rl serve`: a run's page while the run goes on, for the browsers of this machine.

The server listens on the loopback address alone, answers two addresses (the page and its state),
reads and never writes. A request that names another host is refused: that is how a page of a
stranger would reach a server behind its visitor's back.
"""

from __future__ import annotations

import errno
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from se_rl.config import ConfigError
from se_rl.records.archive import Archive
from se_rl.records.files import to_json
from se_rl.records.postgres import is_url
from se_rl.records.run_folder import RunFolder
from se_rl.report.run_page import run_page
from se_rl.report.story import Story
from se_rl.sandbox.calls import printable

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
"""What this machine may be called by those who ask."""
HTML, JSON = "text/html; charset=utf-8", "application/json"
PATIENCE_SECONDS = 10.0
"""How long a browser may take to say what it wants."""


class RunWatch:
    """What the folder of a run says now; read anew only where its files changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        self._lock = threading.Lock()
        self._story = Story()
        self._seen = 0
        self._line = "waiting for the first news"
        self._told = ""
        self._page = ("", "")  # version, text

    @property
    def version(self) -> str:
        """A text that changes whenever the run has written something."""
        marks = []
        if is_url(self.folder.archive):
            with Archive.open(self.folder.archive, read_only=True) as archive:
                marks.append(str(archive.latest()))
        own = self.folder.database
        for path in (own, own.with_name(f"{own.name}-wal"), self.folder.results):
            if path.exists():
                found = path.stat()
                marks.append(f"{found.st_mtime_ns:x}.{found.st_size:x}")
        return "-".join(marks)

    def page(self) -> str:
        """The page as of now."""
        with self._lock:
            version = self.version
            if self._page[0] != version:
                self._page = (version, run_page(self.folder.path, live=version))
            return self._page[1]

    def state(self) -> str:
        """The version and the latest news in one line, as JSON."""
        with self._lock:
            version = self.version
            if self._told != version:
                self._read_news()
                self._told = version
            ended = self.folder.results.exists()
            return to_json({"version": version, "line": self._line, "ended": ended})

    def _read_news(self) -> None:
        with Archive.open(self.folder.archive, read_only=True) as archive:
            events = archive.events(since=self._seen)
        for event in events:
            self._seen = max(self._seen, event.seq)
            for line in self._story.take(event.kind, event.payload):
                self._line = printable(line, 300)


class _Handler(BaseHTTPRequestHandler):
    """Two addresses, for this machine only."""

    timeout = PATIENCE_SECONDS
    server: PageServer

    def do_GET(self) -> None:
        """The page, or its state."""
        if not self._is_for_us():
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "this server answers its own machine")
            return
        path = self.path.partition("?")[0]
        if path not in ("/", "/state"):
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is / and /state")
            return
        watch = self.server.watch
        try:
            text = watch.page() if path == "/" else watch.state()
        except (OSError, RuntimeError, ValueError) as error:  # the run may be writing just now
            told = f"the run cannot be read now: {printable(error)}; try again"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", told)
            return
        self._answer(HTTPStatus.OK, HTML if path == "/" else JSON, text)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are no news."""

    def _is_for_us(self) -> bool:
        port = self.server.server_address[1]
        return self.headers.get("Host", "") in [f"{name}:{port}" for name in NAMES]

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(content)


class PageServer(ThreadingHTTPServer):
    """Serves one run on this machine until it is closed; port 0 takes any that is free."""

    daemon_threads = True

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        self.watch = RunWatch(folder)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "is taken" if taken else f"cannot be used ({error})"
            raise ConfigError(f"port {port} {why}; give another by --port, or 0 for any") from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/"
