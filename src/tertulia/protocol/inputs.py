"""What comes in from users and clients, parsed once at the edge into frozen types.

A field that is absent and a field that is null are different things in an update: absent keeps, null resets.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tertulia.errors import InvalidParamsError
from tertulia.protocol.conversation_fields import CONVERSATION_FIELDS, Number, Switch, Words
from tertulia.protocol.records import MAX_CONTROLS, TOO_MANY, has_too_many_escapes
from tertulia.protocol.worktree import OwnWorktree, WorkspaceKind

ModelValue = Annotated[
    Any, Meta(description="provider/model; null: the default", extra_json_schema={"type": ["string", "null"]})
]
ApprovalValue = Annotated[
    Any,
    Meta(
        description="untrusted, on-request, on-failure or never, or its parts; null: the default",
        extra_json_schema={"type": ["string", "object", "null"]},
    ),
]
StorageValue = Annotated[
    Any,
    Meta(
        description="full, headers_only, none or {ttl: seconds}; null: the default",
        extra_json_schema={"type": ["string", "object", "null"]},
    ),
]
SandboxValue = Annotated[str, Meta(description="read-only, workspace-write or danger-full-access")]
"""These are checked when they are understood, so that a refusal can say what there is; the schema says what they look
like."""

MAX_TEXT_BYTES = 16 * 1024 * 1024
DATA_TAG = "standard_input"
"""Marks data that `exec` puts behind a prompt."""


class TextInput(msgspec.Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    """A piece of text in a message."""

    text: str


class ImageInput(msgspec.Struct, frozen=True, gc=False, tag="image", forbid_unknown_fields=True):
    """A picture in a message, by its address."""

    image_url: str


class LocalImageInput(msgspec.Struct, frozen=True, gc=False, tag="local_image", forbid_unknown_fields=True):
    """A picture by path; it is read when the message is accepted."""

    path: str


InputItem = TextInput | ImageInput | LocalImageInput


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named agent instance that a conversation is to be."""

    name: str
    archetype: str = "repo"
    backend_type: str = "native"
    workspace_policy: Literal["persistent", "ephemeral"] = "persistent"
    launch_mode: Literal["managed", "direct"] = "managed"


def _word_value(kind: Words) -> Any:
    *others, last = kind.spelled()
    return Annotated[str, Meta(description=f"{', '.join(others)} or {last}")]


def _number_value(kind: Number) -> Any:
    about = Meta(description=kind.described())
    return Annotated[int, about] if kind.whole else Annotated[float, about]


def _generated_fields() -> list[tuple[str, Any, Any]]:
    """Switches, words and numbers of the table of conversation fields; structured values are spelled out below."""
    rows = [row for row in CONVERSATION_FIELDS if row.doc is not None]
    switches = [(row.name, bool | None | UnsetType, UNSET) for row in rows if isinstance(row.kind, Switch)]
    words = [(row.name, _word_value(row.kind) | None | UnsetType, UNSET) for row in rows if isinstance(row.kind, Words)]
    numbers = [
        (row.name, _number_value(row.kind) | None | UnsetType, UNSET) for row in rows if isinstance(row.kind, Number)
    ]
    return [*switches, *words, *numbers]


_GeneratedFields = msgspec.defstruct(
    "_GeneratedFields", _generated_fields(), frozen=True, kw_only=True, forbid_unknown_fields=True
)


class ContextFields(_GeneratedFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a conversation can be given when it is opened and changed later. Values are in wire spelling."""

    base_instructions: str | None | UnsetType = UNSET
    user_instructions: str | None | UnsetType = UNSET
    mcp_tool_allowlist: list[str] | None | UnsetType = UNSET
    model: ModelValue = UNSET
    """`provider/model`; from Python also a Wire."""
    backend: str | None | UnsetType = UNSET
    agent: AgentSpec | str | None | UnsetType = UNSET
    """By name one that is set up, or an identity."""
    cwd: str | None | UnsetType = UNSET
    workspace: WorkspaceKind | None | UnsetType = UNSET
    approval_policy: ApprovalValue = UNSET
    storage_policy: StorageValue = UNSET
    limits: dict[str, float | None] | None | UnsetType = UNSET
    title: str | None | UnsetType = UNSET


class NewConversation(ContextFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/open`."""

    parent_id: str | None | UnsetType = UNSET


class SetContext(ContextFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/set_context`."""

    conversation_id: str
    refresh_mcp_view: bool | None = None


class OpenFromPython(NewConversation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Session.open`: a conversation may also be given functions of this process. Never parsed from a wire."""

    functions: tuple[Any, ...] | None | UnsetType = UNSET
    """Functions marked with `@tool`, see `tools/tool.py`."""
    worktree: OwnWorktree | UnsetType = UNSET
    """What was made for it, where it asks for a worktree; no caller gives it."""


class ChangeFromPython(SetContext, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Conversation.set_context`: the same for an open conversation. Never parsed from a wire."""

    functions: tuple[Any, ...] | None | UnsetType = UNSET


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/message`."""

    conversation_id: str
    text: str | None = None
    items: list[InputItem] | None = None
    message_id: str | None = None
    sender: str | None = None
    task_type: Literal["code", "chat"] | None = None
    previous_result: Any = None
    if_busy: Literal["wait", "fail"] | None = None
    """What to do while a task runs; None is `wait`."""
    detach: bool | None = None
    output_schema: dict[str, Any] | None = None
    base_instructions_override: str | None = None
    """Instead of the conversation's base instructions, for this task and its continuations only."""


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operations that need no more than their session."""


class ConversationParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of operations on one conversation."""

    conversation_id: str


class RefreshServers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mcp/refresh`: have all MCP servers, or these, list their tools again; one that failed is tried again."""

    names: list[str] | None = None


class ValidateToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`internal/validate_token`. Printing it shows no token."""

    token: str

    def __repr__(self) -> str:
        return "ValidateToken(…)"


class InternalCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`internal/call`: a tool of a context provider, called back by the agent that the token stands for."""

    token: str
    tool: str
    arguments: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"InternalCall({self.tool[:64]!r})"


class GetMetrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`metrics/get`: of the session and all its conversations, or of one of them."""

    conversation_id: str | None = None


class Steer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/steer`."""

    conversation_id: str
    text: str


class TakeBack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`conversation/take_back`: the newest message that waits, or that of a task."""

    conversation_id: str
    task_id: str | None = None


class GetHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/history`."""

    conversation_id: str
    limit: int | None = None


class ForkConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`conversation/fork`: at an item, at the end of a round, or now."""

    conversation_id: str
    at: str | int | None = None


class CloseConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/close`."""

    conversation_id: str
    timeout_s: float | None = None


class CloseSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `session/close`."""

    timeout_s: float | None = None


class GetBoard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`session/board`: of each conversation the last cells."""

    max_cells: Annotated[int, Meta(ge=1, le=20_000)] | None = None
    """How many of each; None: 500."""


class TaskParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `task/get`."""

    task_id: str


StopScope = Literal["chain", "branch"]
"""What is stopped: all that a message has caused, or one conversation's part of it with what that has caused."""


class InterruptConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/interrupt`."""

    conversation_id: str
    scope: StopScope = "chain"


class MergeConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/merge`."""

    conversation_id: str
    mode: Literal["apply", "commit"] = "apply"


class CancelTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `task/cancel`."""

    task_id: str
    scope: StopScope = "chain"


class ListApprovals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`approval/list` and `approval/grants`: of all conversations, or what shows in one of them."""

    conversation_id: str | None = None


class GetApproval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`approval/get`: a request that waits, and one of its texts whole."""

    approval_id: str
    part: Literal["detail", "command", "script", "arguments", "justification", "matches", "files"] | None = None
    """None: `detail`, which has everything."""
    offset: Annotated[int, Meta(ge=0)] = 0
    """Characters of it that were read before."""


class ResolveApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`approval/resolve`: of an approval, or of what an MCP server asks a person."""

    approval_id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "conversation", "session", "project"] | None = None
    ttl_s: float | None = None
    message: str | None = None
    content: dict[str, Any] | None = None
    """What an MCP server asked for; with an elicitation that is allowed, and with nothing else."""


class RevokeGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `approval/revoke`."""

    grant_id: str


class ExplainRights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rights/explain`: what a conversation may do and why; and what would happen to a command or a tool call."""

    conversation_id: str
    command: str | tuple[str, ...] | None = None
    """As for a shell, or as its words."""
    tool: str | None = None
    """The name of a tool, as models know it."""


class SessionFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session can be given. Values are in wire spelling, and narrow what the server was started with."""

    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalValue = None
    sandbox: SandboxValue | None = None
    network: bool | None = None
    writable_roots: list[str] | None = None
    storage_policy: StorageValue = None
    limits: dict[str, float | None] | None = None
    slots: int | None = None
    """How many of its tasks may run at once; None: as the server was started."""


class StartSession(SessionFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of the operation `session/start`."""


class ResumeSession(SessionFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session/resume`: a session of the past, by its id."""

    session_id: str


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `events/subscribe`."""

    after_seq: int | None = None
    conversation_id: str | None = None
    attend: bool | None = None
    """Whether the client answers the approvals that show there. None: as it said with `initialize`."""


class ClientInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name and version of a client."""

    name: str
    version: str = ""


class Initialize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `initialize`."""

    client: ClientInfo | None = None
    protocol_version: str | None = None
    session_id: str | None = None
    """A session that others began, or that is stored, instead of a new one."""
    attend: bool | None = None
    """The client answers approvals of the sessions that it follows. Without it what has to be asked is refused."""
    observe: bool | None = None
    """No session is made and none is the connection's own: requests name the session that they mean."""


def check_text(text: str, field: str, *, with_escapes: bool = True) -> str:
    """A text that can be encoded, stored and sent: no lone surrogates, at most 16 MB of UTF-8, and so many escapes.

    `with_escapes`: False where the caller counts those of several texts together.
    """
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidParamsError(
            f"{field} has a lone surrogate at position {error.start}; send valid Unicode"
        ) from None
    if size > MAX_TEXT_BYTES:
        raise InvalidParamsError(f"{field} is {size:,} bytes long; the limit is {MAX_TEXT_BYTES:,}")
    if with_escapes and size > MAX_CONTROLS and has_too_many_escapes(text):
        raise InvalidParamsError(f"{field} has {TOO_MANY}")
    return text
