"""Facts that a summary carries word for word: the plan, the files in use, what the user asked for, and the demands that
earlier notes of the model have listed.

Notes of a model can lose them; this block, at the end of each summary, does not. A later summary reads the block of
the one it replaces, so the facts outlive any number of compactions. Every line of content begins with `- ` or two
spaces, so no text can pass for a heading or for the end of the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

import msgspec

from tertulia.history.carried_requests import demands_of, entry, entry_size, fitting, requests_in
from tertulia.history.segment import is_user_request, utf8_size
from tertulia.lazy_pattern import lazy_pattern
from tertulia.protocol.items import Item, Summary, ToolCall, UserMessage, readable_arguments
from tertulia.protocol.tool_events import PlanStep

_BEGIN, _END = "<carried>", "</carried>"
_REQUESTS = "Asked by the user, oldest first:"
_PLAN = "Plan:"
_FILES = "Files in use, newest last:"
_DEMANDS = "Demands that earlier notes list, oldest first:"
_HEADINGS = (_REQUESTS, _DEMANDS, _PLAN, _FILES)

_COMPLETED = "[completed]"
_FILE_ARGUMENTS = ("path", "file_path")
_COMMAND_ARGUMENTS = ("command", "cmd")
_MOST_OF_A_COMMAND = 8
"""Files that one command line names; the others are left out, and so is all of a longer text."""
_LONGEST_COMMAND = 4_000
_FILE_OF_A_COMMAND = lazy_pattern(
    r"(?<![^\s'\"=(,])(?!-)((?:[\w@.+-]*/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7})(?![\w/(*?])"
)
"""A word with a name that has an ending; not an address, an option or a pattern."""
_PATCHED = lazy_pattern(r"^\*\*\* (?:Add File|Update File|Move to): (.+?)\s*$", re.MULTILINE)


class _Facts(msgspec.Struct):
    requests: list[str]
    demands: dict[str, None]
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
    facts = _Facts([], {}, [], {})
    for item in items:
        if requests or not isinstance(item, UserMessage):
            _collect(item, facts)
    left = room - sum(utf8_size(line) + 1 for line in (_BEGIN, *_HEADINGS, _END))
    plan = fitting(reversed(_unfinished_if_long(facts.plan, left // 4)), left // 4)
    files = fitting(reversed(facts.files), left // 4)
    demands = fitting(reversed(facts.demands), left // 4, skip=True)
    asked_for = requests_in(facts.requests, left - sum(map(entry_size, (*plan, *files, *demands))))
    demands = [one for one in demands if not any(one in request for request in asked_for)]
    lines = [*_section(_REQUESTS, asked_for), *_section(_DEMANDS, demands)]
    lines += [*_section(_PLAN, plan), *_section(_FILES, files)]
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
            facts.demands |= dict.fromkeys(demands_of(without_block(item.text)))
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
    return plan if sum(map(entry_size, plan)) <= room else [step for step in plan if not step.startswith(_COMPLETED)]


def _files_of(call: ToolCall) -> list[str]:
    fields = _fields_of(call)
    if call.name == "apply_patch":
        patch = fields.get("input", call.arguments)
        return _PATCHED.findall(patch) if isinstance(patch, str) else []
    named = [path for name in _FILE_ARGUMENTS if isinstance(path := fields.get(name), str) and path]
    return named or [path for name in _COMMAND_ARGUMENTS for path in _files_of_command(fields.get(name))]


def _files_of_command(command: object) -> list[str]:
    """The files that a command line, or a list of words, names by something like `src/a.py`."""
    words = cast("list[object]", command) if isinstance(command, list) else [command]
    line = " ".join(word for word in words if isinstance(word, str))
    if len(line) > _LONGEST_COMMAND:
        return []
    return list(dict.fromkeys(_FILE_OF_A_COMMAND.findall(line)))[:_MOST_OF_A_COMMAND]


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
    facts.demands |= dict.fromkeys(read.get(_DEMANDS, []))
    facts.plan = read.get(_PLAN, facts.plan)
    for path in read.get(_FILES, []):
        facts.use(path)


def _section(heading: str, entries: list[str]) -> list[str]:
    return [heading, *map(entry, entries)] if entries else []
