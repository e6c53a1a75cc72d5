"""The turn as a loop: ask, listen, act, until the model has nothing more to do.

Pure in the sense that matters: it knows no session, no queue and no surface. Everything it does to the world goes
through the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from tertulia.conversation.compaction import trim_for_overflow, trim_to_limits
from tertulia.conversation.model_answer import ModelAnswer, ProviderError, request_answer
from tertulia.conversation.sampling import sample
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.terms import TurnContext
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import TertuliaError
from tertulia.models.wire import ModelRequest
from tertulia.prompt.fingerprint import fingerprint_request
from tertulia.prompt.request import RequestInputs, build_request
from tertulia.prompt.tool_list import OfferedTools
from tertulia.protocol.events import TokenCount, WarningEvent
from tertulia.protocol.items import ToolCall, UserMessage
from tertulia.protocol.records import ModelRequestRecord
from tertulia.tools.dispatch import CheckedCall, Dispatch, check_calls, refusal
from tertulia.tools.tool import CallContext, Handoff

Admit = Callable[[Handoff], None]
"""Raises an AgentError where a handoff may not happen; has no other effect then."""


class TurnOptions(Protocol):
    """What a plan says about the turns of its task."""

    @property
    def base_instructions_override(self) -> str | None:
        """For this task only."""
        ...

    @property
    def output_schema(self) -> str | None:
        """What the answer must look like."""
        ...


class HandedOffCall(msgspec.Struct, frozen=True):
    """A call that another conversation has to answer before this one goes on."""

    call: ToolCall
    handoff: Handoff
    message: UserMessage
    begun: float


async def run_turns(floor: TaskScope, script: TurnOptions, admit: Admit) -> tuple[HandedOffCall, ...]:
    """Turns until the model is done (empty), or until calls have to be handed over."""
    while True:
        floor.take_pending()
        answer, known = await _request_with_retry(floor, script)
        checked = _record(floor, answer, known)
        # Not committed yet: that is done before a tool runs that may change something, or with the task's end.
        floor.check_wanted()
        if checked:
            handed, over = await _run_calls(floor, checked, admit)
            if handed or over:
                return handed
            await floor.commit()
        elif not floor.talk.has_pending:
            return ()


async def _request_with_retry(floor: TaskScope, script: TurnOptions) -> tuple[ModelAnswer, OfferedTools]:
    """Ask once; if the history does not fit, make room and ask once more."""
    trim_to_limits(floor)
    turn = _prepare(floor, script)
    try:
        answer = await _send_request(floor, turn)
    except ProviderError as failure:
        if not (failure.overflow and trim_for_overflow(floor)):
            raise
        turn = _prepare(floor, script)
        answer = await _send_request(floor, turn)
    return answer, turn.known


class _PreparedTurn(msgspec.Struct, frozen=True):
    """One request, and what it was made from."""

    asked: ModelRequestRecord
    context: TurnContext
    known: OfferedTools
    """Those that answer. More than are offered: who asks for too much is told which limit it was."""
    request: ModelRequest


def _prepare(floor: TaskScope, script: TurnOptions) -> _PreparedTurn:
    # Terms and rights are read anew for each request: that is when a change takes effect.
    talk, rights = floor.talk, floor.rights()
    context = talk.turn_context(rights, floor.around.shell_environment)
    known = floor.around.toolbox.offered(talk.terms, rights)
    delegating = floor.chain().may_deepen(rights.limits)
    tools = known if delegating else floor.around.toolbox.offered(talk.terms, rights, delegating=False)
    override = script.base_instructions_override
    asking = RequestInputs(
        conversation_id=talk.id,
        wire=context.client,
        override=talk.terms.context.base_instructions if override is None else override,
        tools=tools,
        storage=context.storage_policy,
        output_schema=script.output_schema,
    )
    request = build_request(asking, talk.history)
    asked = fingerprint_request(
        (talk.id, floor.task_id),
        request.instructions,
        request.tools_json,
        talk.history.snapshot(),
        override=override,
        output_schema=script.output_schema,
        storage=floor.storage(),
    )
    return _PreparedTurn(asked, context, known, request)


async def _send_request(floor: TaskScope, turn: _PreparedTurn) -> ModelAnswer:
    wire, request = turn.context.client, turn.request
    # What goes out besides the history counts too, or short histories would look dear.
    estimate = floor.talk.history.approx_tokens + (len(request.instructions) + len(request.tools_json)) // 4
    floor.talk.note(turn.asked)
    answer = await request_answer(floor, wire, request)
    usage = answer.finished.usage
    floor.charge(usage)
    floor.talk.history.calibrate(estimate, usage.input_tokens)
    floor.publish(TokenCount(usage, wire.context_window, request.cache_key))
    return answer


def _record(floor: TaskScope, answer: ModelAnswer, known: OfferedTools) -> list[CheckedCall]:
    """Write the answer down, without calls that repeat an id of it; all calls are checked before any runs."""
    reach = floor.around.toolbox.reach(known, floor.talk.id, floor.talk.terms.context.mcp_view)
    checked, dropped = check_calls(answer.calls, reach, known.names, _context_for(floor))
    unwanted = set(map(id, dropped))
    items = [item for item in answer.items if id(item) not in unwanted]
    floor.say(items)
    for item in items:
        floor.announce(item)
    for call in dropped:
        floor.publish(
            WarningEvent(
                f"the model used the call id {call.call_id!r} twice in one answer; the second call was dropped"
            )
        )
    return checked


async def _run_calls(
    floor: TaskScope, checked: list[CheckedCall], admit: Admit
) -> tuple[tuple[HandedOffCall, ...], bool]:
    """Run the calls: (those to be handed over, whether one of them ended the task)."""
    dispatch = Dispatch(
        checked,
        _context_for(floor),
        began=floor.begin,
        committed=floor.commit,
        ended=lambda ended: floor.end(ended.call, ended.result, truncated=ended.truncated),
        timeout_s=floor.around.tool_timeout_s,
    )
    await dispatch.run()
    # Not only before the next request: a task that was to stop must not hand over either.
    floor.check_wanted()
    if any(ended.result.ends_task for ended in dispatch.outputs):
        floor.tidy("not run: another call ended the task")
        return (), True
    handed = [h for call, handoff in dispatch.handoffs if (h := _hand_over(floor, call, handoff, admit))]
    floor.settle_calls()
    return tuple(handed), False


def _hand_over(floor: TaskScope, call: ToolCall, handoff: Handoff, admit: Admit) -> HandedOffCall | None:
    """Ready to be handed over, or None: refused, and answered."""
    try:
        message = to_user_message(None, handoff.input, cwd=floor.talk.terms.cwd)
        admit(handoff)
    except TertuliaError as error:
        floor.end(call, refusal(error))
        return None
    return HandedOffCall(call, handoff, message, floor.leave(call))


def _context_for(floor: TaskScope) -> Callable[[ToolCall], CallContext]:
    def context(call: ToolCall) -> CallContext:
        return CallContext(
            conversation_id=floor.talk.id,
            task_id=floor.task_id,
            call_id=call.call_id,
            cwd=floor.talk.terms.cwd,
            rights=floor.rights(),
            publish=floor.pass_on,
            clock=floor.around.clock,
            chain=floor.chain(),
            aside=partial(sample, floor),
        )

    return context
