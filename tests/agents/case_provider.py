"""A model provider on loopback that answers by what it is asked: `case:NAME` in the newest message chooses the answer.

It speaks the Responses API. `GET /seen` gives the requests so far, `GET /release` lets answers go on that were held.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.deadlines import HANG_S

Event = dict[str, Any]

USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 18,
}


def message(number: int, text: str, phase: str | None = None) -> Event:
    """The event of a whole message."""
    content = [{"type": "output_text", "text": text}]
    item = {"type": "message", "role": "assistant", "id": f"msg-{number}", "content": content}
    return {"type": "response.output_item.done", "item": item | ({} if phase is None else {"phase": phase})}


def pieces(number: int, *texts: str) -> list[Event]:
    """The events of a message that comes in pieces."""
    item = {"type": "message", "role": "assistant", "id": f"msg-{number}", "content": []}
    deltas = [{"type": "response.output_text.delta", "delta": text} for text in texts]
    return [{"type": "response.output_item.added", "item": item}, *deltas, message(number, "".join(texts))]


CASES: dict[str, list[Event]] = {
    "unknown": [message(1, "First"), message(2, "Second")],
    "empty": [message(1, "First"), message(2, "")],
    "commentary": [message(1, "On my way", "commentary")],
    "phases": [message(1, "On my way", "commentary"), message(2, "There", "final_answer")],
    "failure": [{"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "it burst"}}}],
    "pieces": pieces(1, "he", "llo"),
    "held": pieces(1, "be", "fore"),
    "steered": [message(1, "after")],
}


class CaseProvider:
    """The requests that came, and whether held answers go on."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self.released = threading.Event()

    def events(self, body: dict[str, Any]) -> list[Event]:
        """The answer to a request."""
        self.requests.append(body)
        newest = _newest_text(body)
        if "<goal>" in newest:
            return self._toward_goal(body)
        name = newest.partition("case:")[2].split()[:1]
        if name == ["held"]:
            self.released.wait(HANG_S)
            self.released.clear()
        return CASES.get("".join(name)) or [message(1, f"answer {len(self.requests)}")]

    def _toward_goal(self, body: dict[str, Any]) -> list[Event]:
        """Work at first, then say that it is reached, then the last word."""
        if body["input"][-1].get("type") == "function_call_output":
            return [message(1, "Goal reached.")]
        if "still open" not in _newest_text(body):
            return [message(1, "Half of it.")]
        call = {"type": "function_call", "call_id": "c1", "name": "update_goal", "arguments": '{"status":"complete"}'}
        return [{"type": "response.output_item.done", "item": call}]


def _newest_text(body: dict[str, Any]) -> str:
    """The newest message of the user, as one text."""
    messages = [item for item in body["input"] if item.get("role") == "user"]
    content = messages[-1]["content"] if messages else ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


@contextmanager
def case_provider() -> Iterator[CaseProvider]:
    """Serving, until it is left."""
    provider = CaseProvider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/release":
                provider.released.set()
            self._send("application/json", json.dumps(provider.requests).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)))
            events = [{"type": "response.created", "response": {"id": "r"}}, *provider.events(body)]
            if events[-1]["type"] != "response.failed":
                events.append({"type": "response.completed", "response": {"id": "r", "usage": USAGE}})
            lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send("text/event-stream", "".join(lines).encode())

        def _send(self, kind: str, body: bytes) -> None:
            try:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                # The client was stopped.
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield provider
    finally:
        provider.released.set()
        server.shutdown()
        serving.join()
        server.server_close()
