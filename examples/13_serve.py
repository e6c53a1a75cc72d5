"""A server for many clients: what one began goes on when it is gone, and the next one goes on with it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp

SERVE = [sys.executable, "-m", "tertulia", "serve", "--port", "0", "-m", "scripted/tour", "-s", "read-only"]


class Client:
    """Asks, and keeps the events that come before the answer."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket, self.events = socket, list[Any]()

    async def call(self, method: str, **params: Any) -> Any:
        await self.socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        while (message := await self.socket.receive_json()).get("method") == "event":
            self.events.append(message["params"])
        return message["result"]


async def use(where: dict[str, str]) -> None:
    headers = {"Authorization": "Bearer " + await asyncio.to_thread(Path(where["token_file"]).read_text)}
    async with aiohttp.ClientSession(where["url"], headers=headers) as web:
        async with web.ws_connect("/ws") as socket:
            first = Client(socket)
            session = (await first.call("initialize", client={"name": "first"}))["session_id"]
            task = await first.call("conversation/message", conversation_id="root", text="Hello", detach=True)
        last_seen = max((event["seq"] or 0 for event in first.events), default=0)
        async with web.ws_connect("/ws") as socket:
            second = Client(socket)
            await second.call("initialize", client={"name": "second"}, session_id=session)
            await second.call("events/subscribe", after_seq=last_seen)
            second.events.clear()  # From the answer on come all events after `last_seen`, each once.
            while (done := await second.call("task/get", task_id=task["task_id"]))["status"] in ("queued", "running"):
                pass
    print(done["last_assistant_message"])
    numbers = [event["seq"] for event in second.events if event["seq"]]
    assert done["status"] == "completed"
    assert numbers == list(range(last_seen + 1, last_seen + 1 + len(numbers))), "nothing is missed"


async def main() -> None:
    server = await asyncio.create_subprocess_exec(*SERVE, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        await use(json.loads(await server.stdout.readline()))
    finally:
        server.terminate()
    assert await server.wait() == 0


asyncio.run(main())
