"""The queue of elicitations: what MCP servers ask a person in the middle of a call waits here for its answer.

It runs on the loop's thread. Only the fact that a question was asked, and how it ended, is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import BusyError, ClosedError, InvalidParamsError, NotFoundError
from tertulia.mcp.server_connection import Elicitation, ElicitationResult
from tertulia.policy.approvals.grants import IdSequence
from tertulia.policy.display_text import make_display_text, printable, visible
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ElicitationRequest, ElicitationResolved
from tertulia.protocol.validation_text import NOT_JSON
from tertulia.schema.schema import Schema
from tertulia.tools.tool import CallContext

TIMEOUT_S = 300.0
MAX_PENDING = 256
MAX_PENDING_OF_ONE = 8
"""The most that wait in one conversation: a server that asks without end must not block the others."""
MAX_SCHEMA_BYTES = 64 * 1024
MAX_CONTENT_BYTES = 64 * 1024
MAX_URL = 2_048
_FOR_PEOPLE = frozenset({"description", "enumNames", "title"})


class _PendingElicitation(msgspec.Struct, frozen=True, eq=False):
    event: ElicitationRequest
    conversation_id: ConversationId
    schema: Schema | None
    """None: there is nothing to fill in."""
    publish: Callable[[EventData], object]
    answer: asyncio.Future[ElicitationResult]

    def shows_in(self, conversation: ConversationId | None) -> bool:
        return conversation is None or conversation in (self.conversation_id, *self.event.chain)


class Elicitations:
    """Publishes questions and takes answers: exactly one `elicitation_resolved` follows each `elicitation_request`.

    The first answer counts. No answer in time, and the end of the call, conversation or session, is a cancellation.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._ids = IdSequence()
        self._pending: dict[str, _PendingElicitation] = {}
        self._closed = False

    async def ask(self, elicitation: Elicitation, call: CallContext) -> ElicitationResult:
        """The person's answer. InvalidParams for a question that cannot be shown, Busy where too many are pending."""
        self._check_room(call.conversation_id)
        schema = _compile_schema(elicitation)
        elicitation_id, loop = self._ids.next(), asyncio.get_running_loop()
        event = ElicitationRequest(
            elicitation_id=elicitation_id,
            server=elicitation.server,
            message=make_display_text(elicitation.message, lines=True).text,
            schema=_shown_schema(elicitation.schema),
            url=_display_url(elicitation.url),
            chain=call.chain.callers,
        )
        waiting = _PendingElicitation(event, call.conversation_id, schema, call.publish, loop.create_future())
        self._pending[elicitation_id] = waiting
        timer = loop.call_later(self._timeout_s, self._settle, elicitation_id, ElicitationResult("cancel"))
        try:
            call.publish(event)
            return await waiting.answer
        finally:
            timer.cancel()
            self._settle(elicitation_id, ElicitationResult("cancel"))

    def gave(self, elicitation_id: str) -> bool:
        """Whether something was ever asked here under this id."""
        return self._ids.gave(elicitation_id)

    def resolve(
        self, elicitation_id: str, decision: Literal["allow", "deny", "cancel"], content: dict[str, Any] | None = None
    ) -> bool:
        """Answer: allow with what was asked for, deny, or cancel, which is neither. False: it was settled before.

        InvalidParams for a content that is not what was asked for; then it goes on waiting.
        """
        waiting = self._pending.get(elicitation_id)
        if waiting is None or waiting.answer.done():
            if not self.gave(elicitation_id):
                raise NotFoundError(f"there is no elicitation {elicitation_id[:80]!r}")
            return False
        if decision != "allow":
            if content is not None:
                raise InvalidParamsError("content goes with the decision allow")
            return self._settle(elicitation_id, ElicitationResult("decline" if decision == "deny" else "cancel"))
        return self._settle(elicitation_id, ElicitationResult("accept", _check_content(waiting.schema, content)))

    def pending(self, conversation: ConversationId | None = None) -> list[ElicitationRequest]:
        """What waits, oldest first: all, or what shows in one conversation."""
        waiting = [one for one in self._pending.values() if not one.answer.done()]
        return [one.event for one in waiting if one.shows_in(conversation)]

    def forget(self, conversation: ConversationId) -> None:
        """Cancel what waits in a conversation that is closed."""
        for elicitation_id, waiting in list(self._pending.items()):
            if waiting.conversation_id == conversation:
                self._settle(elicitation_id, ElicitationResult("cancel"))

    def close(self) -> None:
        """Cancel everything; from now on nothing is asked."""
        self._closed = True
        for elicitation_id in list(self._pending):
            self._settle(elicitation_id, ElicitationResult("cancel"))

    def _check_room(self, conversation: ConversationId) -> None:
        if self._closed:
            raise ClosedError("the session is closing; no person is asked any more")
        own = sum(waiting.conversation_id == conversation for waiting in self._pending.values())
        if own >= MAX_PENDING_OF_ONE or len(self._pending) >= MAX_PENDING:
            raise BusyError(f"{max(own, MAX_PENDING_OF_ONE)} elicitations wait for an answer already", retry_after_s=1)

    def _settle(self, elicitation_id: str, answer: ElicitationResult) -> bool:
        waiting = self._pending.pop(elicitation_id, None)
        if waiting is None:
            return False
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        resolved = ElicitationResolved(elicitation_id, answer.action, chain=waiting.event.chain)
        # A task that has ended publishes nothing more.
        with suppress(asyncio.CancelledError):
            waiting.publish(resolved)
        return True


def _compile_schema(elicitation: Elicitation) -> Schema | None:
    if elicitation.url is not None:
        return None
    try:
        text = msgspec.json.encode(elicitation.schema).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidParamsError(f"the schema of the answer cannot be written as JSON: {NOT_JSON}") from None
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidParamsError(f"the schema of the answer is longer than {MAX_SCHEMA_BYTES:,} bytes")
    return Schema.compile(text)


def _shown_schema(value: Any) -> Any:
    """The schema with its texts made safe to show. InvalidParams where a name, or a value to be chosen, is not:
    an answer has to repeat it as it is."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                _seen(name): _fit_text(entry) if name in _FOR_PEOPLE else _shown_schema(entry)
                for name, entry in members.items()
            }
        case list():
            return [_shown_schema(entry) for entry in cast("list[Any]", value)]
        case str():
            return _seen(value)
        case _:
            return value


def _seen(text: str) -> str:
    if printable(text) != text:
        raise InvalidParamsError("the server asks for names or values with characters in them that no person would see")
    return text


def _fit_text(value: Any) -> Any:
    """A text made safe to show.

    A property may have the name of such a text; its value is a schema, and is left alone.
    """
    if isinstance(value, list):
        return [_fit_text(entry) for entry in cast("list[Any]", value)]
    return visible(value, lines=True) if isinstance(value, str) else _shown_schema(value)


def _display_url(url: str | None) -> str | None:
    """An address as a person may read it before going there: of the web, and with nothing in it that hides another."""
    if url is None:
        return None
    plain = make_display_text(url, max_characters=MAX_URL)
    if plain.text != url or not url.lower().startswith(("https://", "http://")):
        raise InvalidParamsError("the server named a page that no person should be sent to")
    return url


def _check_content(schema: Schema | None, content: dict[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        if content is not None:
            raise InvalidParamsError("this elicitation names a page to visit; leave out content")
        return None
    answers = content or {}
    if len(msgspec.json.encode(answers)) > MAX_CONTENT_BYTES:
        raise InvalidParamsError(f"content is longer than {MAX_CONTENT_BYTES:,} bytes")
    try:
        schema.validate(answers)
    except InvalidParamsError as error:
        raise InvalidParamsError(f"content is not what was asked for: {error.message}") from None
    return answers
