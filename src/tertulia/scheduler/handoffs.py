"""What a handoff does to a chain: targets above a continuation, and every call answered once in every ending."""

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
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import TextPart, ToolOutput
from tertulia.protocol.storage import StoragePolicy, storage_from_wire, strictest
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.scheduler.plan import CallClosure, Chain, ConversationSource, Frame, TaskPlan, chain_storage
from tertulia.tools.dispatch import render_result
from tertulia.tools.tool import Handoff, TargetResult


class Handoffs:
    """Admits handoffs, turns them into frames, and closes the calls of frames that will never run."""

    def __init__(self, source: ConversationSource, bus: EventBus, clock: Clock) -> None:
        self._source = source
        self._bus = bus
        self._clock = clock

    def admit(self, chain: Chain, scope: TaskScope, handoff: Handoff) -> None:
        """Refuse, before anything has happened, what would break a limit or could never end.

        Counted here, where the work is made, so that no tool can go round it.
        """
        if scope.conversation.terms.backend != NATIVE:
            raise UnsupportedByBackendError(
                f"a conversation with the backend {scope.conversation.terms.backend} cannot hand over"
            )
        target = handoff.target
        opens = isinstance(target, NewConversation)
        chain.view().check(scope.rights().limits, opens=opens)
        if opens:
            self._source.check_child(target, scope.conversation, chain.promised)
            chain.opened += 1
            chain.promised += 1
        elif (conversation := self._source.find(target)) is scope.conversation or conversation.awaiting:
            raise AwaitingResultError("conversation is awaiting a tool result")
        chain.interrupts += 1

    def expand(self, chain: Chain, frame: Frame, scope: TaskScope, handed: Sequence[HandedOffCall]) -> None:
        """Put the continuation on the stack, and above it the targets, the first one on top."""
        plan = frame.plan
        continuation = Frame(
            TaskPlan(
                plan.conversation_id,
                "continuation",
                base_instructions_override=plan.base_instructions_override,
                output=plan.output,
                may_repair=plan.may_repair and not scope.repaired,
            ),
            reports_to=frame.reports_to,
            deadline=frame.deadline,
        )
        closures = tuple(CallClosure(h.call, h.handoff.render, scope.scope, h.begun) for h in handed)
        continuation.wait_for(closures, scope.conversation)
        chain.frames.append(continuation)
        chain.task_ids.add(continuation.plan.task_id)
        chain.handing = False
        chain.promised = 0
        scope.conversation.awaiting += 1
        if chain.stopped is not None or scope.conversation.closed:
            # The caller was told that it is over: no target is opened or asked any more.
            return
        # Opened in the order of the calls, and put on the stack the other way round.
        targets = [self._target(scope, h, (continuation, index), frame.deadline) for index, h in enumerate(handed)]
        for target in reversed(targets):
            if target is not None:
                chain.frames.append(target)
                chain.task_ids.add(target.plan.task_id)

    def _target(
        self, scope: TaskScope, handed: HandedOffCall, reports_to: tuple[Frame, int], deadline: float | None
    ) -> Frame | None:
        target = handed.handoff.target
        waiting, index = reports_to
        try:
            if isinstance(target, NewConversation):
                spec = _with_chain_storage(target, scope)
                conversation = self._source.open_child(
                    spec, scope.conversation, scope.scope, handed.handoff.fork_history
                )
            else:
                conversation = self._source.find(target)
        except TertuliaError as error:
            waiting.results[index] = TargetResult(None, "failed", None, error.code, error.message)
            return None
        waiting.targets[index] = conversation.id
        return Frame(
            TaskPlan(conversation.id, "target", input=(handed.message,)), reports_to=reports_to, deadline=deadline
        )

    def lost(self, chain: Chain) -> int | None:
        """Where on the stack the first continuation stands whose conversation was closed while it waited."""
        for position, frame in enumerate(chain.frames):
            if frame.closures and self._source.peek(frame.plan.conversation_id) is None:
                return position
        return None

    def answer_calls(self, frame: Frame, scope: TaskScope) -> None:
        """The continuation runs: each call it stands for gets its output, in order, under its own task."""
        self._close_all(scope.conversation, frame, "the target never ran", scope.storage(), scope.scope)

    def abandon(self, chain: Chain, frame: Frame, reason: str) -> None:
        """A frame will never run. If it was a continuation, its calls are answered without asking the model."""
        if frame.conversation is not None:
            self._close_all(
                frame.conversation, frame, reason, chain_storage(chain, frame.conversation, self._source), None
            )

    def _close_all(
        self,
        conversation: ConversationState,
        frame: Frame,
        reason: str,
        storage: StoragePolicy,
        scope: EventScope | None,
    ) -> None:
        conversation.awaiting -= 1
        room = conversation.terms.rights.limits.max_output_bytes
        for closure, reported, target in zip(frame.closures, frame.results, frame.targets, strict=True):
            known = replace(reported or TargetResult(target, "cancelled", None, "cancelled", reason), room=room)
            result, truncated = render_result(closure.render, known, room)
            call = closure.call
            parts = (TextPart(result.text), *result.parts)
            strict = strictest(storage, *(s for s in (result.storage, known.storage) if s is not None))
            conversation.say(
                [ToolOutput(new_item_id(), call.call_id, parts, result.success, call.kind)], storage=strict
            )
            elapsed = round((self._clock.monotonic() - closure.begun) * 1000)
            end = ToolCallEnd(call.call_id, call.name, result.success, result.text, truncated, elapsed)
            self._bus.publish(end, scope or closure.made_by, strict)


def _with_chain_storage(spec: NewConversation, scope: TaskScope) -> NewConversation:
    """What a conversation is told when it is opened comes from the whole chain: it is kept by the chain's policy."""
    policy = scope.storage()
    if policy == scope.conversation.storage:
        return spec
    if spec.storage_policy not in (UNSET, None):
        policy = strictest(policy, storage_from_wire(spec.storage_policy))
    return replace(spec, storage_policy=policy)
