"""What makes a conversation itself: its context, its preferences, and the terms it runs under."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, Literal, cast

import msgspec

from tertulia.context.surroundings import Surroundings
from tertulia.mcp.view import McpView
from tertulia.models.wire import ModelSettings, Wire
from tertulia.policy.approval_policy import ON_REQUEST, ApprovalPolicy
from tertulia.policy.rights import Rights
from tertulia.prompt.tool_list import has_provider_tools, usual_profile
from tertulia.protocol.conversation_fields import TOOL_SWITCHES, ReasoningEffort, SandboxMode, ShellMode, ToolProfile
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_spec import TEXT_EDITOR, ToolSpec
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


ToolForm = ToolProfile | Literal["provider"]
"""A profile, or the provider's own types for the tools of one."""

_ToolSwitches = msgspec.defstruct("_ToolSwitches", [(s.short_name, bool) for s in TOOL_SWITCHES.values()], frozen=True)


class ToolsPrefs(_ToolSwitches, frozen=True):
    """Which built-in tools the conversation has, after narrowing: a switch for each row of the table, and forms."""

    shell_mode: ShellMode
    tool_profile: ToolProfile = "patch"
    provider_tools: bool = False
    """Whether the provider's own types stand for the tools of the profile `editor`."""

    @property
    def shell_form(self) -> ToolForm:
        """The form of the shell that takes one command a call."""
        return "provider" if self.provider_tools else self.tool_profile

    @property
    def file_form(self) -> ToolForm:
        """The form of the tools that view and change files.

        The provider's one tool does both: it is left out where one of both is not allowed.
        """
        whole = self.provider_tools and self.shell_mode != "none" and self.has_tool(TEXT_EDITOR)
        return "provider" if whole else self.tool_profile

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
    fallback_models: tuple[str, ...] = ()
    """Who answers instead, in this order, where its model has finally failed."""
    project_instructions: bool | None = None
    """Whether it is told what files of its project say about working there."""
    tool_profile: ToolProfile | None = None
    """As asked; None derives it from the model."""
    worktree: OwnWorktree | None = None
    """Where it works, where that is not the session's own directory: its own, or the one that its caller has."""
    surroundings: Surroundings | None = None
    """The machine and the repository, as they were when it was opened; None where it is told nothing of them."""
    unattended: bool = False
    """No person is at this session, and models are told so."""

    @property
    def model_settings(self) -> ModelSettings:
        """How the model is asked to answer."""
        return ModelSettings(self.reasoning_effort, self.temperature, self.max_output_tokens)


def tool_preferences(
    rights: Rights, wire: Wire, shell_mode: ShellMode | None, tool_profile: ToolProfile | None = None
) -> ToolsPrefs:
    """The preferences within the rights, for this model; equal ones are one object."""
    profile = tool_profile or usual_profile(wire.name, wire.family)
    provider = profile == "editor" and has_provider_tools(wire.name, wire.dialect.name)
    return _prefs(_switches(rights), _shell(rights, shell_mode, wire.family), profile, provider)


def _shell(rights: Rights, requested: ShellMode | None, family: str) -> ShellMode:
    if not rights.shell:
        return "none"
    if requested is not None:
        return requested
    if rights.approval_policy == ON_REQUEST:
        return "with_request"
    return "local" if family in _LOCAL_SHELL else "default"


@cache
def _prefs(switches: tuple[bool, ...], shell: ShellMode, profile: ToolProfile, provider: bool) -> ToolsPrefs:
    form = {"shell_mode": shell, "tool_profile": profile, "provider_tools": provider}
    return ToolsPrefs(*cast("tuple[Any, ...]", switches), **cast("dict[str, Any]", form))
