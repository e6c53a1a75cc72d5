"""Calls of a conversation's tools by a program, and not by its model: the same checks, the same events.

Nothing is added to the conversation's history, and no task runs: no model would read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tertulia.conversation.state import ConversationState
from tertulia.errors import UnsupportedByBackendError
from tertulia.events.bus import EventScope
from tertulia.policy.rights import Rights
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId, new_item_id, new_span_id, new_task_id, new_trace_id
from tertulia.protocol.items import ToolCall, readable_arguments
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.session.parts import SessionParts
from tertulia.tools.dispatch import CheckedCall, CompletedCall, Dispatch, check_call, refusal
from tertulia.tools.tool import CallContext, Result

_EXTERNAL = "outside-"
_NO_HANDOFF = refusal(
    UnsupportedByBackendError(
        "this tool hands its call to another conversation, which only a native model can wait for"
    )
)


def is_external(call: CallContext) -> bool:
    """Whether a program made this call."""
    return call.call_id.startswith(_EXTERNAL)


async def call_externally(
    parts: SessionParts,
    conversation: ConversationState,
    name: str,
    arguments: str,
    sources: Collection[str],
    on_event: Callable[[EventData], None],
    *,
    rights: Rights | None = None,
    program: str = "",
) -> Result:
    """The result of the tool; a refusal is a result. Only tools of these sources can be called.

    `on_event` is called with every event of the call. `rights` may be fewer than the conversation's own. `program`: see
    `CallContext`.
    """
    rights = rights or conversation.terms.rights
    call = ToolCall(new_item_id(), CallId(f"{_EXTERNAL}{new_item_id()}"), name, arguments)
    task = new_task_id()
    scope = EventScope(f"outside/{task}", conversation.id, task, new_trace_id(), new_span_id())

    def publish(data: EventData) -> None:
        parts.bus.publish(data, scope, rights.storage_policy)
        on_event(data)

    def context(call: ToolCall) -> CallContext:
        return CallContext(
            conversation_id=conversation.id,
            task_id=task,
            call_id=call.call_id,
            cwd=conversation.terms.cwd,
            rights=rights,
            publish=publish,
            clock=parts.clock,
            worktree=conversation.terms.worktree,
            program=program,
        )

    dispatch = Dispatch(
        [_check_call(parts, conversation, call, sources, context)],
        context,
        began=lambda call: publish(ToolCallBegin(call.call_id, call.name, readable_arguments(call))),
        ended=lambda end: publish(_end_of(call, end)),
        committed=parts.bus.flush,
        timeout_s=parts.settings.tool_timeout_s,
        hooks=parts.hooks,
    )
    result = await _result_of(dispatch, publish)
    await parts.bus.flush()
    return result


async def _result_of(dispatch: Dispatch, publish: Callable[[EventData], None]) -> Result:
    await dispatch.run()
    for call, _ in dispatch.handoffs:
        # No task waits here for what another conversation would answer.
        publish(_end_of(call, CompletedCall(call, _NO_HANDOFF, truncated=False, duration_ms=0)))
    return dispatch.outputs[0].result if dispatch.outputs else _NO_HANDOFF


def _end_of(call: ToolCall, end: CompletedCall) -> ToolCallEnd:
    result = end.result
    return ToolCallEnd(call.call_id, call.name, result.success, result.text, end.truncated, end.duration_ms)


def _check_call(
    parts: SessionParts,
    conversation: ConversationState,
    call: ToolCall,
    sources: Collection[str],
    context: Callable[[ToolCall], CallContext],
) -> CheckedCall:
    offered = parts.toolbox.offered(conversation.terms, context(call).rights, delegating=False)
    reachable = {spec.name for spec in offered.specs if spec.source in sources}
    reach = parts.toolbox.reach(offered, conversation.id, conversation.terms)
    return check_call(call, reach, reachable, context)
