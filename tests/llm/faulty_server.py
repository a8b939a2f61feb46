"""A local server that speaks the chat protocol and fails on request, and keeps its own books.

The prompt says how: "reset 2 #17" is reset twice and then answered. Tests compare its books with the client's.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TRANSIENT = (
    "rate_limit",
    "error_500",
    "error_502",
    "error_503",
    "silent",
    "stalled",
    "reset",
    "garbage",
    "half_json",
    "huge",
    "no_choices",
    "null_content",
)
"""The twelve faults that may pass when asked again."""
HUGE_BYTES = 10_000_000


class Books:
    """What the server itself saw and sent: requests by mode, tokens it reported, answers it sent without a report."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.prompts: Counter[str] = Counter()
        self.tokens_in = self.tokens_out = self.unreported = 0
        self.seeds: list[int] = []
        self.keys: list[str | None] = []
        self.bodies: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    """One request: read the mode out of the prompt, book it, misbehave."""

    server: FaultyServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompt = self.request_body["messages"][-1]["content"]
        mode, fails, *_ = self.prompt.split()
        books = self.server.books
        with books.lock:
            books.prompts[self.prompt] += 1
            mode = mode if books.prompts[self.prompt] <= int(fails) else "good"
            books.requests[mode] += 1
            books.seeds.append(self.request_body["seed"])
            books.keys.append(self.headers["Authorization"])
            books.bodies.append(self.request_body)
        getattr(self, mode)()

    # what the answers are made of

    def send(self, status: int, body: bytes, *, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def answer(self, **changes: Any) -> bytes:
        """A whole answer; its usage is booked as reported."""
        n = self.request_body.get("n", 1) if self.server.gives_n else 1
        text = f"design {self.request_body['seed']}"
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(self.prompt), "completion_tokens": n * len(text)}
        with self.server.books.lock:
            self.server.books.tokens_in += usage["prompt_tokens"]
            self.server.books.tokens_out += usage["completion_tokens"]
        return json.dumps(
            {"usage": usage, "model": "m", "choices": [choice] * n, **changes}
        ).encode()

    def unreported(self) -> None:
        with self.server.books.lock:
            self.server.books.unreported += 1

    def wait_until_left(self) -> None:
        self.connection.settimeout(30)
        self.connection.recv(1)

    # the modes

    def good(self) -> None:
        self.send(200, self.answer())

    def rate_limit(self) -> None:
        self.send(429, b'{"error": {"message": "slow down"}}', Retry_After="0.005")

    def rate_limit_for_an_hour(self) -> None:
        self.send(429, b"", Retry_After="3600")

    def error_500(self) -> None:
        self.send(500, b'{"error": {"message": "broken"}}')

    def error_502(self) -> None:
        self.send(502, b"<html>bad gateway</html>")

    def error_503(self) -> None:
        self.send(503, b"x" * HUGE_BYTES)  # an error page may be as long as an answer

    def silent(self) -> None:
        self.wait_until_left()

    def stalled(self) -> None:
        self.unreported()
        self.send(200, b'{"choices": [', length=1000)
        self.wait_until_left()

    def dripping(self) -> None:
        """A byte at a time for ever: never silent, never done."""
        self.unreported()
        self.send(200, b"", length=HUGE_BYTES)
        while True:
            self.wfile.write(b" ")
            self.server.stop.wait(0.01)

    def reset(self) -> None:
        self.unreported()
        self.send(200, b'{"choices": [{"message"', length=1000)
        self.server.stop.wait(0.01)  # the client reads what was sent before the connection breaks
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def garbage(self) -> None:
        self.unreported()
        self.send(200, bytes(range(256)) * 20)

    def half_json(self) -> None:
        whole = self.answer()
        self.send(200, whole[: len(whole) - 30])

    def huge(self) -> None:
        self.unreported()
        self.send(200, b'{"choices": "' + b"x" * HUGE_BYTES + b'"}')

    def no_choices(self) -> None:
        self.send(200, self.answer(choices=[], error={"message": "overloaded"}))

    def null_content(self) -> None:
        self.send(200, self.answer(choices=[{"message": {"role": "assistant", "content": None}}]))

    def blank(self) -> None:
        self.send(
            200, self.answer(choices=[{"message": {"content": " \n"}, "finish_reason": "stop"}])
        )

    def no_body(self) -> None:
        self.send(200, b"")

    def odd_types(self) -> None:
        self.send(
            200, self.answer(choices=[3, {"message": []}, {"message": {"content": ["a"]}}, None])
        )

    def deep(self) -> None:
        self.unreported()
        self.send(200, b"[" * 100_000)

    def half_a_letter(self) -> None:
        self.send(200, self.answer(choices=[{"message": {"content": "\ud800"}}]))

    def no_usage(self) -> None:
        self.unreported()
        self.send(
            200, b'{"choices": [{"message": {"content": "abcd"}, "finish_reason": "length"}]}'
        )

    def unauthorised(self) -> None:
        self.send(401, f"wrong key: {self.headers['Authorization']}".encode())

    def echo_400(self) -> None:
        self.send(400, f"you sent {self.headers['Authorization']}".encode())

    def echo_200(self) -> None:
        self.send(200, self.answer(choices=[], error=f"you sent {self.headers['Authorization']}"))

    def not_found(self) -> None:
        self.send(404, b'{"error": "model not found"}')

    def redirect(self) -> None:
        self.send(307, b"", Location=self.path)

    def bad_request(self) -> None:
        self.send(400, b'{"error": "context too long"}')

    def no_n(self) -> None:
        if "n" in self.request_body:
            return self.bad_request()
        return self.good()


class FaultyServer(ThreadingHTTPServer):
    """The server with its books; `gives_n` False writes one answer whatever `n` says."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.books, self.gives_n, self.stop = Books(), True, threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left early is what these modes are for."""


@contextmanager
def running(server: FaultyServer) -> Iterator[FaultyServer]:
    """The server in a thread of its own."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def deaf_port() -> Iterator[str]:
    """An address that never finishes a connection: its queue of waiting clients is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(address)
        try:
            yield f"http://127.0.0.1:{address[1]}/v1"
        finally:
            for client in waiting:
                client.close()


def free_port() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
