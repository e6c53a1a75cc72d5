"""Searches files below its working directory, for `grep` and `glob` where there is no ripgrep.

Run inside the sandbox, by `confined_program`; it writes what ripgrep would write with `--null`. It imports nothing of
ours but the patterns of paths beside it, follows no symbolic link, skips what ignore files name, binary files and
`.git`, and stops when its time is over.

    {"verb": "files", "target": PATH, "glob": PATTERN or null, "seconds": SECONDS}        → PATH NUL, for each
    {"verb": "grep", …, "pattern": TEXT, "ignore_case": BOOL, "output": "lines" | "files" | "count", "context": LINES,
     "limit": RECORDS}
        → PATH NUL LINE ":" TEXT NEWLINE for each line that matches, "-" instead of ":" around it
        → PATH NUL for each file (files), PATH NUL COUNT NEWLINE (count)

Exit codes: 0, 2 for a pattern that cannot be read (the reason on stderr), 3 when the time is over.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

CHUNK = 1 << 22
"""Bytes of a file that are searched at a time."""
MAX_IGNORE_BYTES = 1 << 20
MAX_DEPTH = 200
MAX_COLUMNS = 500
"""Bytes of a line that are written."""
IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Rules = tuple[tuple[str, Any], ...]
"""(the path of a directory below the target with a slash or empty, its rules), the outermost first."""


class OutOfTimeError(Exception):
    """The time that the request allows is over."""


class EnoughError(Exception):
    """As much was found as is wanted."""


def path_patterns() -> Any:
    """The module beside this file, which is not found otherwise: the program runs isolated."""
    # Last: what is called like a module of Python must not come before it.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    return importlib.import_module("path_patterns")


patterns = path_patterns()


def main(request: dict[str, Any]) -> None:
    """Write what the request finds."""
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    out = sys.stdout.buffer
    try:
        glob = patterns.compile_glob(request["glob"]) if request["glob"] else None
        found = paths(request["target"], glob)
        if request["verb"] == "files":
            for path in found:
                out.write(os.fsencode(path) + b"\0")
        else:
            grep(found, request, out.write)
    except (re.error, patterns.PatternError, RecursionError, OverflowError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except OutOfTimeError:
        out.flush()
        sys.exit(3)
    except EnoughError:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)


def _out_of_time(*_: object) -> None:
    raise OutOfTimeError


# ── walking ──────────────────────────────────────────────────────────────────────────────────────────────────


def paths(target: str, glob: re.Pattern[str] | None) -> Iterator[str]:
    """The files below the target, sorted in each directory, that no ignore file names; the target itself if a file."""
    if not os.path.isdir(target):
        yield target
        return
    yield from _below(target, "", rules_above(target), glob, 0)


def _below(top: str, inside: str, rules: Rules, glob: re.Pattern[str] | None, depth: int) -> Iterator[str]:
    """`inside`: the directory's path below the top, empty or with a slash at its end."""
    try:
        with os.scandir(os.path.join(top, inside) if inside else top) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    own = read_rules(top, inside, [entry.name for entry in entries])
    rules = (*rules, (inside, own)) if own is not None else rules
    folders: list[str] = []
    for entry in entries:
        name, path = entry.name, inside + entry.name
        try:
            is_directory = entry.is_dir(follow_symlinks=False)
            wanted = is_directory or entry.is_file(follow_symlinks=False)
        except OSError:
            continue
        if not wanted or name == ".git" or (rules and is_ignored(rules, path, name, is_directory)):
            continue
        if is_directory:
            folders.append(path + "/")
        elif glob is None or glob.match(path):
            yield path if top == "." else os.path.join(top, path)
    if depth < MAX_DEPTH:
        for folder in folders:
            yield from _below(top, folder, rules, glob, depth + 1)


def is_ignored(rules: Rules, path: str, name: str, is_directory: bool) -> bool:
    """Whether the innermost directory whose rules say anything says that it is."""
    for inside, own in reversed(rules):
        below = inside[1:] + path if inside.startswith("/") else path[len(inside) :]
        verdict = own.ignores(below, name, is_directory)
        if verdict is not None:
            return verdict
    return False


def read_rules(top: str, inside: str, names: list[str]) -> Any:
    """The rules of a directory's ignore files, those of the later names stronger; None where there are none."""
    lines: list[str] = []
    for name in IGNORE_FILES:
        if name in names:
            lines += read_lines(os.path.join(top, inside, name))
    if ".git" in names:
        lines = read_lines(os.path.join(top, inside, ".git/info/exclude")) + lines
    return patterns.IgnoreRules(lines) if lines else None


def read_lines(path: str) -> list[str]:
    """The lines of a small plain file; none where it cannot be read."""
    try:
        descriptor = os.open(path, _FILE)
    except OSError:
        return []
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return []
        return file.read(MAX_IGNORE_BYTES).decode("utf-8", "surrogateescape").split("\n")


def rules_above(target: str) -> Rules:
    """The rules of the directories above the target, up to the repository that it is in."""
    here = os.path.realpath(target)
    found: list[tuple[str, Any]] = []
    inside = ""
    while not os.path.lexists(os.path.join(here, ".git")) and (above := os.path.dirname(here)) != here:
        inside = f"{os.path.basename(here)}/{inside}"
        here = above
        names = [name for name in (*IGNORE_FILES, ".git") if os.path.lexists(os.path.join(here, name))]
        own = read_rules(here, "", names)
        if own is not None:
            # A leading slash marks what has to be put before a path below the target.
            found.append((f"/{inside}", own))
    return tuple(reversed(found))


# ── searching ────────────────────────────────────────────────────────────────────────────────────────────────


class LineSearch(NamedTuple):
    """What is looked for, and how it is written."""

    regex: re.Pattern[str]
    output: str
    context: int
    limit: int


def grep(found: Iterator[str], request: dict[str, Any], write: Callable[[bytes], object]) -> None:
    """LineSearch all files and write what is found."""
    flags = re.MULTILINE | (re.IGNORECASE if request["ignore_case"] else 0)
    search = LineSearch(re.compile(request["pattern"], flags), request["output"], request["context"], request["limit"])
    room = search.limit
    for path in found:
        records = search_file(path, search, room)
        if records:
            room -= len(records)
            write(b"".join(records))
        if room <= 0:
            raise EnoughError


def search_file(path: str, search: LineSearch, room: int) -> list[bytes]:
    """What is written of one file; nothing of a binary one."""
    try:
        descriptor = os.open(path, _FILE)
    except OSError:
        return []
    named = os.fsencode(path) + b"\0"
    records: list[bytes] = []
    count = line = 0
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return []
        for text in texts(descriptor):
            lines, number = matching_lines(text, search.regex), line
            line += text.count("\n")
            count += len(lines)
            if lines and search.output == "files":
                return [named]
            if search.output == "lines":
                records += shown(text, lines, search.context, named, number)
                if len(records) >= room:
                    return records
    except ValueError:
        return []
    finally:
        os.close(descriptor)
    return records if search.output == "lines" or not count else [named + b"%d\n" % count]


def texts(descriptor: int) -> Iterator[str]:
    """The text of a file in pieces of whole lines; ValueError where it is binary."""
    rest = b""
    while chunk := os.read(descriptor, CHUNK):
        if not rest and chunk.startswith(_WIDE) and (text := wide_text(descriptor, chunk)) is not None:
            yield text
            return
        if b"\0" in chunk:
            raise ValueError("a binary file")
        if len(chunk) < CHUNK and not rest:
            # Most files: one piece, read to the end.
            more = os.read(descriptor, CHUNK)
            if not more:
                yield chunk.decode("utf-8", "surrogateescape")
                return
            chunk += more
            if b"\0" in more:
                raise ValueError("a binary file")
        end = chunk.rfind(b"\n") + 1
        if not end and len(rest) < CHUNK:
            rest += chunk
            continue
        yield (rest + chunk[:end]).decode("utf-8", "surrogateescape")
        rest = chunk[end:]
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def wide_text(descriptor: int, begin: bytes) -> str | None:
    """The text of a file in UTF-16 that begins with a mark; None where it is none, or a long one."""
    more = os.read(descriptor, CHUNK) if len(begin) < CHUNK else b"x"
    if more:
        return None
    try:
        return begin.decode("utf-16")
    except UnicodeDecodeError:
        return None


def matching_lines(text: str, regex: re.Pattern[str]) -> list[tuple[int, int]]:
    """(begin, end) of each line in which something matches."""
    found: list[tuple[int, int]] = []
    at, size = 0, len(text)
    while at <= size and (match := regex.search(text, at)) is not None:
        start = match.start()
        if start == size and (not size or text[-1] == "\n"):
            break
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start)
        end = size if end < 0 else end
        if match.end() > end and regex.search(text[begin:end]) is None:
            # What matches goes over the end of a line: that counts for none.
            at = end + 1
            continue
        found.append((begin, end))
        at = end + 1
    return found


def shown(text: str, lines: list[tuple[int, int]], context: int, named: bytes, before: int) -> list[bytes]:
    """The records of these lines and of those around them; `before`: how many lines came before the text."""
    numbers: list[int] = []
    number = at = 0
    for begin, _ in lines:
        number += text.count("\n", at, begin)
        at = begin
        numbers.append(number)
    if not context:
        return [
            record(named, before + number + 1, b":", text[begin:end])
            for number, (begin, end) in zip(numbers, lines, strict=True)
        ]
    whole = text.removesuffix("\n").split("\n")
    matching = set(numbers)
    near = {at for number in numbers for at in range(max(0, number - context), min(len(whole), number + context + 1))}
    return [record(named, before + at + 1, b":" if at in matching else b"-", whole[at]) for at in sorted(near)]


def record(named: bytes, number: int, mark: bytes, line: str) -> bytes:
    """One line as it is written, cut where it is too long."""
    text = line[: MAX_COLUMNS + 1].encode("utf-8", "surrogateescape").rstrip(b"\r")
    return b"%b%d%b%b\n" % (named, number, mark, text[: MAX_COLUMNS + 1])
