"""Replays a stored session: the board at any record, the request to the model there, and a fork that begins there.

The record is read in a thread. Nothing here runs anything or writes to the session that is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widgets import Static

from tertulia.errors import NotFoundError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.policy.display_text import printable
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.terminal.panels.choices import ConversationChosen
from tertulia.terminal.panels.page import Page, PageContent
from tertulia.terminal.panels.tree import ConversationTree
from tertulia.terminal.sessions.prompt_text import compared_page, prompt_page
from tertulia.terminal.sessions.screen_app import ReadingScreen, ScreenApp
from tertulia.terminal.sessions.scrubber import Scrubber
from tertulia.terminal.transcript.cell_source import ConversationCells
from tertulia.terminal.transcript.transcript import Transcript
from tertulia.terminal.transcript.weave import Weave
from tertulia.view.board import Board

if TYPE_CHECKING:
    from tertulia.terminal.sessions.recording import Recording, Stride

WeaveExtent = Literal["none", "all", "below"]
"""Which conversations are shown in one stream; `below`: the seen one and those below it."""
_PLAY_S = 0.2
_TREE_COLUMNS = 90
"""Narrower screens do not show the tree."""


class ForkPoint(msgspec.Struct, frozen=True):
    """Where a fork of a session begins: after the last item that the conversation had at that step."""

    session_id: str
    conversation_id: ConversationId
    item_id: ItemId | None
    """None: the copy has all of it."""


class ReplayBody(Vertical):
    """The transcript at one step, or a page in its place, a sentence, and the scrubber."""

    def __init__(self, scrubber: Scrubber) -> None:
        self.transcript, self._page, self._notice = Transcript(), Page(), Static(markup=False)
        super().__init__(self.transcript, self._page, self._notice, scrubber)

    def show_board(self, board: Board, seen: ConversationId | None, weave: WeaveExtent) -> ConversationId | None:
        """Show a conversation, or the root where it is not open yet, woven with others or alone. Returns which one."""
        wanted = seen if seen in board.conversations else board.root_id
        view = None if wanted is None else board.conversations.get(wanted)
        if view is None or weave != "none":
            self.transcript.show(Weave(board, wanted if weave == "below" else None))
            return None if weave == "all" else wanted
        self.transcript.show(ConversationCells(view, board))
        return view.id

    def show_page(self, content: PageContent) -> None:
        """Show a page in the place of the transcript."""
        self._page.show(content)
        self._page.display, self.transcript.display = True, False
        self._page.focus()

    def leave_page(self) -> bool:
        """Show the transcript again; False where it is shown already."""
        if self._page.content is None:
            return False
        self._page.show(None)
        self._page.display, self.transcript.display = False, True
        self.transcript.focus()
        return True

    def say(self, text: str) -> None:
        """Show a sentence above the scrubber, or none."""
        self._notice.update(printable(text))
        self._notice.display = bool(text)


class ReplayScreen(ReadingScreen[ForkPoint | None]):
    """The replay of one session. The result is where to fork; None: the person left it."""

    CSS = """
    ReplayScreen ConversationTree { width: 28; }
    ReplayScreen ReplayBody { width: 1fr; }
    ReplayScreen Transcript { height: 1fr; }
    ReplayScreen Page { height: 1fr; display: none; }
    ReplayScreen Scrubber { height: 3; }
    ReplayScreen Static { height: auto; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1, 'record')", "a record back", id="replay.back", priority=True),
        Binding("right", "step(1, 'record')", "a record on", id="replay.on", priority=True),
        Binding("shift+left", "step(-1, 'request')", "a request back", id="replay.request_back", priority=True),
        Binding("shift+right", "step(1, 'request')", "a request on", id="replay.request_on", priority=True),
        Binding("alt+left,ctrl+left", "step(-1, 'task')", "a task back", id="replay.task_back", priority=True),
        Binding("alt+right,ctrl+right", "step(1, 'task')", "a task on", id="replay.task_on", priority=True),
        Binding("home", "step(-1000000000, 'record')", "to the beginning", id="replay.first", priority=True),
        Binding("end", "step(1000000000, 'record')", "to the end", id="replay.last", priority=True),
        Binding("space", "play", "play or stop", id="replay.play", priority=True),
        Binding("p", "prompt", "what the model saw", id="replay.prompt", priority=True),
        Binding("equals_sign", "compare", "compare with the request before", id="replay.compare", priority=True),
        Binding("w", "weave('all')", "all conversations in one stream", id="replay.weave", priority=True),
        Binding("W", "weave('below')", "the seen one and those below it", id="replay.weave_below", priority=True),
        Binding("f", "fork", "a copy that begins here", id="replay.fork", priority=True),
        Binding("escape,q", "leave", "leave", id="replay.leave", priority=True),
    ]

    def __init__(self, home: Path, session_id: str, *, follows: bool = False) -> None:
        """`follows`: also show what the process that runs the session adds."""
        super().__init__()
        self._home, self._session_id, self._follows = home, session_id, follows
        self._tree, self._scrubber = ConversationTree(), Scrubber()
        self._body = ReplayBody(self._scrubber)
        self._recording: Recording | None = None
        self._place = 0
        self._seen: ConversationId | None = None
        self._weave: WeaveExtent = "none"
        self._playing: Timer | None = None
        self._times = Timestamps(SystemClock())

    def compose(self) -> ComposeResult:
        """The same parts as the screen of a session, with the scrubber in the place of the composer."""
        with Horizontal():
            yield self._tree
            yield self._body

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def on_mount(self) -> None:
        """Read the record after the first frame."""
        self._body.transcript.focus()
        self._body.say("reading the record")
        self.start_reading(self._open())

    def on_resize(self) -> None:
        """Show the tree where it has room."""
        self._tree.display = self.size.width >= _TREE_COLUMNS

    async def _open(self) -> None:
        self._recording = await asyncio.to_thread(_read_recording, self._home, self._session_id)
        self._body.say("")
        self._go(len(self._recording.steps) - 1)
        if self._follows:
            self.set_interval(_PLAY_S, self._follow)

    async def _follow(self) -> None:
        recording = self._recording
        if recording is None:
            return
        was_last = self._place >= len(recording.steps) - 1
        if await asyncio.to_thread(recording.read_on) and was_last:
            self._go(len(recording.steps) - 1)

    def show_problem(self, text: str) -> None:
        """Show the sentence that says why reading failed."""
        self._body.say(text)

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────────────

    def action_step(self, by: int, stride: Stride) -> None:
        """Move by so many records, requests or tasks."""
        if self._recording is not None:
            self._go(self._recording.moved(self._place, by, stride))

    def _go(self, place: int) -> None:
        recording = self._recording
        if recording is None or not recording.steps:
            self._body.say("nothing is stored of this session")
            return
        self._place = max(0, place)
        self._body.leave_page()
        board = recording.shown(self._place)
        if self._seen is None and board.root_id in board.conversations:
            self._seen = board.root_id
        step = recording.steps[self._place]
        shown = self._body.show_board(board, self._seen, self._weave)
        self._tree.show(board, shown, step.ts)
        time = self._times.at(step.ts)[11:19]
        plays = self._playing is not None
        self._scrubber.show(self._place, len(recording.steps), time, step.word, plays=plays)

    def action_play(self) -> None:
        """Play five records a second, or pause."""
        if self._playing is not None:
            self._playing.stop()
            self._playing = None
        else:
            self._playing = self.set_interval(_PLAY_S, self._play_on)
        self._go(self._place)

    def _play_on(self) -> None:
        recording = self._recording
        if recording is None or self._place >= len(recording.steps) - 1:
            self.action_play()
        else:
            self._go(self._place + 1)

    def action_weave(self, extent: WeaveExtent) -> None:
        """Show conversations in one stream, or one again."""
        self._weave = "none" if self._weave == extent else extent
        self._go(self._place)

    @on(ConversationChosen)
    def _see(self, message: ConversationChosen) -> None:
        self._seen, self._weave = message.conversation_id, "none"
        self._go(self._place)

    # ── what the model saw ───────────────────────────────────────────────────────────────────────────────────

    def action_prompt(self) -> None:
        """Show what the model saw with the newest request of the seen conversation."""
        self.start_reading(self._show_page(recorded_prompt))

    def action_compare(self) -> None:
        """Show what differs between that request and the one before it."""
        self.start_reading(self._show_page(compared_prompts))

    async def _show_page(self, make: Callable[[Recording, int, ConversationId | None], PageContent]) -> None:
        if self._recording is not None:
            of = None if self._weave == "all" else self._seen
            self._body.show_page(await asyncio.to_thread(make, self._recording, self._place, of))

    @on(Page.PageLeft)
    def _left_page(self) -> None:
        self._body.leave_page()

    # ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────

    def action_fork(self) -> None:
        """Leave with the fork point at this step."""
        if self._recording is None or self._seen is None:
            return
        item = self._recording.last_item(self._place, self._seen)
        if item is None:
            self._body.say("nothing was said here yet that a copy could begin with")
        else:
            self.dismiss(ForkPoint(self._session_id, self._seen, item))

    def action_leave(self) -> None:
        """Leave the page of a prompt, or the replay."""
        if not self._body.leave_page():
            self.dismiss(None)


def recorded_prompt(recording: Recording, place: int, conversation_id: ConversationId | None) -> PageContent:
    """A page with the newest request up to this step. NotFoundError where there was none."""
    return prompt_page(recording.prompt(_request(recording, place, conversation_id)))


def compared_prompts(recording: Recording, place: int, conversation_id: ConversationId | None) -> PageContent:
    """A page that compares that request with the one before it. NotFoundError where there are not two."""
    now = _request(recording, place, conversation_id)
    before = _request(recording, now - 1, conversation_id)
    return compared_page(recording.prompt(before), recording.prompt(now))


def _request(recording: Recording, place: int, conversation_id: ConversationId | None) -> int:
    at = recording.request_before(place, conversation_id)
    if at is None:
        raise NotFoundError("no request to a model stands before this in the record")
    return at


def _read_recording(home: Path, session_id: str) -> Recording:
    from tertulia.terminal.sessions.recording import Recording

    return Recording.open(home, session_id)


class ReplayApp(ScreenApp[ForkPoint]):
    """A replay as an application: for the picker of `tertulia resume`, before there is a session."""

    def __init__(self, screen: Callable[[], ReplayScreen]) -> None:
        """`screen`: returns the screen to show."""

        async def make() -> ReplayScreen:
            return screen()

        super().__init__(make)
