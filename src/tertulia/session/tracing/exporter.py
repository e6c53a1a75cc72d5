"""Hands finished spans to OpenTelemetry's SDK, which sends them from a thread of its own. Needs the extra `otel`.

One processor serves all sessions of the process that have the same collector, so a thousand sessions have one thread
and one connection. Both end with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from tertulia.session.tracing.span import FinishedSpan
from tertulia.session.tracing.telemetry import Telemetry
from tertulia.version import __version__

_EVERY_MS = 1_000
_EXPORT_S = 5
_MAX_QUEUE = 8_192
"""Spans that wait for a slow collector; further ones are dropped, and the SDK logs that."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("tertulia", __version__)
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class SpanExport:
    """Where the spans of all sessions go that have one collector."""

    def __init__(self, key: object, exporter: SpanExporter) -> None:
        self._key = key
        self.users = 0
        """How many sessions use it."""
        self._resource = Resource.create({"service.name": "tertulia", "service.version": __version__})
        self._processor = BatchSpanProcessor(
            exporter, max_queue_size=_MAX_QUEUE, schedule_delay_millis=_EVERY_MS, max_export_batch_size=512
        )

    def add(self, span: FinishedSpan) -> None:
        """Queue a span; never waits."""
        self._processor.on_end(self._readable(span))

    def leave(self) -> bool:
        """A session uses it no longer. Whether that was the last one: then `end` has to be called."""
        self.users -= 1
        if self.users == 0:
            del _exports[self._key]
        return self.users == 0

    def end(self) -> None:
        """Send what is queued, and end thread and connection. Blocks for as long as the collector does."""
        self._processor.shutdown()

    def flush(self) -> None:
        """Send what is queued. Blocks for as long as the collector does."""
        self._processor.force_flush()

    def _readable(self, span: FinishedSpan) -> ReadableSpan:
        # Made here and not by a tracer, which would give it another id than the events have.
        trace_id = int(span.trace_id, 16)
        parent = None if span.parent_id is None else _context(trace_id, span.parent_id)
        return ReadableSpan(
            span.name,
            context=_context(trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


def _context(trace_id: int, span_id: str) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote=False, trace_flags=_SAMPLED)


class _BorrowedExporter(SpanExporter):
    """An exporter of the application, which goes on using it when our sessions are closed."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export(spans)


_exports: dict[object, SpanExport] = {}


def join_export(telemetry: Telemetry) -> SpanExport:
    """The one for these settings, made with the first session that has them. The session must `leave` it."""
    key = telemetry.endpoint if telemetry.exporter is None else id(telemetry.exporter)
    export = _exports.get(key)
    if export is None:
        export = _exports[key] = SpanExport(key, _exporter_of(telemetry))
    export.users += 1
    return export


def _exporter_of(telemetry: Telemetry) -> SpanExporter:
    if telemetry.exporter is not None:
        return _BorrowedExporter(telemetry.exporter)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=f"{telemetry.endpoint}/v1/traces", timeout=_EXPORT_S)
