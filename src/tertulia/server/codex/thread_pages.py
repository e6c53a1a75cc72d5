"""Pages of the turns of a Codex thread, and of the items in them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from tertulia.errors import InvalidParamsError

PAGE = 25
MAX_PAGE = 100


class ListTurns(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/turns/list` takes."""

    thread_id: str
    cursor: str | None = None
    limit: int | None = None
    sort_direction: Literal["asc", "desc"] | None = None
    items_view: Literal["notLoaded", "summary", "full"] | None = None


class ListItems(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters that `thread/items/list` takes."""

    thread_id: str
    turn_id: str | None = None
    cursor: str | None = None
    limit: int | None = None
    sort_direction: Literal["asc", "desc"] | None = None


def turns_page(turns: Sequence[dict[str, Any]], request: ListTurns) -> dict[str, Any]:
    """One page, the newest first unless `sortDirection` is `asc`."""
    view = request.items_view or "summary"
    return _page([_viewed(turn, view) for turn in turns], request, newest_first=request.sort_direction != "asc")


def items_page(turns: Sequence[dict[str, Any]], request: ListItems) -> dict[str, Any]:
    """One page of the items of all turns, or of one; the oldest first unless `sortDirection` is `desc`."""
    entries = [
        {"turnId": turn["id"], "item": item}
        for turn in turns
        if request.turn_id in (None, turn["id"])
        for item in turn["items"]
    ]
    return _page(entries, request, newest_first=request.sort_direction == "desc")


def _viewed(turn: dict[str, Any], view: str) -> dict[str, Any]:
    items = turn["items"]
    if view == "notLoaded":
        items = []
    elif view == "summary":
        # What was asked, and the answer.
        answers = [item for item in items if item["type"] == "agentMessage" and item["phase"] != "commentary"]
        items = [*(item for item in items[:1] if item["type"] == "userMessage"), *answers[-1:]]
    return {**turn, "items": items, "itemsView": view}


def _page(entries: list[dict[str, Any]], request: ListTurns | ListItems, *, newest_first: bool) -> dict[str, Any]:
    """From the place that the cursor names. What is added later comes after it, in either direction."""
    size = min(max(request.limit or PAGE, 1), MAX_PAGE)
    begin = (len(entries) if newest_first else 0) if request.cursor is None else _place(request.cursor, len(entries))
    end = max(begin - size, 0) if newest_first else min(begin + size, len(entries))
    page = entries[end:begin][::-1] if newest_first else entries[begin:end]
    is_last = end == (0 if newest_first else len(entries))
    return {"data": page, "nextCursor": None if is_last else str(end), "backwardsCursor": None}


def _place(cursor: str, count: int) -> int:
    place = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 10 else count + 1
    if place > count:
        raise InvalidParamsError("cursor must be the nextCursor of an earlier page of this thread")
    return place
