"""Sessions and conversations over the wire: every answer has the shape that the public page gives it."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, is_event, serving

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NOBODY = "00000000-0000-4000-8000-000000000000"

CONTEXT = {
    "base_instructions", "user_instructions", "additions", "policy", "narrowed", "tools_prefs", "mcp_tool_allowlist",
    "model", "storage_policy", "limits", "prompt_tokens", "cache_key",
}  # fmt: skip
ENTRY = {
    "id", "parent_id", "title", "status", "depth", "message_count", "last_active_at", "model", "backend",
}  # fmt: skip
DEFAULT_POLICY = {"approval": "on-request", "sandbox": "workspace-write", "network": False, "storage": "full"}


async def refused(server: Any, code: str, method: str, **params: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await server.call(method, **params)
    assert caught.value.code == code, caught.value
    return caught.value


# ---- sessions


async def test_session_info_has_every_field_of_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        info = await server.call("session/info")
        assert {
            "session_id", "root_conversation_id", "protocol_version", "version", "policy", "model", "mcp",
        } <= set(info)  # fmt: skip
        assert info["policy"] == DEFAULT_POLICY
        assert info["model"] == "scripted/script.json"
        assert info["mcp"] == []
        assert info["session_id"] != info["root_conversation_id"]
        for name in ("session_id", "root_conversation_id"):
            assert str(uuid.UUID(info[name])) == info[name]


async def test_the_flags_are_the_policy_of_the_session(tmp_path: Path) -> None:
    flags = ["-s", "read-only", "-a", "never", "--storage", "ttl:60"]
    async with serving(tmp_path, [], *flags) as server:
        policy = (await server.call("session/info"))["policy"]
        assert policy == {"approval": "never", "sandbox": "read-only", "network": False, "storage": {"ttl": 60}}


async def test_a_connection_can_have_several_sessions_and_each_is_isolated(tmp_path: Path) -> None:
    """`session/start` answers as `session/info`; every operation takes `session_id`, default the own one."""
    async with serving(tmp_path, ["First.", "Second."]) as server:
        own = await server.call("session/info")
        other = await server.call("session/start")
        assert set(own) <= set(other)
        assert other["session_id"] != own["session_id"]
        sid = other["session_id"]
        listed = await server.call("session/list")
        assert {own["session_id"], sid} == {entry["session_id"] for entry in listed["sessions"]}

        assert (await server.call("session/info", session_id=sid))["session_id"] == sid
        assert (await server.call("session/info", sessionId=sid))["session_id"] == sid
        await server.call("conversation/open", session_id=sid, title="over there")
        assert len((await server.call("conversation/list", session_id=sid))["conversations"]) == 2
        assert len((await server.call("conversation/list"))["conversations"]) == 1
        reply = await server.say("Hi", session_id=sid)
        assert reply["status"] == "completed"
        there = await server.call("conversation/history", conversation_id="root", session_id=sid)
        here = await server.call("conversation/history", conversation_id="root")
        assert (len(there["entries"]), len(here["entries"])) == (2, 0)

        closed = await server.call("session/close", session_id=sid)
        assert closed["closed"] is True
        await refused(server, "closed", "conversation/list", session_id=sid)
        await refused(server, "not_found", "conversation/list", session_id=NOBODY)
        assert (await server.say("Hi"))["status"] == "completed"


async def test_a_session_can_be_closed_twice_and_then_only_says_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        first = await server.call("session/close")
        assert (first["closed"], first["already_closed"]) == (True, False)
        again = await server.call("session/close")
        assert (again["closed"], again["already_closed"]) == (True, True)
        await refused(server, "closed", "conversation/open")


# ---- open, list, context


async def test_open_answers_with_id_context_narrowed_and_warnings(tmp_path: Path) -> None:
    """S000-36, S002-46."""
    async with serving(tmp_path, []) as server:
        opened = await server.call(
            "conversation/open",
            base_instructions="You review.",
            user_instructions="Be brief.",
            title="Review",
            sandbox="read_only",
            approval_policy="never",
            storage_policy={"ttl": 60},
            include_plan_tool=False,
            limits={"max_output_bytes": 1000},
        )
        assert set(opened) == {"conversation_id", "context", "narrowed", "warnings"}
        assert opened["narrowed"] == []
        assert opened["warnings"] == []
        context = opened["context"]
        assert set(context) >= CONTEXT
        assert context["base_instructions"] == "You review."
        assert context["user_instructions"] == "Be brief."
        assert context["additions"] == []
        assert context["policy"] == {
            "approval": "never", "sandbox": "read-only", "network": False, "storage": {"ttl": 60},
        }  # fmt: skip
        assert context["storage_policy"] == {"ttl": 60}
        assert context["tools_prefs"]["include_plan_tool"] is False
        assert context["mcp_tool_allowlist"] is None
        assert context["limits"]["max_output_bytes"] == 1000
        assert context["prompt_tokens"] > 0
        assert context["cache_key"]
        answer = await server.call("conversation/context", conversation_id=opened["conversation_id"])
        assert answer == context


async def test_open_understands_camel_case(tmp_path: Path) -> None:
    """S000-35."""
    async with serving(tmp_path, ["Hi."]) as server:
        opened = await server.call(
            "conversation/open",
            baseInstructions="You review.",
            approvalPolicy="never",
            storagePolicy="headers_only",
            includePlanTool=False,
            mcpToolAllowlist=[],
            limits={"maxOutputBytes": 1000},
            parentId="root",
        )
        context = opened["context"]
        assert context["base_instructions"] == "You review."
        assert context["policy"]["approval"] == "never"
        assert context["storage_policy"] == "headers_only"
        assert context["tools_prefs"]["include_plan_tool"] is False
        assert context["mcp_tool_allowlist"] == []
        assert context["limits"]["max_output_bytes"] == 1000
        answer = await server.call(
            "conversation/message", conversationId=opened["conversation_id"], text="x", messageId="m", ifBusy="wait"
        )
        assert answer["last_assistant_message"] == "Hi."
        changed = await server.call("conversation/set_context", conversationId="root", userInstructions="Brief.")
        assert changed["context"]["user_instructions"] == "Brief."
        closed = await server.call("conversation/close", conversationId=opened["conversation_id"], timeoutS=1)
        assert closed["closed"] is True


async def test_the_list_is_the_root_and_then_the_others_as_they_were_made(tmp_path: Path) -> None:
    """S004-07, S004-08: API-opened conversations have the root as parent."""
    async with serving(tmp_path, ["Hi."]) as server:
        root = (await server.call("session/info"))["root_conversation_id"]
        one = (await server.call("conversation/open", title="one", user_instructions="Brief."))["conversation_id"]
        two = (await server.call("conversation/open", title="two", parent_id=one))["conversation_id"]
        await server.say("Hello", one)
        listed = (await server.call("conversation/list"))["conversations"]
        assert [entry["id"] for entry in listed] == [root, one, two]
        assert all(set(entry) >= ENTRY for entry in listed)
        assert [entry["parent_id"] for entry in listed] == [None, root, one]
        assert [entry["depth"] for entry in listed] == [0, 1, 2]
        assert [entry["title"] for entry in listed] == [None, "one", "two"]
        assert [entry["message_count"] for entry in listed] == [0, 2, 0]
        assert {entry["status"] for entry in listed} == {"idle"}
        assert {entry["backend"] for entry in listed} == {"native"}
        assert {entry["model"] for entry in listed} == {"scripted/script.json"}
        assert all(RFC3339.fullmatch(entry["last_active_at"]) for entry in listed)


async def test_root_is_a_name_for_the_root_everywhere(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hi."]) as server:
        root = (await server.call("session/info"))["root_conversation_id"]
        await server.say("Hello", "root")
        for method in ("conversation/history", "conversation/tools", "conversation/context", "conversation/interrupt"):
            by_name = await server.call(method, conversation_id="root")
            assert by_name == await server.call(method, conversation_id=root), method
        forked = await server.call("conversation/fork", conversation_id="root")
        assert set(forked) == {"conversation_id"}
        opened = await server.call("conversation/open", parent_id="root")
        listed = (await server.call("conversation/list"))["conversations"]
        assert listed[-1]["id"] == opened["conversation_id"]
        assert listed[-1]["parent_id"] == root


def narrowed_in(line: Any) -> list[Any]:
    """What an event says was narrowed."""
    return line["params"]["data"].get("narrowed") or [] if is_event(line) else []


async def test_rights_is_told_in_the_answer_and_by_an_event(tmp_path: Path) -> None:
    """S000-17, S000-47: `narrowed` [{field, asked, given, because}]."""
    async with serving(tmp_path, [], "-s", "read-only", "--storage", "headers-only") as server:
        opened = await server.call("conversation/open", sandbox="danger_full_access", storage_policy="full")
        want = [
            {"field": "sandbox", "asked": "danger-full-access", "given": "read-only", "because": "session"},
            {"field": "storage_policy", "asked": "full", "given": "headers_only", "because": "session"},
        ]
        assert sorted(opened["narrowed"], key=lambda entry: entry["field"]) == want
        for entry in want:
            line = await server.until(lambda line, entry=entry: entry in narrowed_in(line))
            assert line["params"]["type"] == "background_event"
            assert line["params"]["conversation_id"] == opened["conversation_id"]
            assert line["params"]["data"]["message"]
        assert opened["context"]["narrowed"] == opened["narrowed"]

        child = await server.call("conversation/open", parent_id=opened["conversation_id"], sandbox="workspace-write")
        assert [entry["given"] for entry in child["narrowed"]] == ["read-only"]


async def test_what_cannot_be_opened_leaves_nothing_behind(tmp_path: Path) -> None:
    """S000-29: nothing created, no events."""
    async with serving(tmp_path, []) as server:
        before = len(server.events)
        assert (await refused(server, "not_found", "conversation/open", parent_id=NOBODY)).number == -32000
        await refused(server, "invalid_params", "conversation/open", mcp_tool_allowlist=["nobody__nothing"])
        await refused(server, "invalid_params", "conversation/open", mcp_tool_allowlist=["not a name!"])
        await refused(server, "invalid_params", "conversation/open", sandbox="open")
        await refused(server, "invalid_params", "conversation/open", model="nobody/nothing")
        await refused(server, "invalid_params", "conversation/open", backend="nobody")
        assert len((await server.call("conversation/list"))["conversations"]) == 1
        assert len(server.events) in {before, 2}


# ---- set_context


async def test_set_context_answers_as_open_does_absent_keeps_null_resets(tmp_path: Path) -> None:
    """S000-34, S000-36, X-67."""
    async with serving(tmp_path, []) as server:
        conversation = (await server.call("conversation/open", base_instructions="A", user_instructions="B"))[
            "conversation_id"
        ]
        changed = await server.call(
            "conversation/set_context", conversation_id=conversation, base_instructions="C", sandbox="read-only"
        )
        assert set(changed) == {"conversation_id", "context", "narrowed", "warnings"}
        assert changed["conversation_id"] == conversation
        context = changed["context"]
        assert (context["base_instructions"], context["user_instructions"]) == ("C", "B")
        assert context["policy"]["sandbox"] == "read-only"
        reset = await server.call(
            "conversation/set_context", conversation_id=conversation, base_instructions=None, sandbox=None
        )
        assert reset["context"]["base_instructions"] is None
        assert reset["context"]["user_instructions"] == "B"
        assert reset["context"]["policy"] == DEFAULT_POLICY
        event = await server.event("conversation_context_changed", conversation_id=conversation)
        assert event["task_id"] is None
        titled = await server.call("conversation/set_context", conversation_id=conversation, title="New")
        assert titled["warnings"] == []
        assert (await server.call("conversation/list"))["conversations"][1]["title"] == "New"
        await server.call("conversation/set_context", conversation_id=conversation, refresh_mcp_view=True)


async def test_a_change_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        before = await server.call("conversation/context", conversation_id="root")
        bad: list[dict[str, Any]] = [{"sandbox": "open"}, {"colour": 1}, {"limits": {"x": 1}}, {"model": "nobody/x"}]
        for wrong in bad:
            params = {"conversation_id": "root", "base_instructions": "NEW", **wrong}
            await refused(server, "invalid_params", "conversation/set_context", **params)
        assert await server.call("conversation/context", conversation_id="root") == before


# ---- closing


async def test_closed_is_not_the_same_as_never_there(tmp_path: Path) -> None:
    """X-38, X-71."""
    async with serving(tmp_path, ["Hi."]) as server:
        conversation = (await server.call("conversation/open"))["conversation_id"]
        closed = await server.call("conversation/close", conversation_id=conversation)
        assert closed == {"closed": True, "already_closed": False, "forced": False}
        again = await server.call("conversation/close", conversation_id=conversation)
        assert (again["closed"], again["already_closed"]) == (True, True)
        methods: list[tuple[str, dict[str, Any]]] = [
            ("conversation/message", {"text": "Hello?"}),
            ("conversation/steer", {"text": "Hello?"}),
            ("conversation/interrupt", {}),
            ("conversation/compact", {}),
            ("conversation/history", {}),
            ("conversation/tools", {}),
            ("conversation/context", {}),
            ("conversation/fork", {}),
            ("conversation/set_context", {"title": "x"}),
        ]
        for method, params in methods:
            error = await refused(server, "closed", method, conversation_id=conversation, **params)
            assert error.number == -32000, method
            error = await refused(server, "not_found", method, conversation_id=NOBODY, **params)
            assert error.number == -32000, method
        await refused(server, "not_found", "conversation/close", conversation_id=NOBODY)
        await refused(server, "closed", "conversation/open", parent_id=conversation)
        assert (await server.event("conversation_closed"))["conversation_id"] == conversation


async def test_the_root_cannot_be_closed_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hi."]) as server:
        assert (await refused(server, "invalid_params", "conversation/close", conversation_id="root")).number == -32602
        assert (await server.say("Hello"))["last_assistant_message"] == "Hi."


async def test_malformed_ids_are_never_an_internal_error(tmp_path: Path) -> None:
    """E9."""
    async with serving(tmp_path, []) as server:
        for id in ("", "../x", "\0", "x" * 4096, "ROOT", NOBODY.upper(), " root", "1", "é"):
            with pytest.raises(Refused) as caught:
                await server.call("conversation/history", conversation_id=id)
            assert caught.value.code in {"not_found", "invalid_params"}, id
