"""Which scripts and programs a command's words name, and what is in them.

A yes that lets a command leave the sandbox for longer than once holds for these as they are: a process that may write
them could else have it run anything. An allowlist of programs: for any that may run more than its words name (`make`,
`npm`, `git`, an interpreter with a module) a yes holds once.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tertulia.lazy_pattern import lazy_pattern
from tertulia.policy.commands.command_analysis import Words, read_script
from tertulia.policy.commands.safe_programs import KNOWN_PROGRAMS, reads_only, words
from tertulia.policy.plain_file import read_plain_file, read_whole_file

MAX_BYTES = 128 * 1024 * 1024
"""Of all files of one command together."""
MAX_FILES = 256
MAX_LOOKS = 20_000
"""Names that are looked up for one command."""
_MAX_TEXT = 1024 * 1024
"""Of a script in which other names are looked for."""

_SYSTEM = ("/bin", "/lib", "/lib64", "/nix", "/opt", "/sbin", "/snap", "/usr")
"""Where only an administrator changes a file, unless a root lies there. Of these only the path counts."""
_SHELLS = frozenset({"bash", "dash", "sh"})
_SCRIPT_FLAGS = frozenset({"-c", "-lc"})
_WRITING_TO = lazy_pattern(
    r"""('[^']*+'|"[^"]*+")|(?<![^ \t;|])[012&]?>{1,2}[ \t]*+(?:&[12]|[A-Za-z0-9_./,:@%+=-]++)(?=[ \t;|]|\Z)"""
)
"""Quotes, and outside of them output that goes to a file with a plain name: nothing is run by that."""
_SHELL_OPTION = lazy_pattern(r"-[aefhuvxCET]+|--noprofile|--norc|--posix")
_PYTHON = lazy_pattern(r"python(?:3(?:\.\d+)?)?")
_PYTHON_OPTION = lazy_pattern(r"-[BEIOPsSuq]+")
_IMPORTED = (".py", ".pyc", ".so")
_BUILTINS = frozenset({":", "echo", "exit", "false", "pwd", "true"})
"""Not `printf` and `test`: bash's own evaluate what they are given, and that can run anything."""
_CHANGING = words("chgrp chmod chown cp kill ln mkdir mv ping rm rmdir sleep sync tee touch truncate")
"""Beside the programs that only read: these start nothing, with whatever options."""
_CURL_LOADS = lazy_pattern(r"--(?:config|engine|cert|key|proxy-cert|proxy-key)|-[^-]*[KE]")
_PASSING_ON = frozenset({"cp", "ln", "mv"})
"""They may take a whole directory along."""
_CODE = (".bash", ".cjs", ".js", ".lua", ".mjs", ".mk", ".php", ".pl", ".py", ".rb", ".sh", ".so", ".ts", ".zsh")
_NAME = lazy_pattern(r"[\w.@%+,~/-]+")

_LOADING = frozenset({"CDPATH", "CURL_HOME", "ENV", "GCONV_PATH", "IFS", "LOCPATH", "RIPGREP_CONFIG_PATH", "SHELLOPTS"})
_LOADING_BEGINNINGS = ("BASH", "LD_", "OPENSSL_", "PYTHON")
_HOMES = ("HOME", "XDG_CONFIG_HOME")
_HARMLESS = frozenset(
    {"PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONUTF8"}
)


class NamedFile(msgspec.Struct, frozen=True, gc=False, order=True):
    """A script or a program, as it is at the moment."""

    path: str
    digest: str | None
    """SHA-256 of where it leads and of what is in it; None where that is the system's."""


class NamedFiles(msgspec.Struct, frozen=True):
    """What a grant is bound to besides the words."""

    files: tuple[NamedFile, ...] = ()
    known: bool = True
    """False: the command may run other files too, so nothing can be granted for longer."""

    @property
    def contents(self) -> tuple[NamedFile, ...]:
        """The files that a process here could change."""
        return tuple(file for file in self.files if file.digest is not None)

    def changed_since(self, before: NamedFiles) -> tuple[str, ...]:
        """Files that are new, other or gone since then."""
        new, old = set(self.files) - set(before.files), set(before.files) - set(self.files)
        return tuple(sorted({file.path for file in new or old}))


WORDS_ALONE = NamedFiles()
"""Of a command that stays in its sandbox: that holds it, whatever a file says."""


def named_files(argv: Sequence[str], cwd: str, environment: Mapping[str, str], roots: Sequence[str]) -> NamedFiles:
    """The files that this command, started here with these variables, would run. Reads them; may take a second.

    `roots` are the places that commands may write; whatever else is not the system's counts as changeable too.
    """
    search = _Search(cwd, environment, roots)
    try:
        known = search.is_plain() and search.look(tuple(argv))
    except (OSError, ValueError):
        known = False
    return NamedFiles(tuple(sorted(search.found.values())), known)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether this is one of these directories or lies in one; both are canonical."""
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


class _Search:
    """One command's. What takes too much is a ValueError."""

    def __init__(self, cwd: str, environment: Mapping[str, str], roots: Sequence[str]) -> None:
        self.found: dict[str, NamedFile] = {}
        self._cwd = os.path.realpath(cwd)
        self._environment = environment
        self._roots = tuple(map(os.path.realpath, roots))
        self._folders = [os.path.join(self._cwd, entry) for entry in environment.get("PATH", "").split(":")]
        self._own_folders = [entry for entry in self._folders if self._is_own(os.path.realpath(entry))]
        self._bytes = self._looks = 0

    def is_plain(self) -> bool:
        """No variable has programs load what a process here could change."""
        homes = [os.path.realpath(self._environment.get(name, "/nonexistent")) for name in _HOMES]
        if any(map(self._is_own, homes)):
            return False
        return all(
            all(piece.startswith("/") and not self._can_change(os.path.realpath(piece)) for piece in value.split(":"))
            for name, value in self._environment.items()
            if value and name not in _HARMLESS and (name in _LOADING or name.startswith(_LOADING_BEGINNINGS))
        )

    def look(self, command: Words, *, in_shell: bool = False) -> bool:
        """Note what one command runs; whether that is all."""
        first, arguments = command[0], command[1:]
        self._note_code(arguments)
        if in_shell and first in _BUILTINS:
            return True
        if in_shell and first in (".", "source"):
            return bool(arguments) and "/" in arguments[0] and self._script(arguments[0])
        path = self._program(first)
        # After a `cd` a name means another file, wherever there is a program called so as well.
        if path is None or first == "cd":
            return False
        real = self._note(path)
        if self._is_own(path):
            return self._is_own(real) and self._own_program(path)
        return self._others_program(os.path.basename(path), arguments)

    # ── kinds of programs ────────────────────────────────────────────────────────────────────────────────────

    def _own_program(self, path: str) -> bool:
        head = read_plain_file(path, _MAX_TEXT)
        if head.startswith(b"\x7fELF"):
            return True
        if not head.startswith(b"#!"):
            return self._script(path)
        line = head[2:].split(b"\n", 1)[0].decode().split(maxsplit=1)
        if line and line[0] == "/usr/bin/env":
            line = line[1:]
        interpreter = self._program(line[0]) if line else None
        # One of the workspace brings libraries of its own, or an interpreter again.
        return interpreter is not None and not self._is_own(interpreter) and self.look((interpreter, *line[1:], path))

    def _others_program(self, name: str, arguments: Words) -> bool:
        if name in _SHELLS:
            return self._shell(arguments)
        if _PYTHON.fullmatch(name):
            return self._python(arguments)
        if name in _PASSING_ON and any(self._is_own_directory(word) for word in arguments):
            return False
        if name == "curl":
            # Settings in a file, and keys and engines that are libraries.
            return not any(_CURL_LOADS.match(word) for word in arguments)
        return name in _CHANGING or (name in KNOWN_PROGRAMS and name != "git" and reads_only((name, *arguments)))

    def _shell(self, arguments: Words) -> bool:
        match arguments:
            case (flag, text) if flag in _SCRIPT_FLAGS:
                script = read_script(_WRITING_TO.sub(_without, text))
                # Each of them is looked at, also after one of which not all is known: so what changed can be told.
                seen = [] if script is None else [self.look(entry, in_shell=True) for entry in script.commands]
                return script is not None and all(seen)
            case _:
                file = _after_options(arguments, _SHELL_OPTION)
                return file is not None and self._script(file)

    def _python(self, arguments: Words) -> bool:
        """A script's directory is the first in which it looks for modules, also for those of the standard library."""
        file = _after_options(arguments, _PYTHON_OPTION)
        if file is None:
            return False
        real = self._note(os.path.join(self._cwd, file))
        folder = os.path.dirname(real)
        if not self._can_change(folder):
            return True
        for place, folders, names in os.walk(folder):
            self._spend(len(folders) + len(names))
            folders[:] = [name for name in folders if name.isidentifier()]
            for name in names:
                if name.endswith(_IMPORTED):
                    self._note(os.path.join(place, name))
        return True

    def _script(self, word: str) -> bool:
        """What its text names is noted as well. A name that is put together when it runs cannot be."""
        todo = [os.path.join(self._cwd, word)]
        self._note(todo[0])
        while todo:
            path = todo.pop()
            text = read_whole_file(path, _MAX_TEXT).decode("utf-8", "replace")
            for name in dict.fromkeys(_NAME.findall(text)):
                todo += self._code_called(name, (os.path.dirname(path), self._cwd))
        return True

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────

    def _program(self, word: str) -> str | None:
        if "/" in word:
            return _in_its_folder(os.path.join(self._cwd, word))
        places = (os.path.join(folder, word) for folder in self._folders)
        return next(
            (_in_its_folder(entry) for entry in places if os.path.isfile(entry) and os.access(entry, os.X_OK)), None
        )

    def _note_code(self, arguments: Words) -> None:
        for word in arguments:
            for piece in {word, word.partition("=")[2]} - {""}:
                self._code_called(piece, (self._cwd,))

    def _code_called(self, name: str, folders: Sequence[str]) -> list[str]:
        """Notes the code that this may be the name of, and returns what was new."""
        new: list[str] = []
        names = {name, name.lstrip("/"), os.path.basename(name)} - {""}
        places = {os.path.join(folder, entry) for entry in names for folder in (*folders, *self._own_folders)}
        self._spend(len(places))
        for place in sorted(places):
            path = _in_its_folder(place)
            if path not in self.found and self._is_code(path):
                self._note(path)
                new.append(path)
        return new

    def _is_code(self, path: str) -> bool:
        real = os.path.realpath(path)
        if not (self._is_own(path) or self._is_own(real)):
            return False
        try:
            seen = os.stat(real)
        except OSError:
            return False
        return stat.S_ISREG(seen.st_mode) and (bool(seen.st_mode & 0o111) or path.endswith(_CODE))

    def _note(self, path: str) -> str:
        """Where it leads. OSError or ValueError where that is no plain file."""
        path, real = _in_its_folder(path), os.path.realpath(path)
        if path not in self.found:
            self._spend(1)
            digest = None
            if self._can_change(path) or self._can_change(real):
                content = read_whole_file(real, MAX_BYTES - self._bytes)
                self._bytes += len(content)
                digest = hashlib.sha256(os.fsencode(real) + b"\0" + content).hexdigest()
            if len(self.found) >= MAX_FILES:
                raise ValueError("too many files")
            self.found[path] = NamedFile(path, digest)
        return real

    def _spend(self, looks: int) -> None:
        self._looks += looks
        if self._looks > MAX_LOOKS:
            raise ValueError("too many names")

    def _is_own_directory(self, word: str) -> bool:
        place = os.path.realpath(os.path.join(self._cwd, word))
        return self._is_own(place) and os.path.isdir(place)

    def _is_own(self, path: str) -> bool:
        return is_below(path, self._roots)

    def _can_change(self, path: str) -> bool:
        return self._is_own(path) or not is_below(path, _SYSTEM)


def _without(found: re.Match[str]) -> str:
    return found[1] or " "


def _after_options(arguments: Words, option: re.Pattern[str]) -> str | None:
    """The first word that is none of these; None where it is another option, or there is none."""
    first = next((word for word in arguments if option.fullmatch(word) is None), "-")
    return None if first.startswith(("-", "+")) else first


def _in_its_folder(path: str) -> str:
    """With links on the way followed, and the last one not: who may write it is who may turn it elsewhere."""
    folder, name = os.path.split(path)
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)
