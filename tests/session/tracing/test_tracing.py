"""Traces of a session: what becomes a span, below which one, with which ids, and which texts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tertulia
from tertulia.errors import InvalidParamsError, ModelError
from tertulia.session.settings.settings import load_settings
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.session.mcp_stage import calls, server
from tests.session.mcp_stage import served as mcp_served
from tests.tables import each_row

CANARY = "canary-7f3a"


@tertulia.tool
def double(number: int) -> str:
    """Twice the number."""
    return str(number * 2)


@asynccontextmanager
async def traced(*replies: Any, content: bool = False, **fields: Any) -> AsyncIterator[tuple[Any, Any, Any]]:
    """A session, its events and the exporter that has all spans when the block is left."""
    exporter = InMemorySpanExporter()
    telemetry = {"exporter": exporter, "content": content}
    settings = tertulia.Settings(model=ScriptedModel(replies), telemetry=telemetry, tools=[double], **fields)
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        yield session, events, exporter


def tree(spans: tuple[ReadableSpan, ...]) -> list[str]:
    """The names of the spans, each indented below its parent, in the order in which they began and ended."""
    children: dict[int | None, list[ReadableSpan]] = {}
    for span in spans:
        children.setdefault(span.parent and span.parent.span_id, []).append(span)

    def lines(parent: int | None, depth: int) -> list[str]:
        below = sorted(children.get(parent, []), key=lambda span: span.start_time or 0)
        return [
            line for span in below for line in (f"{'  ' * depth}{span.name}", *lines(span.context.span_id, depth + 1))
        ]

    return lines(None, 0)


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    return next(span for span in exporter.get_finished_spans() if span.name.startswith(name))


async def test_a_task_is_a_trace_with_its_turns_requests_and_calls() -> None:
    async with traced(say("", call("double", {"number": 21})), "42") as (session, events, exporter):
        reply = await session.root.message("twice 21")
    assert tree(exporter.get_finished_spans()) == [
        "session",
        "  invoke_agent",
        "    turn 1",
        "      chat scripted/inline",
        "      execute_tool double",
        "    turn 2",
        "      chat scripted/inline",
    ]
    started = next(event for event in events.drain() if event.type == "task_started")
    task = named(exporter, "invoke_agent")
    assert f"{task.context.trace_id:032x}" == started.trace_id == reply.trace_id
    assert f"{task.context.span_id:016x}" == started.span_id
    assert {span.context.trace_id for span in exporter.get_finished_spans()} == {task.context.trace_id}
    request = dict(named(exporter, "chat").attributes or {})
    assert request["gen_ai.provider.name"] == "scripted"
    assert request["gen_ai.usage.input_tokens"] > 0
    assert dict(named(exporter, "session").attributes or {}) == {"session.id": session.id}
    for span in exporter.get_finished_spans():
        assert (span.start_time or 0) <= (span.end_time or 0)


async def test_a_delegation_stands_below_the_call_that_caused_it() -> None:
    create = call("conv_create", {"user_instruction": "deeper"}, "c1")
    async with traced(say("", create), "B", "A") as (session, _, exporter):
        await session.root.message("go")
    assert tree(exporter.get_finished_spans()) == [
        "session",
        "  invoke_agent",
        "    turn 1",
        "      chat scripted/inline",
        "      execute_tool conv_create",
        "        invoke_agent",
        "          turn 1",
        "            chat scripted/inline",
        "  invoke_agent",
        "    turn 1",
        "      chat scripted/inline",
    ]
    kinds = [dict(s.attributes or {}).get("tertulia.task.kind") for s in exporter.get_finished_spans()]
    assert [kind for kind in kinds if kind] == ["user", "target", "continuation"]


async def test_a_call_that_fails_says_so() -> None:
    async with traced(say("", call("double", {"number": "x"})), "no") as (session, _, exporter):
        await session.root.message("go")
    assert dict(named(exporter, "execute_tool").attributes or {})["error.type"] == "tool_error"
    assert "error.type" not in dict(named(exporter, "invoke_agent").attributes or {})


async def test_a_task_that_is_stopped_says_so_and_so_does_its_request() -> None:
    gate = asyncio.Event()
    async with traced(say("late", gate=gate)) as (session, events, exporter):
        running = asyncio.ensure_future(session.root.message("go"))
        async with asyncio.timeout(HANG_S):
            await events.until("task_started")
            await session.root.interrupt()
            await running
    for name in ("invoke_agent", "chat"):
        span = named(exporter, name)
        assert dict(span.attributes or {})["error.type"] == "interrupted"
        assert span.status.status_code.name == "ERROR"


async def test_a_request_that_a_provider_refuses_names_the_error() -> None:
    refuse = ModelError("no such model")
    async with traced(say("", call("double", {"number": 1})), refuse) as (session, _, exporter):
        reply = await session.root.message("go")
    assert reply.status == "failed"
    requests = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
    assert [dict(span.attributes or {}).get("error.type") for span in requests] == [None, "model_error"]


async def test_what_is_open_when_the_session_closes_is_ended() -> None:
    gate = asyncio.Event()
    async with traced(say("never", gate=gate)) as (session, events, exporter):
        running = asyncio.ensure_future(session.root.message("go"))
        async with asyncio.timeout(HANG_S):
            await events.until("task_started")
            await session.close(timeout=0)
            await running
    assert [line.strip() for line in tree(exporter.get_finished_spans())][:2] == ["session", "invoke_agent"]


@each_row(
    ("content", "policy", "shown"),
    [
        (True, tertulia.Full(), True),
        (False, tertulia.Full(), False),
        (True, tertulia.HeadersOnly(), False),
        (True, tertulia.NoStorage(), False),
        (True, tertulia.Ttl(3600), False),
    ],
)
async def test_texts_are_attributes_only_by_switch_and_where_everything_is_stored(
    content: bool, policy: Any, shown: bool
) -> None:
    """E1, E6: by policy and by switch; names that a model made up are texts too."""
    made_up = call(f"tool_{CANARY}", {"x": CANARY}, "c1")
    replies = say(CANARY, call("double", {"number": 1}, "c0"), made_up), CANARY
    async with traced(*replies, content=content, storage_policy=policy) as (session, _, exporter):
        await session.root.message(CANARY)
    spans = exporter.get_finished_spans()
    shown_text = repr([(span.name, dict(span.attributes or {})) for span in spans])
    assert ("gen_ai.tool.call.arguments" in shown_text, CANARY in shown_text) == (shown, shown)
    assert "execute_tool other" in {span.name for span in spans}


async def test_one_conversation_that_is_not_stored_silences_all() -> None:
    async with traced("A", "B", content=True) as (session, _, exporter):
        await session.open(storage_policy=tertulia.NoStorage())
        await session.root.message(CANARY)
    assert CANARY not in repr([dict(span.attributes or {}) for span in exporter.get_finished_spans()])


async def test_a_secret_is_taken_out_before_it_is_traced() -> None:
    """E6."""
    secret = "sk-" + "a1B2c3D4e5F6g7H8" * 3
    async with traced(secret, content=True) as (session, _, exporter):
        await session.root.message(f"my key is {secret}")
    assert secret not in repr([dict(span.attributes or {}) for span in exporter.get_finished_spans()])


async def test_tracing_does_not_keep_an_idle_session_open() -> None:
    async with traced("A") as (session, events, _):
        await session.root.message("go")
        events_closed = events
        await events_closed.__aexit__(None, None, None)
        assert session.activity.is_idle


class _HangingExporter(SpanExporter):
    def __init__(self) -> None:
        import threading

        self.go = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.go.wait(HANG_S)
        return SpanExportResult.FAILURE


async def test_a_collector_that_does_not_answer_holds_no_session_up() -> None:
    exporter = _HangingExporter()
    settings = tertulia.Settings(model=ScriptedModel(["A"]), telemetry={"exporter": exporter})
    try:
        async with asyncio.timeout(HANG_S):
            session = tertulia.Session.start(settings)
            async with session:
                await session.root.message("go")
                answer = await session.close()
        assert (answer.closed, answer.forced) == (True, False)
    finally:
        exporter.go.set()


@each_row(
    ("table", "sentence"),
    [
        ({"endpoint": "collector:4318"}, "must be the address of an OTLP collector"),
        ({"endpoint": 7}, "must be the address of an OTLP collector"),
        ({"endpoint": "http://user:key@127.0.0.1:4318"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"endpoint": "http://[::1"}, "must be the address of an OTLP collector"),
        ({"content": "yes"}, "must be true or false"),
        ({"exporter": "x"}, "SpanExporter"),
        ({"endpont": "http://127.0.0.1"}, "there is no setting 'endpont'; did you mean"),
    ],
)
async def test_a_table_that_cannot_be_used_is_refused(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        tertulia.Settings(telemetry=table)
    assert sentence in refused.value.message


async def test_a_session_that_cannot_be_traced_is_refused_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in [name for name in sys.modules if name.startswith("tertulia.session.tracing.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("opentelemetry.sdk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    settings = tertulia.Settings(model=ScriptedModel(["A"]), telemetry={"endpoint": "http://127.0.0.1:9"})
    with pytest.raises(InvalidParamsError) as refused:
        async with tertulia.Session.start(settings):
            pytest.fail("it began")
    assert "tertulia[otel]" in refused.value.message
    assert not list((tmp_path / "home").glob("sessions/*.db"))


def test_a_project_cannot_send_traces_anywhere(tmp_path: Any) -> None:
    config = tmp_path / "project" / ".tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[telemetry]\nendpoint = "http://127.0.0.1:4318"\n')
    loaded = load_settings(cwd=tmp_path / "project", environ={"HOME": str(tmp_path / "home"), "PATH": ""})
    assert loaded.settings.telemetry == {}
    assert any("telemetry is ignored" in warning for warning in loaded.warnings)


async def test_a_call_of_an_mcp_server_has_a_span_for_what_the_server_had_of_it() -> None:
    exporter = InMemorySpanExporter()
    telemetry = {"exporter": exporter}
    async with mcp_served({"s": server("echo")}, *calls("s__echo", {"text": "x"}), telemetry=telemetry) as session:
        await session.root.message("go")
    remote, local = named(exporter, "tools/call s__echo"), named(exporter, "execute_tool s__echo")
    assert remote.parent is not None
    assert remote.parent.span_id == local.context.span_id
    assert remote.kind.name == "CLIENT"
    assert dict(remote.attributes or {})["mcp.method.name"] == "tools/call"


async def test_a_switch_without_a_collector_traces_nothing() -> None:
    """A later layer may name the collector, so the table alone is no mistake."""
    settings = tertulia.Settings(model=ScriptedModel(["A"]), telemetry={"content": True})
    async with tertulia.Session.start(settings) as session:
        assert (await session.root.message("go")).text == "A"
