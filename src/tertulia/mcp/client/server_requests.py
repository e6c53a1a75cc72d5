"""What a server asks of us: a person, the model, the directories. It goes to the caller whose call caused it."""

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
"""In one call, whose time stands still meanwhile. After that the answer is no."""
MAX_TEXT = 1 << 20
_REFUSED = -1
"""What the protocol proposes where a person said no."""
_NOBODY = "nobody's call can be told that this belongs to"

_log = logging.getLogger(__name__)


class IncomingRequests:
    """The answers to the requests of one server."""

    def __init__(
        self,
        definition: ServerDefinition,
        roots: tuple[str, ...],
        turns: CallAttribution,
        spawn: Spawn,
        confidence: SecretScrubber | None = None,
    ) -> None:
        self._definition = definition
        self._roots = roots
        self._turns = turns
        self._spawn = spawn
        self._confidence = confidence or SecretScrubber(())
        self._told: set[str] = set()
        self.asked_roots = False
        """Whether the server has asked for the directories."""

    def callbacks(self) -> dict[str, Any]:
        """For the SDK's client. What is not in it is not offered to the server."""
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
        """A person is asked. Whom the caller does not let ask, declines."""
        from mcp_types import INVALID_REQUEST, ElicitResult, ErrorData

        turn = self._turns.concerned()
        if turn is None:
            self._unasked("a question for a person")
            return ErrorData(code=INVALID_REQUEST, message=_NOBODY)
        request = self._confidence.clean(_elicitation(self._definition.name, params))
        said = await self._asked(turn, lambda: _ask_person(turn, request))
        if said is None:
            return ElicitResult(action="decline")
        content = said.content if said.action == "accept" and params.mode == "form" else None
        return ElicitResult(action=said.action, content=cast("Any", content))

    async def visited(self, turn: CallInProgress, error: types.ErrorData) -> bool:
        """A call that is refused until pages were visited: whether a person agreed to visit them all."""
        from mcp import UrlElicitationRequiredError

        pages = UrlElicitationRequiredError.from_error(error).elicitations
        if not self._definition.elicitation or not 0 < len(pages) <= MAX_PAGES:
            return False
        for page in pages:
            request = self._confidence.clean(_elicitation(self._definition.name, page))
            said = await self._asked(turn, lambda request=request: _ask_person(turn, request))
            if said is None or said.action != "accept":
                return False
        return True

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """The model is asked."""
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        turn = self._turns.concerned()
        if turn is None:
            self._unasked("a question for the model")
            return ErrorData(code=INVALID_REQUEST, message=_NOBODY)
        request = _sampling(self._definition.name, params)
        if isinstance(request, str):
            return ErrorData(code=INVALID_REQUEST, message=request)
        said = await self._asked(turn, lambda: _ask_model(turn, self._confidence.clean(request)))
        if said is None:
            return ErrorData(code=_REFUSED, message="sampling was refused")
        text = TextContent(text=said.text)
        return CreateMessageResult(role="assistant", content=text, model=said.model, stop_reason="endTurn")

    async def list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """The directories it is told of: the workspace of whoever calls, where its table names no others."""
        from mcp_types import ListRootsResult

        self.asked_roots = True
        told = self._roots
        if self._definition.roots is None and (workspaces := self._turns.workspaces()):
            # Of callers in several places at once nobody can tell whom it asks for: it hears of none.
            told = tuple(workspaces) if len(workspaces) == 1 else ()
        roots = [{"uri": Path(root).as_uri(), "name": Path(root).name or root} for root in told]
        return ListRootsResult.model_validate({"roots": roots})

    async def _asked(self, turn: CallInProgress, ask: Callable[[], Coroutine[Any, Any, T | None]]) -> T | None:
        """In a task of its own: to cancel the SDK's would take its whole connection along. None: nobody says yes."""
        turn.asks += 1
        if turn.asks > MAX_ASKS:
            return None
        task = self._spawn(ask(), f"mcp {self._definition.name} asks")
        await turn.asked(task)
        return None if task.cancelled() or not task.done() else task.result()

    def _unasked(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.warning("mcp server %s: %s that belongs to no one call was refused", self._definition.name, what)


async def _ask_person(turn: CallInProgress, request: Elicitation) -> ElicitationResult | None:
    try:
        return await turn.caller.elicit(request)
    except TertuliaError as error:
        _log.info("an elicitation of the mcp server %s was refused: %s", request.server, error.code)
        return None


async def _ask_model(turn: CallInProgress, request: SamplingRequest) -> SamplingResult | None:
    try:
        return await turn.caller.sample(request)
    except TertuliaError as error:
        _log.info("a sampling request of the mcp server %s was refused: %s", request.server, error.code)
        return None


def _elicitation(server: str, params: types.ElicitRequestParams) -> Elicitation:
    message = params.message[:MAX_TEXT]
    if params.mode == "url":
        return Elicitation(server, message, {}, params.url)
    return Elicitation(server, message, params.requested_schema)


def _sampling(server: str, params: types.CreateMessageRequestParams) -> SamplingRequest | str:
    """The request, or why it is none that can be answered."""
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
