"""`tertulia replay --model`: the messages of a stored session, sent to another model, and both transcripts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from tertulia.cli.output.tables import cell_width, format_count, screen_width, split_to_width, write_columns
from tertulia.cli.output.terminal import Style, StyledText, TerminalOutput, json_line
from tertulia.cli.stop_signals import INTERRUPTED, on_stop_signal
from tertulia.evals.recorded.first_files import (
    FirstFiles,
    WatchedFolder,
    changes_of,
    copy_first_files,
    copy_given_files,
    find_first_files,
)
from tertulia.evals.recorded.rerun import STOPPED, places_apart, rerun, rerun_settings
from tertulia.evals.recorded.side_by_side import LineKind, Side, SideBySide, TranscriptLine, answers_of, spent_of
from tertulia.evals.recorded.stored_session import RepeatableSession, read_session
from tertulia.evals.report.figures import cost_text, count_text, seconds_text
from tertulia.evals.workspace import sweep_places, temporary_place
from tertulia.policy.display_text import printable
from tertulia.session.members import require_model, require_sandbox
from tertulia.session.settings.settings import LoadedSettings, root_model
from tertulia.tools.threads import run_in_thread

_BETWEEN = " │ "
_NARROW = 80
"""Columns below which the transcripts stand one under the other."""
_STYLES: dict[LineKind, Style] = {"answer": "plain", "call": "dim", "failed": "red", "note": "yellow", "end": "red"}
_SIGNS: dict[LineKind, str] = {"answer": "", "call": "· ", "failed": "✗ ", "note": "! ", "end": "■ "}


class ReplayRequest(msgspec.Struct, frozen=True):
    """A command line of `tertulia replay --model`."""

    loaded: LoadedSettings
    session_id: str
    given_files: Path | None = None
    html_file: Path | None = None
    as_json: bool = False


def replay_with_model(request: ReplayRequest) -> int:
    """Do it, show both, and return the exit code."""
    loaded = request.loaded
    require_model(loaded.settings, loaded.environment)
    require_sandbox(loaded.settings)
    home, variables = loaded.environment.home, loaded.environment.variables
    session = read_session(home, request.session_id)
    files = request.given_files.resolve() if request.given_files else find_first_files(home, session)
    sweep_places()
    notes = TerminalOutput(sys.stderr, variables)
    both = asyncio.run(_run(loaded, session, files, notes))
    out = TerminalOutput(sys.stdout, variables)
    if request.as_json:
        out.write(json_line(both).decode())
    else:
        _write(out, both)
    if request.html_file is not None:
        # Imported here: few command lines want a page.
        from tertulia.evals.report.transcripts import transcripts_page

        # The texts of a session are for its user alone.
        opened = os.open(request.html_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(opened, "w", encoding="utf-8") as stream:
            stream.write(transcripts_page(both))
        notes.line((f"written: {request.html_file}", "dim"))
    if both.right.note == STOPPED:
        return INTERRUPTED
    return 0 if len(both.right.answers) == len(both.messages) and not both.right.note else 1


async def _run(
    loaded: LoadedSettings, session: RepeatableSession, files: FirstFiles | Path, notes: TerminalOutput
) -> SideBySide:
    variables, stopped = loaded.environment.variables, asyncio.Event()
    model = str(root_model(loaded.settings))
    async with temporary_place() as place:
        copy, original, changes = place / "workspace", session.cwd, []
        if isinstance(files, FirstFiles):
            left_out = [*await copy_first_files(files, copy, variables), *files.not_captured]
            original, changes = files.workspace, await changes_of(files, variables)
        else:
            left_out = await run_in_thread(copy_given_files, files, copy)
        if left_out:
            notes.line(("note", "yellow"), f" not in the copy: {', '.join(left_out[:10])}")
        watched = WatchedFolder(copy, place / "before", variables)
        await watched.begin()
        masked = places_apart(original, copy)
        settings = rerun_settings(session, loaded.settings, copy, masked)

        def asking(number: int) -> None:
            notes.line((f"asking {model}: message {number} of {len(session.messages)}", "dim"))

        with on_stop_signal(stopped.set):
            other = await rerun(session, settings, masked, stopped, asking)
        made = await watched.changes()
    count = len(session.messages)
    left = Side(
        session.model,
        session.id,
        answers_of(session.board, session.root_id, count),
        spent_of(session.board, session.root_id),
        tuple(changes),
    )
    right = Side(
        model,
        other.session_id,
        answers_of(other.board, other.root_id, count),
        spent_of(other.board, other.root_id),
        tuple(made),
        other.failure or "",
    )
    return SideBySide(tuple(_shown_message(session)), left, right)


def _shown_message(session: RepeatableSession) -> Iterator[str]:
    for message in session.messages:
        pictures = f" [{format_count(message.pictures, 'picture')}]" if message.pictures else ""
        yield f"{message.text}{pictures}"


def _write(out: TerminalOutput, both: SideBySide) -> None:
    wide = screen_width() if out.live else 120
    room = (wide - len(_BETWEEN)) // 2
    for at, message in enumerate(both.messages):
        out.line(("you ", "bold"), (message, "bold"))
        sides = [_side_lines(side, at) for side in (both.left, both.right)]
        if wide >= _NARROW:
            _write_beside(out, sides, room)
        else:
            for side, lines in zip((both.left, both.right), sides, strict=True):
                out.line((side.title, "cyan"))
                for text, style in lines:
                    out.line((text, style))
        out.line()
    _write_totals(out, (both.left, both.right))


def _side_lines(side: Side, at: int) -> list[tuple[str, Style]]:
    if at >= len(side.answers):
        return [("not sent", "dim")]
    return [_shown(line) for line in side.answers[at]]


def _shown(line: TranscriptLine) -> tuple[str, Style]:
    return f"{_SIGNS[line.kind]}{line.text}", _STYLES[line.kind]


def _write_beside(out: TerminalOutput, sides: list[list[tuple[str, Style]]], room: int) -> None:
    nothing: tuple[str, Style] = ("", "plain")
    for left, right in zip_longest(*(_wrapped(lines, room) for lines in sides), fillvalue=nothing):
        out.line(left, " " * (room - cell_width(left)), (_BETWEEN, "dim"), right)


def _wrapped(lines: Iterable[tuple[str, Style]], room: int) -> Iterator[tuple[str, Style]]:
    for text, style in lines:
        # What has no width, or steers, is written out first: columns must stand under each other.
        for line in printable(text.expandtabs(4)).split("\n"):
            for piece in _words(line, room):
                yield piece, style


def _words(line: str, room: int) -> Iterator[str]:
    """The line in pieces that fit, broken at spaces where there are any."""
    shown = ""
    for word in line.split(" "):
        longer = f"{shown} {word}" if shown else word
        if shown and cell_width(longer) > room:
            yield shown
            longer = word
        *whole, shown = split_to_width(longer, room)
        yield from whole
    yield shown


def _write_totals(out: TerminalOutput, sides: tuple[Side, Side]) -> None:
    rows: list[list[StyledText]] = []
    for side in sides:
        spent = side.spent
        changed = ", ".join(f"{change.act} {change.path}" for change in side.changes[:5])
        more = f" and {len(side.changes) - 5} more" if len(side.changes) > 5 else ""
        rows.append([
            side.title, side.session_id[:8], count_text(spent.input_tokens), count_text(spent.output_tokens),
            cost_text(spent.cost_usd), count_text(spent.calls), seconds_text(spent.duration_s),
            f"{changed}{more}" or "none",
        ])  # fmt: skip
    head = ("MODEL", "SESSION", "IN", "OUT", "COST", "CALLS", "TIME", "FILES")
    write_columns(out, head, rows, right=frozenset({"IN", "OUT", "COST", "CALLS", "TIME"}))
    for side in sides:
        if side.note:
            out.line((f"{side.title}: {side.note}", "red"))
