"""Which worktree may be merged into whose workspace: that of a child into its caller's, by tool and by operation."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.errors import BusyError, ClosedError, GitError, InvalidParamsError, NotFoundError
from tertulia.events.bus import EventScope
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId, ConversationId, new_item_id, new_span_id, new_task_id, new_trace_id
from tertulia.protocol.storage import Full, strictest
from tertulia.protocol.worktree import WorktreeChild
from tertulia.session.answers import LeftOutFile, MergeAnswer, MergedFile
from tertulia.session.merging.journal import TreeJournal
from tertulia.session.merging.left_merges import recover_held
from tertulia.session.merging.merge import MergeOutcome, MergeSides, WorktreeMerge
from tertulia.session.parts import SessionParts
from tertulia.session.worktrees.worktree import RepositoryTree, Worktree
from tertulia.tools.conv_merge import MergeMode, MergeReport
from tertulia.tools.tool import CallContext


class ChildMerger:
    """Implements `MergesChildren` for the conversations of one session."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    def check(self, call: CallContext, conversation_id: str) -> None:
        """Refuse a conversation that is no child of the caller, has no worktree, or has a running task."""
        self._check_idle(self._find(call, conversation_id))

    async def merge(self, call: CallContext, conversation_id: str, mode: MergeMode) -> MergeReport:
        """Merge it, after an approval where the policy wants one."""
        child = self._find(call, conversation_id)
        caller = self._parts.conversations.find(call.conversation_id)
        own, childs = caller.terms.rights.storage_policy, child.storage
        answer = await self.merge_into(call, child, mode)
        storage = None if (strict := strictest(own, childs)) == own else strict
        return MergeReport(msgspec.to_builtins(answer), storage)

    async def merge_into(self, call: CallContext, child: WorktreeChild, mode: MergeMode) -> MergeAnswer:
        """Merge a child into the tree that its caller works in."""
        if not child.worktree.start:
            raise NotFoundError("where the worktree began was not stored with the session: merge its branch by hand")
        variables = self._parts.environment.variables
        worktree = Worktree.of(child.worktree)
        # The whole tree, also where the caller works in a subdirectory.
        caller = call.worktree
        tree = await RepositoryTree.find(Path(child.worktree.original if caller is None else caller.path), variables)
        if tree.common != worktree.common:
            raise InvalidParamsError(f"{tree.top} is not in the repository of {worktree.branch}; nothing was changed")
        alone = functools.partial(self._parts.worktrees.alone, child.worktree.conversation_id)
        # A commit is permanent, so its message has no text whose storage policy forbids that.
        title = child.title if isinstance(child.storage, Full) else None
        journal = TreeJournal.of(self._parts.environment.merges, str(tree.top))
        sides = MergeSides(worktree, tree, title, variables, journal, alone)
        place = self._parts.command_services.place
        try:
            # The next merge starts from this result, and its approval shows the state of that moment.
            async with self._parts.worktrees.alone(f"into {tree.top}"), journal.held():
                await recover_held(self._parts, journal)
                outcome = await WorktreeMerge(sides, mode, place, call, lambda: self._check_idle(child)).run()
        except OSError as error:
            raise GitError(f"the merge was not applied: {error.strerror or error}") from None
        return _answer(outcome)

    def _find(self, call: CallContext, conversation_id: str) -> WorktreeChild:
        conversations = self._parts.conversations
        caller = conversations.find(call.conversation_id)
        if (child := _child_of(self._parts, caller, conversation_id)) is not None:
            return child
        conversation = conversations.find(conversation_id)
        if call.rights.visibility == "subtree" and not conversation.is_in_subtree_of(caller.id):
            raise NotFoundError(f"conversation not found: {conversation_id[:64]!r}")
        if conversation.parent_id != caller.id:
            raise InvalidParamsError(
                f"conversation {conversation.id} was not opened by this conversation: only its own caller merges it"
            )
        raise _no_worktree(conversation)

    def _check_idle(self, child: WorktreeChild) -> None:
        """Neither the child nor one that shares its worktree may work while it is merged."""
        path = child.worktree.path
        for conversation in self._parts.conversations:
            worktree = conversation.terms.worktree
            if worktree is not None and worktree.path == path and conversation.status == "running":
                raise BusyError(
                    f"conversation {conversation.id} works in the worktree that is to be merged; merge when it is done",
                    retry_after_s=1,
                )


async def merge_child(parts: SessionParts, conversation_id: str, mode: MergeMode) -> MergeAnswer:
    """Merge a conversation's worktree into its caller's workspace, with the caller's rights.

    Raises:
        NotFoundError: There is no such conversation, or its branch is gone.
        ClosedError: The conversation is closed and had no worktree, or its caller is closed.
        InvalidParamsError: It has no worktree of its own.
        BusyError: It works.
    """
    child, caller = find_child(parts, conversation_id)
    rights, task = caller.terms.rights, new_task_id()
    storage = strictest(rights.storage_policy, child.storage)
    scope = EventScope(f"outside/{task}", caller.id, task, new_trace_id(), new_span_id())

    def publish(data: EventData) -> None:
        parts.bus.publish(data, scope, storage)

    call = CallContext(
        conversation_id=caller.id,
        task_id=task,
        call_id=CallId(f"outside-{new_item_id()}"),
        cwd=caller.terms.cwd,
        rights=rights,
        publish=publish,
        clock=parts.clock,
        worktree=caller.terms.worktree,
    )
    merger = ChildMerger(parts)
    answer = await merger.merge_into(call, child, mode)
    await parts.bus.flush()
    return answer


def find_child(parts: SessionParts, conversation_id: str) -> tuple[WorktreeChild, ConversationState]:
    """A conversation with a worktree of its own, open or closed, and the one that opened it."""
    for caller in parts.conversations:
        if (child := _child_of(parts, caller, conversation_id)) is not None:
            return child, caller
    conversation = parts.conversations.find(conversation_id)
    worktree = conversation.terms.worktree
    if worktree is not None and worktree.conversation_id == conversation.id:
        raise ClosedError(
            f"the conversation that opened {conversation.id} is closed: there is no workspace to merge into; merge the "
            f"branch {worktree.branch} by hand"
        )
    raise _no_worktree(conversation)


def _child_of(parts: SessionParts, caller: ConversationState, conversation_id: str) -> WorktreeChild | None:
    """A child of the caller that has a worktree, as it is now, or was when it was closed."""
    id = ConversationId(conversation_id)
    conversation = parts.conversations.peek(id)
    if conversation is not None and conversation.parent_id == caller.id:
        caller.note_child(conversation)
    return caller.worktree_children.get(id)


def _no_worktree(conversation: ConversationState) -> InvalidParamsError:
    return InvalidParamsError(
        f"conversation {conversation.id} has no worktree of its own to merge; it was not opened with workspace "
        '"worktree"'
    )


def _answer(outcome: MergeOutcome) -> MergeAnswer:
    return MergeAnswer(
        merged=bool(outcome.files),
        mode=outcome.mode,
        branch=outcome.branch,
        merged_commit=outcome.merged_commit,
        files=[
            MergedFile(file.path, file.status, file.added, file.removed, file.renamed_from) for file in outcome.files
        ],
        left_out=[LeftOutFile(left.path, left.reason) for left in outcome.left_out],
        commit=outcome.commit,
        onto=outcome.onto,
    )
