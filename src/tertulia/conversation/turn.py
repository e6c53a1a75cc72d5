"""The turn loop: request, read the answer, run its calls, until the model has nothing more to do.

It knows no session, no queue and no surface: all its effects go through the task scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec

from tertulia.conversation.model_answer import (
    ModelAnswer,
    ProviderError,
    charge_request,
    request_answer,
    require_room,
    sample,
)
from tertulia.conversation.output_check import OutputOptions, request_repair, require_output
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope, clean_texts, terms_in_use
from tertulia.conversation.terms import TurnContext
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import TertuliaError
from tertulia.history.encoding import STEP_BYTES
from tertulia.models.wire import ModelRequest
from tertulia.prompt.request import RequestInputs, build_request, fingerprint_request
from tertulia.prompt.tool_list import OfferedTools
from tertulia.protocol.events import WarningEvent
from tertulia.protocol.items import ToolCall, UserMessage
from tertulia.protocol.records import PAUSE, ModelRequestRecord, NoteRecord, recorded_model
from tertulia.tools.dispatch import CheckedCall, Dispatch, check_calls, refusal
from tertulia.tools.tool import CallContext, Handoff

_MAX_PAUSES = 16
"""So often one task asks a provider to go on that has paused."""

Admit = Callable[[Handoff], None]
"""Raises a TertuliaError where a handoff may not happen; has no other effect then."""


TurnLoop = Callable[["TaskScope", "TurnOptions", Admit], Awaitable[tuple["HandedOffCall", ...]]]
"""Runs the turns of a task; see `run_turns`."""


class TurnOptions(OutputOptions, Protocol):
    """What a plan says about the turns of its task."""

    @property
    def base_instructions_override(self) -> str | None:
        """Holds for this task only."""
        ...


class HandedOffCall(msgspec.Struct, frozen=True):
    """A call that another conversation has to answer before this one goes on."""

    call: ToolCall
    handoff: Handoff
    message: UserMessage
    begun: float


async def run_turns(scope: TaskScope, script: TurnOptions, admit: Admit) -> tuple[HandedOffCall, ...]:
    """Turns until the model is done (empty), or until calls have to be handed over."""
    pauses = 0
    while True:
        scope.take_pending()
        answer, offered = await _request_with_fallback(scope, script)
        checked = await _record(scope, answer, offered)
        # Not committed yet: that is done before a tool runs that may change something, or with the task's end.
        scope.check_wanted()
        if checked:
            handed, over = await run_calls(scope, checked, admit)
            if over:
                require_output(scope, script)
            if handed or over:
                return handed
            await scope.commit()
        elif answer.finished.stop_reason == "pause" and pauses < _MAX_PAUSES:
            # The provider goes on where it is: its answer so far is the end of the history.
            pauses += 1
            _note_pause(scope.conversation, answer)
        elif not scope.conversation.has_pending and (script.output is None or request_repair(scope, script) is None):
            return ()


def _note_pause(conversation: ConversationState, answer: ModelAnswer) -> None:
    """After a crash, an answer in which the provider has paused is not taken for a whole one."""
    if answer.items and conversation.terms.rights.on_restart == "continue":
        conversation.note(NoteRecord(conversation.id, PAUSE, {"item": answer.items[-1].id}))


async def _request_with_fallback(scope: TaskScope, script: TurnOptions) -> tuple[ModelAnswer, OfferedTools]:
    """Send the request; where its model has finally failed, have the next one answer it."""
    while True:
        try:
            return await _request_with_retry(scope, script)
        except ProviderError as failure:
            if not scope.conversation.terms.fallback_models:
                raise
            # Imported here: few conversations have another model.
            from tertulia.conversation.fallback import use_next_model

            if not use_next_model(scope, failure):
                raise


async def _request_with_retry(scope: TaskScope, script: TurnOptions) -> tuple[ModelAnswer, OfferedTools]:
    """Send the request; if the history does not fit, trim it and send once more."""
    if scope.conversation.history.over_limit():
        # Imported here: most histories are shorter.
        from tertulia.conversation.compaction import trim_to_limits

        trim_to_limits(scope)
    await _encode_history(scope)
    turn = _prepare(scope, script)
    if (begins_at := _room_is_needed(scope, turn.request)) is not None:
        from tertulia.conversation.compaction import make_room

        await make_room(scope, begins_at, _beside_history(turn.request))
        scope.check_wanted()
        await _encode_history(scope)
        turn = _prepare(scope, script)
    try:
        answer = await _send_request(scope, turn)
    except ProviderError as failure:
        from tertulia.conversation.compaction import trim_for_overflow

        if not (failure.overflow and trim_for_overflow(scope)):
            raise
        await _encode_history(scope)
        turn = _prepare(scope, script)
        answer = await _send_request(scope, turn)
    return answer, turn.known


def _room_is_needed(scope: TaskScope, request: ModelRequest) -> int | None:
    """Where a request has come near the end of the model's window, the tokens above which the history is made smaller:

    what that share of the window leaves beside the instructions and tools.
    """
    conversation = scope.conversation
    share = conversation.terms.rights.limits.compact_at
    if share is None:
        return None
    begins_at = max(int(terms_in_use(scope).wire.context_window * share) - _beside_history(request), 0)
    return begins_at if conversation.history.approx_tokens > max(begins_at, conversation.compact_above) else None


def _beside_history(request: ModelRequest) -> int:
    """The estimated tokens of instructions and tools, without which short histories would look expensive."""
    return (len(request.instructions) + len(request.tools_json)) // 4


async def _encode_history(scope: TaskScope) -> None:
    """Have what is long of it encoded before the request is made, which happens in one step."""
    history, dialect = scope.conversation.history, terms_in_use(scope).wire.dialect
    encoded: tuple[bytes, ...] = ()
    while (
        history.totals.byte_count > STEP_BYTES
        and (more := history.encoded(dialect, most_bytes=STEP_BYTES)) is not encoded
    ):
        encoded = more
        await asyncio.sleep(0)


class _PreparedTurn(msgspec.Struct, frozen=True):
    """One request, and what it was made from."""

    record: ModelRequestRecord
    context: TurnContext
    known: OfferedTools
    """The tools that answer calls. More than are offered, so that a call beyond a limit is told which one."""
    request: ModelRequest


def _prepare(scope: TaskScope, script: TurnOptions) -> _PreparedTurn:
    # Terms and rights are read again for each request: that is when a change takes effect.
    conversation, rights, terms = scope.conversation, scope.rights(), terms_in_use(scope)
    context = conversation.turn_context(rights, scope.around.shell_environment, terms.wire)
    toolbox, merging = scope.around.toolbox, bool(conversation.worktree_children)
    offered = toolbox.offered(terms, rights, merging=merging)
    delegating = scope.chain().may_deepen(rights.limits)
    tools = offered
    if not delegating:
        tools = toolbox.offered(terms, rights, delegating=False, merging=merging)
    override = script.base_instructions_override
    output, output_schema = script.output, None if script.output is None else script.output.schema
    asking = RequestInputs(
        conversation_id=conversation.id,
        wire=context.client,
        override=terms.context.base_instructions if override is None else override,
        tools=tools,
        storage=context.storage_policy,
        output_schema=output_schema,
        output_name="answer" if output is None else output.name,
        settings=terms.model_settings,
    )
    request = build_request(asking, conversation.history)
    record = fingerprint_request(
        (conversation.id, scope.task_id),
        request.instructions,
        request.tools_json,
        conversation.history.snapshot(),
        tools_digest=tools.encoded_digest(context.client.dialect),
        override=override,
        output_schema=output_schema,
        storage=scope.storage(),
        model=None if scope.fallback is None else recorded_model(terms.wire.name),
    )
    return _PreparedTurn(record, context, offered, request)


async def _send_request(scope: TaskScope, turn: _PreparedTurn) -> ModelAnswer:
    wire, request = turn.context.client, turn.request
    estimate = scope.conversation.history.approx_tokens + _beside_history(request)
    require_room(scope, wire)
    scope.conversation.note(turn.record)
    answer = await request_answer(scope, wire, request)
    usage = answer.finished.usage
    scope.conversation.history.calibrate(estimate, usage.input_tokens)
    charge_request(scope, wire, usage, request.cache_key)
    return answer


async def check_answer(
    scope: TaskScope, calls: list[ToolCall], offered: OfferedTools
) -> tuple[list[CheckedCall], list[ToolCall]]:
    """Check the calls of one answer: (those to run or refuse, those to drop)."""
    reach = scope.around.toolbox.reach(offered, scope.conversation.id, terms_in_use(scope))
    return await check_calls(calls, reach, offered.names, _context_for(scope))


async def _record(scope: TaskScope, answer: ModelAnswer, offered: OfferedTools) -> list[CheckedCall]:
    """Write the answer down, without calls that repeat an id of it; all calls are checked before any runs."""
    checked, dropped = await check_answer(scope, answer.calls, offered) if answer.calls else ([], [])
    unwanted = set(map(id, dropped))
    items = [item for item in answer.items if id(item) not in unwanted]
    await clean_texts(scope, (item.text for item in items if not isinstance(item, ToolCall)))
    scope.say(items)
    for item in items:
        scope.announce(item)
    for call in dropped:
        scope.publish(
            WarningEvent(
                f"the model used the call id {call.call_id!r} twice in one answer; the second call was dropped"
            )
        )
    return checked


async def run_calls(
    scope: TaskScope, checked: list[CheckedCall], admit: Admit
) -> tuple[tuple[HandedOffCall, ...], bool]:
    """Run the calls: (those to be handed over, whether one of them ended the task)."""
    dispatch = Dispatch(
        checked,
        _context_for(scope),
        began=scope.begin,
        committed=scope.commit,
        ended=lambda ended: scope.end(ended.call, ended.result, truncated=ended.truncated),
        timeout_s=scope.around.tool_timeout_s,
        changes=None if scope.around.before_change is None else partial(scope.around.before_change, scope),
        hooks=scope.around.hooks,
    )
    await dispatch.run()
    # Not only before the next request: a cancelled task must not hand over either.
    scope.check_wanted()
    if any(ended.result.ends_task for ended in dispatch.outputs):
        scope.tidy("not run: another call ended the task")
        return (), True
    handed = [h for call, handoff in dispatch.handoffs if (h := _hand_over(scope, call, handoff, admit))]
    scope.settle_calls()
    return tuple(handed), False


def _hand_over(scope: TaskScope, call: ToolCall, handoff: Handoff, admit: Admit) -> HandedOffCall | None:
    """The call as it can be handed over; None where it was refused and answered."""
    try:
        message = to_user_message(None, handoff.input, cwd=scope.conversation.terms.cwd)
        admit(handoff)
    except TertuliaError as error:
        scope.end(call, refusal(error))
        return None
    return HandedOffCall(call, handoff, message, scope.leave(call))


def _context_for(scope: TaskScope) -> Callable[[ToolCall], CallContext]:
    def context(call: ToolCall) -> CallContext:
        return CallContext(
            conversation_id=scope.conversation.id,
            task_id=scope.task_id,
            call_id=call.call_id,
            cwd=scope.conversation.terms.cwd,
            rights=scope.rights(),
            publish=scope.pass_on,
            clock=scope.around.clock,
            chain=scope.chain(),
            aside=partial(sample, scope),
            worktree=scope.conversation.terms.worktree,
        )

    return context
