"""The server of `tertulia serve`, from its socket to its end."""

from __future__ import annotations

import asyncio

from websockets.asyncio.client import connect

from tertulia.models.scripted.script import say
from tertulia.server.http.server import listen
from tertulia.server.web_app import serve_web_app
from tertulia.session.settings.settings import Settings
from tests.server.client import model
from tests.server.served import TOKEN, Talker


async def test_at_its_end_clients_hear_how_everything_ended_and_then_the_connection_ends() -> None:
    """H7, X-35: a running message is answered, its last event comes before."""
    stop = asyncio.Event()
    settings = Settings(model=model([say("late", gate=asyncio.Event())]))
    with listen(0) as listening:
        serving = asyncio.ensure_future(serve_web_app(settings, listening, TOKEN, stop))
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}/ws"
        async with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
            talker = Talker(socket)
            await talker.call("initialize")
            running = await talker.send("conversation/message", conversation_id="root", text="go")
            await talker.event("task_started")
            stop.set()
            assert (await talker.answer(running))["result"]["status"] == "interrupted"
            assert any(event["type"] == "turn_aborted" for event in talker.events)
            async with asyncio.timeout(20):
                await socket.wait_closed()
            await serving
            assert socket.close_code == 1012


async def test_it_ends_where_nobody_ever_came() -> None:
    stop = asyncio.Event()
    stop.set()
    with listen(0) as listening:
        async with asyncio.timeout(20):
            await serve_web_app(Settings(model=model()), listening, TOKEN, stop)
