"""What a server may ask, and what of it reaches a caller. The rest is in test_connection.py, with real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_types import CreateMessageRequestParams, ElicitRequestFormParams, ElicitResult, ErrorData

from tertulia.mcp.client.server_requests import (
    MAX_ASKS,
    MAX_MESSAGES,
    MAX_TEXT,
    CallAttribution,
    CallInProgress,
    IncomingRequests,
)
from tertulia.scheduler.nursery import Nursery
from tests.deadlines import HANG_S
from tests.mcp.connected import Asked
from tests.mcp.fakes import bare, by_stdio
from tests.tables import each_row


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


@each_row(
    ("fields", "why"),
    [
        ({"messages": [said("x")] * (MAX_MESSAGES + 1)}, "more than 256 messages"),
        ({"messages": [said("x" * MAX_TEXT)], "systemPrompt": "s"}, "more than 1,048,576 characters"),
        (
            {"messages": [said("x")], "tools": [{"name": "a", "inputSchema": {"type": "object"}}]},
            "tools are not offered",
        ),
        (
            {"messages": [{"role": "user", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}]},
            "only text can be sampled with",
        ),
    ],
)
async def test_a_request_that_cannot_be_answered_reaches_nobody(fields: dict[str, Any], why: str) -> None:
    turns, caller = CallAttribution(), Asked()
    incoming = IncomingRequests(by_stdio(bare(), sampling=True)[0], (), turns, Nursery().start)
    async with asyncio.timeout(HANG_S) as limit:
        turn = CallInProgress(caller.caller, lambda *_: None, limit)
        await turns.begin(turn)
        heard = await incoming.sample(None, CreateMessageRequestParams.model_validate({"maxTokens": 1, **fields}))  # type: ignore[arg-type]
        turns.end(turn)
    assert isinstance(heard, ErrorData)
    assert why in heard.message
    assert caller.questions == []


@pytest.mark.parametrize("allowed", [True, False])
def test_only_what_is_allowed_is_offered(allowed: bool) -> None:
    """C16."""
    definition, _ = by_stdio(bare(), sampling=allowed, elicitation=allowed)
    incoming = IncomingRequests(definition, ("/",) if allowed else (), CallAttribution(), Nursery().start)
    offered = {"elicitation_callback", "sampling_callback", "list_roots_callback"}
    assert set(incoming.callbacks()) == (offered if allowed else set())


async def test_after_so_many_questions_in_one_call_nobody_is_asked_any_more() -> None:
    """C16: the time of a call stands still while somebody is asked, and must not do so for ever."""
    turns, caller = CallAttribution(), Asked()
    incoming = IncomingRequests(by_stdio(bare())[0], (), turns, Nursery().start)
    form = ElicitRequestFormParams.model_validate({"message": "?", "requestedSchema": {"type": "object"}})
    async with asyncio.timeout(HANG_S) as limit:
        turn = CallInProgress(caller.caller, lambda *_: None, limit)
        await turns.begin(turn)
        heard = [await incoming.elicit(None, form) for _ in range(MAX_ASKS + 2)]  # type: ignore[arg-type]
        turns.end(turn)
    actions = [text.action for text in heard if isinstance(text, ElicitResult)]
    assert actions == ["accept"] * MAX_ASKS + ["decline"] * 2
    assert len(caller.questions) == MAX_ASKS
