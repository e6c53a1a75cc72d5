"""The page about the server says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tertulia.protocol import json_scan
from tertulia.protocol.line_framing import MAX_LINE_BYTES
from tertulia.server.jsonrpc import connection, request_runner, strict_json
from tests.server.client import connected, is_event

PAGE = (Path(__file__).parents[3] / "docs" / "app-server.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```jsonl\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0].splitlines()


async def test_every_line_of_the_example_is_answered_as_the_page_says() -> None:
    async with connected(["Hello to you."], initialize=False) as client:
        for line in EXAMPLE:
            await client.send(line)
        for line in EXAMPLE:
            answer = await client.answer(json.loads(line)["id"])
            assert "result" in answer, answer
        assert (await client.answer(3))["result"]["last_assistant_message"] == "Hello to you."
        assert set((await client.answer(5))["result"]) == {"subscribed", "last_seq"}
        after = client.sink.messages[client.place(lambda m: m.get("id") == 5) :]
        assert next(m["params"]["seq"] for m in after if is_event(m)) == 1, "the replay follows the answer"


def test_the_limits_on_the_page_are_those_in_the_code() -> None:
    requests, bytes_in_flight = request_runner.MAX_REQUESTS, request_runner.MAX_REQUEST_BYTES
    assert f"more than {requests:,} requests, or {bytes_in_flight >> 20} MiB" in PAGE
    assert f"more than {json_scan.MAX_PARTS:,} parts" in PAGE
    assert f"more than {strict_json.MAX_DIGITS:,} digits" in PAGE
    assert f"more than {MAX_LINE_BYTES >> 20} MiB" in PAGE
    assert f"1 to {connection.MAX_BATCH} requests" in PAGE
    assert (
        f"more than {request_runner.MAX_REQUESTS:,} requests, or {request_runner.MAX_REQUEST_BYTES >> 20} MiB" in PAGE
    )
