"""One thread of a Codex client: a session of its own, so that no thread waits for another. Its root has the turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from tertulia.conversation.output_check import unchecked_schema
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import InvalidRequestError, NotRunningError, TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.protocol.events import Event
from tertulia.protocol.ids import TaskId, new_item_id
from tertulia.protocol.items import UserMessage, text_parts
from tertulia.protocol.storage import NoStorage
from tertulia.server.client_surface import SurfaceSession, message_to_root
from tertulia.server.codex.active_turn import ActiveTurn, CodexNotification, CodexToolCalls
from tertulia.server.codex.approval_requests import CodexApprovalRequests
from tertulia.server.codex.goals import SetGoal, ThreadGoal, goal_tool
from tertulia.server.codex.items import (
    CodexItem,
    ThreadSummary,
    model_provider,
    rights_fields,
    round_number,
    thread_object,
    thread_preview,
    turn_object,
    turn_objects,
    user_message,
)
from tertulia.server.codex.notifications import ThreadNotifications
from tertulia.server.codex.params import ReadSkill, StartTurn, SteerTurn, input_items, input_text
from tertulia.server.codex.skills import skill_text
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.peer import Peer, encode_notification
from tertulia.session.resume.past_turns import PastTurns
from tertulia.session.session import Session

T = TypeVar("T")


class CodexThread(SurfaceSession):
    """Follows its session for the client, and takes its turns."""

    def __init__(
        self,
        session: Session,
        peer: Peer,
        sink: Sink,
        *,
        muted: frozenset[str],
        past: PastTurns,
        created: float,
        origin: str | None,
        path: str | None = None,
    ) -> None:
        """`muted`: notifications that the client does not want. `origin`: the thread that it is a fork of.

        `path`: the file that it is stored in, if it is.
        """
        super().__init__(session, peer, sink)
        self._muted = muted
        self._created = created
        self._origin = origin
        self._path = path
        root = session.root.id
        self._active_turn = ActiveTurn(session.id)
        calls = CodexToolCalls(self._active_turn, root, self._cwd)
        self._opening_messages: dict[TaskId, CodexItem] = {}
        """The messages of turns that have not begun."""
        self._turn_ids: dict[str, str] = {turn_id: turn_id for turn_id in past.endings}
        """By the message that a turn began with."""
        self._endings: dict[str, dict[str, Any]] = {turn_id: {"status": end} for turn_id, end in past.endings.items()}
        """By turn: what the client was sent about it, except its items."""
        self._notifications = ThreadNotifications(
            self._active_turn, calls, root, lambda task: self._opening_messages.pop(task, None), past.usage
        )
        self.goal = ThreadGoal(session.id, self._tell, self._submit_for_goal)
        self._questions = CodexApprovalRequests(session, peer, self._active_turn, calls, self._nursery)

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, *, new: bool) -> None:
        """The client knows the thread: send its events from now on, and announce a new one."""
        if new:
            self._tell("thread/started", {"thread": self.shown(turns=False)})
        self.follow()

    def state(self) -> dict[str, Any]:
        """The status of the thread, in the form of Codex."""
        return self._active_turn.state()

    def opened(self, *, turns: bool) -> dict[str, Any]:
        """The answer to a request that opens the thread."""
        root = self.session.root.details
        return {
            "thread": self.shown(turns=turns),
            "model": root.model,
            "modelProvider": model_provider(root.model),
            "cwd": root.cwd,
            "reasoningEffort": root.reasoning_effort,
            **rights_fields(root.rights),
        }

    def shown(self, *, turns: bool) -> dict[str, Any]:
        """The thread as it is now."""
        root = self.session.root.details
        items = root.items
        about = ThreadSummary(
            id=self.session.id,
            model=root.model,
            cwd=root.cwd,
            created=self._created,
            updated=root.last_active,
            preview=thread_preview(items),
            name=root.title,
            forked_from=self._origin,
            ephemeral=isinstance(root.storage, NoStorage),
            status=self.state(),
            path=None if isinstance(root.storage, NoStorage) else self._path,
        )
        return thread_object(about, self.turns() if turns else ())

    def turns(self) -> list[dict[str, Any]]:
        """All its turns, the oldest first."""
        root = self.session.root.details
        return list(map(self._as_it_is, turn_objects(root.items, root.cwd, self._turn_ids)))

    def _as_it_is(self, past: dict[str, Any]) -> dict[str, Any]:
        """A turn of the history, with its status, which the history does not have."""
        if past["id"] == self._active_turn.turn_id:
            return {**past, "status": "inProgress"}
        return {**past, **self._endings.get(past["id"], {})}

    def round_of(self, turn_id: str) -> int:
        """Which round of its history a turn is. NotFound."""
        return round_number(self.session.root.details.items, turn_id, self._turn_ids)

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, request: StartTurn) -> dict[str, Any]:
        """Start a turn. It waits for the one that runs; what it changes holds for later turns too."""
        root = self.session.root
        # A turn that is refused changes nothing.
        message = message_to_root(await _read_input(input_items, request.input, self._skill))
        output = None if request.output_schema is None else unchecked_schema(request.output_schema)
        to_user_message(None, message.items, cwd=request.cwd or root.details.cwd)
        await change_terms(self.session, request.changes())
        submission = root.submit(message, output=output)
        # The client waits for this turn: it must not stop because another caller gives up.
        submission.detach()
        turn_id = submission.task_id
        if submission.item is not None:
            self._opening_messages[turn_id] = user_message(submission.item, request.client_user_message_id)
            self._turn_ids[submission.item.id] = turn_id
        return {"turn": turn_object(turn_id)}

    async def steer(self, request: SteerTurn) -> dict[str, Any]:
        """Add a message to the turn that runs. InvalidRequest where another turn runs, NotRunning where none does."""
        turn_id = self.session.activity.current_task
        if turn_id is None:
            raise NotRunningError("no active turn to steer")
        if turn_id != request.expected_turn_id:
            expected = request.expected_turn_id[:64]
            raise InvalidRequestError(f"expected active turn id `{expected}` but found `{turn_id}`")
        text = await _read_input(input_text, request.input, self._skill)
        if self.session.activity.current_task != turn_id:
            raise NotRunningError("the turn has ended meanwhile; start another one")
        await self.session.root.steer(text)
        now_ms = int(SystemClock().now() * 1000)
        item = user_message(UserMessage(new_item_id(), text_parts(text)), request.client_user_message_id)
        place = {"threadId": self.session.id, "turnId": turn_id, "item": item}
        self._tell("item/started", {**place, "startedAtMs": now_ms})
        self._tell("item/completed", {**place, "completedAtMs": now_ms})
        return {"turnId": turn_id}

    def _skill(self, name: str, path: str) -> str:
        return skill_text(name, path, self.session.root.details.skills())

    def _submit_for_goal(self, text: str) -> str:
        submission = self.session.root.submit(message_to_root([{"type": "text", "text": text}]))
        submission.detach()
        return submission.task_id

    async def set_goal(self, request: SetGoal) -> dict[str, Any]:
        """Give the thread a goal, or change its goal. What follows from it is done by `pursue`."""
        goal = self.goal.set(request)
        if self.goal.is_active:
            # From now on the model can say that it is done.
            await self.session.root.set_context(tools=[goal_tool(self.goal)])
        return goal

    def pursue(self) -> None:
        """Tell of the goal, and begin to work toward it where nothing else runs."""
        self.goal.announce(self._active_turn.turn_id)
        if self._active_turn.turn_id is None:
            self._go_on()

    def _go_on(self) -> None:
        # A session that is closing takes no more turns.
        with suppress(TertuliaError):
            self.goal.go_on()

    def interrupt(self, turn_id: str) -> None:
        """Stop a turn, whether it runs or still waits. NotRunning where it does neither."""
        if not self.session.activity.cancel(turn_id):
            raise NotRunningError(f"there is no running turn {turn_id[:64]!r} to interrupt")

    def compact(self) -> None:
        """Have the older part of the history replaced by notes, as a turn of its own."""
        self._nursery.start(self._compact(), "a compaction")

    async def _compact(self) -> None:
        with suppress(TertuliaError):
            await self.session.root.compact()

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _messages(self, event: Event) -> Iterable[bytes]:
        notes = self._notifications.of(event)
        for method, params in notes:
            if method == "turn/completed":
                ended = params["turn"]
                self._endings[ended["id"]] = {key: ended[key] for key in ended.keys() - {"items", "itemsView"}}
                if self.goal.turn_ended(ended["id"], ended["status"], ended["durationMs"] or 0):
                    self._go_on()
            elif method == "thread/tokenUsage/updated":
                self.goal.spend(params["tokenUsage"]["last"]["totalTokens"])
        self._questions.hear(event)
        # Each is encoded when it is sent.
        return (_message(note) for note in notes if note[0] not in self._muted)

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        if method not in self._muted:
            self._peer.notify(method, params)


async def change_terms(session: Session, changes: dict[str, Any]) -> None:
    """New terms for a thread. A model without a provider is one of the provider that it has."""
    model = changes.get("model")
    if model is not None and "/" not in model:
        provider = model_provider(session.root.details.model)
        changes = {**changes, "model": f"{provider}/{model}"}
    if changes:
        await session.root.set_context(**changes)


def _message(note: CodexNotification) -> bytes:
    return encode_notification(*note, bare=True)


async def _read_input(
    read: Callable[[list[dict[str, Any]], ReadSkill], T], entries: list[dict[str, Any]], skill: ReadSkill
) -> T:
    """Read an input, in a thread where it names the file of a skill; else at once, so that turns keep order."""
    if any(entry.get("type") == "skill" for entry in entries):
        return await asyncio.to_thread(read, entries, skill)
    return read(entries, skill)
