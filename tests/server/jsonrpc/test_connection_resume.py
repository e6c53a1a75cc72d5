"""A session of the past over a connection: its own from the start, or asked for."""

from __future__ import annotations

import tertulia
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.server.client import Client, connected, model


async def hold_conversation() -> str:
    async with Session.start(Settings(model=model(["fine"]))) as session:
        await session.root.message("hello")
    return session.id


async def test_a_resumed_session_is_heard_of_from_its_new_life_on_and_ends_with_the_connection() -> None:
    """DESIGN, Operations: `session/resume` answers as `session/info`."""
    old = await hold_conversation()
    async with connected(["again"]) as client:
        info = await client.call("session/resume", session_id=old)
        assert (info["session_id"], info["model"]) == (old, "scripted/inline")
        await client.event("session_configured", session_id=old)
        reply = await client.call("conversation/message", session_id=old, conversation_id="root", text="and?")
        assert reply["last_assistant_message"] == "again"
        heard = client.events(old)
        assert {event["epoch"] for event in heard} == {1}
        assert [event["type"] for event in heard].count("session_configured") == 1
        # The same one again is the same one, and nothing is heard twice.
        assert (await client.call("session/resume", session_id=old))["session_id"] == old
        assert len(client.events(old)) == len(heard)
    assert not tertulia.Session.resume(old).closed
    async with Session.resume(old, Settings(model=model())) as free:
        assert len(await free.root.history()) == 4


async def test_what_cannot_be_resumed_is_an_error_and_the_connection_goes_on() -> None:
    async with Session.start(Settings(model=model())) as used, connected() as client:
        for session_id, code in ((used.id, "busy"), ("nonsense", "not_found"), ("0" * 8, "not_found")):
            assert (await client.fail("session/resume", session_id=session_id))["data"]["code"] == code
        missing = "00000000-0000-0000-0000-000000000000"
        assert (await client.fail("session/resume", session_id=missing))["data"]["code"] == "not_found"
        assert (await client.call("session/info"))["session_id"] == client.session_id


async def test_a_session_that_waits_for_its_client_is_the_connections_own() -> None:
    old = await hold_conversation()
    host = Host(Settings(model=model(["again"])))
    client = Client(host, await host.resume(old))
    try:
        assert (await client.initialize())["session_id"] == old
        assert (await client.event("session_configured"))["epoch"] == 1
    finally:
        await client.connection.close(5)
        await host.close(5)
