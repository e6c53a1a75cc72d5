"""`tertulia mcp-broker`: any number of programs, one broker, one set of server processes."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.daemons import Daemons
from tests.cli.running import Shell
from tests.cli.serving import config_of, configure
from tests.deadlines import HANG_S, QuietTime
from tests.mcp.connected import recorded, until
from tests.mcp.fakes import bare
from tests.mcp.fakes.number import number_here
from tests.server.brokering import WAITED_FOR, alive, client, over_pipes, text

eras = pytest.mark.parametrize("era", ["old", "new"])
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def daemons(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    """None is left behind."""
    found = Daemons(shell)
    monkeypatch.setenv("TERTULIA_HOME", str(found.home))
    yield found
    found.end()


def reached(*arguments: str, **variables: str) -> Any:
    return over_pipes("--idle-exit", "30", *arguments, **variables)


def serve(shell: Shell, *options: str, **fields: Any) -> None:
    configure(shell, "fake", bare(*options), approval="approve", **WAITED_FOR, **fields)


@eras
async def test_programs_share_one_set_of_servers_each_with_its_view(shell: Shell, daemons: Daemons, era: str) -> None:
    """Issue 8, item 6: several hosts share one broker through a 0600 socket; it goes when nobody is there."""
    serve(shell)
    with config_of(shell).open("a") as config:
        config.write('\n[mcp_views.review]\nmcp_tool_allowlist = ["fake__pid"]\n')
    async with (
        client(over_pipes("--idle-exit", "0.2"), era) as one,
        client(over_pipes("--idle-exit", "0.2"), era) as two,
        client(over_pipes("--idle-exit", "0.2", "--view", "review"), era) as three,
    ):
        servers = {text(await client.call_tool("fake__pid", {})) for client in (one, two, three)}
        assert len(servers) == 1
        assert [tool.name for tool in (await three.list_tools()).tools] == ["fake__pid"]
        assert (await three.call_tool("fake__echo", {"text": "x"})).is_error
        assert len(daemons.pids()) == 1
        [socket] = daemons.folder.glob("*.sock")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(daemons.folder.stat().st_mode) == 0o700
    await daemons.gone()
    [server] = map(int, servers)
    assert not alive(server)
    assert list(daemons.folder.glob("*.sock")) == []
    assert daemons.log() == ""


async def test_programs_that_start_at_the_same_time_start_one_broker(
    shell: Shell, daemons: Daemons, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    serve(shell, "--record", str(record))

    async def use() -> str:
        async with client(reached(), "new") as connected:
            return text(await connected.call_tool("fake__pid", {}))

    assert len(set(await asyncio.gather(*(use() for _ in range(5))))) == 1
    assert len(daemons.pids()) == 1
    assert len([line for line in recorded(record) if line.startswith("start")]) == 1


async def test_when_the_broker_is_killed_the_next_program_starts_another_and_no_server_is_left(
    shell: Shell, daemons: Daemons
) -> None:
    """A17: not one process."""
    serve(shell)
    async with client(reached(), "new") as connected:
        server = int(text(await connected.call_tool("fake__pid", {})))
        [broker] = daemons.pids()
        os.kill(broker, signal.SIGKILL)
        await until(lambda: not alive(server))
    assert list(daemons.folder.glob("*.sock")) != []
    async with client(reached(), "new") as connected:
        assert int(text(await connected.call_tool("fake__pid", {}))) != server
        assert daemons.pids() != [broker]


async def test_a_broker_that_is_told_to_stop_hands_over_in_order(shell: Shell, daemons: Daemons) -> None:
    serve(shell)
    async with client(reached(), "old") as connected:
        server = int(text(await connected.call_tool("fake__pid", {})))
        [broker] = daemons.pids()
        os.kill(broker, signal.SIGTERM)
        async with client(reached(), "old") as other:
            assert int(text(await other.call_tool("fake__pid", {}))) != server
        await until(lambda: not alive(broker) and not alive(server))
    assert daemons.log() == ""


def test_a_program_hears_that_the_broker_went_away(shell: Shell, daemons: Daemons) -> None:
    serve(shell)
    with shell.start("mcp-broker", "--idle-exit", "30") as relay:
        deadline = asyncio.run(until(lambda: len(daemons.pids()) == 1 and list(daemons.folder.glob("*.sock"))))
        assert deadline is None
        assert relay.stdin is not None
        assert relay.stdout is not None
        relay.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        relay.stdin.flush()
        assert relay.stdout.readline().startswith(b'{"jsonrpc"')
        os.kill(daemons.pids()[0], signal.SIGKILL)
        assert relay.wait(HANG_S) == 1
        assert relay.stderr is not None
        assert b"the shared broker went away" in relay.stderr.read()


async def test_other_settings_and_other_keys_have_another_broker(shell: Shell, daemons: Daemons) -> None:
    serve(shell, env_vars=["TOKEN"])

    async def use(*arguments: str, **variables: str) -> tuple[str, str]:
        async with client(reached(*arguments, **variables), "new") as connected:
            assert variables["TOKEN"] not in text(await connected.call_tool("fake__env", {})), "nobody reads it back"
            pid = text(await connected.call_tool("fake__pid", {}))
            return pid, Path(f"/proc/{number_here(int(pid))}/environ").read_text() if pid.isdigit() else ""

    first, env = await use(TOKEN="first-key")
    assert "TOKEN=first-key\0" in env
    assert (await use(TOKEN="first-key", TERM="dumb"))[0] == first
    other, env = await use(TOKEN="second-key")
    assert other != first
    assert "TOKEN=second-key\0" in env
    assert (await use("-s", "read-only", TOKEN="first-key"))[0] not in (first, other)
    assert len(daemons.pids()) == 3


async def test_a_projects_files_say_nothing_here(shell: Shell, daemons: Daemons) -> None:
    """Neither its servers nor what it narrows: all programs share one broker, wherever they were started."""
    serve(shell)
    (shell.folder / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    (shell.folder / ".tertulia").mkdir()
    (shell.folder / ".tertulia" / "config.toml").write_text('sandbox = "read-only"\n')
    async with client(reached(), "new") as connected:
        assert {tool.name.partition("__")[0] for tool in (await connected.list_tools()).tools} == {"fake"}
        assert not (await connected.call_tool("fake__echo", {"text": "hi"})).is_error


async def test_no_secret_is_in_the_log_or_the_process_list(shell: Shell, daemons: Daemons) -> None:
    serve(shell, env={"API_KEY": SECRET})
    secret = f'mcp_servers.other={{command="no-such-program-{SECRET}",env={{KEY="{SECRET}"}}}}'
    async with client(reached("-c", secret), "new") as connected:
        await connected.call_tool("fake__echo", {"text": SECRET})
        await connected.call_tool("fake__fail", {"text": SECRET})
        [broker] = daemons.pids()
        seen = Path(f"/proc/{broker}/cmdline").read_bytes()
        assert b"--daemon" in seen
        assert SECRET.encode() not in seen
        server = text(await connected.call_tool("fake__pid", {}))
        assert SECRET.encode() not in Path(f"/proc/{number_here(int(server))}/cmdline").read_bytes()
    assert SECRET not in daemons.log()
    for path in daemons.home.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("name", ["start", "lock", "log"])
def test_a_link_that_somebody_planted_is_not_followed(shell: Shell, daemons: Daemons, name: str) -> None:
    serve(shell)
    precious = shell.folder / "precious"
    precious.write_text("precious")
    assert shell.spawn("mcp-broker", "--idle-exit", "0").code == 0
    asyncio.run(daemons.gone())
    [planted] = daemons.folder.glob(f"*.{name}")
    planted.unlink()
    planted.symlink_to(precious)
    ran = shell.spawn("mcp-broker", "--idle-exit", "0")
    assert ran.code == 1
    assert f".{name}" in ran.err
    assert "remove it" in ran.err
    assert precious.read_text() == "precious"


def test_a_stale_socket_and_a_link_in_its_place_are_replaced(shell: Shell, daemons: Daemons) -> None:
    serve(shell)
    assert shell.spawn("mcp-broker", "--idle-exit", "0").code == 0
    asyncio.run(daemons.gone())
    [lock] = daemons.folder.glob("*.lock")
    place = lock.with_suffix(".sock")
    os.mknod(place, stat.S_IFSOCK | 0o600)
    assert shell.spawn("mcp-broker", "--idle-exit", "0").code == 0
    asyncio.run(daemons.gone())
    place.symlink_to("/nowhere/at/all")
    assert shell.spawn("mcp-broker", "--idle-exit", "0").code == 0


def test_why_a_broker_does_not_start_is_said_at_once(shell: Shell, daemons: Daemons) -> None:
    serve(shell)
    configure(shell, "gone", ("/no/such/program",), required=True)
    time_taken = QuietTime()
    ran = shell.spawn("mcp-broker")
    assert ran.code == 1
    assert "'gone' is required" in ran.err
    assert "--alone" in ran.err
    assert time_taken.seconds < 15
    assert daemons.pids() == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--view", "nobody"), "there is no view 'nobody'"),
        (("--http", "99999"), "99999"),
        (("--http", "x"), "x"),
        (("--idle-exit", "soon"), "soon"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    shell: Shell, daemons: Daemons, arguments: tuple[str, ...], why: str
) -> None:
    serve(shell)
    ran = shell.spawn("mcp-broker", *arguments)
    assert ran.code == 2
    assert why in ran.err
    assert ran.out == ""
    assert daemons.pids() == []
