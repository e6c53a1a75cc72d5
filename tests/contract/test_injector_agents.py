"""Agents that other programs run, from the public page: what reaches the program, and what its token opens."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, Server, program, serving, surroundings
from tests.deadlines import HANG_S
from tests.tables import each_row
from tests.thorough import times

TOKEN = re.compile(r"[0-9a-f]{64}")
HTML = "<p>drawn from outside</p>"

# Writes down all that it was given: what it prints is cleaned on its way.
AGENT = """
import json, os, sys
given = {"argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ)}
with open("given.jsonl", "a") as file:
    file.write(json.dumps(given) + "\\n")
print("I have", os.environ.get("TERTULIA_TOKEN", "no token"))
"""
FLAGS = (
    "-c", f"executors.fake.command={json.dumps([sys.executable, '-c', AGENT])}",
    "-c", "executors.fake.sandbox={workspace-write = []}",
)  # fmt: skip


def employee(name: str, archetype: str = "employee") -> dict[str, Any]:
    return {"name": name, "archetype": archetype}


async def started(server: Server, folder: Path, agent: dict[str, Any] | None, **fields: Any) -> tuple[str, Any]:
    """An agent after its first message: its conversation, and what its program was given."""
    opened = await server.call("conversation/open", agent=agent, backend="command:fake", **fields)
    assert (await server.say("Begin.", opened["conversation_id"]))["status"] == "completed"
    *_, last = (folder / "given.jsonl").read_text().splitlines()
    return opened["conversation_id"], json.loads(last)


async def refused(server: Server, method: str, **params: Any) -> str:
    with pytest.raises(Refused) as error:
        await server.call(method, **params)
    return error.value.code


async def test_a_program_receives_the_additions_and_the_token(tmp_path: Path) -> None:
    """S001-37, X-50, X-63: each run, the token by its environment alone, and nothing of it without `agent`."""
    async with serving(tmp_path, [], *FLAGS) as server:
        ada, received = await started(server, tmp_path, employee("ada"), user_instructions="Be brief.")
        stdin = received["stdin"]
        parts = ["Be brief.", "You are **ada**", "## Your canvas", "## Your workspace", "- canvas_update: ", "Begin."]
        assert [stdin.find(part) for part in parts] == sorted(stdin.find(part) for part in parts)
        assert -1 not in [stdin.find(part) for part in parts]
        token = received["env"]["TERTULIA_TOKEN"]
        assert TOKEN.fullmatch(token)
        assert token not in stdin + str(received["argv"])
        await server.say("Again.", ada)
        again = json.loads((tmp_path / "given.jsonl").read_text().splitlines()[-1])
        assert again["stdin"].count("You are **ada**") == 1
        assert again["env"]["TERTULIA_TOKEN"] == token
        _, nobody = await started(server, tmp_path, None)
        assert nobody["stdin"] == "Begin."
        assert not [name for name in nobody["env"] if name.startswith("TERTULIA")]


async def test_a_token_says_who_calls_and_opens_its_own_canvas_only(tmp_path: Path) -> None:
    """S001-47, S001-48, S001-49: the agent comes from the token, whatever stands in the parameters."""
    async with serving(tmp_path, [], *FLAGS) as server:
        ada, received = await started(server, tmp_path, employee("ada"))
        eva, other = await started(server, tmp_path, employee("eva", "service"))
        mine, theirs = received["env"]["TERTULIA_TOKEN"], other["env"]["TERTULIA_TOKEN"]
        assert mine != theirs
        owner = await server.call("internal/validate_token", token=mine)
        assert (owner["agent_name"], owner["session_id"]) == ("ada", ada)
        assert mine not in json.dumps(owner)
        call = {"tool": "canvas_update", "arguments": {"html": HTML}}
        await server.call("internal/call", token=mine, **call)
        assert (await server.call("canvas/get", conversation_id=ada))["html"] == HTML
        assert await refused(server, "canvas/get", conversation_id=eva) == "not_found"
        for forged in ({"agent_name": "eva"}, {"conversation_id": eva}, {"session_id": eva}):
            arguments = {"html": "<p>forged</p>", **forged}
            assert await refused(server, "internal/call", token=mine, tool="canvas_update", arguments=arguments)
            assert await refused(server, "internal/call", token=mine, **call, **forged)
        assert await refused(server, "canvas/get", conversation_id=eva) == "not_found"
        assert (await server.call("canvas/get", conversation_id=ada))["revision"] == 1


async def test_a_token_counts_character_for_character(tmp_path: Path) -> None:
    """HARDENING D6."""
    async with serving(tmp_path, [], *FLAGS) as server:
        ada, received = await started(server, tmp_path, employee("ada"))
        token = received["env"]["TERTULIA_TOKEN"]
        call = {"tool": "canvas_update", "arguments": {"html": HTML}}
        for wrong in (token[:-1], token + "0", token.upper(), token[::-1], f" {token}", f"{token}\n", "", None):
            assert await refused(server, "internal/validate_token", token=wrong) == "invalid_params"
            assert await refused(server, "internal/call", token=wrong, **call) == "invalid_params"
        assert await refused(server, "canvas/get", conversation_id=ada) == "not_found"
        assert await server.call("internal/validate_token", token=token)


async def test_a_token_dies_with_its_conversation(tmp_path: Path) -> None:
    """S001-44, X-64: closed, its token is nobody's; the other one's still is."""
    async with serving(tmp_path, [], *FLAGS) as server:
        ada, received = await started(server, tmp_path, employee("ada"))
        _, other = await started(server, tmp_path, employee("ada"))
        tokens = [received["env"]["TERTULIA_TOKEN"] for received in (received, other)]
        assert tokens[0] != tokens[1], "one name may be borne by two"
        assert await server.call("internal/validate_token", token=tokens[0])
        await server.call("conversation/close", conversation_id=ada)
        assert await refused(server, "internal/validate_token", token=tokens[0]) == "invalid_params"
        assert (await server.call("internal/validate_token", token=tokens[1]))["agent_name"] == "ada"


SHUT = [
    ("repo", "canvas_update", {"html": HTML}, "not_found"),
    ("stranger", "canvas_clear", {}, "not_found"),
    ("employee", "canvas_paint", {}, "not_found"),
    ("employee", "canvas_update", {"html": 3}, "invalid_params"),
    ("employee", "canvas_update", {}, "invalid_params"),
    ("employee", "canvas_update", {"html": "é" * (256 * 1024) + "x"}, "invalid_params"),
    ("employee", "shell", {"command": ["id"]}, "not_found"),
    ("employee", "conv_create", {"user_instruction": "x"}, "not_found"),
]


async def test_what_a_token_does_not_open(tmp_path: Path) -> None:
    """S001-14, S001-48, S001-49, X-47: the scope is looked at with every call, and nothing is drawn."""
    async with serving(tmp_path, [], *FLAGS) as server:
        agents = {kind: await started(server, tmp_path, employee("ada", kind)) for kind, *_ in SHUT}
        for kind, tool, arguments, code in SHUT:
            ada, received = agents[kind]
            token = received["env"]["TERTULIA_TOKEN"]
            assert await refused(server, "internal/call", token=token, tool=tool, arguments=arguments) == code
            assert await refused(server, "canvas/get", conversation_id=ada) == "not_found"
        page = "é" * (256 * 1024)
        call = {"tool": "canvas_update", "arguments": {"html": page}}
        await server.call("internal/call", token=agents["employee"][1]["env"]["TERTULIA_TOKEN"], **call)
        shown = await server.call("canvas/get", conversation_id=agents["employee"][0])
        assert shown["html"] == page, "512 KiB as UTF-8, and not a byte less"


async def test_the_command_line_is_a_way_in_too(tmp_path: Path) -> None:
    """S001-48: `tertulia internal TOOL JSON`, with the token in TERTULIA_TOKEN and nowhere else."""
    async with serving(tmp_path, [], *FLAGS) as server:
        ada, received = await started(server, tmp_path, employee("ada"))
        ours = {name: value for name, value in received["env"].items() if name.startswith("TERTULIA")}

        def internal(token: str, *words: str) -> subprocess.CompletedProcess[str]:
            there = {**surroundings(tmp_path / "home"), **ours, "TERTULIA_TOKEN": token}
            return subprocess.run(
                [program(), "internal", *words], env=there, cwd=tmp_path, capture_output=True, text=True,
                timeout=HANG_S, check=False,
            )  # fmt: skip

        words = ("canvas_update", json.dumps({"html": HTML}))
        wrong = await asyncio.to_thread(internal, "0" * 64, *words)
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert await refused(server, "canvas/get", conversation_id=ada) == "not_found"
        right = await asyncio.to_thread(internal, ours["TERTULIA_TOKEN"], *words)
        assert (right.returncode, right.stderr) == (0, "")
        assert json.loads(right.stdout)["ok"] is True
        assert (await server.call("canvas/get", conversation_id=ada))["html"] == HTML


async def test_eight_characters_of_a_token_are_all_that_is_ever_seen(tmp_path: Path) -> None:
    """S001-45, E6: in events, answers, history, and in every file; the program itself says it aloud."""
    async with serving(tmp_path, [], *FLAGS) as server:
        ada, received = await started(server, tmp_path, employee("ada"))
        token = received["env"]["TERTULIA_TOKEN"]
        (tmp_path / "given.jsonl").unlink()
        answer = await server.say(f"Is '{token}' yours? --token={token}", ada)
        assert f"I have {token[:8]}" in answer["last_assistant_message"]
        history = await server.call("conversation/history", conversation_id=ada)
        context = await server.call("conversation/context", conversation_id=ada)
        assert token[8:17] not in json.dumps([answer, history, context, *server.events])
        await server.call("canvas/list")
        (tmp_path / "given.jsonl").unlink()
        assert await server.end() == 0
    seen = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"I have" in seen
    assert token[8:17].encode() not in seen


SHOUT = """
import os, sys
sys.stdin.read()
token = os.environ["TERTULIA_TOKEN"]
with open("token", "w") as file:
    file.write(token)
parts = {"beginnings": token[:9] + " ", "middles": chr(8) + token[20:33] + chr(10), "whole": token}
part = parts[sys.argv[1]]
sys.stdout.write(part * (int(sys.argv[2]) // len(part)))
"""


@each_row("form", ["beginnings", "middles", "whole"])
async def test_a_program_that_prints_nothing_but_its_token_ends_well_and_shows_nothing_of_it(
    form: str, tmp_path: Path
) -> None:
    """S001-45, L1: its task failed, because the numbers of the event were taken for parts of the token."""
    folder = tmp_path / form
    folder.mkdir()
    command = [sys.executable, "-c", SHOUT, form, str(times(16_000_000, 500_000))]
    flags = ("-c", f"executors.fake.command={json.dumps(command)}", *FLAGS[2:])
    async with serving(folder, [], *flags) as server:
        opened = await server.call("conversation/open", agent=employee("ada"), backend="command:fake")
        answer = await server.say("Begin.", opened["conversation_id"])
        assert answer["status"] == "completed"
        assert "[redacted:token]" in answer["last_assistant_message"]
        history = await server.call("conversation/history", conversation_id=opened["conversation_id"])
        assert history["entries"][-1]["text"] == answer["last_assistant_message"]
        assert await server.end() == 0
        assert server.process.stderr
        log = await server.process.stderr.read()
    token = (folder / "token").read_text()
    (folder / "token").unlink()
    stored = b"".join(path.read_bytes() for path in (folder / "home").rglob("*") if path.is_file())
    assert b"[redacted:token]" in stored
    for seen in (json.dumps(server.lines).encode(), stored, log):
        shown = [at for at in range(53) if token[at : at + 12].encode() in seen]
        assert not shown
        assert token[:9].encode() not in seen
        assert token[-9:].encode() not in seen


async def test_what_may_not_be_kept_of_a_canvas_is_not(tmp_path: Path) -> None:
    """Issue 9: kept in the record when the policy allows, and else on no disk."""
    found: dict[str, bool] = {}
    for storage in ("full", "headers_only", "none"):
        folder = tmp_path / storage
        folder.mkdir()
        draw = {"tool_calls": [{"name": "canvas_update", "arguments": {"html": "<p>canary-4711</p>"}}]}
        async with serving(folder, [draw, "Done."]) as server:
            opened = await server.call("conversation/open", agent=employee("ada"), storage_policy=storage)
            await server.say("Draw.", opened["conversation_id"])
            shown = await server.call("canvas/get", conversation_id=opened["conversation_id"])
            assert shown["html"] == "<p>canary-4711</p>"
            assert await server.end() == 0
        files = [path for path in (folder / "home").rglob("*") if path.is_file()]
        assert files
        found[storage] = any(b"canary-4711" in path.read_bytes() for path in files)
    assert found == {"full": True, "headers_only": False, "none": False}


async def test_a_crash_leaves_no_token_that_is_valid(tmp_path: Path) -> None:
    """S001-44: after kill -9 the resumed agent has another one."""
    async with serving(tmp_path, [], *FLAGS) as server:
        _, received = await started(server, tmp_path, employee("ada"))
        session = (await server.call("session/info"))["session_id"]
        server.process.kill()
        await server.process.wait()
    async with serving(tmp_path, [], *FLAGS, "--resume", session) as server:
        listed = (await server.call("conversation/list"))["conversations"]
        ada = next(tool["id"] for tool in listed if tool["backend"] == "command:fake")
        old = received["env"]["TERTULIA_TOKEN"]
        assert await refused(server, "internal/validate_token", token=old) == "invalid_params"
        await server.say("Go on.", ada)
        again = json.loads((tmp_path / "given.jsonl").read_text().splitlines()[-1])
        new = again["env"]["TERTULIA_TOKEN"]
        assert new != old
        assert (await server.call("internal/validate_token", token=new))["agent_name"] == "ada"
