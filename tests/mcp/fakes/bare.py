"""A server of the old era without any library: see the package's docstring."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import queue
import signal
import sys
import threading
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

from number import own_number

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = (
    *("echo", "slow", "ask", "visit", "sample", "roots", "env", "fail", "refuse", "size", "picture", "mixed"),
    *("structured", "pid", "define", "die", "gate"),
)


class Refused(Exception):
    """An error of the protocol: its text, its code, its data."""


class Bare:
    """One connection, over stdin and stdout. A call has a thread of its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        names = options.tools.split(",") if options.tools else NAMES
        self.tools: list[dict[str, Any]] = [{"name": name, "description": name, "inputSchema": TEXT} for name in names]
        self.writing = threading.Lock()
        self.ids = itertools.count(1)
        self.waiting: dict[str, queue.Queue[Any]] = {}
        self.cancelled: dict[Any, threading.Event] = {}
        self.gates = 0

    # ---- what it hears

    def serve(self) -> None:
        self.record(f"start {own_number()}")
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.waiting[message["id"]].put(message)
            elif "id" in message:
                self.request(message)
            elif message["method"] == "notifications/cancelled":
                with contextlib.suppress(KeyError):
                    self.cancelled[message["params"]["requestId"]].set()
        self.record("eof")
        # A call that still runs is nobody's any more.
        os._exit(0)

    def request(self, message: dict[str, Any]) -> None:
        params = message.get("params") or {}
        match message["method"]:
            case "initialize":
                self.answer(message["id"], self.initialize(params))
            case "tools/list":
                self.answer(message["id"], self.list_tools(params))
            case "tools/call":
                self.cancelled[message["id"]] = threading.Event()
                threading.Thread(target=self.call, args=(message["id"], params), daemon=True).start()
            case "ping":
                self.answer(message["id"], {})
            case method:
                self.send({"id": message["id"], "error": {"code": -32601, "message": f"no {method}"}})

    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        info = {"name": "bare", "version": "1"}
        version = self.options.era or params["protocolVersion"]
        return {"protocolVersion": version, "serverInfo": info, "capabilities": {"tools": {"listChanged": True}}}

    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.options.define:
            with open(self.options.define) as file:
                return json.load(file)
        return {"tools": self.tools}

    def call(self, number: Any, params: dict[str, Any]) -> None:
        name = params["name"]
        self.record(f"call {name}")
        try:
            result = self.run(name, params.get("arguments") or {}, number, params.get("_meta") or {})
        except Refused as error:
            text, code, data = (*error.args, -32602, None)[:3]
            self.send({"id": number, "error": {"code": code, "message": text, "data": data}})
            return
        finally:
            cancelled = self.cancelled.pop(number).is_set()
        if cancelled:
            self.record(f"cancelled {name}")
        else:
            self.answer(number, result)

    # ---- what it says

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        with self.writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def answer(self, number: Any, result: Any) -> None:
        self.send({"id": number, "result": result})

    def request_back(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client, and wait."""
        number = f"back-{next(self.ids)}"
        self.waiting[number] = queue.Queue()
        self.send({"id": number, "method": method, "params": params})
        return self.waiting[number].get()

    def record(self, line: str) -> None:
        if self.options.record:
            with open(self.options.record, "a") as file:
                file.write(line + "\n")

    # ---- tools

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        if name in ("ask", "visit", "sample", "roots"):
            return self.heard(self.request_back(*question(name, arguments)))
        match name:
            case "echo":
                return text(arguments.get("text", ""))
            case "slow":
                return self.slow(arguments, number, meta)
            case "env":
                return text(json.dumps(dict(os.environ)))
            case "gate":
                return self.gate()
            case "pid":
                return text(str(own_number()))
            case "define":
                self.tools = arguments["tools"]
                self.send({"method": "notifications/tools/list_changed"})
                return text("defined")
            case "die":
                os._exit(arguments.get("code", 9))
            case _:
                return shape(name, arguments)

    def slow(self, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        steps = 20
        for step in range(steps):
            if "progressToken" in meta:
                progress = {"progressToken": meta["progressToken"], "progress": step, "total": steps, "message": "on"}
                self.send({"method": "notifications/progress", "params": progress})
            if self.cancelled[number].wait(arguments.get("seconds", 1) / steps):
                break
        return text("done")

    def gate(self) -> dict[str, Any]:
        """Opens when its page was visited, of which it hears nothing: so, the second time."""
        self.gates += 1
        if self.gates % 2:
            page = {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "g"}
            raise Refused("visit first", -32042, {"elicitations": [page]})
        return text("open")

    def heard(self, message: dict[str, Any]) -> dict[str, Any]:
        return text(json.dumps(message.get("result", message.get("error")), sort_keys=True))


def text(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}]}


def question(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the client is asked."""
    match name:
        case "ask":
            form = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
            return "elicitation/create", {"message": arguments.get("question", "Continue?"), "requestedSchema": form}
        case "visit":
            page = {"mode": "url", "message": "Visit", "url": arguments["url"], "elicitationId": "1"}
            return "elicitation/create", page
        case "sample":
            fields = {"role": "user", "content": {"type": "text", "text": arguments.get("text", "hello")}}
            return "sampling/createMessage", {"messages": [fields], "maxTokens": 9, "systemPrompt": "s"}
        case _:
            return "roots/list", {}


def shape(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answers that are always the same."""
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    match name:
        case "fail":
            return {**text(arguments.get("text", "failed")), "isError": True}
        case "size":
            return text("0123456789abcdef" * (arguments["bytes"] // 16))
        case "picture":
            return {"content": [picture]}
        case "structured":
            return {"content": [], "structuredContent": {"n": 1, "list": [1, 2]}}
        case "mixed":
            inside = {"uri": "file:///a.txt", "text": "inside", "mimeType": "text/plain"}
            link = {"type": "resource_link", "uri": "file:///b.txt", "name": "b", "description": "the other"}
            blob = {"uri": "file:///c.bin", "blob": "AAAA", "mimeType": "application/octet-stream"}
            audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
            resources = ({"type": "resource", "resource": resource} for resource in (inside, blob))
            return {"content": [{"type": "text", "text": "first"}, picture, link, audio, *resources]}
        case _:
            raise Refused(f"no tool {name}\x1b[31m")


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    for option in ("--record", "--tools", "--era", "--tag", "--define"):
        parser.add_argument(option, default="")
    return parser.parse_args()


def note_sigterm(server: Bare) -> None:
    def stop(*_: object) -> None:
        server.record("sigterm")
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)


if __name__ == "__main__":
    bare = Bare(parsed(argparse.ArgumentParser()))
    note_sigterm(bare)
    bare.serve()
