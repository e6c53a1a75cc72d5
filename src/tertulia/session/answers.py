"""What operations answer: the same names in Python (as attributes or keys) and on every wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tertulia.policy.rights import Narrowing
from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.protocol.items import Usage
from tertulia.protocol.mapping_struct import MappingStruct
from tertulia.protocol.tool_spec import ToolSource
from tertulia.protocol.worktree import WorktreeReport
from tertulia.scheduler.reply import Failure, Reply, ReplyStatus


class Answer(MappingStruct, frozen=True, gc=True):
    """The root of all answers."""


class SessionInfo(Answer, frozen=True):
    """`session/info`: a session, its model, its policy and its MCP servers."""

    session_id: SessionId
    root_conversation_id: ConversationId
    protocol_version: str
    version: str
    policy: dict[str, Any]
    model: str
    mcp: list[dict[str, Any]]
    narrowed: list[Narrowing] = msgspec.field(default_factory=list[Narrowing])
    not_held: list[str] = msgspec.field(default_factory=list[str])
    """What the sandbox and the executors' own sandboxes cannot prevent here, as sentences for people."""
    sandbox_tier: Literal["bubblewrap", "landlock", "seatbelt", "none"] | None = None
    """How the commands of the session are confined; null: they are refused, because nothing here can confine them."""
    checkpoints: CheckpointStatus | None = None
    """Whether what tasks do to files can be undone."""


class CheckpointStatus(Answer, frozen=True):
    """Whether the files of a session's workspace are recorded, so that tasks can be undone."""

    available: bool
    reason: str | None = None
    """Why not, and how to have it."""
    in_memory: bool = False
    """Whether checkpoints are held in memory, and gone with the session."""


class ServerInfo(Answer, frozen=True):
    """Name and version of the server that answers `initialize`."""

    name: str
    version: str


class InitializeAnswer(SessionInfo, frozen=True, kw_only=True):
    """`initialize`: the connection's own session, who serves it, and what that can do."""

    server: ServerInfo
    capabilities: dict[str, bool]


class ObserveAnswer(Answer, frozen=True, kw_only=True):
    """`initialize` with `observe`: who serves the connection, which has no session of its own."""

    session_id: None = None
    protocol_version: str
    version: str
    server: ServerInfo
    capabilities: dict[str, bool]


class SubscribeAnswer(Answer, frozen=True):
    """`events/subscribe`. What it replays comes after this answer."""

    subscribed: bool
    last_seq: int


class SessionList(Answer, frozen=True):
    """`session/list`: the sessions that are open in this process."""

    sessions: list[SessionInfo]


class ConversationInfo(Answer, frozen=True):
    """One conversation in the answer to `conversation/list`."""

    id: ConversationId
    parent_id: ConversationId | None
    title: str | None
    status: Literal["idle", "running", "waiting", "closed"]
    depth: int
    message_count: int
    last_active_at: str
    model: str
    backend: str


class ConversationList(Answer, frozen=True):
    """`conversation/list`, root first, then by creation."""

    conversations: list[ConversationInfo]


class ContextInfo(Answer, frozen=True):
    """`conversation/context`: everything that decides what the model sees and may do."""

    base_instructions: str | None
    user_instructions: str | None
    additions: list[dict[str, Any]]
    policy: dict[str, Any]
    narrowed: list[Narrowing]
    tools_prefs: dict[str, Any]
    mcp_tool_allowlist: list[str] | None
    model: str
    storage_policy: Any
    limits: dict[str, Any]
    prompt_tokens: int
    cache_key: str
    fallback_models: list[str] = msgspec.field(default_factory=list[str])


class OpenAnswer(Answer, frozen=True, omit_defaults=True):
    """`conversation/open` and `conversation/set_context`: the context that holds now, and what was narrowed."""

    conversation_id: ConversationId
    context: ContextInfo
    narrowed: list[Narrowing]
    warnings: list[str]
    worktree: WorktreeReport | None = None
    """Where a worktree of its own began."""


class ForkAnswer(Answer, frozen=True):
    """`conversation/fork`: the id of the new conversation."""

    conversation_id: ConversationId


class MergedFile(Answer, frozen=True, omit_defaults=True):
    """A file that a merge changed."""

    path: str
    status: Literal["added", "modified", "deleted", "renamed"]
    added: int | None
    """Lines; null for a binary file."""
    removed: int | None
    renamed_from: str | None = None


class LeftOutFile(Answer, frozen=True):
    """A file that differs and was not merged."""

    path: str
    reason: str


class MergeAnswer(Answer, frozen=True, omit_defaults=True):
    """`conversation/merge`. True in Python when something was merged."""

    merged: bool
    mode: Literal["apply", "commit"]
    branch: str
    """The branch of the conversation that was merged."""
    merged_commit: str
    """The commit on it up to which everything is merged now."""
    files: list[MergedFile]
    left_out: list[LeftOutFile]
    commit: str | None = None
    """With mode `commit`: the commit that was made."""
    onto: str | None = None
    """The branch that it was made on."""

    def __bool__(self) -> bool:
        return self.merged


class SteerAnswer(Answer, frozen=True):
    """`conversation/steer`: an empty answer, the text was accepted."""


class InterruptAnswer(Answer, frozen=True):
    """`conversation/interrupt`. True in Python when something was stopped."""

    interrupted: bool

    def __bool__(self) -> bool:
        return self.interrupted


class CompactAnswer(Answer, frozen=True):
    """`conversation/compact`: the size of the history before and after, or why it was left as it is."""

    compacted: bool
    before_tokens: int
    after_tokens: int
    reason: str | None = None


class CloseAnswer(Answer, frozen=True, omit_defaults=True):
    """`conversation/close` and `session/close`: how it was closed."""

    closed: bool
    already_closed: bool
    forced: bool
    kept_worktree: str | None = None
    """The worktree of the conversation that stays because something in it is not committed."""


class HistoryEntry(Answer, frozen=True, omit_defaults=True):
    """One message in the answer to `conversation/history`."""

    role: Literal["user", "assistant"]
    attachments: list[dict[str, str]]
    text: str | None = None


class HistoryAnswer(Answer, frozen=True):
    """`conversation/history`: messages, the oldest first."""

    entries: list[HistoryEntry]


class ToolInfo(Answer, frozen=True, omit_defaults=True):
    """One tool in the answer to `conversation/tools`."""

    name: str
    source: ToolSource
    digest: str
    server: str | None = None


class ToolList(Answer, frozen=True):
    """`conversation/tools`, in the order the model gets them."""

    tools: list[ToolInfo]
    cache_key: str


class TaskInfo(Answer, frozen=True):
    """One task of `task/list` and `task/get`."""

    task_id: TaskId
    conversation_id: ConversationId
    kind: str
    status: Literal["queued", "running", "completed", "failed", "interrupted"]
    started_at: str | None
    chain: list[ConversationId]
    last_assistant_message: str | None = None
    worktree: WorktreeReport | None = None


class TaskList(Answer, frozen=True):
    """`task/list`: what runs, then what waits, the next one first."""

    tasks: list[TaskInfo]


class CancelAnswer(Answer, frozen=True):
    """`task/cancel`: whether the task was cancelled."""

    cancelled: bool


class MessageAnswer(Answer, frozen=True, omit_defaults=True):
    """`conversation/message`: how the task ended, and its last message."""

    task_id: TaskId
    status: ReplyStatus
    last_assistant_message: str | None
    usage: Usage
    tool_calls: int
    duration_ms: int
    trace_id: str
    error: Failure | None = None
    worktree: WorktreeReport | None = None
    """What a conversation that has a worktree has come to there."""


class DetachAnswer(Answer, frozen=True):
    """`conversation/message` with `detach`: the id of the task."""

    task_id: TaskId


def message_answer(reply: Reply) -> MessageAnswer:
    """A reply in wire spelling."""
    counted = reply.usage, reply.tool_calls, round(reply.duration * 1000)
    return MessageAnswer(reply.task_id, reply.status, reply.text, *counted, reply.trace_id, reply.error, reply.worktree)
