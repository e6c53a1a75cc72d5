"""Git in a conversation's own repository: run where `allow_git` is on, else the hint about a protected `.git`.

The git that we run is confined more than a command is: it may write the `.git` directory and nothing else, masks hold,
there is no network, and whatever git could start is switched off. So a command still never writes `.git` itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.policy.commands.command_analysis import safe_environment
from tertulia.policy.commands.git_repository import FORCED_FOR_WRITES, looks_bare, why_git_may_not_write
from tertulia.policy.commands.git_writing import GIT_VERBS, GitWrite, read_git
from tertulia.policy.rights import Rights
from tertulia.protocol.events import WarningEvent
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.sandbox.runner import Command, CommandResult, Confinement
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.threads import run_in_thread

_LISTING_BYTES = 1 << 24
_LISTING_TIMEOUT_S = 60.0
_MOST_NAMED = 5
_PROGRAM_FILES = ("config", "config.worktree", "hooks", "info")
"""Files of `.git` that configure or start other programs. The git that is run here does not need them."""
_NO_FILTER = ("unspecified", "unset", "set")
_DRIVER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}
GIT_PROTECTED = "git_protected"
"""The code of the warning that a command failed because `.git` is protected."""
_IS_PROTECTED = "`.git` is protected: a command in the sandbox can read it and not change it."
_VERBS = ", ".join(f"`git {verb}`" for verb in GIT_VERBS)
_PROTECTED = re.compile(rb"\.git\b[^\n]*(?:Read-only file system|Permission denied|Device or resource busy)")


async def as_git_write(place: CommandEnvironment, command: Command, rights: Rights) -> Command:
    """The confined git that runs instead of a command that `allow_git` covers; else the command itself.

    SandboxError where it would take in a file that has a filter.
    """
    reading = read_git(command.argv) if rights.allow_git else None
    if reading is None or reading.write is None:
        return command
    root = _own_repository(command.cwd, command.confinement)
    if root is None or await run_in_thread(why_git_may_not_write, f"{root}/.git") is not None:
        return command
    runner = _RepositoryGit(place, command, root)
    await runner.switch_filters_off()
    await runner.check_filters(reading.write)
    return runner.command(reading.write)


def fails_for_protected_git(command: Command, finished: CommandResult) -> bool:
    """Whether a command says that it failed because it could not change `.git`."""
    confinement = command.confinement
    if finished.exit_code == 0 or confinement.mode != "workspace_write" or confinement.git_stores:
        return False
    return _PROTECTED.search(finished.output.head + finished.output.tail) is not None


def protected_git_hint(command: Command, finished: CommandResult, rights: Rights) -> str | None:
    """What a model is told of a command that failed because `.git` is protected, and how it can go on."""
    if not fails_for_protected_git(command, finished):
        return None
    if rights.allow_git:
        ways = [f"The user allows {_VERBS} here, each as one plain command; this was not one: {_reason(command)}."]
    else:
        ways = [f"The user can allow {_VERBS} in this conversation with the setting allow_git = true."]
    if rights.approval_policy.may_ask:
        ways.append(
            "To run it outside the sandbox, call again with sandbox_permissions = 'require_escalated' and a "
            "justification: the user is asked, and a yes is one key."
        )
    return " ".join((_IS_PROTECTED, *ways))


def protected_git_warning(command: Command, finished: CommandResult) -> WarningEvent | None:
    """The warning for people that a command failed because `.git` is protected."""
    if not fails_for_protected_git(command, finished):
        return None
    way = f"With allow_git = true a conversation may run {_VERBS}, each as one plain command."
    return WarningEvent(f"{_IS_PROTECTED} {way}", GIT_PROTECTED)


def _reason(command: Command) -> str:
    reading = read_git(command.argv)
    if reading is None or reading.write is None:
        return "it does not run git itself" if reading is None else reading.reason
    root = _own_repository(command.cwd, command.confinement)
    if root is None:
        return "its repository is not a `.git` directory at the top of a writable root"
    return why_git_may_not_write(f"{root}/.git") or "the repository has changed meanwhile"


def _own_repository(cwd: str, confinement: Confinement) -> str | None:
    """The writable root that has the repository of this directory at its top, as a directory; None where none has.

    A `.git` further down is what a command has made itself, or another repository; a file or link leads elsewhere.
    """
    roots = confinement.writable_roots if confinement.mode == "workspace_write" else ()
    place = cwd
    while any(is_inside(place, root) for root in roots):
        entry = os.path.join(place, ".git")
        if looks_bare(place):
            return None
        if os.path.lexists(entry):
            is_plain = place in roots and os.path.isdir(entry) and not os.path.islink(entry)
            return place if is_plain else None
        place = os.path.dirname(place)
    return None


class _RepositoryGit:
    """Runs git in one repository, confined to it."""

    def __init__(self, place: CommandEnvironment, command: Command, root: str) -> None:
        self._place, self._original, self._root = place, command, root
        self._settings = dict(FORCED_FOR_WRITES)
        below = os.path.relpath(command.cwd, root)
        self._beginning = ("git",) if below == "." else ("git", "-C", below)

    async def switch_filters_off(self) -> None:
        """Every driver that any configuration names: git also runs them for files that the command does not name."""
        names = await self._list("config", "-z", "--name-only", "--get-regexp", r"^filter\.", may_fail=True)
        drivers = {name[len("filter.") :].rpartition(".")[0] for name in names}
        self._settings |= {f"filter.{driver}.{key}": value for driver in drivers for key, value in _DRIVER_KEYS.items()}

    async def check_filters(self, write: GitWrite) -> None:
        """Raise SandboxError where files that would be added have attributes that name a filter."""
        taken = await self._taken(write)
        if not taken:
            return
        words = await self._list("check-attr", "-z", "--stdin", "filter", stdin=taken)
        filtered = [
            f"{path} ({driver})"
            for path, driver in zip(words[::3], words[2::3], strict=True)
            if driver not in _NO_FILTER
        ]
        if filtered:
            more = f" and {len(filtered) - _MOST_NAMED:,} more" if len(filtered) > _MOST_NAMED else ""
            raise SandboxError(
                f"git was not run: the attributes of {', '.join(filtered[:_MOST_NAMED])}{more} name a filter, and "
                "no program of a repository is started here. Name other files, or ask for the sandbox to be left "
                "(sandbox_permissions = 'require_escalated')"
            )

    def command(self, write: GitWrite) -> Command:
        """The git command with everything switched off that could start another program."""
        argv = (*self._beginning, write.verb, *write.arguments)
        return replace(
            self._original,
            argv=argv,
            cwd=self._root,
            confinement=self._confinement(),
            environment=self._environment(),
            watch=None,
        )

    async def _taken(self, write: GitWrite) -> list[str]:
        """The files that the command would add, relative to the top of the repository."""
        if write.takes == "nothing":
            return []
        taken: list[str] = []
        if write.verb == "commit":
            taken += await self._list("diff", "--cached", "--name-only", "-z", "--no-ext-diff", "--no-renames")
        if write.takes != "index":
            others = ("-o", *(() if write.ignored_too else ("--exclude-standard",)))
            kinds = ("-m", *(others if write.takes == "everything" else ()))
            taken += await self._list("ls-files", "-z", "--full-name", *kinds, "--", *write.paths)
        return [*dict.fromkeys(taken)]

    async def _list(self, *arguments: str, stdin: Sequence[str] = (), may_fail: bool = False) -> list[str]:
        """What a git that only reads lists."""
        from_top = arguments[0] == "check-attr"
        command = replace(
            self._original,
            argv=(*(("git",) if from_top else self._beginning), *arguments),
            cwd=self._root,
            confinement=replace(self._original.confinement, mode="read_only", network=False),
            environment=self._environment(),
            stdin="".join(f"{name}\0" for name in stdin).encode("utf-8", "surrogateescape"),
            kept_output_bytes=_LISTING_BYTES,
            terminal=None,
            watch=None,
        )
        finished = await self._place.runner.run(command, timeout_s=_LISTING_TIMEOUT_S)
        if finished.output.truncated or finished.ended != "exited" or (finished.exit_code != 0 and not may_fail):
            text = finished.output.text()[-300:].strip() or finished.ended
            raise SandboxError(f"git was not run: the files that it would take in cannot be listed ({text})")
        text = (finished.output.head + finished.output.tail).decode("utf-8", "surrogateescape")
        return text.split("\0")[:-1]

    def _confinement(self) -> Confinement:
        """Writes to `.git` alone; where mounts can protect them, without the files that configure other programs."""
        confinement, store = self._original.confinement, f"{self._root}/.git"
        closed: list[str] = []
        if self._place.runner.expected_tier == "bubblewrap":
            closed = [path for name in _PROGRAM_FILES if os.path.lexists(path := f"{store}/{name}")]
        return replace(
            confinement,
            writable_roots=(store,),
            network=False,
            protected=(),
            protected_paths=(*confinement.protected_paths, *closed),
            git_stores=(store,),
        )

    def _environment(self) -> Mapping[str, str]:
        place, settings = self._place, self._settings
        roots = (place.root, *self._original.confinement.writable_roots)
        store = f"{self._root}/.git"
        return {
            **safe_environment(place.environment, roots),
            "GIT_ASKPASS": "false",
            "GIT_COMMON_DIR": store,
            "GIT_DIR": store,
            "GIT_EDITOR": "false",
            "GIT_SEQUENCE_EDITOR": "false",
            "GIT_WORK_TREE": self._root,
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(settings)},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(settings.values())},
        }
