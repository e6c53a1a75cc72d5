"""`/metrics`: what Prometheus reads of a server."""

from __future__ import annotations

import re
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tertulia.events.metrics import MAX_NAMES, OTHER, MetricsTotals
from tertulia.models.scripted.script import call, say
from tertulia.session.settings.settings import Settings
from tests.server.client import model
from tests.server.served import served, status

CANARY = "canary-7f3a"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}|[0-9a-f]{16}")


async def read(place: Any) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    answer = await place.raw(place.head("GET", "/metrics"))
    assert status(answer) == 200
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"text/plain; version=0.0.4" in head
    families = text_string_to_metric_families(body.decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


async def test_what_sessions_do_is_counted_and_goes_on_counting_when_they_close() -> None:
    """S002-44: tokens, tool count, MCP latency, cancel and failure rate, for all sessions of the process."""
    replies = say("", call("update_plan", {"plan": []}, "c1"), call(f"tool_{CANARY}", {}, "c2")), say(CANARY)
    async with served(Settings(model=model(replies))) as place, place.socket() as client:
        session_id = (await client.call("initialize"))["result"]["session_id"]
        await client.call("conversation/message", conversation_id="root", text=CANARY)
        before = await read(place)
        await client.call("session/close", session_id=session_id)
        after = await read(place)
    assert before["tertulia_sessions",] == 1
    assert before["tertulia_tasks_started_total",] == 1
    assert before["tertulia_tasks_ended_total", "completed"] == 1
    assert before["tertulia_model_requests_total",] == 2
    assert before["tertulia_tokens_total", "input"] > 0
    assert before["tertulia_tool_calls_total", "update_plan"] == 1
    assert before["tertulia_tool_call_failures_total", OTHER] == 1
    assert after["tertulia_sessions",] == 0
    ours = [key for key in before if key[0].startswith("tertulia_") and key[0].endswith("_total")]
    assert {key: after[key] for key in ours} == {key: before[key] for key in ours}
    labels = [label for key in before if key[0].startswith("tertulia_") for label in key[1:]]
    assert not [label for label in labels if _ID.search(label) or CANARY in label]
    assert before["process_resident_memory_bytes",] > 0


async def test_without_a_token_no_number_is_told() -> None:
    """D1."""
    async with served() as place:
        assert status(await place.raw(place.head("GET", "/metrics", Authorization=None))) == 401
        assert status(await place.raw(place.head("GET", "/metrics", Authorization="Bearer wrong"))) == 401


def test_the_names_of_tools_of_all_sessions_are_bounded() -> None:
    totals = MetricsTotals()
    for session in range(3):
        other = MetricsTotals()
        for number in range(MAX_NAMES):
            other.tools.setdefault(f"tool{session}_{number}", _calls())
        totals.merge(other)
    assert len(totals.tools) == MAX_NAMES + 1
    assert totals.tools[OTHER].calls == 2 * MAX_NAMES


def _calls() -> Any:
    from tertulia.events.metrics import CallTotals

    calls = CallTotals()
    calls.add(True, 5)
    return calls
