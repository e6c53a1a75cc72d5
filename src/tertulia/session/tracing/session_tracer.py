"""Follows the events of a session and makes spans of them, for as long as the session runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.events.bus import EventBus
from tertulia.package_loading import PackageError, load_package
from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import Full
from tertulia.session.conversations import Conversations
from tertulia.session.parts import SessionParts
from tertulia.session.tracing.span_fold import SpanFold
from tertulia.session.tracing.telemetry import Telemetry, telemetry_from_wire
from tertulia.tools.threads import run_in_thread

if TYPE_CHECKING:
    from tertulia.session.tracing.exporter import SpanExport

_MODULES = ("opentelemetry.sdk.trace.export", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


class SessionTracer:
    """The spans of one session. It hears what the bus publishes, where secrets are taken out already."""

    def __init__(self, bus: EventBus, conversations: Conversations, redactor: Redactor, telemetry: Telemetry) -> None:
        """Raises InvalidParams where what it needs is not installed."""
        self._bus = bus
        self._conversations = conversations
        self._content = telemetry.content
        self._export = _join_export(telemetry)
        self._taken = bus.last_seq
        self._fold = SpanFold(bus.session_id, self._export.add, self._model_of, bus.metrics.label, redactor.text)

    async def follow(self) -> None:
        """Fold events until the session ends."""
        async with self._bus.subscribe(after=self._taken, background=True) as events:
            async for event in events:
                self._take(event)

    async def close(self, seconds: float) -> None:
        """Take the last events, end what is open, and send what is queued within this time."""
        _, last = self._bus.recent_events(self._taken)
        for event in last:
            self._take(event)
        self._fold.close()
        send = self._export.end if self._export.leave() else self._export.flush
        try:
            async with asyncio.timeout(seconds):
                await run_in_thread(send)
        except (TertuliaError, TimeoutError):
            # The collector does not answer. The SDK logs what it could not send; a session closes all the same.
            return

    def _take(self, event: Event) -> None:
        if event.seq is not None:
            if event.seq <= self._taken:
                return
            self._taken = event.seq
        self._fold.take(event, self._content and self._all_stored())

    def _all_stored(self) -> bool:
        """Whether texts may leave the process: one conversation with a stricter policy may be quoted in any other."""
        return all(isinstance(conversation.storage, Full) for conversation in self._conversations)

    def _model_of(self, conversation_id: ConversationId) -> str | None:
        conversation = self._conversations.peek(conversation_id)
        return None if conversation is None else conversation.terms.wire.name


def make_tracer(parts: SessionParts) -> SessionTracer:
    """The tracer that the settings of a session describe; InvalidParams where what it needs is not installed."""
    telemetry = telemetry_from_wire(parts.settings.telemetry)
    return SessionTracer(parts.bus, parts.conversations, parts.redactor, telemetry)


def _join_export(telemetry: Telemetry) -> SpanExport:
    try:
        load_package("traces need", "otel", *_MODULES)
    except PackageError as error:
        raise InvalidParamsError(str(error)) from None
    from tertulia.session.tracing.exporter import join_export

    return join_export(telemetry)
