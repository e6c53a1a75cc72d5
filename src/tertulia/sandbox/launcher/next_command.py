"""The process that becomes a command: it prepares what it can, takes a request, confines itself and executes it.

It is forked before there is a request, and does before whatever does not depend on one: in the Landlock tier it already
stands in a pid namespace of its own, without capabilities, and has the rules and the system call filter of the command
before. Where the request has other rules, or files have changed, it makes new ones; where it has another filter, which
cannot be undone, it hands the request back, and a new process takes it. Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import termios
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from tertulia.sandbox.launcher.landlock import FileRules, Ruleset, drop_capabilities, install_filter, rehearse
from tertulia.sandbox.launcher.process_namespace import NamespaceSupport, hide, split
from tertulia.sandbox.limits.usage import usage_before

TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""Sent by a terminal to every process in front of it, and meant for the command."""

REQUEST_FDS = 5
"""The request itself, 0, 1, 2, and a control line."""
GO = b"g"
_NOT_BEGUN = 125
_KEEPERS_PART = ("session", "removes", "limits")
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *TERMINAL_SIGNALS)

_SAMPLE_REQUEST = """{
    "argv": ["true"], "environment": {"A": "b"}, "cwd": "/", "temporary": "/", "rlimits": [[4, 0, 0]],
    "session": true, "removes": ["/"], "limits": {"processes": 1, "memory": 1, "written": 1},
    "restrict": {"rules": {"version": 1, "writable": ["/"], "masked": ["/a"]}, "filter": {"program": "00"}}
}"""

Confinement = dict[str, Any]
"""Of a request: its `rules`, as of `FileRules`, and its `filter`, the program and the machine."""


class KeeperTerms(NamedTuple):
    """What holds for all commands of a launcher."""

    confines: bool
    """Each command is restricted by Landlock, and has no capabilities."""
    namespace: NamespaceSupport
    early: bool
    """Every request wants a pid namespace with a `/proc` of its own: it is made before the request comes."""


class KeeperLines:
    """The descriptors of a keeper, besides those of its command."""

    def __init__(self, requests: socket.socket, alive: int, launcher: int) -> None:
        self.requests, self.alive, self.launcher = requests, alive, launcher
        # Readable after any child has ended, also an adopted one.
        self.ended, writing = os.pipe()
        os.set_blocking(self.ended, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)


def read_request(written: int) -> dict[str, Any]:
    """The request, from its beginning: the keeper and the command have the same open file."""
    return json.loads(os.pread(written, os.fstat(written).st_size, 0))


def _for_keeper(request: dict[str, Any]) -> dict[str, Any]:
    """What the keeper needs of a request, and what there was in use before the command.

    That is looked at here and not by the keeper, so that the command need not wait for it.
    """
    confinement: Confinement | None = request["restrict"]
    roots = [] if confinement is None else [*confinement["rules"]["writable"], request["temporary"]]
    before = usage_before(roots) if any(request["limits"].values()) else None
    return {**{name: request[name] for name in _KEEPERS_PART}, "roots": roots, "before": before}


class NextCommand:
    """Prepares what it can, takes a request, and becomes the command."""

    def __init__(
        self, lines: KeeperLines, keeper: socket.socket, held: int, terms: KeeperTerms, expected: Confinement | None
    ) -> None:
        self._lines, self._keeper, self._held, self._terms, self._expected = lines, keeper, held, terms, expected
        self._is_inside = False
        self._has_capabilities = True
        self._ruleset: Ruleset | None = None
        self._filter: object = None
        """The filter that is installed, if one is."""
        self._error: OSError | None = None
        """Why it could not prepare: told to the client whose request it takes."""

    def become(self, failing: int, taken: list[int]) -> NoReturn:
        """Errors go to `failing`, and the keeper reports them. `taken`: a request that another process has taken."""
        step = "confine"
        try:
            _reset_signals()
            # A request that is there already is taken at once: the next process is forked meanwhile.
            fds = taken or _receive(self._lines, wait=False)
            if not fds:
                self._prepare_early()
                fds = _receive(self._lines, wait=True)
            request, streams = self._read_request(*fds)
            if self._terms.confines:
                self._drop_capabilities()
            _prepare(request, streams)
            if request["restrict"] is not None:
                self._restrict(request["restrict"], request["temporary"])
            step = "exec"
            os.execvpe(request["argv"][0], request["argv"], request["environment"])
        except OSError as error:
            os.write(failing, f"{step}:{error.errno}:{error.strerror}".encode())
        finally:
            os._exit(_NOT_BEGUN)

    def _prepare_early(self) -> None:
        if self._terms.early:
            try:
                self._is_inside = self._enter_namespace()
            except OSError as error:
                self._error = error
        if self._terms.confines:
            self._confine_early()
        _rehearse_request()

    def _confine_early(self) -> None:
        if self._error is not None or not (self._is_inside or not self._terms.namespace.kind):
            # A namespace is still to be made, which no filter allows.
            rehearse()
            return
        # What is refused now is tried again with the request, and told then.
        with suppress(OSError):
            self._drop_capabilities()
            if self._expected is None:
                rehearse()
            else:
                self._ruleset = Ruleset(FileRules(**self._expected["rules"]))
                self._install(self._expected["filter"])

    def _drop_capabilities(self) -> None:
        """Not before a namespace is made, which takes one of them, or gives some."""
        if self._has_capabilities:
            drop_capabilities()
            self._has_capabilities = False

    def _restrict(self, confinement: Confinement, temporary: str) -> None:
        """By the rules that are there, if they are the same and still right; else by new ones."""
        rules, ruleset = FileRules(**confinement["rules"]), self._ruleset
        if ruleset is None or ruleset.rules != rules or not ruleset.is_current():
            ruleset = Ruleset(rules)
        ruleset.restrict(temporary)
        if self._filter is None:
            self._install(confinement["filter"])

    def _install(self, wanted: dict[str, str]) -> None:
        install_filter(bytes.fromhex(wanted["program"]), wanted["machine"])
        self._filter = wanted

    def _read_request(self, written: int, *others: int) -> tuple[dict[str, Any], list[int]]:
        """The request, and its streams. The keeper gets it too, and the line to the product.

        Or all of it, where this process has another filter by now, and ends.
        """
        *streams, control = others
        request = read_request(written)
        if self._filter is not None and request["restrict"]["filter"] != self._filter:
            socket.send_fds(self._keeper, [b"o"], [written, *others])
            os._exit(0)
        wants_namespace = bool(self._terms.namespace.kind) and request["pid_namespace"]
        try:
            if self._error is not None:
                raise self._error
            if wants_namespace and not self._is_inside:
                self._is_inside = self._enter_namespace()
            if request["hidden"]:
                if not self._is_inside:
                    raise OSError(errno.ENOSPC, "there is no namespace left in which places could be hidden")
                hide(request["hidden"])
        finally:
            socket.send_fds(self._keeper, [json.dumps(_for_keeper(request)).encode()], [written, control])
        for fd in (written, control, self._held, self._lines.requests.detach()):
            os.close(fd)
        return request, streams

    def _enter_namespace(self) -> bool:
        """Go on in a pid namespace, as a child of the keeper; False where the kernel has none left to give."""
        first, program = split(self._terms.namespace.kind, self._held)
        if program:
            self._keeper.send(b"%d %d" % (first, program))
            os._exit(0)
        if first:
            self._wait_for_keeper()
        return first != 0

    def _wait_for_keeper(self) -> None:
        if self._keeper.recv(1) != GO:
            os._exit(_NOT_BEGUN)


def _rehearse_request() -> None:
    """Go through the steps of a request that change nothing, on a sample, while none is there.

    What a process shares with the one that it was forked from is copied, page by page, when it is first touched. No
    command waits for that here.
    """
    request = json.loads(_SAMPLE_REQUEST)
    json.dumps(_for_keeper(request)).encode()
    FileRules(**request["restrict"]["rules"])
    for kind, _, _ in request["rlimits"]:
        resource.getrlimit(kind)
    with suppress(OSError):
        # Below a file there is no program.
        os.execvpe(f"{os.devnull}/{request['argv'][0]}", request["argv"], request["environment"])


def _receive(lines: KeeperLines, *, wait: bool) -> list[int]:
    """The descriptors of the next request, for which other processes wait too; exits when there will be none.

    None where there is none by now and it is not to wait.
    """
    poll = select.poll()
    poll.register(lines.requests, select.POLLIN)
    poll.register(lines.alive, 0)
    while ready := poll.poll(None if wait else 0):
        if any(fd == lines.alive for fd, _ in ready):
            os._exit(_NOT_BEGUN)
        with suppress(BlockingIOError):
            data, fds, _, _ = socket.recv_fds(lines.requests, 1, REQUEST_FDS, socket.MSG_DONTWAIT)
            if not data:
                os._exit(_NOT_BEGUN)
            return fds
    return []


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _CHANGED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)


def _prepare(request: dict[str, Any], streams: list[int]) -> None:
    if request["session"]:
        os.setsid()
    else:
        os.setpgid(0, 0)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request["lent"]:
        # From behind, the kernel would stop us for this.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        os.tcsetpgrp(0, os.getpgrp())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])
    os.chdir(request["cwd"])
    for kind, soft, hard in request["rlimits"]:
        _, now = resource.getrlimit(kind)
        if now == resource.RLIM_INFINITY or hard < now:
            resource.setrlimit(kind, (soft, hard))
