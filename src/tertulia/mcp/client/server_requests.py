"""Answers the requests of a server: elicitation, sampling, roots. Each goes to the caller whose call caused it.

Before protocol version 2026-07-28 a request of the server does not say which call caused it. After the first such
request, calls of two conversations no longer overlap on the connection (`CallAttribution`), so that only one
conversation can be meant.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tertulia.errors import TertuliaError
from tertulia.mcp.client.secret_scrubber import SecretScrubber
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.server_connection import (
    Caller,
    Elicitation,
    ElicitationResult,
    OnProgress,
    SamplingRequest,
    Spawn,
)

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client.session import ClientRequestContext

T = TypeVar("T")
_log = logging.getLogger(__name__)
_current: ContextVar[CallInProgress | None] = ContextVar("mcp_call", default=None)
MAX_MESSAGES = 256
MAX_PAGES = 8
MAX_ASKS = 64
"""Questions during one call, whose time limit is suspended meanwhile. Further ones are refused."""
MAX_TEXT = 1 << 20
_REFUSED = -1
"""The code that the protocol proposes where the user refuses."""
_NO_CALL = "it is not known which call this belongs to"


def clear_current_call() -> None:
    """What follows in this task belongs to no call."""
    _current.set(None)


class CallInProgress:
    """One call in progress, and the questions that its server asks meanwhile."""

    __slots__ = ("_left_s", "_limit", "_questions", "asks", "caller", "on_progress", "over")

    def __init__(self, caller: Caller, on_progress: OnProgress, limit: asyncio.Timeout) -> None:
        self.caller, self.on_progress = caller, on_progress
        self.over = False
        self.asks = 0
        """How many questions its server has asked."""
        self._limit = limit
        self._left_s: float | None = None
        self._questions: set[asyncio.Task[object]] = set()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress that the server reports; dropped when the call is over."""
        if not self.over:
            self.on_progress(progress, total, message)

    async def wait_for(self, task: asyncio.Task[object]) -> None:
        """Wait for the answer to a question while the call lasts; meanwhile the call's time limit is suspended."""
        loop = asyncio.get_running_loop()
        if not self._questions and not self._limit.expired() and (when := self._limit.when()) is not None:
            self._left_s = when - loop.time()
            self._limit.reschedule(None)
        self._questions.add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._questions.discard(task)
            if not self._questions and not self.over and not self._limit.expired() and self._left_s is not None:
                self._limit.reschedule(loop.time() + self._left_s)

    def end(self) -> None:
        """The call is over: questions in progress are cancelled."""
        self.over = True
        for task in self._questions:
            task.cancel()


class CallAttribution:
    """The calls in progress on one connection."""

    __slots__ = ("_exclusive", "_running", "_waiting")

    def __init__(self) -> None:
        self._exclusive = False
        self._running: list[CallInProgress] = []
        self._waiting: deque[tuple[CallInProgress, asyncio.Future[None]]] = deque()

    async def begin(self, call: CallInProgress) -> None:
        """Wait until it may run; from then on, requests of the server in this task belong to it."""
        if self._waiting or not self._fits(call):
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((call, ready))
            try:
                await ready
            except asyncio.CancelledError:
                self._leave_queue(call, ready)
                raise
        else:
            self._running.append(call)
        _current.set(call)

    def end(self, call: CallInProgress) -> None:
        """The call is over, whatever its outcome."""
        call.end()
        clear_current_call()
        if call in self._running:
            self._running.remove(call)
        self._admit()

    def concerned(self) -> CallInProgress | None:
        """The call that the server's request belongs to; None where there is none or it cannot be known."""
        call = _current.get()
        if call is not None:
            return call if call in self._running else None
        self._exclusive = True
        conversations = {running.caller.conversation_id for running in self._running}
        return self._running[0] if len(conversations) == 1 else None

    def workspaces(self) -> set[str]:
        """The workspaces of the calls that the server's request may belong to."""
        call = _current.get()
        running = self._running if call is None else [call]
        return {other.caller.workspace for other in running if other.caller.workspace is not None}

    def _fits(self, call: CallInProgress) -> bool:
        mine = call.caller.conversation_id
        return not self._exclusive or all(running.caller.conversation_id == mine for running in self._running)

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            call, ready = self._waiting.popleft()
            self._running.append(call)
            if not ready.done():
                ready.set_result(None)

    def _leave_queue(self, call: CallInProgress, ready: asyncio.Future[None]) -> None:
        if (call, ready) in self._waiting:
            self._waiting.remove((call, ready))
        elif call in self._running:
            self._running.remove(call)
        self._admit()


class IncomingRequests:
    """The answers to the requests of one server."""

    def __init__(
        self,
        definition: ServerDefinition,
        roots: tuple[str, ...],
        calls: CallAttribution,
        spawn: Spawn,
        scrubber: SecretScrubber | None = None,
    ) -> None:
        self._definition = definition
        self._roots = roots
        self._calls = calls
        self._spawn = spawn
        self._scrubber = scrubber or SecretScrubber(())
        self._logged: set[str] = set()
        self.asked_roots = False
        """Whether the server has asked for the directories."""

    def callbacks(self) -> dict[str, Any]:
        """Keyword arguments for the SDK's client. A capability that is not among them is not offered to the server."""
        offered: dict[str, Any] = {}
        if self._definition.elicitation:
            offered["elicitation_callback"] = self.elicit
        if self._definition.sampling:
            offered["sampling_callback"] = self.sample
        if self._roots:
            offered["list_roots_callback"] = self.list_roots
        return offered

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the user of the caller; declined where the caller does not let the server ask."""
        from mcp_types import INVALID_REQUEST, ElicitResult, ErrorData

        call = self._concerned("a question for a person")
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message=_NO_CALL)
        answer = await self._ask_person(call, params)
        if answer is None:
            return ElicitResult(action="decline")
        content = answer.content if answer.action == "accept" and params.mode == "form" else None
        return ElicitResult(action=answer.action, content=cast("Any", content))

    async def visited(self, call: CallInProgress, error: types.ErrorData) -> bool:
        """A call that the server refuses until pages were visited: whether the user agreed to visit them all."""
        from mcp import UrlElicitationRequiredError

        pages = UrlElicitationRequiredError.from_error(error).elicitations
        if not self._definition.elicitation or not 0 < len(pages) <= MAX_PAGES:
            return False
        for page in pages:
            answer = await self._ask_person(call, page)
            if answer is None or answer.action != "accept":
                return False
        return True

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Ask the model in the name of the caller."""
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        call = self._concerned("a question for the model")
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message=_NO_CALL)
        request = _sampling(self._definition.name, params)
        if isinstance(request, str):
            return ErrorData(code=INVALID_REQUEST, message=request)
        cleaned = self._scrubber.clean(request)
        answer = await self._ask(call, "a sampling request", lambda: call.caller.sample(cleaned))
        if answer is None:
            return ErrorData(code=_REFUSED, message="sampling was refused")
        text = TextContent(text=answer.text)
        return CreateMessageResult(role="assistant", content=text, model=answer.model, stop_reason="endTurn")

    async def list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """The directories of the client: those of the server's table, or else the workspace of the caller."""
        from mcp_types import ListRootsResult

        self.asked_roots = True
        paths = self._roots
        if self._definition.roots is None and (workspaces := self._calls.workspaces()):
            # With callers in several workspaces it is not known which is meant: the server gets none.
            paths = tuple(workspaces) if len(workspaces) == 1 else ()
        roots = [{"uri": Path(root).as_uri(), "name": Path(root).name or root} for root in paths]
        return ListRootsResult.model_validate({"roots": roots})

    async def _ask_person(self, call: CallInProgress, params: types.ElicitRequestParams) -> ElicitationResult | None:
        request = self._scrubber.clean(_elicitation(self._definition.name, params))
        return await self._ask(call, "an elicitation", lambda: call.caller.elicit(request))

    async def _ask(self, call: CallInProgress, what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
        """The answer, None where it is refused. In a task of its own: cancelling the SDK's would end the connection."""
        call.asks += 1
        if call.asks > MAX_ASKS:
            return None
        task = self._spawn(self._or_none(what, ask), f"mcp {self._definition.name} asks")
        await call.wait_for(task)
        return None if task.cancelled() or not task.done() else task.result()

    async def _or_none(self, what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
        try:
            return await ask()
        except TertuliaError as error:
            _log.info("%s of the mcp server %s was refused: %s", what, self._definition.name, error.code)
            return None

    def _concerned(self, what: str) -> CallInProgress | None:
        """The call that the request belongs to; None where that is not known, which is logged once."""
        call = self._calls.concerned()
        if call is None and what not in self._logged:
            self._logged.add(what)
            _log.warning("mcp server %s: %s that belongs to no one call was refused", self._definition.name, what)
        return call


def _elicitation(server: str, params: types.ElicitRequestParams) -> Elicitation:
    message = params.message[:MAX_TEXT]
    if params.mode == "url":
        return Elicitation(server, message, {}, params.url)
    return Elicitation(server, message, params.requested_schema)


def _sampling(server: str, params: types.CreateMessageRequestParams) -> SamplingRequest | str:
    """The request, or why it cannot be answered."""
    if params.tools or params.tool_choice is not None:
        return "tools are not offered for sampling"
    if len(params.messages) > MAX_MESSAGES:
        return f"more than {MAX_MESSAGES} messages"
    messages: list[tuple[Any, str]] = []
    for message in params.messages:
        texts = [block.text for block in message.content_as_list if block.type == "text"]
        if len(texts) != len(message.content_as_list):
            return "only text can be sampled with"
        messages.append((message.role, "\n".join(texts)))
    if sum(len(text) for _, text in messages) + len(params.system_prompt or "") > MAX_TEXT:
        return f"more than {MAX_TEXT:,} characters"
    return SamplingRequest(server, tuple(messages), params.system_prompt, params.max_tokens)
