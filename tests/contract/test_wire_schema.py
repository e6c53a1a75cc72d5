"""What `tertulia schema` promises, held against what really goes over the wire, both ways."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.contract.app_server import program, serving, surroundings
from tests.contract.wire import SCHEMA, Published
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare
from tests.sandbox.confined import need

# The operations of the page, word for word.
OPERATIONS = {
    *("initialize", "events/subscribe", "host/subscribe"),
    *(f"record/{name}" for name in ("list", "outline", "page", "board", "prompt", "search", "fork", "delete")),
    *(f"session/{name}" for name in ("start", "list", "resume", "info", "board", "close")),
    *(f"conversation/{name}" for name in ("open", "set_context", "context", "message", "steer", "take_back")),
    *(
        f"conversation/{name}"
        for name in ("interrupt", "compact", "list", "history", "tools", "fork", "merge", "close")
    ),
    *(f"task/{name}" for name in ("list", "get", "cancel")),
    *(f"approval/{name}" for name in ("list", "get", "resolve", "grants", "revoke")),
    *("rights/explain", "mcp/status", "mcp/refresh", "metrics/get"),
    *(f"canvas/{name}" for name in ("get", "list", "clear")),
    *("internal/validate_token", "internal/call"),
    *("checkpoint/list", "checkpoint/diff", "checkpoint/restore"),
}

EVENTS = {
    *("session_configured", "session:preparing", "session:context-ready"),
    *("conversation_opened", "conversation_context_changed", "conversation_closed", "conversation_close_forced"),
    *("rights_widened", "user_message", "message_queued", "message_taken_back"),
    *("task_started", "task_continued", "task_complete", "turn_aborted", "agent_message_delta", "agent_message"),
    *("agent_reasoning_delta", "agent_reasoning", "token_count", "tool_call_begin", "tool_call_end"),
    *("exec_command_begin", "exec_command_output_delta", "exec_command_end", "patch_apply_begin", "patch_apply_end"),
    *("mcp_tool_call_begin", "mcp_tool_call_progress", "mcp_tool_call_end", "mcp_server_status", "mcp_tools_changed"),
    *("network_access", "web_search_begin", "web_search_end", "plan_update", "approval_request", "approval_resolved"),
    "hook_decision",
    *("elicitation_request", "elicitation_resolved", "history_compacted", "canvas_updated", "background_event"),
    *("checkpoint", "warning", "error", "foreign_event", "subscriber_lagged"),
}

# Of these a script makes none: they need another provider, an executor, or somebody who does not do as told.
ELSEWHERE = {
    *("web_search_begin", "web_search_end", "foreign_event", "subscriber_lagged", "conversation_close_forced"),
    *("checkpoint", "task_continued", "hook_decision"),
    *("network_access", "rights_widened", "mcp_tools_changed", "mcp_tool_call_progress", "warning"),
}


def test_the_program_prints_what_is_checked_in_and_it_has_all_names_of_the_page(tmp_path: Path) -> None:
    """Issue 10 (1), X-70: one operation set; every operation takes `session_id`."""
    printed = subprocess.run(
        [program(), "schema"], cwd=tmp_path, env=surroundings(tmp_path / "home"), capture_output=True, check=True
    ).stdout
    assert printed == SCHEMA.read_bytes()
    page = json.loads(printed)
    assert set(page["operations"]) == OPERATIONS
    assert set(page["events"]) == EVENTS
    for name, operation in page["operations"].items():
        params = page["$defs"][operation["params"]["$ref"].rsplit("/", 1)[1]]
        assert "session_id" in params["properties"], name
        assert params["additionalProperties"] is False, name


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch"
REPLIES = [
    {"reasoning": "hm", "text": "Planning.", **called("update_plan", plan=[{"step": "a", "status": "pending"}])},
    "Planned.",
    called("shell", command=["sh", "-c", "touch made; echo done"]),
    "Touched.",
    called("apply_patch", input=PATCH),
    "Patched.",
    called("conv_create", user_instruction="What is 2 + 2?"),
    "4",
    "It is 4.",
    called("canvas_update", html="<h1>Hi</h1>", title="Greeting"),
    "Drawn.",
    called("shop__ask", question="Sure?"),
    "Asked.",
    {"error": {"message": "no answer", "code": "model_error"}},
    {"text": "late", "delay_ms": 3_600_000},
    "In short: nothing.",
]


def repository(place: Path) -> None:
    """Make a repository with one commit of a directory."""
    for line in ("init -q", "-c user.name=Ada -c user.email=a@b.c commit -q --allow-empty -m first"):
        subprocess.run(["git", *line.split()], cwd=place, check=True, timeout=HANG_S)


async def test_everything_that_is_asked_answered_and_told_fits(tmp_path: Path) -> None:
    """Issue 10 (1): inputs, outputs and events, and nothing in them that the schema does not name."""
    need("bubblewrap")
    page = Published()
    argv = bare()
    shop = f'mcp_servers.shop={{command={json.dumps(argv[0])}, args={json.dumps(argv[1:])}, approval="prompt"}}'
    async with serving(tmp_path, REPLIES, "-a", "untrusted", "-c", shop, hello=False) as server:

        async def call(method: str, **params: Any) -> Any:
            return await page.call(server, method, **params)

        async def say(text: str, conversation_id: str = "root", answers: int = 0) -> Any:
            """A message, during which so many questions are answered with yes."""
            start = len(server.lines)
            request_id = await server.ask("conversation/message", conversation_id=conversation_id, text=text)
            for _ in range(answers):
                line = await server.until(
                    lambda line: line.get("params", {}).get("type") in ("approval_request", "elicitation_request"),
                    start,
                )
                start = server.lines.index(line) + 1
                waiting = await call("approval/list")
                assert len(waiting["approvals"]) + len(waiting["elicitations"]) == 1
                data = line["params"]["data"]
                about = {"scope": "session", "ttl_s": 60} if "approval_id" in data else {"content": {"name": "Ada"}}
                id = data.get("approval_id") or data["elicitation_id"]
                if "approval_id" in data:
                    await call("approval/get", approval_id=id, part="detail", offset=0)
                await call("approval/resolve", approval_id=id, decision="allow", message="yes", **about)
            answer = await server.answer(request_id)
            page.answered("conversation/message", {"conversation_id": conversation_id, "text": text}, answer)
            return answer["status"], answer["last_assistant_message"]

        own = (await call("initialize", client={"name": "t", "version": "1"}, protocol_version="1", attend=True))[
            "session_id"
        ]
        for name in ("session/list", "session/info", "session/board", "task/list", "mcp/status", "mcp/refresh"):
            await call(name, session_id=own)
        await call("metrics/get", session_id=own)
        opened = await call(
            "conversation/open", title="t", base_instructions="b", user_instructions="u", mcp_tool_allowlist=[],
            include_plan_tool=True, include_apply_patch_tool=True, include_conv_tools=True, shell_mode="default",
            tools_web_search_request=False, cwd=str(tmp_path), approval_policy="untrusted",
            sandbox="danger-full-access", storage_policy={"ttl": 60}, limits={"max_output_bytes": 1000},
            parent_id="root", visibility="subtree",
        )  # fmt: skip
        conversation = opened["conversation_id"]
        assert opened["narrowed"][0]["field"] == "sandbox"
        assert await say("plan", conversation) == ("completed", "Planned.")
        for name in ("context", "tools", "history", "interrupt"):
            await call(f"conversation/{name}", conversation_id=conversation)
        await call("rights/explain", conversation_id=conversation, command="rm -rf build")
        await call("conversation/set_context", conversation_id=conversation, title=None, storage_policy="headers_only")
        assert await say("touch", answers=1) == ("completed", "Touched.")
        (grant,) = (await call("approval/grants"))["grants"]
        await call("approval/revoke", grant_id=grant["grant_id"])
        assert await say("patch", answers=1) == ("completed", "Patched.")
        assert await say("ask a child") == ("completed", "It is 4.")
        agent = (await call("conversation/open", agent={"name": "ada", "archetype": "employee"}))["conversation_id"]
        assert await say("draw", agent) == ("completed", "Drawn.")
        await call("canvas/list")
        for name in ("get", "clear"):
            await call(f"canvas/{name}", conversation_id=agent)
        assert await say("shop", answers=2) == ("completed", "Asked.")
        assert await say("fail") == ("failed", None)
        task = await call("conversation/message", conversation_id="root", items=[{"type": "text", "text": "x"}],
                          message_id="m", sender="ada", task_type="chat", if_busy="wait", detach=True)  # fmt: skip
        await server.event("task_started", task_id=task["task_id"])
        await call("conversation/steer", conversation_id="root", text="faster")
        waiting = await call("conversation/message", conversation_id="root", text="not yet", detach=True)
        await call("conversation/take_back", conversation_id="root", task_id=waiting["task_id"])
        await call("task/list")
        await call("task/get", task_id=task["task_id"])
        await call("task/cancel", task_id=task["task_id"])
        await server.event("turn_aborted", task_id=task["task_id"])
        await call("conversation/compact", conversation_id="root")
        await call("conversation/fork", conversation_id="root", at=None)
        repository(tmp_path)
        apart = (await call("conversation/open", parent_id="root", workspace="worktree"))["conversation_id"]
        assert (await call("conversation/merge", conversation_id=apart, mode="apply"))["merged"] is False
        await call("conversation/close", conversation_id=apart)
        await call("conversation/list")
        await call("conversation/close", conversation_id=conversation, timeout_s=5)
        other = (await call("session/start", sandbox="read-only", limits={"task_timeout_s": 5}))["session_id"]
        await call("events/subscribe", session_id=other, after_seq=0, conversation_id="root")
        await call("session/close", session_id=other, timeout_s=5)
        await call("session/resume", session_id=other)
        await call("record/list", query="ask", limit=5)
        outline = await call("record/outline", session_id=own)
        await call("record/prompt", session_id=own, n=outline["requests"][-1]["n"])
        await call("record/search", query="child", session_id=own, limit=3)
        fork = await call("record/fork", session_id=own, n=outline["requests"][2]["n"])
        await call("record/delete", **fork)
        await call("record/page", session_id=own, before_n=50, limit=20)
        await call("record/board", session_id=own, at_n=50, max_cells=9)
        await call("host/subscribe")
        await call("checkpoint/list")
        await server.end()
        for event in server.events:
            page.told(event)
    # Nothing was written here that could be undone: tests/session/checkpoints does.
    undo = {"checkpoint/diff", "checkpoint/restore"}
    assert page.operations == OPERATIONS - {"internal/validate_token", "internal/call"} - undo
    assert page.events >= EVENTS - ELSEWHERE
