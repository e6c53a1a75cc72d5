"""Approvals and commands over JSON-RPC, as a client sees them that was written from the public page alone."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, Server, program, serving, surroundings, write_script
from tests.contract.test_mcp_app_server import calling, configure, of, ready
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare
from tests.sandbox.confined import need

TOUCH: dict[str, Any] = {"command": ["touch", "made"]}


def shell(**arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "shell", "arguments": arguments}]}


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


async def output(server: Server) -> dict[str, Any]:
    return (await server.event("tool_call_end"))["data"]


async def test_a_command_runs_in_the_workspace_and_its_events_tell_of_it(tmp_path: Path) -> None:
    """S002-14"""
    async with serving(tmp_path, [shell(command=["bash", "-c", "echo hi > made; cat made"]), "Done."]) as server:
        answer = await server.say("go")
        assert (answer["status"], answer["tool_calls"]) == ("completed", 1)
        end = await output(server)
        assert (end["name"], end["success"]) == ("shell", True)
        assert "hi" in end["output"]
        assert (tmp_path / "made").read_text() == "hi\n"
        wanted = ["tool_call_begin", "exec_command_begin", "exec_command_end", "tool_call_end", "task_complete"]
        assert [kind for kind in server.types(answer["task_id"]) if kind in wanted] == wanted
        ended = (await server.event("exec_command_end"))["data"]
        assert (ended["exit_code"], ended["output"]) == (0, "hi\n")


async def test_nothing_is_written_outside_and_a_failure_is_an_output(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    replies = [shell(command=["bash", "-c", f"echo x > {tmp_path}/made; exit 3"]), "It failed."]
    async with serving(tmp_path, replies, "--cd", "w", "-a", "never") as server:
        assert (await server.say("go"))["last_assistant_message"] == "It failed."
        end = await output(server)
        assert not end["success"]
        assert "3" in end["output"]
        assert not (tmp_path / "made").exists()


async def test_a_client_is_asked_and_its_yes_counts(tmp_path: Path) -> None:
    """Issue 7: approval_request, approval/list, approval/resolve, approval_resolved."""
    async with serving(tmp_path, [shell(**TOUCH), "Done."], "-a", "untrusted") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        event = await server.event("approval_request")
        request = event["data"]
        fields = {"approval_id", "kind", "conversation_id", "chain", "title", "detail", "matches", "scopes"}
        fields |= {"call_id", "asked_at", "expires_at", "command", "cwd", "sandbox", "size", "digest"}
        fields |= {"because"}
        assert set(request) == fields
        assert (request["kind"], request["conversation_id"], request["chain"]) == ("exec", event["conversation_id"], [])
        assert request["scopes"] == ["once", "conversation", "session", "project"]
        assert (await server.call("approval/list"))["approvals"] == [request]
        assert not (tmp_path / "made").exists()
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        assert (await server.answer(message))["status"] == "completed"
        assert (tmp_path / "made").exists()
        resolved = (await server.event("approval_resolved"))["data"]
        assert (resolved["approval_id"], resolved["decision"]) == (request["approval_id"], "allow")
        order = ["tool_call_begin", "approval_request", "approval_resolved", "exec_command_begin", "exec_command_end"]
        assert [event["type"] for event in server.events if event["type"] in order] == order
        # Resolving a settled approval is a no-op, an unknown id is not_found.
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny")
        with pytest.raises(Refused) as refused:
            await server.call("approval/resolve", approval_id="nobody", decision="allow")
        assert refused.value.code == "not_found"
        assert (await server.call("approval/list"))["approvals"] == []


async def test_a_no_is_an_output_and_the_task_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, [shell(**TOUCH), "I may not."], "-a", "untrusted") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        request = (await server.event("approval_request"))["data"]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny", message="no!")
        assert (await server.answer(message))["last_assistant_message"] == "I may not."
        end = await output(server)
        assert not end["success"]
        assert json.loads(end["output"])["code"] == "approval_denied"
        assert not (tmp_path / "made").exists()


async def test_only_an_escalation_leaves_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    fields = {"sandbox_permissions": "require_escalated", "justification": "it has to"}
    replies = [shell(command=["touch", str(tmp_path / "made")], **fields), "Done."]
    async with serving(tmp_path, replies, "--cd", "w") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        request = (await server.event("approval_request"))["data"]
        assert request["kind"] == "escalation"
        assert "it has to" in request["detail"]
        assert not (tmp_path / "made").exists()
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        await server.answer(message)
        assert (tmp_path / "made").exists()


async def test_a_grant_is_listed_used_and_taken_back(tmp_path: Path) -> None:
    """S002-12, S002-13"""
    replies = [shell(**TOUCH), "1", shell(**TOUCH), "2", shell(**TOUCH), "3"]
    async with serving(tmp_path, replies, "-a", "untrusted") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="1")
        request = (await server.event("approval_request"))["data"]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow", scope="session")
        await server.answer(message)
        await server.say("2")
        assert sum(event["type"] == "approval_request" for event in server.events) == 1
        (grant,) = (await server.call("approval/grants"))["grants"]
        assert grant["matches"] == request["matches"]
        await server.call("approval/revoke", grant_id=grant["grant_id"])
        assert (await server.call("approval/grants"))["grants"] == []
        start = len(server.lines)
        message = await server.ask("conversation/message", conversation_id="root", text="3")
        request = (await server.event("approval_request", start))["data"]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny")
        await server.answer(message)


async def test_interrupting_answers_the_request(tmp_path: Path) -> None:
    async with serving(tmp_path, [shell(**TOUCH)], "-a", "untrusted") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        await server.event("approval_request")
        assert (await server.call("conversation/interrupt", conversation_id="root"))["interrupted"]
        assert (await server.answer(message))["status"] == "interrupted"
        resolved = (await server.event("approval_resolved"))["data"]
        assert (resolved["decision"], resolved["reason"]) == ("deny", "interrupted")
        assert (await server.call("approval/list"))["approvals"] == []
        assert not (tmp_path / "made").exists()


async def test_a_patch_and_a_picture(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 3, 4)
    (tmp_path / "a.png").write_bytes(png)
    text = "*** Begin Patch\n*** Add File: new\n+text\n*** End Patch"
    calls = [
        {"name": "apply_patch", "arguments": {"input": text}},
        {"name": "view_image", "arguments": {"path": "a.png"}},
    ]
    async with serving(tmp_path, [{"tool_calls": calls}, "Done."]) as server:
        await server.say("go")
        assert (tmp_path / "new").read_text() == "text\n"
        ends = [event["data"] for event in server.events if event["type"] == "tool_call_end"]
        assert [end["success"] for end in ends] == [True, True]
        assert "3 x 4" in ends[1]["output"]
        assert (await server.event("patch_apply_end"))["data"]["success"]
        assert base64.b64encode(png).decode() not in ends[1]["output"]


@pytest.mark.parametrize("policy", ["untrusted", "on-request", "never"])
async def test_exec_asks_nobody(tmp_path: Path, policy: str) -> None:
    """`tertulia exec` has no one who could answer: denied at once, said so, and a failure unless wanted so."""
    (tmp_path / "w").mkdir()
    fields = {"sandbox_permissions": "require_escalated", "justification": "it has to"}
    model = write_script(tmp_path, [shell(command=["touch", str(tmp_path / "made")], **fields), "I may not."])
    line = [program(), "exec", "--json", "-m", f"scripted/{tmp_path}/{model.partition('/')[2]}", "-a", policy, "go"]
    process = await asyncio.create_subprocess_exec(
        *line,
        cwd=tmp_path / "w",
        env=surroundings(tmp_path / "home"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(HANG_S):
        out, _ = await process.communicate()
    assert process.returncode == (0 if policy == "never" else 1)
    assert b"no_approver" in out
    assert b"I may not." in out
    assert not (tmp_path / "made").exists()


# ---- the whole request


async def test_all_of_a_long_request_can_be_read_before_it_is_answered(tmp_path: Path) -> None:
    """A1, B10: the event says how much of it is missing, and `approval/get` has it, every part in pages."""
    lines = [f"+line {number}" for number in range(30_000)]
    patch = "\n".join(["*** Begin Patch", "*** Add File: made", *lines, "*** End Patch"])
    replies = [{"tool_calls": [{"name": "apply_patch", "arguments": {"input": patch}}]}, "Done."]
    async with serving(tmp_path, replies, "-a", "untrusted") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        event = await server.event("approval_request")
        request = event["data"]
        assert len(json.dumps(event)) < 70_000
        assert (request["scopes"], request["files"]) == (
            ["once"],
            [{"path": "made", "kind": "add", "added": 30_000, "removed": 0}],
        )
        assert request["hidden"] > 0
        text, offset = "", 0
        while offset is not None:
            page = await server.call("approval/get", approval_id=request["approval_id"], offset=offset)
            assert (page["part"], page["offset"], page["approval"]["approval_id"]) == (
                "detail",
                offset,
                request["approval_id"],
            )
            text, offset = text + page["text"], page["next_offset"]
        assert text == "The patch:\n" + "\n".join(f"│ {line}" for line in patch.split("\n"))
        assert (len(text), hashlib.sha256(text.encode()).hexdigest()) == (request["size"], request["digest"])
        assert {part["name"] for part in page["parts"]} == {"detail", "matches", "files"}
        files = await server.call("approval/get", approval_id=request["approval_id"], part="files")
        assert files["text"] == "add made +30000 -0"
        with pytest.raises(Refused, match="not_found"):
            await server.call("approval/get", approval_id=request["approval_id"], part="script")
        with pytest.raises(Refused, match="invalid_params"):
            await server.call("approval/get", approval_id=request["approval_id"], part="nothing")
        answer = await server.call(
            "approval/resolve", approval_id=request["approval_id"], decision="allow", scope="session"
        )
        assert (answer["resolved"], answer["scope"]) == (True, "once")
        assert "not offered" in answer["narrowed"]
        await server.answer(message)
        with pytest.raises(Refused, match="not_found"):
            await server.call("approval/get", approval_id=request["approval_id"])
        assert (tmp_path / "made").read_text().count("\n") == 30_000


async def test_everybody_hears_who_answered_and_by_what_a_call_ran(tmp_path: Path) -> None:
    """A1: the client by its name, then the grant that it gave, then the policy."""
    replies = [shell(**TOUCH), shell(**TOUCH), shell(command=["ls"]), "Done."]
    async with serving(tmp_path, replies, "-a", "untrusted") as server:
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        request = (await server.event("approval_request"))["data"]
        assert (request["command"], request["cwd"]) == ("touch made", str(tmp_path))
        begun = (await server.event("tool_call_begin"))["data"]
        assert request["call_id"] == begun["call_id"]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow", scope="session")
        await server.answer(message)
        (grant,) = (await server.call("approval/grants"))["grants"]
        resolved = (await server.event("approval_resolved"))["data"]
        by = {"kind": "client", "name": resolved["by"]["name"], "grant_id": grant["grant_id"]}
        assert resolved["by"] == by
        assert by["name"]
        ran = [event["data"]["allowed_by"] for event in server.events if event["type"] == "exec_command_begin"]
        assert ran == [by, {"kind": "grant", "grant_id": grant["grant_id"]}, {"kind": "policy", "name": "untrusted"}]


async def test_patches_and_calls_to_servers_name_their_call_and_what_let_them_run(tmp_path: Path) -> None:
    """A1: not of commands alone."""
    configure(tmp_path, a={**of(bare()), "approval": "prompt"})
    patch = "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"
    replies = [calling("apply_patch", input=patch), calling("a__echo", text="x"), "Done."]
    async with serving(tmp_path, replies, "-a", "untrusted") as server:
        await ready(server, "a")
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        start = 0
        for kind in ("patch", "mcp"):
            request = (await server.event("approval_request", start))["data"]
            assert request["kind"] == kind
            start = len(server.lines)
            await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        await server.answer(message)
        named = [event["data"]["call_id"] for event in server.events if event["type"] == "approval_request"]
        assert named == [event["data"]["call_id"] for event in server.events if event["type"] == "tool_call_begin"]
        ran = [event["data"] for event in server.events if event["type"] in ("patch_apply_end", "mcp_tool_call_begin")]
        assert [(data["call_id"], data["allowed_by"]["kind"]) for data in ran] == [(call, "client") for call in named]
