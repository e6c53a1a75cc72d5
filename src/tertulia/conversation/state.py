"""One isolated conversation: terms, history, pending input, and the handle of the task that runs now.

It knows neither the scheduler nor the session. Everything here is synchronous and brief: there is no lock,
because nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import astuple, replace

from tertulia.conversation.terms import Terms, TurnContext
from tertulia.conversation.user_message import (
    INSTRUCTIONS_WITHDRAWN,
    environment_message,
    project_update,
    seeds,
    told_project_text,
    user_instructions_message,
)
from tertulia.errors import BusyError
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.history.store import HistoryLimits, HistoryStore, Rewrite
from tertulia.models.wire import Wire
from tertulia.policy.rights import Rights
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item, ToolOutput, UserMessage
from tertulia.protocol.records import (
    ForkRecord,
    ItemsRecord,
    QueuedInputRecord,
    Record,
    RewriteRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import StoragePolicy, binding_policy, strictest
from tertulia.protocol.worktree import WorktreeChild
from tertulia.tools.tool import Rounds

if TYPE_CHECKING:
    from tertulia.conversation.native_session import NativeSession
    from tertulia.conversation.task_handle import TaskHandle


_Item = TypeVar("_Item", bound=Item)

MAX_PENDING = 100
"""Messages that wait for one model request; each may have 16 MB."""


class Lineage:
    """The place of a conversation in the tree. It outlives its parents: closing one moves no child."""

    __slots__ = ("above", "id")

    def __init__(self, id: ConversationId, above: Lineage | None = None) -> None:
        self.id = id
        self.above = above


class ConversationState:
    """The state of a conversation."""

    __slots__ = (
        "__weakref__",
        "_clock",
        "_journal",
        "_pending",
        "_project",
        "awaiting",
        "because",
        "ceiling",
        "closed",
        "compact_above",
        "default",
        "depth",
        "history",
        "id",
        "last_active",
        "lost_title",
        "native_session",
        "parent_id",
        "place",
        "task",
        "terms",
        "title",
        "worktree_children",
    )  # fmt: skip

    def __init__(self, id: ConversationId, terms: Terms, *, clock: Clock, journal: Journal) -> None:
        self.id = id
        self.terms = terms
        self.default = terms
        """The terms that a reset restores. The session, or the conversation that opened it, sets them."""
        self.ceiling: Rights = terms.rights
        self.because = "session"
        """What set the ceiling, for `Narrowing.because`."""
        self.parent_id: ConversationId | None = None
        self.worktree_children: dict[ConversationId, WorktreeChild] = {}
        """Those that it opened with a worktree of their own, open and closed."""
        self.compact_above = 0
        """Tokens above which another compaction is tried; not 0 after one that could not make enough room."""
        self.depth = 0
        self.place = Lineage(id)
        self.title: str | None = None
        self.lost_title = False
        """Whether it had a title before the session was resumed, which was not stored."""
        self.closed = False
        self.task: TaskHandle | None = None
        """It has no reference to the conversation, so there is no cycle."""
        self.native_session: NativeSession | None = None
        """The executor's own session of it. Forks have none."""
        self.awaiting = 0
        """How many continuations wait for another conversation's answer."""
        self._pending: list[UserMessage] | None = None
        self._project: str | None = None
        self._clock = clock
        self._journal = journal
        self.last_active = clock.now()
        self.history = HistoryStore(history_limits(terms.rights))

    def seed(self, project: str = "") -> None:
        """Write the first messages: the user's instructions and an agent's additions, if any, then the environment.

        `project`: what files of the project say about working there; empty where there are none.
        """
        terms = self.terms
        additions = [] if terms.agent is None else [addition.text for addition in terms.agent.additions]
        instructions = terms.context.user_instructions
        items = seeds(
            instructions,
            terms.cwd,
            terms.rights,
            additions,
            project=project,
            unattended=terms.unattended,
            around=terms.surroundings,
        )
        self._project = project
        self.history = HistoryStore(history_limits(terms.rights), items)
        self.note(ItemsRecord(self.id, tuple(items), pinned=True, seed=True))

    def inherit(self, source: ConversationState, rounds: Rounds) -> None:
        """Begin with another conversation's history, and with messages about what is different here."""
        # Imported here: few conversations begin with the history of another.
        from tertulia.history.compaction import keep_rounds

        self.history = source.history.fork()
        self.note(ForkRecord(self.id, source.id, self.history.totals.item_count, source.history.totals.item_count))
        if isinstance(rounds, int) and (done := keep_rounds(self.history, rounds)) is not None:
            self.note_rewrites([done])
        terms, self.terms = self.terms, source.terms
        self.adopt(terms)

    def note_child(self, child: ConversationState) -> None:
        """Remember the worktree of a child as one that can be merged, with its present state."""
        worktree = child.terms.worktree
        if worktree is not None and worktree.conversation_id == child.id:
            self.worktree_children[child.id] = WorktreeChild(worktree, child.title, child.storage)

    def is_in_subtree_of(self, ancestor: ConversationId) -> bool:
        """Whether it is that conversation, or was opened below it."""
        place: Lineage | None = self.place
        while place is not None and place.id != ancestor:
            place = place.above
        return place is not None

    @property
    def storage(self) -> StoragePolicy:
        """Its own policy; an item from elsewhere may have a stricter one."""
        return self.terms.rights.storage_policy

    @property
    def status(self) -> str:
        """idle | running | waiting | closed."""
        if self.closed:
            return "closed"
        if self.task is not None:
            return "running"
        return "waiting" if self.awaiting else "idle"

    def say(self, items: Sequence[Item], *, pinned: bool = False, storage: StoragePolicy | None = None) -> None:
        """Append what was just said, once, and hand it to the journal.

        `storage` is the policy of the chain: where it is stricter than the conversation's own, each item keeps it, also
        in summaries and forks.
        """
        if items:
            stored = tuple(_with_storage(items, strictest(self.storage, storage or self.storage), self.storage))
            self.history.append(stored, pinned=pinned)
            self.note(ItemsRecord(self.id, stored, pinned))
            self.touch()

    def has_ended(self, output: ToolOutput, storage: StoragePolicy) -> ToolOutput:
        """Record a tool's output; it joins the history when its call's turn comes. Returns the output to add then."""
        (marked,) = _with_storage((output,), storage, self.storage)
        self.note(ToolOutputRecord(self.id, marked))
        return marked

    def note(self, record: Record) -> None:
        """Give a record to the journal, which stores it with the next event or earlier."""
        self._journal.keep(record)

    def note_rewrites(self, rewrites: Iterable[Rewrite]) -> None:
        """The history was made smaller."""
        for done in rewrites:
            self.note(RewriteRecord(self.id, *astuple(done)))

    def touch(self) -> None:
        """Set the time of the last activity to now."""
        self.last_active = self._clock.now()

    def queue_input(self, *messages: UserMessage) -> None:
        """Keep messages for the next model request of this conversation; Busy, and none kept, when too many wait."""
        pending = self._pending or []
        if len(pending) + len(messages) > MAX_PENDING:
            raise BusyError(f"{len(pending)} messages already wait for the model's next request", retry_after_s=1)
        self._pending = [*pending, *messages]
        for message in messages:
            self.note(QueuedInputRecord(self.id, message))

    def put_back(self, messages: Iterable[UserMessage]) -> None:
        """Restore input that was accepted before the session was resumed."""
        self._pending = [*messages] or None

    @property
    def has_pending(self) -> bool:
        """Whether there is input the model has not seen."""
        return bool(self._pending)

    def take_pending(self, storage: StoragePolicy | None = None) -> bool:
        """Move pending input into the history, as `say` does; whether there was any."""
        pending, self._pending = self._pending, None
        for message in pending or ():
            self.say([message], pinned=message.injected, storage=storage)
        return bool(pending)

    def adopt(self, terms: Terms) -> None:
        """Run under new terms from the next request on. History is added to, never rewritten. Busy changes nothing."""
        before, text = self.terms, terms.context.user_instructions
        updates: list[UserMessage] = []
        if text != before.context.user_instructions:
            updates.append(user_instructions_message(text or INSTRUCTIONS_WITHDRAWN))
        environment = _environment(terms)
        if environment.parts != _environment(before).parts:
            updates.append(environment)
        self.instruct(updates)
        self.history.kept_by = binding_policy(
            self.history.kept_by, before.rights.storage_policy, terms.rights.storage_policy
        )
        self.terms = terms
        self.native_session = None
        self.history.limits = history_limits(terms.rights)

    def hear_project(self, text: str) -> None:
        """Add a message with the present project instructions, if they have changed."""
        if self._project is None:
            self._project = told_project_text(self.history.snapshot())
        if (message := project_update(self._project, text)) is not None:
            self.instruct([message])
            self._project = text

    def turn_context(
        self, rights: Rights, shell_environment: dict[str, object], wire: Wire | None = None
    ) -> TurnContext:
        """What a turn may use, under the rights of the whole chain. `wire`: None for that of the terms."""
        return TurnContext(
            client=wire or self.terms.wire,
            cwd=self.terms.cwd,
            approval_policy=rights.approval_policy,
            sandbox_policy=rights.sandbox,
            shell_environment_policy=shell_environment,
            storage_policy=rights.storage_policy,
        )

    def instruct(self, messages: Sequence[UserMessage]) -> None:
        """Add messages of the session. Pinned like the seeds that they replace: trimming must not leave only what no
        longer holds.
        """
        # Between a call and its output some models accept nothing: then it is read after the output.
        if self.history.open_calls:
            self.queue_input(*messages)
        else:
            self.say(messages, pinned=True)


def _environment(terms: Terms) -> UserMessage:
    return environment_message(terms.cwd, terms.rights, unattended=terms.unattended, around=terms.surroundings)


def _with_storage(items: Iterable[_Item], storage: StoragePolicy, own: StoragePolicy) -> Iterable[_Item]:
    """The items, each with the policy it came under where that is stricter than the conversation's own."""
    if storage == own:
        return items
    return (replace(item, storage=strictest(storage, item.storage or storage)) for item in items)


def history_limits(rights: Rights) -> HistoryLimits:
    """How large a conversation with these rights may let its history become."""
    limits = rights.limits
    return HistoryLimits(max_tokens=limits.max_history_tokens, max_items=limits.max_history_items, max_bytes=None)
