"""An agent that is there: what it was given, and what it is told when that changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.provider import SessionContext
from tertulia.conversation.state import ConversationState
from tertulia.prompt.seeds import additions_message
from tertulia.protocol.items import UserMessage

_HEADING = re.compile(r"(?m)^(?=## )")


def context_updates(first: str, before: Iterable[str], now: Sequence[str]) -> list[str]:
    """Nothing if all of `now` was said word for word in `before`. Else what is new, section by section, and all that
    was not said in `first`: of several updates the last is enough, and the others may be forgotten.

    A section begins with a heading.
    """
    earlier = "\n".join(before)
    sections = [section for text in now for part in _HEADING.split(text) if (section := part.strip())]
    updates = [section for section in sections if section not in earlier]
    return [section for section in sections if section in updates or section not in first] if updates else []


def withdrawal_text(provider: str) -> str:
    """What is said of a provider that says nothing any more."""
    return f"What was said above by {provider} no longer holds."


class ActiveAgent(msgspec.Struct, frozen=True, eq=False):
    """Replaced whole when its providers have something new to say."""

    meta: AgentInstanceMeta
    context: SessionContext
    silent: tuple[str, ...] = ()
    """Providers that had something to say, and have not any more."""

    @property
    def current_texts(self) -> list[str]:
        """The texts that its providers contribute now, and which earlier ones no longer hold."""
        return [*self.context.system_context_additions, *map(withdrawal_text, self.silent)]

    def followed_by(self, context: SessionContext) -> ActiveAgent:
        """The same agent with what its providers say now. One that did not answer may have taken nothing back."""
        speaking = {fragment.provider for fragment in context.fragments}
        spoken = () if context.warnings else (fragment.provider for fragment in self.context.fragments)
        silent = dict.fromkeys((*self.silent, *spoken))
        return ActiveAgent(self.meta, context, tuple(name for name in silent if name not in speaking))


def injected_texts(conversation: ConversationState) -> list[str]:
    """The messages of a history that the system put there, not the user."""
    return [item.text for item in conversation.history.snapshot() if isinstance(item, UserMessage) and item.injected]


def tell_changes(conversation: ConversationState, before: Iterable[str], now: Sequence[str]) -> None:
    """Say what holds now and did not before, if anything."""
    first = next((text for text in injected_texts(conversation) if text.startswith("<context_additions>")), "")
    if updates := context_updates(first, before, now):
        conversation.instruct([additions_message(updates, "context_update")])
