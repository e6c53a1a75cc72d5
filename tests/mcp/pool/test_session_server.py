"""One configured server of a session. With a whole session: tests/session/mcp/test_host.py."""

from __future__ import annotations

from tertulia.mcp.pool.session_server import ConfiguredServer, ServerReport, SessionServer
from tertulia.protocol.ids import ConversationId
from tertulia.testing.fake_mcp_server import fake_tool
from tests.mcp.pool_stage import ECHO, definition, pool_stage
from tests.mcp.virtual_time import in_virtual_time, steps


def candidate(**changes: object) -> ConfiguredServer:
    return ConfiguredServer("fs", definition(**changes))


def test_one_that_cannot_be_tried_says_why_and_offers_nothing() -> None:
    """S000-31"""
    member = SessionServer(ConfiguredServer("b d", status="failed", error="a name has no blanks"), None)
    assert member.report() == ServerReport("b d", "failed", "a name has no blanks", 0)
    assert (member.server, member.tools(), member.new_warnings(), member.is_absent) == (None, {}, [], True)
    member.release()


def test_one_that_is_switched_off_is_not_missed() -> None:
    """X-24: a name of a server that is off is unknown; one of a server that is down is kept."""
    assert not SessionServer(ConfiguredServer("fs", status="disabled"), None).is_absent


@in_virtual_time
async def test_its_tools_have_full_names_and_only_those_that_the_configuration_lets_through() -> None:
    """S000-25, S000-30"""
    async with pool_stage() as stage:
        stage.fake.tools = (ECHO, fake_tool("x" * 80), fake_tool("hidden"))
        lease = stage.lease(disabled_tools=("hidden",))
        await lease.server.monitor.wait_until_known()
        member = SessionServer(candidate(disabled_tools=("hidden",)), lease)
        found = member.tools()
        assert [len(name) for name in found] == [len("fs__echo"), 64]
        spec, tool = found["fs__echo"]
        assert (spec.server, spec.remote_name, spec.source, tool) == ("fs", "echo", "mcp", ECHO)
        assert member.tools() is found, "made once, while nothing changes"
        assert member.report().tools == 2


@in_virtual_time
async def test_it_is_missed_while_nothing_is_known_of_it() -> None:
    """X-24"""
    async with pool_stage() as stage:
        stage.fake.start_errors.append("no such program")
        lease = stage.lease(start="lazy")
        member = SessionServer(candidate(), lease)
        assert member.is_absent
        await lease.server.monitor.wait_until_known()
        assert member.is_absent
        await lease.server.refresh()
        assert not member.is_absent
        await lease.server.stop()
        assert not member.is_absent, "what it offers is known"


@in_virtual_time
async def test_what_is_left_out_is_told_once_and_again_when_it_is_something_else() -> None:
    """Issue 8: nothing is dropped in silence."""
    async with pool_stage() as stage:
        stage.fake.tools = (ECHO, fake_tool("n" * 300))
        lease = stage.lease()
        await lease.server.monitor.wait_until_known()
        member = SessionServer(candidate(), lease)
        assert set(member.tools()) == {"fs__echo"}
        (warning,) = member.new_warnings()
        assert warning.startswith("MCP server 'fs': tool 'nnn")
        assert "left out" in warning
        assert member.new_warnings() == []
        stage.fake.change(ECHO, fake_tool("m" * 300))
        await steps()
        await lease.server.refresh()
        member.tools()
        (warning,) = member.new_warnings()
        assert "'mmm" in warning


@in_virtual_time
async def test_releasing_it_gives_back_what_conversations_had_of_their_own() -> None:
    """S000-44"""
    async with pool_stage() as stage:
        member = SessionServer(candidate(), stage.lease())
        member.own[ConversationId("c")] = stage.lease(scope="c")
        assert stage.pool.leases() == 2
        member.release()
        member.release()
        assert (stage.pool.leases(), member.own) == (0, {})


@in_virtual_time
async def test_what_a_server_sends_amiss_is_told_once_however_often_it_starts() -> None:
    """C7: dropped, and an event."""
    async with pool_stage() as stage:
        lease = stage.lease(start="lazy")
        member = SessionServer(candidate(), lease)
        for turn in range(3):
            await lease.server.refresh()
            stage.fake.connections[-1].dropped["a response to no request"] += 2
            assert len(member.new_warnings()) == (turn == 0)
            await lease.server.stop()
            assert member.new_warnings() == []
