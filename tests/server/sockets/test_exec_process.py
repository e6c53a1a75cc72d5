"""Processes that hold a session: an `exec` is answered over its socket, and what is left of one that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tertulia.models.scripted.script import call
from tertulia.server.sockets.session_sockets import reachable
from tertulia.server.sockets.socket_folder import find_reachable, program_of
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.server.client import model
from tests.server.sockets.gated_exec import gated_exec
from tests.server.sockets.line_client import connected, session_names, sockets_folder

pytestmark = pytest.mark.slow


async def test_an_exec_of_another_process_asks_the_client_that_attends_on_its_socket(tmp_path: Path) -> None:
    """Issue 23: a yes lets it go on; without a client the same is refused, and the exit code says so."""
    async with gated_exec(tmp_path / "first") as running, connected(running.session_id) as client:
        (found,) = await find_reachable(sockets_folder().parent)
        assert (found.pid, program_of(found.pid)) == (running.process.pid, "exec")
        await client.call("initialize", client={"name": "desk", "version": "2"}, attend=True)
        running.open_gate()
        request = (await client.event("approval_request"))["data"]
        assert not running.made
        answer = await client.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        assert answer["result"]["resolved"] is True
        assert (await client.event("approval_resolved"))["data"]["by"]["name"] == "desk 2"
        assert (await running.end())[0] == 0
        assert running.made
        await client.to_end()
    async with gated_exec(tmp_path / "second") as running, connected(running.session_id) as client:
        # It looks on, and does not attend.
        await client.call("initialize")
        running.open_gate()
        code, printed = await running.end()
        assert (code, running.made) == (1, False), printed
    assert session_names() == set()


async def test_an_exec_whose_only_approver_leaves_goes_on_at_once(tmp_path: Path) -> None:
    """Issue 23: it waits for the other one that attends, and for none where there is none."""
    async with gated_exec(tmp_path / "work") as running, connected(running.session_id) as looker:
        await looker.call("initialize")
        async with connected(running.session_id) as one:
            await one.call("initialize", attend=True)
            async with connected(running.session_id) as two:
                await two.call("initialize", attend=True)
                running.open_gate()
                await two.event("approval_request")
            await one.event("approval_request")
        resolved = (await looker.event("approval_resolved"))["data"]
        assert (resolved["decision"], resolved["reason"]) == ("deny", "unattended")
        code, printed = await running.end()
        assert (code, running.made) == (1, False), printed


async def test_of_two_answers_the_first_counts_and_the_other_is_told_whose_it_was(tmp_path: Path) -> None:
    """Issue 23: two clients of one session's socket race."""
    async with (
        gated_exec(tmp_path / "work") as running,
        connected(running.session_id) as one,
        connected(running.session_id) as two,
    ):
        for client, name in ((one, "one"), (two, "two")):
            await client.call("initialize", client={"name": name, "version": ""}, attend=True)
        running.open_gate()
        request = [(await client.event("approval_request"))["data"]["approval_id"] for client in (one, two)]
        assert request[0] == request[1]
        sent = [
            (client, await client.send("approval/resolve", approval_id=request[0], decision=decision))
            for client, decision in ((one, "allow"), (two, "deny"))
        ]
        counted = [(await client.answer(number))["result"]["resolved"] for client, number in sent]
        assert sorted(counted) == [False, True]
        winner = "one" if counted[0] else "two"
        for client in (one, two):
            resolved = (await client.event("approval_resolved"))["data"]
            assert (resolved["by"]["kind"], resolved["by"]["name"]) == ("client", winner)
        await running.end()
        assert running.made is counted[0]


async def test_what_a_killed_process_left_is_gone_after_the_next_look(tmp_path: Path) -> None:
    async with gated_exec(tmp_path / "work") as running:
        async with connected(running.session_id) as client:
            await client.call("initialize")
            os.kill(running.process.pid, signal.SIGKILL)
            await running.end()
            await client.to_end()
        assert session_names() == {running.session_id}
        assert await find_reachable(sockets_folder().parent) == []
        assert list(sockets_folder().iterdir()) == []


CONNECT = """
import os, socket, sys
reached = []
for place in sys.argv[1:]:
    try:
        names = os.listdir(place)
    except OSError:
        names = []
    for name in [place, *(os.path.join(place, name) for name in names)]:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(name)
                reached.append(name)
        except OSError:
            pass
print("reached", len(reached))
"""


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_a_confined_command_reaches_no_session(
    tmp_path: Path, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A10: not its own session's socket either, and not where the workspace is the home that the sockets are in."""
    need(tier)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "data"))
    (tmp_path / "connect.py").write_text(CONNECT)
    folder = sockets_folder()
    replies = [call("shell", {"command": ["python3", "connect.py", str(folder), "{socket}"]}), "done"]
    settings = Settings(
        model=model(replies),
        cwd=str(tmp_path),
        allow_home_workspace=True,
        sandbox="workspace-write",
        sandbox_tier=tier,
        network=True,
        session_sockets=True,
    )
    async with reachable(Session.start(settings)) as session:
        link = tmp_path / "{socket}"
        link.symlink_to(folder / f"{session.id}.sock")
        events = session.events(after=0)
        async with asyncio.timeout(HANG_S):
            await session.root.message("go")
            async for event in events:
                if event.type == "tool_call_end":
                    break
        assert "reached 0" in event.data.output
        async with connected(session.id) as client:
            assert (await client.call("initialize"))["result"]["session_id"] == session.id
