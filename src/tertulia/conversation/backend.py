"""The port through which an executor does a conversation's tasks.

`session` knows which executors there are; `executors/` knows how each is run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Protocol

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.turn import TurnOptions
from tertulia.errors import UnsupportedByBackendError
from tertulia.protocol.conversation_fields import SandboxMode
from tertulia.protocol.items import UserMessage


class ExecutorPlan(TurnOptions, Protocol):
    """What a plan says about a task that an executor does."""

    @property
    def input(self) -> tuple[UserMessage, ...]:
        """The input of the task. It is in the history already."""
        ...

    @property
    def task_type(self) -> Literal["code", "chat"] | None:
        """It decides how much of the history the agent is told."""
        ...

    @property
    def previous_result(self) -> Any:
        """The result of the pipeline's step before this one; None where there was none."""
        ...


class Backend(Protocol):
    """Does the tasks of conversations that are not native.

    Contract of `run`: it adds items and publishes only through the scope; every call whose beginning it publishes gets
    exactly one end, in every ending (`TaskScope.call_at_break`); it raises TertuliaError to fail. Cancelled, it has
    stopped, and
    nothing of it runs any more when it comes back. It hands nothing over: such conversations are targets only.
    """

    async def run(self, scope: TaskScope, commission: ExecutorPlan) -> None:
        """Do one task. The scope's `last_text` is its answer."""
        ...


class BackendTable(Protocol):
    """The backends of a session, by name."""

    @property
    def can_ask(self) -> Mapping[str, bool]:
        """Whether each can ask a person, in the order in which they are listed; `native` is among them."""
        ...

    @property
    def sandboxes(self) -> Mapping[str, Collection[SandboxMode]]:
        """The sandbox modes that each supports; one that is missing here has no sandbox that could be set."""
        ...

    def find(self, conversation: ConversationState) -> Backend:
        """The backend of this conversation; InvalidParams where it does not exist any more."""
        ...


FindBackend = Callable[[ConversationState], Backend]
"""The backend of a conversation now; raises a TertuliaError where there is none any more."""


def no_backend(conversation: ConversationState) -> Backend:
    """Raise: a session without other backends has none of that name."""
    raise UnsupportedByBackendError(f"there is no backend {conversation.terms.backend!r} here")
