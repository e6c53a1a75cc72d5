"""What conversation tools answer: one JSON object, always whole, however little room there is.

Cutting JSON in the middle gives something that no parser reads, so what is too long is made shorter inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.tools.output_truncation import MAX_OUTPUT_BYTES, bound
from tertulia.tools.tool import ConversationEntries, Result, TargetResult

MAX_ECHO_BYTES = 1_000
"""The most characters of the caller's own input that are repeated."""
_MAX_REASON_BYTES = 2_000
_MAX_DIFFSTAT_BYTES = 4_000
_SILENT = "the conversation ended its task without an answer"

_encode = msgspec.json.Encoder().encode


def success_result(fields: Mapping[str, Any]) -> Result:
    return Result(_encode({"ok": True, **fields}).decode())


class TargetRendering(msgspec.Struct, frozen=True):
    """Makes the answer of a conversation tool from how its target ended; data, so that it can be written down."""

    echoed: Mapping[str, Any] = {}
    """What the caller had said to the target."""
    began: str = ""
    """Where a worktree of the target's own began, for people."""

    def __call__(self, result: TargetResult) -> Result:
        return target_result(result, self.echoed, self.began)


def target_result(result: TargetResult, echoed: Mapping[str, Any], began: str = "") -> Result:
    """How the target ended, with what the caller had said to it. Anything but an answer is no success.

    `began`: where a worktree of its own began, for people.
    """
    code, reason = result.code, result.reason
    if result.status == "completed" and not result.text:
        code, reason = "model_error", _SILENT
    payload: dict[str, Any] = {"ok": code is None, "status": result.status}
    if result.conversation_id is not None:
        payload["conversation_id"] = result.conversation_id
    if result.worktree is not None:
        report = replace(result.worktree, began=began)
        payload["worktree"] = replace(report, diffstat=bound(report.diffstat, _MAX_DIFFSTAT_BYTES).text)
    if code is not None:
        reason = bound(reason or code, _MAX_REASON_BYTES).text
        payload |= {"code": code, "reason": reason, "error": {"code": code, "message": reason}}
    text, truncated = _fitting({**payload, **echoed}, "last_assistant_message", result.text, _room(result.room))
    return Result(text, success=code is None, truncated=truncated)


def shorten_echo(text: str) -> str:
    """The caller's own input, shortened to be repeated."""
    return bound(text, MAX_ECHO_BYTES).text


def listing_result(name: str, seen: ConversationEntries, max_bytes: int | None, *, first: bool = False) -> Result:
    """The newest entries that fit, in their order, and how many were left out. `first`: that one is always among them.

    An entry whose text alone is too long is given with a shorter one, if it is the newest.
    """
    room = _room(max_bytes) - len(_encode({"ok": True, name: [], "omitted": seen.count}))
    head = [seen.entry(0)] if first and seen.count else []
    room -= sum(len(_encode(entry)) + 1 for entry in head)
    entries: list[dict[str, Any]] = []
    cut = False
    for index in range(seen.count - 1, len(head) - 1, -1):
        entry = seen.entry(index)
        size = len(_encode(entry)) + 1
        if size > room:
            cut = True
            if not entries and "text" in entry:
                entries.append(_shortened(entry, room))
            break
        room -= size
        entries.append(entry)
    entries.reverse()
    omitted = seen.count - len(head) - len(entries)
    payload: dict[str, Any] = {"ok": True, name: [*head, *entries]}
    if omitted:
        payload["omitted"] = omitted
    return Result(_encode(payload).decode(), storage=seen.storage, truncated=cut)


def _shortened(entry: dict[str, Any], room: int) -> dict[str, Any]:
    """The entry without its pictures, and with as much of its text as fits."""
    others = {name: value for name, value in entry.items() if name != "text"}
    if entry.get("attachments"):
        others["attachments"] = []
        others["attachments_omitted"] = len(entry["attachments"])
    text, _ = _fitting(others, "text", entry["text"], room - 1)
    return msgspec.json.decode(text)


def _fitting(payload: Mapping[str, Any], name: str, text: str | None, room: int) -> tuple[str, bool]:
    """(the payload as JSON with the text in it, whether that had to be cut to stay within the room)."""
    encoded = _encode({**payload, name: text})
    if text is None or len(encoded) <= room:
        return encoded.decode(), False
    budget = room
    while True:
        encoded = _encode({**payload, name: bound(text, budget).text, "truncated": True})
        if len(encoded) <= room or not budget:
            return encoded.decode(), True
        # In JSON a character may take up to six bytes: how many it takes is found by encoding it.
        budget = max(0, min(budget - 1, budget * room // len(encoded)))


def _room(max_bytes: int | None) -> int:
    return MAX_OUTPUT_BYTES if max_bytes is None else max_bytes
