"""The scripted model: answers from a script, for testing agents, for demonstrations, and where there is no key.

It replaces a provider and nothing else: it runs no tool, and knows only what is in a request.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Self

import msgspec

from tertulia.errors import InvalidParamsError, ModelError, NotFoundError, TertuliaError
from tertulia.models.scripted.script import (
    DEFAULT_CONTEXT_WINDOW,
    AnswerFunction,
    QueuedReply,
    ReplyQueue,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedReply,
    ScriptedRequest,
    fail,
)
from tertulia.models.scripted.script_file import load_script, parse_reply
from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    ItemsDialect,
    ModelRequest,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
)
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, Usage, text_parts

MAX_REQUESTS_KEPT = 1_000
_QUOTED = 200
_TOUR = Path(__file__).with_name("tour.json")
_PIECES_A_TICK = 64
_WORDS = re.compile(r"\S+\s*|\s+")

ReplyLike = ScriptedAnswer | AnswerFunction
Sleeper = Callable[[float], Awaitable[object]]


class ScriptedModel:
    """A Wire that answers from a list of replies (`ReplyQueue` says in which order).

    A request takes its reply when `stream` is called, not when it is read: the order of requests alone decides which
    reply each gets. All conversations that share the model use one list. The contract of Wire holds except where a
    reply is there to break it: `cut`, and exceptions to be raised.
    """

    def __init__(
        self,
        replies: Iterable[ReplyLike] = (),
        *,
        name: str = "scripted/inline",
        family: str = "scripted",
        context_window: int = DEFAULT_CONTEXT_WINDOW,
        repeat: bool = False,
        chunk: int | None = None,
        sleep: Sleeper = asyncio.sleep,
    ) -> None:
        """`chunk`: characters a delta, None for words. `sleep`: how delays are waited for, in seconds."""
        if isinstance(replies, str | Mapping):
            raise InvalidParamsError("replies must be a list, even of one reply")
        if chunk is not None and chunk < 1:
            raise InvalidParamsError(f"chunk must be at least 1, not {chunk}")
        if context_window < 1:
            raise InvalidParamsError(f"context_window must be at least 1, not {context_window}")
        self.name = name
        self.family = family
        self.context_window = context_window
        self.dialect = ItemsDialect()
        self._cues = ReplyQueue([_cue(reply, number) for number, reply in enumerate(replies, 1)], repeat=repeat)
        self._chunk = chunk
        self._sleep = sleep
        self._requests: deque[ScriptedRequest] = deque(maxlen=MAX_REQUESTS_KEPT)
        self._call_numbers = count(1)
        self._streaming = 0

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, sleep: Sleeper = asyncio.sleep) -> Self:
        """Read a script.

        Args:
            path: A .yaml, .yml or .json file.
            sleep: How delays are waited for, in seconds.

        Returns:
            A model that answers from it.

        Raises:
            InvalidParamsError: The file is no script; names the file, the reply and what was expected.
        """
        script = load_script(path)
        return cls(
            script.replies,
            name=f"scripted/{os.fspath(path)}",
            context_window=script.context_window,
            repeat=script.repeat,
            sleep=sleep,
        )

    @classmethod
    def tour(cls) -> Self:
        """The script of `tertulia demo`, which says that it is one, and how to get a real model.

        Returns:
            A new model at the beginning of that script.
        """
        return cls(load_script(_TOUR).replies, name="scripted/tour")

    @property
    def requests(self) -> list[ScriptedRequest]:
        """The last 1,000 requests, oldest first."""
        return list(self._requests)

    @property
    def last_request(self) -> ScriptedRequest:
        """The newest request.

        Raises:
            NotFoundError: There was none.
        """
        if not self._requests:
            raise NotFoundError(f"{self.name} has not been asked anything yet")
        return self._requests[-1]

    @property
    def remaining(self) -> int:
        """How many replies have never been used; 0 when the script was played to its end."""
        return self._cues.unused

    @property
    def streaming(self) -> int:
        """How many answers are being given at this moment."""
        return self._streaming

    def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """Take the next reply now, and say it while being read.

        Args:
            request: What a conversation asks.

        Returns:
            The pieces of the answer.
        """
        scripted_request = ScriptedRequest(request)
        self._requests.append(scripted_request)
        return self._play(scripted_request, self._cues.take(scripted_request))

    async def close(self) -> None:
        """Close nothing: it has no connections."""

    async def _play(
        self, scripted_request: ScriptedRequest, cue: QueuedReply | None
    ) -> AsyncGenerator[AnswerPiece, None]:
        self._streaming += 1
        try:
            reply = await self._reply(scripted_request, cue)
            if reply.gate is not None:
                await reply.gate.wait()
            await self._pause(reply.delay_ms)
            for number, piece in enumerate(self._pieces(reply, scripted_request.request)):
                if number and (reply.delay_between_ms or number % _PIECES_A_TICK == 0):
                    await self._pause(reply.delay_between_ms)
                yield piece
        finally:
            self._streaming -= 1

    async def _pause(self, milliseconds: float) -> None:
        # A delay of 0 yields to other tasks too: every real stream does.
        await (self._sleep(milliseconds / 1000) if milliseconds else asyncio.sleep(0))

    async def _reply(self, scripted_request: ScriptedRequest, cue: QueuedReply | None) -> ScriptedReply:
        if cue is None:
            return fail(self._out_of_replies(scripted_request))
        try:
            answer = cue(scripted_request) if callable(cue) else cue
            if inspect.isawaitable(answer):
                answer = await answer
            if isinstance(answer, Exception):
                raise answer
            return parse_reply(answer, f"{self.name}, what a function answered")
        except TertuliaError as error:
            return fail(error.message, code=error.code)

    def _out_of_replies(self, scripted_request: ScriptedRequest) -> str:
        had = f"{self.name} has no reply left: it had {self._cues.total}"
        if waiting := self._cues.waiting:
            had += f", {waiting} of them for an input that this one does not match"
        # Errors are recorded, so the sentence quotes only what the storage policy allows.
        last = scripted_request.last_input if scripted_request.request.store else ""
        quoted = f"{last[: _QUOTED - 1]}…" if len(last) > _QUOTED else last
        return f"{had}; asked last: {quoted!r}" if quoted else had

    def _pieces(self, reply: ScriptedReply, request: ModelRequest) -> Iterator[AnswerPiece]:
        if reply.retrying is not None:
            text = reply.text or ""
            yield from self._deltas(_message(text[: (len(text) + 1) // 2]))
            yield RetryNotice(reply.retrying)
        items = self._items(reply, request)
        breaks_off = reply.cut or reply.error is not None
        for number, item in enumerate(items, 1):
            yield from self._deltas(item)
            if not (breaks_off and number == len(items)):
                yield AnswerItem(item)
        if reply.error is not None:
            code, overflow = reply.error.code, reply.error.overflow
            helps = code == ModelError.code and not overflow
            yield AnswerFailure(reply.error.message, code, overflow, another_may_help=helps)
        elif not reply.cut:
            stop_reason = reply.stop_reason or ("tool_calls" if reply.tool_calls else "stop")
            yield AnswerEnd(_usage(reply, request), stop_reason)

    def _items(self, reply: ScriptedReply, request: ModelRequest) -> list[AssistantMessage | Reasoning | ToolCall]:
        items: list[AssistantMessage | Reasoning | ToolCall] = []
        if reply.reasoning:
            items.append(Reasoning(new_item_id(), reply.reasoning, self.dialect.name))
        if reply.text:
            items.append(_message(reply.text))
        if reply.tool_calls:
            items += self._calls(reply.tool_calls, request)
        return items

    def _calls(self, calls: tuple[ScriptedCall, ...], request: ModelRequest) -> Iterator[ToolCall]:
        custom = {tool.name for tool in request.tools if tool.kind == "custom"}
        # A resumed conversation has calls that an earlier instance of this model numbered.
        taken = {item.call_id for item in request.items if isinstance(item, ToolCall)}
        taken.update(CallId(call.call_id) for call in calls if call.call_id is not None)
        for call in calls:
            call_id = self._free_call_id(taken) if call.call_id is None else CallId(call.call_id)
            # A model whose API has no free text sends an object.
            is_text = call.name in custom and not call.arguments.startswith("{")
            kind = "custom" if is_text else "function"
            yield ToolCall(new_item_id(), call_id, call.name, call.arguments, kind)

    def _free_call_id(self, taken: set[CallId]) -> CallId:
        numbered = (CallId(f"call_{number}") for number in self._call_numbers)
        return next(call_id for call_id in numbered if call_id not in taken)

    def _deltas(self, item: AssistantMessage | Reasoning | ToolCall) -> Iterator[AnswerPiece]:
        match item:
            case AssistantMessage():
                return (TextDelta(item.id, piece) for piece in _cut(item.text, self._chunk))
            case Reasoning():
                return (ReasoningDelta(item.id, piece) for piece in _cut(item.text, self._chunk))
            case ToolCall():
                return iter(())


def _cue(reply: ReplyLike, number: int) -> QueuedReply:
    return reply if isinstance(reply, Exception) or callable(reply) else parse_reply(reply, f"reply {number}")


def _message(text: str) -> AssistantMessage:
    return AssistantMessage(new_item_id(), text_parts(text))


def _cut(text: str, chunk: int | None) -> Iterator[str]:
    if chunk is None:
        return (word.group() for word in _WORDS.finditer(text))
    return (text[start : start + chunk] for start in range(0, len(text), chunk))


def _usage(reply: ScriptedReply, request: ModelRequest) -> Usage:
    if reply.usage is not None:
        total = reply.usage.total_tokens or reply.usage.input_tokens + reply.usage.output_tokens
        return msgspec.structs.replace(reply.usage, total_tokens=total)
    input_size = _size(request.instructions) + len(request.tools_json) + sum(map(len, request.chunks))
    thought = _size(reply.reasoning or "")
    output_size = (
        thought + _size(reply.text or "") + sum(_size(call.name + call.arguments) for call in reply.tool_calls)
    )
    input_tokens, output_tokens = _tokens(input_size), _tokens(output_size)
    return Usage(input_tokens, 0, output_tokens, _tokens(thought), input_tokens + output_tokens)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _tokens(size: int) -> int:
    return -(-size // 4)
