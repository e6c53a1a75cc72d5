"""What a client can say of a subscription to events, parsed once."""

from __future__ import annotations

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.events import EVENT_TYPES
from tertulia.protocol.name_hints import word_hint


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the operation `events/subscribe`."""

    after_seq: int | None = None
    conversation_id: str | None = None
    attend: bool | None = None
    """Whether the client answers the approvals that this subscription shows. None: as in its `initialize`."""
    passing: bool = True
    """Whether passing events come too; without them only those that have a `seq`."""
    types: list[str] | None = None
    """Only events of these types; None: of all."""

    def event_types(self) -> frozenset[str] | None:
        """The types that are wanted; None for all. InvalidParams for one that there is not."""
        if self.types is None:
            return None
        for type in self.types:
            if type not in EVENT_TYPES:
                raise InvalidParamsError(f"there is no event type {type[:64]!r}{word_hint(type[:64], EVENT_TYPES)}")
        return frozenset(self.types)
