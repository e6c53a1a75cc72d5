"""What a user of a session holds: a conversation. A handle keeps nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from tertulia.conversation.output_check import OutputCheck
from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import Approval
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.inputs import (
    ChangeFromPython,
    GetHistory,
    InterruptConversation,
    MergeConversation,
    Message,
    StopScope,
    TakeBack,
)
from tertulia.scheduler.reply import Reply, TypedReply
from tertulia.session import describe, submission
from tertulia.session.answers import (
    CloseAnswer,
    CompactAnswer,
    ContextInfo,
    ConversationInfo,
    HistoryEntry,
    InterruptAnswer,
    MergeAnswer,
    OpenAnswer,
    ToolInfo,
)
from tertulia.session.checkpoints.session_checkpoints import UndoableChanges
from tertulia.session.conversation_directory import call_conv_tool
from tertulia.session.inputs import (
    MessageContent,
    MessageOptions,
    parse,
    parse_message,
    parse_output_type,
    parse_with_functions,
    reply_reader,
)
from tertulia.session.mcp.served_tools import ServedConversation
from tertulia.session.messages.stream import ReplyStream
from tertulia.session.parts import SessionParts
from tertulia.session.settings.conversation_fields import ConversationFields
from tertulia.session.shutdown import close_conversation
from tertulia.session.submission import Submission, TakeBackAnswer
from tertulia.session.transactions import change_conversation, fork_conversation
from tertulia.tools.tool import Result

T = TypeVar("T")


class _ById:
    """What is the same where its id is."""

    __slots__ = ()
    id: ConversationId

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class Conversation(UndoableChanges, _ById):
    """One isolated conversation of a session."""

    __slots__ = ("warnings",)

    def __init__(self, parts: SessionParts, id: ConversationId, warnings: Sequence[str] = ()) -> None:
        self._parts = parts
        self.id = id
        self.warnings = tuple(warnings)
        """The warnings of its opening."""

    @property
    def info(self) -> ConversationInfo:
        """Title, status, depth, counts, model: what a list shows."""
        return describe.conversation(self._parts, self._parts.conversations.find(self.id))

    @property
    def details(self) -> describe.ConversationDetails:
        """Model, directory, rights, items: what surfaces show of it. Closed where the conversation is."""
        return describe.ConversationDetails(self._parts, self._parts.conversations.find(self.id))

    def submit(
        self, message: Message, *, output: OutputCheck | None = None, follow: bool = False, approver: bool = False
    ) -> Submission:
        """Queue a message that a surface has parsed, and return at once; `message` and `stream` are this and a wait.

        Args:
            message: What `conversation/message` takes.
            output: What the answer must be, where the message does not say it.
            follow: Whether its events will be read.
            approver: Whether their reader answers the approvals that show there.

        Returns:
            The message on its way: its task, its events and its one answer.

        Raises:
            InvalidParamsError: The message is empty or too long.
            BusyError: A task runs, and `if_busy` is "fail".
            ClosedError: The conversation or the session is closed.
        """
        conversation = self._parts.conversations.find(self.id)
        return submission.submit(self._parts, conversation, message, output=output, follow=follow, approver=approver)

    @overload
    async def message(
        self, content: MessageContent, *, output_type: type[T], **options: Unpack[MessageOptions]
    ) -> TypedReply[T]: ...

    @overload
    async def message(
        self, content: MessageContent, *, output_type: None = None, **options: Unpack[MessageOptions]
    ) -> Reply: ...

    async def message(
        self, content: MessageContent, *, output_type: type[Any] | None = None, **options: Unpack[MessageOptions]
    ) -> Reply:
        """Say something and wait for the answer. Cancelling the wait stops the task.

        Args:
            content: A text, or items: texts and pictures.
            output_type: The dataclass, msgspec Struct, TypedDict or pydantic model that the answer is to be.
            options: How it is submitted; `help(tertulia.MessageOptions)` has each.

        Returns:
            The answer of the whole chain, as a `TypedReply` with its `output` where a type was asked for. A failed task
            is an answer as well: look at `Reply.status`, or call `Reply.raise_for_status`.

        Raises:
            InvalidParamsError: The message is empty or too long, or an option or the type is wrong.
            BusyError: A task runs, and `if_busy` is "fail".
            ClosedError: The conversation or the session is closed.
        """
        message, output = parse_message(self.id, content, options), parse_output_type(output_type)
        return reply_reader(output_type)(await self.submit(message, output=output).reply())

    @overload
    def stream(
        self, content: MessageContent, *, output_type: type[T], approver: bool = ..., **options: Unpack[MessageOptions]
    ) -> ReplyStream[TypedReply[T]]: ...

    @overload
    def stream(
        self,
        content: MessageContent,
        *,
        output_type: None = None,
        approver: bool = ...,
        **options: Unpack[MessageOptions],
    ) -> ReplyStream[Reply]: ...

    def stream(
        self,
        content: MessageContent,
        *,
        output_type: type[Any] | None = None,
        approver: bool = False,
        **options: Unpack[MessageOptions],
    ) -> ReplyStream[Any]:
        """Say something and get every event of the answer as it comes. Leaving the loop early stops the task.

        Args:
            content: A text, or items: texts and pictures.
            output_type: As in `message`; `await stream.reply()` has the `output`.
            approver: Whether the loop answers each `approval_request` with `Session.approvals.resolve`. Without it
                what has to be asked is refused at once, unless another client or function attends.
            options: How it is submitted; `help(tertulia.MessageOptions)` has each.

        Returns:
            The events, for `async for`; the last one is the end of the last task. Its first step raises what `message`
            does, and its `reply()` is what `message` returns.
        """

        def send() -> Submission:
            message, output = parse_message(self.id, content, options), parse_output_type(output_type)
            return self.submit(message, output=output, follow=True, approver=approver)

        return ReplyStream(send, reply_reader(output_type))

    async def steer(self, text: str) -> None:
        """Put in a word while a task runs; the model reads it before its next request.

        Args:
            text: What to say.

        Raises:
            NotRunningError: No task runs here; send a message instead.
            ClosedError: The conversation or the session is closed.
        """
        await submission.steer(self._parts, self._parts.conversations.find(self.id), text)

    async def take_back(self, task_id: str | None = None) -> TakeBackAnswer:
        """Take a message back that waits for its turn; once, and never one whose task has begun.

        Args:
            task_id: The task of the message; None: the newest message that waits.

        Returns:
            The message as it was sent. Those who wait for its reply get one with the status `interrupted`.

        Raises:
            NotFoundError: No such message waits.
            ClosedError: The conversation or the session is closed.
        """
        params = parse(TakeBack, {"conversation_id": self.id, "task_id": task_id})
        return await submission.take_back(self._parts, self._parts.conversations.find(self.id), params.task_id)

    async def interrupt(self, *, scope: StopScope = "chain") -> InterruptAnswer:
        """Stop what runs here.

        Args:
            scope: `chain` stops all that the message has caused; `branch` only what this conversation does and has
                caused itself: its caller gets `cancelled` for that call and goes on.

        Returns:
            Whether there was anything to stop.

        Raises:
            InvalidParamsError: The scope is another; nothing was stopped.
        """
        params = parse(InterruptConversation, {"conversation_id": self.id, "scope": scope})
        found = self._parts.conversations.find(self.id).id
        return InterruptAnswer(self._parts.scheduler.interrupt(found, params.scope))

    async def compact(self) -> CompactAnswer:
        """Have the model replace the older part of the history by notes, as a task of its own.

        Returns:
            Whether it was done and why not, and the tokens before and after.
        """
        return await submission.compact(self._parts, self._parts.conversations.find(self.id))

    async def set_context(
        self, *, refresh_mcp_view: bool | None = None, **changes: Unpack[ConversationFields]
    ) -> OpenAnswer:
        """Change instructions, tools, model, policies, from the next model request on. What is absent stays.

        Args:
            refresh_mcp_view: Look at the tools of MCP servers again, also at those whose definition changed.
            changes: The fields to change, None for the default; `help(tertulia.ConversationFields)` has each.

        Returns:
            The terms that hold from now on, what was narrowed, and warnings.

        Raises:
            InvalidParamsError: A field is unknown, or its value is not one of those that there are.
            ToolConflictError: Two different tools would have one name.
            ClosedError: The conversation or the session is closed.
        """
        named = {"conversation_id": self.id, "refresh_mcp_view": refresh_mcp_view}
        params = parse_with_functions(ChangeFromPython, {**changes, **named})
        conversation = self._parts.conversations.find(self.id)
        resolved = await change_conversation(self._parts, conversation, params)
        return describe.open_answer(self._parts, conversation, resolved)

    async def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """What was said, oldest first, without tool calls.

        Args:
            limit: Only the newest so many messages.

        Returns:
            The messages. What Tertulia puts in itself is left out.

        Raises:
            InvalidParamsError: The limit is less than 1.
        """
        params = parse(GetHistory, {"conversation_id": self.id, "limit": limit})
        if params.limit is not None and params.limit < 1:
            raise InvalidParamsError(f"limit must be a whole number of at least 1, not {limit}")
        entries = describe.history(self._parts.conversations.find(self.id), params.limit)
        return [await self._parts.redactor.without_tokens_in_steps(entry) for entry in entries]

    def tools(self) -> list[ToolInfo]:
        """What the model is offered now.

        Returns:
            The tools with their sources and digests, in the order in which they are offered.
        """
        return describe.tools(self._parts, self._parts.conversations.find(self.id))[0]

    def served_tools(self, approval: Approval | None = None) -> ServedConversation:
        """Its tools for a program that calls them over MCP.

        Args:
            approval: When calls of MCP tools ask, in place of what the servers' settings say.

        Returns:
            What an MCP endpoint lists and calls.
        """
        state = self._parts.conversations.find(self.id)
        if approval is not None:
            self._parts.servers.approvals[state.id] = approval
        return ServedConversation(self._parts, state)

    async def fork(self, at: str | int | None = None) -> Conversation:
        """A new conversation that shares this history up to a point, and its terms.

        Args:
            at: An item's id, or how many rounds; None: all of it.

        Returns:
            The new conversation, open.

        Raises:
            InvalidParamsError: There is no such point, or a call is open before it.
            LimitError: The session holds as many conversations as it may.
        """
        conversation = self._parts.conversations.find(self.id)
        point = ItemId(at) if isinstance(at, str) else at
        fork = await fork_conversation(self._parts, conversation, point)
        return Conversation(self._parts, fork.id)

    async def merge(self, *, mode: Literal["apply", "commit"] = "apply") -> MergeAnswer:
        """Bring what was done in this conversation's worktree into the workspace of the one that opened it.

        Three-way, all of it or nothing, with the rights of the conversation that opened it; it is asked like a patch. A
        conversation that is closed can be merged as long as its branch is there.

        Args:
            mode: `apply` changes files only; `commit` commits them as well, on the branch that is checked out there.

        Returns:
            The files that were changed, what was left out and why, and the commit. Without files there was nothing.

        Raises:
            InvalidParamsError: No worktree, no such mode, a path that may not be changed, or no branch to commit to.
            BusyError: It works now, or another process merges into the same workspace.
            MergeConflictError: The two sides contradict each other, or one of them changed meanwhile.
            ApprovalDeniedError: A person, or the policy, said no.
            LimitError: There is more to merge than one merge may change.
            SandboxError: The conversation that opened it may not write there.
            GitError: Git is not there, or failed.
        """
        from tertulia.session.merging.child_merge import merge_child

        params = parse(MergeConversation, {"conversation_id": self.id, "mode": mode})
        return await merge_child(self._parts, self.id, params.mode)

    async def context(self) -> ContextInfo:
        """Everything that decides what the model sees and may do.

        Returns:
            Instructions, policies, limits, tool switches, and what was narrowed.
        """
        return describe.context(self._parts, self._parts.conversations.find(self.id))

    async def call_conv_tool(self, name: str, arguments: str) -> Result:
        """What a conversation tool answers when this conversation calls it; its own history stays as it is.

        Args:
            name: The name of the tool, such as `conv_list`.
            arguments: A JSON object with its arguments.

        Returns:
            The tool's answer; a refusal is one.

        Raises:
            InvalidParamsError: There is no conversation tool of that name.
        """
        return await call_conv_tool(self._parts, self._parts.conversations.find(self.id), name, arguments)

    async def close(self, timeout: float | None = None) -> CloseAnswer:
        """Stop what runs here, within the timeout, and let the conversation go. Twice does no harm.

        Args:
            timeout: How many seconds a task has to end by itself; None: `close_timeout_s` of the settings.

        Returns:
            Whether it was closed before, and whether something had to be abandoned.

        Raises:
            InvalidParamsError: It is the root, which closes with the session, or the timeout is no such time.
        """
        return await close_conversation(self._parts, self.id, timeout)
