"""Tertulia: one session, many isolated conversations.

    async with tertulia.Session.start(tertulia.Settings(model="scripted/tour")) as session:
        reply = await session.root.message("What can you do?")
        print(reply.text)

Names are loaded when they are first used: `import tertulia` stays quick, whatever the package grows into.
"""

from __future__ import annotations

from importlib import import_module

from tertulia.version import __version__

# Type checkers take this name for true. The constant of `typing` would cost most of what `import tertulia` costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    # For type checkers and editors, which do not follow __getattr__. At run time `_NAMES` says the same.
    from typing import Any

    from tertulia import errors
    from tertulia.context.agent_meta import AgentInstanceMeta
    from tertulia.context.definitions import McpServerStdio, ToolDefinition, ToolScope
    from tertulia.context.injector import SessionContextInjector
    from tertulia.context.provider import ContextProvider, SessionContext
    from tertulia.context.providers.canvas import CanvasContextProvider
    from tertulia.context.providers.identity import CoreContextProvider
    from tertulia.context.templates import load_template, render_template
    from tertulia.context.tokens import SessionToken, SessionTokenStore
    from tertulia.errors import TertuliaError
    from tertulia.executors.prompt.history_prompt import build_executor_prompt_with_history
    from tertulia.protocol.events import (
        AgentMessage,
        AgentMessageDelta,
        AgentReasoning,
        AgentReasoningDelta,
        BackgroundEvent,
        CheckpointEvent,
        ConversationClosed,
        ConversationCloseForced,
        ConversationContextChanged,
        ConversationOpened,
        ErrorEvent,
        Event,
        EventData,
        ForeignEvent,
        HistoryCompacted,
        SessionConfigured,
        SessionContextReady,
        SessionPreparing,
        SubscriberLagged,
        TaskComplete,
        TaskContinued,
        TaskStarted,
        TokenCount,
        TurnAborted,
        WarningEvent,
    )
    from tertulia.protocol.items import (
        AssistantMessage,
        ImagePart,
        Item,
        Part,
        Reasoning,
        Summary,
        TextPart,
        ToolCall,
        ToolOutput,
        Usage,
        UserMessage,
    )
    from tertulia.protocol.message_events import (
        Attachment,
        MessageQueued,
        MessageTakenBack,
        RightsWidened,
        UserMessageEvent,
    )
    from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
    from tertulia.protocol.tool_events import (
        ApprovalFile,
        ApprovalRequest,
        ApprovalResolved,
        CanvasUpdated,
        Decider,
        ElicitationRequest,
        ElicitationResolved,
        ExecCommandBegin,
        ExecCommandEnd,
        ExecCommandOutputDelta,
        HookDecision,
        McpServerStatus,
        McpToolCallBegin,
        McpToolCallEnd,
        McpToolCallProgress,
        McpToolsChanged,
        NetworkAccess,
        PatchApplyBegin,
        PatchApplyEnd,
        PlanStep,
        PlanUpdate,
        ToolCallBegin,
        ToolCallEnd,
        WebSearchBegin,
        WebSearchEnd,
    )
    from tertulia.scheduler.reply import Failure, Reply, TypedReply
    from tertulia.session.approvals.callback import ApprovalDecision
    from tertulia.session.handle import Conversation
    from tertulia.session.host import Host, run
    from tertulia.session.inputs import MessageOptions
    from tertulia.session.messages.fan_out import MappedReply
    from tertulia.session.messages.stream import ReplyStream
    from tertulia.session.session import Session
    from tertulia.session.settings.conversation_fields import AgentFields, ConversationFields, LimitFields
    from tertulia.session.settings.settings import Settings
    from tertulia.tools.function import tool
    from tertulia.tools.tool import CallContext, Handoff, Result

_NAMES: dict[str, tuple[str, ...]] = {
    "tertulia.context.agent_meta": ("AgentInstanceMeta",),
    "tertulia.context.definitions": ("McpServerStdio", "ToolDefinition", "ToolScope"),
    "tertulia.context.injector": ("SessionContextInjector",),
    "tertulia.context.provider": ("ContextProvider", "SessionContext"),
    "tertulia.context.providers.canvas": ("CanvasContextProvider",),
    "tertulia.context.providers.identity": ("CoreContextProvider",),
    "tertulia.context.templates": ("load_template", "render_template"),
    "tertulia.context.tokens": ("SessionToken", "SessionTokenStore"),
    "tertulia.errors": ("TertuliaError",),
    "tertulia.executors.prompt.history_prompt": ("build_executor_prompt_with_history",),
    "tertulia.protocol.events": (
        "AgentMessage", "AgentMessageDelta", "AgentReasoning", "AgentReasoningDelta", "BackgroundEvent",
        "CheckpointEvent", "ConversationCloseForced", "ConversationClosed", "ConversationContextChanged",
        "ConversationOpened", "ErrorEvent", "Event", "EventData", "ForeignEvent", "HistoryCompacted",
        "SessionConfigured", "SessionContextReady", "SessionPreparing", "SubscriberLagged", "TaskComplete",
        "TaskContinued", "TaskStarted", "TokenCount", "TurnAborted", "WarningEvent",
    ),
    "tertulia.protocol.items": (
        "AssistantMessage", "ImagePart", "Item", "Part", "Reasoning", "Summary", "TextPart", "ToolCall",
        "ToolOutput", "Usage", "UserMessage",
    ),
    "tertulia.protocol.message_events": (
        "Attachment", "MessageQueued", "MessageTakenBack", "RightsWidened", "UserMessageEvent",
    ),
    "tertulia.protocol.storage": ("Full", "HeadersOnly", "NoStorage", "StoragePolicy", "Ttl"),
    "tertulia.protocol.tool_events": (
        "ApprovalFile", "ApprovalRequest", "ApprovalResolved", "CanvasUpdated", "Decider",
        "ElicitationRequest", "ElicitationResolved", "ExecCommandBegin", "ExecCommandEnd",
        "ExecCommandOutputDelta", "HookDecision", "McpServerStatus", "McpToolCallBegin", "McpToolCallEnd",
        "McpToolCallProgress", "McpToolsChanged", "NetworkAccess", "PatchApplyBegin", "PatchApplyEnd", "PlanStep",
        "PlanUpdate", "ToolCallBegin", "ToolCallEnd", "WebSearchBegin", "WebSearchEnd",
    ),
    "tertulia.scheduler.reply": ("Failure", "Reply", "TypedReply"),
    "tertulia.session.approvals.callback": ("ApprovalDecision",),
    "tertulia.session.settings.conversation_fields": ("AgentFields", "ConversationFields", "LimitFields"),
    "tertulia.session.handle": ("Conversation",),
    "tertulia.session.host": ("Host", "run"),
    "tertulia.session.messages.fan_out": ("MappedReply",),
    "tertulia.session.inputs": ("MessageOptions",),
    "tertulia.session.messages.stream": ("ReplyStream",),
    "tertulia.session.session": ("Session",),
    "tertulia.session.settings.settings": ("Settings",),
    "tertulia.tools.function": ("tool",),
    "tertulia.tools.tool": ("CallContext", "Handoff", "Result"),
}  # fmt: skip
"""Where each public name is defined."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "AgentFields",
    "AgentInstanceMeta",
    "AgentMessage",
    "AgentMessageDelta",
    "AgentReasoning",
    "AgentReasoningDelta",
    "ApprovalDecision",
    "ApprovalFile",
    "ApprovalRequest",
    "ApprovalResolved",
    "AssistantMessage",
    "Attachment",
    "BackgroundEvent",
    "CallContext",
    "CanvasContextProvider",
    "CanvasUpdated",
    "CheckpointEvent",
    "ContextProvider",
    "Conversation",
    "ConversationCloseForced",
    "ConversationClosed",
    "ConversationContextChanged",
    "ConversationFields",
    "ConversationOpened",
    "CoreContextProvider",
    "Decider",
    "ElicitationRequest",
    "ElicitationResolved",
    "ErrorEvent",
    "Event",
    "EventData",
    "ExecCommandBegin",
    "ExecCommandEnd",
    "ExecCommandOutputDelta",
    "Failure",
    "ForeignEvent",
    "Full",
    "Handoff",
    "HeadersOnly",
    "HistoryCompacted",
    "HookDecision",
    "Host",
    "ImagePart",
    "Item",
    "LimitFields",
    "MappedReply",
    "McpServerStatus",
    "McpServerStdio",
    "McpToolCallBegin",
    "McpToolCallEnd",
    "McpToolCallProgress",
    "McpToolsChanged",
    "MessageOptions",
    "MessageQueued",
    "MessageTakenBack",
    "NetworkAccess",
    "NoStorage",
    "Part",
    "PatchApplyBegin",
    "PatchApplyEnd",
    "PlanStep",
    "PlanUpdate",
    "Reasoning",
    "Reply",
    "ReplyStream",
    "Result",
    "RightsWidened",
    "Session",
    "SessionConfigured",
    "SessionContext",
    "SessionContextInjector",
    "SessionContextReady",
    "SessionPreparing",
    "SessionToken",
    "SessionTokenStore",
    "Settings",
    "StoragePolicy",
    "SubscriberLagged",
    "Summary",
    "TaskComplete",
    "TaskContinued",
    "TaskStarted",
    "TertuliaError",
    "TextPart",
    "TokenCount",
    "ToolCall",
    "ToolCallBegin",
    "ToolCallEnd",
    "ToolDefinition",
    "ToolOutput",
    "ToolScope",
    "Ttl",
    "TurnAborted",
    "TypedReply",
    "Usage",
    "UserMessage",
    "UserMessageEvent",
    "WarningEvent",
    "WebSearchBegin",
    "WebSearchEnd",
    "__version__",
    "build_executor_prompt_with_history",
    "errors",
    "load_template",
    "render_template",
    "run",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "testing"):
        return import_module(f"tertulia.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tertulia' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
