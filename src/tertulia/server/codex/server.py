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
        own = self._factory.host.settings.model
        named = [own] if isinstance(own, str) else []
        models = [_model(name, first=not at) for at, name in enumerate(dict.fromkeys([*named, *self._factory.models]))]
        return MethodResult({"data": models, "nextCursor": None})


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
    "turn/start": SurfaceMethod(p.StartTurn, CodexServer.start_turn),
    "turn/steer": SurfaceMethod(p.SteerTurn, CodexServer.steer_turn),
    "turn/interrupt": SurfaceMethod(p.InterruptTurn, CodexServer.interrupt_turn),
    "model/list": SurfaceMethod(p.CodexNoParams, CodexServer.models),
}
"""All that are answered, but for `initialize` and `initialized`."""


def _model(name: str, *, first: bool) -> dict[str, Any]:
    return {
        "id": name,
        "model": name,
        "displayName": name,
        "description": "",
        "hidden": False,
        "isDefault": first,
        "supportedReasoningEfforts": [],
        "defaultReasoningEffort": "medium",
        "inputModalities": ["text", "image"],
    }
