"""llama.cpp in a process of its own, as those see it who ask it.

The program is `llama`. Each request has a socket of its own, which is handed to that process: streams cannot mix, any
event loop may ask, and hanging up is what stops a model.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from tertulia.models.local import llama_program
from tertulia.sandbox.limits.open_files import restore_child_limit

_STOP_S = 2.0
"""A model that has not stopped by then is ended with its process. It looks up at each token that it says, and now and
then while it reads."""
_LONGEST_LINE = 1 << 20


class EngineEndedError(Exception):
    """The process ended before the answer did."""


class EngineLines:
    """What an engine answers, as it comes."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next(self) -> bytes:
        """A chunk of Chat Completions, or `[DONE]`. EngineEnded when nothing more will come."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):  # the second for a line without an end
            line = b""
        if not line.endswith(b"\n"):
            raise EngineEndedError
        return line[:-1]


class Engine:
    """A process with weights in memory. It ends with the last reference to it, and with our own process."""

    def __init__(self, weights: Path, context_window: int) -> None:
        """Start it, and wait for nothing: requests wait until it has loaded. OSError: the system does not let us."""
        self._control, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str(weights), str(context_window)]
        with theirs, ExitStack() as stack:
            stack.callback(self._control.close)
            # A session of its own: a Ctrl-C at the terminal is for us, and how its model stops is for us to say.
            self._process = subprocess.Popen(
                [sys.executable, "-P", llama_program.__file__, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.pop_all()
        restore_child_limit(self._process.pid)
        self.end = weakref.finalize(self, _end, self._process, self._control)
        """Stop the process at once. May be called twice."""

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @asynccontextmanager
    async def ask(self, body: bytes) -> AsyncGenerator[EngineLines]:
        """Send a body of Chat Completions. On leaving, the model has stopped. EngineEnded: its process is gone."""
        reader, writer = await self._connect()
        try:
            writer.write(body + b"\n")
            yield EngineLines(reader)
        finally:
            await self._hang_up(reader, writer)

    async def exit_code(self) -> int:
        """How it ended; one that hangs is ended."""
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self._process.wait, _STOP_S)
        self.end()
        return self._process.wait()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"?"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise EngineEndedError from None
        return await asyncio.open_unix_connection(sock=ours, limit=_LONGEST_LINE)

    async def _hang_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stopped = False
        try:
            async with asyncio.timeout(_STOP_S):
                writer.write_eof()
                # A connection that breaks means that the process is gone, and the model with it.
                with suppress(OSError):
                    while await reader.read(_LONGEST_LINE):
                        pass
            stopped = True
        except TimeoutError:
            pass
        finally:
            if not stopped:
                self.end()
            writer.close()


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    process.kill()
    process.wait()
    control.close()


class SharedEngine:
    """The one engine of this process for a file, for all who hold it.

    Started when it is first needed; ended when the last holder has let go, or when all were forgotten.
    """

    def __init__(self, weights: Path, context_window: int) -> None:
        self._weights = weights
        self._context_window = context_window
        self._engine: Engine | None = None
        self._holders: weakref.WeakSet[object] = weakref.WeakSet()
        self._changing = threading.Lock()

    def hold(self, holder: object) -> None:
        """Keep the engine running for this holder."""
        with self._changing:
            self._holders.add(holder)

    def let_go(self, holder: object) -> None:
        """This holder needs the engine no longer."""
        with self._changing:
            self._holders.discard(holder)
            if self._engine is not None and not self._holders:
                self._engine.end()
                self._engine = None

    def running(self) -> Engine:
        """The engine; a new one where there is none, or none that lives."""
        with self._changing:
            if self._engine is None or not self._engine.alive:
                self._engine = Engine(self._weights, self._context_window)
            return self._engine


_shared: weakref.WeakValueDictionary[Path, SharedEngine] = weakref.WeakValueDictionary()
_finding = threading.Lock()


def shared_engine(weights: Path, context_window: int) -> SharedEngine:
    """The same for everybody who names the same file. Starts nothing."""
    with _finding:
        return _shared.setdefault(weights, SharedEngine(weights, context_window))
