"""What makes a conversation itself: its context, its preferences, and the terms it runs under."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec

from tertulia.mcp.view import McpView
from tertulia.models.wire import ModelSettings, Wire
from tertulia.policy.approval_policy import ON_REQUEST, ApprovalPolicy
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import TOOL_SWITCHES, ReasoningEffort, SandboxMode, ShellMode
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.protocol.worktree import OwnWorktree
from tertulia.tools.tool import Tool


class ContextAddition(msgspec.Struct, frozen=True):
    """A text that a context provider gave the agent."""

    provider: str
    text: str
    tokens: int


class Agent(msgspec.Struct, frozen=True):
    """An agent instance. A new object when its providers contribute something new."""

    name: str
    archetype: str
    meta: dict[str, Any]
    """Its description in wire spelling, from which it is made again after a resume."""
    additions: tuple[ContextAddition, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    """Internal tools, in the order of the providers."""


NATIVE = "native"
"""The backend that is the turn loop here; every other one is another program."""

_LOCAL_SHELL = frozenset({"codex-mini"})
"""Model families that were trained on their provider's own `local_shell`."""


_ToolSwitches = msgspec.defstruct("_ToolSwitches", [(s.short_name, bool) for s in TOOL_SWITCHES.values()], frozen=True)


class ToolsPrefs(_ToolSwitches, frozen=True):
    """Which built-in tools the conversation has, after narrowing: a switch for each row of the table, and the shell."""

    shell_mode: ShellMode

    def has_tool(self, name: str) -> bool:
        """Whether the switch of this built-in tool is on; a tool that has none is always there."""
        short_name = _SHORT_NAMES.get(name)
        return short_name is None or cast("bool", getattr(self, short_name))


_SHORT_NAMES = {tool: switch.short_name for switch in TOOL_SWITCHES.values() for tool in switch.tools}
_switches = attrgetter(*TOOL_SWITCHES)


class ConversationContext(msgspec.Struct, frozen=True):
    """The part of the prompt that belongs to one conversation alone."""

    base_instructions: str | None
    user_instructions: str | None
    mcp_view: McpView
    tools_prefs: ToolsPrefs


class TurnContext(msgspec.Struct, frozen=True):
    """What one turn needs besides the conversation's own context; resolved again for each turn."""

    client: Wire
    cwd: str
    approval_policy: ApprovalPolicy
    sandbox_policy: SandboxMode
    shell_environment_policy: dict[str, object]
    storage_policy: StoragePolicy


class Terms(msgspec.Struct, frozen=True):
    """Everything that `open` and `set_context` decide, effective and narrowed. Replaced whole, never changed."""

    context: ConversationContext
    rights: Rights
    wire: Wire
    backend: str
    cwd: str
    shell_mode: ShellMode | None
    """As asked; None derives it from the approval policy and the model's family."""
    agent: Agent | None = None
    """The agent that it was opened as. No other conversation inherits it."""
    functions: tuple[Tool, ...] = ()
    """Python functions that only this conversation can call. A child does not inherit them, a fork has them."""
    reasoning_effort: ReasoningEffort | None = None
    """Of the model's answers; these three are None where the provider or the model decides."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    project_instructions: bool | None = None
    """Whether it is told what files of its project say about working there."""
    worktree: OwnWorktree | None = None
    """Where it works, where that is not the session's own directory: its own, or the one that its caller has."""
    unattended: bool = False
    """No one can answer approvals in this session, and models are told so."""

    @property
    def model_settings(self) -> ModelSettings:
        """How the model is asked to answer."""
        return ModelSettings(self.reasoning_effort, self.temperature, self.max_output_tokens)


def tool_preferences(rights: Rights, shell_mode: ShellMode | None, family: str) -> ToolsPrefs:
    """The preferences within the rights; equal ones are one object."""
    return _prefs(_switches(rights), _shell(rights, shell_mode, family))


def _shell(rights: Rights, requested: ShellMode | None, family: str) -> ShellMode:
    if not rights.shell:
        return "none"
    if requested is not None:
        return requested
    if rights.approval_policy == ON_REQUEST:
        return "with_request"
    return "local" if family in _LOCAL_SHELL else "default"


@cache
def _prefs(switches: tuple[bool, ...], shell: ShellMode) -> ToolsPrefs:
    return ToolsPrefs(*cast("tuple[Any, ...]", switches), shell_mode=shell)
