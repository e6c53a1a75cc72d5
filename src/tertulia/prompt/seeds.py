"""The messages a history starts with: the user's standing instructions, then the environment.

Each starts with a tag, so that models, people and listings can tell them from what a user said.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from tertulia.policy.approval_policy import approval_to_wire
from tertulia.policy.narrowing import Rights
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import Part, TextPart, UserMessage
from tertulia.protocol.sandbox_mode import sandbox_to_wire

INSTRUCTIONS_WITHDRAWN = "The instructions above no longer hold."
"""Said when a user takes instructions back: a history is added to, never rewritten."""

NO_ANSWERS = "no one can answer; what needs an approval is refused, unless exactly that was allowed before"

_BETWEEN = "\n\n---\n\n"


def user_instructions_message(text: str) -> UserMessage:
    """The user's standing instructions in their standard wrapper."""
    wrapped = f"<user_instructions>\n\n{text}\n\n</user_instructions>"
    return UserMessage(new_item_id(), (TextPart(wrapped),), injected=True)


def additions_message(texts: Sequence[str], tag: str = "context_additions") -> UserMessage:
    """What context providers have to say to an agent: one message of its own, never glued to instructions."""
    wrapped = f"<{tag}>\n\n{_BETWEEN.join(texts)}\n\n</{tag}>"
    return UserMessage(new_item_id(), (TextPart(wrapped),), injected=True)


def environment_message(cwd: str, rights: Rights, *, unattended: bool = False) -> UserMessage:
    """Where the conversation works and what it may do there; `unattended`: that no one can answer approvals."""
    approval = approval_to_wire(rights.approval_policy)
    named = approval if isinstance(approval, str) else msgspec.json.encode(approval).decode()
    no_answers = unattended and rights.approval_policy.may_ask
    parts = _environment(cwd, named, sandbox_to_wire(rights.sandbox), rights.network, no_answers)
    return UserMessage(new_item_id(), parts, injected=True)


@lru_cache(maxsize=256)
def _environment(cwd: str, approval: str, sandbox: str, network: bool, no_answers: bool) -> tuple[Part, ...]:
    # Cached so that ten thousand conversations in one directory share one text.
    lines = (
        "<environment_context>",
        f"  <cwd>{cwd}</cwd>",
        f"  <approval_policy>{approval}</approval_policy>",
        *([f"  <approvals>{NO_ANSWERS}</approvals>"] if no_answers else []),
        f"  <sandbox_mode>{sandbox}</sandbox_mode>",
        f"  <network_access>{'enabled' if network else 'restricted'}</network_access>",
        "</environment_context>",
    )
    return (TextPart("\n".join(lines)),)


def not_stored_message() -> UserMessage:
    """Stands where a conversation goes on whose earlier part was not allowed to be stored."""
    text = "<not_stored>\nThe earlier part of this conversation was not stored and is not known.\n</not_stored>"
    return UserMessage(new_item_id(), (TextPart(text),), injected=True)


def seeds(
    user_instructions: str | None,
    cwd: str,
    rights: Rights,
    additions: Sequence[str] = (),
    *,
    unattended: bool = False,
) -> tuple[UserMessage, ...]:
    """All of them, in the order in which the model reads them."""
    instructions = (user_instructions_message(user_instructions),) if user_instructions else ()
    added = (additions_message(additions),) if additions else ()
    return (*instructions, *added, environment_message(cwd, rights, unattended=unattended))
