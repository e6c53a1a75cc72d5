"""What tools return, taken at its word: rebuilt as the interface says, and made short enough.

Tools are written by everybody. What cannot be rebuilt raises; `dispatch` makes an output of that.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from tertulia.protocol.inputs import InputItem, NewConversation
from tertulia.tools.output import bound_result
from tertulia.tools.tool import Handoff, Outcome, Result, Rounds

MAX_OUTPUT_BYTES = 1024 * 1024
"""Of one output's text, where no limit is set."""


def settled(returned: object) -> Outcome:
    """The same, every field of it checked; TypeError, ValueError or RecursionError where it cannot be used."""
    match returned:
        case Result(text=str()):
            return msgspec.convert(msgspec.to_builtins(returned), Result)
        case Handoff():
            return _settled_handoff(returned)
        case _:
            return Result(f"the tool returned {type(returned).__name__} instead of a result", success=False)


def bounded(result: Result, max_bytes: int | None) -> tuple[Result, bool]:
    """(the same within `max_bytes`, or within what holds without a limit; whether anything was left out)."""
    return bound_result(result, MAX_OUTPUT_BYTES if max_bytes is None else max_bytes)


def _settled_handoff(handoff: Handoff) -> Handoff:
    given = msgspec.convert(msgspec.to_builtins(handoff.input), tuple[InputItem, ...])
    target = handoff.target
    if not isinstance(target, str):
        # Field by field: its model may be a wire.
        asked = {name: value for name, value in asdict(target).items() if value is not UNSET}
        target = msgspec.convert(asked, NewConversation)
    shared = msgspec.convert(handoff.fork_history, Rounds)
    return replace(handoff, input=given, target=target, fork_history=shared)
