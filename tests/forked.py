"""The program in a process of its own, without the time that its imports take: forked from one that has made them.

It has its own number, working directory, environment and streams, and it ends as any process does. What depends on how
Python is started (its flags, `-X`, a variable of Python) is not to be tried with it. Run as a program, this is the
process that forks.
"""

from __future__ import annotations

import array
import asyncio
import atexit
import contextlib
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from tests.deadlines import HANG_S

ROOT = Path(__file__).parent.parent
_LOCALE = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE")
PIPES = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
_NUMBER = struct.Struct("=i")
_nurseries: dict[tuple[tuple[str, str], ...], str] = {}
"""Where those listen that were started, each with the locale of its children."""


class ForkedProgram(subprocess.Popen[bytes]):
    """`tertulia` with these arguments, used like any other process that was started."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], **streams: Any) -> None:
        self._status: socket.socket | None = None
        super().__init__(list(arguments), cwd=cwd, env=env, **streams)

    @property
    def status(self) -> int:
        """What can be read from when it has ended."""
        assert self._status is not None
        return self._status.fileno()

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """The place where a `Popen` forks and executes."""
        cwd, env = rest[4:6]
        pipes = rest[9:15]
        streams = [end if end != -1 else own for own, end in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._status = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._status.connect(_nursery(env))
        request = json.dumps({"arguments": args, "cwd": str(cwd), "env": dict(env)}).encode()
        ends = array.array("i", streams)
        self._status.sendmsg([b"%10d" % len(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
        self._status.sendall(request)
        (self.pid,) = _NUMBER.unpack(_exactly(self._status, _NUMBER.size))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._status is not None:
            with contextlib.closing(select.epoll()) as ready:
                ready.register(self._status, select.EPOLLIN)
                if not ready.poll(timeout):
                    return None
            (status,) = _NUMBER.unpack(_exactly(self._status, _NUMBER.size))
            self._status.close()
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def run_program(
    *arguments: str, cwd: Path, env: Mapping[str, str], input: str = ""
) -> subprocess.CompletedProcess[str]:
    """To its end; what it wrote."""
    with ForkedProgram(arguments, cwd=cwd, env=env, **PIPES) as process:
        try:
            out, err = process.communicate(input.encode(), timeout=HANG_S)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), err.decode())


class AsyncProgram:
    """The same for a loop, with the names of `asyncio.subprocess.Process`."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    _output: asyncio.ReadTransport

    def __init__(self, process: ForkedProgram) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(process.status, self._note_end)

    @classmethod
    async def start(cls, *arguments: str, cwd: Path, env: Mapping[str, str], limit: int = 1 << 16) -> AsyncProgram:
        """All its streams are pipes."""
        process = ForkedProgram(arguments, cwd=cwd, env=env, bufsize=0, **PIPES)
        started = cls(process)
        transport, protocol = await started._loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        started.stdin = asyncio.StreamWriter(transport, protocol, None, started._loop)
        started.stdout = await started._reader(process.stdout, limit)
        started.stderr = await started._reader(process.stderr, limit)
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def communicate(self, input: bytes = b"") -> tuple[bytes, bytes]:
        """Write that, read all that is left, and wait for its end."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if input:
                self.stdin.write(input)
                await self.stdin.drain()
        self.stdin.close()
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def close_output(self) -> None:
        """What it writes to standard output has no reader any more."""
        self._output.close()

    async def _reader(self, pipe: IO[bytes] | None, limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=limit)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        if pipe is self._process.stdout:
            self._output = transport
        return reader

    def _note_end(self) -> None:
        self._loop.remove_reader(self._process.status)
        code = self._process.wait()
        if not self._ended.done():
            self._ended.set_result(code)


def _nursery(env: Mapping[str, str]) -> str:
    """Where the process listens that forks children of this locale; it is started at first use."""
    locale = tuple((name, env[name]) for name in _LOCALE if name in env)
    if locale not in _nurseries:
        place = os.path.join(tempfile.mkdtemp(prefix="forked-"), "socket")
        command = [sys.executable, "-m", "tests.forked", place, str(os.getpid())]
        own = {"PATH": os.environ["PATH"], **dict(locale)}
        process = subprocess.Popen(command, cwd=ROOT, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        with process.stdout as ready:  # type: ignore[union-attr]
            assert ready.readline() == b"ready\n"
        atexit.register(_end, process, place)
        _nurseries[locale] = place
    return _nurseries[locale]


def _end(process: subprocess.Popen[bytes], place: str) -> None:
    process.kill()
    process.wait()
    os.unlink(place)
    os.rmdir(os.path.dirname(place))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the process that forks is gone")
        data += piece
    return data


# ---- the process that forks


def _import_everything() -> None:
    import tertulia

    for module in pkgutil.walk_packages(tertulia.__path__, "tertulia."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def _next_child(place: str, owner: int) -> list[str]:
    """Serve until this process is one of the children; its arguments."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(place)
        listening.listen()
        os.write(1, b"ready\n")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while os.getppid() == owner:
            if not select.select([listening], [], [], 5)[0]:
                continue
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                return _watched(connection)
            connection.close()
    sys.exit(0)


def _watched(connection: socket.socket) -> list[str]:
    """In the process that waits for the child: fork it, and say how it ended. It returns in the child."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, ends, _, _ = socket.recv_fds(connection, 10, 3)
    request = json.loads(_exactly(connection, int(head)))
    child = os.fork()
    if child == 0:
        for number, end in enumerate(ends):
            os.dup2(end, number)
        os.closerange(3, max(*ends, connection.fileno()) + 1)
        _open_streams()
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        connection.detach()
        return ["tertulia", *request["arguments"]]
    os.closerange(0, 3)
    for end in ends:
        os.close(end)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(_NUMBER.pack(child))
        connection.sendall(_NUMBER.pack(os.waitpid(child, 0)[1]))
    os._exit(0)


def _open_streams() -> None:
    """As Python does when it starts: what a stream can do is asked once, and those of this process were others."""
    words: dict[str, Any] = {"encoding": sys.stdin.encoding, "closefd": False}
    for name, mode, errors in (("stdin", "r", sys.stdin.errors), ("stdout", "w", sys.stdout.errors)):
        _set_stream(name, os.fdopen(0 if mode == "r" else 1, mode, errors=errors, **words))
    _set_stream("stderr", os.fdopen(2, "w", buffering=1, errors="backslashreplace", **words))


def _set_stream(name: str, stream: Any) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _leave(code: int) -> None:
    """End as Python does, but let the system take back what 1,600 modules hold: that they do it costs 70 ms."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    os._exit(code)


if __name__ == "__main__":
    from tertulia.__main__ import main

    _import_everything()
    gc.freeze()
    sys.argv = _next_child(sys.argv[1], int(sys.argv[2]))
    _leave(main())
