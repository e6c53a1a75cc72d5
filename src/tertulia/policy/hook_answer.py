"""The answer of a hook: to go on, to refuse, to give a call fewer rights, or to add a text. It can never widen.

It starts no program and calls no function; `session/hooks` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import normal_roots
from tertulia.policy.rights import Narrowing, Rights, narrow, parse_right
from tertulia.protocol.inputs import check_text
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.tool_events import HookMoment

MAX_CONTEXT = 16_000
"""Characters of a text that a hook adds."""
MAX_REASON = 2_000
NARROWABLE = ("approval_policy", "network", "sandbox", "writable_roots")
"""The rights that a hook may make fewer for one call."""

_DECISIONS = ("continue", "refuse")
_KEYS: Mapping[HookMoment, tuple[str, ...]] = {
    "before_tool": ("decision", "reason", "context", "narrow"),
    "after_tool": ("decision", "reason", "context"),
    "task_start": ("decision", "reason", "context"),
    "task_end": ("decision",),
    "approval": ("decision", "reason", "context"),
}
"""What an answer may have at each moment."""


class HookAnswer(msgspec.Struct, frozen=True):
    """An answer that was checked."""

    decision: Literal["continue", "refuse"] = "continue"
    reason: str | None = None
    """Why it refuses, for the model."""
    context: str | None = None
    """A text that the model reads; at an approval, the person."""
    narrow: Mapping[str, Any] = {}
    """The rights that the call has at most, parsed, by their names."""


def parse_hook_answer(value: object, moment: HookMoment) -> HookAnswer:
    """Parse what a hook answers. InvalidParamsError says what is wrong with it, and quotes nothing of it but names."""
    if value is None:
        return HookAnswer()
    if not isinstance(value, Mapping):
        raise InvalidParamsError("its answer must be a JSON object")
    answer, known = cast("Mapping[object, Any]", value), _KEYS[moment]
    for name in answer:
        if name not in known:
            raise InvalidParamsError(f"its answer has no field {str(name)[:64]!r} here; {name_hint(str(name), known)}")
    decision = answer.get("decision", "continue")
    allowed = ("continue",) if moment == "task_end" else _DECISIONS
    if decision not in allowed:
        raise InvalidParamsError(f"its decision must be {' or '.join(allowed)}")
    texts = {name: _text(name, answer.get(name), most) for name, most in _TEXTS.items()}
    return HookAnswer(decision, **texts, narrow=_parse_rights(answer.get("narrow")))


def narrow_rights(rights: Rights, answer: HookAnswer) -> tuple[Rights, tuple[Narrowing, ...]]:
    """The rights of one call under the answer, and what of it asked for more than there was and was not given."""
    return narrow(answer.narrow, rights, rights, "session")


_TEXTS = {"reason": MAX_REASON, "context": MAX_CONTEXT}


def _text(name: str, value: object, most: int) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and len(value) <= most:
        return check_text(value, f"its {name}") or None
    raise InvalidParamsError(f"its {name} must be a text of at most {most:,} characters")


def _parse_rights(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"narrow must be an object with some of {', '.join(NARROWABLE)}")
    rights: dict[str, Any] = {}
    for name, right in cast("Mapping[object, Any]", value).items():
        if name not in NARROWABLE:
            raise InvalidParamsError(f"narrow has no right {str(name)[:64]!r}; {name_hint(str(name), NARROWABLE)}")
        rights[str(name)] = _parse_roots(right) if name == "writable_roots" else parse_right(str(name), right)
    return rights


def _parse_roots(value: object) -> tuple[str, ...]:
    roots = cast("list[object]", value) if isinstance(value, list | tuple) else None
    if roots is None or not all(isinstance(root, str) for root in roots):
        raise InvalidParamsError("narrow.writable_roots must be a list of absolute directories")
    return normal_roots(cast("list[str]", roots))
