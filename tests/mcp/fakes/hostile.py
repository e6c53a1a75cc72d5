"""Servers with one bad habit each: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parent))

from bare import Bare, note_sigterm, parsed, text
from number import own_number

MIB = 1 << 20
CHUNK = b"x" * MIB
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


class DiesAtStart(Bare):
    def serve(self) -> None:
        self.record(f"start {own_number()}")
        sys.stderr.write("no key \x1b[31mset\n")
        sys.exit(3)


class DiesInCall(Bare):
    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        sys.stderr.write("oh no\n")
        sys.stderr.flush()
        os._exit(5)


class Cuts(Bare):
    """Dies after so many bytes of its answer to a call."""

    def answer(self, number: Any, result: Any) -> None:
        if "content" not in result:
            super().answer(number, result)
            return
        count = int(result["content"][0]["text"])
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()[:count])
        os._exit(0)


class Floods(Bare):
    """Of what it is told to, 5,000 in each call."""

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        match arguments.get("text"):
            case "progress":
                token = meta.get("progressToken")
                line = {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
            case "log":
                line = {"method": "notifications/message", "params": {"level": "error", "data": "x" * 100}}
            case "ping":
                line = {"id": "p", "method": "ping"}
            case _:
                line = {"id": "e", "method": "elicitation/create", "params": FORM}
        data = json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n"
        self.waiting |= {"p": queue.Queue(), "e": queue.Queue()}
        for _ in range(5):
            self.write(data * 1_000)
        return text("through")


class Hangs(Bare):
    def request(self, message: dict[str, Any]) -> None:
        self.record(message["method"])


class Deaf(Bare):
    """Reads the handshake, and then nothing."""

    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        while True:
            signal.pause()


class IgnoresSigterm(Bare):
    def serve(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self.record("sigterm"))
        real, os._exit = os._exit, lambda _: None  # type: ignore[assignment]
        super().serve()
        while True:
            signal.pause()
        real(0)


class Daemon(Bare):
    def serve(self) -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sh", ["sh", "-c", "sleep 600; :", self.options.tag])
            os._exit(0)
        super().serve()


class Loud(Bare):
    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self.shout()
        return super().initialize(params)

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        self.shout()
        return super().run(name, arguments, number, meta)

    def shout(self) -> None:
        sys.stderr.write("loud " * 120_000)
        sys.stderr.flush()


class LongLine(Bare):
    ends = b'"}]}}\n'

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        size = int(arguments.get("bytes", MIB))
        head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number
        with self.writing:
            out = sys.stdout.buffer
            out.write(head)
            for start in range(0, size, MIB):
                out.write(CHUNK[: size - start])
            out.write(self.ends)
            out.flush()
            self.record("written")
        threading.Event().wait()
        raise AssertionError


class NoNewline(LongLine):
    ends = b""


class WrongIds(Bare):
    def answer(self, number: Any, result: Any) -> None:
        lie = text("a lie") if "content" in result else result
        for wrong in (number + 1000, str(number), float(number) + 0.5, True, None, [number], {"id": number}):
            self.send({"id": wrong, "result": lie})
        self.send({"result": lie})
        self.send({"id": number + 1000, "result": "not an object"})
        self.send({"id": number + 1000, "error": {"code": "x"}})
        self.send({"id": None, "error": {"code": 1, "message": "nobody's"}})
        super().answer(number, result)


class Twice(Bare):
    def answer(self, number: Any, result: Any) -> None:
        super().answer(number, result)
        super().answer(number, text("again") if "content" in result else result)


class Storm(Bare):
    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        line = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
        for _ in range(20):
            self.write(line * 1000)
        return super().run(name, arguments, number, meta)


class Html(Bare):
    def serve(self) -> None:
        for _ in sys.stdin.buffer:
            self.write(b"<!doctype html><html><body>502 Bad Gateway</body></html>\n")


class BadUtf8(Bare):
    def answer(self, number: Any, result: Any) -> None:
        line = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\xff\xfe"}]}}\n'
        self.write(line % (number + 1000))
        super().answer(number, result)


class Chatty(Bare):
    def serve(self) -> None:
        self.write(b"Welcome to the server!\n\n   \n[1, 2]\nnull\n42\n")
        super().serve()

    def answer(self, number: Any, result: Any) -> None:
        self.write(b"DEBUG answering\r\n")
        super().answer(number, result)


class EndlessPages(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        page = int(params.get("cursor", 0))
        return {"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}], "nextCursor": str(page + 1)}


class SameCursor(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": self.tools, "nextCursor": "again"}


class ManyTools(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        page = int(params.get("cursor", 0))
        tools = [{"name": f"t{page}_{n}", "inputSchema": {"type": "object"}} for n in range(10_000)]
        return {"tools": tools, **({"nextCursor": str(page + 1)} if page < 9 else {})}


class Toolless(Bare):
    """Has prompts, say, and no tools."""

    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**super().initialize(params), "capabilities": {"prompts": {}}}

    def request(self, message: dict[str, Any]) -> None:
        super().request({**message, "method": "none"} if message["method"] == "tools/list" else message)


class Sloppy(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [{"name": 5, "inputSchema": "none\x1b[2J"}]}

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        return {"content": {"type": "text"}, "isError": "perhaps"}


class AsksUnasked(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        threading.Thread(target=self.ask_all, daemon=True).start()
        return super().list_tools(params)

    def ask_all(self) -> None:
        sampling = {"messages": [], "maxTokens": 1}
        for method, params in (("elicitation/create", FORM), ("sampling/createMessage", sampling), ("roots/list", {})):
            heard = self.request_back(method, params)
            self.record(f"{method} {'error' if 'error' in heard else 'result'}")


class Changes(Bare):
    listed = 0

    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        self.listed += 1
        return {"tools": [{**tool, "description": f"version {self.listed}"} for tool in self.tools]}


class ClosesStdout(Bare):
    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        os.close(1)
        threading.Event().wait()
        raise AssertionError


class Deep(Bare):
    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        nested = b"[" * 100_000 + b"]" * 100_000
        self.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":%s}}\n' % (number, nested))
        return text("still here")


class Unreadable(Bare):
    """What it answers in a call says the call's text."""

    HOW: ClassVar[dict[str, bytes]] = {
        "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "parts": b'{"a":[' + b"{}," * 1_000_000 + b"{}]}",
        "list": b"[1]",
        "bytes": b'{"a":"\xff\xfe"}',
        "cut": b'{"a":"x',
    }

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        how = arguments["text"]
        if how not in self.HOW:
            return super().run(name, arguments, number, meta)
        self.write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (number, self.HOW[how]))
        threading.Event().wait()
        raise AssertionError


class Unlicensed(Bare):
    """Refuses to begin, in words of its own, and is slow to end."""

    def request(self, message: dict[str, Any]) -> None:
        self.send({"id": message["id"], "error": {"code": -32000, "message": "License expired"}})

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().serve()
        threading.Event().wait()


class DuplicateTools(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [*self.tools, {"name": "echo", "description": "the other", "inputSchema": {"type": "object"}}]}


class SlowStart(Bare):
    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1)
        return super().initialize(params)


class Bomb(Bare):
    def list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        pattern = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": pattern}]}

    def run(self, name: str, arguments: dict[str, Any], number: Any, meta: dict[str, Any]) -> dict[str, Any]:
        return {**text("boom"), "structuredContent": {"a": "a" * 64 + "!"}}


class Strict(Bare):
    """Of the old era, and ends when it hears anything before its handshake."""

    began = False

    def request(self, message: dict[str, Any]) -> None:
        self.began |= message["method"] == "initialize"
        if not self.began:
            self.record("not begun")
            os._exit(1)
        super().request(message)


MODES: dict[str, type[Bare]] = {
    "dies-at-start": DiesAtStart,
    "dies-in-call": DiesInCall,
    "cuts": Cuts,
    "floods": Floods,
    "hangs": Hangs,
    "deaf": Deaf,
    "ignores-sigterm": IgnoresSigterm,
    "daemon": Daemon,
    "loud": Loud,
    "long-line": LongLine,
    "no-newline": NoNewline,
    "wrong-ids": WrongIds,
    "twice": Twice,
    "storm": Storm,
    "html": Html,
    "bad-utf8": BadUtf8,
    "chatty": Chatty,
    "endless-pages": EndlessPages,
    "same-cursor": SameCursor,
    "many-tools": ManyTools,
    "sloppy": Sloppy,
    "toolless": Toolless,
    "asks-unasked": AsksUnasked,
    "changes": Changes,
    "closes-stdout": ClosesStdout,
    "deep": Deep,
    "duplicate-tools": DuplicateTools,
    "slow-start": SlowStart,
    "bomb": Bomb,
    "strict": Strict,
    "unreadable": Unreadable,
    "unlicensed": Unlicensed,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=MODES)
    options = parsed(parser)
    server = MODES[options.mode](options)
    note_sigterm(server)
    server.serve()
