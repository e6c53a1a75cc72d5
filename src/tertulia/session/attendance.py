"""Who could answer an approval: whoever follows the events that it shows in, here or at the other end of a wire."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from tertulia.events.subscription import Subscription
from tertulia.policy.approval_request import Request
from tertulia.protocol.ids import ConversationId


class Attendance:
    """Who follows the events sees a request and can answer it. Who only sends messages, or follows others, cannot.

    A request shows in its own conversation and in those that wait for it, the root of its chain among them.
    """

    def __init__(self) -> None:
        self._following: WeakKeyDictionary[Subscription, ConversationId | None] = WeakKeyDictionary()

    def add(self, subscription: Subscription, conversation: ConversationId | None) -> None:
        """It counts until it is closed, or nobody holds it any more. None: it follows every conversation."""
        self._following[subscription] = conversation

    def sees(self, request: Request) -> bool:
        """Whether anybody would hear of this request."""
        shown = (None, request.conversation_id, *request.chain)
        return any(news.is_open and where in shown for news, where in list(self._following.items()))
