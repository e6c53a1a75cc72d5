"""The words and marks of screens: one wording for terminal, page, plain output and notifications."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from tertulia.protocol.message_events import Attachment
from tertulia.protocol.tool_events import ApprovalResolved, Because, Decider
from tertulia.view import cells as c
from tertulia.view.conversation_view import ConversationState, ConversationView

STATE_MARKS: dict[ConversationState, str] = {
    "idle": "○",
    "running": "●",
    "waiting": "◐",
    "asking": "?",
    "failed": "✗",
    "closed": "·",
}
ASCII_MARKS: dict[ConversationState, str] = {
    "idle": "o",
    "running": "*",
    "waiting": "~",
    "asking": "?",
    "failed": "x",
    "closed": ".",
}
STATE_WORDS: dict[ConversationState, str] = {
    "idle": "ready",
    "running": "works",
    "waiting": "waits for an answer",
    "asking": "asks you",
    "failed": "failed",
    "closed": "closed",
}
_SHORT_ID = 8
_REFUSED = '{"ok":false'
"""How the output of a call that we refused begins."""
_MAX_HEADLINE = 200
_END_WORDS = {
    "completed": "done",
    "failed": "failed",
    "replaced": "replaced by another task",
    "interrupted": "stopped",
    "timeout": "stopped: it took too long",
    "shutdown": "stopped: the session was closed",
    "crash": "stopped: the program ended before it did",
    "limit": "stopped: a limit was reached",
}
_CONVERSATION_CALLS = {
    "conv_list": "looks at the list of conversations",
    "conv_history": "reads what was written in {target}",
    "conv_destroy": "closes {target}",
    "conv_merge": "merges the work of {target}",
}
"""The calls about conversations that do not wait for one, as sentences."""

NameOf = Callable[[str], str]
"""What the conversation with this id is called."""


def name_of(view: ConversationView, root_id: str | None = None) -> str:
    """What a conversation is called."""
    if view.title:
        return view.title
    return "root" if view.id == root_id else str(view.id)[:_SHORT_ID]


def short_name(conversation_id: str) -> str:
    """The name of a conversation of which only the id is known."""
    return conversation_id[:_SHORT_ID]


def headline(call: c.Call, name: NameOf = short_name) -> str:
    """A call in one line: the command, the files, the conversation or the tool."""
    match call:
        case c.CommandCell():
            text = f"$ {command_text(call.command)}"
        case c.PatchCell():
            names = [change.get("path", "?") for change in call.changes]
            text = f"changes {names[0]}" if len(names) == 1 else f"changes {len(names)} files"
        case c.HandoffCell(title=title, target_id=target):
            target_name = title or (name(target) if target else "")
            text = f"asks a new conversation “{target_name}”" if call.name == "conv_create" else f"asks “{target_name}”"
        case c.ToolCallCell(server=server):
            text = _tool_text(call, name) if server is None else f"{server}: {call.name}{_arguments(call.arguments)}"
    text = " ".join(text.split())
    return text if len(text) <= _MAX_HEADLINE else text[: _MAX_HEADLINE - 1] + "…"


def command_text(command: list[str]) -> str:
    """A command as a person would type it; of a shell that was given a script the script alone."""
    match command:
        case [shell, "-c" | "-lc", script] if shell.rpartition("/")[2] in ("bash", "sh", "zsh"):
            return script
        case _:
            return shlex.join(command)


def _tool_text(call: c.ToolCallCell, name: NameOf) -> str:
    sentence = _CONVERSATION_CALLS.get(call.name)
    if sentence is None:
        return f"{call.name}{_arguments(call.arguments)}"
    target = field_of(call.arguments, "conversation_id")
    return sentence.format(target=f"“{name(target)}”" if target else "a conversation")


def field_of(arguments: Any, name: str) -> str | None:
    """The text that a call gave for this parameter, if it did."""
    value = cast("dict[str, object]", arguments).get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else None


class _Listing(msgspec.Struct):
    """What `conv_list` answers, as far as it is shown."""

    conversations: list[dict[str, Any]]


def call_output(call: c.Call) -> str:
    """What came of a call, for people: the reason of a refusal or the answer of a conversation, without their JSON."""
    refused = call.text.startswith(_REFUSED)
    if not refused and not (call.name.startswith("conv_") and call.text.startswith("{")):
        return call.text
    try:
        if call.name == "conv_list" and not refused:
            listed = msgspec.json.decode(call.text, type=_Listing).conversations
            return "\n".join(f"{entry.get('title') or 'root'}: {entry.get('status', '')}" for entry in listed)
        answer = msgspec.json.decode(call.text, type=dict[str, Any])
    except msgspec.DecodeError:
        # It was cut, or the tool is another program's.
        return call.text
    return field_of(answer, "last_assistant_message") or field_of(answer, "reason") or ""


def message_heading(cell: c.UserCell, name: NameOf = short_name) -> str | None:
    """What stands above a message: who wrote it, where that is not plain, and how it came."""
    match cell.how:
        case "delegated":
            return f"asked by “{name(cell.caller_id)}”" if cell.caller_id else "asked by another conversation"
        case "steer":
            return f"{cell.sender}, while it worked" if cell.sender else "while it worked"
        case "message" | "queued":
            return cell.sender


def attachment_text(attachment: Attachment) -> str:
    """A picture in words: `[picture image/png, 210 KB]`."""
    if attachment.url is not None:
        return f"[picture at {attachment.url}]"
    size = "" if attachment.bytes is None else f", {max(1, round(attachment.bytes / 1000)):,} KB"
    return f"[picture {attachment.media_type or 'of an unknown kind'}{size}]"


def decider_text(by: Decider | None) -> str:
    """Who or what decided: `ada`, `a grant given before`, `the policy never`."""
    if by is None:
        return "a client"
    match by.kind:
        case "client":
            return by.name or "a client"
        case "callback":
            return by.name or "the application"
        case "grant":
            return "a grant given before"
        case "policy":
            return f"the policy {by.name}" if by.name else "the policy"
        case "clock":
            return "the clock: there was no answer in time"
        case "interrupt":
            return "an interrupt"
        case "shutdown":
            return "the end of the session"


def answer_text(answer: ApprovalResolved) -> str:
    """How a question was answered, who answered it and for how long."""
    if answer.decision == "allow":
        scopes = {None: "", "once": " once", "conversation": " for this conversation"}
        text = f"allowed{scopes.get(answer.scope, f' for the {answer.scope}')} by {decider_text(answer.by)}"
    else:
        text = f"denied by {decider_text(answer.by)}"
    # "user" is a person's own decision, of which the name is told already.
    return f"{text}: {answer.reason}" if answer.reason not in (None, "user") else text


def because_text(because: Because) -> str:
    """Why a person was asked, and what set the rule: `the policy is untrusted, set by the session`."""
    setters = {"session": "the session", "chain": "the chain", "conversation": "the conversation"}
    return f"because {because.rule}, set by {setters.get(because.set_by, because.set_by)}"


def end_text(cell: c.TaskEndCell) -> str:
    """How a task ended, and what it used."""
    text = _END_WORDS[cell.status]
    return text if cell.usage is None else f"{text}, {cell.usage.total_tokens:,} tokens"


def more_lines(count: int) -> str:
    """How much of an output is folded away: `3 more lines`."""
    return "1 more line" if count == 1 else f"{count:,} more lines"


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict) or not arguments:
        return ""
    values = [value for value in cast("dict[str, object]", arguments).values() if isinstance(value, str | int | float)]
    return f" {values[0]!s:.80}" if values else ""


def budget_text(budget: Mapping[str, Any]) -> str:
    """What is used of a session's budget, as `metrics/get` has it: `1,200 of 50,000 tokens, $0.0120 of $5.00`."""
    parts: list[str] = []
    if budget["tokens"] is not None:
        parts.append(f"{budget['used_tokens']:,} of {budget['tokens']:,} tokens")
    if budget["usd"] is not None:
        parts.append(f"${budget['used_usd']:,.4f} of ${budget['usd']:,.2f}")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time for people: `0.8 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
