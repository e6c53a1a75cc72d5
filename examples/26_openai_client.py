"""OpenAI's own client talks to a conversation: it sends the whole history, and only what is new is submitted."""

import asyncio
import json
import sys
from pathlib import Path

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

SERVE = [sys.executable, "-m", "tertulia", "serve", "--port", "0", "-m", "scripted/tour", "-s", "read-only"]
ROOT = "conversation:root"


async def chat(client: AsyncOpenAI) -> None:
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    first = await client.chat.completions.create(model=ROOT, messages=history)
    answer = first.choices[0].message.content
    print(answer)

    history.append({"role": "assistant", "content": answer})
    history.append({"role": "user", "content": "And what else?"})
    stream = await client.chat.completions.create(model=ROOT, messages=history, stream=True)
    words = [chunk.choices[0].delta.content or "" async for chunk in stream]
    print("".join(words))

    assert [model.id async for model in client.models.list()] == [ROOT]
    assert answer
    assert len(words) > 2


async def main() -> None:
    server = await asyncio.create_subprocess_exec(*SERVE, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        where = json.loads(await server.stdout.readline())
        token = await asyncio.to_thread(Path(where["token_file"]).read_text)
        async with AsyncOpenAI(base_url=where["url"] + "/v1", api_key=token) as client:
            await chat(client)
    finally:
        server.terminate()
    assert await server.wait() == 0


asyncio.run(main())
