"""The five conversation tools: with them a model opens conversations, sends to them, looks at them and closes them.

They know neither the scheduler nor the session: what they may see is a `VisibleConversations`, and to have another
conversation answer they return a `Handoff`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.approval_policy import ON_REQUEST
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import TOOL_SWITCHES, ToolProfile
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import InputItem, NewConversation, TextInput
from tertulia.protocol.tool_spec import CONV_MERGE, ToolSpec
from tertulia.protocol.validation_text import explain_validation
from tertulia.protocol.worktree import WorkspaceKind
from tertulia.tools.conv_results import TargetRendering, listing_result, shorten_echo, success_result
from tertulia.tools.images import WorkspaceImages
from tertulia.tools.tool import (
    CallContext,
    ChangingTool,
    Handoff,
    Outcome,
    ReadingTool,
    Rounds,
    Tool,
    VisibleConversations,
)
from tertulia.tools.workspace_file import read_text_inside

T = TypeVar("T")
NO_AGENTS: Mapping[str, str] = MappingProxyType({})

MAX_INSTRUCTION_BYTES = 256 * 1024
"""Of a file with base instructions."""
_ID = {"type": "string", "description": "As conv_create or conv_list gave it."}
_ITEMS = {
    "type": "array",
    "items": {"type": "object"},
    "description": "More input: {type: text, text}, {type: image, image_url} or {type: local_image, path}.",
}


def _spec(name: str, description: str, required: tuple[str, ...] = (), **properties: Any) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec.define(name, description, schema, source="conv")


def conv_tools(directory: VisibleConversations, agents: Mapping[str, str] = NO_AGENTS) -> tuple[Tool, ...]:
    """All five, in the order in which models see them. `agents`: name and description of those that are set up."""
    pictures = WorkspaceImages(lambda: directory.hidden)
    return (
        ConvCreate(directory, pictures, agents),
        ConvSend(directory, pictures),
        ConvList(directory),
        ConvHistory(directory),
        ConvDestroy(directory),
    )


MERGE_SPEC = _spec(
    CONV_MERGE,
    "Bring what a conversation that you opened has done in its worktree into your own workspace: three-way, all of it "
    "or nothing; conflicts are named. Does not interrupt.",
    ("conversation_id",),
    conversation_id=_ID,
    mode={
        "type": "string",
        "enum": ["apply", "commit"],
        "description": "apply (default): change the files only. commit: and commit them on the current branch.",
    },
)
"""Not in `conv_merge.py`, which is imported when the tool is first called."""


class _ConvTool:
    __slots__ = ("_directory",)

    def __init__(self, directory: VisibleConversations) -> None:
        self._directory = directory


class _SendingTool(_ConvTool):
    """A tool that hands input to another conversation."""

    __slots__ = ("_pictures",)

    def __init__(self, directory: VisibleConversations, pictures: WorkspaceImages) -> None:
        super().__init__(directory)
        self._pictures = pictures


_ToolSwitches = msgspec.defstruct(
    "_ToolSwitches", [(s.short_name, bool | UnsetType, UNSET) for s in TOOL_SWITCHES.values()], frozen=True
)


class _Internal(_ToolSwitches, frozen=True):
    """Which built-in tools the new conversation has; what is absent is inherited."""

    use_streamable_shell_tool: bool | UnsetType = UNSET


class _Create(msgspec.Struct, frozen=True):
    """The arguments of `conv_create`. An empty text is an absent one: some models fill in every parameter."""

    user_instruction: str = ""
    items: tuple[InputItem, ...] = ()
    base_instruction_text: str = ""
    base_instruction_file: str = ""
    mcp_allowlist: list[str] | UnsetType = UNSET
    internal_tools: _Internal = _Internal()
    model: str = ""
    backend: str = ""
    title: str = ""
    agent: str = ""
    workspace: WorkspaceKind = "shared"
    fork_history: int | Literal["none", "all"] = "none"
    tool_profile: ToolProfile | Literal[""] = ""

    def spec(self, rights: Rights, base: str) -> NewConversation:
        """The conversation to open. Fields that are not set are inherited from the caller."""
        internal = self.internal_tools
        switches: dict[str, Any] = {n: getattr(internal, switch.short_name) for n, switch in TOOL_SWITCHES.items()}
        switches["shell_mode"] = _shell_mode(internal.use_streamable_shell_tool, rights)
        switches["tool_profile"] = self.tool_profile or UNSET
        return NewConversation(
            base_instructions=base or UNSET,
            mcp_tool_allowlist=self.mcp_allowlist,
            model=self.model or UNSET,
            backend=self.backend or UNSET,
            title=self.title or UNSET,
            agent=self.agent or UNSET,
            workspace=self.workspace if self.workspace != "shared" else UNSET,
            **switches,
        )

    def echoed(self) -> dict[str, Any]:
        """What of the input is repeated in the answer."""
        fields: dict[str, Any] = {}
        if self.user_instruction:
            fields["first_user_message"] = shorten_echo(self.user_instruction)
        if self.items:
            fields["first_items_count"] = len(self.items)
        return fields


def _shell_mode(streamable: bool | UnsetType, rights: Rights) -> str | UnsetType:
    if streamable is UNSET or (not streamable and not rights.shell):
        return UNSET
    if streamable:
        return "streamable"
    return "with_request" if rights.approval_policy == ON_REQUEST else "default"


def create_spec(agents: Mapping[str, str]) -> ToolSpec:
    """The definition of `conv_create` where these agents are set up: name and description of each."""
    choice = {"agent": _agent_choice(agents)} if agents else {}
    return _spec(
        "conv_create",
        "Open a new conversation, give it a task and get its answer. It inherits your settings, never more. "
        "Interrupts: you are paused until it has answered; afterwards it stays open for conv_send.",
        (),
        user_instruction={"type": "string", "description": "The task. This or items is required."},
        base_instruction_text={"type": "string", "description": "Its system instructions; default: your own."},
        title={"type": "string", "description": "A short name for lists."},
        items=_ITEMS,
        base_instruction_file={
            "type": "string",
            "description": "A file of the workspace with its system instructions, instead of base_instruction_text.",
        },
        mcp_allowlist={
            "type": "array",
            "items": {"type": "string"},
            "description": "The MCP tools it may use, `server__tool` or `server__*`; default: yours.",
        },
        internal_tools={
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in _Internal.__struct_fields__},
            "additionalProperties": False,
            "description": "Switches of built-in tools; what is absent is as yours.",
        },
        model={"type": "string", "description": "provider/model; default: yours."},
        tool_profile={
            "type": "string",
            "enum": list(get_args(ToolProfile)),
            "description": "The tools it edits files with; default: as yours was set, or those of its model.",
        },
        backend={"type": "string", "description": "Who does its work; default: yours."},
        fork_history={
            "anyOf": [{"type": "string", "enum": ["none", "all"]}, {"type": "integer", "minimum": 1}],
            "description": "How much of this conversation it starts with: none (default), all, or the last n rounds.",
        },
        workspace={
            "type": "string",
            "enum": list(get_args(WorkspaceKind)),
            "description": "worktree: a git worktree of its own on a branch of its own, which begins as your workspace "
            "is now; shared (default): it works where you do.",
        },
        **choice,
    )


def _agent_choice(agents: Mapping[str, str]) -> dict[str, Any]:
    listed = "; ".join(f"{name}: {about}" if about else name for name, about in agents.items())
    about = f"An agent that is set up for a kind of task, with settings of its own, never more than yours. {listed}"
    return {"type": "string", "enum": list(agents), "description": about}


class ConvCreate(ChangingTool, _SendingTool):
    """`conv_create`: a new conversation takes its first turn, and its answer comes back as the call's output."""

    __slots__ = ("spec",)

    def __init__(self, directory: VisibleConversations, pictures: WorkspaceImages, agents: Mapping[str, str]) -> None:
        super().__init__(directory, pictures)
        self.spec = create_spec(agents)

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what could not be opened. The file is read later, before anything happens."""
        call.chain.check(call.rights.limits, opens=True)
        params = _read(arguments, _Create)
        _message(params.user_instruction, params.items, "user_instruction")
        if params.base_instruction_text and params.base_instruction_file:
            raise InvalidParamsError("base_instruction_text and base_instruction_file are mutually exclusive")
        self._directory.check_create(call, params.spec(call.rights, params.base_instruction_text))

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Hand the call over to a conversation that is yet to be opened."""
        params = _read(arguments, _Create)
        base = params.base_instruction_text
        if params.base_instruction_file:
            base = await read_text_inside(
                call.cwd,
                params.base_instruction_file,
                MAX_INSTRUCTION_BYTES,
                "base_instruction_file",
                call.hidden(self._directory.hidden),
            )
        items = await self._pictures.shown(params.items, call)
        message = _message(params.user_instruction, items, "user_instruction")
        shared: Rounds = None if params.fork_history == "none" else params.fork_history
        spec, began = await self._directory.prepare(call, params.spec(call.rights, base))
        return Handoff(spec, message, TargetRendering(params.echoed(), began), shared)


class _Send(msgspec.Struct, frozen=True):
    conversation_id: str
    text: str = ""
    items: tuple[InputItem, ...] = ()


class ConvSend(ChangingTool, _SendingTool):
    """`conv_send`: another conversation takes a turn, and its answer comes back as the call's output."""

    __slots__ = ()
    spec = _spec(
        "conv_send",
        "Send a message to another conversation and get its answer. "
        "Interrupts: you are paused until that conversation has answered.",
        ("conversation_id",),
        conversation_id=_ID,
        text={"type": "string", "description": "The message. Text or items are required."},
        items=_ITEMS,
    )

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what could not be delivered."""
        call.chain.check(call.rights.limits, opens=False)
        params = _read(arguments, _Send)
        _message(params.text, params.items, "text")
        self._directory.check_send(call, params.conversation_id)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        params = _read(arguments, _Send)
        message = _message(params.text, await self._pictures.shown(params.items, call), "text")
        return Handoff(ConversationId(params.conversation_id), message, TargetRendering())


class ConvList(ReadingTool, _ConvTool):
    """`conv_list`: which conversations there are."""

    __slots__ = ()
    spec = _spec(
        "conv_list",
        "List the conversations of this session: id, parent, title, status, depth, number of messages, last activity. "
        "Does not interrupt.",
    )

    def check(self, arguments: Any, call: CallContext) -> None:
        """There is nothing to refuse."""

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        return listing_result(
            "conversations", self._directory.list(call), call.rights.limits.max_output_bytes, first=True
        )


class ConvHistory(ReadingTool, _ConvTool):
    """`conv_history`: the messages of a conversation."""

    __slots__ = ()
    spec = _spec(
        "conv_history",
        "Read the messages of a conversation, oldest first, without tool calls. Does not interrupt.",
        ("conversation_id",),
        conversation_id=_ID,
        limit={"type": "integer", "minimum": 1, "description": "Only the newest so many messages."},
    )

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a conversation that does not exist."""
        self._directory.history(call, arguments["conversation_id"], 1)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        seen = self._directory.history(call, arguments["conversation_id"], arguments.get("limit"))
        return listing_result("entries", seen, call.rights.limits.max_output_bytes)


class ConvDestroy(ChangingTool, _ConvTool):
    """`conv_destroy`: a conversation is closed for good."""

    __slots__ = ()
    spec = _spec(
        "conv_destroy",
        "Close a conversation for good. Does not interrupt, unless it is this very conversation: then your turn ends.",
        ("conversation_id",),
        conversation_id=_ID,
    )

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse the root, what is not there, and what waits for an answer."""
        self._directory.check_destroy(call, arguments["conversation_id"])

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Close it. If the caller closes itself its task ends with this call, which still gets an output."""
        own, worktree = await self._directory.destroy(call, arguments["conversation_id"])
        return replace(success_result({} if worktree is None else {"kept_worktree": worktree}), ends_task=own)


def conv_specs(agents: Mapping[str, str]) -> tuple[ToolSpec, ...]:
    """The definitions of all five, in the order in which models see them."""
    return (create_spec(agents), *(tool.spec for tool in (ConvSend, ConvList, ConvHistory, ConvDestroy)))


CONV_SPECS = conv_specs(NO_AGENTS)
"""The definitions where no agent is set up."""


def _read(arguments: Any, kind: type[T]) -> T:
    """Check the items; the schema checks everything else."""
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(explain_validation(error, kind)) from None


def _message(text: str, items: tuple[InputItem, ...], name: str) -> tuple[InputItem, ...]:
    """Text first, then items; InvalidParams when there is neither."""
    message = (TextInput(text), *items) if text else items
    if not message:
        raise InvalidParamsError(f"give {name} or items, at least one of them")
    return message
