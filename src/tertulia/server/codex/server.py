"""Tertulia in the place of `codex app-server`, for one client: Codex's methods, and the threads that it opened.

Experimental, and the part of Codex that clients use: what is not in the table below is answered by its name. Thin: what
a method does is done by the Host, a Session and its root conversation.
"""

from __future__ import annotations

import sys
from typing import Any

from tertulia.errors import (
    ClosedError,
    InvalidParamsError,
    NotFoundError,
    NotRunningError,
)
from tertulia.server.client_surface import (
    ERROR_NUMBERS,
    OTHER_ERROR_NUMBER,
    ClientSurface,
    SurfaceMethod,
    SurfaceRefusals,
)
from tertulia.server.codex import params as p
from tertulia.server.codex.goal_requests import GoalRequests
from tertulia.server.codex.goals import SetGoal
from tertulia.server.codex.models import model_entries
from tertulia.server.codex.thread_pages import ListItems, ListTurns
from tertulia.server.codex.thread_reading import ThreadReading
from tertulia.server.codex.threads import CodexThreads
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.request_runner import MethodResult, RpcDialect
from tertulia.server.session_factory import SessionFactory
from tertulia.version import __version__

CODEX_VERSION = "0.166.0"
"""The version of Codex whose protocol this is. Clients look for it where Codex has its own, and refuse older ones."""

_CLIENT_ERRORS = (InvalidParamsError, NotFoundError, ClosedError, NotRunningError)
CODEX_DIALECT = RpcDialect(
    # Whatever the client did wrong is an invalid request to Codex.
    numbers={**ERROR_NUMBERS, **dict.fromkeys(_CLIENT_ERRORS, -32600)},
    other_number=OTHER_ERROR_NUMBER,
    counted_apart=("turn/interrupt",),
    bare=True,
)


class CodexServer(ClientSurface):
    """One client, from its `initialize` to its end."""

    refusals = SurfaceRefusals("Not initialized", "Already initialized", "`{}` is not supported here")
    ignored = ("initialized",)

    def __init__(self, factory: SessionFactory, sink: Sink) -> None:
        super().__init__(factory, sink, CODEX_DIALECT, METHODS)
        self.threads = CodexThreads(factory, self.peer, sink)
        self.reading = ThreadReading(self.threads)
        self.goals = GoalRequests(self.threads)

    async def _close_sessions(self) -> None:
        await self.threads.close()

    def input_ended(self) -> None:
        """Turns go on, but no request to the client will be answered."""

    async def _run_method(self, method: SurfaceMethod, params: dict[str, Any]) -> MethodResult:
        return await method.run(self, p.read_params(method.reads, params))

    def _initialize(self, params: dict[str, Any]) -> MethodResult:
        request = p.read_params(p.CodexInitialize, params)
        able, client = request.capabilities or p.CodexCapabilities(), request.client_info
        self.threads.muted = frozenset(able.opt_out_notification_methods or ())
        return MethodResult(
            {
                "userAgent": f"tertulia/{CODEX_VERSION} (tertulia {__version__}) unknown "
                f"({client.name}; {client.version})",
                "codexHome": str(self._factory.environment.home),
                "platformFamily": "unix",
                "platformOs": "macos" if sys.platform == "darwin" else sys.platform,
            }
        )

    async def compact(self, request: p.ThreadParams) -> MethodResult:
        """`thread/compact/start`: answered at once, and told as a turn."""
        thread = self.threads.find(request.thread_id)
        return MethodResult({}, thread.compact)

    async def start_turn(self, request: p.StartTurn) -> MethodResult:
        """`turn/start`: send a message, which begins a turn."""
        return MethodResult(await self.threads.find(request.thread_id).start(request))

    async def steer_turn(self, request: p.SteerTurn) -> MethodResult:
        """`turn/steer`: add a message to the turn that runs."""
        return MethodResult(await self.threads.find(request.thread_id).steer(request))

    async def interrupt_turn(self, request: p.InterruptTurn) -> MethodResult:
        """`turn/interrupt`: stop the turn that runs."""
        self.threads.find(request.thread_id).interrupt(request.turn_id)
        return MethodResult({})

    async def models(self, request: p.CodexNoParams) -> MethodResult:
        """`model/list`: those that could answer without anything being set up, the settings' own first."""
        settings = self._factory.host.settings
        own = settings.model if isinstance(settings.model, str) else None
        models = model_entries(own, self._factory.models, settings.reasoning_effort)
        return MethodResult({"data": models, "nextCursor": None})

    async def account(self, request: p.CodexNoParams) -> MethodResult:
        """`account/read`: there are no accounts here, and no model needs one."""
        return MethodResult({"account": None, "requiresOpenaiAuth": False})

    async def reload_servers(self, request: p.CodexNoParams) -> MethodResult:
        """`config/mcpServer/reload`: have the MCP servers of all open threads list their tools again."""
        for thread in self.threads.opened:
            await thread.session.mcp.refresh()
        return MethodResult({})


METHODS: dict[str, SurfaceMethod] = {
    "thread/start": SurfaceMethod(p.StartThread, lambda server, request: server.threads.start(request)),
    "thread/resume": SurfaceMethod(p.ResumeThread, lambda server, request: server.threads.resume(request)),
    "thread/fork": SurfaceMethod(p.ForkThread, lambda server, request: server.threads.fork(request)),
    "thread/list": SurfaceMethod(p.ListThreads, lambda server, request: server.threads.list(request)),
    "thread/loaded/list": SurfaceMethod(p.CodexNoParams, lambda server, request: server.threads.loaded(request)),
    "thread/read": SurfaceMethod(p.ReadThread, lambda server, request: server.threads.read(request)),
    "thread/archive": SurfaceMethod(p.ThreadParams, lambda server, request: server.threads.archive(request)),
    "thread/unarchive": SurfaceMethod(p.ThreadParams, lambda server, request: server.threads.unarchive(request)),
    "thread/compact/start": SurfaceMethod(p.ThreadParams, CodexServer.compact),
    "thread/name/set": SurfaceMethod(p.NameThread, lambda server, request: server.threads.name(request)),
    "thread/delete": SurfaceMethod(p.ThreadParams, lambda server, request: server.threads.delete(request)),
    "thread/unsubscribe": SurfaceMethod(p.ThreadParams, lambda server, request: server.threads.unsubscribe(request)),
    "thread/turns/list": SurfaceMethod(ListTurns, lambda server, request: server.reading.turns(request)),
    "thread/items/list": SurfaceMethod(ListItems, lambda server, request: server.reading.items(request)),
    "thread/goal/set": SurfaceMethod(SetGoal, lambda server, request: server.goals.set(request)),
    "thread/goal/get": SurfaceMethod(p.ThreadParams, lambda server, request: server.goals.get(request)),
    "thread/goal/clear": SurfaceMethod(p.ThreadParams, lambda server, request: server.goals.clear(request)),
    "turn/start": SurfaceMethod(p.StartTurn, CodexServer.start_turn),
    "turn/steer": SurfaceMethod(p.SteerTurn, CodexServer.steer_turn),
    "turn/interrupt": SurfaceMethod(p.InterruptTurn, CodexServer.interrupt_turn),
    "model/list": SurfaceMethod(p.CodexNoParams, CodexServer.models),
    "skills/list": SurfaceMethod(p.ListSkills, lambda server, request: server.reading.skills(request)),
    "account/read": SurfaceMethod(p.CodexNoParams, CodexServer.account),
    "config/mcpServer/reload": SurfaceMethod(p.CodexNoParams, CodexServer.reload_servers),
}
"""All that are answered, but for `initialize` and `initialized`."""
