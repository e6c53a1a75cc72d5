"""One session that does everything once, and writes down what it was told as soon as it was told it.

What is acknowledged stands in FOLDER/told, a JSON object a line; what the tools did stands in FOLDER/effects. Both are
in the page cache before the next step: no death of the process takes them away.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import tertulia
from tertulia.errors import StorageError
from tertulia.session.operations import call as operate
from tertulia.testing import ScriptedModel, ScriptedRequest, call, say

T = TypeVar("T")
LONG = "x" * 1_500


class Notes:
    """Lines in a file. Opened once and not written with `write`: those calls may be made to fail or to kill."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, line: str) -> None:
        os.writev(self._fd, [line.encode() + b"\n"])


def respond(request: ScriptedRequest) -> Any:
    """The model: it answers what it was asked last, in every life of the session alike."""
    last = request.last_input
    match last.split(" ")[0]:
        case "two":
            return say("", call("act", {"what": f"{last} a"}), call("act", {"what": f"{last} b"}))
        case "tell":
            return call("conv_send", {"conversation_id": last.split(" ")[1], "text": f"act {last}"})
        case "run":
            return call("shell", {"command": ["sh", "-c", "exit 0"]})
        case "act":
            return call("act", {"what": last})
        case "pause":
            return call("pause", {"what": last})
        case "plan":
            return call("update_plan", {"plan": [{"step": "look", "status": "in_progress"}]})
        case "make":
            return call("conv_create", {"user_instruction": f"act {last}", "title": "made"})
        case _:
            return f"answer to {last[:60]}"


class Life:
    """The session, its tools and its listener."""

    def __init__(self, folder: Path) -> None:
        self._told = Notes(folder / "told")
        self._effects = Notes(folder / "effects")
        self.running = asyncio.Event()
        self.go = asyncio.Event()
        self.model = ScriptedModel([respond], repeat=True)

    def settings(self, **fields: Any) -> tertulia.Settings:
        @tertulia.tool
        def act(what: str) -> str:
            """Have an effect that cannot be taken back, in a thread."""
            self._effects.add(what)
            return f"did {what}"

        @tertulia.tool
        async def pause(what: str) -> str:
            """Have an effect, and wait for somebody."""
            self._effects.add(what)
            self.running.set()
            await self.go.wait()
            return f"did {what}"

        return tertulia.Settings(
            model=self.model,
            tools=[act, pause],
            sandbox="danger-full-access",
            approval_policy="untrusted",
            **fields,
        )

    def tell(self, **what: Any) -> None:
        self._told.add(json.dumps(what))

    async def listen(self, session: tertulia.Session) -> None:
        async for event in session.events(after=0, attend=True):
            if event.seq is not None:
                self.tell(event=msgspec.to_builtins(event))
            if event.type == "approval_request":
                await session.approvals.resolve(event.data["approval_id"], "allow", scope="session")

    async def say(self, there: tertulia.Conversation, text: str) -> None:
        """A message whose id is the beginning of its text. If it fails it is the disk's fault, and that is told."""
        reply = await there.message(text, message_id=text[:60])
        if reply.error is not None and reply.error.code == StorageError.code:
            self.tell(failed=text, because=reply.error.message)
            return
        assert reply.status == "completed", reply
        self.tell(reply=text, conversation=there.id, text=reply.text, calls=reply.tool_calls)

    async def steered(self, there: tertulia.Conversation) -> None:
        task = asyncio.ensure_future(self.say(there, "pause 4"))
        await self.running.wait()
        await there.steer("be quick 4")
        self.tell(steered="be quick 4", conversation=there.id)
        self.go.set()
        await task

    async def certainly(self, act: Callable[[], Awaitable[T]]) -> T:
        """What is refused by the disk is tried again: it may be better by then."""
        try:
            return await act()
        except StorageError as error:
            self.tell(failed="", because=error.message)
        return await act()

    async def turn(self, session: tertulia.Session) -> None:
        """The part that is killed at every call of its storage."""
        root = session.root
        wanted = {"title": "child", "user_instructions": "be brief", "sandbox": "read-only"}
        child = await self.certainly(lambda: session.open(**wanted))
        self.tell(opened=child.id, user_instructions="be brief", sandbox="read-only")
        await self.say(root, "two 2")
        await self.say(root, f"tell {child.id} 3")

    async def rest(self, session: tertulia.Session) -> None:
        root, child = session.root, session.conversations()[1]
        await self.say(root, "run 1")
        await self.steered(root)
        await self.say(root, "plan 5")
        await child.set_context(user_instructions="be long", title="grown")
        self.tell(context=child.id, user_instructions="be long")
        await self.say(root, "make 6")
        for number in range(3):
            await self.say(root, f"round {number} {LONG}")
        if (await root.compact()).compacted:
            self.tell(compacted=root.id)
        await self.say(root, "after 7")
        fork = await root.fork()
        self.tell(forked=fork.id, items=len(session.parts.conversations.find(fork.id).history.snapshot()))
        await self.say(fork, "act 8")
        await session.conversations()[2].close()
        host = tertulia.Host(self.settings())
        params = {"conversation_id": "root", "text": "act 9", "message_id": "act 9", "detach": True}
        done = await operate(host, session, "conversation/message", params)
        self.tell(detached=done.answer["task_id"])
        await self.say(child, "act 10")


async def live(life: Life, part: str, durability: Any) -> None:
    """From its beginning to its end, if it comes to that."""
    begin = AsyncExitStack()
    try:
        session = await begin.enter_async_context(tertulia.Session.start(life.settings(durability=durability)))
    except StorageError as error:
        life.tell(failed="", because=error.message)
        return
    async with begin:
        life.tell(session=session.id, root=session.root.id)
        listening = asyncio.ensure_future(life.listen(session))
        with suppress(StorageError) if part == "turn" else nullcontext():
            await life.turn(session)
        if part == "whole":
            await life.rest(session)
    await listening
    life.tell(closed=True)
