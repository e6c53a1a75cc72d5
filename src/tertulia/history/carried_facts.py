"""Facts that a summary carries word for word: the plan, the files in use, and what the user asked for.

Notes of a model can lose them; this block, at the end of each summary, does not. A later summary reads the block of
the one it replaces, so the facts outlive any number of compactions. Every line of content begins with `- ` or two
spaces, so no text can pass for a heading or for the end of the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

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
_COMMAND_ARGUMENTS = ("command", "cmd")
_MOST_OF_A_COMMAND = 8
"""Files that one command line names; the others are left out, and so is all of a longer text."""
_LONGEST_COMMAND = 4_000
_FILE_OF_A_COMMAND = lazy_pattern(
    r"(?<![^\s'\"=(,])(?!-)((?:[\w@.+-]*/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7})(?![\w/(*?])"
)
"""A word with a name that has an ending; not an address, an option or a pattern."""
_TERMS = lazy_pattern(
    r"\b(?:never|always|must|should|only|without|keep|avoid|do not|don['’]t|not|at (?:most|least)"
    r"|nie|niemals|immer|muss|darf|nur|ohne|nicht|kein\w*|jamais|toujours|doit|sans|nunca|siempre|debe|sin)\b",
    re.IGNORECASE,
)
"""Words by which a sentence sets terms."""
_SENTENCE_END = lazy_pattern(r"(?<=[.!?;])\s+|\n+")
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
    asked_for = _requests_kept(facts.requests, left - sum(map(_size, (*plan, *files))))
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
    facts.plan = read.get(_PLAN, facts.plan)
    for path in read.get(_FILES, []):
        facts.use(path)


def _requests_kept(texts: list[str], room: int) -> list[str]:
    """All where they fit. Else the first, which often sets the terms, in at most half of the room; of those between
    it and the newest the sentences that set terms, in a quarter of it; and as many of the newest as fit into the rest.
    """
    if not texts or sum(map(_size, texts)) <= room:
        return texts
    if not (first := _shortened(texts[0], room // 2)):
        return []
    terms = {text: _terms_of(text, room // 8) for text in texts[1:]}
    chosen = _fitting((terms[text] for text in reversed(texts[1:])), room // 4, skip=True)
    left = room - _size(first) - sum(map(_size, chosen))
    newest = _fitting((_shortened(text, room // 4) for text in reversed(texts[1:])), left)
    # What is there by itself need not be said twice.
    between = dict.fromkeys(terms[text] for text in texts[1 : len(texts) - len(newest)])
    return [first, *(text for text in between if text in chosen), *newest]


def _shortened(text: str, room: int) -> str:
    """The request whole; or its beginning, and the sentences behind it that set terms."""
    if _size(text) <= room:
        return text
    terms = _terms_of(text, room // 2)
    head = _clipped(text, room - _size(terms))
    more = [sentence for sentence in terms.splitlines() if sentence not in head]
    return "\n".join([head, *more]) if head else ""


def _terms_of(request: str, room: int) -> str:
    """The sentences of a request that set terms, as far as there is room; empty where there are none."""
    sentences = (sentence.strip() for sentence in _SENTENCE_END.split(request))
    return "\n".join(_fitting((one for one in sentences if _TERMS.search(one)), room, skip=True)[::-1])


def _fitting(newest_first: Iterable[str], room: int, *, skip: bool = False) -> list[str]:
    """As many of the newest as fit, oldest first; with `skip`, also those behind one that is empty or too long."""
    chosen: list[str] = []
    for text in newest_first:
        if _size(text) > room or not text:
            if skip:
                continue
            break
        room -= _size(text)
        chosen.append(text)
    return chosen[::-1]


def _section(heading: str, entries: list[str]) -> list[str]:
    return [heading, *map(_entry, entries)] if entries else []


def _entry(text: str) -> str:
    return "- " + "\n  ".join(text.splitlines())


def _size(text: str) -> int:
    return utf8_size(_entry(text)) + 1


def _clipped(text: str, room: int) -> str:
    """The beginning of a longer text, as an entry of at most `room` bytes; empty where that would be too short."""
    # As an entry it has at most three bytes more for each line: cut until it fits.
    size = room - utf8_size("- …\n")
    while size >= _LEAST:
        cut = text[:size].encode()[:size].decode(errors="ignore").rstrip() + "…"
        if _size(cut) <= room:
            return cut
        size -= max(_size(cut) - room, 1)
    return ""
