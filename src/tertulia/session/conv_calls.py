"""One call of a conversation tool, made by a person in the name of the root conversation (S004-37).

The tool, its checks and its answers are the ones that models get. Only the way round the model is different: nobody
waits inside a task, so the target runs as a message of its own, and nothing is added to the root's history.
"""

from __future__ import annotations

from tertulia.conversation.state import ConversationState
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.protocol.ids import CallId, new_item_id, new_task_id
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.items import ToolCall
from tertulia.protocol.tool_names import CONV_TOOLS, canonical_name
from tertulia.scheduler.plan import TaskPlan
from tertulia.scheduler.reply import Reply
from tertulia.session import submission
from tertulia.session.parts import Parts
from tertulia.tools.dispatch import Dispatch, check_calls, refusal, render_result
from tertulia.tools.tool import CallContext, Handoff, Result, TargetResult


async def call_conv_tool(parts: Parts, name: str, arguments: str) -> Result:
    """What the tool answers. A refusal is an answer; InvalidParams only for what is no conversation tool."""
    if canonical_name(name) not in CONV_TOOLS:
        raise InvalidParamsError(f"there is no conversation tool {name[:64]!r}, only {', '.join(CONV_TOOLS)}")
    root, limit = parts.conversations.root, parts.conversations.root.terms.rights.limits.max_output_bytes
    call = ToolCall(new_item_id(), CallId(f"cli-{new_item_id()}"), name, arguments)
    offered = parts.toolbox.offered(root.terms, root.terms.rights)
    checked, _ = check_calls([call], parts.toolbox.registry, offered.names, lambda call: _context(parts, root, call))
    dispatch = Dispatch(
        checked,
        lambda call: _context(parts, root, call),
        began=lambda call: None,
        ended=lambda ended: None,
        timeout_s=parts.settings.tool_timeout_s,
    )
    await dispatch.run()
    if dispatch.outputs:
        return dispatch.outputs[0].result
    (_, handoff), *_ = dispatch.handoffs
    try:
        result = await _hand_over(parts, root, handoff)
    except TertuliaError as error:
        return refusal(error)
    return render_result(handoff.render, result, limit)[0]


def _context(parts: Parts, root: ConversationState, call: ToolCall) -> CallContext:
    return CallContext(
        conversation_id=root.id,
        task_id=new_task_id(),
        call_id=call.call_id,
        cwd=root.terms.cwd,
        rights=root.terms.rights,
        publish=lambda data: None,
        clock=parts.clock,
    )


async def _hand_over(parts: Parts, root: ConversationState, handoff: Handoff) -> TargetResult:
    said = to_user_message(None, handoff.input, cwd=root.terms.cwd)
    if isinstance(handoff.target, NewConversation):
        target = parts.conversations.open_child(handoff.target, root, None, handoff.fork_history)
    else:
        target = parts.conversations.find(handoff.target)
    plan = TaskPlan(target.id, "user", (said,), sub_id=submission.new_sub_id())
    reply = await submission.answer(parts.scheduler, parts.scheduler.submit(plan))
    return _heard(target, reply)


def _heard(target: ConversationState, reply: Reply) -> TargetResult:
    limit = target.terms.rights.limits.max_output_bytes
    if reply.status == "completed":
        return TargetResult(target.id, "completed", reply.text, room=limit)
    if reply.error is not None:
        return TargetResult(target.id, "failed", reply.text, reply.error.code, reply.error.message, room=limit)
    return TargetResult(target.id, "cancelled", reply.text, "cancelled", "the task was stopped", room=limit)
