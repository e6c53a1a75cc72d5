"""Session sockets: who may connect, to what, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tertulia.errors import BusyError, ClosedError, NotFoundError
from tertulia.models.scripted.script import say
from tertulia.server.sockets import session_sockets
from tertulia.server.sockets.session_sockets import SessionSockets, reachable, reachable_host
from tertulia.server.sockets.socket_folder import connect, find_reachable, program_of
from tertulia.session.agents import private_socket
from tertulia.session.agents.private_socket import listen_at
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S, QuietTime
from tests.server.client import model
from tests.server.sockets.line_client import connected, session_names, sockets_folder
from tests.tables import Large, each_row

ANOTHER = "00000000-0000-4000-8000-000000000000"


def home() -> Path:
    return sockets_folder().parent


def settings(*replies: object, **fields: object) -> Settings:
    return Settings(model=model(replies), session_sockets=True, **fields)  # type: ignore[arg-type]


@asynccontextmanager
async def open_session(*replies: object, **fields: object) -> AsyncIterator[Session]:
    async with reachable(Session.start(settings(*replies, **fields))) as session:
        yield session


async def test_only_its_owner_can_reach_a_session_and_its_end_leaves_nothing() -> None:
    """Issue 23, 1: folder 0700, socket 0600, also with a umask that lets all in."""
    before = os.umask(0)
    try:
        async with open_session() as session:
            assert session_names() == {session.id}
            assert stat.S_IMODE(sockets_folder().stat().st_mode) == 0o700
            for entry in sockets_folder().iterdir():
                assert stat.S_IMODE(entry.lstat().st_mode) == 0o600
                assert stat.S_ISSOCK(entry.lstat().st_mode)
    finally:
        os.umask(before)
    assert list(sockets_folder().iterdir()) == []


async def test_where_the_setting_is_off_there_is_no_socket_and_no_folder() -> None:
    async with reachable(Session.start(Settings(model=model()))):
        assert not sockets_folder().exists()
    async with reachable_host(Settings(model=model())) as host:
        await host.start()
        assert not sockets_folder().exists()
        await host.close()


async def test_the_connection_is_for_that_session_and_no_other() -> None:
    """Issue 23, 1: another id is not found, whatever asks for it, and no session is started."""
    async with open_session() as session, connected(session.id) as client:
        first = await client.call("initialize", client={"name": "looker", "version": "1"})
        assert first["result"]["session_id"] == session.id
        for method in ("session/info", "conversation/list", "session/close", "events/subscribe", "session/board"):
            refused = await client.call(method, session_id=ANOTHER)
            assert refused["error"]["data"]["code"] == "not_found", method
        for method in ("session/start", "session/resume", "record/list"):
            assert (await client.call(method))["error"]["data"]["code"] == "invalid_request", method
        listed = (await client.call("session/list"))["result"]["sessions"]
        assert [entry["session_id"] for entry in listed] == [session.id]
        assert (await client.call("conversation/list", session_id=session.id))["result"]["conversations"]
        assert (await client.call("initialize"))["error"]["data"]["code"] == "invalid_request"
        assert not session.closed
    assert session_names() == set()


async def test_records_of_other_sessions_cannot_be_read_searched_or_forked_there() -> None:
    """Issue 23, 1: a socket is for one session, however the id of another is spelled."""
    async with Session.start(settings(say("a secret word"))) as other:
        await other.root.message("tell")
    async with open_session(say("a plain word")) as session, connected(session.id) as client:
        await client.call("initialize")
        await client.call("conversation/message", conversation_id="root", text="tell")
        needed = {"record/board": {"at_n": 1}, "record/prompt": {"n": 1}, "record/search": {"query": "word"}}
        for method in ("outline", "page", "board", "prompt", "search", "fork"):
            fields = needed.get(f"record/{method}", {})
            for spelling in ("session_id", "sessionId", "Session_Id", "SESSION_ID"):
                refused = await client.call(f"record/{method}", **fields, **{spelling: other.id})
                assert refused["error"]["data"]["code"] == "not_found", (method, spelling)
        for about in ({}, {"session_id": None}, {"sessionId": None}, {"session_id": session.id}):
            found = (await client.call("record/search", query="word", **about))["result"]["hits"]
            assert {hit["session_id"] for hit in found} == {session.id}, about
        assert (await client.call("record/search", query="secret"))["result"]["hits"] == []


@each_row("named", [ANOTHER, "../serve.token", "", 5])
async def test_a_client_that_names_another_session_at_first_gets_none(named: object) -> None:
    async with open_session() as session, connected(session.id) as client:
        refused = await client.call("initialize", session_id=named)
        assert refused["error"]["data"]["code"] in ("not_found", "invalid_params")
        assert (await client.call("session/info"))["error"]["data"]["code"] == "not_initialized"


async def test_many_sessions_of_a_process_have_one_socket_and_clients_that_do_not_mix() -> None:
    """Issue 23, 1: one listening socket; a client names its session, and hears of no other."""
    async with reachable_host(settings("one", "two")) as host:
        sessions = [await host.start() for _ in range(3)]
        files = {entry.lstat().st_ino for entry in sockets_folder().iterdir()}
        assert len(files) == 1
        assert session_names() == {session.id for session in sessions}
        async with connected(sessions[0].id) as client, connected(sessions[1].id) as other:
            refused = await client.call("initialize")
            assert "several sessions" in refused["error"]["message"]
            for one, session in ((client, sessions[0]), (other, sessions[1])):
                await one.call("initialize", session_id=session.id)
            await other.call("conversation/message", conversation_id="root", text="hello")
            assert (await client.call("session/info", session_id=sessions[1].id))["error"]["data"][
                "code"
            ] == "not_found"
            assert client.events == []
            assert {event["session_id"] for event in other.events} == {sessions[1].id}
            assert (await other.call("session/close"))["result"]["closed"]
            await other.to_end()
            assert session_names() == {sessions[0].id, sessions[2].id}
            assert len(host) == 2
        await host.close()
    assert list(sockets_folder().iterdir()) == []


async def test_an_observer_gets_no_events_until_it_subscribes() -> None:
    async with open_session("hello") as session, connected(session.id) as client:
        answer = await client.call("initialize", observe=True)
        assert answer["result"]["session_id"] is None
        await session.root.message("hi")
        assert client.events == []
        await client.call("events/subscribe", after_seq=0)
        assert (await client.event("agent_message"))["data"]["text"] == "hello"


async def test_a_home_whose_name_is_longer_than_a_sockets_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 40)
    monkeypatch.setenv("TERTULIA_HOME", str(place))
    async with open_session() as session:
        assert [found.session_id for found in await find_reachable(place)] == [session.id]
        async with connected(session.id) as client:
            assert (await client.call("initialize"))["result"]["session_id"] == session.id


async def test_a_folder_that_is_a_link_or_a_file_is_not_used(tmp_path: Path) -> None:
    """Nothing is made where the link leads; the session goes on without a socket."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    home().mkdir(parents=True, exist_ok=True)
    sockets_folder().symlink_to(elsewhere)
    async with open_session("hello") as session:
        assert (await session.root.message("hi")).text == "hello"
        assert list(elsewhere.iterdir()) == []
        assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
        assert await find_reachable(home()) == []
    sockets_folder().unlink()
    sockets_folder().write_text("mine")
    async with open_session("hello") as session:
        assert (await session.root.message("hi")).text == "hello"
    assert sockets_folder().read_text() == "mine"


async def test_what_stands_at_the_name_is_replaced_and_never_followed(tmp_path: Path) -> None:
    """A leftover of a killed process, or a link that was put there: what it leads to is not touched."""
    target = tmp_path / "target"
    target.write_text("mine")
    async with Session.start(settings()) as session:
        sockets_folder().mkdir(mode=0o700, parents=True)
        (sockets_folder() / f"{session.id}.sock").symlink_to(target)
        sockets = SessionSockets(home())
        await sockets.add(session)
        assert (sockets_folder() / f"{session.id}.sock").is_socket()
        async with connected(session.id) as client:
            assert (await client.call("initialize"))["result"]["session_id"] == session.id
        await session.close()
        await sockets.close()
    assert target.read_text() == "mine"


async def test_a_link_in_the_folder_is_no_socket_for_those_who_look() -> None:
    async with open_session() as session:
        (sockets_folder() / f"{ANOTHER}.sock").symlink_to(sockets_folder() / f"{session.id}.sock")
        (sockets_folder() / "note.txt").write_text("mine")
        assert [found.session_id for found in await find_reachable(home())] == [session.id]
        with pytest.raises(NotFoundError, match="no socket"):
            connect(home(), ANOTHER)
    assert {entry.name for entry in sockets_folder().iterdir()} == {f"{ANOTHER}.sock", "note.txt"}


def leave_behind(session_id: str) -> None:
    """A name as a killed process leaves it."""
    listen_at(sockets_folder() / f"{session_id}.sock").close()


async def test_names_that_killed_processes_have_left_are_removed_by_the_next_that_looks() -> None:
    async with open_session() as session:
        leave_behind(ANOTHER)
        leave_behind("77-0123456789abcdef")
        with pytest.raises(ClosedError, match="tertulia resume"):
            connect(home(), ANOTHER)
        found = await find_reachable(home())
        assert [(entry.session_id, entry.pid) for entry in found] == [(session.id, os.getpid())]
        assert session_names() == {session.id}
        assert len(list(sockets_folder().iterdir())) == 2
        with pytest.raises(NotFoundError, match="tertulia resume"):
            connect(home(), ANOTHER)
    assert program_of(os.getpid()) == "terminal"
    assert program_of(2**22 + 1) == "unknown"


async def test_a_live_name_is_never_removed_however_the_processes_race() -> None:
    """A session that is resumed again and again over what a killed process left, while others look."""
    done = asyncio.Event()

    async def keep_looking() -> None:
        while not done.is_set():
            await find_reachable(home())
            await asyncio.sleep(0)

    async with Session.start(settings()) as session, asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(asyncio.to_thread(asyncio.run, _look_often(done)))
        group.create_task(keep_looking())
        try:
            sockets_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            for _ in range(100):
                (sockets_folder() / f"{session.id}.sock").unlink(missing_ok=True)
                leave_behind(session.id)
                sockets = SessionSockets(home())
                await sockets.add(session)
                await asyncio.sleep(0)
                with suppress(BusyError):
                    # Those who look may fill the queue; what has no process behind it would be refused.
                    connect(home(), session.id).close()
                await sockets.close()
        finally:
            done.set()


async def _look_often(done: asyncio.Event) -> None:
    while not done.is_set():
        await find_reachable(home())


async def test_a_folder_that_another_process_keeps_locked_costs_the_socket_and_not_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import fcntl

    monkeypatch.setattr(session_sockets, "_LOCK_STEPS", 3)
    sockets_folder().mkdir(mode=0o700, parents=True)
    holder = os.open(sockets_folder(), os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        async with open_session("hello") as session:
            assert (await session.root.message("hi")).text == "hello"
            assert session_names() == set()
    finally:
        os.close(holder)


async def test_another_user_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modes keep others out; should they be changed, the kernel's word for who connects counts."""
    monkeypatch.setattr(private_socket, "is_same_user", lambda connection: False)
    async with open_session() as session, connected(session.id) as client:
        await client.to_end()
        assert client.answers == {}


async def test_the_last_events_come_before_the_connection_ends() -> None:
    """H7: a client that follows hears how the task of a session ended that is closed meanwhile."""
    async with open_session(say("late", gate=asyncio.Event())) as session, connected(session.id) as client:
        await client.call("initialize")
        running = await client.send("conversation/message", conversation_id="root", text="go")
        await client.event("task_started")
        await session.close()
        assert (await client.answer(running))["result"]["status"] == "interrupted"
        await client.to_end()
        assert [event for event in client.events if event["type"] == "turn_aborted"]


async def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    """H7, L2: the close is bounded."""
    async with reachable(Session.start(settings(say("x" * 4_000_000)))) as session, connected(session.id) as client:
        await client.call("initialize")
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await session.root.message("go")
        quiet = QuietTime()
        await session.close()
    assert quiet.seconds < 8
    assert list(sockets_folder().iterdir()) == []


async def test_a_client_that_goes_away_stops_nothing() -> None:
    gate = asyncio.Event()
    async with open_session(say("late", gate=gate)) as session:
        async with connected(session.id) as client:
            await client.call("initialize")
            await client.send("conversation/message", conversation_id="root", text="go")
            await client.event("task_started")
        events = session.events(after=0)
        gate.set()
        async with asyncio.timeout(HANG_S):
            async for event in events:
                if event.type == "agent_message":
                    break


@pytest.mark.parametrize(
    "garbage",
    [b"\x00\xff\n", b"[" * 1000 + b"\n", b"{}\n", Large(lambda: b'"' + b"x" * 100_000_000 + b'"\n')],
)
async def test_nonsense_is_refused_and_the_session_goes_on(garbage: bytes) -> None:
    """D9, L1: also a line of 100 MB."""
    async with open_session("hello") as session, connected(session.id) as client:
        client.writer.write(garbage)
        assert (await client.answer(None))["error"]["code"] in (-32700, -32600)
        assert (await client.call("initialize"))["result"]["session_id"] == session.id
        done = await client.call("conversation/message", conversation_id="root", text="hi")
        assert done["result"]["status"] == "completed"


async def test_a_thousand_connections_are_survived_and_the_next_is_served() -> None:
    """D11: those above the limit are closed at once, and those that say nothing cost no import."""
    async with open_session() as session:
        flood = []
        for number in range(1_000):
            while True:
                try:
                    flood.append(connect(home(), session.id))
                    break
                except BusyError:
                    # So many wait there that none more can.
                    await asyncio.sleep(0)
            if number % 50 == 0:
                await asyncio.sleep(0)
        for connection in flood:
            connection.close()
        async with asyncio.timeout(HANG_S):
            while True:
                with suppress(OSError, AssertionError):
                    async with connected(session.id) as client:
                        answer = await client.call("initialize")
                        break
        assert answer["result"]["session_id"] == session.id


async def test_a_client_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: before its first line, and before `initialize`."""
    from tertulia.server.sockets import session_connection

    monkeypatch.setattr(session_sockets, "_FIRST_LINE_S", 0.01)
    async with open_session() as session, connected(session.id) as client:
        await client.to_end()
    monkeypatch.setattr(session_sockets, "_FIRST_LINE_S", HANG_S)
    monkeypatch.setattr(session_connection, "INITIALIZE_S", 0.05)
    async with open_session() as session, connected(session.id) as client:
        client.writer.write(b"{}\n")
        await client.to_end()
        assert None in client.answers
