"""Facts that a summary carries word for word: the plan, the files in use, and what the user asked for.

Notes of a model can lose them; this block, at the end of each summary, does not. A later summary reads the block of
the one it replaces, so the facts outlive any number of compactions. Every line of content begins with `- ` or two
spaces, so no text can pass for a heading or for the end of the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from tertulia.history.segment import is_user_request, utf8_size
from tertulia.lazy_pattern import lazy_pattern
from tertulia.protocol.items import Item, Summary, ToolCall, UserMessage, readable_arguments
from tertulia.protocol.tool_events import PlanStep

_BEGIN, _END = "<carried>", "</carried>"
_REQUESTS = "Asked by the user, oldest first:"
_PLAN = "Plan:"
_FILES = "Files in use, newest last:"
_HEADINGS = (_REQUESTS, _PLAN, _FILES)

_COMPLETED = "[completed]"
_LEAST = 24
_FILE_ARGUMENTS = ("path", "file_path")
_PATCHED = lazy_pattern(r"^\*\*\* (?:Add File|Update File|Move to): (.+?)\s*$", re.MULTILINE)


class _Facts(msgspec.Struct):
    requests: list[str]
    plan: list[str]
    files: dict[str, None]
    """In the order of their last use."""

    def use(self, path: str) -> None:
        self.files.pop(path, None)
        self.files[path] = None


def carried_block(items: Iterable[Item], room: int, *, requests: bool) -> str:
    """The facts of the items in at most `room` bytes of UTF-8; empty where there are none, or no room.

    Without `requests`, of what the user asked only the part that an earlier block has.
    """
    facts = _Facts([], [], {})
    for item in items:
        if requests or not isinstance(item, UserMessage):
            _collect(item, facts)
    left = room - sum(utf8_size(line) + 1 for line in (_BEGIN, *_HEADINGS, _END))
    plan = _fitting(reversed(_unfinished_if_long(facts.plan, left // 4)), left // 4)
    files = _fitting(reversed(facts.files), left // 4)
    asked_for = _first_and_newest(facts.requests, left - sum(map(_size, (*plan, *files))))
    lines = [*_section(_REQUESTS, asked_for), *_section(_PLAN, plan), *_section(_FILES, files)]
    return "\n".join((_BEGIN, *lines, _END)) if lines else ""


def without_block(summary: str) -> str:
    """The text of a summary without the block of facts at its end."""
    return summary[: _begin_of(summary)].rstrip("\n")


def _begin_of(summary: str) -> int:
    # With a line break before it, its place is that of the text alone.
    begin = f"\n{summary}".rfind(f"\n{_BEGIN}\n") if summary.endswith(f"\n{_END}") else -1
    return len(summary) if begin < 0 else begin


def _collect(item: Item, facts: _Facts) -> None:
    match item:
        case Summary():
            _read_block(item.text[_begin_of(item.text) :], facts)
        case UserMessage() if is_user_request(item) and item.text.strip():
            facts.requests.append(item.text.strip())
        case ToolCall(name="update_plan"):
            facts.plan = _plan_of(item) or facts.plan
        case ToolCall():
            for path in _files_of(item):
                facts.use(path)
        case _:
            pass


def _plan_of(call: ToolCall) -> list[str]:
    try:
        plan = msgspec.convert(_fields_of(call).get("plan"), list[PlanStep])
    except msgspec.ValidationError:
        return []
    return [f"[{step.status}] {step.step}" for step in plan]


def _fields_of(call: ToolCall) -> dict[str, object]:
    """The arguments of a function; none where they are no JSON object, or very long."""
    try:
        return msgspec.convert(readable_arguments(call), dict[str, object])
    except msgspec.ValidationError:
        return {}


def _unfinished_if_long(plan: list[str], room: int) -> list[str]:
    return plan if sum(map(_size, plan)) <= room else [step for step in plan if not step.startswith(_COMPLETED)]


def _files_of(call: ToolCall) -> list[str]:
    fields = _fields_of(call)
    if call.name == "apply_patch":
        patch = fields.get("input", call.arguments)
        return _PATCHED.findall(patch) if isinstance(patch, str) else []
    return [path for name in _FILE_ARGUMENTS if isinstance(path := fields.get(name), str) and path]


def _read_block(block: str, facts: _Facts) -> None:
    heading, entries = "", list[str]()
    read: dict[str, list[str]] = {}
    for line in block.splitlines():
        if line in _HEADINGS:
            heading, entries = line, read.setdefault(line, [])
        elif line.startswith("- ") and heading:
            entries.append(line[2:])
        elif line.startswith("  ") and entries:
            entries[-1] += f"\n{line[2:]}"
    facts.requests += read.get(_REQUESTS, [])
    facts.plan = read.get(_PLAN, facts.plan)
    for path in read.get(_FILES, []):
        facts.use(path)


def _first_and_newest(texts: list[str], room: int) -> list[str]:
    """The first, which often sets the terms, in at most half of the room, and as many of the newest as fit."""
    if not texts or not (first := _clipped(texts[0], room // 2)):
        return []
    newest = (_clipped(text, room // 4) for text in reversed(texts[1:]))
    return [first, *_fitting(newest, room - _size(first))]


def _fitting(newest_first: Iterable[str], room: int) -> list[str]:
    """As many of the newest as fit, oldest first."""
    chosen: list[str] = []
    for text in newest_first:
        room -= _size(text)
        if room < 0 or not text:
            break
        chosen.append(text)
    return chosen[::-1]


def _section(heading: str, entries: list[str]) -> list[str]:
    return [heading, *map(_entry, entries)] if entries else []


def _entry(text: str) -> str:
    return "- " + "\n  ".join(text.splitlines())


def _size(text: str) -> int:
    return utf8_size(_entry(text)) + 1


def _clipped(text: str, room: int) -> str:
    """The text as an entry of at most `room` bytes: whole, or its beginning; empty where that would be too short."""
    if _size(text) <= room:
        return text
    # As an entry it has at most three bytes more for each line: cut until it fits.
    size = room - utf8_size("- …\n")
    while size >= _LEAST:
        cut = text[:size].encode()[:size].decode(errors="ignore").rstrip() + "…"
        if _size(cut) <= room:
            return cut
        size -= max(_size(cut) - room, 1)
    return ""
