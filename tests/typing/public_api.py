"""The public API as a stranger types it in. Read by mypy and by pyright, both strict; never run.

Each wrong line carries the one error that it must give. Should a checker ever let it pass, the comment is unnecessary,
which both checkers report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, assert_never

import msgspec
import pydantic

import tertulia
from tertulia.testing import RecordedEvents, ScriptedModel, call, say


@dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    corner: Point


class Entry(TypedDict):
    size: int


class Model(pydantic.BaseModel):
    name: str


@tertulia.tool(read_only=True)
def price(drink: str, cups: int = 1) -> float:
    """What a drink costs."""
    return 2.5 * cups


def plain(text: str) -> str:
    """A typed function needs no decorator."""
    return text


async def what_is_right(session: tertulia.Session) -> None:
    conversation = await session.open(
        base_instructions="You review code.",
        tools=[price, plain],
        mcp_tool_allowlist=["fs__read", "web__*"],
        include_plan_tool=False,
        shell_mode="none",
        model=ScriptedModel([say("hi", call("price", {"drink": "tea"}))]),
        agent={"name": "ada", "archetype": "employee"},
        approval_policy="on-request",
        sandbox="read-only",
        storage_policy=tertulia.Ttl(3600),
        limits={"max_output_bytes": 1000, "task_timeout_s": None},
        parent_id=session.root.id,
    )
    await conversation.set_context(title=None, storage_policy={"ttl": 60}, refresh_mcp_view=True)
    options: tertulia.MessageOptions = {"message_id": "m1", "if_busy": "fail"}
    await conversation.message("hi", **options)
    fields: tertulia.ConversationFields = {"title": "helper", "visibility": "subtree"}
    await session.open(**fields)
    cost: float = price("tea", cups=2)
    assert cost == 5.0


async def what_is_wrong(session: tertulia.Session) -> None:
    await session.open(base_instruction="…")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await session.open(title=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.open(sandbox="readonly")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.open(tools=["price"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    await session.open(limits={"max_output": 1})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.open(storage_policy="forever")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.open(agent={"archetype": "repo"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.root.set_context(parent_id="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await session.root.set_context(shell_mode="bash")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.root.message("hi", if_bussy="fail")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await session.root.message("hi", if_busy="no")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await session.root.message(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    tertulia.Settings(modle="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tertulia.Settings(network="on")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tertulia.Settings(approval_policy="always")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    price(drink=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for event in RecordedEvents(session).seen:
        assert event.data.text  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def of_typed_output(conversation: tertulia.Conversation) -> None:
    reply = await conversation.message("Where?", output_type=Point, sender="ada")
    x: int = reply.output.x
    known: tertulia.Reply = reply.raise_for_status()
    same: tertulia.TypedReply[Point] = reply.raise_for_status()
    point: Point = (await conversation.message("Where?", output_type=Box)).output.corner
    size: int = (await conversation.message("What?", output_type=Entry)).output["size"]
    stream = conversation.stream("Who?", output_type=Model, approver=True)
    async for event in stream:
        assert event.type
    name: str = (await stream.reply()).output.name
    fields: tertulia.MessageOptions = {"message_id": "m", "output_schema": {"type": "object"}}
    plain: tertulia.Reply = await conversation.message("Hm?", **fields)
    text: str | None = plain.raise_for_status().text
    errors: tuple[str, ...] = plain.error.errors if plain.error else ()
    at: int = tertulia.run("Where?", tertulia.Settings(model="a/b"), output_type=Point).output.y
    assert [x, known, same, point, size, name, text, errors, at]


async def of_wrong_output(conversation: tertulia.Conversation) -> None:
    reply = await conversation.message("Where?", output_type=Point)
    assert reply.output.z  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    plain = await conversation.message("Hm?")
    assert plain.output  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def of_message(event: tertulia.Event) -> str:
    match event.data:
        case tertulia.AgentMessage(text=text) | tertulia.AgentMessageDelta(text=text):
            return text
        case tertulia.ToolCallEnd() as end:
            return end.output if end.success else end.name
        case _:
            return ""


def of_item(item: tertulia.Item) -> str:
    match item:
        case tertulia.UserMessage() | tertulia.AssistantMessage() | tertulia.ToolOutput():
            return item.text
        case tertulia.Reasoning() | tertulia.Summary():
            return item.text
        case tertulia.ToolCall():
            return item.arguments
        case _:
            assert_never(item)


def of_item_incomplete(item: tertulia.Item) -> str:
    match item:
        case tertulia.UserMessage() | tertulia.AssistantMessage() | tertulia.ToolOutput():
            return item.text
        case tertulia.ToolCall():
            return item.arguments
        case _:
            assert_never(item)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def of_policy(policy: tertulia.StoragePolicy) -> float | None:
    match policy:
        case tertulia.Ttl(seconds):
            return seconds
        case tertulia.Full() | tertulia.HeadersOnly() | tertulia.NoStorage():
            return None
        case _:
            assert_never(policy)


def is_durable(data: tertulia.EventData) -> bool:
    """Complete: a new kind of event is an error here, as it is in a program that wants to know of all."""
    match data:
        case (
            tertulia.SessionConfigured()
            | tertulia.SessionPreparing()
            | tertulia.SessionContextReady()
            | tertulia.ConversationOpened()
            | tertulia.ConversationContextChanged()
            | tertulia.ConversationClosed()
            | tertulia.ConversationCloseForced()
            | tertulia.TaskStarted()
            | tertulia.TaskContinued()
            | tertulia.UserMessageEvent()
            | tertulia.MessageQueued()
            | tertulia.MessageTakenBack()
            | tertulia.RightsWidened()
            | tertulia.TaskComplete()
            | tertulia.TurnAborted()
            | tertulia.AgentMessage()
            | tertulia.AgentReasoning()
            | tertulia.TokenCount()
            | tertulia.HistoryCompacted()
            | tertulia.BackgroundEvent()
            | tertulia.WarningEvent()
            | tertulia.ErrorEvent()
            | tertulia.ForeignEvent()
            | tertulia.ToolCallBegin()
            | tertulia.ToolCallEnd()
            | tertulia.ExecCommandBegin()
            | tertulia.ExecCommandEnd()
            | tertulia.PatchApplyBegin()
            | tertulia.PatchApplyEnd()
            | tertulia.McpToolCallBegin()
            | tertulia.McpToolCallEnd()
            | tertulia.McpServerStatus()
            | tertulia.McpToolsChanged()
            | tertulia.WebSearchBegin()
            | tertulia.NetworkAccess()
            | tertulia.WebSearchEnd()
            | tertulia.PlanUpdate()
            | tertulia.HookDecision()
            | tertulia.ApprovalRequest()
            | tertulia.ApprovalResolved()
            | tertulia.ElicitationRequest()
            | tertulia.ElicitationResolved()
            | tertulia.CanvasUpdated()
            | tertulia.CheckpointEvent()
        ):
            return True
        case (
            tertulia.AgentMessageDelta()
            | tertulia.AgentReasoningDelta()
            | tertulia.SubscriberLagged()
            | tertulia.ExecCommandOutputDelta()
            | tertulia.McpToolCallProgress()
        ):
            return False
        case _:
            assert_never(data)
