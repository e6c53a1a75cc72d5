"""The public API is one sorted list, and this is it."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Literal, Union, get_origin

import pytest

import tertulia
import tertulia.testing
from tests.tables import each_row

PUBLIC = [
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
FOR_TESTS = [
    "FakeClock",
    "Match",
    "RecordedEvents",
    "ScriptedAnswer",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "ScriptedRequest",
    "assert_order",
    "call",
    "check_invariants",
    "fail",
    "say",
]
SESSION = [
    *(
        "approvals",
        "checkpoints",
        "close",
        "closed",
        "conversation",
        "conversations",
        "events",
        "id",
        "info",
        "map",
        "metrics",
    ),
    *("open", "resume", "root", "start"),
]
SESSION_FOR_SURFACES = ["activity", "mcp"]
"""What the surfaces in `server` and `cli` use besides. Not promised to programs that import tertulia."""
CONVERSATION = [
    *("close", "compact", "context", "fork", "history", "id", "info", "interrupt", "merge", "message"),
    "set_context",
    *("steer", "stream", "take_back", "tools", "undo", "warnings"),
]
CONVERSATION_FOR_SURFACES = ["call_conv_tool", "details", "served_tools", "submit"]


def test_the_list_is_sorted_and_exactly_what_was_promised() -> None:
    """A new name is a promise for years: it is added here, in review, or not at all."""
    assert tertulia.__all__ == sorted(tertulia.__all__)
    assert tertulia.__all__ == PUBLIC
    assert tertulia.testing.__all__ == sorted(tertulia.testing.__all__) == FOR_TESTS


@each_row("name", PUBLIC)
def test_every_name_resolves_and_says_what_it_is(name: str) -> None:
    value = getattr(tertulia, name)
    assert value is getattr(tertulia, name)
    assert isinstance(value, str) or value.__doc__ or get_origin(value) in (Literal, Union)


@each_row("name", FOR_TESTS)
def test_every_name_for_tests_resolves(name: str) -> None:
    assert getattr(tertulia.testing, name).__doc__


def test_nothing_else_is_public() -> None:
    """Besides the list there are only our own stages, which are not promised."""
    stages = {module.name for module in pkgutil.iter_modules(tertulia.__path__)}
    assert dir(tertulia) == PUBLIC
    seen = {name for name in vars(tertulia) if not name.startswith("_")}
    assert seen - set(PUBLIC) - stages <= {"Any", "TYPE_CHECKING", "annotations", "import_module"}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Sesion"):
        tertulia.Sesion  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("tertulia.nonsense")


def test_a_star_import_brings_the_list() -> None:
    namespace: dict[str, object] = {}
    exec("from tertulia import *", namespace)  # noqa: S102
    assert sorted(name for name in namespace if name != "__builtins__") == PUBLIC


@pytest.mark.parametrize(
    ("kind", "promised", "for_surfaces"),
    [
        (tertulia.Session, SESSION, SESSION_FOR_SURFACES),
        (tertulia.Conversation, CONVERSATION, CONVERSATION_FOR_SURFACES),
    ],
)
def test_sessions_and_conversations_can_do_what_the_contract_says(
    kind: type, promised: list[str], for_surfaces: list[str]
) -> None:
    """DESIGN, Contract, Python: exactly these; `parts` is the inside, for the operation set."""
    public = {name for name in dir(kind) if not name.startswith("_") and name != "parts"}
    assert sorted(public - set(for_surfaces)) == promised
    assert set(for_surfaces) <= public


def test_a_reply_has_what_the_contract_says() -> None:
    assert {"text", "status", "usage", "tool_calls", "duration", "task_id", "trace_id"} <= set(
        tertulia.Reply.__struct_fields__
    )
