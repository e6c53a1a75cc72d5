"""Which reply of a script answers which request."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Reversible, Sequence
from typing import Any

import msgspec

from tertulia.models.scripted.script import Match, ScriptedCall, ScriptedReply
from tertulia.models.wire import ModelRequest
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item, ToolOutput, UserMessage


class ScriptedRequest(msgspec.Struct, frozen=True):
    """One request that a scripted model got, for assertions and for functions that answer."""

    request: ModelRequest

    @property
    def conversation_id(self) -> ConversationId:
        """The conversation that the request belongs to."""
        return self.request.conversation_id

    @property
    def instructions(self) -> str:
        """What the model was told to be."""
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
"""What an answer can be given as. An AgentError is a failure with its code; any other exception is raised."""
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
