"""`grep`: the model finds lines that match a pattern, without starting a command of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.tools.command_environment import PlacedTool
from tertulia.tools.files.path_patterns import PatternError, compile_glob
from tertulia.tools.files.search import SearchOutput, SearchPlace, run_search, search_place
from tertulia.tools.files.specs import DEFAULT_LIMIT, GREP
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext, Outcome, Result

MAX_PATTERN = 2_000
MAX_COLUMNS = 500
_SHORT_BYTES = 32 * 1024
"""What is rendered in less than a millisecond."""


# Names of files alone, which ripgrep can sort out without being told to look at what is ignored.
_NAME_GLOB = re.compile(r"[\w.*?{},+@~-]+", re.ASCII)
_NOTICE = re.compile(rb"\A(?:[^\n\0]*(?:stopped searching binary file|inary file matches)[^\n\0]*\n)+")
_LINE = re.compile(rb"([^\0]*)\0(\d+)([:-])([^\n]*)\n")
_COUNT = re.compile(rb"([^\0]*)\0(\d+)\n")


class _Found(msgspec.Struct, frozen=True):
    path: str
    number: int
    mark: str
    text: str


class Grep(PlacedTool):
    """One search a call, confined like a command."""

    spec = GREP

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a place that the call may not read, and patterns that cannot be read."""
        pattern = arguments["pattern"]
        if len(pattern) > MAX_PATTERN or "\0" in pattern or "\n" in pattern:
            raise InvalidParamsError(f"pattern must be one line of at most {MAX_PATTERN:,} characters")
        if arguments.get("glob"):
            read_glob(arguments["glob"])
        self._place.locate(arguments.get("path") or ".", call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Search, and say how much was found."""
        at = search_place(self._place, arguments.get("path"), call)
        output, limit = arguments.get("output") or "lines", int(arguments.get("limit") or DEFAULT_LIMIT)
        context, glob = int(arguments.get("context") or 0), arguments.get("glob") or None
        request = {
            "verb": "grep",
            "pattern": arguments["pattern"],
            "glob": glob,
            "ignore_case": bool(arguments.get("ignore_case")),
            "output": output,
            "context": context if output == "lines" else 0,
            "limit": (limit + 1) * (2 * context + 1),
        }
        words = _ripgrep_words(request)
        unsorted = glob is not None and _NAME_GLOB.fullmatch(glob) is None
        most = None if output == "files" or unsorted else (limit + 1) * (2 * context + 1)
        found = await run_search(self._place, at, words, request, call, most)
        parts = found, at, request, limit, glob if unsorted else None
        # A thread takes longer than what most searches find.
        return _rendered(*parts) if len(found.data) <= _SHORT_BYTES else await run_in_thread(_rendered, *parts)


def read_glob(glob: str) -> re.Pattern[str]:
    """The pattern that a glob is; InvalidParams where it cannot be read."""
    if "\0" in glob or "\n" in glob:
        raise InvalidParamsError("glob must be one line")
    try:
        return compile_glob(glob)
    except PatternError as error:
        raise InvalidParamsError(f"glob: {error}") from None


def _ripgrep_words(request: dict[str, Any]) -> list[str]:
    words = ["--with-filename", "--no-heading", "--line-number", f"--context={request['context']}"]
    words += ["--no-context-separator", f"--max-columns={MAX_COLUMNS}", "--max-columns-preview"]
    words += {"lines": [], "files": ["--files-with-matches"], "count": ["--count"]}[request["output"]]
    words += ["--ignore-case"] if request["ignore_case"] else []
    glob = request["glob"]
    if glob is not None and _NAME_GLOB.fullmatch(glob) is not None:
        # As a type and not as `--glob`, which would show what ignore files hide.
        words += [f"--type-add=wanted:{glob}", "--type=wanted"]
    return [*words, f"--regexp={request['pattern']}"]


def _rendered(found: SearchOutput, at: SearchPlace, request: dict[str, Any], limit: int, glob: str | None) -> Result:
    """What the model reads. `glob`: by which paths are still to be sorted out."""
    wanted = None if glob is None else read_glob(glob)
    if request["output"] == "files":
        return paths_result(found, at, wanted, limit, "no file has a line that matches")
    pattern = _LINE if request["output"] == "lines" else _COUNT
    rows = sorted(_rows(found.data, pattern, at, wanted), key=lambda row: (row.path, row.number))
    if request["output"] == "count":
        shown = [f"{row.path}: {row.number:,}" for row in rows[:limit]]
        return _with_note(shown, len(rows), found, limit, "file")
    matches = 0
    lines: list[str] = []
    for number, row in enumerate(rows):
        matches += row.mark == ":"
        if matches > limit:
            break
        before = rows[number - 1] if number else None
        if before is None or before.path != row.path:
            lines += [*([""] if lines else []), row.path]
        elif row.number > before.number + 1 and request["context"]:
            lines.append("…")
        lines.append(f"{row.number}{row.mark}{row.text}")
    return _with_note(lines, sum(row.mark == ":" for row in rows), found, limit, "line")


def _rows(data: bytes, pattern: re.Pattern[bytes], at: SearchPlace, wanted: re.Pattern[str] | None) -> Iterator[_Found]:
    names: dict[bytes, str | None] = {}
    for match in pattern.finditer(data):
        raw = _NOTICE.sub(b"", match[1])
        if raw not in names:
            plain = raw.removeprefix(b"./").decode("utf-8", "surrogateescape")
            names[raw] = at.shown(raw) if wanted is None or wanted.match(plain) else None
        path = names[raw]
        if path is not None:
            mark, text = (match[3].decode(), match[4]) if pattern is _LINE else ("", b"")
            yield _Found(path, int(match[2]), mark, _line_text(text))


def _line_text(text: bytes) -> str:
    plain = text.rstrip(b"\r").decode("utf-8", "replace").replace("\0", "\ufffd")
    return plain if len(plain) <= MAX_COLUMNS + 100 else f"{plain[:MAX_COLUMNS]} […]"


def paths_result(
    found: SearchOutput, at: SearchPlace, wanted: re.Pattern[str] | None, limit: int, nothing: str
) -> Result:
    """The paths of an output, sorted; those that a pattern sorts out and masked ones are left out."""
    whole = found.data.split(b"\0")[:-1]
    paths: list[str] = []
    for raw in whole:
        raw = _NOTICE.sub(b"", raw)
        plain = raw.removeprefix(b"./").decode("utf-8", "surrogateescape")
        if wanted is None or wanted.match(plain):
            shown = at.shown(raw)
            paths += [] if shown is None else [shown]
    return _with_note(sorted(paths)[:limit], len(paths), found, limit, "file", nothing)


def _with_note(
    lines: list[str], count: int, found: SearchOutput, limit: int, what: str, nothing: str = "nothing matches"
) -> Result:
    cut = count > limit
    if found.stopped is not None:
        more = f"; {found.stopped}, narrow the search" if not cut else "; narrow the search"
        total = f"at least {count:,} {what}s"
    else:
        more = "; narrow the search, or ask for more with limit" if cut else ""
        total = f"{count:,} {what}{'s' * (count != 1)}"
    if not lines:
        return Result(f"[{nothing}{'' if found.stopped is None else f', but {found.stopped}'}]")
    first = f"the first {limit:,} of " if cut else ""
    return Result("\n".join([*lines, f"[{first}{total}{more}]"]), truncated=cut or found.stopped is not None)
