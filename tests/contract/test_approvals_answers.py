"""Answering approvals over JSON-RPC, rightly and wrongly, by a client written from the public page alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, Server, serving
from tests.sandbox.confined import need


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


def touch(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", name]}}]}


async def message_with_request(server: Server, text: str = "go") -> tuple[int, dict[str, Any]]:
    """A message that has led to a request: its number, and the request."""
    start = len(server.lines)
    message = await server.ask("conversation/message", conversation_id="root", text=text)
    return message, (await server.event("approval_request", start))["data"]


WRONG: list[dict[str, Any]] = [
    {}, {"decision": "maybe"}, {"decision": "Allow"}, {"decision": True}, {"decision": "allow", "scope": "forever"},
    {"decision": "allow", "ttl_s": "x", "scope": "session"}, {"decision": "allow", "ttl_s": 0, "scope": "session"},
    {"decision": "allow", "ttl_s": -1, "scope": "session"}, {"decision": "allow", "remember": True},
    {"decision": "deny", "message": 5},
]  # fmt: skip


async def test_a_wrong_answer_is_refused_and_the_request_still_waits(tmp_path: Path) -> None:
    """B6: −32602 by name; nothing is granted, nothing runs."""
    async with serving(tmp_path, [touch("made"), "Done."], "-a", "untrusted") as server:
        message, request = await message_with_request(server)
        for wrong in WRONG:
            with pytest.raises(Refused) as refused:
                await server.call("approval/resolve", approval_id=request["approval_id"], **wrong)
            assert (refused.value.number, refused.value.code) == (-32602, "invalid_params"), wrong
        assert (await server.call("approval/list"))["approvals"] == [request]
        assert (await server.call("approval/grants"))["grants"] == []
        assert not (tmp_path / "made").exists()
        await server.call("approval/resolve", approvalId=request["approval_id"], decision="allow")
        assert (await server.answer(message))["status"] == "completed"
        assert (tmp_path / "made").exists()


async def test_a_no_is_taken_whatever_is_said_with_it(tmp_path: Path) -> None:
    """A scope with it grants nothing, and denies nothing but this."""
    async with serving(tmp_path, [touch("made"), "1", touch("made"), "2"], "-a", "untrusted") as server:
        message, request = await message_with_request(server)
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny", scope="session")
        await server.answer(message)
        assert not (tmp_path / "made").exists()
        message, request = await message_with_request(server)
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow", scope="once")
        await server.answer(message)
        assert (tmp_path / "made").exists()
        assert (await server.call("approval/grants"))["grants"] == []


async def test_a_grant_for_a_conversation_with_an_end_is_listed_and_revoked_once(tmp_path: Path) -> None:
    """S002-11, S002-12: it shows what it matches, whose it is, and how long it holds."""
    async with serving(tmp_path, [touch("made"), "1", touch("made"), "2"], "-a", "untrusted") as server:
        message, request = await message_with_request(server)
        answer = {"decision": "allow", "scope": "conversation", "ttl_s": 1000}
        await server.call("approval/resolve", approval_id=request["approval_id"], **answer)
        await server.answer(message)
        (grant,) = (await server.call("approval/grants", conversation_id="root"))["grants"]
        assert (grant["scope"], grant["conversation_id"]) == ("conversation", request["conversation_id"])
        assert grant["matches"] == request["matches"]
        assert 900 < grant["expires_in_s"] <= 1000
        assert (await server.say("again"))["last_assistant_message"] == "2"
        other = (await server.call("conversation/open"))["conversation_id"]
        assert (await server.call("approval/grants", conversation_id=other))["grants"] == []
        await server.call("approval/revoke", grant_id=grant["grant_id"])
        await server.call("approval/revoke", grant_id=grant["grant_id"])
        assert (await server.call("approval/grants"))["grants"] == []
        with pytest.raises(Refused) as refused:
            await server.call("approval/revoke", grant_id="nobody")
        assert refused.value.code == "not_found"


async def test_no_answer_in_time_is_a_no(tmp_path: Path) -> None:
    """B9: said in the output and in the event."""
    async with serving(tmp_path, [touch("made"), "1"], "-a", "untrusted", "-c", "approval_timeout_s=0.1") as server:
        assert (await server.say("go"))["status"] == "completed"
        end = (await server.event("tool_call_end"))["data"]
        assert (end["success"], "approval_denied" in end["output"]) == (False, True)
        assert (await server.event("approval_resolved"))["data"]["decision"] == "deny"
        assert not (tmp_path / "made").exists()


async def test_a_childs_request_shows_its_chain_and_is_answered_at_the_root(tmp_path: Path) -> None:
    """Issue 7, 5: a child's request carries its chain."""
    create = {"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "do it"}}]}
    async with serving(tmp_path, [create, touch("made"), "Child.", "Root."], "-a", "untrusted") as server:
        message, request = await message_with_request(server)
        root, child = (one["id"] for one in (await server.call("conversation/list"))["conversations"])
        assert (request["conversation_id"], request["chain"]) == (child, [root])
        assert (await server.call("approval/list", conversation_id="root"))["approvals"] == [request]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        assert (await server.answer(message))["last_assistant_message"] == "Root."
        assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        ({"sandbox": "read_only"}, {"sandbox": "read-only"}),
        ({"sandbox": "danger-full-access"}, {"sandbox": "workspace-write"}),
        ({"approval_policy": "on_failure"}, {"approval": "on-request"}),
        ({"approvalPolicy": "never"}, {"approval": "never"}),
    ],
    ids=str,
)
async def test_policies_are_understood_in_both_spellings_and_only_narrow(
    tmp_path: Path, value: dict[str, str], policy: dict[str, str]
) -> None:
    """B7, S000-16, S000-17."""
    async with serving(tmp_path, []) as server:
        opened = await server.call("conversation/open", **value)
        assert policy.items() <= opened["context"]["policy"].items()
        ((_, asked_for),) = value.items()
        ((_, got),) = policy.items()
        assert bool(opened["narrowed"]) == (asked_for.replace("_", "-") != got)
