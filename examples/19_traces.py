"""A delegation as a trace of OpenTelemetry, drawn as a tree."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tertulia
from tertulia.testing import ScriptedModel, call, say

Span = dict[str, Any]


@tertulia.tool
def count_words(text: str) -> str:
    """How many words a text has."""
    return str(len(text.split()))


async def main() -> None:
    """Ask a colleague who uses a tool, and look at the spans."""
    replies = [
        say("", call("conv_create", {"title": "counter", "user_instruction": "Count: one two three"})),
        say("", call("count_words", {"text": "one two three"})),
        say("Three."),
        say("There are three words."),
    ]
    exporter = InMemorySpanExporter()  # with a collector: telemetry={"endpoint": "http://127.0.0.1:4318"}
    settings = tertulia.Settings(model=ScriptedModel(replies), tools=[count_words], telemetry={"exporter": exporter})
    async with tertulia.Session.start(settings) as session:
        reply = await session.root.message("How many words?")

    spans: list[Span] = [json.loads(span.to_json()) for span in exporter.get_finished_spans()]
    tree = draw(sorted(spans, key=lambda span: span["start_time"]), None, 0)
    print("\n".join(tree))
    assert {span["context"]["trace_id"] for span in spans} == {"0x" + reply.trace_id}
    assert "execute_tool count_words" in [line.strip() for line in tree]


def draw(spans: list[Span], parent: str | None, depth: int) -> list[str]:
    """Each span below its parent."""
    lines: list[str] = []
    for span in spans:
        if span["parent_id"] == parent:
            lines.append("  " * depth + span["name"])
            lines += draw(spans, span["context"]["span_id"], depth + 1)
    return lines


if __name__ == "__main__":
    asyncio.run(main())
