"""What a conversation can be given from Python, as typed keywords of `Session.open` and `Conversation.set_context`.

Only names, types and what each field does: values are parsed by `session.inputs` and narrowed by
`conversation.resolve_terms`. A type checker needs them spelled out; `tests/protocol/test_conversation_fields.py` holds
them to the table in `protocol.conversation_fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.models.wire import Wire
from tertulia.policy.approval_policy import ApprovalName, ApprovalPolicy
from tertulia.protocol.conversation_fields import (
    OnRestart,
    ReasoningEffort,
    SandboxName,
    ShellMode,
    ToolProfile,
    Visibility,
)
from tertulia.protocol.storage import StorageName, StoragePolicy
from tertulia.protocol.worktree import WorkspaceKind
from tertulia.tools.tool import Tool


class AgentFields(TypedDict, total=False):
    """The agent that a conversation is to be."""

    name: Required[str]
    archetype: str
    """`repo` (default), `service` or `employee`."""
    backend_type: str
    """Who does its work: `native` (default), or a backend by its name."""
    workspace_policy: Literal["persistent", "ephemeral"]
    launch_mode: Literal["managed", "direct"]


class TtlTable(TypedDict):
    """A storage policy in wire spelling: each text is removed after so many seconds."""

    ttl: float


class HostTable(TypedDict, total=False):
    """Hosts that commands reach, and hosts that they do not; see docs/network.md."""

    allow: Sequence[str]
    deny: Sequence[str]


class LimitFields(TypedDict, total=False):
    """Numbers that bound a conversation; None takes a limit away, as far as the session allows. See `[limits]`."""

    mcp_concurrency: int | None
    mcp_rate_per_s: float | None
    mcp_wait_s: float | None
    max_history_tokens: int | None
    max_history_items: int | None
    compact_at: float | None
    max_interrupt_chain_depth: int | None
    max_chain_conversations: int | None
    max_task_interrupts: int | None
    max_conversations: int | None
    max_output_bytes: int | None
    task_timeout_s: float | None
    target_timeout_s: float | None
    target_wait_s: float | None
    max_parallel_targets: int | None
    max_network_connections: int | None
    max_network_bytes: int | None
    network_connection_s: float | None


class ConversationFields(TypedDict, total=False):
    """The fields of a conversation. When it is opened, an absent field is inherited; in a change, it is kept.

    None is the default in both. More than the session allows is not an error: what is allowed is given, and
    `Conversation.context()` lists the difference under `narrowed`.
    """

    base_instructions: str | None
    """The system instructions; None: those of the model's family."""
    user_instructions: str | None
    """Stands before the first message."""
    project_instructions: bool | None
    """Whether it is told what the `AGENTS.md` files of its project say."""
    tools: Sequence[Tool | Callable[..., Any]] | None
    """Python functions that only this conversation can call: `@tertulia.tool` functions or plain typed ones.

    A child does not inherit them, a fork has them, and a stored session does not keep them: give them again with
    `set_context(tools=[…])` after a resume.
    """
    mcp_tool_allowlist: Sequence[str] | None
    """`server__tool` or `server__*`; None: every tool of every MCP server."""
    include_plan_tool: bool | None
    """Whether the model has `update_plan`."""
    include_apply_patch_tool: bool | None
    """Whether the model has `apply_patch`, or `edit` and `write`."""
    include_conv_tools: bool | None
    """Whether there are `conv_create` and the other conversation tools."""
    tools_web_search_request: bool | None
    """Whether there is the provider's own `web_search`."""
    include_fetch_tool: bool | None
    """Whether the model has `fetch`, which reads pages of hosts that it may reach."""
    shell_mode: ShellMode | None
    """The form of the shell; `none`: no shell, and no tool that looks at files."""
    tool_profile: ToolProfile | None
    """Which tools the model edits files with; None: those that it was trained on."""
    model: str | Wire | None
    """The model as `provider/model`, or a wire."""
    fallback_models: Sequence[str] | None
    """Models as `provider/model` that answer instead, in this order, where its own has finally failed."""
    reasoning_effort: ReasoningEffort | None
    """The model's reasoning effort, one of the words of its API; None: the model decides."""
    temperature: float | None
    """The model's sampling temperature, from 0 to 2."""
    max_output_tokens: int | None
    """The most tokens of one answer."""
    backend: str | None
    """Who does the work: `native`, `codex`, `claude`, `command:NAME` or `acp:NAME`."""
    agent: AgentInstanceMeta | AgentFields | str | None
    """The agent that it is, by the name of one that is set up (`Settings(agents={…})`), whose fields it gets as far as
    it is given none itself; or an identity, about which context providers are asked. Only when it is opened."""
    cwd: str | None
    """Where it works: an absolute path."""
    workspace: WorkspaceKind | None
    """`worktree`: a git worktree of its own, on a branch of its own. Only when it is opened."""
    approval_policy: ApprovalPolicy | ApprovalName | Mapping[str, object] | None
    """When a person is asked."""
    sandbox: SandboxName | None
    """How its commands are confined."""
    network: bool | HostTable | None
    """Which hosts its commands reach: none, all, or those of a list."""
    allow_git: bool | None
    """Whether single `git add`, `commit`, `branch` and `tag` write its repository."""
    storage_policy: StoragePolicy | StorageName | TtlTable | None
    """What of it may be written down."""
    limits: LimitFields | None
    """Those that are named; the others stay."""
    title: str | None
    """A short name for lists."""
    visibility: Visibility | None
    """Which conversations it can list, read and send to."""
    on_restart: OnRestart | None
    """Whether its tasks that a crash cut go on when the session is resumed to `continue`; None: they are closed."""


class AgentTable(ConversationFields, total=False):
    """An agent that is set up: `[agents.NAME]`. Its fields are asked for when a conversation is opened as this agent;
    `agent`, `cwd` and `title` are not among them.
    """

    description: str
    """What it is for: models that may delegate choose by it."""
    instructions: str
    """Its base instructions, word for word."""
    instructions_file: str
    """An absolute path, instead: read when a conversation is opened."""
