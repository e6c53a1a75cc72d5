"""Many approvals of one session at once, and clients on real sockets that race to answer them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tertulia.policy.approvals.approval_queue import MAX_PENDING
from tertulia.session.mcp.external_calls import call_externally
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.session.views import refresh_when_shown
from tertulia.tools.tool import Result
from tests.server.brokering import bare_server
from tests.server.client import model
from tests.server.served import SocketClient, served

TOO_MANY = 24
CALLS = MAX_PENDING + TOO_MANY
BUSY = -32001


async def _called(session: Session, number: int) -> Result:
    """As an agent that works for the conversation calls it: any number side by side."""
    conversation = session.parts.conversations.find("root")
    arguments = json.dumps({"text": f"call {number}"})
    return await call_externally(session.parts, conversation, "fake__echo", arguments, ("mcp",), lambda data: None)


async def _resolved(client: SocketClient, approvals: Sequence[str], decision: str) -> dict[str, bool]:
    """Answers them all, and what it was told for each. Whoever is told to come again comes again."""
    fields: dict[str, bool] = {}
    while left := [one for one in approvals if one not in fields]:
        sent = [(await client.send("approval/resolve", approval_id=one, decision=decision), one) for one in left]
        for number, one in sent:
            answer = await client.answer(number)
            if "error" in answer:
                assert answer["error"]["code"] == BUSY
            else:
                fields[one] = answer["result"]["resolved"]
    return fields


def _of(client: SocketClient, kind: str) -> list[Any]:
    return [event["data"] for event in client.events if event["type"] == kind]


async def _heard(client: SocketClient, kind: str, number: int) -> list[Any]:
    """So many events of that type, as soon as they have come."""
    looked = seen = 0

    def reached() -> bool:
        nonlocal looked, seen
        seen += sum(event["type"] == kind for event in client.events[looked:])
        looked = len(client.events)
        return seen >= number

    await client.until(reached)
    return _of(client, kind)


async def test_a_thousand_approvals_at_once_are_each_settled_once_by_whichever_client_is_first() -> None:
    """B12, B6, X-70: bounded, in order, none lost; each call has one output, and it is what the first answer said."""
    made = Settings(model=model(), mcp_servers={"fake": bare_server(approval="prompt")}, approval_policy="untrusted")
    async with served(made) as place, place.socket() as first, place.socket() as second:
        session = place.host[(await first.call("initialize", attend=True))["result"]["session_id"]]
        await second.call("initialize", session_id=session.id, attend=True)
        await first.call("mcp/status")
        refresh_when_shown(session.parts, session.parts.conversations.find("root"))
        async with asyncio.TaskGroup() as calls:
            outputs = [calls.create_task(_called(session, number)) for number in range(CALLS)]
            requests = await _heard(first, "approval_request", MAX_PENDING)
            assert await _heard(second, "approval_request", MAX_PENDING) == requests
            assert (await second.call("approval/list"))["result"]["approvals"] == requests
            assert [f'"call {number}"' in one["detail"] for number, one in enumerate(requests)] == [True] * MAX_PENDING
            assert [call.done() for call in outputs] == [False] * MAX_PENDING + [True] * TOO_MANY
            assert not _of(first, "mcp_tool_call_begin")
            approval_ids = [one["approval_id"] for one in requests]
            # One from the oldest on and one from the newest on, so that each is the first somewhere.
            yes, no = await asyncio.gather(
                _resolved(first, approval_ids, "allow"), _resolved(second, approval_ids[::-1], "deny")
            )
        assert [yes[one] + no[one] for one in approval_ids] == [1] * MAX_PENDING
        assert any(yes.values())
        assert any(no.values())
        texts = ["allow" if yes[one] else "deny" for one in approval_ids]
        results = [call.result() for call in outputs]
        for number, result in enumerate(results):
            if result.success:
                assert (result.text, texts[number]) == (f"call {number}", "allow")
            else:
                code = "busy" if number >= MAX_PENDING else "approval_denied"
                assert json.loads(result.text)["code"] == code
        assert sum(result.success for result in results) == texts.count("allow")
        assert (await first.call("approval/list"))["result"]["approvals"] == []
        for client in (first, second):
            ends = await _heard(client, "tool_call_end", CALLS)
            assert set(Counter(end["call_id"] for end in ends).values()) == {1}
            settled = {one["approval_id"]: one["decision"] for one in _of(client, "approval_resolved")}
            assert settled == dict(zip(approval_ids, texts, strict=True))
            assert len(_of(client, "approval_resolved")) == MAX_PENDING
            numbers = [event["seq"] for event in client.events if event["seq"] is not None]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
