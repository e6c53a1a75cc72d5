"""Runs git outside the sandbox so that it starts no program named by a repository, by its files or by the user.

The environment is built here, variable by variable, and forced settings override every configuration file. Of the
user's own configuration only a list of harmless values is passed on, never a file. So hooks, filters, drivers, helpers,
editors, pagers, signatures and the network are off. Files that need a filter are not converted; the callers report
them.
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
"""The first version in which a variable (`GIT_CONFIG_GLOBAL`) replaces the global configuration."""
TIMEOUT_S = 300.0
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_GRACE_S = 5.0
"""Seconds between SIGTERM, at which git removes its lock files, and SIGKILL."""
_CHUNK = 65_536
SLOW_S = 5.0
"""Seconds after which a running git is checked for a pipe that it waits for without end."""

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
"""Taken over from the user's configuration: values that decide about file content, ownership and the author. All are
data.
"""
_DRIVER = re.compile(r"(filter|hook|merge)\.(.*)\.[a-z]+", re.DOTALL)
_DRIVERS_OFF: Mapping[str, Mapping[str, str]] = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    # From git 2.54 on a configuration can define hooks itself, whatever `core.hooksPath` says.
    "hook": {"enabled": "false"},
    # An empty driver would succeed, and so silently take one side; a driver that fails leaves a conflict.
    "merge": {"driver": "false"},
}
_IDENTITY = ("Tertulia", "tertulia@localhost")
_NOT_IN_NAMES = ".,:;<>\"\\'" + "".join(map(chr, range(33)))
"""Git strips these characters from both ends of a name, and refuses to commit where nothing is left."""
_UNREAD = re.compile(
    rb"warning: could not open directory '(.*)': .*|(?:error: )?(.*): Permission denied|Ignoring path (.*)", re.DOTALL
)
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")


class Git(msgspec.Struct, frozen=True):
    """How git is run in one directory: the program, the directory, and every variable it gets."""

    program: str
    directory: Path
    """The working directory of git: the top of the tree that it works on."""
    variables: Mapping[str, str]
    settings: tuple[tuple[str, str], ...] = ()
    """Configuration names and values that override every file."""

    @classmethod
    async def find(cls, directory: Path, variables: Mapping[str, str], untrusted: Iterable[str | Path] = ()) -> Git:
        """Find git on the user's PATH, for the repository around a directory.

        A program inside that directory or an `untrusted` one is never used, and nothing of the repository but its data
        is trusted. Raises GitError where there is no git, one that is too old, no repository, or one that git refuses
        because another user owns it.
        """
        program = _program(variables, (directory, *untrusted))
        git = cls(program, directory, _environment(variables))
        # Before any repository is looked at, so that an old git is reported as such.
        await git._check_version()
        return await git._configured(variables)

    def at(self, tree: Path, store: Path) -> Git:
        """The same git for a tree with this git directory, which is passed in and not read from a file of the tree."""
        named = {"GIT_DIR": str(store), "GIT_WORK_TREE": str(tree)}
        return msgspec.structs.replace(self, directory=tree, variables={**self.variables, **named})

    async def with_drivers_off(self) -> Git:
        """The same git, with every filter, hook and merge driver switched off that the configuration names now."""
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
        """Run git; returns what it writes to its standard output.

        Args:
            words: The command and its arguments.
            stdin: The bytes of its standard input.
            index: The index file that it uses; None: that of the repository.
            variables: Further environment variables, such as names and times of a commit.
            timeout_s: Seconds after which git is terminated.
            max_bytes: The most bytes of output; a git that writes more is terminated.
            accepted: Exit codes that are no failure.
            unread: Collects the paths that git could not read or did not accept, and left out without failing.

        Raises:
            GitError: Git failed, took too long or wrote too much. The message has its error output, made safe to show.
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

    async def _configured(self, variables: Mapping[str, str]) -> Git:
        """The same git with the forced settings and with the user's values that are data."""
        # Read with the user's configuration files in effect: listing settings starts no program.
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
    """Find git on the PATH, but not in an untrusted tree and not in a relative folder such as the current directory."""
    folders = [folder for folder in variables.get("PATH", os.defpath).split(":") if folder.startswith("/")]
    trees = tuple(f"{os.path.realpath(tree)}/" for tree in untrusted)
    trusted = [folder for folder in folders if not f"{os.path.realpath(folder)}/".startswith(trees)]
    program = shutil.which("git", path=":".join(trusted))
    if program is None:
        raise GitError("there is no git on the PATH; install git, or use the shared workspace")
    return program


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of git, with only the user's places and PATH: a GIT_… variable could redirect what we write."""
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
    """Git's error output in one line, with control characters made visible, so that file names cannot forge text."""
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
    """A running git with its pipes. It leads a process group of its own, so that signals reach its children too."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ended = asyncio.Event()
        self.wrote_too_much = False

    async def exchange(self, stdin: bytes, most: int) -> tuple[bytes, bytes]:
        """Write its input, and read both outputs to their ends."""
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
        """Wait until git has ended. A slow git that waits for a pipe is terminated, and the path of the pipe is
        returned.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(SLOW_S):
                await self._ended.wait()
                return None
        pipe = await run_in_thread(find_pipe, directory, variables)
        if pipe is not None and not self._ended.is_set():
            self._signal(signal.SIGTERM)
        return None if self._ended.is_set() else pipe

    async def end(self) -> None:
        """End git and all that it started, where it still runs. A cancelled caller leaves no process behind either."""
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
                # Reads to the end of both outputs, so that the pipes are closed.
                await self._process.communicate()

    async def _read(self, stream: asyncio.StreamReader, most: int, *, bounded: bool) -> bytes:
        """At most `most` bytes of a stream. Where the stream is `bounded`, more output than that terminates git."""
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
    # Git may exit without reading all of its input; its exit code says whether that is an error.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(content)
        await stream.drain()
    stream.close()
