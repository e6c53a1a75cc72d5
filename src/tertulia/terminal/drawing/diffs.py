"""Patches as rows: the files with their counts, then each line with its sign and, where it is known, its number.

Reads unified diffs and the patches of `apply_patch`, which name no line numbers. A text that is neither is shown as
it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tertulia.terminal.drawing.palette import Palette, Role
from tertulia.terminal.drawing.rows import TextRow, behind, blanks, code_rows, prose_rows
from tertulia.terminal.drawing.wrapping import Run, bounded, without_tabs

_ENVELOPE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_KIND_WORDS = {"add": "new", "delete": "deleted", "move": "moved"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a change: `+` added, `-` removed, blank unchanged, `@` a position in the file."""

    sign: str
    text: str
    number: int | None = None
    """The line number after the change; for a removed line that before it."""


@dataclass(slots=True)
class DiffFile:
    """The change of one file."""

    path: str
    kind: str = "update"
    lines: list[DiffLine] = field(default_factory=list[DiffLine])

    def count(self, sign: str) -> int:
        """How many lines have this sign."""
        return sum(line.sign == sign for line in self.lines)


def parse_diff(text: str) -> list[DiffFile]:
    """The files of a patch in the order in which it names them; none where the text is no patch."""
    if _ENVELOPE.search(text):
        return _parse_envelope(text)
    return _parse_unified(text)


def _parse_envelope(text: str) -> list[DiffFile]:
    files: list[DiffFile] = []
    for line in text.split("\n"):
        if header := _ENVELOPE.fullmatch(line):
            files.append(DiffFile(header[2].strip(), header[1].lower()))
        elif not files or line.startswith(("*** Begin", "*** End")):
            continue
        elif line.startswith("*** Move to: "):
            files[-1].path, files[-1].kind = f"{files[-1].path} → {line[13:].strip()}", "move"
        elif line.startswith("@@"):
            files[-1].lines.append(DiffLine("@", line[2:].strip()))
        elif line[:1] in ("+", "-", " "):
            files[-1].lines.append(DiffLine(line[0], line[1:]))
    return files


def _parse_unified(text: str) -> list[DiffFile]:
    files: list[DiffFile] = []
    old = new = 0
    in_hunk = False
    for line in text.split("\n"):
        if line.startswith("--- ") and not (in_hunk and not files):
            files.append(DiffFile(_name(line[4:])))
            in_hunk = False
        elif line.startswith("+++ ") and files and not in_hunk:
            _name_target(files[-1], _name(line[4:]))
        elif files and (hunk := _HUNK.fullmatch(line)):
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
            files[-1].lines.append(DiffLine("@", hunk[3].strip(), new))
        elif in_hunk and line[:1] in ("+", "-", " "):
            files[-1].lines.append(DiffLine(line[0], line[1:], old if line[0] == "-" else new))
            old += line[0] != "+"
            new += line[0] != "-"
        elif line.startswith("diff "):
            in_hunk = False
    return files


def _name(written: str) -> str:
    path = written.split("\t")[0].strip()
    return path[2:] if path.startswith(("a/", "b/")) else path


def _name_target(file: DiffFile, target: str) -> None:
    if target == "/dev/null":
        file.kind = "delete"
    elif file.path == "/dev/null":
        file.path, file.kind = target, "add"
    elif target != file.path:
        file.path, file.kind = f"{file.path} → {target}", "move"


def counts(file: DiffFile, palette: Palette) -> list[Run]:
    """A file in one line: its path, how many lines come and go, and whether it is new or deleted."""
    runs: list[Run] = [(file.path, palette["strong"])]
    if added := file.count("+"):
        runs.append((f" +{added}", palette["added"]))
    if removed := file.count("-"):
        runs.append((f" {palette.marks.minus}{removed}", palette["removed"]))
    if word := _KIND_WORDS.get(file.kind):
        runs.append((f" {word}", palette["dim"]))
    return runs


def diff_rows(files: Sequence[DiffFile], width: int, palette: Palette) -> list[TextRow]:
    """All lines of a patch; above those of each file, if there are several, its name."""
    rows: list[TextRow] = []
    for file in files:
        if len(files) > 1:
            name = prose_rows(counts(file, palette), max(1, width - 3))
            rows += behind(name, [(palette.marks.rule * 2 + " ", palette["dim"])], blanks(3, palette))
        rows += _file_rows(file, width, palette)
    return rows


def _file_rows(file: DiffFile, width: int, palette: Palette) -> list[TextRow]:
    digits = max((len(str(line.number)) for line in file.lines if line.number is not None), default=0)
    roles: dict[str, Role] = {"+": "added", "-": "removed", " ": "dim", "@": "dim"}
    path = file.path.rpartition(" → ")[2]
    rows: list[TextRow] = []
    for line in file.lines:
        style = palette[roles[line.sign]]
        if line.sign == "@":
            place = code_rows([(f"@@ {line.text}".rstrip(), style)], max(1, width - digits - 1))
            rows += behind(place, [(" " * (digits + 1 if digits else 0), palette.base)])
            continue
        number = "" if line.number is None else str(line.number)
        gutter: list[Run] = [(number.rjust(digits) + " ", palette["dim"])] if digits else []
        room = max(1, width - 2 - (digits + 1 if digits else 0))
        drawn = code_rows([(without_tabs(bounded(line.text)), style)], room)
        below: list[Run] = [(" " * (digits + 1 if digits else 0) + "  ", palette.base)]
        for row in behind(drawn, [*gutter, (f"{line.sign} ", style)], below):
            row.place = (path, line.number or 1)
            # The sign is part of a patch; the numbers are not.
            row.gutter = (digits + 1 if digits else 0) if row.glue is None else row.gutter
            rows.append(row)
    return rows
