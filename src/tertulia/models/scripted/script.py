"""The script of a scripted model: its replies as frozen data, short functions to write them, and `ReplyQueue`, which
says which reply answers which request.

Not the model, and not the form that files have: nothing here knows of streams or mappings.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Reversible, Sequence
from typing import Any, Protocol

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.models.wire import ModelRequest, StopReason
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import check_text
from tertulia.protocol.items import Item, ToolOutput, Usage, UserMessage

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
    """Which requests a reply is for: all conditions that are set must hold.

    Only `regex` distinguishes upper and lower case.
    """

    contains: str | None = None
    """A text that the newest user message or tool output contains."""
    regex: str | None = None
    """A regular expression that is found in the newest user message or tool output."""
    conversation: str | None = None
    """A text that the conversation's instructions contain."""

    def __post_init__(self) -> None:
        if self.contains is None and self.regex is None and self.conversation is None:
            raise InvalidParamsError("match needs contains, regex or conversation")
        try:
            re.compile(self.regex or "")
        except re.error as error:
            place = "" if error.pos is None else f" (at character {error.pos + 1})"
            raise InvalidParamsError(f"match.regex is not a regular expression{place}") from None
        except (OverflowError, RecursionError):
            raise InvalidParamsError("match.regex is too large for a regular expression") from None

    def meets(self, last_input: str, instructions: str) -> bool:
        """Whether the reply is for a request.

        Args:
            last_input: The text of its newest user message or tool output.
            instructions: The instructions of its conversation.

        Returns:
            True where all conditions that are set hold.
        """
        return (
            (self.contains is None or self.contains.casefold() in last_input.casefold())
            and (self.regex is None or re.search(self.regex, last_input) is not None)
            and (self.conversation is None or self.conversation.casefold() in instructions.casefold())
        )


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model: its content, its pauses, and the requests it is for.

    With `error` or `cut` the answer breaks off: what else the reply says is streamed, but the last item of it
    never becomes whole.
    """

    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedError | None = None
    cut: bool = False
    """The stream stops without an end, which no wire may do: for tests that a turn survives it."""
    retrying: str | None = None
    """Half of the text is streamed and withdrawn with this message, then the answer begins again."""
    stop_reason: StopReason | None = None
    """None: tool_calls if there are any, else stop."""
    usage: Usage | None = None
    """None: estimated from the lengths of the request and the answer."""
    delay_ms: float = 0
    """The pause before the first piece."""
    delay_between_ms: float = 0
    """The pause between one piece and the next."""
    match: Match | None = None
    """None: used in its turn, after those that match."""
    repeat: bool = False
    """Whether it can be used more than once."""
    gate: ReplyGate | None = None
    """The answer starts when it opens. From Python only."""

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
    """Write a reply with a text.

    Args:
        text: The text of the answer.
        calls: Tool calls after the text.
        reasoning: The reasoning before it.
        match: Which requests it is for; a text is what the newest input contains. None: used in its turn.
        repeat: Whether it can be used more than once.
        gate: The answer starts when it opens.

    Returns:
        The reply, for `ScriptedModel`.

    Raises:
        InvalidParamsError: A text is not valid Unicode, or the match is a broken expression.
    """
    return ScriptedReply(
        text=text,
        tool_calls=calls,
        reasoning=reasoning,
        match=Match(contains=match) if isinstance(match, str) else match,
        repeat=repeat,
        gate=gate,
    )


def call(name: str, arguments: Mapping[str, Any] | str | None = None, call_id: str | None = None) -> ScriptedCall:
    """Write a tool call: a reply of its own, or a part of one.

    Args:
        name: The tool.
        arguments: A mapping, or a text that is sent as it is, broken on purpose perhaps.
        call_id: The id of the call; None: the model numbers it.

    Returns:
        The call, for `say` or `ScriptedModel`.

    Raises:
        InvalidParamsError: The arguments cannot be written as JSON.
    """
    return ScriptedCall(name, arguments_text(arguments), call_id)


def fail(message: str, *, code: str = "model_error", overflow: bool = False) -> ScriptedReply:
    """Write a reply that fails before it says anything.

    Args:
        message: The sentence of the error.
        code: The code of the error.
        overflow: Whether the reason is that the history does not fit the model's window.

    Returns:
        The reply, for `ScriptedModel`.
    """
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


class ScriptedRequest(msgspec.Struct, frozen=True):
    """One request that a scripted model got, for assertions and for functions that answer."""

    request: ModelRequest

    @property
    def conversation_id(self) -> ConversationId:
        """The conversation that the request belongs to."""
        return self.request.conversation_id

    @property
    def instructions(self) -> str:
        """The instructions of the conversation."""
        return self.request.instructions

    @property
    def items(self) -> tuple[Item, ...]:
        """The whole history, oldest first."""
        return tuple(self.request.items)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools offered, in order."""
        return tuple(tool.name for tool in self.request.tools)

    @property
    def cache_key(self) -> str:
        """Equal for requests that share instructions, tools and model family."""
        return self.request.cache_key

    @property
    def last_input(self) -> str:
        """The text of the newest user message or tool output, injected ones left out; empty when there is none."""
        items = self.request.items
        for item in reversed(items if isinstance(items, Reversible) else tuple(items)):
            if isinstance(item, ToolOutput) or (isinstance(item, UserMessage) and not item.injected):
                return item.text
        return ""


ScriptedAnswer = str | Mapping[str, Any] | ScriptedCall | ScriptedReply | Exception
"""What an answer can be given as. A TertuliaError is a failure with its code; any other exception is raised."""
AnswerFunction = Callable[[ScriptedRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]
QueuedReply = ScriptedReply | Exception | AnswerFunction


class ReplyQueue:
    """The replies of a script and which of them are left.

    Those with a `match` are tried first, in order; the others are used one after another. Each is used once
    unless it repeats, or all do: then the last of those without a match is followed by the first.
    """

    __slots__ = ("_in_turn", "_matching", "_repeat", "_unused", "total")

    def __init__(self, cues: Sequence[QueuedReply], *, repeat: bool) -> None:
        self.total = len(cues)
        self._repeat = repeat
        self._unused = set(range(len(cues)))
        self._matching: list[tuple[int, Match, ScriptedReply]] = []
        self._in_turn: deque[tuple[int, QueuedReply]] = deque()
        for number, cue in enumerate(cues):
            if isinstance(cue, ScriptedReply) and cue.match is not None:
                self._matching.append((number, cue.match, cue))
            else:
                self._in_turn.append((number, cue))

    @property
    def unused(self) -> int:
        """How many have never been taken."""
        return len(self._unused)

    @property
    def waiting(self) -> int:
        """How many are left for an input that they match."""
        return len(self._matching)

    def take(self, request: ScriptedRequest) -> QueuedReply | None:
        """The one for this request, or None when none is left for it."""
        number, cue = self._matched(request) or self._next() or (-1, None)
        self._unused.discard(number)
        return cue

    def _matched(self, request: ScriptedRequest) -> tuple[int, QueuedReply] | None:
        last_input = request.last_input if self._matching else ""
        for position, (number, match, reply) in enumerate(self._matching):
            if match.meets(last_input, request.instructions):
                if not (reply.repeat or self._repeat):
                    del self._matching[position]
                return number, reply
        return None

    def _next(self) -> tuple[int, QueuedReply] | None:
        if not self._in_turn:
            return None
        number, cue = self._in_turn[0]
        if isinstance(cue, ScriptedReply) and cue.repeat:
            return number, cue
        self._in_turn.popleft()
        if self._repeat:
            self._in_turn.append((number, cue))
        return number, cue
