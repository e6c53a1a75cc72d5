"""A model provider on loopback for agents that we did not write: it keeps what it was sent, and answers by number."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.deadlines import HANG_S

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


Call = Callable[[str], dict[str, Any]]


class Provider:
    """What came in, and whether anything goes out."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        """Requests of a turn; those for titles and the like, which offer no tools, are left out."""
        self.going = threading.Event()
        self.going.set()
        self.url = ""
        self.calls: list[Call] = []
        """Tools that are asked for first, one in each answer: from the newest request to the tool and its arguments."""
        self.refuses = False
        """Whether nobody's key is good."""

    @property
    def answer(self) -> str:
        """What the newest request is answered with: JSON where that is asked for."""
        text = f"the-answer-number-{len(self.bodies)}"
        wants_json = self.bodies and ("json_schema" in self.bodies[-1] or "say-it-in-json" in self.bodies[-1])
        return json.dumps({"answer": text}) if wants_json else text

    def take(self, path: str, body: str) -> list[tuple[str, dict[str, Any]]]:
        """The events of the answer."""
        if json.loads(body).get("tools"):
            self.bodies.append(body)
        answer = self.answer
        self.going.wait(HANG_S)
        if json.loads(body).get("tools") and self.calls:
            return called(path, self.calls.pop(0)(body))
        return responses(answer) if path.startswith("/v1/responses") else messages(answer)


def called(path: str, call: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """An answer that is one call: `name`, `arguments` and, of Responses, whatever else it needs."""
    arguments = json.dumps(call["arguments"])
    if path.startswith("/v1/responses"):
        item = {"type": "function_call", "id": "fc-1", "call_id": "call-1", **call, "arguments": arguments}
        return [
            ("response.created", {"response": {"id": "r-1"}}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": {"id": "r-1", "usage": USAGE}}),
        ]
    first, _, *rest = messages("msg-1")
    block = {"type": "tool_use", "id": "call-1", "name": call["name"], "input": {}}
    return [
        first,
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}}),
        rest[1],
        ("message_delta", {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE}),
        rest[3],
    ]


def responses(answer: str) -> list[tuple[str, dict[str, Any]]]:
    content = [{"type": "output_text", "text": answer}]
    item = {"type": "message", "role": "assistant", "id": answer, "content": content}
    return [
        ("response.created", {"response": {"id": answer}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {"id": answer, "usage": USAGE}}),
    ]


def messages(answer: str) -> list[tuple[str, dict[str, Any]]]:
    head = {"id": answer, "type": "message", "role": "assistant", "model": "mock", "content": []}
    return [
        ("message_start", {"message": {**head, "stop_reason": None, "usage": USAGE}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": answer}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE}),
        ("message_stop", {}),
    ]


@contextmanager
def provider() -> Iterator[Provider]:
    """Serving, until it is left."""
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            if "count_tokens" in self.path:
                self.send_error(404)
                return
            if made.refuses:
                made.bodies.append(body)
                refusal = json.dumps({"type": "error", "error": {"type": "authentication_error", "message": "bad key"}})
                self.send_response(401)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(refusal)))
                self.end_headers()
                self.wfile.write(refusal.encode())
                return
            events = made.take(self.path, body)
            try:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for kind, data in events:
                    named = f"event: {kind}\n" if kind else ""
                    fields = {"type": kind, **data} if kind else data
                    self.wfile.write(f"{named}data: {json.dumps(fields)}\n\n".encode())
            except OSError:
                # Whoever asked was stopped.
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield made
    finally:
        made.going.set()
        server.shutdown()
        serving.join()
        server.server_close()
