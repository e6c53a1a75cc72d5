"""Restores a session as its record says. It runs nothing: unfinished work is closed and reported.

Every open call gets its one output, the innermost conversation first; every task without an end gets one; the
conversations wait for their next message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from tertulia.conversation.state import ConversationState
from tertulia.errors import TaskCancelledError
from tertulia.events.bus import EventScope
from tertulia.protocol.events import AbortReason, ErrorEvent, TaskComplete, TurnAborted, WarningEvent
from tertulia.protocol.ids import CallId, ConversationId, TaskId, new_item_id
from tertulia.protocol.items import TextPart, ToolCall, ToolOutput, readable_arguments
from tertulia.protocol.records import ItemsRecord, RewriteRecord
from tertulia.protocol.storage import (
    Full,
    HeadersOnly,
    NoStorage,
    StoragePolicy,
    Ttl,
    storage_to_wire,
    strictest,
    strictness,
)
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS, INTERRUPTING, canonical_name
from tertulia.protocol.worktree import OwnWorktree
from tertulia.scheduler.plan import recorded_chain
from tertulia.scheduler.reply import Failure, Reply, ReplyStatus, without_text
from tertulia.session.parts import SessionParts
from tertulia.session.resume.go_on import ChainsThatGoOn, restore_chains
from tertulia.session.resume.rebuild import ConversationRestorer, RestoredConversation, UnstoredHistory
from tertulia.session.resume.recorded_state import RecordedChain, RecordedConversation, RecordedState, StartedCall
from tertulia.tools.dispatch import refusal

INTERRUPTED = "interrupted: the process died before this call was handled"
UNKNOWN = (
    "outcome unknown: the process died after this tool was started and before its result was written down; "
    "it may or may not have had its effect"
)
_TARGET_LOST = "interrupted: the process died before the other conversation had answered"


def close_open_work(
    parts: SessionParts,
    past: RecordedState,
    restored: Sequence[RestoredConversation],
    going_on: ChainsThatGoOn | None = None,
) -> None:
    """Give every open call its output and every task its end, but for what goes on; report what is not restored."""
    going_on = going_on or ChainsThatGoOn()
    conversations = {entry.conversation.id: entry for entry in restored}
    for old in sorted(past.conversations.values(), key=partial(_innermost, past), reverse=True):
        back = conversations.get(old.id)
        if back is not None and old.id not in going_on.conversations:
            _close_calls(parts, old, back, past.without_end(old))
        _end_tasks(parts, past, old.id, going_on.tasks)
    for entry in restored:
        _publish_missing(parts, past.conversations[entry.conversation.id], entry)
    _warn_of_erasure(parts, past, restored)
    if past.damaged:
        message = f"{past.damaged} damaged records of this session could not be read and were left out"
        parts.bus.publish(WarningEvent(message, "record_damaged"))
    if past.missing_records:
        parts.bus.publish(WarningEvent(_missing_text(past.missing_records), "records_missing"))
    for chain in past.chains.values():
        if (reply := _reply(chain)) is not None and chain.conversation_id in conversations:
            parts.scheduler.ledger.note(recorded_chain(chain.conversation_id, chain.message, reply))


def _warn_of_erasure(parts: SessionParts, past: RecordedState, restored: Sequence[RestoredConversation]) -> None:
    """A stricter policy than before erases what was stored under the former one; publish that when it happens."""
    pairs = [(past.conversations[entry.conversation.id].agreed, entry.conversation.storage) for entry in restored]
    stricter = [now for then, now in pairs if then is not None and strictness(now) < strictness(then.storage)]
    if stricter:
        policy = storage_to_wire(strictest(*stricter))
        whose = "one of its conversations" if len(stricter) == 1 else f"{len(stricter)} of its conversations"
        message = f"the storage policy {policy} is stricter than before: what was stored of {whose} is erased by it"
        parts.bus.publish(WarningEvent(message, "texts_erased"))


def _missing_text(missing: int) -> str:
    if missing < 0:
        what = "the head of this session's record was removed, or is an older one: what is missing is not known"
    else:
        records = "1 record of this session is" if missing == 1 else f"{missing:,} records of this session are"
        what = f"{records} missing"
    return f"{what}; it goes on with what is left, and `tertulia sessions replay --verify` says where the hole is"


# ── open calls ───────────────────────────────────────────────────────────────────────────────────────────────


def _innermost(past: RecordedState, conversation: RecordedConversation) -> int:
    """Sort key: the inner conversations of a chain are those in which a task or a call began last."""
    tasks = (task.n for task in past.unfinished.values() if task.scope.conversation_id == conversation.id)
    return max(*tasks, *(started.n for started in conversation.begun.values()), 0, 0)


def _close_calls(
    parts: SessionParts, old: RecordedConversation, back: RestoredConversation, endless: Mapping[CallId, StartedCall]
) -> None:
    conversation, forgotten = back.conversation, back.forgotten
    calls = conversation.history.open_call_items() if forgotten is None else forgotten.open_calls
    outputs = [_output(call, old, conversation.storage, parts.clock.now()) for call in calls]
    if forgotten is None:
        conversation.say(outputs)
    else:
        _restart_history(conversation, forgotten, outputs)
    for call, output in zip(calls, outputs, strict=True):
        started = old.begun.get(call.call_id)
        if started is None and call.call_id in old.ended:
            continue
        scope = EventScope("", conversation.id) if started is None else started.scope
        if started is None:
            parts.bus.publish(ToolCallBegin(call.call_id, call.name, readable_arguments(call)), scope, call.storage)
        end = ToolCallEnd(call.call_id, call.name, output.success, output.text, False, 0)
        parts.bus.publish(end, scope, output.storage)
    lost = {id: started for id, started in endless.items() if id not in {call.call_id for call in calls}}
    _end_unknown_calls(parts, lost, conversation)
    if any(canonical_name(entry.name) in INTERRUPTING for entry in (*calls, *lost.values())):
        message = f"the chain in which conversation {conversation.id} waited was dropped: the process died"
        parts.bus.publish(WarningEvent(message, "chain_dropped"), EventScope("", conversation.id))


def _restart_history(
    conversation: ConversationState, forgotten: UnstoredHistory, outputs: Sequence[ToolOutput]
) -> None:
    """Record what the history lacks: the outputs of its last calls, and that it begins again.

    A later reader of the record, to resume or to fork, must count the same items as this process does.
    """
    segments = forgotten.segments
    if outputs:
        conversation.note(ItemsRecord(conversation.id, tuple(outputs)))
        segments += 1
    if segments > len(forgotten.seeds):
        conversation.note(
            RewriteRecord(conversation.id, forgotten.seeds, segments, len(forgotten.seeds), None, segments)
        )
    if forgotten.stand_ins:
        conversation.note(ItemsRecord(conversation.id, forgotten.stand_ins))


def _end_unknown_calls(
    parts: SessionParts, lost: Mapping[CallId, StartedCall], conversation: ConversationState
) -> None:
    """Calls without an end that are not open in the history.

    Their output was written and their end was not (on a full disk, say); or the call itself was not stored.
    """
    outputs = {item.call_id: item for item in conversation.history.snapshot() if isinstance(item, ToolOutput)}
    for call_id, started in lost.items():
        output = outputs.get(call_id) or ToolOutput(new_item_id(), call_id, _outcome_text(started.name, UNKNOWN), False)
        end = ToolCallEnd(call_id, started.name, output.success, output.text, False, 0)
        parts.bus.publish(end, started.scope, output.storage)


def _output(call: ToolCall, old: RecordedConversation, storage: StoragePolicy, now: float) -> ToolOutput:
    """The recorded output, expiring when it would have expired; else a sentence that says what is known."""
    if (output := old.ended.get(call.call_id)) is not None:
        own = storage if output.storage is None else strictest(storage, output.storage)
        left = _remaining_policy(own, now - old.ended_at[call.call_id])
        return output if left == own else replace(output, storage=left or HeadersOnly())
    text = UNKNOWN if call.call_id in old.begun and not old.asks else INTERRUPTED
    return ToolOutput(new_item_id(), call.call_id, _outcome_text(call.name, text), False, call.kind)


def _outcome_text(tool: str, text: str) -> tuple[TextPart]:
    if (name := canonical_name(tool)) in ALL_CONV_TOOLS:
        # The answer of a conversation tool is JSON, in every ending.
        text = refusal(TaskCancelledError(_TARGET_LOST if name in INTERRUPTING else text)).text
    return (TextPart(text),)


def _end_tasks(
    parts: SessionParts, past: RecordedState, conversation_id: ConversationId, going_on: frozenset[TaskId]
) -> None:
    for task in sorted(past.unfinished.values(), key=lambda task: task.n, reverse=True):
        if task.scope.conversation_id == conversation_id and task.scope.task_id not in going_on:
            scope = task.scope if task.scope.sub_id else replace(task.scope, sub_id=f"conv/{task.scope.task_id}")
            parts.bus.publish(TurnAborted("crash"), scope)


def _publish_missing(parts: SessionParts, old: RecordedConversation, restored: RestoredConversation) -> None:
    conversation, scope = restored.conversation, EventScope("", restored.conversation.id)
    if (
        old.plan is not None
        and (policy := _remaining_policy(conversation.storage, parts.clock.now() - old.plan_at)) is not None
    ):
        parts.bus.publish(old.plan, scope, policy)
    for warning in restored.warnings:
        parts.bus.publish(WarningEvent(warning, "not_restored"), scope)
    if restored.missing or conversation.lost_title:
        missing = _what_is_missing(conversation.storage, restored.missing, title=conversation.lost_title)
        message = f"conversation {conversation.id} comes back without {missing}"
        parts.bus.publish(WarningEvent(message, "not_stored"), scope)


def _what_is_missing(policy: StoragePolicy, count: int, *, title: bool = False) -> str:
    texts = ["1 text" if count == 1 else f"{count} texts"] if count else []
    what = " and ".join([*(["its title"] if title else []), *texts])
    it, was, has = ("they", "were", "have") if count else ("it", "was", "has")
    match policy:
        case NoStorage():
            return f"{'its title and ' * title}everything that was said in it: its storage policy is none"
        case HeadersOnly():
            return f"{what}: {it} {was} not stored, its storage policy is headers_only"
        case Ttl(seconds):
            return f"{what}: {it} {has} expired or {was} not stored, its storage policy is ttl:{seconds:g}"
        case Full():
            return f"{what}: {it} {was} not stored, by the policy of another conversation, or {was} removed since"


def _remaining_policy(policy: StoragePolicy, age: float) -> StoragePolicy | None:
    """The policy for what is published again at that age, so that it expires on time; None where it has expired."""
    if not isinstance(policy, Ttl):
        return policy
    return Ttl(min(policy.seconds - age, policy.seconds)) if age < policy.seconds else None


# ── answers that were given ──────────────────────────────────────────────────────────────────────────────────

_STATUS: dict[AbortReason, ReplyStatus] = {"timeout": "failed", "limit": "failed"}


def _reply(chain: RecordedChain) -> Reply | None:
    """The answer that the message got; None where it got none, and may be sent again."""
    match chain.end:
        case TaskComplete(status=status, last_assistant_message=text):
            error = _failure(chain.error) if status == "failed" and chain.error else None
        case TurnAborted(reason=reason) if reason != "crash":
            status, text = _STATUS.get(reason, "interrupted"), None
            error = Failure(reason, f"the task was ended ({reason})") if status == "failed" else None
        case _:
            return None
    reply = Reply(
        text="" if chain.text_is_missing else text,
        status=status,
        usage=chain.usage,
        tool_calls=chain.tool_calls,
        duration=max(0.0, chain.ended - chain.started),
        task_id=chain.task_id,
        trace_id=chain.trace_id,
        error=error,
    )
    return without_text(reply) if chain.text_is_missing else reply


def _failure(error: ErrorEvent) -> Failure:
    return Failure(error.code, error.message or f"the task failed ({error.code}); what it said is not stored")


def restore_session(parts: SessionParts, past: RecordedState, *, continues: bool) -> None:
    """Bring back all conversations; `continues`: also what a crash cut of tasks that may go on. The rest is closed."""

    def find_worktree(conversation_id: ConversationId) -> OwnWorktree | None:
        record = parts.worktrees.folder.find(conversation_id)
        return None if record is None else record.worktree

    if parts.spending is not None:
        parts.spending.add(*past.spent)
    past_life = ConversationRestorer(past, parts.terms_resolver, parts.clock, parts.journal, find_worktree)
    restored = list(past_life.conversations())
    for entry in restored:
        parts.conversations.restore(entry.conversation, entry.narrowed)
    for parent_id, child in past_life.closed_children:
        if parent_id is not None and (parent := parts.conversations.peek(parent_id)) is not None:
            parent.worktree_children[child.worktree.conversation_id] = child
    for old in past.conversations.values():
        if old.drawn is not None:
            parts.agent_registry.remember(old.drawn)
        if parts.conversations.peek(old.id) is None:
            parts.conversations.gone.add(old.id)
    going_on = restore_chains(parts, past, restored, wanted=continues)
    close_open_work(parts, past, restored, going_on)
    for chain in going_on.chains:
        parts.scheduler.cut_chains.restore(chain)
