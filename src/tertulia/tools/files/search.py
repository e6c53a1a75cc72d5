"""Runs a search of files in the sandbox: ripgrep where it is installed, else a program of ours that writes the same.

Both honour ignore files, skip `.git` and binary files, and follow no link. What comes out is bounded in time and size,
and nothing of a masked place is in it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, NotFoundError, SandboxError
from tertulia.policy.display_text import visible
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.sandbox.mounts.entries import HIDDEN
from tertulia.sandbox.runner import Command, CommandResult
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.confined_program import confined_program
from tertulia.tools.files import search_program
from tertulia.tools.tool import CallContext

SECONDS = 20.0
"""That a search may take."""
MAX_BYTES = 8 * 1024 * 1024
"""Of a search's output; what comes after it is not read."""
MAX_ERROR_CHARACTERS = 500

_PROGRAM = confined_program(search_program.__file__)
_RIPGREP = (
    "--no-config", "--color=never", "--no-messages", "--null", "--hidden", "--no-require-git", "--no-ignore-global",
    "--glob=!.git",
)  # fmt: skip


class SearchPlace(msgspec.Struct, frozen=True):
    """The directory or file that a search begins at, and how its paths are shown."""

    directory: str
    """Canonical; the working directory of the search."""
    target: str
    """`.`, or `./NAME` of the one file that is searched."""
    prefix: str
    """What stands before each path that a model reads: empty, or with a slash at its end."""
    masked: tuple[str, ...]

    def shown(self, path: bytes) -> str | None:
        """A path of the output as a model reads it; None where it is not to be seen."""
        plain = path.removeprefix(b"./")
        absolute = os.path.join(self.directory, os.fsdecode(plain))
        if any(is_inside(absolute, mask) for mask in self.masked):
            return None
        return visible(self.prefix + plain.decode("utf-8", "replace"))


class SearchOutput(msgspec.Struct, frozen=True):
    """What a search has written."""

    data: bytes
    stopped: str | None = None
    """Why there may be more; None where this is all."""


def search_place(place: CommandEnvironment, path: str | None, call: CallContext) -> SearchPlace:
    """Where a path leads; InvalidParams where the call may not look, NotFound where nothing is."""
    root, relative = place.locate(path or ".", call)
    real = os.path.realpath(os.path.join(root, relative))
    # Links were followed: what they lead to must be readable as well.
    place.locate(real, call)
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise NotFoundError(f"{path!r:.200} cannot be searched: {error.strerror}") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise InvalidParamsError(f"{path!r:.200} is neither a directory nor a file")
    directory = real if stat.S_ISDIR(mode) else os.path.dirname(real)
    target = "." if stat.S_ISDIR(mode) else f"./{os.path.basename(real)}"
    below = os.path.relpath(directory, os.path.realpath(call.cwd))
    prefix = "" if below == "." else f"{directory.rstrip('/') if below.split('/')[0] == '..' else below}/"
    free = call.rights.sandbox == "danger_full_access"
    masked = () if free else tuple(call.hidden(place.masked))
    return SearchPlace(directory, target, prefix, masked)


async def run_search(
    place: CommandEnvironment,
    at: SearchPlace,
    ripgrep: Iterable[str],
    request: Mapping[str, Any],
    call: CallContext,
    max_records: int | None = None,
) -> SearchOutput:
    """What ripgrep writes with these arguments, or our program to this request.

    `max_records`: lines after which it is stopped. InvalidParams where a pattern cannot be read.
    """
    program = find_ripgrep(place, call)
    if program is not None:
        argv, stdin = (program, *_RIPGREP, *ripgrep, "--", at.target), b""
    else:
        argv, stdin = _PROGRAM, msgspec.json.encode({"target": at.target, "seconds": SECONDS, **request})
    command = Command(
        argv=argv,
        cwd=at.directory,
        confinement=place.own_confinement(call),
        environment=place.environment,
        stdin=stdin,
        kept_output_bytes=1024,
    )
    output = _Output(max_records)
    finished = await _run(place, command, output)
    return _checked(output, finished)


def find_ripgrep(place: CommandEnvironment, call: CallContext) -> str | None:
    """Ripgrep on the user's PATH, where no command of a model could have put it."""
    found = shutil.which("rg", path=place.environment.get("PATH", ""))
    if found is None or not os.path.isabs(found):
        return None
    real = os.path.realpath(found)
    roots = place.confinement(call.rights, call.worktree).writable_roots
    outside = (place.root, call.cwd, *roots, *HIDDEN)
    return None if any(is_inside(path, root) for path in (found, real) for root in outside) else real


class _Output:
    """Collects what a search writes, and knows when it is enough."""

    def __init__(self, max_records: int | None) -> None:
        self.pieces: list[bytes] = []
        self.errors: list[bytes] = []
        self.full = asyncio.Event()
        self._bytes = 0
        self._records = 0
        self._max_records = max_records

    def take(self, data: bytes) -> None:
        if self.full.is_set():
            return
        self.pieces.append(data)
        self._bytes += len(data)
        self._records += 0 if self._max_records is None else data.count(b"\n")
        if self._bytes > MAX_BYTES or (self._max_records is not None and self._records > self._max_records):
            self.full.set()

    def take_error(self, data: bytes) -> None:
        if len(self.errors) < 16:
            self.errors.append(data)


async def _run(place: CommandEnvironment, command: Command, output: _Output) -> CommandResult:
    """Run it to its end, to the deadline, or until there is enough."""
    running = await place.runner.start(command, output.take, output.take_error)
    try:
        async with asyncio.TaskGroup() as group:
            # One more second: our own program ends by itself, and says so.
            waiting = group.create_task(running.wait(SECONDS + 1))
            enough = group.create_task(output.full.wait())
            await asyncio.wait((waiting, enough), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            enough.cancel()
    finally:
        finished = running.finished or await running.kill()
    return finished


def _checked(output: _Output, finished: CommandResult) -> SearchOutput:
    data = b"".join(output.pieces)[:MAX_BYTES]
    if output.full.is_set():
        return SearchOutput(data, "there is more")
    if finished.ended == "not_started":
        raise SandboxError(f"the search could not be confined and was not run: {finished.reason}")
    if finished.ended != "exited" or finished.exit_code == 3:
        return SearchOutput(data, f"it took longer than {SECONDS:g} s")
    if finished.exit_code not in (0, 1) and not data:
        text = b"".join(output.errors).decode("utf-8", "replace").strip()
        if finished.exit_code == 2 and not text:
            # Ripgrep ends so as well where it may not read a file, and says nothing: it is told to.
            return SearchOutput(data)
        if finished.exit_code == 2:
            raise InvalidParamsError(f"the pattern cannot be used: {text[:MAX_ERROR_CHARACTERS]}")
        raise SandboxError(f"the search failed with exit code {finished.exit_code}: {text[:MAX_ERROR_CHARACTERS]}")
    return SearchOutput(data)
