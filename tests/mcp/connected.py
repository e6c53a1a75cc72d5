"""Connections for tests: to real processes, in the name of conversations that remember what they were asked."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tertulia.errors import TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.mcp.client.connection import SdkConnection, connect
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.login.browser import BrowserLogin
from tertulia.mcp.login.login_store import LoginStore
from tertulia.mcp.server_connection import (
    Caller,
    CallResult,
    ConnectionServices,
    Elicitation,
    ElicitationResult,
    SamplingRequest,
    SamplingResult,
)
from tertulia.protocol.ids import ConversationId
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S


class Asked:
    """A conversation that says yes to everything, unless told otherwise, and notes it."""

    def __init__(self, name: str = "c1", *, says: ElicitationResult | TertuliaError | None = None) -> None:
        self.questions: list[Elicitation | SamplingRequest] = []
        self.being_asked, self.may_answer, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self._says = says or ElicitationResult("accept", {"ok": True})
        self.caller = Caller(ConversationId(name), self._elicit, self._sample)

    async def _wait(self, request: Elicitation | SamplingRequest) -> None:
        self.questions.append(request)
        self.being_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.let_go.set()
            raise
        if isinstance(self._says, TertuliaError):
            raise self._says

    async def _elicit(self, request: Elicitation) -> ElicitationResult:
        await self._wait(request)
        assert isinstance(self._says, ElicitationResult)
        return self._says

    async def _sample(self, request: SamplingRequest) -> SamplingResult:
        await self._wait(request)
        return SamplingResult(f"to {request.messages[0][1]}", "model")


class Reach:
    """What a connection needs, and all connections of a test."""

    def __init__(self, sandbox: Sandbox, nursery: Nursery) -> None:
        self.sandbox, self.nursery = sandbox, nursery
        self.logins: LoginStore | None = None
        self.browser: BrowserLogin | None = None
        self.changes = 0
        self.changed = asyncio.Event()
        self.links: list[SdkConnection] = []

    async def __call__(
        self, reached: tuple[ServerDefinition, Launch], *, within_s: float = DEADLINE_S
    ) -> SdkConnection:
        """Connect."""
        definition, launch = reached
        async with asyncio.timeout(within_s):
            services = ConnectionServices(
                self.sandbox, self.nursery.start, SystemClock(), self._note, self.logins, self.browser
            )
            link = await connect(definition, launch, services)
        self.links.append(link)
        return link

    def _note(self) -> None:
        self.changes += 1
        self.changed.set()


@asynccontextmanager
async def reaching() -> AsyncIterator[Reach]:
    """Nothing is left running behind it, and no task."""
    reach = Reach(Sandbox(clock=SystemClock()), Nursery())
    try:
        yield reach
        await asyncio.gather(*(link.close() for link in reach.links))
        await until(lambda: not len(reach.nursery))
    finally:
        await reach.nursery.close(DEADLINE_S)
        await reach.sandbox.close()


async def call(
    link: SdkConnection,
    tool: str,
    asker: Asked | None = None,
    *,
    within_s: float = DEADLINE_S,
    on_progress: Any = None,
    **arguments: Any,
) -> CallResult:
    """One call, by default of a conversation that the server asks nothing."""
    caller = (asker or Asked()).caller
    return await link.call(tool, arguments, caller, timeout_s=within_s, on_progress=on_progress or (lambda *_: None))


async def until(happened: Callable[[], object]) -> None:
    """Wait for something that nobody tells us of; fails when it does not come."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()

    def look() -> None:
        if happened():
            came.set()
        else:
            loop.call_later(0.005, look)

    look()
    await asyncio.wait_for(came.wait(), DEADLINE_S)


def recorded(file: Path) -> list[str]:
    """What a fake wrote down so far."""
    return file.read_text().splitlines() if file.exists() else []


@contextmanager
def serving(argv: tuple[str, ...]) -> Iterator[int]:
    """A program that prints its port; the port."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()
