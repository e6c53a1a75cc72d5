"""The inputs of users and clients, parsed once, where they arrive, into frozen types.

In an update an absent field and a null field differ: an absent one keeps the value, null resets it to the default.
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
_NETWORK = "true, false or {allow: [hosts], deny: [hosts]}; null: the default"
NetworkValue = Annotated[Any, Meta(description=_NETWORK, extra_json_schema={"type": ["boolean", "object", "null"]})]
SandboxValue = Annotated[str, Meta(description="read-only, workspace-write or danger-full-access")]
"""The five values above are checked later, by the code that parses them, so that its errors can list the allowed words;
their types here only describe them for the schema."""

MAX_TEXT_BYTES = 16 * 1024 * 1024
DATA_TAG = "standard_input"
"""The tag around the data that `exec` appends to a prompt from its standard input."""


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
    """The agent that a conversation is to be: its name and kind."""

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
    """The switches, words and numbers among the conversation fields; structured ones are listed in `ContextFields`."""
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
    """The fields of a conversation that can be set when it is opened and changed later, in wire spelling."""

    base_instructions: str | None | UnsetType = UNSET
    user_instructions: str | None | UnsetType = UNSET
    mcp_tool_allowlist: list[str] | None | UnsetType = UNSET
    model: ModelValue = UNSET
    """`provider/model`; from Python also a `Wire` object."""
    fallback_models: list[str] | None | UnsetType = UNSET
    backend: str | None | UnsetType = UNSET
    agent: AgentSpec | str | None | UnsetType = UNSET
    """The name of an agent that is set up already, or the description of a new one."""
    cwd: str | None | UnsetType = UNSET
    workspace: WorkspaceKind | None | UnsetType = UNSET
    approval_policy: ApprovalValue = UNSET
    network: NetworkValue = UNSET
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
    """The parameters of `Session.open`, which also takes functions of this process. Never parsed from a wire."""

    functions: tuple[Any, ...] | None | UnsetType = UNSET
    """Functions marked with `@tool`, see `tools/tool.py`."""
    worktree: OwnWorktree | UnsetType = UNSET
    """The worktree that the session made for the conversation, if it asks for one; no caller sets it."""


class ChangeFromPython(SetContext, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of `Conversation.set_context`, which also takes functions. Never parsed from a wire."""

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
    """Replaces the conversation's base instructions, for this task and its continuations only."""


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of operations that need none besides their session."""


class ConversationParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of operations on one conversation."""

    conversation_id: str


class RefreshServers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mcp/refresh`: have all MCP servers, or those named, list their tools again; failed servers are tried again."""

    names: list[str] | None = None


class ValidateToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `internal/validate_token`. The repr does not show the token."""

    token: str

    def __repr__(self) -> str:
        return "ValidateToken(…)"


class InternalCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`internal/call`: call a tool of a context provider, as the agent that the token identifies."""

    token: str
    tool: str
    arguments: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"InternalCall({self.tool[:64]!r})"


class GetMetrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`metrics/get`: the metrics of the session and all its conversations, or of one conversation."""

    conversation_id: str | None = None


class Steer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/steer`."""

    conversation_id: str
    text: str


class TakeBack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`conversation/take_back`: take back the newest queued message, or the one of the given task."""

    conversation_id: str
    task_id: str | None = None


class GetHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `conversation/history`."""

    conversation_id: str
    limit: int | None = None


class ForkConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`conversation/fork`: copy a conversation up to an item, up to the end of a round, or whole."""

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
    """`session/board`: the last cells of each conversation."""

    max_cells: Annotated[int, Meta(ge=1, le=20_000)] | None = None
    """The most cells of each conversation; None: 500."""


class TaskParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `task/get`."""

    task_id: str


StopScope = Literal["chain", "branch"]
"""What is stopped: `chain`, all tasks that a message caused, or `branch`, those of one conversation and its targets."""


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
    """`approval/list` and `approval/grants`: those of all conversations, or those that show in one of them."""

    conversation_id: str | None = None


class GetApproval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`approval/get`: a pending approval request, with one of its texts in full."""

    approval_id: str
    part: Literal["detail", "command", "script", "arguments", "justification", "matches", "files"] | None = None
    """The text to return; None: `detail`, which contains all others."""
    offset: Annotated[int, Meta(ge=0)] = 0
    """How many characters of the text to skip, because they were read before."""


class ResolveApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`approval/resolve`: answer an approval, or the elicitation of an MCP server, which alone can be cancelled."""

    approval_id: str
    decision: Literal["allow", "deny", "cancel"]
    scope: Literal["once", "conversation", "session", "project"] | None = None
    ttl_s: float | None = None
    message: str | None = None
    content: dict[str, Any] | None = None
    """The answer to an elicitation of an MCP server; only with `allow`, and not for other approvals."""


class RevokeGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `approval/revoke`."""

    grant_id: str


class ExplainRights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rights/explain`: the rights of a conversation and why; whether a command, a call or a host would be allowed."""

    conversation_id: str
    command: str | tuple[str, ...] | None = None
    """A command as one text for a shell, or as a list of its words."""
    tool: str | None = None
    """The name of a tool, as models know it."""
    host: str | None = None
    """A host that a command would reach, `host` or `host:port`; without a port: 443."""


class SessionFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a session, in wire spelling. They narrow the settings that the server was started with."""

    model: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalValue = None
    sandbox: SandboxValue | None = None
    network: NetworkValue = None
    writable_roots: list[str] | None = None
    storage_policy: StorageValue = None
    limits: dict[str, float | None] | None = None
    slots: int | None = None
    """How many tasks of the session may run at once; None: as in the server's settings."""


class StartSession(SessionFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of the operation `session/start`."""


class ResumeSession(SessionFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session/resume`: resume a stored session by its id."""

    session_id: str
    continue_tasks: bool | None = None
    """Whether tasks that a crash cut go on, of conversations with `on_restart: "continue"`; else they are closed."""


class ClientInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name and version of a client."""

    name: str
    version: str = ""


class Initialize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `initialize`."""

    client: ClientInfo | None = None
    protocol_version: str | None = None
    session_id: str | None = None
    """Use this session, which another client began or which is stored, instead of a new one."""
    attend: bool | None = None
    """Whether the client answers approvals of the sessions it follows. Without it, calls that need one are refused."""
    observe: bool | None = None
    """Make no session and give the connection none of its own: each request names the session that it is about."""


def check_text(text: str, field: str, *, with_escapes: bool = True) -> str:
    """The text, if it has no lone surrogates, at most 16 MB of UTF-8 and not too many escapes; InvalidParams otherwise.

    `with_escapes`: False if the caller counts the escapes of several texts together.
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
