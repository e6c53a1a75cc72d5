"""Another agent's protocol, A2A: it reads the card, sends a task and asks for it again."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp

SERVE = [sys.executable, "-m", "tertulia", "serve", "--port", "0", "-m", "scripted/tour", "-s", "read-only"]


async def call(client: aiohttp.ClientSession, address: str, method: str, params: dict[str, Any]) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with client.post(address, json=body) as answer:
        return (await answer.json())["result"]


async def converse(client: aiohttp.ClientSession) -> None:
    async with client.get("/.well-known/agent-card.json") as answer:
        card = await answer.json()
    address = card["supportedInterfaces"][0]["url"]
    print(card["name"], "at", address)

    message: dict[str, Any] = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    task = (await call(client, address, "SendMessage", {"message": message}))["task"]
    print(task["artifacts"][0]["parts"][0]["text"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    # A context is a conversation: the next task of it knows what was said.
    message |= {"messageId": "2", "contextId": task["contextId"]}
    second = (await call(client, address, "SendMessage", {"message": message}))["task"]
    again = await call(client, address, "GetTask", {"id": second["id"], "historyLength": 1})
    assert again["contextId"] == task["contextId"]
    assert len(again["history"]) == 1


async def main() -> None:
    server = await asyncio.create_subprocess_exec(*SERVE, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        where = json.loads(await server.stdout.readline())
        token = await asyncio.to_thread(Path(where["token_file"]).read_text)
        headers = {"authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(where["url"], headers=headers) as client:
            await converse(client)
    finally:
        server.terminate()
    assert await server.wait() == 0


asyncio.run(main())
