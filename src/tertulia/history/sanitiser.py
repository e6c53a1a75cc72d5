"""Enforces the invariant of a history: each call has at most one output, after it, and each output has its call.

`prove` checks items that this process made, once for each segment; `mend` repairs items that come from elsewhere
(a record that a crash cut short, an import) so that they pass `prove`. Neither looks at the texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from tertulia.errors import InternalError
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import Item, Reasoning, ToolCall, ToolOutput, UserMessage, text_parts


def prove(items: Iterable[Item]) -> tuple[tuple[CallId, ...], tuple[CallId, ...]]:
    """(calls without an output, outputs whose call must be in an earlier segment), each in order.

    Raises Internal for a second call under an id that is still open and for a second output of one call. An id may be
    used again once its call was answered, so an output before a call of the same id answers an earlier call.
    """
    opens: dict[CallId, None] = {}
    closes: dict[CallId, None] = {}
    answered: set[CallId] = set()
    for item in items:
        if isinstance(item, ToolCall):
            if item.call_id in opens:
                raise InternalError("a call id is used again before its call was answered", call_id=item.call_id)
            opens[item.call_id] = None
        elif isinstance(item, ToolOutput):
            if item.call_id in opens:
                del opens[item.call_id]
            elif item.call_id in answered:
                raise InternalError("a call was answered twice", call_id=item.call_id)
            else:
                closes[item.call_id] = None
            answered.add(item.call_id)
    return tuple(opens), tuple(closes)


def closing_outputs(calls: Iterable[ToolCall], reason: str) -> tuple[ToolOutput, ...]:
    """Failed outputs, with the reason as their text, for calls that will get no other output.

    Their ids are derived from the calls: closing the same call again, for instance after a crash, gives an equal item.
    """
    return tuple(
        ToolOutput(_derived_id(call), call.call_id, text_parts(reason), success=False, kind=call.kind) for call in calls
    )


def _derived_id(call: ToolCall) -> ItemId:
    # Not the call id alone: it may be used again after an answer, and item ids are unique.
    seed = f"{call.id}\n{call.call_id}".encode("utf-8", "surrogatepass")
    return ItemId(hashlib.sha256(seed).digest()[:8].hex())


def mend(items: Iterable[Item], reason: str) -> list[Item]:
    """The same items, paired: `prove` finds no open end in the result.

    Outputs without a call, second outputs and second calls under an open id are dropped. A call that is never
    answered gets an output that gives the reason, right after the run of calls and outputs that it is part of,
    because some models accept nothing else between a call and its output.
    """
    whole, unanswered = paired(items)
    mended: list[Item] = []
    due: list[ToolCall] = []
    for position, item in enumerate(whole):
        if due and not isinstance(item, ToolCall | ToolOutput):
            mended.extend(closing_outputs(due, reason))
            due.clear()
        mended.append(item)
        if isinstance(item, ToolCall) and position in unanswered:
            due.append(item)
    mended.extend(closing_outputs(due, reason))
    return mended


def paired(items: Iterable[Item]) -> tuple[list[Item], set[int]]:
    """(the items that can be kept, the positions among them of calls that have no output)."""
    whole: list[Item] = []
    open_at: dict[CallId, int] = {}
    for item in items:
        if isinstance(item, ToolCall):
            if item.call_id in open_at:
                continue
            open_at[item.call_id] = len(whole)
        elif isinstance(item, ToolOutput) and open_at.pop(item.call_id, None) is None:
            continue
        whole.append(item)
    return whole, set(open_at.values())


def turns(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Paired items, cut where turns begin: before a user message and after the last output of an answer.

    A history that is restored turn by turn can be trimmed like one that has grown; as one segment it could not.
    """
    turn: list[Item] = []
    open_calls = 0
    for item in items:
        if turn and not open_calls and (isinstance(item, UserMessage) or isinstance(turn[-1], ToolOutput)):
            yield turn
            turn = []
        turn.append(item)
        open_calls += isinstance(item, ToolCall) - isinstance(item, ToolOutput)
    if turn:
        yield turn


def complete_prefix(items: Sequence[Item]) -> int:
    """The length of the longest prefix in which every call has its output, without reasoning at its end.

    Providers refuse reasoning that is not followed by the call it led to, so it is cut off together with that call.
    """
    end = open_calls = 0
    for position, item in enumerate(items, start=1):
        open_calls += isinstance(item, ToolCall) - isinstance(item, ToolOutput)
        if not open_calls:
            end = position
    while end and isinstance(items[end - 1], Reasoning):
        end -= 1
    return end
