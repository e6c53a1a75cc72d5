"""A server that is killed, and what its next life says, by a client that has only read the public page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import NEVER_MS, Server, serving
from tests.contract.test_command_line import run
from tests.sandbox.confined import need

NEVER = {"text": "never", "delay_ms": NEVER_MS}


def shell(*command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "shell", "arguments": {"command": list(command)}}]}


async def killed(server: Server) -> str:
    """kill -9; the id of the session."""
    id = (await server.call("session/info"))["session_id"]
    server.process.kill()
    await server.process.wait()
    return id


async def durable_events(server: Server) -> list[dict[str, Any]]:
    """The durable events of this life so far."""
    await server.call("conversation/list")
    return [event for event in server.events if event["seq"] is not None]


async def test_a_command_that_ran_has_an_unknown_outcome_and_the_place_is_usable(tmp_path: Path) -> None:
    """F13, A5, A18: closed and told, not run again; the stubs that the kill left are in nobody's way and swept."""
    need("bubblewrap")
    async with serving(tmp_path, [shell("sleep", "600")]) as server:
        await server.ask("conversation/message", conversation_id="root", text="go", message_id="1")
        await server.event("exec_command_begin")
        assert (tmp_path / ".mcp.json").is_dir(), "a stub, while the command runs"
        assert run(tmp_path, "sandbox", "--", "true").code == 0, "another process may work here meanwhile"
        id = await killed(server)
    assert (tmp_path / ".mcp.json").is_dir()
    async with serving(tmp_path, ["Fine."], "--resume", id) as server:
        _, end, aborted = await durable_events(server)
        assert (end["type"], end["data"]["name"], end["data"]["success"]) == ("tool_call_end", "shell", False)
        assert end["data"]["output"].startswith("outcome unknown")
        assert (aborted["type"], aborted["data"]["reason"], aborted["epoch"]) == ("turn_aborted", "crash", 1)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "script.json"]
        # Nothing was answered, so the same message is a fresh run, and only one.
        again = [await server.say("go", message_id="1") for _ in range(2)]
        assert {(answer["task_id"], answer["last_assistant_message"]) for answer in again} == {
            (again[0]["task_id"], "Fine.")
        }


async def test_a_request_that_waited_for_an_answer_is_over_and_never_granted(tmp_path: Path) -> None:
    """B8: interrupted, because nothing had been started; approvals are not restored."""
    need("bubblewrap")
    async with serving(tmp_path, [shell("touch", "made")], "-a", "untrusted") as server:
        await server.ask("conversation/message", conversation_id="root", text="go")
        await server.event("approval_request")
        id = await killed(server)
    async with serving(tmp_path, ["Fine."], "--resume", id, "-a", "untrusted") as server:
        _, end, _ = await durable_events(server)
        assert end["data"]["output"].startswith("interrupted")
        assert (await server.call("approval/list"))["approvals"] == []
        assert (await server.call("approval/grants"))["grants"] == []
        assert (await server.say("and now?"))["last_assistant_message"] == "Fine."
    assert not (tmp_path / "made").exists()


async def test_a_chain_is_closed_from_the_inside_and_dropped_with_an_event(tmp_path: Path) -> None:
    """F10: nobody is left waiting."""
    create = {"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "do it"}}]}
    async with serving(tmp_path, [create, NEVER]) as server:
        await server.ask("conversation/message", conversation_id="root", text="go")
        await server.until(lambda line: "target" in str(line.get("params", {}).get("data", {}).get("kind")))
        id = await killed(server)
    async with serving(tmp_path, ["Fine."], "--resume", id) as server:
        _, inner, outer, dropped = await durable_events(server)
        assert (inner["type"], inner["data"]["reason"]) == ("turn_aborted", "crash")
        assert (outer["type"], outer["data"]["success"]) == ("tool_call_end", False)
        assert (dropped["type"], dropped["data"]["code"]) == ("warning", "chain_dropped")
        listed = (await server.call("conversation/list"))["conversations"]
        assert [one["status"] for one in listed] == ["idle", "idle"]
        assert inner["conversation_id"] == listed[1]["id"]
        assert outer["conversation_id"] == listed[0]["id"]
        assert (await server.say("and now?"))["last_assistant_message"] == "Fine."


@pytest.mark.parametrize("policy", ["headers-only", "none"])
async def test_a_kill_leaves_no_text_that_the_policy_forbids(tmp_path: Path, policy: str) -> None:
    """E2: in no file of the data directory, journals included."""
    async with serving(tmp_path, ["CANARYANSWER", NEVER], "--storage", policy) as server:
        await server.say("CANARYASKED")
        await server.ask("conversation/message", conversation_id="root", text="CANARYAGAIN")
        await server.until(lambda line: line.get("params", {}).get("type") == "task_started", len(server.lines))
        await killed(server)
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    assert not [path.name for path in files if b"CANARY" in path.read_bytes()]
