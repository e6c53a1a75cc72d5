"""The mock provider of `tertulia bench compare`: one process on the loopback that answers every peer alike.

What it answers is written in the last message: `@call {…}` is answered with calls of a tool, `@hang` never, the output
of a tool and everything else with one fixed text. It is also the proxy that all peers are given: a request for another
host is refused and written down. It prints its port and serves until its standard input ends.

`GET /control/NAME` gives one of its counts; `GET /control/hanging?after=N` answers when more than N requests hang.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Sequence

from bench.compare.dialects import DIALECTS, Body, Call, Dialect

_CALL = "@call "
_HANG = "@hang"
_CLOSE = b"Connection: close\r\n"


class Provider:
    """Counts what it was asked, and answers."""

    def __init__(self) -> None:
        self.answered = 0
        self.hanging = 0
        self.last_size = 0
        self.refused = ""
        """The hosts that were asked for as of a proxy, each with a space behind it."""
        self._hung = asyncio.Event()
        self.last_output = ""
        """The beginning of the last output of a tool that a model was sent."""
        self._numbers = itertools.count()

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        try:
            while line := await reader.readline():
                if not await self._serve_request(line.decode("latin-1").split(), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The peer was stopped in the middle of a request, as W7 does.
        finally:
            writer.close()

    async def _serve_request(
        self, line: Sequence[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection goes on."""
        method, path = line[0], line[1]
        headers: dict[str, str] = {}
        while (header := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "CONNECT" or path.startswith("http"):
            self.refused += f"{path} "
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return False
        if path.startswith("/control/"):
            name, _, after = path.removeprefix("/control/").partition("?after=")
            while after and self.hanging <= int(after):
                await self._hung.wait()
            text = str(getattr(self, name)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n%b" % (len(text), _CLOSE, text))
            return False
        return await self._answer(path, body, writer)

    async def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> bool:
        dialect = next((dialect for end, dialect in DIALECTS.items() if path.partition("?")[0].endswith(end)), None)
        if dialect is None:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return True
        request = json.loads(body)
        self.last_size = len(body)
        text = dialect.last_text(request)
        if text is None:
            self.last_output = dialect.last_output(request)[:2_000]
        if text is not None and _HANG in text:
            self.hanging += 1
            self._hung.set()
            self._hung = asyncio.Event()
            return True
        calls = self._calls(dialect, request, text)
        self.answered += 1
        if request.get("stream") or "streamGenerateContent" in path:
            chunks = (*dialect.events(calls), b"")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
            )
        else:
            whole = json.dumps(dialect.whole(calls), separators=(",", ":")).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(whole)
            writer.write(head + whole)
        await writer.drain()
        return True

    def _calls(self, dialect: Dialect, request: Body, text: str | None) -> list[Call]:
        if text is None or _CALL not in text:
            return []
        wish, _ = json.JSONDecoder().raw_decode(text[text.index(_CALL) + len(_CALL) :])
        # A peer may put a prefix before the name of an MCP tool.
        name = next((name for name in dialect.tool_names(request) if name.endswith(wish["tool"])), wish["tool"])
        arguments = json.dumps(wish["arguments"])
        return [(f"call_{next(self._numbers)}", name, arguments) for _ in range(wish["times"])]


async def main() -> None:
    """Serve until standard input ends, which it does with the referee."""
    server = await asyncio.start_server(Provider().serve_connection, "127.0.0.1", 0, limit=2**26, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    # Requests that hang are still open, and nothing is lost with them.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
