"""One running ACP agent: starts its program, its connection and its session, and holds its current task.

The executor starts it for one conversation and keeps it from task to task. The program runs below the sandbox's runner
like any command: when this process is killed, the program and its children are killed too. The SDK handles JSON-RPC
over an `AcpPipe`; the request handlers are ours, because the SDK's own client drops what it cannot read and only logs
what it cannot do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tertulia.errors import (
    InvalidParamsError,
    MethodNotFoundError,
    ModelError,
    NotFoundError,
    TertuliaError,
)
from tertulia.executors.acp.pipe import AcpPipe
from tertulia.executors.acp.task import AcpTask
from tertulia.executors.executor import GRACE_S, Spawn
from tertulia.executors.json_output import read_native_id, read_table, read_tables, read_text
from tertulia.executors.result_text import clip
from tertulia.package_loading import PackageError, load_package
from tertulia.sandbox.runner import Command, CommandRunner, RunningCommand
from tertulia.version import __version__

if TYPE_CHECKING:
    from acp.connection import Connection
    from acp.exceptions import RequestError

PROTOCOL = 1
_AUTH = -32000
_MAX_LOGIN, _MAX_LOGINS = 200, 5
"""The most characters of a way to log in, and the most ways, that an error shows."""
_NUMBERS: Mapping[type[TertuliaError], int] = {
    InvalidParamsError: -32602,
    MethodNotFoundError: -32601,
    NotFoundError: -32002,
}
_OTHER = -32603


def load_sdk() -> None:
    """Import the SDK. Takes most of a second the first time, so call it in a thread. ModelError where it is not
    installed.
    """
    try:
        load_package("ACP agents need", "acp", "acp", "acp.connection")
    except PackageError as error:
        raise ModelError(str(error)) from error


class AcpProcess:
    """The program with its connection and session. Raises ModelError, with the agent's own message if it sent one."""

    def __init__(self, name: str, runner: CommandRunner, spawn: Spawn, *, start_s: float) -> None:
        """`start_s`: seconds for the program to answer `initialize`, and again to start a session."""
        self.name = name
        self.pipe = AcpPipe()
        self.session: str | None = None
        """The agent's own id of its session."""
        self.system_text: str | None = None
        """The system part that the agent was given in that session."""
        self._runner, self._spawn, self._start_s = runner, spawn, start_s
        self._running: RunningCommand | None = None
        self._connection: Connection | None = None
        self._can: dict[str, Any] | None = None
        self._logins: list[str] = []
        """The ways to log in that it offers, in its own words."""
        self._task: AcpTask | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has answered `initialize`."""
        return self._can is not None

    @property
    def is_alive(self) -> bool:
        """Whether it can be given a task."""
        return self.is_ready and self._connection is not None and not self.pipe.is_over

    @property
    def _abilities(self) -> dict[str, Any]:
        return self._can or {}

    async def start(self, command: Command) -> None:
        """Start the program, and send `initialize`."""
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
        self._logins = [
            clip(name, _MAX_LOGIN)
            for name in map(_login_name, read_tables(answer.get("authMethods"))[:_MAX_LOGINS])
            if name
        ]
        self.pipe.printed = None

    async def begin(self, params: Mapping[str, Any]) -> str:
        """Start a session with these parameters of session/new; returns its id."""
        await self._leave()
        answer = await self._ask("session/new", dict(params))
        session_id = read_native_id(answer.get("sessionId"))
        if session_id is None:
            raise ModelError(f"{self.name} began a session without an id")
        self.session = session_id
        return session_id

    async def take_up(self, session: str, params: Mapping[str, Any]) -> None:
        """Resume a session of an earlier process; ModelError where the agent does not know it, or cannot resume."""
        offered = read_table(self._abilities.get("sessionCapabilities"))
        method = (
            "session/resume" if offered.get("resume") is not None
            else "session/load" if self._abilities.get("loadSession") is True
            else None
        )  # fmt: skip
        if method is None:
            raise ModelError(f"{self.name} cannot go on with an earlier session")
        # The messages that the agent repeats from that session are dropped: there is no task yet.
        await self._ask(method, {**params, "sessionId": session})
        self.session = session

    async def set_mode(self, mode: str) -> None:
        """Set the session mode that holds the agent to its rights."""
        await self._ask("session/set_mode", {"sessionId": self.session, "modeId": mode})

    async def work(self, task: AcpTask, prompt: str) -> None:
        """Run one task until the agent ends it. Runs beside the reader of the steps."""
        self._task, task.may_read = task, self.pipe.may_read
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
        """Ask the agent to stop its task. Waits, until the caller gives up, for an agent that does not read."""
        connection = self._connection
        if connection is not None and self.session is not None and not self.pipe.is_over:
            # An agent that takes no more input is about to exit, and its exit says more.
            with suppress(ConnectionError):
                await connection.send_notification("session/cancel", {"sessionId": self.session})

    async def close(self, grace_s: float = GRACE_S) -> None:
        """End the program: close its input, then SIGTERM, then SIGKILL. Calling it twice has no effect."""
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
        """Close the session that the agent has, where it supports that."""
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
            raise self._refused(error) from None
        except ConnectionError:
            raise ModelError("") from None
        except TimeoutError:
            raise ModelError(
                f"{self.name} did not answer {method} within {patience_s:g} s; "
                "a larger `start_timeout_s` in its table gives it more time"
            ) from None

    def _refused(self, error: RequestError) -> ModelError:
        if error.code != _AUTH:
            return ModelError(_refusal(error))
        offered = f" (it offers: {', '.join(self._logins)})" if self._logins else ""
        return ModelError(_refusal(error) + offered, log_in=True)

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


def _login_name(method: Mapping[str, Any]) -> str | None:
    name, description = read_text(method.get("name")), read_text(method.get("description"))
    return f"{name}: {description}" if name and description else name


def _refusal(error: Any) -> str:
    """The agent's error message, with the details that some agents put beside it."""
    data = read_table(error.data)
    more = read_text(data.get("details")) or read_text(data.get("message")) or read_text(error.data)
    message = read_text(str(error)) or "it refused"
    return f"{message}: {more}" if more and more not in message else message
