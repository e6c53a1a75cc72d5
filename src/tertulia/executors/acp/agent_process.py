"""One running ACP agent: starts its connection and its session, and holds the task that it does now.

Started by the executor, for one conversation, and kept from task to task. The SDK speaks JSON-RPC; the handlers are
ours, because its own client drops what it cannot read and only logs what it cannot do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tertulia.errors import InvalidParamsError, MethodNotFoundError, ModelError, NotFoundError, TertuliaError
from tertulia.executors.acp.pipe import AcpPipe
from tertulia.executors.acp.task import AcpTask
from tertulia.executors.json_fields import read_native_id, read_table, read_text
from tertulia.package_loading import PackageError, load_package
from tertulia.sandbox.runner import Command, CommandRunner, RunningCommand
from tertulia.version import __version__

if TYPE_CHECKING:
    from acp.connection import Connection


PROTOCOL = 1
START_S = 60.0
"""For the program to say who it is, and again to begin a session."""
GRACE_S = 2.0
"""For a program without a task, between being asked to leave and being killed."""

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
_AUTH = -32000
_NUMBERS: Mapping[type[TertuliaError], int] = {
    InvalidParamsError: -32602,
    MethodNotFoundError: -32601,
    NotFoundError: -32002,
}
_OTHER = -32603


def load_sdk() -> None:
    """Takes most of a second the first time, so do it in a thread. ModelError where the package is not there."""
    try:
        load_package("ACP agents need", "acp", "acp", "acp.connection")
    except PackageError as error:
        raise ModelError(str(error)) from error


class AcpProcess:
    """The program, and what it said that it can do. Raises ModelError, with its own words where it had any."""

    def __init__(self, name: str, runner: CommandRunner, spawn: Spawn, *, start_s: float = START_S) -> None:
        self.name = name
        self.pipe = AcpPipe()
        self.session: str | None = None
        """The agent's own id of the session."""
        self.told: str | None = None
        """The system part that it was given in that session."""
        self._runner, self._spawn, self._start_s = runner, spawn, start_s
        self._running: RunningCommand | None = None
        self._connection: Connection | None = None
        self._can: dict[str, Any] | None = None
        self._task: AcpTask | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has said who it is."""
        return self._can is not None

    @property
    def is_alive(self) -> bool:
        """Whether it can be given a task."""
        return self.is_ready and self._connection is not None and not self.pipe.is_over

    @property
    def _abilities(self) -> dict[str, Any]:
        return self._can or {}

    async def start(self, command: Command) -> None:
        """Have it run, and say who we are."""
        from acp.connection import Connection

        self._running = await self.pipe.start(self._runner, command)
        self._spawn(self.pipe.watch(), f"acp {self.name}")
        self._connection = Connection(self._serve, self.pipe)
        answer = await self._ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
                "clientInfo": {"name": "tertulia", "version": __version__},
            },
        )
        version = answer.get("protocolVersion")
        if version != PROTOCOL:
            raise ModelError(f"{self.name} speaks version {version!r:.40} of ACP, and we speak {PROTOCOL}")
        self._can = read_table(answer.get("agentCapabilities"))

    async def begin(self, params: Mapping[str, Any]) -> str:
        """Begin a session with these parameters of session/new; its id."""
        await self._leave()
        answer = await self._ask("session/new", dict(params))
        session_id = read_native_id(answer.get("sessionId"))
        if session_id is None:
            raise ModelError(f"{self.name} began a session without an id")
        self.session = session_id
        return session_id

    async def take_up(self, session: str, params: Mapping[str, Any]) -> None:
        """Resume a session of an earlier process; ModelError where the agent does not remember it, or cannot."""
        offered = read_table(self._abilities.get("sessionCapabilities"))
        method = (
            "session/resume" if offered.get("resume") is not None
            else "session/load" if self._abilities.get("loadSession") is True
            else None
        )  # fmt: skip
        if method is None:
            raise ModelError(f"{self.name} cannot go on with an earlier session")
        # What it repeats of that session meanwhile is dropped: there is no task.
        await self._ask(method, {**params, "sessionId": session})
        self.session = session

    async def set_mode(self, mode: str) -> None:
        """The mode of its session that holds it to our rights."""
        await self._ask("session/set_mode", {"sessionId": self.session, "modeId": mode})

    async def work(self, task: AcpTask, prompt: str) -> None:
        """Do one task; its end is told to the task. Runs beside the reader of the steps."""
        self._task, task.pipe = task, self.pipe
        self.pipe.begin_task()
        blocks = [{"type": "text", "text": prompt}]
        try:
            answer = await self._ask("session/prompt", {"sessionId": self.session, "prompt": blocks}, None)
            task.end(answer)
        except TertuliaError as error:
            task.fail(error)
        finally:
            self._task = None

    async def cancel(self) -> None:
        """Ask it to stop what it does. One that does not read is waited for until the caller gives up."""
        connection = self._connection
        if connection is not None and self.session is not None and not self.pipe.is_over:
            # One that takes no more input is about to end, and its end says more.
            with suppress(ConnectionError):
                await connection.send_notification("session/cancel", {"sessionId": self.session})

    async def close(self, grace_s: float = GRACE_S) -> None:
        """End it: asked by the end of its input, then told, then killed. Again is nothing."""
        running, connection = self._running, self._connection
        self._connection = None
        try:
            if connection is not None:
                await connection.close()
            if running is not None and running.finished is None and grace_s:
                running.close_stdin()
                if await running.wait(grace_s / 2) is None:
                    running.terminate()
                    await running.wait(grace_s / 2)
        finally:
            if running is not None:
                await running.kill()

    # ── the two directions ───────────────────────────────────────────────────────────────────────────────────────

    async def _leave(self) -> None:
        """Close the session before this one."""
        session, self.session = self.session, None
        if session is not None and read_table(self._abilities.get("sessionCapabilities")).get("close") is not None:
            await self._ask("session/close", {"sessionId": session})

    async def _ask(self, method: str, params: dict[str, Any], patience_s: float | None = -1.0) -> dict[str, Any]:
        from acp.exceptions import RequestError

        assert self._connection is not None
        patience_s = self._start_s if patience_s == -1.0 else patience_s
        try:
            async with asyncio.timeout(patience_s):
                return read_table(await self._connection.send_request(method, params))
        except RequestError as error:
            raise ModelError(_refusal(error), log_in=error.code == _AUTH) from None
        except ConnectionError:
            raise ModelError("") from None
        except TimeoutError:
            raise ModelError(f"{self.name} did not answer {method} within {patience_s:g} s") from None

    async def _serve(self, method: str, params: Any, is_notification: bool) -> Any:
        from acp.exceptions import RequestError

        task, message = self._task, read_table(params)
        if task is None or message.get("sessionId") != self.session:
            if is_notification:
                return None
            raise RequestError(_OTHER, "there is no task in this session")
        if is_notification:
            if method == "session/update":
                task.hear(read_table(message.get("update")))
            return None
        try:
            return await task.serve(method, message)
        except TertuliaError as error:
            raise RequestError(_NUMBERS.get(type(error), _OTHER), error.message) from None


def _refusal(error: Any) -> str:
    """What the agent said, with the particulars that some put beside it."""
    data = read_table(error.data)
    more = read_text(data.get("details")) or read_text(data.get("message")) or read_text(error.data)
    message = read_text(str(error)) or "it refused"
    return f"{message}: {more}" if more and more not in message else message
