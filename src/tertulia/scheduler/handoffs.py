"""What a handoff does to a chain: a branch for each target, and every call answered once in every ending."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.terms import NATIVE
from tertulia.conversation.turn import HandedOffCall
from tertulia.errors import AwaitingResultError, TertuliaError, UnsupportedByBackendError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.protocol.ids import ConversationId, new_item_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import TextPart, ToolOutput
from tertulia.protocol.storage import StoragePolicy, storage_from_wire, strictest
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.scheduler.chain_records import ChainRecords
from tertulia.scheduler.plan import Branch, CallClosure, ConversationSource, TaskPlan, chain_storage
from tertulia.tools.dispatch import render_result
from tertulia.tools.tool import Handoff, TargetResult


class Occupancy:
    """Which branch has which conversation: one at a time, from its first task until it has reported."""

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

        A branch that has not begun waits only for the one in its conversation, so it suffices to follow conversations:
        from the target along those that each waits for.
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


class Handoffs:
    """Admits handoffs, makes branches of them, and answers the calls of branches that were stopped."""

    def __init__(
        self, source: ConversationSource, bus: EventBus, clock: Clock, occupancy: Occupancy, records: ChainRecords
    ) -> None:
        self._source = source
        self._bus = bus
        self._clock = clock
        self._occupancy = occupancy
        self.records = records
        """Where the steps of chains are written down."""
        self._new = 0
        """Conversations of all branches that were admitted and are not open yet."""

    def admit(self, branch: Branch, scope: TaskScope, handoff: Handoff) -> None:
        """Refuse, before anything has happened, what would break a limit or could never end.

        Counted here, where the work is created, so that no tool can bypass it and no two branches count as one.
        """
        if scope.conversation.terms.backend != NATIVE:
            raise UnsupportedByBackendError(
                f"a conversation with the backend {scope.conversation.terms.backend} cannot hand over"
            )
        target = handoff.target
        opens = isinstance(target, NewConversation)
        branch.view().check(scope.rights().limits, opens=opens)
        if opens:
            self._source.check_child(target, scope.conversation, self._new)
            branch.chain.opened += 1
            self._new += 1
            branch.promised.append(None)
        else:
            target_id = self._source.find(target).id
            if self._occupancy.would_never_end(branch.conversation_id, target_id):
                raise AwaitingResultError("conversation is awaiting a tool result")
            branch.promised.append(target_id)
        branch.chain.interrupts += 1

    def withdraw(self, branch: Branch) -> None:
        """The task has ended: drop what was admitted for it and has no branch."""
        self._new -= branch.promised.count(None)
        branch.promised.clear()

    def expand(self, branch: Branch, scope: TaskScope, handed: Sequence[HandedOffCall]) -> tuple[Branch, ...]:
        """Let the branch wait, and make one for each target. Returns none where the branch is to end."""
        plan = branch.plan
        continuation = TaskPlan(
            plan.conversation_id,
            "continuation",
            base_instructions_override=plan.base_instructions_override,
            output=plan.output,
            may_repair=plan.may_repair and not scope.repaired,
        )
        calls = tuple(CallClosure(h.call, h.handoff.render, scope.scope, h.begun) for h in handed)
        branch.wait_for(continuation, calls, scope.conversation)
        limits = scope.rights().limits
        branch.max_parallel, branch.max_wait_s = limits.max_parallel_targets, limits.target_wait_s
        branch.chain.tasks[continuation.task_id] = branch
        scope.conversation.awaiting += 1
        targets: tuple[Branch, ...] = ()
        if branch.stopping is None and not scope.conversation.closed:
            # Opened in the order of the calls.
            made = (self._target(branch, scope, h, index) for index, h in enumerate(handed))
            targets = tuple(target for target in made if target is not None)
        branch.chain.branches += targets
        branch.chain.tasks.update((target.plan.task_id, target) for target in targets)
        self.records.handed(branch, scope, plan.task_id, targets)
        return targets

    def _target(self, branch: Branch, scope: TaskScope, handed: HandedOffCall, index: int) -> Branch | None:
        target = handed.handoff.target
        try:
            if isinstance(target, NewConversation):
                spec = _with_chain_storage(target, scope)
                conversation = self._source.open_child(
                    spec, scope.conversation, scope.scope, handed.handoff.fork_history
                )
            else:
                conversation = self._source.find(target)
        except TertuliaError as error:
            branch.results[index] = TargetResult(None, "failed", None, error.code, error.message)
            return None
        branch.targets[index] = conversation.id
        plan = TaskPlan(conversation.id, "target", input=(handed.message,))
        return Branch(branch.chain, plan, branch, index, branch.deadline)

    def answer_calls(self, branch: Branch, scope: TaskScope) -> None:
        """Give each call that a continuation answers its output, in order, under the call's own task."""
        self._answer_all(branch, scope.conversation, "the target never ran", scope.storage(), scope.scope)

    def abandon_below(self, branch: Branch) -> None:
        """A branch was stopped: the calls that wait there and below are answered without asking a model."""
        reason = f"the {'branch' if branch.caller else 'chain'} was stopped ({branch.stopped})"
        for other in reversed(branch.chain.below(branch)):
            if other.conversation is not None:
                storage = chain_storage(other, other.conversation, self._source)
                self._answer_all(other, other.conversation, reason, storage, None)

    def _answer_all(
        self,
        branch: Branch,
        conversation: ConversationState,
        reason: str,
        storage: StoragePolicy,
        scope: EventScope | None,
    ) -> None:
        conversation.awaiting -= 1
        room = conversation.terms.rights.limits.max_output_bytes
        for made, reported, target in branch.take_calls():
            known = replace(reported or TargetResult(target, "cancelled", None, "cancelled", reason), room=room)
            result, truncated = render_result(made.render, known, room)
            call = made.call
            parts = (TextPart(result.text), *result.parts)
            strict = strictest(storage, *(s for s in (result.storage, known.storage) if s is not None))
            conversation.say(
                [ToolOutput(new_item_id(), call.call_id, parts, result.success, call.kind)], storage=strict
            )
            elapsed = round((self._clock.monotonic() - made.begun) * 1000)
            end = ToolCallEnd(call.call_id, call.name, result.success, result.text, truncated, elapsed)
            self._bus.publish(end, scope or made.made_by, strict)


def _with_chain_storage(spec: NewConversation, scope: TaskScope) -> NewConversation:
    """The first messages of a new conversation come from the whole chain, so they get the chain's storage policy."""
    policy = scope.storage()
    if policy == scope.conversation.storage:
        return spec
    if spec.storage_policy not in (UNSET, None):
        policy = strictest(policy, storage_from_wire(spec.storage_policy))
    return replace(spec, storage_policy=policy)
