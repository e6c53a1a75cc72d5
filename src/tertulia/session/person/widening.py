"""Widens the rights of a session and its root: the only code that raises a ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.events.bus import EventScope
from tertulia.policy.approval_policy import ApprovalPolicy
from tertulia.policy.host_rules import HostRules
from tertulia.policy.rights import Rights, leq, parse_right, to_wire
from tertulia.protocol.inputs import SetContext
from tertulia.protocol.message_events import RightsWidened
from tertulia.session.parts import SessionParts
from tertulia.session.transactions import change_conversation

WIDENABLE = ("sandbox", "approval_policy", "network")
"""The rights that a person at the terminal may widen. The others are decided where the session is started."""


async def widen_rights(parts: SessionParts, fields: Mapping[str, Any], by: str) -> list[RightsWidened]:
    """Let the session and its root have these values; see `Person.widen`. All of them are changed, or none."""
    wanted = {right: parse_right(right, value) for right, value in fields.items() if value is not None}
    resolver, root = parts.terms_resolver, parts.conversations.root
    events = [_widened(resolver.ceiling, right, value, by) for right, value in wanted.items()]
    if not events:
        raise InvalidParamsError(f"nothing is to be widened; give {', '.join(WIDENABLE)}, or some of them")
    former, terms = (resolver.ceiling, root.ceiling, dict(resolver.widened)), root.terms
    resolver.ceiling, root.ceiling = (_raised(ceiling, wanted) for ceiling in (resolver.ceiling, root.ceiling))
    resolver.widened.update(dict.fromkeys(wanted, by))
    try:
        for event in events:
            parts.bus.publish(event, EventScope("", root.id))
        # Through the usual change of a conversation, which tells the model and is recorded whole or not at all.
        values = {right: to_wire(right, value) for right, value in wanted.items()}
        await change_conversation(parts, root, SetContext(conversation_id=root.id, **values))
    except TertuliaError:
        resolver.ceiling, root.ceiling, resolver.widened = former
        root.adopt(terms)
        raise
    return events


def is_within(rights: Rights, right: str, value: Any) -> bool:
    """Whether these rights allow as much in this respect."""
    return leq(replace(rights, **{right: value}), rights)


def _widened(ceiling: Rights, right: str, value: Any, by: str) -> RightsWidened:
    after = to_wire(right, value)
    if is_within(ceiling, right, value):
        raise InvalidParamsError(f"{right}: the session allows {after!r} already; use set_context; nothing was changed")
    return RightsWidened(right, _told(right, getattr(ceiling, right)), _told(right, value), by)


def _told(right: str, value: Any) -> Any:
    # Hosts are texts of people, and this is stored whatever the storage policy is.
    return "hosts" if isinstance(value, HostRules) else to_wire(right, value)


def _raised(ceiling: Rights, wanted: Mapping[str, Any]) -> Rights:
    """What the ceiling allowed, and what is wanted."""
    return replace(ceiling, **{right: _join(getattr(ceiling, right), value) for right, value in wanted.items()})


def _join(former: Any, value: Any) -> Any:
    if isinstance(former, HostRules) and isinstance(value, HostRules):
        return former.join(value)
    if not isinstance(value, ApprovalPolicy) or not isinstance(former, ApprovalPolicy):
        # The other rights are ordered, and this value is the wider one.
        return value
    either = "sandboxed" if "sandboxed" in (former.auto_run, value.auto_run) else "trusted"
    retry = former.retry_outside_on_failure or value.retry_outside_on_failure
    return ApprovalPolicy(either, may_ask=former.may_ask or value.may_ask, retry_outside_on_failure=retry)
