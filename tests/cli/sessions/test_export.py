"""`tertulia sessions export`: everything that is stored, nothing that is not, one record a line."""

from __future__ import annotations

import asyncio
import json
import stat

import pytest

import tertulia
from tertulia.cli.sessions.export import FORMAT, VERSION, export_line
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.store import StoredRow
from tertulia.testing import ScriptedModel, call
from tests.cli.running import Shell
from tests.cli.stored_sessions import DELEGATING, run_session

AWKWARD = "one\u2028two\x85three\u2029four"


def test_the_first_line_says_what_follows(shell: Shell) -> None:
    session_id = run_session(shell)
    ran = shell.run("sessions", "export", session_id)
    assert ran.code == 0
    head, *records = ran.lines
    assert (head["format"], head["version"], head["session_id"]) == (FORMAT, VERSION, session_id)
    numbers = [record["n"] for record in records]
    assert numbers == sorted(set(numbers))


def test_events_and_records_are_whole(shell: Shell) -> None:
    """S002-15: all messages and tools; an event that is stored as a reference is exported with its text."""
    run_session(shell, *DELEGATING, text="Have a.py reviewed")
    records = shell.run("sessions", "export", "--last").lines[1:]
    items = [item for record in records if record["kind"] == "said" for item in record["record"]["items"]]
    assert [item["type"] for item in items if not item.get("injected")] == [
        "user", "tool_call", "user", "assistant", "tool_output", "assistant",
    ]  # fmt: skip
    spoken = [
        record["event"]["data"]["text"] for record in records if record.get("event", {}).get("type") == "agent_message"
    ]
    assert spoken == ["Looks right.", "The reviewer says it looks right."]
    requests = [record["record"] for record in records if record["kind"] == "asked"]
    assert json.loads(requests[0]["tools_json"])
    assert all("missing" not in record and "damaged" not in record for record in records)
    agreed = next(record["record"] for record in records if record["kind"] == "agreed")
    assert agreed["storage"] == "full"


def test_one_record_is_one_line_for_every_reader(shell: Shell) -> None:
    """HARDENING E11: `splitlines` makes 3 of it."""
    run_session(shell, AWKWARD, text=AWKWARD)
    ran = shell.run("sessions", "export", "--last")
    assert len(ran.out.splitlines()) == ran.out.count("\n")
    texts = [part["text"] for line in ran.lines if line.get("kind") == "said"
             for item in line["record"]["items"] for part in item["parts"]]  # fmt: skip
    assert texts.count(AWKWARD) == 2


async def test_a_canvas_is_exported_with_its_page(shell: Shell) -> None:
    """Issue 9, item 7."""
    draw = call("canvas_update", {"html": "<p>Hello</p>", "title": "Hi"})
    settings = tertulia.Settings(model=ScriptedModel([draw, "done"]))
    async with tertulia.Session.start(settings) as session:
        agent = await session.open(agent={"name": "ada", "archetype": "service"})
        await agent.message("go")
    ran = await asyncio.to_thread(shell.run, "sessions", "export", session.id)
    (drawn,) = [line["record"] for line in ran.lines if line.get("kind") == "drawn"]
    assert (drawn["html"], drawn["title"], drawn["revision"]) == ("<p>Hello</p>", "Hi", 1)
    shown = await asyncio.to_thread(shell.run, "sessions", "replay", session.id, "--verify")
    assert shown.code == 0, shown.err


@pytest.mark.parametrize("policy", ["headers-only", "none"])
def test_only_what_is_stored_is_exported(shell: Shell, policy: str) -> None:
    """HARDENING E2."""
    run_session(shell, "canary answers", text="canary asks", flags=("--storage", policy))
    ran = shell.run("sessions", "export", "--last")
    assert ran.code == 0
    assert "canary" not in ran.out
    assert policy == "none" or any("missing" in line for line in ran.lines)


def test_what_came_from_a_stricter_conversation_says_so(shell: Shell) -> None:
    """The policy travels, and stands in the export."""
    line = shell.script({"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "x"}}]}, "y", "z")
    assert line
    row = StoredRow(1, "said", "user", 0.0, None, 1, 0, b"{}", None)
    assert export_line(RecordLine(1, 0.0, None, raw=row), "t") == {
        "n": 1, "ts": "t", "kind": "unknown",
        "raw": {"kind": "said", "type": "user", "header": "{}", "body": None},
    }  # fmt: skip
    assert export_line(RecordLine(2, 0.0, None, damaged=(2,)), "t") == {
        "n": 2,
        "ts": "t",
        "kind": "damaged",
        "damaged": [2],
    }


def test_a_file_is_new_and_for_its_owner_alone(shell: Shell) -> None:
    """HARDENING E7."""
    run_session(shell)
    target = shell.folder / "exported.jsonl"
    ran = shell.run("sessions", "export", "--last", "-o", str(target))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith(f"records are in {target}\n")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    before = target.read_bytes()
    assert json.loads(before.splitlines()[0])["version"] == VERSION
    again = shell.run("sessions", "export", "--last", "-o", str(target))
    assert again.code == 2
    assert "name a new file" in again.err
    assert target.read_bytes() == before
    assert shell.run("sessions", "export", "--last", "-o", "no/such/place").code == 2
