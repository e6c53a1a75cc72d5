"""The clients that said that they answer approvals, for as long as they listen to the events in which those show."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from tertulia.events.subscription import Subscription
from tertulia.policy.approvals.approval_request import RequestedAction
from tertulia.protocol.ids import ConversationId


class ApproverPresence:
    """Only a client that declares it attends. To follow events is to look on, and counts for nothing.

    A request shows in its own conversation and in those that wait for it, the root of its chain among them.
    """

    def __init__(self) -> None:
        self._attending: WeakKeyDictionary[Subscription, tuple[ConversationId | None, bool]] = WeakKeyDictionary()

    def add(
        self, subscription: Subscription, conversation: ConversationId | None, *, elicitations: bool = True
    ) -> None:
        """The client of this subscription attends until it is closed or collected. None: in every conversation.

        `elicitations`: whether it answers as well what MCP servers ask a person.
        """
        self._attending[subscription] = (conversation, elicitations)

    def sees(self, request: RequestedAction, elicitation: bool = False) -> bool:
        """Whether a client attends that hears of this request and can answer such a one."""
        shown = (None, request.conversation_id, *request.chain)
        attending = [(events, *where) for events, where in self._attending.items()]
        return any(events.is_open and where in shown and (e or not elicitation) for events, where, e in attending)
