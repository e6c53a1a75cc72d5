"""Commands in the sandbox that reach servers of the test by name. Run as a program, by an ordinary user as well:

`python -m tests.sandbox.proxy.sandboxed FOLDER` tries the usual cases and writes each that is not as it should be. With
a port and a tag behind it a command reads a page of that port for ever.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.proxy.gate import Access, NetworkUse
from tertulia.sandbox.proxy.rules_gate import RulesGate
from tertulia.sandbox.runner import Command, CommandResult
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tests.sandbox.confined import DEADLINE_S, Place
from tests.sandbox.proxy.proxied import HERE, Names


class _Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        text = f"hello from {self.headers['Host']}".encode()
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", f"http://evil.example:{self.server.server_port}/")  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        self.server.paths.append(self.path)  # type: ignore[attr-defined]


class _Server(ThreadingHTTPServer):
    """Knows its open connections."""

    def __init__(self, handler: Any) -> None:
        super().__init__((HERE, 0), handler)
        self.paths: list[str] = []
        self.connections: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.connections.discard(request)


@contextmanager
def served(folder: Path | None = None) -> Iterator[Any]:
    """A server on the loopback: of a folder, or one that says hello."""

    def handler(*arguments: Any) -> BaseHTTPRequestHandler:
        return _Hello(*arguments) if folder is None else _Quiet(*arguments, directory=str(folder))

    server = _Server(handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        self.server.paths.append(self.path)  # type: ignore[attr-defined]


class Sandboxed:
    """A sandbox whose commands may reach `files.example`, and what they reached."""

    def __init__(self, place: Place, sandbox: Sandbox, port: int, *more: str) -> None:
        self.place, self.sandbox, self.port = place, sandbox, port
        self.rules = HostRules((f"files.example:{port}", f"{HERE}:{port}", *more))
        self.names = Names(files_example=HERE, evil_example=HERE)
        self.nursery, self.use = Nursery(), NetworkUse()
        self.accesses: list[Access] = []

    def command(self, *argv: str, **fields: Any) -> Command:
        gate = RulesGate(self.rules, self.nursery.start, use=self.use, names=self.names, on_access=self.accesses.append)
        command = self.place.command(*argv, **fields)
        return replace(command, gate=gate, confinement=replace(command.confinement, network=self.rules))

    async def run(self, *argv: str, **fields: Any) -> CommandResult:
        return await self.sandbox.run(self.command(*argv, **fields), timeout_s=DEADLINE_S)

    async def curl(self, *words: str) -> tuple[int, str]:
        finished = await self.run("curl", "-sS", "--max-time", "60", *words)
        return finished.exit_code, finished.output.text()


@asynccontextmanager
async def sandboxed(place: Place, port: int, *more: str) -> AsyncIterator[Sandboxed]:
    sandbox = Sandbox(tier="bubblewrap", clock=SystemClock())
    made = Sandboxed(place, sandbox, port, *more)
    try:
        yield made
    finally:
        await sandbox.close()
        await made.nursery.close(DEADLINE_S)


async def problems(at: Sandboxed) -> list[str]:
    """What is not as it should be, by curl: hosts that are allowed and refused, by each way."""
    allowed, refused = f"http://files.example:{at.port}/", f"http://evil.example:{at.port}/"
    hello, found = f"hello from files.example:{at.port}", list[str]()

    async def expect(code: int, text: str, *words: str) -> None:
        got = await at.curl(*words)
        if got[0] != code or text not in got[1]:
            found.append(f"{words}: {got}")

    for way in ((), ("--proxytunnel",), ("--proxy", "socks5h://127.0.0.1:3128")):
        await expect(0, hello, *way, allowed)
    await expect(0, "is not allowed here; to allow it, add", refused)
    await expect(56, "403", "--proxytunnel", refused)
    await expect(97, "", "--proxy", "socks5h://127.0.0.1:3128", refused)
    await expect(0, "is not allowed here", "-L", f"{allowed}away")
    await expect(7, "connect", "--noproxy", "*", f"http://{HERE}:{at.port}/")
    await expect(6, "", "--noproxy", "*", allowed)
    return found


FETCHES = 'while :; do curl -sS -m 60 "$1"; done'
"""A shell program that reads a page again and again, and never ends by itself."""


async def fetch_for_ever(folder: Path, port: int, tag: str) -> None:
    """Until this process is killed. The tag is in the arguments of the command."""
    async with sandboxed(Place(folder), port) as at:
        await at.run("bash", "-c", FETCHES, tag, f"http://files.example:{port}/")


def ordinary_line(python: str, folder: Path) -> Sequence[str]:
    return (python, "-m", "tests.sandbox.proxy.sandboxed", str(folder))


async def _main(folder: Path) -> int:
    with served() as server:
        async with sandboxed(Place(folder), server.server_port) as at:
            found = await problems(at)
            sys.stdout.write("\n".join([f"uid {os.getuid()}: {len(at.accesses)} accesses", *found]))
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(fetch_for_ever(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
    else:
        sys.exit(asyncio.run(_main(Path(sys.argv[1]))))
