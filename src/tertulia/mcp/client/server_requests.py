"""Answers the requests of a server: elicitation, sampling, roots. Each goes to the caller whose call caused it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tertulia.errors import TertuliaError
from tertulia.mcp.client.call_attribution import CallAttribution, CallInProgress
from tertulia.mcp.client.secret_scrubber import SecretScrubber
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.server_connection import Elicitation, ElicitationResult, SamplingRequest, SamplingResult, Spawn

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client.session import ClientRequestContext

T = TypeVar("T")
MAX_MESSAGES = 256
MAX_PAGES = 8
MAX_ASKS = 64
"""Questions during one call, whose time limit is suspended meanwhile. Further ones are refused."""
MAX_TEXT = 1 << 20
_REFUSED = -1
"""The code that the protocol proposes where the user refuses."""
_NO_CALL = "it is not known which call this belongs to"

_log = logging.getLogger(__name__)


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

        call = self._calls.concerned()
        if call is None:
            self._log_refusal("a question for a person")
            return ErrorData(code=INVALID_REQUEST, message=_NO_CALL)
        request = self._scrubber.clean(_elicitation(self._definition.name, params))
        answer = await self._ask(call, lambda: _ask_person(call, request))
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
            request = self._scrubber.clean(_elicitation(self._definition.name, page))
            answer = await self._ask(call, lambda request=request: _ask_person(call, request))
            if answer is None or answer.action != "accept":
                return False
        return True

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Ask the model in the name of the caller."""
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        call = self._calls.concerned()
        if call is None:
            self._log_refusal("a question for the model")
            return ErrorData(code=INVALID_REQUEST, message=_NO_CALL)
        request = _sampling(self._definition.name, params)
        if isinstance(request, str):
            return ErrorData(code=INVALID_REQUEST, message=request)
        answer = await self._ask(call, lambda: _ask_model(call, self._scrubber.clean(request)))
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

    async def _ask(self, call: CallInProgress, ask: Callable[[], Coroutine[Any, Any, T | None]]) -> T | None:
        """The answer, None where it is refused. In a task of its own: cancelling the SDK's would end the connection."""
        call.asks += 1
        if call.asks > MAX_ASKS:
            return None
        task = self._spawn(ask(), f"mcp {self._definition.name} asks")
        await call.wait_for(task)
        return None if task.cancelled() or not task.done() else task.result()

    def _log_refusal(self, what: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("mcp server %s: %s that belongs to no one call was refused", self._definition.name, what)


async def _ask_person(call: CallInProgress, request: Elicitation) -> ElicitationResult | None:
    try:
        return await call.caller.elicit(request)
    except TertuliaError as error:
        _log.info("an elicitation of the mcp server %s was refused: %s", request.server, error.code)
        return None


async def _ask_model(call: CallInProgress, request: SamplingRequest) -> SamplingResult | None:
    try:
        return await call.caller.sample(request)
    except TertuliaError as error:
        _log.info("a sampling request of the mcp server %s was refused: %s", request.server, error.code)
        return None


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
