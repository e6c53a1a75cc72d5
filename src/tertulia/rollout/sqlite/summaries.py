"""Title, preview and search of sessions, read from their files as far as texts are stored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.events.clock import SystemClock
from tertulia.protocol.inputs import DATA_TAG
from tertulia.rollout.loose_json import object_of, string_of
from tertulia.rollout.sqlite.ownership import is_held
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles
from tertulia.rollout.sqlite.session_index import SessionEntry, find_files, find_session, list_sessions
from tertulia.rollout.store import StoredRow

PREVIEW_CHARACTERS = 200
_EARLY_ROWS = 1_000
_EXCERPT = 60
_CLOCK = SystemClock()
_SPOKEN = frozenset({"said", "queued", "ended", "rewritten"})

Json = dict[str, Any]


class SessionSummary(msgspec.Struct, frozen=True):
    """A session as a list of sessions shows it."""

    entry: SessionEntry
    held: bool
    """Whether a process owns it now."""
    title: str | None = None
    """Of its first conversation, where it has one and it is stored."""
    preview: str | None = None
    """The beginning of the first user message in it."""
    cwd: str | None = None
    """Where its first conversation works now."""


class SearchHit(msgspec.Struct, frozen=True):
    """A place where a text was found."""

    session_id: str
    n: int
    """The number of the record."""
    conversation: int
    ts: float
    type: str
    """The type of the item: user, assistant, tool_call …"""
    excerpt: str
    """The text, with a little around it."""
    conversation_id: str | None = None


class SearchBudget:
    """How many bytes of texts a search may still look through. Where none are left, it ends early."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size


def summary(home: Path, session_id: str) -> SessionSummary:
    """One session. NotFound where there is none; one that cannot be read says so in its entry."""
    return summary_of(home, find_session(home, session_id))


def summary_of(home: Path, entry: SessionEntry) -> SessionSummary:
    """The same, for an entry that is known. Of texts it reads only the beginning, and where the root works now."""
    files = SessionFiles(home, entry.id)
    title = preview = script = cwd = None
    if entry.trouble is None and entry.bodies:
        with suppress(StorageError), closing(SqliteReader(files.db, _CLOCK)) as reader:
            title, preview, script = _introduction(reader.rows())
            terms = reader.root_terms()
            cwd = None if terms is None else string_of(_body(terms).get("cwd"))
    # The name of a script is a text, so it stands with the others and not in the index.
    return SessionSummary(replace(entry, model=entry.model or script), is_held(files), title, preview, cwd)


def session_cost(home: Path, session_id: str) -> float | None:
    """US dollars of the requests of a session whose price was known; None where none was, or it cannot be read."""
    with suppress(StorageError), closing(SqliteReader(find_files(home, session_id).db, _CLOCK)) as reader:
        costs = [object_of(header).get("cost_usd") for header in reader.token_counts()]
        known = [cost for cost in costs if isinstance(cost, float | int) and math.isfinite(cost)]
        return sum(known) if known else None
    return None


def search(
    home: Path, text: str, limit: int = 100, *, session_id: str | None = None, budget: SearchBudget | None = None
) -> Iterator[SearchHit]:
    """Sessions with this text, newest first, in upper or lower case. Unreadable sessions are left out.

    `session_id`: only in this one; NotFound where there is none. `budget`: None for as long as it takes.
    """
    wanted = text.casefold()
    if not wanted:
        raise InvalidParamsError("the text to search for is empty")
    left = limit
    for entry in list_sessions(home) if session_id is None else [find_session(home, session_id)]:
        if not entry.bodies or entry.trouble is not None:
            continue
        with suppress(StorageError), closing(SqliteReader(find_files(home, entry.id).db, _CLOCK)) as reader:
            ids: dict[int, str | None] = {}
            for row in _within(budget, reader.rows()):
                if row.kind == "conversation":
                    ids[row.n] = string_of(object_of(row.header).get("id"))
                excerpt = _found(wanted, row)
                if excerpt is None:
                    continue
                conversation_id = ids.get(row.conversation)
                yield SearchHit(entry.id, row.n, row.conversation, row.ts, row.type, excerpt, conversation_id)
                left -= 1
                if left <= 0:
                    return


def _within(budget: SearchBudget | None, rows: Iterator[StoredRow]) -> Iterator[StoredRow]:
    for row in rows:
        if budget is not None:
            if budget.left <= 0:
                return
            budget.left -= len(row.body or b"")
        yield row


def _introduction(rows: Iterator[StoredRow]) -> tuple[str | None, ...]:
    title = preview = script = None
    first = 0
    for row in rows:
        if row.kind == "conversation" and not first:
            first = row.n
        elif row.kind == "terms" and row.conversation == first and title is None:
            title, script = (string_of(_body(row).get(name)) for name in ("title", "model"))
        elif row.kind in ("said", "queued") and row.type == "user" and not object_of(row.header).get("injected"):
            preview = _shortened(_prompt(_text(_body(row))))
        if preview is not None or row.n > _EARLY_ROWS:
            break
    return title, preview, script


def _prompt(text: str) -> str:
    """The text without the data that stands behind it."""
    return text.partition(f"\n\n<{DATA_TAG}>\n")[0] or text


def _shortened(text: str) -> str | None:
    return " ".join(text[: PREVIEW_CHARACTERS * 4].split())[:PREVIEW_CHARACTERS] or None


def _found(wanted: str, row: StoredRow) -> str | None:
    if row.body is None or row.kind not in _SPOKEN:
        return None
    text = _text(_body(row))
    place = text.casefold().find(wanted)
    if place < 0:
        return None
    # Folding may lengthen a text; then the excerpt stands a little aside, and no more than that.
    return " ".join(text[max(0, place - _EXCERPT) : place + len(wanted) + _EXCERPT].split())


def _text(body: Json) -> str:
    """All texts of an item."""
    parts = body.get("parts")
    texts = [body.get("text")]
    if isinstance(parts, list):
        texts += [cast(Json, part).get("text") for part in cast("list[object]", parts) if isinstance(part, dict)]
    return "\n".join(filter(None, map(string_of, texts)))


def _body(row: StoredRow) -> Json:
    return object_of(row.body) if row.body is not None else {}
