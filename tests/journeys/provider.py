"""A model provider on loopback, in a thread: speaks Chat Completions and Responses, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from tests.models.mock_provider import Told, chat_events, responses_events

Answer = Told | str | Callable[[dict[str, Any]], "Told | str"]
"""Words, words and calls, or what is made of the request."""


class Asked(msgspec.Struct, frozen=True):
    """One request for an answer."""

    path: str
    key: str | None
    """What came as `Authorization: Bearer`."""
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All of it, to look for words in."""
        return json.dumps(self.body, ensure_ascii=False)


def calls(name: str, **arguments: Any) -> Told:
    """An answer that is one tool call."""
    return Told(calls=((f"call_{name}", name, json.dumps(arguments)),))


class Provider:
    """Answers in turn; the last answer is given again and again."""

    def __init__(self, *answers: Answer, wants_key: str | None = None) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.wants_key = wants_key
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, caller: Asked) -> bytes:
        """The stream of an answer."""
        with self._lock:
            self.asked.append(caller)
            chosen = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        made = chosen(caller.body) if callable(chosen) else chosen
        reply = Told(text=made) if isinstance(made, str) else made
        return b"".join((responses_events if caller.path.endswith("/responses") else chat_events)(reply))


@contextmanager
def serving(*answers: Answer, wants_key: str | None = None) -> Iterator[Provider]:
    """A provider at `url`, until it is left."""
    provider = Provider(*answers, wants_key=wants_key)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a test reads what the program prints."""

        def send(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.send(200, "application/json", b'{"data": [{"id": "qwen3"}]}')

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
            if provider.wants_key not in (None, key):
                self.send(401, "application/json", b'{"error": {"message": "Incorrect API key provided"}}')
            else:
                self.send(200, "text/event-stream", provider.answer(Asked(self.path, key, body)))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
