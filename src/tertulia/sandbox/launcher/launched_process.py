"""Our side of the launcher: it is started when it is first needed, and each command has a socket of its own to it.

`UnconfinedTier` uses it for `danger_full_access`, which the user chose: nothing is confined, and all processes of a
command still end with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, cast

import msgspec

from tertulia.errors import SandboxUnavailableError
from tertulia.sandbox.foreground import may_lend
from tertulia.sandbox.limits.open_files import limit_before
from tertulia.sandbox.mounts.helper_client import end_helper, memory_fd
from tertulia.sandbox.runner import Command, LimitName, Output, TierName
from tertulia.sandbox.tier import Namespace, OnProcessEnd, ProcessEnd, SpawnedProcess, Streams, may_remain

_CODE = """
import sys
sys.path.insert(0, {source!r})
from tertulia.sandbox.launcher.program import serve
confines, in_front = sys.argv[3] == "confines", sys.argv[4] == "in front"
serve(int(sys.argv[1]), int(sys.argv[2]), confines=confines, in_front=in_front, open_files=int(sys.argv[5]))
"""
"""Read from standard input: a kill by what a command line says must not reach the guardian."""
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
_REPORT_BYTES = 65_536
_BY_SIGKILL = 128 + 9
_CLOSE_TIMEOUT_S = 10.0


_found: dict[str, Namespace] = {}
"""The same for every launcher of a kind, as long as we live."""


class LauncherClient:
    """A process that starts others. One for each tier that needs it."""

    __slots__ = ("_confines", "_gone", "_in_front", "_line", "_process")

    def __init__(self, *, confines: bool) -> None:
        self._confines = "confines" if confines else "does not"
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._in_front = False
        self._gone: int | None = None
        """Says which the guardian and the launcher are, and ends when nothing of them is left."""

    @property
    def namespace(self) -> Namespace | None:
        """In which its programs run, where they do; None: not before one has ended."""
        return _found.get(self._confines)

    def spawn(
        self, command: Command, streams: Streams, rules: Mapping[str, Any], ended: OnProcessEnd
    ) -> LaunchedProcess:
        """Have the command started under these rules; a launcher that has died is started again."""
        with ExitStack() as passing, ExitStack() as failing:
            try:
                ours, theirs = socket.socketpair()
                passing.callback(theirs.close)
                failing.callback(ours.close)
                request = memory_fd(json.dumps(_request(command, rules)).encode("utf-8", "surrogateescape"))
                passing.callback(os.close, request)
                fds = [request, streams.stdin, streams.stdout, streams.stderr, theirs.fileno()]
                self._send(fds, in_front=command.inherit_stdio)
            except OSError as error:
                raise SandboxUnavailableError(
                    f"the command cannot be handed to its launcher: {error.strerror}"
                ) from None
            failing.pop_all()
        return LaunchedProcess(ours, ended, self._confines)

    def close(self) -> None:
        """It ends by itself when its line does, with all that it has started; waits for that."""
        end_helper(self._line, self._process)
        self._line = self._process = None
        if self._gone is not None:
            poll = select.poll()
            poll.register(self._gone, 0)
            poll.poll(_CLOSE_TIMEOUT_S * 1000)
            os.close(self._gone)
            self._gone = None

    def _send(self, fds: list[int], *, in_front: bool) -> None:
        if self._process is not None:
            # It has left the rest to the guardian, and only waits to be reaped.
            self._process.poll()
        # One that was started apart has no terminal to lend.
        if self._line is not None and (self._in_front or not in_front):
            with suppress(OSError):
                socket.send_fds(self._line, [b"1"], fds)
                return
        self.close()
        self._line, self._in_front = self._start(in_front), in_front
        socket.send_fds(self._line, [b"1"], fds)

    def _start(self, in_front: bool) -> socket.socket:
        with ExitStack() as passing, ExitStack() as failing:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            passing.callback(theirs.close)
            failing.callback(ours.close)
            gone, living = os.pipe()
            passing.callback(os.close, living)
            failing.callback(os.close, gone)
            code = memory_fd(_CODE.format(source=_SOURCE).encode())
            passing.callback(os.close, code)
            where, files = "in front" if in_front else "apart", str(limit_before() or 0)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-", str(theirs.fileno()), str(living), self._confines, where, files],
                env={},
                cwd="/",
                stdin=code,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), living],
                start_new_session=not in_front,
            )
            failing.pop_all()
        self._gone = gone
        return ours


class _Report(msgspec.Struct):
    """How it ended; of one in front of a terminal a line comes before, with its number alone."""

    leader: int | None = None
    exit_code: int = 0
    limit: LimitName | None = None
    written: int = 0
    failure: str = ""
    namespace: Namespace | None = None


class LaunchedProcess:
    """The running command; implements `SpawnedProcess`."""

    def __init__(self, line: socket.socket, ended: OnProcessEnd, launcher: str) -> None:
        self._line, self._ended, self._launcher = line, ended, launcher
        self._leader: int | None = None
        self._loop = asyncio.get_running_loop()
        line.setblocking(False)
        self._loop.add_reader(line, self._hear)

    def kill(self) -> None:
        """The keeper kills all that it has adopted."""
        with suppress(OSError):
            self._line.send(b"K")

    def terminate(self) -> None:
        """The keeper passes it on."""
        with suppress(OSError):
            self._line.send(b"T")

    def leader(self) -> int | None:
        """The process that the keeper has named."""
        return self._leader

    def _hear(self) -> None:
        try:
            data = self._line.recv(_REPORT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        known, newline, data = data.rpartition(b"\n")
        if newline:
            self._leader = msgspec.json.decode(known, type=_Report).leader
            if not data:
                return
        self._loop.remove_reader(self._line)
        self._line.close()
        report = msgspec.json.decode(data, type=_Report) if data else _Report(exit_code=_BY_SIGKILL)
        if report.namespace is not None:
            _found[self._launcher] = report.namespace
        self._ended(_ending(report))


def _ending(report: _Report) -> ProcessEnd:
    if not report.failure:
        return ProcessEnd(
            report.exit_code, limit=report.limit, sampled=report.limit is not None, written=report.written
        )
    step, _, failure = report.failure.partition(":")
    number, _, reason = failure.partition(":")
    if step == "exec":
        return ProcessEnd(127 if int(number) == 2 else 126, reason=reason)
    return ProcessEnd(report.exit_code, began=False, reason=reason)


def _request(command: Command, rules: Mapping[str, Any]) -> dict[str, Any]:
    texts = cast("dict[str, Any]", msgspec.to_builtins({"argv": command.argv, "cwd": command.cwd}))
    return {
        **texts,
        "environment": dict(command.environment),
        "session": not command.inherit_stdio,
        "lent": command.inherit_stdio and may_lend(),
        "terminal": command.terminal is not None,
        "rlimits": [],
        "limits": {"processes": None, "memory": None, "written": None},
        "removes": list(command.temporary),
        "restrict": None,
        "hidden": [],
        # A person's terminal is of another namespace: no process there could be in front of it.
        "pid_namespace": command.pid_namespace and not command.inherit_stdio,
        **rules,
    }


class UnconfinedTier:
    """Implements `Tier`, except that it confines nothing."""

    name: TierName = "none"
    listed_attempts: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._launcher = LauncherClient(confines=False)
        self.hidden: tuple[str, ...] = ()
        """Places that no program sees; then each has a namespace, or does not begin."""

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Nothing is; and the tree may remain."""
        return ("anything: the command may do whatever the user may", *may_remain(self._launcher.namespace))

    @property
    def namespace(self) -> Namespace | None:
        """The namespace of programs that are to have one; see `LauncherClient.namespace`."""
        return self._launcher.namespace

    def identity(self) -> tuple[object, ...]:
        """Empty: it rests on no program."""
        return ()

    def find(self) -> str:
        """There is nothing to find."""
        return ""

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """Start the command as it is, without limits too."""
        hiding = {"hidden": self.hidden, "pid_namespace": True} if self.hidden else {}
        return self._launcher.spawn(command, streams, hiding, ended)

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        """The ending, as it was reported."""
        return ending

    def close(self) -> None:
        """End the launcher, with all that it has started."""
        self._launcher.close()
