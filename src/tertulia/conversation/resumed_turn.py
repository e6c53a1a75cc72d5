"""Goes on with the turn that a crash cut: its calls get their outputs, or the model is asked again.

A call that had not begun runs. One that had begun runs again, under its own id, where its tool says that this does no
harm; every other is answered with what is known, and the model decides. Then the usual loop of turns goes on.
"""

from __future__ import annotations

from contextlib import nullcontext

from msgspec.structs import replace

from tertulia.conversation.cut_task import UNKNOWN, CutTask
from tertulia.conversation.output_check import request_repair, require_output
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.turn import Admit, HandedOffCall, TurnOptions, check_answer, run_calls, run_turns
from tertulia.errors import OutcomeUnknownError
from tertulia.protocol.events import BackgroundEvent
from tertulia.protocol.items import ToolCall
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS, INTERRUPTING, canonical_name
from tertulia.tools.dispatch import CheckedCall, refusal
from tertulia.tools.tool import Result, is_retry_safe

_ASKED_AGAIN = "a crash cut this task; the model is asked again"


def take_over(scope: TaskScope, cut: CutTask) -> None:
    """Let the scope of a task know what had begun and ended before the crash: each is ended here, once."""
    scope.begun.update(dict.fromkeys(cut.begun, scope.around.clock.monotonic()))
    scope.outputs.update((output.call_id, output) for output in cut.outputs)
    scope.last_text, scope.spent, scope.repaired = cut.last_text, cut.spent, cut.repaired


async def resume_turns(cut: CutTask, scope: TaskScope, options: TurnOptions, admit: Admit) -> tuple[HandedOffCall, ...]:
    """The rest of the turns of a task that was cut; as `run_turns`."""
    if scope.conversation.history.open_calls:
        handed, over = await _finish_calls(cut, scope, admit)
        if over:
            require_output(scope, options)
        if handed or over:
            return handed
        await scope.commit()
    elif cut.answered:
        if not scope.conversation.has_pending and (options.output is None or request_repair(scope, options) is None):
            return ()
    else:
        scope.publish(BackgroundEvent(_ASKED_AGAIN, discard_deltas=True))
    return await run_turns(scope, options, admit)


async def _finish_calls(cut: CutTask, scope: TaskScope, admit: Admit) -> tuple[tuple[HandedOffCall, ...], bool]:
    _tell_ends(scope)
    conversation, rights = scope.conversation, scope.rights()
    offered = scope.around.toolbox.offered(conversation.terms, rights, merging=bool(conversation.worktree_children))
    calls = [call for call in conversation.history.open_call_items() if call.call_id not in scope.outputs]
    checked, _ = await check_answer(scope, calls, offered)
    waits = scope.around.expect_approver(conversation.id) if cut.asking else nullcontext()
    with waits:
        return await run_calls(scope, [_as_known(call, cut) for call in checked], admit)


def _tell_ends(scope: TaskScope) -> None:
    """Publish the ends of calls whose output was recorded, and whose end was not."""
    for call in scope.conversation.history.open_call_items():
        output = scope.outputs.get(call.call_id)
        if output is not None and scope.begun.pop(call.call_id, None) is not None:
            end = ToolCallEnd(call.call_id, call.name, output.success, output.text, False, 0)
            scope.publish(end, output.storage)


def _as_known(checked: CheckedCall, cut: CutTask) -> CheckedCall:
    """The call as it may run, or with the output that says what is known of it."""
    call_id = checked.call.call_id
    if call_id not in cut.begun or call_id in cut.asking or _may_run_again(checked):
        return checked
    return replace(checked, arguments=None, refusal=_unknown(checked.call))


def _may_run_again(checked: CheckedCall) -> bool:
    # What opens or asks another conversation has had no effect before its task has handed over.
    if canonical_name(checked.call.name) in INTERRUPTING:
        return True
    return checked.tool is not None and is_retry_safe(checked.tool)


def _unknown(call: ToolCall) -> Result:
    if canonical_name(call.name) in ALL_CONV_TOOLS:
        # The answer of a conversation tool is JSON, in every ending.
        return refusal(OutcomeUnknownError(UNKNOWN))
    return Result(UNKNOWN, success=False)
