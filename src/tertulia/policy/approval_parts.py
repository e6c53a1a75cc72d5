"""The texts of an approval request: what belongs to it, whose words are whose, and what of it fits into an event.

Everything that models, agents, servers and commands wrote stands in lines that begin with a bar, below a line of ours
that names its author. So no text can pass for ours, whatever it says.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

import msgspec

from tertulia.policy.commands import SCRIPT_FLAGS, SHELLS
from tertulia.policy.shell_words import Words
from tertulia.policy.shown import shown, visible
from tertulia.protocol.tool_events import ApprovalFile

MAX_EVENT_BYTES = 64 * 1024
"""Of the texts of one event, as UTF-8. What does not fit is asked for with `approval/get`."""
MAX_PAGE = 64 * 1024
"""Characters of one answer to `approval/get`."""

_MAX_DETAIL_BYTES = 48 * 1024
_CUT_DETAIL = 12_000
_CUT_PART = 1_000
_CUT_FILES = 64
_BAR = "│ "

PartName = Literal["detail", "command", "script", "arguments", "justification", "matches", "files"]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is about, as it is: nothing here is fit to be shown yet."""

    command: Words = ()
    cwd: str | None = None
    sandbox: str | None = None
    files: tuple[ApprovalFile, ...] = ()
    server: str | None = None
    tool: str | None = None
    arguments: str | None = None
    justification: str | None = None


class EventTexts(msgspec.Struct, frozen=True):
    """The texts of an event, fit to be shown, cut where they would be too long together."""

    detail: str
    matches: list[str]
    command: str | None
    script: str | None
    arguments: str | None
    justification: str | None
    files: tuple[ApprovalFile, ...]
    hidden: int
    """Characters of `detail` that were cut out."""
    whole: bool
    """Nothing of any of them was cut."""


def labelled(label: str, text: str) -> str:
    """Somebody's words below a line of ours that says whose they are."""
    return "\n".join([f"{label}:", *(f"{_BAR}{line}" for line in text.rstrip("\n").split("\n"))])


def in_line(text: str) -> str:
    """A path or a name in a line of ours: it cannot begin another one."""
    return text.replace("\n", "\\n")


def script_of(command: Sequence[str]) -> str | None:
    """The script that a shell is given with `-c`; None where this is another command."""
    if len(command) == 3 and command[0] in SHELLS and command[1] in SCRIPT_FLAGS:
        return command[2]
    return None


def command_text(command: Sequence[str]) -> str:
    """A command for people: its words quoted, or a script as its author wrote it."""
    script, line = script_of(command), shlex.join(command)
    if script is not None:
        return labelled(f"{shlex.join(command[:2])} with this script", script)
    return labelled("command", line) if "\n" in line else line


def whole_texts(detail: str, matches: Sequence[str], parts: Parts) -> dict[PartName, str]:
    """Every part by its name, whole and fit to be shown."""
    files = "\n".join(f"{each.kind} {visible(each.path)} +{each.added} -{each.removed}" for each in parts.files)
    script = script_of(parts.command)
    texts: dict[PartName, str | None] = {
        "detail": visible(detail, lines=True),
        "command": visible(shlex.join(parts.command), lines=True) if parts.command else None,
        "script": None if script is None else visible(script, lines=True),
        "arguments": None if parts.arguments is None else visible(parts.arguments, lines=True),
        "justification": None if parts.justification is None else visible(parts.justification, lines=True),
        "matches": "\n".join(map(visible, matches)),
        "files": files or None,
    }
    return {name: text for name, text in texts.items() if text is not None}


def event_texts(detail: str, matches: Sequence[str], parts: Parts) -> EventTexts:
    """What goes into the event: everything, or the beginning and the end of what is long, with the number left out."""
    texts = whole_texts(detail, matches, parts)
    files = tuple(msgspec.structs.replace(each, path=visible(each.path)) for each in parts.files)
    whole = sum(len(text.encode()) for text in texts.values()) <= MAX_EVENT_BYTES
    kept, lines = dict(texts), [visible(match) for match in matches]
    if not whole:
        # The detail says all that the others say: so it is the last to be cut.
        lines = [shown(match, max_characters=_CUT_PART).text for match in matches[:_CUT_FILES]]
        files = files[:_CUT_FILES]
        for name in ("command", "script", "arguments", "justification"):
            if name in kept:
                kept[name] = _cut(kept[name], _CUT_PART)
        if len(texts["detail"].encode()) > _MAX_DETAIL_BYTES:
            kept["detail"] = _cut(texts["detail"], _CUT_DETAIL)
    return EventTexts(
        detail=kept["detail"],
        matches=lines,
        command=kept.get("command"),
        script=kept.get("script"),
        arguments=kept.get("arguments"),
        justification=kept.get("justification"),
        files=files,
        hidden=0 if kept["detail"] == texts["detail"] else len(texts["detail"]) - _CUT_DETAIL,
        whole=whole,
    )


def unseen(hidden: int, size: int, digest: str | None) -> str:
    """How much of a request is not shown, for surfaces that offer a yes; empty where all of it is."""
    if not hidden:
        return ""
    return (
        f"NOT ALL IS SHOWN: {hidden:,} of {size:,} characters are hidden here (sha256 {digest}; approval/get has them)"
    )


def _cut(text: str, most: int) -> str:
    """The text is fit to be shown already, and a mark of its own would be escaped again."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}⟨… {len(text) - 2 * half:,} characters are not shown here …⟩{text[-half:]}"
