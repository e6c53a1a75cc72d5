"""The two tools of Codex's own MCP server, as its hosts know them: `codex` begins a thread, `codex-reply` goes on.

A thread is a session of its own, and what is said in it is said to its root: two threads never wait for each other, and
one that is stored can be gone on with after a restart.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from tertulia.errors import InvalidParams
from tertulia.mcp.serving import ServedCall, ServedTool
from tertulia.protocol.inputs import Message
from tertulia.server.attended_message import attended_message
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.session import Session
from tertulia.session.wire_schema import schema_of


class Codex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Begin a thread."""

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
    """Go on with a thread."""

    prompt: str
    thread_id: str | None = None
    conversation_id: str | None = None
    """An older name for the same."""


class Said(msgspec.Struct, frozen=True, rename="camel"):
    """What both answer."""

    thread_id: str
    content: str


class CodexTools:
    """Runs them. Rights are narrowed to what the server has; `config` and `compact-prompt` change nothing here."""

    NAMES: ClassVar = ("codex", "codex-reply")

    def __init__(self, host: Host) -> None:
        self._host = host

    async def call(self, call: ServedCall) -> Said:
        """One of the two. InvalidParams says what is wrong with the arguments."""
        if call.tool == "codex":
            asked = _converted(call.arguments, Codex)
            session = await self._begin(asked)
            return await _say(session, asked.prompt, call)
        reply = _converted(call.arguments, CodexReply)
        thread = reply.thread_id or reply.conversation_id
        if not thread:
            raise InvalidParams("threadId is missing")
        return await _say(await self._host.resume(thread), reply.prompt, call)

    async def _begin(self, asked: Codex) -> Session:
        wanted = {name: getattr(asked, name) for name in ("model", "cwd", "approval_policy", "sandbox")}
        params = {name: value for name, value in wanted.items() if value is not None}
        done = await operate(self._host, None, "session/start", params)
        session = self._host.find(done.answer.session_id)
        instructions = {"base_instructions": asked.base_instructions, "user_instructions": asked.developer_instructions}
        given = {name: text for name, text in instructions.items() if text is not None}
        if given:
            await session.root.set_context(**given)
        return session


async def _say(session: Session, prompt: str, call: ServedCall) -> Said:
    reply = await attended_message(session, Message(conversation_id="root", text=prompt), call)
    return Said(session.id, reply.text or (reply.error.message if reply.error else reply.status))


def _converted(arguments: dict[str, object], kind: Any) -> Any:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise InvalidParams(str(error).replace("`$.", "`")) from None


def _tool(name: str, description: str, kind: type[msgspec.Struct]) -> ServedTool:
    return ServedTool(
        name=name,
        description=description,
        schema=msgspec.json.encode(schema_of(kind)).decode(),
        output_schema=msgspec.json.encode(schema_of(Said)).decode(),
    )


CODEX_TOOLS = (
    _tool("codex", "Begin a thread with an agent: give it a prompt, get its answer and the thread's id.", Codex),
    _tool("codex-reply", "Go on with a thread: its id and the next prompt.", CodexReply),
)
