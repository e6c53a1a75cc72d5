"""Stored sessions as an editor lists them. Reads files: call it in a thread."""

from __future__ import annotations

import os.path
from contextlib import suppress
from pathlib import Path
from typing import Any

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.rollout.sqlite.session_index import list_sessions, remove_session
from tertulia.rollout.sqlite.summaries import summary_of
from tertulia.server.acp.tool_call_view import one_line
from tertulia.server.session_paging import cursor_at, entries_after

PAGE = 50


def list_page(home: Path, cwd: str | None, cursor: str | None) -> dict[str, Any]:
    """One page, the newest first: sessions in which something was said, in one directory or in all."""
    if cwd is not None and "\0" in cwd:
        raise InvalidParamsError(f"cwd must be a path, not {cwd[:200]!r}")
    page: list[dict[str, Any]] = []
    place: str | None = None
    wanted = None if cwd is None else os.path.realpath(cwd)
    for entry in entries_after(list_sessions(home), cursor):
        if len(page) == PAGE:
            return {"sessions": page, "nextCursor": place}
        place = cursor_at(entry)
        about = summary_of(home, entry)
        if about.cwd is None or about.preview is None or (wanted is not None and os.path.realpath(about.cwd) != wanted):
            continue
        page.append(
            {
                "sessionId": entry.id,
                "cwd": about.cwd,
                "title": one_line(about.title or about.preview),
                "updatedAt": Timestamps(SystemClock()).at(entry.updated),
            }
        )
    return {"sessions": page}


def delete_session(home: Path, session_id: str) -> None:
    """Delete all of it. One that is not there is no mistake; Busy where another process has it open."""
    if is_session_id(session_id):
        with suppress(NotFoundError):
            remove_session(home, session_id)
