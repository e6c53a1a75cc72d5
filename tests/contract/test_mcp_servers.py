"""The servers themselves: who starts when, who shares whom, what they are given, and that none is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tests.contract.python_session import soon
from tests.contract.serving_tools import (
    Voice,
    define,
    ends,
    kinds,
    lines,
    lives,
    modern,
    offered,
    offering,
    spoilt,
    table,
    tagged,
    tool,
    until,
)
from tests.deadlines import HANG_S, QuietTime
from tests.mcp.fakes import plain, web
from tests.tables import Large, each_row


async def gone(*pids: int) -> None:
    async with asyncio.timeout(HANG_S):
        while any(lives(pid) for pid in pids):
            await asyncio.to_thread(time.sleep, 0.02)


def started(record: Path) -> list[int]:
    return [int(line.split()[1]) for line in lines(record) if line.startswith("start ")]


# ---- who shares whom


async def test_a_hundred_conversations_are_one_process_and_none_is_left(tmp_path: Path) -> None:
    """S000-44, S002-37, S002-41."""
    record = tmp_path / "record"
    voice = Voice()
    async with voice.session({"a": table("--record", str(record))}) as session:
        for number in range(100):
            conversation = await session.open()
            if number % 10 == 0:
                voice.calls("a__echo", text=str(number))
                await soon(conversation.message("go"))
            await conversation.close()
        (pid,) = started(record)
        assert lives(pid)
    assert not lives(pid)


async def test_a_conversations_own_process_ends_with_it(tmp_path: Path) -> None:
    """`share = "conversation"`: no two share a process, and each takes its own along."""
    voice = Voice()
    async with voice.session({"a": offering("pid", share="conversation")}) as session:
        found: list[int] = []
        for _ in range(3):
            conversation = await session.open()
            voice.calls("a__pid")
            await soon(conversation.message("go"))
            found.append(int((await ends(session, conversation))[0][1]))
            await conversation.close()
            await gone(found[-1])
        assert len(set(found)) == 3
        voice.calls("a__pid")
        await soon(session.root.message("go"))
        assert int((await ends(session, session.root))[0][1]) not in found


async def test_two_definitions_of_one_program_are_two_processes(tmp_path: Path) -> None:
    """Deliver 2: the key has command, args, env, cwd."""
    record = tmp_path / "record"
    same = ("--record", str(record))
    servers = {
        "a": table(*same),
        "b": table(*same),
        "c": table(*same, env={"X": "1"}),
        "d": table(*same, cwd=str(tmp_path)),
    }
    async with Voice().session(servers) as session:
        assert {one["status"] for one in session.info.mcp} == {"ready"}
        assert len(started(record)) == 3, "a and b are one"


# ---- when they start


async def test_a_lazy_server_starts_at_its_first_call_once_it_is_known(tmp_path: Path) -> None:
    """Deliver 2: lazy from a cached catalogue."""
    record = tmp_path / "record"
    server = table("--record", str(record), "--tools", "echo,pid", start="lazy")
    async with Voice().session({"a": server}) as session:
        first = offered(session.root)
    assert first == ["a__echo", "a__pid"]
    assert len(started(record)) == 1
    voice = Voice()
    async with voice.session({"a": server}) as session:
        assert offered(session.root) == first
        assert [one["status"] for one in session.info.mcp] == ["stopped"]
        await soon(session.root.message("no call"))
        assert len(started(record)) == 1
        voice.calls("a__echo", text="now")
        await soon(session.root.message("go"))
        assert await ends(session) == [(True, "now")]
        assert len(started(record)) == 2


def catalogue() -> Path:
    (file,) = Path(os.environ["TERTULIA_HOME"]).rglob("mcp-catalogue/*.json")
    return file


@pytest.mark.parametrize(
    "poison",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"tools": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        Large(lambda: b"0" * (64 << 20)),
        "link",
        "folder",
        "other",
        "open",
    ],
    ids=["empty", "cut", "list", "null", "shape", "bytes", "deep", "huge", "link", "folder", "other", "open"],
)
async def test_a_poisoned_cache_is_not_believed(tmp_path: Path, poison: Any) -> None:
    """Deliver 2: whatever the file says, what is called is what the server itself defines."""
    record = tmp_path / "record"
    server = table("--record", str(record), "--tools", "echo", start="lazy")
    async with Voice().session({"a": server}):
        pass
    file = catalogue()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if poison == "link":
        moved = file.rename(tmp_path / "elsewhere.json")
        file.symlink_to(moved)
    elif poison == "folder":
        file.unlink()
        file.mkdir()
    elif poison == "other":
        file.write_bytes(file.read_bytes().replace(b'"echo"', b'"evil"'))
    elif poison == "open":
        file.chmod(0o666)
    else:
        file.write_bytes(poison)
    voice = Voice()
    async with voice.session({"a": server}) as session:
        assert set(offered(session.root)) <= {"a__echo"}
        voice.calls("a__evil")
        voice.calls("a__echo", text="fine")
        await soon(session.root.message("go"))
        async with asyncio.timeout(HANG_S):
            while offered(session.root) != ["a__echo"]:
                await session.root.message("now?")
        voice.calls("a__echo", text="fine")
        await soon(session.root.message("go"))
        assert (await ends(session))[-1] == (True, "fine")
    assert "call evil" not in lines(record)


async def test_a_lazy_server_that_means_something_else_by_then_is_not_called(tmp_path: Path) -> None:
    """C1 through the cache: the definition that was shown is the one that is called, or none."""
    file, record = tmp_path / "tools.json", tmp_path / "record"
    server = table("--define", define(file, tool("echo", "Says.")), "--record", str(record), start="lazy")
    async with Voice().session({"a": server}):
        pass
    define(file, tool("echo", "Deletes."))
    voice = Voice()
    async with voice.session({"a": server}) as session:
        assert offered(session.root) == ["a__echo"]
        voice.calls("a__echo", text="x")
        await soon(session.root.message("go"))
        assert not (await ends(session))[0][0]
        assert "call echo" not in lines(record)
        async with asyncio.timeout(HANG_S):
            while offered(session.root):
                await session.root.message("now?")


async def test_one_that_is_slow_delays_by_a_grace_and_appears_later() -> None:
    """Fine print: grace before the first turn 5 s; then its tools are reported missing."""
    voice = Voice()
    time_taken = QuietTime()
    async with voice.session({"a": spoilt("slow-start"), "b": offering("echo")}) as session:
        await soon(session.root.message("go"))
        assert time_taken.seconds < 8, "5 s, and the start of a session"
        async with asyncio.timeout(HANG_S):
            while "a__echo" not in offered(session.root):
                await session.root.message("now?")


async def test_a_required_server_that_is_down_keeps_the_session_from_starting() -> None:
    """`required`."""
    with pytest.raises(errors.McpError) as refused:
        async with Voice().session({"a": spoilt("dies-at-start", required=True)}):
            pass
    assert "'a'" in refused.value.message
    assert refused.value.code == "mcp_error"


async def test_one_that_is_switched_off_is_not_started(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with Voice().session({"a": table("--record", str(record), enabled=False)}) as session:
        assert [(one["name"], one["status"], one["tools"]) for one in session.info.mcp] == [("a", "disabled", 0)]
        assert offered(session.root) == []
    assert not record.exists()


async def test_enabled_and_disabled_tools_are_all_there_is(tmp_path: Path) -> None:
    record = tmp_path / "record"
    voice = Voice()
    fields = {"enabled_tools": ["echo", "pid", "nothing"], "disabled_tools": ["pid"]}
    async with voice.session({"a": table("--record", str(record), **fields)}) as session:
        assert offered(session.root) == ["a__echo"]
        with pytest.raises(errors.InvalidParamsError):
            await session.open(mcp_tool_allowlist=["a__pid"])
        voice.calls("a__pid")
        await soon(session.root.message("go"))
    assert "call pid" not in lines(record)


async def test_an_idle_server_is_reclaimed(tmp_path: Path) -> None:
    """S002-40: when no view uses it. It comes back when it is called again."""
    record = tmp_path / "record"
    voice = Voice()
    host = tertulia.Host(
        tertulia.Settings(
            model=voice.model,
            mcp_servers={"a": table("--record", str(record), share="host", idle_timeout_sec=0.2)},
            approval_policy="never",
        )
    )
    try:
        for turn in (1, 2):
            session = await host.start()
            voice.calls("a__echo", text="x")
            await soon(session.root.message("go"))
            assert await ends(session) == [(True, "x")]
            assert len(started(record)) == turn
            await host.close_session(session)
            await gone(started(record)[-1])
    finally:
        await host.close()


# ---- what they are given


@pytest.mark.parametrize("era", [table, modern])
async def test_a_server_gets_the_usual_few_variables_and_what_is_declared(
    monkeypatch: pytest.MonkeyPatch, era: Any
) -> None:
    """C13."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("PASSED_ON", "yes")
    monkeypatch.setenv("LD_PRELOAD", "")
    voice = Voice()
    async with voice.session({"a": era(env={"GIVEN": "1"}, env_vars=["PASSED_ON", "NOT_SET_AT_ALL"])}) as session:
        voice.calls("a__env")
        await soon(session.root.message("go"))
        ((success, outcomes),) = await ends(session)
    assert success
    received = json.loads(outcomes)
    usual = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
    assert set(received) - usual == {"GIVEN", "PASSED_ON"}
    assert (received["GIVEN"], received["PASSED_ON"]) == ("1", "yes")


async def test_an_unset_secret_is_that_servers_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input: secret env var unset."""
    monkeypatch.delenv("MY_TOKEN", raising=False)
    servers = {
        "a": offering("echo", required=False, env_vars=["MY_TOKEN"]),
        "b": {"url": "http://127.0.0.1:9/mcp", "bearer_token_env_var": "MY_TOKEN"},
        "c": offering("echo"),
    }
    async with Voice().session(servers) as session:
        state = {one["name"]: one for one in session.info.mcp}
        assert [state[name]["status"] for name in "abc"] == ["failed", "failed", "ready"]
        assert "MY_TOKEN" in state["a"]["error"]
        assert "MY_TOKEN" in state["b"]["error"]


SECRET = "hunter2-canary-of-a-definition"


async def test_secrets_of_a_definition_show_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """E6: not in answers, status events, logs, errors, info or on disk, though the server shouts them when it dies."""
    caplog.set_level("DEBUG")
    voice = Voice()
    shouts = {
        "command": "/bin/sh",
        "args": ["-c", 'echo "bad token $API_TOKEN" >&2; exit 3'],
        "env": {"API_TOKEN": SECRET},
    }
    servers = {
        "a": table(env={"API_TOKEN": SECRET}),
        "b": {"url": "http://127.0.0.1:9/mcp", "http_headers": {"Authorization": f"Bearer {SECRET}"}},
        "c": shouts,
    }
    async with voice.session(servers) as session:
        voice.calls("a__env")
        await soon(session.root.message("go"))
        states = await kinds(session, "mcp_server_status")
        shown = [repr(session.info), repr(session), *map(repr, states)]
        assert "bad token" in repr(session.info), "what it said is told, without that"
        output = (await ends(session))[0][1]
        assert '"API_TOKEN": "[redacted:secret]"' in output, "the tool did say it, and nobody who called reads it"
        shown.append(output)
    assert not [text for text in shown if SECRET in text]
    assert SECRET not in caplog.text
    for file in Path(os.environ["TERTULIA_HOME"]).rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


# ---- over HTTP


@contextlib.asynccontextmanager
async def listening(argv: tuple[str, ...]) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout
        async with asyncio.timeout(HANG_S):
            yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.communicate()


async def test_a_server_behind_an_address_serves_many(tmp_path: Path) -> None:
    """Deliver 1: streamable HTTP, with the headers that were configured and no others' credentials."""
    async with listening(web("json")) as port:
        voice = Voice()
        server = {"url": f"http://127.0.0.1:{port}/mcp", "http_headers": {"X-Given": "1"}, "approval": "approve"}
        async with voice.session({"a": server}) as session:
            assert offered(session.root) == ["a__echo", "a__headers"]
            voice.calls("a__headers")
            await soon(session.root.message("go"))
            ((success, outcomes),) = await ends(session)
            assert success
            assert "x-given" in outcomes.lower()


async def test_elicitation_over_http_reaches_the_right_one_of_two_sessions() -> None:
    """Deliver 5, C16: one server behind an address, two sessions of a host, two questions at once."""
    async with listening(plain("http", "0")) as port:
        voice = Voice()
        server = {"url": f"http://127.0.0.1:{port}/mcp", "approval": "approve", "share": "host"}
        host = tertulia.Host(tertulia.Settings(model=voice.model, mcp_servers={"a": server}))
        try:
            sessions = [await host.start() for _ in range(2)]
            async with contextlib.AsyncExitStack() as stack:
                news = [await stack.enter_async_context(session.events(attend=True)) for session in sessions]
                tasks = []
                for number, session in enumerate(sessions):
                    await soon(session.root.message("hello"))
                    voice.calls("a__ask", question=f"Question {number}")
                    tasks.append(asyncio.ensure_future(session.root.message("go")))
                    question = await until(news[number], "elicitation_request")
                    assert question.data.message == f"Question {number}"
                    tasks.append(question)
                for session, question in zip(sessions, tasks[1::2], strict=True):
                    await session.approvals.resolve(question.data.elicitation_id, "deny")
                await soon(asyncio.gather(*tasks[::2]))
        finally:
            await host.close()


async def test_on_an_old_connection_that_is_shared_a_question_never_reaches_a_stranger(tmp_path: Path) -> None:
    """C16, DESIGN: where it cannot be told who is asked, one conversation is in flight at a time."""
    voice = Voice()
    server = offering("ask", "echo", share="host", parallel=True)
    host = tertulia.Host(tertulia.Settings(model=voice.model, mcp_servers={"a": server}))
    try:
        one, two = await host.start(), await host.start()
        for session in (one, two):
            await soon(session.root.message("hello"))
        async with one.events(attend=True) as first, two.events(attend=True) as second:
            voice.calls("a__ask", question="Of one?")
            task = asyncio.ensure_future(one.root.message("go"))
            question = await until(first, "elicitation_request")
            voice.calls("a__ask", question="Of two?")
            other = asyncio.ensure_future(two.root.message("go"))
            await until(second, "mcp_tool_call_begin")
            assert not await two.approvals.elicitations()
            await one.approvals.resolve(question.data.elicitation_id, "allow", content={"ok": True})
            await soon(task)
            question = await until(second, "elicitation_request")
            assert question.data.message == "Of two?"
            await two.approvals.resolve(question.data.elicitation_id, "deny")
            await soon(other)
        assert '"accept"' in (await ends(one))[0][1]
        assert '"decline"' in (await ends(two))[0][1]
        assert len(await kinds(one, "elicitation_request")) == len(await kinds(two, "elicitation_request")) == 1
    finally:
        await host.close()


@each_row(
    "url", ["ftp://x/", "javascript:alert(1)", "-oProxyCommand=x", "http://", "http://a b/", "", "//x", "file:///etc"]
)
async def test_a_bad_address_is_refused_by_name(url: str) -> None:
    """Bad input; C15: an odd scheme or a leading dash never reaches a program."""
    with pytest.raises(errors.TertuliaError) as refused:
        async with Voice().session({"a": {"url": url}}):
            pass
    assert "mcp_servers.a" in refused.value.message


async def test_nothing_of_oauth_is_followed(tmp_path: Path) -> None:
    """C15: we offer no OAuth. A server that answers 401 with metadata gets no second request anywhere."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                seen.append(head.split(b"\r\n")[0])
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                if length:
                    await reader.readexactly(int(length[0].split(b":")[1]))
                meta = b'Bearer resource_metadata="http://127.0.0.1:%d/.well-known/oauth-protected-resource"' % port
                writer.write(b"HTTP/1.1 401 No\r\nwww-authenticate: " + meta + b"\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Voice().session({"a": {"url": f"http://127.0.0.1:{port}/mcp"}}) as session:
        await soon(session.root.message("hello"))
        (state,) = session.info.mcp
        assert state["status"] == "failed"
        assert "401" in state["error"]
    assert seen
    assert all(line.split()[1] == b"/mcp" for line in seen), seen


# ---- their end


@pytest.mark.parametrize("habit", ["ignores-sigterm", "daemon", "hangs", "deaf", "loud"])
async def test_closing_a_session_takes_at_most_8_s_and_leaves_no_descendant(tmp_path: Path, habit: str) -> None:
    """C11, A17: shutdown in parallel within a bound, the whole process tree killed."""
    tag = f"tertulia-contract-{os.getpid()}-{habit}"
    servers = {f"a{number}": spoilt(habit, "--tag", f"{tag}{number}", startup_timeout_sec=20) for number in range(3)}
    host = tertulia.Host(tertulia.Settings(model=Voice().model, mcp_servers=servers))
    await host.start()
    async with asyncio.timeout(HANG_S):
        while len(tagged(tag)) < 3:
            await asyncio.to_thread(time.sleep, 0.05)
    time_taken = QuietTime()
    await host.close()
    assert time_taken.seconds < 9
    await gone(*tagged(tag))


# ---- past and present


async def test_a_resumed_session_starts_its_servers_again_and_a_fork_sees_the_same(tmp_path: Path) -> None:
    """Resume: allowlists as they were; fork likewise."""
    voice = Voice()
    servers = {"a": offering("echo", "pid")}
    async with voice.session(servers) as session:
        conversation = await session.open(mcp_tool_allowlist=["a__echo"])
        voice.calls("a__echo", text="x")
        await soon(conversation.message("go"))
        forked = await conversation.fork()
        assert offered(forked) == ["a__echo"]
        identity, fork = session.id, forked.id
    settings = tertulia.Settings(model=voice.model, mcp_servers=servers, approval_policy="never")
    async with tertulia.Session.resume(identity, settings) as session:
        for id in (conversation.id, fork):
            again = session.conversation(id)
            assert offered(again) == ["a__echo"]
            voice.calls("a__pid")
            voice.calls("a__echo", text="y")
            await soon(again.message("go"))
            assert [success for success, _ in (await ends(session, again))[-2:]] == [False, True]
        assert offered(session.root) == ["a__echo", "a__pid"]


async def test_a_server_that_is_not_configured_any_more_leaves_the_session_usable() -> None:
    """Resume: the names of the past that nobody has any more warn and are kept."""
    voice = Voice()
    async with voice.session({"a": offering("echo"), "b": offering("pid")}) as session:
        conversation = await session.open(mcp_tool_allowlist=["a__echo", "b__pid"])
        await soon(conversation.message("go"))
        identity = session.id
    settings = tertulia.Settings(model=voice.model, mcp_servers={"b": offering("pid")}, approval_policy="never")
    async with tertulia.Session.resume(identity, settings) as session:
        again = session.conversation(conversation.id)
        assert offered(again) == ["b__pid"]
        assert (await soon(again.message("go"))).status == "completed"


async def test_set_context_in_a_task_holds_from_its_next_request() -> None:
    """Fine print: a change during a task holds from its next model request."""
    voice = Voice()
    async with voice.session({"a": offering("slow", "echo")}) as session, session.events() as news:
        voice.calls("a__slow", seconds=1)
        voice.calls("a__slow", seconds=1)
        message = asyncio.ensure_future(session.root.message("go"))
        await until(news, "mcp_tool_call_begin")
        await session.root.set_context(mcp_tool_allowlist=["a__echo"])
        await soon(message)
        assert [success for success, _ in await ends(session)][1:] == [False]
        seen = [[name for name in one.tools if "__" in name] for one in voice.model.requests]
        assert seen == [["a__echo", "a__slow"], ["a__echo"], ["a__echo"]]


async def test_what_a_headers_only_conversation_calls_is_nowhere_on_disk() -> None:
    """Storage: nothing of arguments, results or stderr of a server under headers_only or none."""
    canary = "canary-of-a-call"
    voice = Voice()
    for policy in ("headers_only", "none"):
        async with voice.session({"a": table(), "b": spoilt("dies-in-call")}, storage_policy=policy) as session:
            voice.calls("a__echo", text=canary)
            voice.calls("a__fail", text=canary)
            voice.calls("a__refuse", text=canary)
            voice.calls("b__echo", text=canary)
            await soon(session.root.message("go"))
            assert len(await kinds(session, "tool_call_end")) == 4
        for file in Path(os.environ["TERTULIA_HOME"]).rglob("*"):
            assert not file.is_file() or canary.encode() not in file.read_bytes(), file
