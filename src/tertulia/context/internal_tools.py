"""Calls of internal tools by agents: natively, over MCP or with `tertulia internal`, all through `InternalTools.call`.

The token alone identifies the calling agent; the arguments have no influence on that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.definitions import Handler, InternalCaller, ToolDefinition, may_use
from tertulia.context.tokens import SessionToken, SessionTokenStore
from tertulia.errors import (
    ApprovalDeniedError,
    InternalError,
    InvalidParamsError,
    MethodNotFoundError,
    NotFoundError,
    TaskTimeoutError,
    TertuliaError,
)
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.policy.token_redaction import VISIBLE_CHARACTERS
from tertulia.schema.schema import Schema
from tertulia.tools.threads import call_cancellable

TIMEOUT_S = 300.0
_MAX_PARAMS = 200
_MAX_VALUE = 60


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one call of an internal tool, made for failed calls too."""

    at: str
    source: str
    """How the call came: native, mcp, cli …"""
    tool: str
    params: str
    """The arguments, shortened. They may have text of a user or a model, which a storage policy may forbid to store."""
    token_prefix: str
    agent_name: str | None
    """The agent that the token identifies; None for an invalid token."""
    session_id: str | None
    pid: int | None
    """The id of the process that called."""
    ok: bool
    result: str
    """`ok`, or the code of the error."""
    duration_ms: int


class InternalTools:
    """Finds the agent of a token and the tool, checks that the agent may use the tool now, and runs its handler.

    `audit` is called exactly once for every call and must not raise. Refusals are TertuliaErrors; any other error of a
    handler passes through and is recorded as `internal`.
    """

    def __init__(
        self,
        tokens: SessionTokenStore,
        audit: Callable[[AuditRecord], object],
        handlers: Mapping[str, Handler] | None = None,
        *,
        clock: Clock | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._tokens = tokens
        self._audit = audit
        self._handlers = dict(handlers or {})
        self._clock = clock or SystemClock()
        self._now = Timestamps(self._clock)
        self._timeout_s = timeout_s
        self._agents: dict[str, _AdmittedAgent] = {}

    def admit(self, session_id: str, meta: AgentInstanceMeta, tools: Iterable[ToolDefinition]) -> None:
        """Let the agent of this session call these tools, as far as its archetype allows, instead of earlier ones."""
        self._agents[session_id] = _AdmittedAgent(meta, tools)

    def dismiss(self, session_id: str) -> None:
        """Remove the agent of this session. Idempotent."""
        self._agents.pop(session_id, None)

    def validate_token(self, token: object) -> SessionToken:
        """The entry of a token; InvalidParamsError if it is not valid."""
        return _require_valid(self._tokens.validate(token))

    async def call(
        self, token: object, tool: object, arguments: object = None, *, source: str, pid: int | None = None
    ) -> Any:
        """Call a tool and return its answer as plain data. `source`: how the call came, for the audit record."""
        began = self._clock.monotonic()
        # Looked up before the call, because the call itself may revoke the token.
        entry = self._tokens.validate(token)
        result = "internal"
        try:
            answer = await self._answer(entry, tool, arguments)
            result = "ok"
            return answer
        except TertuliaError as error:
            result = error.code
            raise
        except asyncio.CancelledError:
            result = "cancelled"
            raise
        finally:
            record = AuditRecord(
                at=self._now(),
                source=source,
                tool=self._tokens.redactor.text(str(tool)[:_MAX_VALUE]),
                params=self._tokens.redactor.text(shorten_arguments(arguments)),
                token_prefix=token[:VISIBLE_CHARACTERS] if isinstance(token, str) else "",
                agent_name=entry and entry.agent_name,
                session_id=entry and entry.session_id,
                pid=pid if pid is not None else entry and entry.pid,
                ok=result == "ok",
                result=result,
                duration_ms=round((self._clock.monotonic() - began) * 1000),
            )
            self._audit(record)

    async def _answer(self, entry: SessionToken | None, name: object, arguments: object) -> Any:
        owner = _require_valid(entry)
        admitted = self._admitted(owner)
        tool = admitted.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise NotFoundError(f"agent {owner.agent_name!r} has no internal tool {name!r:.80}")
        if not may_use(admitted.meta.archetype, tool.scope):
            raise ApprovalDeniedError(
                f"{tool.name} is for the scope {tool.scope}, not for {admitted.meta.archetype!r:.40}"
            )
        handler = tool.handler or self._handlers.get(tool.rpc_method)
        if handler is None:
            raise MethodNotFoundError(f"there is no handler of {tool.rpc_method}, the method of {tool.name}")
        params = _require_object(arguments)
        admitted.schema(tool).validate(params)
        call = InternalCaller(owner.agent_name, owner.session_id, admitted.meta, tool.name)
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                answer = await call_cancellable(handler, call, params)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TaskTimeoutError(f"{tool.name} took longer than {self._timeout_s:g} s") from None
        return _plain_data(tool.name, answer)

    def _admitted(self, owner: SessionToken) -> _AdmittedAgent:
        admitted = self._agents.get(owner.session_id)
        if admitted is None:
            raise NotFoundError(f"agent {owner.agent_name!r} is not running")
        return admitted


class _AdmittedAgent:
    """An agent, and the tools that it may call."""

    __slots__ = ("_schemas", "meta", "tools")

    def __init__(self, meta: AgentInstanceMeta, tools: Iterable[ToolDefinition]) -> None:
        self.meta = meta
        self.tools = {tool.name: tool for tool in tools}
        self._schemas: dict[str, Schema] = {}

    def schema(self, tool: ToolDefinition) -> Schema:
        """The compiled schema of a tool's arguments; InvalidParamsError if it is no valid schema."""
        if tool.name not in self._schemas:
            self._schemas[tool.name] = Schema.compile(tool.spec.schema)
        return self._schemas[tool.name]


def _require_valid(entry: SessionToken | None) -> SessionToken:
    if entry is None:
        raise InvalidParamsError("the token is not valid: it is wrong, expired or revoked")
    return entry


def shorten_arguments(arguments: object) -> str:
    """Arguments in one short line; of a long text only its beginning and length."""
    if isinstance(arguments, Mapping):
        pairs = list(cast("Mapping[object, object]", arguments).items())[:16]
        text = ", ".join(f"{str(name)[:_MAX_VALUE]}: {_shorten_value(value)}" for name, value in pairs)
    else:
        text = _shorten_value(arguments)
    return text if len(text) <= _MAX_PARAMS else f"{text[:_MAX_PARAMS]}…"


def _shorten_value(value: object) -> str:
    match value:
        case str() if len(value) > _MAX_VALUE:
            return f"{value[:_MAX_VALUE]!r}… ({len(value):,} characters)"
        case str() | int() | float() | None:
            return repr(value)
        case _:
            return type(value).__name__


def _require_object(arguments: object) -> dict[str, Any]:
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise InvalidParamsError(f"arguments must be an object, not {type(arguments).__name__}")
    return cast("dict[str, Any]", arguments)


def _plain_data(tool: str, answer: object) -> Any:
    try:
        # Encoded and decoded, so that an answer that cannot be sent as JSON is reported as an error of the tool here.
        return msgspec.json.decode(msgspec.json.encode(answer))
    except (TypeError, ValueError, RecursionError):
        raise InternalError(f"{tool} answered with something that is not plain data") from None
