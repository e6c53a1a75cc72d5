"""What confining a command costs: its start against a plain spawn and bare bubblewrap, and memory for endless output.

All starts take turns in one run, so that whatever else the machine does hits them alike. In the tier `bubblewrap` each
but the first finds a sandbox that was prepared after the one before; what a start takes without one is measured too. On
a machine that is busy with other things every process that a start waits for waits for a processor: there the ratios
say more of the others.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.confine import confine
from tertulia.sandbox.masks.guarded_paths import guarded_paths
from tertulia.sandbox.proxy.relay import CHUNK
from tertulia.sandbox.proxy.rules_gate import RulesGate
from tertulia.sandbox.proxy.server import ProxyServer
from tertulia.sandbox.runner import Command, CommandLimits, Confinement, TierChoice
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tertulia.session.settings.settings import Settings

ROUNDS = 60
PAUSE_S = 0.02
BWRAP = "/usr/bin/bwrap"
TIERS: tuple[TierChoice, ...] = ("bubblewrap", "landlock")
BY_NAME = "bubblewrap, hosts by name"
BARS = {"bubblewrap": ("bare bubblewrap", 1.5), "landlock": ("a plain spawn", 2), BY_NAME: ("bubblewrap", 1.5)}
"""What each tier is held against, and how many times as long it may take."""
LARGE = 1536 << 20
OUTPUT = 1 << 30
KEPT = 65_536
PASSED = 256 << 20
PASSES = 5
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}

Rows = list[tuple[str, float, str, str]]
Start = Callable[[], Awaitable[None]]


def run() -> Rows:
    """Measure; each result is (name, value, unit, target). A tier that is not here is left out."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="bench-"))
    try:
        rows = [*asyncio.run(_starts(folder)), *_proxy()]
        for tier in TIERS:
            rows += _endless_rows(tier, folder)
        return [*rows, *_large(folder)]
    finally:
        shutil.rmtree(folder)


def _endless_rows(tier: TierChoice, folder: str) -> Rows:
    try:
        growth, speed = asyncio.run(_endless(tier, folder))
    except SandboxUnavailableError:
        return []
    return [
        (f"{tier}, 1 GiB of output: memory", growth, "MiB", "<= 2"),
        (f"{tier}, 1 GiB of output: speed", speed, "MB/s", ""),
    ]


# ---- what a start takes


async def _starts(folder: str) -> Rows:
    """Everything takes turns; a ratio is the median of those within one round."""
    starts: dict[str, Start] = {"a plain spawn": lambda: _plain("/bin/true")}
    if os.access(BWRAP, os.X_OK):
        starts["bare bubblewrap"] = lambda: _plain(BWRAP, "--unshare-all", "--ro-bind", "/", "/", "/bin/true")
    guarded = guarded_paths([os.path.expanduser("~")], (), is_root=os.geteuid() == 0)
    usual = confine(Settings().rights, folder, guarded=guarded)
    sandboxes: list[Sandbox] = []
    for tier in TIERS:
        # A sandbox each: one prepares for the confinement that it had before.
        for name, confinement in ((tier, _confinement(folder)), (f"{tier}, as in a session", usual)):
            sandbox = await _available(tier)
            if sandbox is not None:
                sandboxes.append(sandbox)
                command = Command(argv=("/bin/true",), cwd=folder, confinement=confinement, environment=ENVIRONMENT)
                starts[name] = partial(_confined, sandbox, command)
    if "bubblewrap" in starts:
        sandbox = Sandbox(tier="bubblewrap", clock=SystemClock())
        sandboxes.append(sandbox)
        starts["bubblewrap, the first of its kind"] = partial(_unlike_before, sandbox, folder, itertools.count())
        sandbox = Sandbox(tier="bubblewrap", clock=SystemClock())
        sandboxes.append(sandbox)
        starts[BY_NAME] = partial(_by_name, sandbox, folder, Nursery())
    taken = await _rounds(starts)
    for sandbox in sandboxes:
        await sandbox.close()
    rows: Rows = [(name, statistics.median(times) * 1e3, "ms", "") for name, times in taken.items()]
    for name, (floor, bar) in BARS.items():
        if name in taken and floor in taken:
            ratios = [time / least for time, least in zip(taken[name], taken[floor], strict=True)]
            rows.append((f"{name} : {floor}", statistics.median(ratios), "x", f"<= {bar:g}"))
    return rows


async def _available(tier: TierChoice) -> Sandbox | None:
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    try:
        await sandbox.check()
    except SandboxUnavailableError as error:
        print(f"{tier} is not measured: {error.message}", file=sys.stderr)
        return None
    return sandbox


async def _rounds(starts: Mapping[str, Start]) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(ROUNDS):
        for name, start in starts.items():
            # The kernel takes down the namespaces of the one before meanwhile, which is not this one's price.
            await asyncio.sleep(PAUSE_S)
            begin = time.perf_counter()
            await start()
            taken[name].append(time.perf_counter() - begin)
    return taken


async def _plain(*argv: str) -> None:
    subprocess.run(argv, env=ENVIRONMENT, check=True)


async def _confined(sandbox: Sandbox, command: Command) -> None:
    finished = await sandbox.run(command)
    assert finished.exit_code == 0


async def _unlike_before(sandbox: Sandbox, folder: str, numbers: Iterator[int]) -> None:
    """With limits that no command before had: no sandbox was prepared for it."""
    command = _command(folder, "/bin/true")
    limits = CommandLimits(cpu_s=1_000 + next(numbers))
    await _confined(sandbox, replace(command, confinement=replace(command.confinement, limits=limits)))


async def _by_name(sandbox: Sandbox, folder: str, nursery: Nursery) -> None:
    """With a listener inside, and the proxy that serves it."""
    rules, command = HostRules(("github.com", "*.pypi.org", "registry.npmjs.org")), _command(folder, "/bin/true")
    confinement = replace(command.confinement, network=rules)
    await _confined(sandbox, replace(command, confinement=confinement, gate=RulesGate(rules, nursery.start)))


def _confinement(folder: str) -> Confinement:
    return Confinement(mode="workspace_write", writable_roots=(folder,))


# ---- what passes through the proxy


def _proxy() -> Rows:
    """Bytes for each second of CPU of the loop, the proxy and a bare relay in turns: the machine may be busy."""
    taken: dict[str, list[float]] = {"a bare relay": [], "the proxy": []}
    for _ in range(PASSES):
        for name, speeds in taken.items():
            speeds.append(asyncio.run(_passed(proxied=name == "the proxy")))
    bare, ours = (statistics.median(speeds) for speeds in taken.values())
    rows: Rows = [(f"{name}, a CPU second", statistics.median(speeds), "MB", "") for name, speeds in taken.items()]
    return [*rows, ("the proxy : a bare relay", ours / bare, "x", ">= 0.5")]


async def _passed(*, proxied: bool) -> float:
    """Send bytes through, as the server of one connection and the client of another, in threads of their own."""
    server, listener = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    port, nursery = server.getsockname()[1], Nursery()
    rules = HostRules((f"127.0.0.1:{port}",))
    if proxied:
        serving: ProxyServer | asyncio.Server = ProxyServer(listener, RulesGate(rules, nursery.start))
    else:
        serving = await asyncio.start_server(partial(_relay, port), sock=listener, limit=CHUNK)
    began = time.thread_time()
    request = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode() if proxied else b""
    sending = asyncio.to_thread(_send_all, server)
    taking = asyncio.to_thread(_take_all, listener.getsockname()[1], request)
    await asyncio.gather(sending, taking)
    seconds = time.thread_time() - began
    serving.close()
    server.close()
    await nursery.close(1)
    return PASSED / 1e6 / seconds


async def _relay(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    theirs, sink = await asyncio.open_connection("127.0.0.1", port, limit=CHUNK)

    async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            to.write(data)
            await to.drain()
        to.write_eof()

    await asyncio.gather(pass_on(reader, sink), pass_on(theirs, writer))
    sink.close()
    writer.close()


def _send_all(server: socket.socket) -> None:
    connection, _ = server.accept()
    piece = bytes(1 << 20)
    with connection:
        for _ in range(PASSED >> 20):
            connection.sendall(piece)


def _take_all(port: int, request: bytes) -> None:
    buffer, got = bytearray(1 << 20), 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        while count := connection.recv_into(buffer):
            got += count
    assert got >= PASSED


# ---- output without end, and a large process


def _command(folder: str, *argv: str) -> Command:
    return Command(
        argv=argv,
        cwd=folder,
        confinement=_confinement(folder),
        environment=ENVIRONMENT,
        kept_output_bytes=KEPT,
    )


async def _endless(tier: TierChoice, folder: str) -> tuple[float, float]:
    """(growth of this process at its largest in MiB, MB a second) for a gigabyte of output."""
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    await sandbox.run(_command(folder, "head", "-c", str(1 << 20), "/dev/zero"))
    before = _peak()
    finished = await sandbox.run(_command(folder, "head", "-c", str(OUTPUT), "/dev/zero"))
    growth = _peak() - before
    await sandbox.close()
    assert finished.output.total == OUTPUT
    return growth, OUTPUT / 1e6 / finished.duration_s


def _peak() -> float:
    """The largest that this process has been, since it was last asked, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    # 5 has the kernel forget the peak. Where it may not be written, the peak is that of all time.
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024


def _large(folder: str) -> Rows:
    """The same from a process of 1.5 GiB: fork copies page tables, unless no process forks."""
    ballast = bytearray(b"x" * (1 << 20)) * (LARGE >> 20)
    try:
        rows = asyncio.run(_starts(folder))
    finally:
        del ballast
    return [
        (f"{name}, from a process of 1.5 GiB", value, unit, target)
        for name, value, unit, target in rows
        if name in BARS or " : " in name
    ]
