"""Which branch has which conversation: one at a time, from its first task until it has reported."""

from __future__ import annotations

from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.plan import Branch


class Occupancy:
    """The branches that run or wait, by conversation, and what they wait for."""

    __slots__ = ("_branches",)

    def __init__(self) -> None:
        self._branches: dict[ConversationId, Branch] = {}

    def __len__(self) -> int:
        return len(self._branches)

    def holder(self, conversation_id: ConversationId) -> Branch | None:
        """The branch that runs or waits there."""
        return self._branches.get(conversation_id)

    def is_free_for(self, branch: Branch) -> bool:
        """Whether a branch may run in its conversation; one that has waited there may."""
        return self._branches.get(branch.conversation_id, branch) is branch

    def take(self, branch: Branch) -> None:
        """A branch begins in its conversation, or goes on there."""
        self._branches[branch.conversation_id] = branch

    def release(self, branch: Branch) -> bool:
        """A branch has ended; whether its conversation was taken by it."""
        if self._branches.get(branch.conversation_id) is not branch:
            return False
        del self._branches[branch.conversation_id]
        return True

    def would_never_end(self, caller: ConversationId, target: ConversationId) -> bool:
        """Whether a wait of the caller for the target closes a cycle, promised waits counted.

        A branch that has not begun waits only for the one in its conversation, so conversations are all there is
        to follow: from the target along what each of them waits for.
        """
        seen: set[ConversationId] = set()
        ahead = [target]
        while ahead:
            conversation_id = ahead.pop()
            if conversation_id == caller:
                return True
            if conversation_id not in seen:
                seen.add(conversation_id)
                branch = self._branches.get(conversation_id)
                ahead += [] if branch is None else branch.awaited
        return False
