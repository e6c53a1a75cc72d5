"""Calls of MCP servers: what is sent, what comes back, what ends them, and how many there may be."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tests.contract.python_session import past, soon
from tests.contract.serving_tools import (
    Voice,
    define,
    ends,
    kinds,
    lines,
    modern,
    offering,
    spoilt,
    table,
    tool,
    until,
)
from tests.deadlines import HANG_S
from tests.mcp.real import npm_server, pypi_server
from tests.tables import Large


async def test_a_call_has_its_events_between_those_of_the_tool() -> None:
    """Shapes: every tool call gives begin and end; MCP gives its own finer events between them."""
    voice = Voice()
    async with voice.session({"a": offering("echo")}) as session:
        voice.calls("a__echo", text="hello")
        await soon(session.root.message("go"))
        types = [event.type for event in await past(session) if "tool_call" in event.type]
        assert types == ["tool_call_begin", "mcp_tool_call_begin", "mcp_tool_call_end", "tool_call_end"]
        (begin,), (end,) = await kinds(session, "mcp_tool_call_begin"), await kinds(session, "mcp_tool_call_end")
        assert (begin.server, begin.tool, begin.call_id) == ("a", "echo", end.call_id)
        assert end.success


# ---- what is sent

LOOP = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
TREE = {"type": "object", "properties": {"x": {"$ref": "#"}}, "additionalProperties": False}
BOMB = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
WIDE = {"type": "object", "properties": {"x": {"anyOf": [{"pattern": f"^(a*)*{n}$"} for n in range(500)]}}}


def deep(levels: int) -> str:
    return '{"x":' * levels + "{}" + "}" * levels


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"type": "object", "additionalProperties": False}, {"extra": 1}),
        ({"type": "object", "required": ["x"]}, {}),
        ({"type": "object", "properties": {"x": {"type": "integer"}}}, {"x": "1"}),
        ({"type": "object", "properties": {"x": {"enum": ["a"]}}}, {"x": "b"}),
        ({"type": "object"}, "[]"),
        ({"type": "object"}, '{"x": '),
        (LOOP, {"x": 1}),
        (TREE, deep(50_000)),
        (BOMB, {"x": "a" * 60 + "!"}),
        (WIDE, {"x": "a" * 60 + "!"}),
        (TREE, Large(lambda: {"x": "y" * 5_000_000})),
    ],
    ids=["extra", "missing", "type", "enum", "list", "cut", "loop", "deep", "regex", "regexes", "huge"],
)
async def test_what_does_not_fit_is_refused_before_it_is_sent(tmp_path: Path, schema: Any, arguments: Any) -> None:
    """C14: within 100 ms, and the server hears nothing of it."""
    record = tmp_path / "record"
    voice = Voice()
    server = table("--define", define(tmp_path / "t", tool("t", schema=schema), tool("echo")), "--record", str(record))
    async with voice.session({"a": server}) as session:
        for _ in range(2):
            voice.next.append({"tool_calls": [{"name": "a__t", "arguments": arguments}]})
            began = time.process_time()
            await soon(session.root.message("go"))
            spent = time.process_time() - began
        ends_now = await past(session, type="tool_call_end")
        assert not any(event.data.success for event in ends_now), ends_now
        assert spent < 0.5, "the whole task, with its two model requests"
        voice.calls("a__echo", text="still here")
        await soon(session.root.message("go"))
    assert [line for line in lines(record) if line.startswith("call")] == ["call echo"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/x"}}},
        {"type": "array"},
        {"type": "object", "properties": []},
        {"type": "object", "pattern": "("},
        {"type": "object", "properties": {"x": {"pattern": "("}}},
    ],
)
async def test_a_schema_that_is_none_harms_no_other_server_and_fetches_nothing(tmp_path: Path, schema: Any) -> None:
    """Bad input: a broken schema. The server or the tool is left out and says where it is broken, or the call is
    refused or sent; nothing else happens.
    """
    voice = Voice()
    option = define(tmp_path / "t", tool("t", schema=schema))
    async with voice.session({"a": table("--define", option), "b": offering("echo")}) as session:
        state = session.info.mcp[0]
        assert (state["status"] == "ready") or "inputSchema" in state["error"]
        voice.calls("a__t", x="1")
        await soon(session.root.message("go"))
        voice.calls("b__echo", text="fine")
        await soon(session.root.message("go"))
        assert (await ends(session))[-1] == (True, "fine")


# ---- what comes back


async def test_all_kinds_of_content_are_kept() -> None:
    """Deliver 5: images and resources as parts, structured content kept."""
    voice = Voice()
    async with voice.session({"a": offering("mixed", "structured", "fail", "refuse", "picture")}) as session:
        for name in ("mixed", "structured", "fail", "refuse", "picture"):
            voice.calls(f"a__{name}", text="it failed")
            await soon(session.root.message(name))
        mixed, structured, failed, refused, picture = await ends(session)
        assert mixed[0]
        for text in ("first", "inside", "file:///b.txt", "the other"):
            assert text in mixed[1]
        assert (structured[0], json.loads(structured[1])) == (True, {"n": 1, "list": [1, 2]})
        assert failed == (False, "it failed")
        assert not refused[0]
        assert "\x1b" not in refused[1]
        assert picture[0]
        parts = [part for item in voice.model.requests[-1].items for part in getattr(item, "parts", ())]
        pictures = [part for part in parts if hasattr(part, "image_url")]
        assert len(pictures) == 2, "of `mixed` and of `picture`"
        assert all(part.image_url.startswith("data:image/png;base64,") for part in pictures)


@pytest.mark.parametrize("size", [1 << 20, 12 << 20])
async def test_a_large_answer_is_bounded_with_head_tail_and_true_size(size: int) -> None:
    """Deliver 5, C10."""
    voice = Voice()
    async with voice.session({"a": offering("size")}) as session:
        voice.calls("a__size", bytes=size)
        await soon(session.root.message("go"))
        (event,) = await past(session, type="tool_call_end")
        assert event.data.truncated
        assert len(event.data.output) < 100_000
        assert event.data.output.startswith("0123456789abcdef")
        assert event.data.output.rstrip().endswith("0123456789abcdef")
        assert f"{size:,}" in event.data.output or str(size) in event.data.output


@pytest.mark.parametrize("habit", ["long-line", "no-newline"])
async def test_a_gibibyte_on_one_line_ends_that_connection_and_little_else(habit: str) -> None:
    """C10: works to the cap, then an error; memory stays small, and the next call works."""
    voice = Voice()
    async with voice.session({"a": spoilt(habit), "b": offering("echo")}) as session:
        before = peak_kib()
        voice.calls("a__echo", bytes=1 << 30)
        voice.calls("b__echo", text="fine")
        async with asyncio.timeout(HANG_S):
            await session.root.message("go")
        (first, outcomes), (second, fine) = await ends(session)
        assert (first, second, fine) == (False, True, "fine")
        assert "MiB" in outcomes or "line" in outcomes
        assert peak_kib() - before < 200 * 1024


def peak_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


@pytest.mark.parametrize(
    "habit", ["wrong-ids", "twice", "bad-utf8", "chatty", "loud", "storm", "duplicate-tools", "slow-start", "strict"]
)
async def test_a_server_with_a_bad_habit_is_still_used(habit: str) -> None:
    """C7, C9, C12: dropped with an event, drained, coalesced; the answer is the right one."""
    voice = Voice()
    async with voice.session({"a": spoilt(habit)}) as session:
        for text in ("one", "two"):
            voice.calls("a__echo", text=text)
            await soon(session.root.message("go"))
        assert await ends(session) == [(True, "one"), (True, "two")]
        amiss = [data.message for data in await kinds(session, "warning") if "dropped" in data.message]
        assert len(amiss) == len(set(amiss)), "each kind is told once"
        assert bool(amiss) == (habit in ("wrong-ids", "twice", "bad-utf8", "chatty")), amiss


@pytest.mark.parametrize("habit", ["dies-in-call", "closes-stdout", "sloppy", "deep", "bomb"])
async def test_a_call_that_breaks_is_an_output_and_the_conversation_goes_on(habit: str) -> None:
    """C11: error within the timeout."""
    voice = Voice()
    async with voice.session({"a": spoilt(habit, tool_timeout_sec=3), "b": offering("echo")}) as session:
        voice.calls("a__echo", text="x")
        voice.calls("b__echo", text="fine")
        assert (await soon(session.root.message("go"))).status == "completed"
        outcomes = await ends(session)
        assert outcomes[1] == (True, "fine")
        begins, finished = await kinds(session, "mcp_tool_call_begin"), await kinds(session, "mcp_tool_call_end")
        assert len(begins) == len(finished)


@pytest.mark.parametrize(
    "habit", ["dies-at-start", "hangs", "deaf", "html", "endless-pages", "same-cursor", "many-tools"]
)
async def test_a_server_that_does_not_come_up_delays_and_harms_nobody(habit: str) -> None:
    """C11, Deliver 2: a bounded grace, then its tools are reported missing."""
    voice = Voice()
    servers = {"a": spoilt(habit, startup_timeout_sec=1), "b": offering("echo")}
    async with voice.session(servers) as session:
        voice.calls("b__echo", text="fine")
        await soon(session.root.message("go"))
        assert await ends(session) == [(True, "fine")]
        async with asyncio.timeout(HANG_S), session.events(after=0) as news:
            while (event := await until(news, "mcp_server_status")).data.name != "a" or event.data.status == "starting":
                pass
        # By now it may be tried again.
        assert event.data.status == "failed"
        assert event.data.error
        assert {one["name"]: one["status"] for one in session.info.mcp}["b"] == "ready"


# ---- what ends them


@pytest.mark.parametrize("era", [table, modern])
@pytest.mark.parametrize("how", ["interrupt", "close", "timeout", "session"])
async def test_the_end_of_a_call_reaches_the_server(tmp_path: Path, era: Any, how: str) -> None:
    """Deliver 5: timeout, interrupt, closing the conversation or the session in mid-call."""
    record = tmp_path / "record"
    voice = Voice()
    server = era("--record", str(record), tool_timeout_sec=1 if how == "timeout" else 60)
    async with voice.session({"a": server}) as session:
        conversation = await session.open()
        async with session.events(attend=True) as news:
            voice.calls("a__slow", seconds=50)
            message = asyncio.ensure_future(conversation.message("go"))
            await until(news, "mcp_tool_call_begin")
            await _written(record, "call slow")
            match how:
                case "interrupt":
                    await conversation.interrupt()
                case "close":
                    assert (await soon(conversation.close())).closed
                case "session":
                    assert (await soon(session.close())).closed
                case _:
                    pass
            reply = await soon(message)
        assert reply.status == ("completed" if how == "timeout" else "interrupted")
        if how != "session":
            await _written(record, "cancelled slow")
            assert len(await kinds(session, "mcp_tool_call_end")) == 1


async def _written(record: Path, line: str) -> None:
    async with asyncio.timeout(HANG_S):
        while line not in lines(record):
            await asyncio.to_thread(time.sleep, 0.01)


@pytest.mark.parametrize("era", [table, modern])
async def test_progress_is_told_while_a_call_runs(era: Any) -> None:
    """Events: mcp_tool_call_progress, without a seq."""
    voice = Voice()
    async with voice.session({"a": era()}) as session, session.events(attend=True) as news:
        voice.calls("a__slow", seconds=0.5)
        message = asyncio.ensure_future(session.root.message("go"))
        event = await until(news, "mcp_tool_call_progress")
        assert event.seq is None
        assert event.data.total == 20
        await soon(message)


# ---- how many


@pytest.mark.parametrize(("limits", "fields", "most"), [({"mcp_concurrency": 2}, {}, 2), ({}, {"concurrency": 3}, 3)])
async def test_no_more_calls_run_at_once_than_allowed(
    limits: dict[str, int], fields: dict[str, int], most: int
) -> None:
    """S002-39, C17."""
    voice = Voice()
    async with voice.session({"a": offering("slow", parallel=True, **fields)}, limits=limits) as session:
        voice.next.append({"tool_calls": [{"name": "a__slow", "arguments": {"seconds": 0.2}}] * 8})
        await soon(session.root.message("go"))
        running, peak = 0, 0
        for event in await past(session):
            running += {"mcp_tool_call_begin": 1, "mcp_tool_call_end": -1}.get(event.type, 0)
            peak = max(peak, running)
        assert peak == most
        assert [success for success, _ in await ends(session)] == [True] * 8
        assert any(
            "a__slow" in data.message or "wait" in data.message for data in await kinds(session, "background_event")
        )


async def test_calls_start_no_faster_than_the_rate() -> None:
    """S002-39."""
    voice = Voice()
    async with voice.session({"a": offering("echo", parallel=True)}, limits={"mcp_rate_per_s": 10}) as session:
        voice.next.append({"tool_calls": [{"name": "a__echo", "arguments": {"text": str(n)}} for n in range(16)]})
        began = time.monotonic()
        await soon(session.root.message("go"))
        assert time.monotonic() - began > 0.4
        assert [success for success, _ in await ends(session)] == [True] * 16


async def test_who_waits_too_long_gets_a_typed_error() -> None:
    """Deliver 4."""
    voice = Voice()
    limits = {"mcp_concurrency": 1, "mcp_wait_s": 0.2}
    async with voice.session({"a": offering("slow", parallel=True)}, limits=limits) as session:
        voice.next.append({"tool_calls": [{"name": "a__slow", "arguments": {"seconds": 1.5}}] * 2})
        await soon(session.root.message("go"))
        outcomes = sorted(await ends(session))
        assert [success for success, _ in outcomes] == [False, True]
        assert json.loads(outcomes[0][1])["code"] == "limit"
        assert "mcp_concurrency" in outcomes[0][1] or "mcp_wait_s" in outcomes[0][1]


async def test_a_conversations_limit_narrows_and_the_sessions_is_the_cap() -> None:
    """S002-39: the session's limit is the hard ceiling."""
    voice = Voice()
    async with voice.session({"a": offering("slow", parallel=True)}, limits={"mcp_concurrency": 2}) as session:
        for requested, most in ((1, 1), (50, 2)):
            conversation = await session.open(limits={"mcp_concurrency": requested})
            voice.next.append({"tool_calls": [{"name": "a__slow", "arguments": {"seconds": 0.1}}] * 5})
            await soon(conversation.message("go"))
            changes = [event.type for event in await past(session, conversation_id=conversation.id)]
            running = [{"mcp_tool_call_begin": 1, "mcp_tool_call_end": -1}.get(type, 0) for type in changes]
            assert max(itertools.accumulate(running)) == most


async def test_a_server_that_sessions_of_a_host_share_keeps_its_own_limit(tmp_path: Path) -> None:
    """`concurrency`: calls that it gets at once, of all conversations; also of two sessions."""
    voice = Voice()
    server = offering("slow", parallel=True, share="host", concurrency=1)
    host = tertulia.Host(tertulia.Settings(model=voice.model, mcp_servers={"a": server}, approval_policy="never"))
    try:
        sessions = [await host.start() for _ in range(2)]
        for session in sessions:
            await soon(session.root.message("hello"))
        for _ in sessions:
            voice.calls("a__slow", seconds=0.4)
        began = time.monotonic()
        await soon(asyncio.gather(*(session.root.message("go") for session in sessions)))
        assert time.monotonic() - began > 0.75, "one after the other"
        for session in sessions:
            assert await ends(session) == [(True, "done")]
    finally:
        await host.close()


# ---- servers that others wrote


async def test_servers_of_others_work_together(tmp_path: Path) -> None:
    """Tests against real servers: npm server-everything and server-filesystem, PyPI mcp-server-time and -git."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "note.txt").write_text("a note")
    commands = {
        "time": pypi_server("mcp-server-time"),
        "git": pypi_server("mcp-server-git"),
        "fs": npm_server("server-filesystem", str(tmp_path)),
        "all": npm_server("server-everything"),
    }
    tables = {
        name: {"command": argv[0], "args": list(argv[1:]), "approval": "approve"} for name, argv in commands.items()
    }
    voice = Voice()
    async with voice.session(tables, cwd=str(tmp_path)) as session:
        await becomes_ready(session)
        voice.calls("time__get_current_time", timezone="UTC")
        voice.calls("git__git_status", repo_path=str(tmp_path))
        voice.calls("fs__read_text_file", path=str(tmp_path / "note.txt"))
        voice.calls("all__echo", message="hello")
        async with asyncio.timeout(HANG_S):
            await session.root.message("go")
        outcomes = await ends(session)
        assert [success for success, _ in outcomes] == [True] * 4, outcomes
        assert "UTC" in outcomes[0][1]
        assert "note.txt" in outcomes[1][1]
        assert "a note" in outcomes[2][1]
        assert "hello" in outcomes[3][1]


async def becomes_ready(session: tertulia.Session) -> None:
    async with asyncio.timeout(HANG_S):
        while any(one["status"] != "ready" for one in session.info.mcp):
            await session.root.message("wait")
            await asyncio.to_thread(time.sleep, 0.05)
