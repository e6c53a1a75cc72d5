"""Calls to MCP servers as a session makes them: asked, allowed, waited for, told of. Real servers, over stdio."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tertulia.protocol.tool_events import ApprovalRequest, McpToolCallProgress
from tertulia.testing import ScriptedReply, call
from tests.mcp.fakes import bare
from tests.session.staging import Stage, stage


def served(**more: Any) -> dict[str, Any]:
    command, *args = bare()
    return {"fake": {"command": command, "args": args, **more}}


def outputs(acting: Stage) -> list[tuple[bool, str]]:
    return [(output.success, output.text) for output in acting.outputs(acting.root)]


async def test_where_nobody_may_be_asked_the_refusal_names_the_setting() -> None:
    """DESIGN, Fine print, MCP: and the task goes on."""
    echo = call("fake__echo", {"text": "hi"})
    async with stage(echo, "Well.", mcp_servers=served(), approval_policy="never") as acting:
        assert (await acting.root.message("go")).text == "Well."
        [(success, text)] = outputs(acting)
        refused = msgspec.json.decode(text)
        assert (success, refused["code"]) == (False, "no_approver")
        assert '[mcp_servers.fake] approval = "approve"' in refused["reason"]
        assert "mcp_tool_call_begin" not in acting.events.types()


@pytest.mark.parametrize(
    ("approval", "sandbox"), [("auto", "workspace-write"), ("prompt", "workspace-write"), ("approve", "read-only")]
)
async def test_a_call_is_asked_about_and_a_yes_for_the_conversation_is_for_the_same_call(
    approval: str, sandbox: str
) -> None:
    """B5, and DESIGN, Views: under read-only whatever the mode."""
    calls = [call("fake__echo", {"text": text}) for text in ("one", "one", "two")]
    async with stage(*calls, "Done.", mcp_servers=served(approval=approval), sandbox=sandbox) as acting:
        async with acting.session.events(attend=True):
            task = acting.begin(acting.root.message("go"))
            for decision, scope in (("allow", "conversation"), ("deny", None)):
                event = await acting.until("approval_request")
                assert isinstance(event.data, ApprovalRequest)
                assert event.data.kind == "mcp"
                await acting.session.approvals.resolve(event.data.approval_id, decision, scope=scope)
            assert (await task).text == "Done."
        answers = outputs(acting)
        assert [success for success, _ in answers] == [True, True, False]
        assert [text for _, text in answers[:2]] == ["one", "one"]
        assert acting.events.types().count("approval_request") == 2
        assert acting.events.types().count("mcp_tool_call_end") == 2


async def test_waiting_for_a_server_is_told_and_counted() -> None:
    """S002-39, issue 8, item 4: visible in events and metrics."""
    slow = ScriptedReply(tool_calls=tuple(call("fake__slow", {"seconds": 0.1}) for _ in range(3)))
    servers = served(approval="approve", parallel=True, concurrency=1)
    async with stage(slow, "Done.", mcp_servers=servers) as acting:
        assert (await acting.root.message("go")).text == "Done."
        assert outputs(acting) == [(True, "done")] * 3
        waits = [event.data.message for event in acting.events.drain() if event.type == "background_event"]
        assert (
            waits == ["fake__slow waits for its turn: the server fake has 1 calls under way (its concurrency is 1)"] * 2
        )
        for counts in (
            (await acting.session.metrics()).session,
            (await acting.session.metrics("root")).conversations[0],
        ):
            assert counts.mcp_waits == 2
            assert counts.mcp_waited_ms >= 200
            assert counts.mcp.calls == 3


async def test_one_that_waits_too_long_is_refused_and_the_others_end_well() -> None:
    slow = ScriptedReply(tool_calls=tuple(call("fake__slow", {"seconds": 0.4}) for _ in range(2)))
    servers = served(approval="approve", parallel=True)
    limits = {"mcp_concurrency": 1, "mcp_wait_s": 0.05}
    async with stage(slow, "Done.", mcp_servers=servers, limits=limits) as acting:
        assert (await acting.root.message("go")).text == "Done."
        (well, _), (refused, text) = outputs(acting)
        assert (well, refused) == (True, False)
        payload = msgspec.json.decode(text)
        assert payload["code"] == "limit"
        assert "mcp_wait_s" in payload["reason"]
        assert "mcp_concurrency" in payload["reason"]
        assert (await acting.session.metrics()).session.mcp_waits == 1
        assert acting.events.types().count("mcp_tool_call_begin") == 1


async def test_progress_is_told_at_a_pace_that_people_can_follow() -> None:
    """Issue 8, item 5: twenty reports in a fifth of a second."""
    slow = call("fake__slow", {"seconds": 0.2})
    async with stage(slow, "Done.", mcp_servers=served(approval="approve")) as acting:
        await acting.root.message("go")
        progress = [event.data for event in acting.events.drain() if isinstance(event.data, McpToolCallProgress)]
        assert 1 <= len(progress) <= 4
        assert [data.offset for data in progress] == list(range(len(progress)))
        assert progress[0].total == 20.0
