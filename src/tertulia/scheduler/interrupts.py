"""What a handoff does to a chain: targets above a continuation, and every call answered once in every ending."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.conversation.floor import Floor
from tertulia.conversation.talk import Talk
from tertulia.conversation.turn import Handed
from tertulia.errors import AgentError, AwaitingResult, DepthExceeded, InvalidParams, Limit
from tertulia.events.bus import EventBus, Scope
from tertulia.events.clock import Clock
from tertulia.protocol.ids import ConversationId, new_item_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import TextPart, ToolOutput
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.scheduler.plan import Chain, Closure, Frame, House, TaskPlan
from tertulia.tools.dispatch import rendered
from tertulia.tools.tool import Handoff, TargetResult


class Interrupts:
    """Admits handoffs, turns them into frames, and closes the calls of frames that will never run."""

    def __init__(self, house: House, bus: EventBus, clock: Clock) -> None:
        self._house = house
        self._bus = bus
        self._clock = clock

    def admit(self, chain: Chain, floor: Floor, handoff: Handoff) -> None:
        """Refuse, before anything has happened, what would break a limit or could never end.

        Counted here, where the work is made, so that no tool can go round it.
        """
        limits = floor.rights().limits
        depth, most = chain.depth, limits.max_interrupt_chain_depth
        if most is not None and depth >= most:
            raise DepthExceeded(
                f"{depth} conversations already wait for one another (max_interrupt_chain_depth = {most})"
            )
        if limits.max_task_interrupts is not None and chain.interrupts >= limits.max_task_interrupts:
            raise Limit(f"this message has caused {chain.interrupts} handoffs (max_task_interrupts)")
        if isinstance(handoff.target, NewConversation):
            if limits.max_chain_conversations is not None and chain.opened >= limits.max_chain_conversations:
                raise Limit(f"this message has opened {chain.opened} conversations (max_chain_conversations)")
            chain.opened += 1
        else:
            self._admit_target(floor, handoff.target)
        chain.interrupts += 1

    def _admit_target(self, floor: Floor, target: ConversationId) -> None:
        talk = self._house.find(target)
        if talk is floor.talk:
            raise InvalidParams("a conversation cannot hand a call to itself")
        if talk.awaiting:
            raise AwaitingResult("that conversation is awaiting a tool result")

    def expand(self, chain: Chain, frame: Frame, floor: Floor, handed: Sequence[Handed]) -> None:
        """Put the continuation on the stack, and above it the targets, the first one on top."""
        plan = frame.plan
        continuation = Frame(
            TaskPlan(
                plan.conversation_id,
                "continuation",
                base_instructions_override=plan.base_instructions_override,
                output_schema=plan.output_schema,
            ),
            reports_to=frame.reports_to,
            deadline=frame.deadline,
        )
        continuation.wait_for(tuple(Closure(h.call, h.handoff.render, floor.scope, h.begun) for h in handed))
        chain.frames.append(continuation)
        chain.task_ids.add(continuation.plan.task_id)
        chain.handing = False
        floor.talk.awaiting += 1
        for index in reversed(range(len(handed))):
            target = self._target(floor, handed[index], (continuation, index), frame.deadline)
            if target is not None:
                chain.frames.append(target)
                chain.task_ids.add(target.plan.task_id)

    def _target(
        self, floor: Floor, handed: Handed, reports_to: tuple[Frame, int], deadline: float | None
    ) -> Frame | None:
        target = handed.handoff.target
        try:
            if isinstance(target, NewConversation):
                talk = self._house.open_child(target, floor.talk)
            else:
                talk = self._house.find(target)
        except AgentError as error:
            waiting, index = reports_to
            waiting.results[index] = TargetResult(floor.talk.id, "failed", None, error.code, error.message)
            return None
        return Frame(TaskPlan(talk.id, "target", input=(handed.message,)), reports_to=reports_to, deadline=deadline)

    def lost(self, chain: Chain) -> int | None:
        """Where on the stack the first continuation stands whose conversation was closed while it waited."""
        for position, frame in enumerate(chain.frames):
            if frame.closures and self._house.peek(frame.plan.conversation_id) is None:
                return position
        return None

    def answer_calls(self, frame: Frame, floor: Floor) -> None:
        """The continuation runs: each call it stands for gets its output, in order, under its own task."""
        self._close_all(frame, "cancelled", "the target never ran", floor.scope)

    def abandon(self, frame: Frame, code: str, reason: str) -> None:
        """A frame will never run. If it was a continuation, its calls are answered without asking the model."""
        if frame.closures:
            self._close_all(frame, code, reason, None)

    def _close_all(self, frame: Frame, code: str, reason: str, scope: Scope | None) -> None:
        talk = self._house.peek(frame.plan.conversation_id)
        if talk is None:
            return
        talk.awaiting -= 1
        for closure, reported in zip(frame.closures, frame.results, strict=True):
            known = reported or TargetResult(frame.plan.conversation_id, "cancelled", None, code, reason)
            result, truncated = rendered(closure.render, known, talk.terms.rights.limits.max_output_bytes)
            call = closure.call
            parts = (TextPart(result.text), *result.parts)
            storage = _strictest_source(talk, result.storage, known.storage)
            talk.say([ToolOutput(new_item_id(), call.call_id, parts, result.success, call.kind, storage)])
            elapsed = round((self._clock.monotonic() - closure.begun) * 1000)
            end = ToolCallEnd(call.call_id, call.name, result.success, result.text, truncated, elapsed)
            self._bus.publish(end, scope or closure.made_by)


def _strictest_source(talk: Talk, *sources: StoragePolicy | None) -> StoragePolicy | None:
    """The policy that an answer brings along, where it is stricter than that of the conversation it comes to."""
    own = talk.terms.rights.storage_policy
    strict = strictest(own, *(source for source in sources if source is not None))
    return None if strict == own else strict
