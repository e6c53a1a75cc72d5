"""Spans over the real protocol: an OTLP collector on loopback."""

from __future__ import annotations

import asyncio

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import tertulia
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S


async def test_spans_arrive_at_a_collector_with_the_ids_of_the_events() -> None:
    received: asyncio.Queue[ExportTraceServiceRequest] = asyncio.Queue()

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        received.put_nowait(ExportTraceServiceRequest.FromString(body))
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        settings = tertulia.Settings(model=ScriptedModel(["A"]), telemetry={"endpoint": endpoint})
        async with tertulia.Session.start(settings) as session:
            reply = await session.root.message("go")
        async with asyncio.timeout(HANG_S):
            got = await received.get()
    finally:
        await runner.cleanup()
    (resource,) = got.resource_spans
    spans = [span for scope in resource.scope_spans for span in scope.spans]
    assert {span.trace_id.hex() for span in spans} == {reply.trace_id}
    assert sorted(span.name for span in spans) == ["chat scripted/inline", "invoke_agent", "session", "turn 1"]
    assert "tertulia" in [value.value.string_value for value in resource.resource.attributes]
