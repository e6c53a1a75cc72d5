"""A web front end's protocol, AG-UI: a run is sent, and what the conversation does comes back as events."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp

SERVE = [sys.executable, "-m", "tertulia", "serve", "--port", "0", "-m", "scripted/tour", "-s", "read-only"]


async def run(client: aiohttp.ClientSession, messages: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    body = {"threadId": "thread-1", "runId": f"run-{number}", "messages": messages}
    async with client.post("/ag-ui", json=body) as answer:
        lines = [line async for line in answer.content if line.startswith(b"data: ")]
    return [json.loads(line[len(b"data: ") :]) for line in lines]


async def converse(client: aiohttp.ClientSession) -> None:
    messages: list[dict[str, Any]] = [{"id": "1", "role": "user", "content": "Hello"}]
    events = await run(client, messages, 1)
    answer = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    print(answer)
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["outcome"] == {"type": "success"}

    # The front end sends everything that was said; only what is new becomes a message.
    messages.append({"id": "2", "role": "assistant", "content": answer})
    messages.append({"id": "3", "role": "user", "content": "And what else?"})
    events = await run(client, messages, 2)
    print(*(event["type"] for event in events))
    assert events[-1]["type"] == "RUN_FINISHED"


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
