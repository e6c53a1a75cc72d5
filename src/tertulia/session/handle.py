"""A conversation as its user holds it. Light: it names a conversation of a session and keeps nothing itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, nullcontext
from typing import Any, Literal, Unpack

import msgspec

from tertulia.conversation.compaction import compact_by_model
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import InvalidParamsError, NotRunningError
from tertulia.history.compaction import Compaction
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.inputs import ChangeFromPython, GetHistory, InputItem, Message
from tertulia.scheduler.plan import TaskPlan
from tertulia.scheduler.reply import Reply
from tertulia.session import describe, submission
from tertulia.session.answers import (
    CloseAnswer,
    CompactAnswer,
    ContextInfo,
    ConversationInfo,
    HistoryEntry,
    InterruptAnswer,
    OpenAnswer,
    ToolInfo,
)
from tertulia.session.conversation_fields import ConversationFields
from tertulia.session.inputs import parse, parse_with_functions
from tertulia.session.parts import SessionParts
from tertulia.session.shutdown import close_conversation
from tertulia.session.transactions import change_conversation, fork_conversation

MessageContent = str | Sequence[InputItem | dict[str, Any]]


class Conversation:
    """One isolated talk of a session."""

    __slots__ = ("_parts", "id", "warnings")

    def __init__(self, parts: SessionParts, id: ConversationId, warnings: Sequence[str] = ()) -> None:
        self._parts = parts
        self.id = id
        self.warnings = tuple(warnings)
        """What was said when it was opened."""

    def __repr__(self) -> str:
        return f"<Conversation {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def info(self) -> ConversationInfo:
        """Title, status, depth, counts, model: what a list shows."""
        return describe.conversation(self._parts, self._parts.conversations.find(self.id))

    async def message(
        self,
        content: MessageContent,
        *,
        message_id: str | None = None,
        sender: str | None = None,
        if_busy: Literal["wait", "fail"] = "wait",
        output_schema: dict[str, Any] | None = None,
        task_type: Literal["code", "chat"] | None = None,
        previous_result: Any = None,
        base_instructions_override: str | None = None,
    ) -> Reply:
        """Say something and wait for the answer. A failed task is an answer: look at `Reply.status`.

        Cancelling the wait stops the task. The same `message_id` again gives the same answer, not a second run.
        `task_type` and `previous_result` are for conversations that another agent works for: how much it is told of
        earlier messages, and what the step before this one of a pipeline came to. `base_instructions_override` stands
        in place of the conversation's base instructions for this task only, its continuations included.
        """
        asked = self._asked(
            content,
            message_id=message_id,
            sender=sender,
            if_busy=if_busy,
            output_schema=output_schema,
            task_type=task_type,
            previous_result=previous_result,
            base_instructions_override=base_instructions_override,
        )
        scheduler = self._parts.scheduler
        chain = submission.submit(scheduler, self._parts.conversations.find(self.id), asked)
        return self._parts.agent_registry.cleaned(await submission.wait_for_reply(scheduler, chain))

    async def stream(
        self,
        content: MessageContent,
        *,
        message_id: str | None = None,
        sender: str | None = None,
        if_busy: Literal["wait", "fail"] = "wait",
        output_schema: dict[str, Any] | None = None,
        task_type: Literal["code", "chat"] | None = None,
        previous_result: Any = None,
        base_instructions_override: str | None = None,
        approver: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Say something and get every event of the answer as it comes. Leaving the loop early stops the task.

        `approver`: the loop answers each `approval_request` with `Session.approvals.resolve`. Without it what has to be
        asked is refused at once, unless another client or function attends.
        """
        asked = self._asked(
            content,
            message_id=message_id,
            sender=sender,
            if_busy=if_busy,
            output_schema=output_schema,
            task_type=task_type,
            previous_result=previous_result,
            base_instructions_override=base_instructions_override,
        )
        parts = self._parts
        conversation = parts.conversations.find(self.id)
        following = aclosing(submission.submit_and_stream(parts.scheduler, parts.bus, conversation, asked))
        attending = parts.command_services.desk.attended(conversation.id) if approver else nullcontext()
        async with following as events:
            with attending:
                async for event in events:
                    yield event

    async def steer(self, text: str) -> None:
        """Put in a word while a task runs; the model reads it before its next request."""
        conversation = self._parts.conversations.find(self.id)
        if not conversation.awaiting and (conversation.task is None or conversation.task.over):
            raise NotRunningError("there is no running task to steer; send a message instead")
        conversation.queue_input(to_user_message(text, None, cwd=conversation.terms.cwd))
        await self._parts.journal.settle()

    async def interrupt(self) -> InterruptAnswer:
        """Stop what runs here, and the whole chain it belongs to."""
        conversation = self._parts.conversations.find(self.id)
        return InterruptAnswer(self._parts.scheduler.interrupt(conversation.id))

    async def compact(self) -> CompactAnswer:
        """Have the model replace the older part of the history by notes, as a task of its own."""
        conversation = self._parts.conversations.find(self.id)
        results: list[Compaction] = []

        async def work(scope: TaskScope) -> None:
            results.append(await compact_by_model(scope))

        scheduler = self._parts.scheduler
        chain = scheduler.submit(TaskPlan(conversation.id, "user", work=work, sub_id=submission.new_sub_id()))
        reply = await submission.wait_for_reply(scheduler, chain)
        if results and reply.status == "completed":
            done = results[0]
            return CompactAnswer(done.compacted, done.before_tokens, done.after_tokens, done.reason)
        tokens = conversation.history.approx_tokens
        reason = reply.error.message if reply.error else reply.status
        return CompactAnswer(compacted=False, before_tokens=tokens, after_tokens=tokens, reason=reason)

    async def set_context(
        self, *, refresh_mcp_view: bool | None = None, **changes: Unpack[ConversationFields]
    ) -> OpenAnswer:
        """Change instructions, tools, model, policies, from the next model request on. What is absent stays.

        Args:
            refresh_mcp_view: Look at the tools of MCP servers anew, also at those whose definition changed.
            changes: The fields to change, None for the default; `help(tertulia.ConversationFields)` has each.

        Returns:
            The terms that hold from now on, what was narrowed, and warnings.

        Raises:
            InvalidParamsError: A field is unknown, or its value is not one of those that there are.
            ToolConflictError: Two different tools would have one name.
            ClosedError: The conversation or the session is closed.
        """
        named = {"conversation_id": self.id, "refresh_mcp_view": refresh_mcp_view}
        asked = parse_with_functions(ChangeFromPython, {**changes, **named})
        conversation = self._parts.conversations.find(self.id)
        settled = await change_conversation(self._parts, conversation, asked)
        return describe.open_answer(self._parts, conversation, settled)

    async def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """What was said, oldest first; the newest `limit` messages."""
        asked = parse(GetHistory, {"conversation_id": self.id, "limit": limit})
        if asked.limit is not None and asked.limit < 1:
            raise InvalidParamsError(f"limit must be a whole number of at least 1, not {limit}")
        said = describe.history(self._parts.conversations.find(self.id), asked.limit)
        return [self._parts.agent_registry.cleaned(entry) for entry in said]

    def tools(self) -> list[ToolInfo]:
        """What the model is offered now, in the order it is offered."""
        return describe.tools(self._parts, self._parts.conversations.find(self.id))[0]

    async def fork(self, at: str | int | None = None) -> Conversation:
        """A new conversation that shares this history up to an item, the end of a round, or now."""
        conversation = self._parts.conversations.find(self.id)
        point = ItemId(at) if isinstance(at, str) else at
        fork = await fork_conversation(self._parts, conversation, point)
        return Conversation(self._parts, fork.id)

    async def context(self) -> ContextInfo:
        """Everything that decides what the model sees and may do."""
        return describe.context(self._parts, self._parts.conversations.find(self.id))

    async def close(self, timeout: float | None = None) -> CloseAnswer:
        """Stop what runs here, within the timeout, and let the conversation go. Twice does no harm."""
        return await close_conversation(self._parts, self.id, timeout)

    def _asked(self, content: MessageContent, **fields: Any) -> Message:
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            said = {"text": content} if isinstance(content, str) else {"items": msgspec.to_builtins(list(content))}
        except (TypeError, RecursionError) as error:
            raise InvalidParamsError(f"a message is a text or a list of items: {error}") from None
        return parse(Message, {"conversation_id": self.id, **said, **given})
