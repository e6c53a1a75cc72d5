"""One isolated talk: terms, history, pending input, and the handle of the task that runs now.

It knows neither the scheduler nor the session. Everything here is synchronous and brief: there is no lock,
because nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.conversation.context import Terms, TurnContext
from tertulia.conversation.task import TaskHandle
from tertulia.errors import Busy
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.policy.narrowing import Rights
from tertulia.prompt.seeds import NO_LONGER, environment_message, seeds, user_instructions_message
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item, ToolOutput, UserMessage

MAX_PENDING = 100
"""Messages that wait for one model request; each may have 16 MB."""


class Talk:
    """The inside of a conversation."""

    __slots__ = (
        "__weakref__", "_clock", "_journal", "_pending", "awaiting", "because", "ceiling", "closed", "default",
        "depth", "history", "id", "last_active", "parent_id", "task", "terms", "title",
    )  # fmt: skip

    def __init__(self, id: ConversationId, terms: Terms, *, clock: Clock, journal: Journal) -> None:
        self.id = id
        self.terms = terms
        self.default = terms
        """What a reset goes back to. The session, or the caller that made it, sets it."""
        self.ceiling: Rights = terms.rights
        self.because = "session"
        """Who set the ceiling."""
        self.parent_id: ConversationId | None = None
        self.depth = 0
        self.title: str | None = None
        self.closed = False
        self.task: TaskHandle | None = None
        """A light handle: it does not know the talk, so there is no cycle."""
        self.awaiting = 0
        """How many continuations wait for another conversation's answer."""
        self._pending: list[UserMessage] | None = None
        self._clock = clock
        self._journal = journal
        self.last_active = clock.now()
        self.history = HistoryStore(_limits(terms.rights))

    def seed(self) -> None:
        """Write the first messages: the user's instructions, if any, then the environment."""
        terms = self.terms
        items = seeds(terms.context.user_instructions, terms.cwd, terms.rights)
        self.history = HistoryStore(_limits(terms.rights), items)
        self._journal.keep(self.id, items, terms.rights.storage_policy)

    @property
    def status(self) -> str:
        """idle | running | waiting | closed."""
        if self.closed:
            return "closed"
        if self.task is not None:
            return "running"
        return "waiting" if self.awaiting else "idle"

    def say(self, items: Sequence[Item], *, pinned: bool = False) -> None:
        """Append what was just said, once, and hand it to the journal."""
        if items:
            self.history.append(items, pinned=pinned)
            self._keep(items)

    def close_open_calls(self, reason: str) -> tuple[ToolOutput, ...]:
        """Give every open call its one output; what was written."""
        outputs = self.history.close_open(reason)
        if outputs:
            self._keep(outputs)
        return outputs

    def touch(self) -> None:
        """Something happened here just now."""
        self.last_active = self._clock.now()

    def queue_input(self, *messages: UserMessage) -> None:
        """Keep messages for the next model request of this conversation; Busy, and none kept, when too many wait."""
        pending = self._pending or []
        if len(pending) + len(messages) > MAX_PENDING:
            raise Busy(f"{len(pending)} messages already wait for the model's next request", retry_after_s=1)
        self._pending = [*pending, *messages]

    @property
    def has_pending(self) -> bool:
        """Whether there is input the model has not seen."""
        return bool(self._pending)

    def take_pending(self) -> bool:
        """Move pending input into the history; whether there was any."""
        pending, self._pending = self._pending, None
        for message in pending or ():
            self.say([message], pinned=message.injected)
        return bool(pending)

    def adopt(self, terms: Terms) -> None:
        """Run under new terms from the next request on. History is added to, never rewritten. Busy changes nothing."""
        before, text = self.terms, terms.context.user_instructions
        news: list[UserMessage] = []
        if text != before.context.user_instructions:
            news.append(user_instructions_message(text or NO_LONGER))
        environment = environment_message(terms.cwd, terms.rights)
        if environment.parts != environment_message(before.cwd, before.rights).parts:
            news.append(environment)
        self._instruct(news)
        self.terms = terms
        self.history.limits = _limits(terms.rights)

    def turn_context(self, rights: Rights, shell_environment: dict[str, object]) -> TurnContext:
        """What a turn may use, under the rights of the whole chain."""
        return TurnContext(
            client=self.terms.wire,
            cwd=self.terms.cwd,
            approval_policy=rights.approval_policy,
            sandbox_policy=rights.sandbox,
            shell_environment_policy=shell_environment,
            storage_policy=rights.storage_policy,
        )

    def _instruct(self, messages: Sequence[UserMessage]) -> None:
        """Pinned like the seeds it takes the place of: trimming must not leave only what no longer holds."""
        # Between a call and its output some models accept nothing: then it is read after the output.
        if self.history.open_calls:
            self.queue_input(*messages)
        else:
            self.say(messages, pinned=True)

    def _keep(self, items: Sequence[Item]) -> None:
        self._journal.keep(self.id, items, self.terms.rights.storage_policy)
        self.touch()


def _limits(rights: Rights) -> HistoryLimits:
    limits = rights.limits
    return HistoryLimits(max_tokens=limits.max_history_tokens, max_items=limits.max_history_items, max_bytes=None)
