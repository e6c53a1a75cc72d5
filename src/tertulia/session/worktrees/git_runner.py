"""Git as we run it ourselves, outside the sandbox: it starts no program that a repository, its files or the user name.

Its environment is made here, variable by variable, and the settings that it is told count more than any file. Of the
user's own configuration it gets a list of harmless values, no file. So hooks, filters, drivers, helpers, editors,
pagers, signatures and the network are off; what is a filter's work stays undone, and the callers name such files.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from tertulia.errors import GitError
from tertulia.policy.commands.git_repository import FORCED_FOR_WRITES
from tertulia.policy.display_text import printable
from tertulia.session.worktrees.git_stalls import find_pipe
from tertulia.tools.threads import run_in_thread

OLDEST_GIT: tuple[int, int] = (2, 32)
"""The first that can be told its global configuration (`GIT_CONFIG_GLOBAL`)."""
TIMEOUT_S = 300.0
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_GRACE_S = 5.0
"""After SIGTERM, at which git removes its lock files."""
_CHUNK = 65_536
SLOW_S = 5.0
"""When a git takes longer, it is looked whether it waits for what never comes."""

_FORCED: Mapping[str, str] = {
    **FORCED_FOR_WRITES,
    "advice.detachedhead": "false",
    "checkout.workers": "1",
    "core.alternaterefscommand": "",
    "core.checkstat": "default",
    "core.gitproxy": "",
    "core.ignorestat": "false",  # changes would not be seen, and lost
    "core.safecrlf": "false",
    "core.sparsecheckout": "false",
    "core.splitindex": "false",
    "core.trustctime": "true",
    "core.untrackedcache": "false",
    "i18n.commitencoding": "utf-8",
    "index.sparse": "false",
    "merge.renormalize": "false",
    "protocol.allow": "never",
    "rerere.enabled": "false",
    "worktree.guessremote": "false",
}
_USER_VALUES = frozenset(
    {"core.attributesfile", "core.autocrlf", "core.eol", "core.excludesfile", "safe.directory", "user.email"}
    | {"user.name"}
)
"""Of the user's own configuration: what decides about the content of files, ownership and the author. All are data."""
_DRIVER = re.compile(r"(filter|hook|merge)\.(.*)\.[a-z]+", re.DOTALL)
_DRIVERS_OFF: Mapping[str, Mapping[str, str]] = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    # From 2.54 on a configuration can name hooks itself, wherever `core.hooksPath` leads.
    "hook": {"enabled": "false"},
    # An empty one would end well, and so take one side; one that fails leaves a conflict.
    "merge": {"driver": "false"},
}
_IDENTITY = ("Tertulia", "tertulia@localhost")
_NOT_IN_NAMES = ".,:;<>\"\\'" + "".join(map(chr, range(33)))
"""Git takes these off both ends of a name, and does not commit where nothing is left."""
_UNREAD = re.compile(
    rb"warning: could not open directory '(.*)': .*|(?:error: )?(.*): Permission denied|Ignoring path (.*)", re.DOTALL
)
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")


class Git(msgspec.Struct, frozen=True):
    """How git is run in one place: the program, the directory, and every variable it gets."""

    program: str
    directory: Path
    """Where it is started: the top of the tree that it works on."""
    variables: Mapping[str, str]
    settings: tuple[tuple[str, str], ...] = ()
    """Names and values that count more than any file."""

    @classmethod
    async def find(cls, directory: Path, variables: Mapping[str, str], untrusted: Iterable[str | Path] = ()) -> Git:
        """The git that the user's variables name, for the repository around a directory.

        No program of that directory is it, nor of an `untrusted` one.

        Nothing of the repository is trusted but its data. GitError where there is no git, an old one, no repository, or
        one that git does not use because another user owns it.
        """
        program = _program(variables, (directory, *untrusted))
        git = cls(program, directory, _environment(variables))
        # On its own, before a repository is looked at.
        await git._check_version()
        return await git._told(variables)

    def at(self, tree: Path, store: Path) -> Git:
        """The same git for a tree whose git directory is known: no file of the tree says where that is."""
        named = {"GIT_DIR": str(store), "GIT_WORK_TREE": str(tree)}
        return msgspec.structs.replace(self, directory=tree, variables={**self.variables, **named})

    async def with_drivers_off(self) -> Git:
        """The same git, told to use no filter, hook or merge driver that its configuration names at this moment."""
        names = (await self.run("config", "--list", "-z", "--name-only")).decode("utf-8", "surrogateescape").split("\0")
        return msgspec.structs.replace(self, settings=(*self.settings, *_drivers_off(names)))

    async def run(
        self,
        *words: str,
        stdin: bytes = b"",
        index: Path | None = None,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = MAX_OUTPUT_BYTES,
        accepted: Iterable[int] = (0,),
        unread: list[bytes] | None = None,
    ) -> bytes:
        """What git writes to its standard output.

        Args:
            words: The command and its arguments.
            stdin: What it reads.
            index: The file that it uses as index.
            variables: Variables that it gets on top, such as names and times of a commit.
            timeout_s: Then it is ended.
            max_bytes: The most that it may write.
            accepted: The exit codes that are no failure.
            unread: Gets the paths that git could not look at, or does not take, and left out without failing.

        Raises:
            GitError: It failed, took too long or wrote too much. Its words are in the message, made safe to show.
        """
        environment = {**self.variables, **_as_variables(self.settings), **(variables or {})}
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        code, output, errors = await _run(
            (self.program, *words), self.directory, environment, stdin, timeout_s=timeout_s, max_bytes=max_bytes
        )
        if code not in accepted:
            raise GitError(f"`git {words[0]}` failed: {_shown(errors) or f'exit code {code}'}", exit_code=code)
        if unread is not None:
            unread += [path for line in errors.splitlines() if (path := _unread_path(line)) is not None]
        return output

    async def _check_version(self) -> None:
        found = _VERSION.match(await self.run("--version"))
        version: tuple[int, int] = (0, 0) if found is None else (int(found[1]), int(found[2]))
        if version < OLDEST_GIT:
            raise GitError(
                f"git {version[0]}.{version[1]} ({self.program}) is too old: {OLDEST_GIT[0]}.{OLDEST_GIT[1]} or newer "
                "is needed"
            )

    async def _told(self, variables: Mapping[str, str]) -> Git:
        """With the forced settings, and those of the user that are data."""
        # Read where the user's files count: to list settings starts nothing.
        places = {name: variables[name] for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if name in variables}
        own = {name: value for name, value in self.variables.items() if not name.startswith("GIT_CONFIG_")}
        reader = msgspec.structs.replace(self, variables={**own, **places})
        listed = (await reader.run("config", "--list", "-z")).decode("utf-8", "surrogateescape")
        entries = [(name, value) for name, _, value in (entry.partition("\n") for entry in listed.split("\0"))]
        last = dict(entries)
        named = (last.get("user.name", ""), last.get("user.email", ""))
        who = [name if name.strip(_NOT_IN_NAMES) else ours for name, ours in zip(named, _IDENTITY, strict=True)]
        identity = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in zip(("NAME", "EMAIL"), who, strict=True)
        }
        harmless = ((name, value) for name, value in entries if name in _USER_VALUES)
        settings = (*harmless, *_FORCED.items(), *_drivers_off(last))
        return msgspec.structs.replace(self, variables={**self.variables, **identity}, settings=settings)


def _program(variables: Mapping[str, str], untrusted: Iterable[str | Path]) -> str:
    """Not one of a tree that it is to work on, nor of the directory that the process happens to be in."""
    folders = [folder for folder in variables.get("PATH", os.defpath).split(":") if folder.startswith("/")]
    trees = tuple(f"{os.path.realpath(tree)}/" for tree in untrusted)
    trusted = [folder for folder in folders if not f"{os.path.realpath(folder)}/".startswith(trees)]
    program = shutil.which("git", path=":".join(trusted))
    if program is None:
        raise GitError("there is no git on the PATH; install git, or use the shared workspace")
    return program


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """No variable of the user's but places: each GIT_… of theirs could redirect what we write."""
    places = {name: variables[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in variables}
    return {
        **places,
        "PATH": variables.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_ADVICE": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_ASKPASS": "false",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_EDITOR": "false",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_SSH_COMMAND": "false",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _drivers_off(names: Iterable[str]) -> list[tuple[str, str]]:
    found = {(match[1], match[2]) for name in names if (match := _DRIVER.fullmatch(name)) is not None}
    return [(f"{kind}.{name}.{key}", off) for kind, name in sorted(found) for key, off in _DRIVERS_OFF[kind].items()]


def _as_variables(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    numbered = list(enumerate(settings))
    return {
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered},
        **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered},
    }


def _unread_path(line: bytes) -> bytes | None:
    found = _UNREAD.fullmatch(line)
    return None if found is None else found[1] or found[2] or found[3]


def _shown(errors: bytes) -> str:
    """Git's own words in one line that no file name can turn into anything else."""
    text = errors.decode("utf-8", "replace")
    lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in text.splitlines() if line.strip()]
    return printable("; ".join(lines))[:500]


async def _run(
    argv: tuple[str, ...],
    directory: Path,
    environment: Mapping[str, str],
    stdin: bytes,
    *,
    timeout_s: float,
    max_bytes: int,
) -> tuple[int, bytes, bytes]:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=directory,
            env=dict(environment),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise GitError(f"git cannot be started in {str(directory)!r}: {error.strerror}") from None
    run = _GitProcess(process)
    try:
        async with asyncio.timeout(timeout_s):
            (output, errors), pipe = await asyncio.gather(
                run.exchange(stdin, max_bytes), run.find_pipe(directory, environment)
            )
    except TimeoutError:
        raise GitError(f"`git {argv[1]}` took longer than {timeout_s:g} s and was ended") from None
    finally:
        await run.end()
    if pipe is not None:
        raise GitError(
            f"`git {argv[1]}` waited for {printable(pipe)}, which is a pipe or a device and no file, and was ended: "
            "remove it, or name another file"
        )
    if run.wrote_too_much:
        raise GitError(f"`git {argv[1]}` wrote more than {max_bytes:,} bytes and was ended")
    return await process.wait(), output, errors


class _GitProcess:
    """A started git with its pipes. It leads a process group, which ends with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ended = asyncio.Event()
        self.wrote_too_much = False

    async def exchange(self, stdin: bytes, most: int) -> tuple[bytes, bytes]:
        """Feed it, and read both outputs to their ends."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            output, errors, _ = await asyncio.gather(
                self._read(process.stdout, most, bounded=True),
                self._read(process.stderr, _MAX_ERROR_BYTES, bounded=False),
                _feed(process.stdin, stdin),
            )
            await process.wait()
        finally:
            self._ended.set()
        return output, errors

    async def find_pipe(self, directory: Path, variables: Mapping[str, str]) -> str | None:
        """Wait until it has ended; one that takes long and waits for a pipe is ended, and the path of that is here."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SLOW_S):
                await self._ended.wait()
                return None
        pipe = await run_in_thread(find_pipe, directory, variables)
        if pipe is not None and not self._ended.is_set():
            self._signal(signal.SIGTERM)
        return None if self._ended.is_set() else pipe

    async def end(self) -> None:
        """End what is left of it, with all that it started. A cancelled caller leaves no process behind."""
        process = self._process
        if process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        try:
            await self._gone()
        finally:
            if process.returncode is None:
                self._signal(signal.SIGKILL)
                await self._gone()

    async def _gone(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                # Reads to the ends, so that the pipes are closed.
                await self._process.communicate()

    async def _read(self, stream: asyncio.StreamReader, most: int, *, bounded: bool) -> bytes:
        """All of it, or the beginning where there is more; too much of what is bounded ends the process."""
        content = bytearray()
        while piece := await stream.read(_CHUNK):
            if bounded and len(content) + len(piece) > most and not self.wrote_too_much:
                self.wrote_too_much = True
                self._signal(signal.SIGTERM)
            content += piece[: most - len(content)]
        return bytes(content)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


async def _feed(stream: asyncio.StreamWriter, content: bytes) -> None:
    # It may end without reading all: its exit code says whether that was right.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(content)
        await stream.drain()
    stream.close()
