"""Prints rows in columns and conversations as a tree; formats numbers, sizes and ages for people."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tertulia.cli.output.terminal import Style, StyledText, TerminalOutput
from tertulia.policy.display_text import printable, visible
from tertulia.protocol.ids import ConversationId
from tertulia.session.answers import ConversationInfo, MergeAnswer

_GAP = "  "
_NARROWEST = 16
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def screen_width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def write_columns(
    out: TerminalOutput,
    head: Sequence[str],
    rows: Sequence[Sequence[StyledText]],
    *,
    right: frozenset[str] = frozenset(),
) -> None:
    """A line for each row. The last column takes what room is left, and is cut there; into a pipe it is not."""
    widths = [max([len(title), *(cell_width(row[at]) for row in rows)]) for at, title in enumerate(head[:-1])]
    left = max(screen_width() - sum(widths) - len(_GAP) * len(widths), _NARROWEST)
    out.line(*_row([(title, "dim") for title in head], head, widths, right))
    for row in rows:
        *cells, last = row
        text, style = (last, "plain") if isinstance(last, str) else last
        shown = (cut_to_width(text, left) if out.live else text, style)
        out.line(*_row([*cells, shown], head, widths, right))


def _row(
    cells: Sequence[StyledText], head: Sequence[str], widths: Sequence[int], right: frozenset[str]
) -> list[StyledText]:
    pieces: list[StyledText] = []
    for cell, title, width in zip(cells, head, widths, strict=False):
        blank = " " * (width - cell_width(cell))
        pieces += [blank, cell, _GAP] if title in right else [cell, blank, _GAP]
    if cell_width(cells[-1]):
        return [*pieces, cells[-1]]
    # No blanks at the end of a line.
    while isinstance(pieces[-1], str) and not pieces[-1].strip():
        pieces.pop()
    return pieces


def cell_width(piece: StyledText) -> int:
    """How many columns it takes on a terminal."""
    text = piece if isinstance(piece, str) else piece[0]
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut_to_width(text: str, width: int) -> str:
    """The text as one line of at most so many columns."""
    line = printable(" ".join(text[: 8 * width].split()))
    if cell_width(line) <= width and len(text) <= 8 * width:
        return line
    shown = ""
    for character in line:
        if cell_width(shown) + _columns(character) > width - 1:
            break
        shown += character
    return f"{shown}…"


def split_to_width(text: str, width: int) -> list[str]:
    """The whole text in pieces, none of which takes more columns; at least one."""
    pieces, piece, used = list[str](), list[str](), 0
    for character in text:
        columns = _columns(character)
        if piece and used + columns > width:
            pieces.append("".join(piece))
            piece, used = [], 0
        piece.append(character)
        used += columns
    return [*pieces, "".join(piece)]


def format_age(seconds: float) -> str:
    """How long ago something was, as `5 min ago`."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return f"{max(int(seconds), 0)} s ago" if seconds >= 1 else "just now"


def format_size(count: int) -> str:
    """A number of bytes, as `1.5 MB`."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.1f} {unit}" if count < 10 * length else f"{count // length} {unit}"
    return f"{count} B"


def format_count(count: int, noun: str) -> str:
    """A number with its noun: `1 message`, `2 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


STATUS_STYLES: dict[str, Style] = {"running": "green", "waiting": "yellow", "unfinished": "yellow", "closed": "dim"}
"""How the status of a conversation looks; all others are plain."""


_SHORT = 8
_DEEPEST = 12
"""Levels that are drawn; what is deeper stands under the last of them."""


class ConversationRow(msgspec.Struct, frozen=True):
    """One conversation as a line of the tree."""

    id: ConversationId
    parent_id: ConversationId | None
    name: str
    status: str
    messages: int
    note: str = ""


def conversation_rows(infos: Iterable[ConversationInfo]) -> list[ConversationRow]:
    """The rows for the conversations of a running session."""
    return [
        ConversationRow(
            info.id,
            info.parent_id,
            conversation_name(info.id, info.title, info.parent_id),
            info.status,
            info.message_count,
        )
        for info in infos
    ]


def conversation_name(id: ConversationId, title: str | None, parent_id: ConversationId | None) -> str:
    """What people call a conversation: its title, or `root`, or the beginning of its id."""
    return title or ("root" if parent_id is None else id[:_SHORT])


def write_tree(out: TerminalOutput, conversations: Sequence[ConversationRow]) -> None:
    """A line for each, those below another one indented."""
    rows: list[list[StyledText]] = []
    for branch, leaf in _walk(conversations):
        status = (leaf.status, STATUS_STYLES.get(leaf.status, "plain"))
        rows.append(
            [f"  {branch}{leaf.name}", leaf.id, status, format_count(leaf.messages, "message"), (leaf.note, "dim")]
        )
    write_columns(out, ("  CONVERSATION", "ID", "STATUS", "HISTORY", ""), rows)


def _walk(conversations: Sequence[ConversationRow]) -> Iterator[tuple[str, ConversationRow]]:
    """Parents before their children, each with its branch; one whose parent is not there stands at the top."""
    ids = {leaf.id for leaf in conversations}
    below: dict[ConversationId | None, list[ConversationRow]] = {}
    for leaf in conversations:
        below.setdefault(leaf.parent_id if leaf.parent_id in ids else None, []).append(leaf)
    seen: set[ConversationId] = set()
    waiting = [(0, True, leaf) for leaf in reversed(below.get(None, ()))]
    while waiting:
        depth, last, leaf = waiting.pop()
        if leaf.id in seen:
            continue
        seen.add(leaf.id)
        indented = "  " * (min(depth, _DEEPEST) - 1)
        yield f"{indented}{'└' if last else '├'} " if depth else "", leaf
        children = below.get(leaf.id, [])
        waiting += [(depth + 1, child is children[-1], child) for child in reversed(children)]


def write_merge(out: TerminalOutput, answer: MergeAnswer) -> None:
    """The files of a merge, what was left out, and the commit."""
    if not answer.merged:
        out.line(f"nothing to merge: all of {answer.branch} is here")
    for file in answer.files:
        counts = "binary" if file.added is None else f"+{file.added} -{file.removed}"
        moved = "" if file.renamed_from is None else f"{visible(file.renamed_from)} → "
        out.line((f"{file.status:9}", "cyan"), f"{moved}{visible(file.path)} ", (counts, "dim"))
    for left in answer.left_out:
        out.line(("not merged ", "yellow"), f"{visible(left.path)}: {visible(left.reason)}")
    if answer.commit is not None:
        out.line(f"committed on {visible(answer.onto or '')}: {answer.commit}")
