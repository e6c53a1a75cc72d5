"""A disk that loses its power: what of a run's writes would be left, as far as nothing but flushes can be relied on."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

_CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
_WRITE = re.compile(r'\d+<(.*?)>, "((?:\\x..)*)", \d+(?:, (\d+))?$')
_WRITEV = re.compile(r'\d+<(.*?)>, \[\{iov_base="((?:\\x..)*)"')
_FD = re.compile(r"\d+<(.*?)>(?:, (\d+))?$")
_NAMES = re.compile(r'"((?:\\x..)*)"')

TRACED = "openat,mkdir,rename,unlink,write,pwrite64,writev,ftruncate,fsync,fdatasync"


class File:
    """What was written, and how much of it was flushed."""

    def __init__(self) -> None:
        self.now = b""
        self.safe = b""
        self.loose: list[tuple[int, bytes]] = []
        """Writes since the last flush."""

    def write(self, at: int, data: bytes) -> None:
        self.now = self.now[:at].ljust(at, b"\0") + data + self.now[at + len(data) :]
        self.loose.append((at, data))

    def truncate(self, size: int) -> None:
        self.now = self.now[:size].ljust(size, b"\0")

    def flush(self) -> None:
        self.safe, self.loose = self.now, []

    def after_power_loss(self, dice: random.Random | None) -> bytes:
        """Only what was flushed; or that and, by chance, some of the rest, in any order."""
        content = self.safe
        for at, data in self.loose if dice is not None else ():
            if dice is not None and dice.random() < 0.5:
                content = content[:at].ljust(at, b"\0") + data + content[at + len(data) :]
        return content


class Disk:
    """Follows a trace, call by call."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names: dict[str, File | None] = {}
        """Files, and directories as None."""
        self._safe_names: dict[str, File | None] = {}
        self.told = b""

    def follow(self, trace: str) -> Iterator[str]:
        """Take the calls in order; after each that matters, its name."""
        for name, arguments in _calls(trace):
            if _spelled(self._folder) in arguments:
                self._take(name, arguments)
                yield name

    def leave(self, target: Path, dice: random.Random | None) -> None:
        """Put what is left into another folder."""
        target.mkdir()
        (target / "told").write_bytes(self.told)
        for name, file in sorted(self._safe_names.items()):
            place = target / Path(name).relative_to(self._folder)
            if place.parent.is_dir() and not name.endswith(("-shm", ".lock")):
                if file is None:
                    place.mkdir(0o700)
                else:
                    place.write_bytes(file.after_power_loss(dice))

    def _take(self, name: str, arguments: str) -> None:
        match name:
            case "writev":
                self.told += _bytes(_found(_WRITEV, arguments)[2])
            case "write" | "pwrite64":
                path, data, at = _found(_WRITE, arguments).groups()
                if isinstance(file := self._names.get(_bytes(path).decode()), File):
                    file.write(len(file.now) if at is None else int(at), _bytes(data))
            case "ftruncate":
                path, size = _found(_FD, arguments).groups()
                if isinstance(file := self._names.get(_bytes(path).decode()), File):
                    file.truncate(int(size))
            case "fsync" | "fdatasync":
                self._flush(_bytes(_found(_FD, arguments)[1]).decode())
            case _:
                self._name(name, [_bytes(spelled).decode() for spelled in _NAMES.findall(arguments)], arguments)

    def _name(self, call: str, paths: list[str], arguments: str) -> None:
        match call:
            case "mkdir":
                self._names[paths[0]] = None
            case "rename":
                self._names[paths[1]] = self._names.pop(paths[0])
            case "unlink":
                self._names.pop(paths[0], None)
            case _ if "O_CREAT" in arguments:
                self._names.setdefault(paths[0], File())

    def _flush(self, path: str) -> None:
        file = self._names.get(path)
        if isinstance(file, File):
            file.flush()
            return
        # A directory: its names as they are now, those that are gone too.
        self._safe_names = {name: file for name, file in self._safe_names.items() if str(Path(name).parent) != path}
        self._safe_names |= {name: file for name, file in self._names.items() if str(Path(name).parent) == path}


def _calls(trace: str) -> Iterator[tuple[str, str]]:
    """Successful calls, each when it was done: one that another thread interrupted is put together again."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        thread, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[thread] = text.removesuffix("<unfinished ...>")
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", text):
            text = begun.pop(thread) + resumed[1]
        if (call := _CALL.match(text)) and int(call[3]) >= 0:
            yield call[1], call[2]


def _found(pattern: re.Pattern[str], arguments: str) -> re.Match[str]:
    found = pattern.match(arguments)
    assert found, arguments[:200]
    return found


def _spelled(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def _bytes(spelled: str) -> bytes:
    return ast.literal_eval(f'b"{spelled}"')
