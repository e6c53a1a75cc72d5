"""A second client answers for a running session: over its socket, in lines of JSON, as any program of yours could."""

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import tertulia
from tertulia.server.sockets.session_sockets import reachable
from tertulia.testing import ScriptedModel, call


class Client:
    """A client that knows nothing but the protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.events = reader, writer, list[Any]()

    async def call(self, method: str, **params: Any) -> Any:
        self.writer.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        while "id" not in (message := json.loads(await self.reader.readline())):
            self.events.append(message["params"])
        return message["result"]

    async def event(self, kind: str) -> Any:
        while not (found := [event["data"] for event in self.events if event["type"] == kind]):
            self.events.append(json.loads(await self.reader.readline())["params"])
        return found[0]


async def answer(client: Client, place: Path) -> str:
    request = await client.event("approval_request")
    print("asked:", request["title"])
    assert not (place / "made").exists()
    await client.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
    return str((await client.event("approval_resolved"))["by"]["name"])


async def main(place: Path) -> None:
    model = ScriptedModel([call("shell", {"command": ["touch", "made"]}), "Made."])
    settings = tertulia.Settings(model=model, cwd=str(place), approval_policy="untrusted", session_sockets=True)
    # `tertulia exec`, the terminal and `app-server` open a socket by themselves; a program of yours does it so.
    async with reachable(tertulia.Session.start(settings)) as session:
        sockets = os.open(Path(os.environ["TERTULIA_HOME"]) / "sockets", os.O_DIRECTORY)
        # The name of a socket has at most 107 bytes: by the folder's number it is short wherever the folder is.
        client = Client(*await asyncio.open_unix_connection(f"/proc/self/fd/{sockets}/{session.id}.sock"))
        os.close(sockets)
        await client.call("initialize", client={"name": "desk", "version": "1"}, attend=True)
        reply, who = await asyncio.gather(session.root.message("Make it."), answer(client, place))
        client.writer.close()
    print(f"allowed by {who}: {reply.text}")
    assert (reply.text, who, (place / "made").exists()) == ("Made.", "desk 1", True)


with tempfile.TemporaryDirectory() as folder:
    os.environ.setdefault("TERTULIA_HOME", folder + "/home")
    asyncio.run(main(Path(folder)))
