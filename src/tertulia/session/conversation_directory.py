"""What the conversation tools may see and do: the session's conversations that are visible to the caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import NATIVE
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import (
    AwaitingResultError,
    ClosedError,
    InvalidParamsError,
    NotFoundError,
    TertuliaError,
    UnsupportedByBackendError,
)
from tertulia.protocol.ids import CallId, TaskId, new_conversation_id, new_item_id, new_task_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import ToolCall
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS, canonical_name
from tertulia.scheduler.plan import TaskPlan
from tertulia.scheduler.reply import Reply
from tertulia.session import describe
from tertulia.session.parts import SessionParts
from tertulia.session.shutdown import close_conversation, start_closing
from tertulia.session.submission import new_sub_id, submit_plan
from tertulia.session.terms import with_worktree
from tertulia.tools.dispatch import Dispatch, check_call, refusal, render_result
from tertulia.tools.tool import CallContext, ConversationEntries, Handoff, Result, TargetResult

_NOT_FOUND = "conversation not found"
_SCRIPTED = "scripted/"


class ConversationDirectory:
    """Implements `VisibleConversations` for the conversations of one session."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    @property
    def hidden(self) -> tuple[str, ...]:
        """Paths that commands are not shown either."""
        return self._parts.command_services.place.masked

    def list(self, call: CallContext) -> ConversationEntries:
        """Every visible conversation, root first, then by creation."""
        parts, caller = self._parts, self._caller(call)
        seen = [conversation for conversation in parts.conversations if _is_visible(call, caller, conversation)]
        ids = {conversation.id for conversation in seen}

        def entry(index: int) -> dict[str, Any]:
            info = describe.conversation(parts, seen[index])
            if info.parent_id not in ids:
                info = msgspec.structs.replace(info, parent_id=None)
            return msgspec.to_builtins(info)

        titled = (conversation.terms.rights.storage_policy for conversation in seen if conversation.title is not None)
        return ConversationEntries(len(seen), entry, _stricter(caller, titled))

    def history(self, call: CallContext, conversation_id: str, limit: int | None) -> ConversationEntries:
        """The newest messages of a conversation."""
        conversation = self._find(call, conversation_id)
        messages = conversation.history.messages(limit)
        marks = (conversation.history.kept_by, *(message.storage for message in messages))
        policies = (policy for policy in marks if policy is not None)
        storage = _stricter(self._caller(call), (conversation.terms.rights.storage_policy, *policies))
        return ConversationEntries(
            len(messages), lambda index: msgspec.to_builtins(describe.history_entry(messages[index])), storage
        )

    def check_create(self, call: CallContext, spec: NewConversation) -> None:
        """Refuse a conversation that could not be opened."""
        caller = self._delegating(call)
        # A script is a file: a model that is no script itself could have any file read by naming it.
        if isinstance(spec.model, str) and spec.model.startswith(_SCRIPTED) and not _is_scripted(caller):
            raise InvalidParamsError("model: only a scripted conversation may open one with a script")
        self._parts.conversations.check_child(spec, caller)
        if self._kind_of_workspace(spec) == "worktree":
            self._check_worktree(call)

    async def prepare(self, call: CallContext, spec: NewConversation) -> tuple[NewConversation, str]:
        """The same with a worktree, where it asks for one, and where that began. GitError where there can be none."""
        if self._kind_of_workspace(spec) != "worktree":
            return spec, ""
        parts, caller = self._parts, self._caller(call)
        worktree = await parts.worktrees.make(new_conversation_id(), call.cwd, caller.terms.worktree, call.task_id)
        return with_worktree(spec, worktree), worktree.began

    def _kind_of_workspace(self, spec: NewConversation) -> object:
        return self._parts.terms_resolver.agents.for_child(spec).workspace

    def _check_worktree(self, call: CallContext) -> None:
        from tertulia.session.worktrees.conversation_worktrees import repository_around

        if call.rights.sandbox == "read_only":
            raise InvalidParamsError(
                "workspace: this conversation may only read, and a worktree is written to its repository; use shared"
            )
        repository_around(call.cwd)

    def check_send(self, call: CallContext, conversation_id: str) -> None:
        """Refuse a target that does not exist, or that could not answer."""
        caller, conversation = self._delegating(call), self._find(call, conversation_id)
        if self._parts.scheduler.occupancy.would_never_end(caller.id, conversation.id):
            raise AwaitingResultError("conversation is awaiting a tool result")

    def check_destroy(self, call: CallContext, conversation_id: str) -> None:
        """Refuse the root, what does not exist, and what waits for an answer."""
        self._destructible(call, conversation_id)

    async def destroy(self, call: CallContext, conversation_id: str) -> tuple[bool, str | None]:
        """Close it; whether it was the caller, whose task then ends with the call, and the worktree that stays."""
        conversation = self._destructible(call, conversation_id)
        if conversation.id == call.conversation_id:
            # Not awaited: it ends only when this task does.
            start_closing(self._parts, conversation, self._parts.settings.close_timeout_s)
            return True, None
        closed = await close_conversation(self._parts, conversation.id, None)
        return False, closed.kept_worktree

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def _caller(self, call: CallContext) -> ConversationState:
        return self._parts.conversations.find(call.conversation_id)

    def _delegating(self, call: CallContext) -> ConversationState:
        caller = self._caller(call)
        if caller.terms.backend != NATIVE:
            raise UnsupportedByBackendError(f"the backend {caller.terms.backend} cannot wait for another conversation")
        return caller

    def _find(self, call: CallContext, conversation_id: str) -> ConversationState:
        try:
            conversation = self._parts.conversations.find(conversation_id)
        except NotFoundError:
            raise NotFoundError(_NOT_FOUND) from None
        except ClosedError:
            if call.rights.visibility == "subtree":
                # Whether it was visible is not known any more.
                raise NotFoundError(_NOT_FOUND) from None
            raise ClosedError("conversation is closed") from None
        if not _is_visible(call, self._caller(call), conversation):
            raise NotFoundError(_NOT_FOUND)
        return conversation

    def _destructible(self, call: CallContext, conversation_id: str) -> ConversationState:
        try:
            conversation = self._find(call, conversation_id)
        except ClosedError:
            raise NotFoundError(_NOT_FOUND) from None
        if conversation is self._parts.conversations.root:
            raise InvalidParamsError("the root conversation cannot be destroyed")
        if conversation.awaiting:
            raise AwaitingResultError("conversation is awaiting a tool result")
        return conversation


def _is_visible(call: CallContext, caller: ConversationState, conversation: ConversationState) -> bool:
    """The rights of the chain: what one of its members may not see, the caller does not see either."""
    return call.rights.visibility == "session" or conversation.is_in_subtree_of(caller.id)


def _is_scripted(conversation: ConversationState) -> bool:
    return conversation.terms.wire.name.startswith(_SCRIPTED)


def _stricter(caller: ConversationState, sources: Iterable[StoragePolicy]) -> StoragePolicy | None:
    """The strictest policy of the sources, where it is stricter than the caller's own."""
    own = caller.terms.rights.storage_policy
    strict = strictest(own, *sources)
    return None if strict == own else strict


async def call_conv_tool(parts: SessionParts, caller: ConversationState, name: str, arguments: str) -> Result:
    """What the tool answers. A refusal is an answer; InvalidParams only for what is no conversation tool."""
    if canonical_name(name) not in ALL_CONV_TOOLS:
        raise InvalidParamsError(f"there is no conversation tool {name[:64]!r}, only {', '.join(ALL_CONV_TOOLS)}")
    limit = caller.terms.rights.limits.max_output_bytes
    call = ToolCall(new_item_id(), CallId(f"cli-{new_item_id()}"), name, arguments)
    offered = parts.toolbox.offered(caller.terms, caller.terms.rights, merging=bool(caller.worktree_children))
    task_id = new_task_id()
    checked = check_call(
        call, parts.toolbox.registry, offered.names, lambda call: _context(parts, caller, call, task_id)
    )
    dispatch = Dispatch(
        [checked],
        lambda call: _context(parts, caller, call, task_id),
        began=lambda call: None,
        ended=lambda ended: None,
        timeout_s=parts.settings.tool_timeout_s,
        hooks=parts.hooks,
    )
    await dispatch.run()
    if dispatch.outputs:
        return dispatch.outputs[0].result
    (_, handoff), *_ = dispatch.handoffs
    try:
        result = await _hand_over(parts, caller, handoff)
    except TertuliaError as error:
        return refusal(error)
    finally:
        if parts.made.worktrees is not None:
            await parts.worktrees.drop_unopened(task_id)
    return render_result(handoff.render, result, limit)[0]


def _context(parts: SessionParts, caller: ConversationState, call: ToolCall, task_id: TaskId) -> CallContext:
    return CallContext(
        conversation_id=caller.id,
        task_id=task_id,
        call_id=call.call_id,
        cwd=caller.terms.cwd,
        rights=caller.terms.rights,
        publish=lambda data: None,
        clock=parts.clock,
        worktree=caller.terms.worktree,
    )


async def _hand_over(parts: SessionParts, caller: ConversationState, handoff: Handoff) -> TargetResult:
    item = to_user_message(None, handoff.input, cwd=caller.terms.cwd)
    if isinstance(handoff.target, NewConversation):
        target = parts.conversations.open_child(handoff.target, caller, None, handoff.fork_history)
    else:
        target = parts.conversations.find(handoff.target)
    plan = TaskPlan(target.id, "user", (item,), sub_id=new_sub_id())
    return _target_result(target, await submit_plan(parts, plan).reply())


def _target_result(target: ConversationState, reply: Reply) -> TargetResult:
    limit, worktree = target.terms.rights.limits.max_output_bytes, reply.worktree
    result = TargetResult(target.id, "completed", reply.text, room=limit, worktree=worktree)
    if reply.status == "completed":
        return result
    if reply.error is not None:
        return replace(result, status="failed", code=reply.error.code, reason=reply.error.message)
    return replace(result, status="cancelled", code="cancelled", reason="the task was stopped")
