"""The two tools of Codex's own MCP server, as its clients know them: `codex` starts a thread, `codex-reply` continues
it.

A thread is a session of its own, and its messages go to the root: two threads never wait for each other, and a stored
thread can be continued after a restart.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.inputs import Message
from tertulia.protocol.validation_text import explain_validation
from tertulia.server.api_schema import schema_of
from tertulia.server.codex.thread import change_terms
from tertulia.server.mcp.message_call import run_message_call
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.session import Session


class Codex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The arguments of `codex`, which starts a thread."""

    prompt: str
    model: str | None = None
    cwd: str | None = None
    approval_policy: Literal["untrusted", "on-request", "on-failure", "never"] | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    config: dict[str, Any] | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    compact_prompt: str | None = None


class CodexReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The arguments of `codex-reply`, which continues a thread."""

    prompt: str
    thread_id: str | None = None
    conversation_id: str | None = None
    """The older name of `thread_id`."""


class CodexToolResult(msgspec.Struct, frozen=True, rename="camel"):
    """The structured result of both tools."""

    thread_id: str
    content: str


class CodexTools:
    """Runs both tools. Rights are narrowed to those of the server; `config` and `compact-prompt` are accepted and
    ignored.
    """

    NAMES: ClassVar = ("codex", "codex-reply")

    def __init__(self, host: Host) -> None:
        self._host = host

    async def call(self, call: ServedCall) -> CallResult:
        """Run the tool that was called. InvalidParamsError says what is wrong with the arguments."""
        if call.tool == "codex":
            request = _read_arguments(call.arguments, Codex)
            session = await self._begin(request)
            try:
                await _instruct(session, request)
                return await _say(session, request.prompt, call)
            except TertuliaError:
                # Refused before the thread had a message; the client has not learned its id.
                await self._host.close_session(session)
                raise
        reply = _read_arguments(call.arguments, CodexReply)
        thread = reply.thread_id or reply.conversation_id
        if not thread:
            raise InvalidParamsError("threadId is missing")
        return await _say(await self._host.resume(thread), reply.prompt, call)

    async def _begin(self, request: Codex) -> Session:
        wanted = {name: getattr(request, name) for name in ("cwd", "approval_policy", "sandbox")}
        params = {name: value for name, value in wanted.items() if value is not None}
        done = await operate(self._host, None, "session/start", params)
        return self._host[done.answer.session_id]


async def _instruct(session: Session, request: Codex) -> None:
    instructions = {"base_instructions": request.base_instructions, "user_instructions": request.developer_instructions}
    wanted = {"model": request.model, **instructions}
    await change_terms(session, {name: text for name, text in wanted.items() if text is not None})


async def _say(session: Session, prompt: str, call: ServedCall) -> CallResult:
    reply = await run_message_call(session, Message(conversation_id="root", text=prompt), call)
    # Clients of Codex show this text as it is: so the answer alone, not the whole result as JSON like the other tools.
    text = reply.text or (reply.error.message if reply.error else reply.status)
    structured = msgspec.to_builtins(CodexToolResult(session.id, text))
    return CallResult(text, structured=structured, is_error=reply.error is not None, total_bytes=len(text))


def _read_arguments(arguments: dict[str, object], kind: Any) -> Any:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, kind)) from None


def _tool(name: str, description: str, kind: type[msgspec.Struct], summary: str) -> ServedTool:
    return ServedTool(
        name=name,
        description=description,
        schema=msgspec.json.encode(_without_null(_described(kind, summary))).decode(),
        output_schema=msgspec.json.encode(_described(CodexToolResult, "What both answer.")).decode(),
    )


def _described(kind: type[msgspec.Struct], summary: str) -> dict[str, Any]:
    """The schema of a type, with a description for clients in the place of its docstring."""
    return {**schema_of(kind), "description": summary}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without null: an optional field has its plain type, as clients know it. Null is accepted still."""
    plain = {name: about.get("anyOf", [about])[0] for name, about in schema["properties"].items()}
    named = {name: {"type": "string", **about} if "enum" in about else about for name, about in plain.items()}
    return {**schema, "properties": named}


CODEX_TOOLS = (
    _tool(
        "codex",
        "Begin a thread with an agent: give it a prompt, get its answer and the thread's id.",
        Codex,
        "Begin a thread.",
    ),
    _tool("codex-reply", "Go on with a thread: its id and the next prompt.", CodexReply, "Go on with a thread."),
)
