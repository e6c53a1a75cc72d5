"""What a scripted model says, as frozen data, and the short words to write it in Python.

Not the model, and not the form that files have: nothing here knows of requests, streams or mappings.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.models.wire import StopReason
from tertulia.protocol.inputs import check_text
from tertulia.protocol.usage import Usage

DEFAULT_CONTEXT_WINDOW = 128_000
MAX_DELAY_MS = 3_600_000


class ReplyGate(Protocol):
    """What a reply can wait for; an `asyncio.Event` is one."""

    def wait(self) -> Awaitable[object]:
        """Returns once the gate is open."""
        ...


class ScriptedCall(msgspec.Struct, frozen=True):
    """One tool call of a reply; `call` makes it from plain values."""

    name: str
    arguments: str = "{}"
    """As the model would write them: JSON text, or something broken on purpose."""
    call_id: str | None = None
    """None: the model numbers it, call_1, call_2 and so on."""

    def __post_init__(self) -> None:
        for text in (self.name, self.arguments, self.call_id or ""):
            check_text(text, "a tool call")


class ScriptedError(msgspec.Struct, frozen=True):
    """The error that a reply ends with."""

    message: str
    code: str = "model_error"
    overflow: bool = False
    """The history does not fit the model's window."""

    def __post_init__(self) -> None:
        check_text(self.message + self.code, "an error")


class Match(msgspec.Struct, frozen=True):
    """Which requests a reply is for: all that is given must hold. Only `regex` heeds upper and lower case."""

    contains: str | None = None
    """Stands somewhere in the newest user message or tool output."""
    regex: str | None = None
    """Is found in the newest user message or tool output."""
    conversation: str | None = None
    """Stands somewhere in the conversation's instructions."""

    def __post_init__(self) -> None:
        if self.contains is None and self.regex is None and self.conversation is None:
            raise InvalidParamsError("match needs contains, regex or conversation")
        try:
            re.compile(self.regex or "")
        except re.error as error:
            raise InvalidParamsError(f"match.regex is not a regular expression ({error})") from None
        except (OverflowError, RecursionError):
            raise InvalidParamsError("match.regex is not a regular expression (it is too large)") from None

    def meets(self, last_input: str, instructions: str) -> bool:
        """Whether a request with this newest input and these instructions is meant."""
        return (
            (self.contains is None or self.contains.casefold() in last_input.casefold())
            and (self.regex is None or re.search(self.regex, last_input) is not None)
            and (self.conversation is None or self.conversation.casefold() in instructions.casefold())
        )


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model: what it says, how it says it, and when.

    With `error` or `cut` the answer breaks off: what else the reply says is streamed, but the last item of it
    never becomes whole.
    """

    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedError | None = None
    cut: bool = False
    """The stream just stops, which no wire may do: to see that a turn survives it."""
    retrying: str | None = None
    """Half of the text is streamed and withdrawn with this message, then the answer begins anew."""
    stop_reason: StopReason | None = None
    """None: tool_calls if there are any, else stop."""
    usage: Usage | None = None
    """None: estimated from the length of what was asked and said."""
    delay_ms: float = 0
    """The pause before the first piece."""
    delay_between_ms: float = 0
    """Between one piece and the next."""
    match: Match | None = None
    """None: used in its turn, after those that match."""
    repeat: bool = False
    """Stays when it has been used."""
    gate: ReplyGate | None = None
    """Nothing is said before it opens. From Python only."""

    def __post_init__(self) -> None:
        for text in (self.text, self.reasoning, self.retrying):
            check_text(text or "", "a reply")
        if not (0 <= self.delay_ms <= MAX_DELAY_MS and 0 <= self.delay_between_ms <= MAX_DELAY_MS):
            raise InvalidParamsError(f"a delay must lie between 0 and {MAX_DELAY_MS:,} ms")
        if self.error is not None and self.cut:
            raise InvalidParamsError("error and cut are two different endings, give one of them")
        if self.usage is not None and min(msgspec.structs.astuple(self.usage)) < 0:
            raise InvalidParamsError("usage cannot be negative")
        if self.text is None and not (self.reasoning or self.tool_calls or self.error or self.cut):
            raise InvalidParamsError('a reply needs text, tool_calls, error or cut (text: "" says nothing at all)')


class ModelScript(msgspec.Struct, frozen=True):
    """All that a script file holds."""

    replies: tuple[ScriptedReply, ...]
    repeat: bool = False
    context_window: int = DEFAULT_CONTEXT_WINDOW


def say(
    text: str,
    *calls: ScriptedCall,
    reasoning: str | None = None,
    match: Match | str | None = None,
    repeat: bool = False,
    gate: ReplyGate | None = None,
) -> ScriptedReply:
    """A plain answer, with any tool calls after it. A `match` that is a text is what the input contains."""
    return ScriptedReply(
        text=text,
        tool_calls=calls,
        reasoning=reasoning,
        match=Match(contains=match) if isinstance(match, str) else match,
        repeat=repeat,
        gate=gate,
    )


def call(name: str, arguments: Mapping[str, Any] | str | None = None, call_id: str | None = None) -> ScriptedCall:
    """A tool call: a reply of its own, or a part of one. Arguments given as text are sent as they are."""
    return ScriptedCall(name, arguments_text(arguments), call_id)


def fail(message: str, *, code: str = "model_error", overflow: bool = False) -> ScriptedReply:
    """An answer that fails before it begins."""
    return ScriptedReply(error=ScriptedError(message, code, overflow))


def arguments_text(arguments: Mapping[Any, Any] | str | None) -> str:
    """The arguments of a call as a model writes them."""
    if isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.encode(arguments or {}).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidParamsError(
            "arguments cannot be written as JSON (texts, numbers, lists and mappings can)"
        ) from None
