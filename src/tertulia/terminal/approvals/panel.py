"""The panel of approvals: stands above the composer, shows the oldest question, and takes its answer.

Not a modal dialog: everything else goes on. Its keys work only while it has the focus, see `focus_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer

from tertulia.events.clock import Clock, SystemClock
from tertulia.terminal.approvals.acts import PANEL_KEYS, Act, EntryOpening, EntryPurpose, ScreenOpening, acts_of, refuse
from tertulia.terminal.approvals.card_view import CardView
from tertulia.terminal.approvals.focus_rules import PAUSE_S, FocusRules
from tertulia.terminal.approvals.forms import ElicitationForm
from tertulia.terminal.approvals.messages import (
    ApprovalAnswered,
    ElicitationAnswered,
    FocusReleased,
    PlanAnswered,
    TypedThrough,
    WholeTextRequested,
)
from tertulia.terminal.approvals.plan_question import PlanQuestion
from tertulia.terminal.approvals.question_queue import QuestionQueue
from tertulia.terminal.approvals.whole_text import WholeTextScreen
from tertulia.terminal.text_entry import TextEntry
from tertulia.terminal.widget_app import app_of
from tertulia.view.board_state import BoardState
from tertulia.view.cells import Question

_ROWS_BESIDE = 9
"""Rows of the screen that are left for the transcript, the composer and the status line."""
_LEAST_ROWS = 8
_LEAST_BESIDE = 6
"""In a terminal of few rows: what is left for the rail, a row of the transcript, the composer and the status line."""


class _Seconds:
    """Calls a function once a second while it is needed; holds no timer otherwise."""

    def __init__(self, pump: MessagePump, tick: Callable[[], None]) -> None:
        self._pump = pump
        self._tick = tick
        self._timer: Timer | None = None

    def run(self, *, wanted: bool) -> None:
        """Start or stop the timer, as needed."""
        if wanted and self._timer is None:
            self._timer = self._pump.set_interval(1.0, self._tick)
        elif not wanted and self._timer is not None:
            self._timer.stop()
            self._timer = None


class PanelEntry(TextEntry):
    """The text field of the panel: hidden until the person has something to type."""

    def __init__(self) -> None:
        super().__init__(max_lines=6)
        self.purpose: EntryPurpose = "refuse"

    def open(self, purpose: EntryPurpose, text: str) -> None:
        """Show the field with this text to edit."""
        self.purpose = purpose
        self.display = True
        self.start_with(text)
        self.focus()


class ApprovalsPanel(Vertical, can_focus=True):
    """All questions of a session, one at a time, with the keys that answer it."""

    DEFAULT_CSS = """
    ApprovalsPanel { height: auto; display: none; }
    ApprovalsPanel TextEntry { display: none; margin-left: 2; }
    """

    Answered = ApprovalAnswered
    ElicitationAnswered = ElicitationAnswered
    PlanAnswered = PlanAnswered
    WholeTextRequested = WholeTextRequested
    TypedThrough = TypedThrough
    FocusReleased = FocusReleased

    def __init__(
        self, composer_is_idle: Callable[[], bool], *, clock: Clock | None = None, id: str | None = None
    ) -> None:
        """`composer_is_idle`: whether the composer has the focus and is empty. `clock`: of this machine if None."""
        super().__init__(id=id)
        self.rules = FocusRules()
        self.queue = QuestionQueue()
        self._composer_is_idle = composer_is_idle
        self._clock: Clock = clock or SystemClock()
        self._board = BoardState()
        self._card = CardView()
        self._entry = PanelEntry()
        self._taking_focus = False
        self._shows_farewell = False
        self._requested: set[str] = set()
        self._known: list[tuple[str, int]] = []
        self._seconds = _Seconds(self, self.tick)

    def compose(self) -> ComposeResult:
        """The card, and the field to type a sentence or a value into."""
        yield self._card
        yield self._entry

    def on_mount(self) -> None:
        """Hear when the terminal's window comes to the front."""

        def changed(is_in_front: bool) -> None:
            if is_in_front:
                self.rules.window_came_to_front(self._clock.monotonic())

        self.watch(app_of(self), "app_focus", changed, init=False)

    # ---- what the application tells

    def show(self, questions: Sequence[Question], board: BoardState) -> None:
        """Show these questions, the oldest first."""
        self._board = board
        known = [(question.key, question.revision) for question in questions]
        if known != self._known:
            # Called with every frame; drawn only when a question came or went.
            self._known = known
            self.queue.take(questions, self._clock.now())
            self.redraw()

    def show_plan(self, plan: PlanQuestion | None) -> None:
        """Ask whether this plan is to be carried out; None: ask about no plan."""
        if self.queue.show_plan(plan):
            self.redraw()

    def take_whole_text(self, approval_id: str, text: str) -> None:
        """All of a question's text."""
        self.queue.take_text(approval_id, text)
        self.redraw()

    def answer_failed(self, key: str, reason: str) -> None:
        """Allow another try after an answer could not be sent, or a text could not be read."""
        self.queue.mark_answered(key, answered=False)
        self.queue.note = reason
        self.redraw()

    def key_typed(self) -> None:
        """Note that a key was pressed, in whatever part of the screen."""
        self.rules.key_typed(self._clock.monotonic())

    # ---- drawing

    def redraw(self) -> None:
        """Draw the question in view, and ask for the rest of its text where that is missing."""
        question, wall = self.queue.current, self._clock.now()
        self.rules.question_in_view(None if question is None else question.key, self._clock.monotonic())
        height = app_of(self).size.height
        rows = max(height - _ROWS_BESIDE, min(_LEAST_ROWS, height - _LEAST_BESIDE))
        width = self.size.width or app_of(self).size.width
        keys = "panel" if self.rules.has_focus else "entry" if self._entry.display else "others"
        self._card.draw(self.queue, self._board, wall, width=width, most_rows=rows, keys=keys)
        self._shows_farewell = bool(self.queue.farewell(wall))
        self.display = question is not None or self._shows_farewell
        if question is None and (self.has_focus or self._entry.has_focus):
            self._entry.display = False
            self.post_message(self.FocusReleased())
        if question is not None and self.queue.misses_text() and question.key not in self._requested:
            self._requested.add(question.key)
            self.post_message(self.WholeTextRequested(question.key))
        self._seconds.run(wanted=self.display)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.redraw()

    def tick(self) -> None:
        """A second has passed, or a key has waited long enough."""
        now = self._clock.monotonic()
        if self.rules.may_take_focus(now, composer_empty=self._composer_is_idle()):
            self._taking_focus = True
            self.focus(scroll_visible=False)
        if (key := self.rules.due(now)) is not None:
            self.carry_out(acts_of(self.queue, key))
        elif self.queue.has_time():
            self._card.tick(self.queue, self._board, self._clock.now(), self.size.width)
        if self._shows_farewell and not self.queue.farewell(self._clock.now()):
            self.redraw()

    # ---- focus, keys and presses

    def on_focus(self, event: events.Focus) -> None:
        """Take the focus: given by a person, by the panel itself, or because the window came to the front."""
        by_itself, self._taking_focus = self._taking_focus or event.from_app_focus, False
        self.rules.focused(self._clock.monotonic(), by_itself=by_itself)
        self.redraw()

    def on_blur(self) -> None:
        """Another part of the screen has the focus."""
        self.rules.lost_focus(self._clock.monotonic())
        self.redraw()

    def on_key(self, event: events.Key) -> None:
        """Handle a key for the panel or its field. Enter never means yes."""
        if not self.has_focus:
            return
        if event.is_printable and event.character is not None:
            event.stop()
            self._take_character(event.character)
        elif event.key in _MOVES:
            event.stop()
            _MOVES[event.key](self)

    def _take_character(self, character: str) -> None:
        meaning = character in PANEL_KEYS or (character == " " and self.queue.form is not None)
        match self.rules.key(character, self._clock.monotonic(), means_something=meaning):
            case "act":
                self.carry_out(acts_of(self.queue, character))
            case "wait":
                self.queue.note = "a moment: type on, and it goes to the composer"
                self.set_timer(PAUSE_S, self.tick)
                self.redraw()
            case "type":
                self.queue.note = ""
                self.post_message(self.TypedThrough(self.rules.take_waiting() + character))
                self.redraw()
            case "ignore":
                pass

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted is text, and never an answer."""
        if self.has_focus:
            event.stop()
            self.post_message(self.TypedThrough(event.text))

    def on_click(self, event: events.Click) -> None:
        """Treat a click on a hint as its key, once the panel has had the focus for a while."""
        event.stop()
        now, card = self._clock.monotonic(), self._card.region
        key = self._card.hint_at(event.screen_x - card.x, event.screen_y - card.y, self.size.width)
        if self.rules.press(now) and key in PANEL_KEYS and self.rules.may_answer(now):
            self.carry_out(acts_of(self.queue, key))

    # ---- acts

    def carry_out(self, acts: Sequence[Act]) -> None:
        """Post the messages for the application, and open the fields and screens for the person."""
        for act in acts:
            match act:
                case EntryOpening(purpose=purpose, text=text):
                    self._entry.open(purpose, text)
                    self.queue.note = _ENTRY_NOTES[purpose]
                case ScreenOpening(title=title, text=text, is_patch=is_patch):
                    app_of(self).push_screen(WholeTextScreen(title, text, is_patch=is_patch))
                case Message():
                    self.post_message(act)
        self.redraw()

    def on_text_entry_sent(self, event: TextEntry.Sent) -> None:
        """Use the sentence, command or value that was typed."""
        event.stop()
        form = self.queue.form
        if self._entry.purpose == "field" and form is not None:
            if not form.type(event.text):
                self.redraw()
                return
            form.move(1)
        self.on_text_entry_cancelled(event)
        if self._entry.purpose != "field":
            self.carry_out(refuse(self.queue, event.text, instead=self._entry.purpose == "edit"))

    def on_text_entry_cancelled(self, event: TextEntry.Cancelled | TextEntry.Sent) -> None:
        """The person goes back to the question."""
        event.stop()
        self._entry.display = False
        self.queue.note = ""
        self.focus()
        self.redraw()


_ENTRY_NOTES = {
    "refuse": "no, because: (Enter sends it to the model, Esc goes back)",
    "edit": "no, run this instead: (Enter sends it to the model, Esc goes back)",
    "field": "Enter takes it, Esc goes back",
}


def _release(panel: ApprovalsPanel) -> None:
    panel.rules.leave()
    panel.post_message(panel.FocusReleased())


def _walk(step: int) -> Callable[[ApprovalsPanel], None]:
    def walk(panel: ApprovalsPanel) -> None:
        panel.queue.walk(step)
        panel.redraw()

    return walk


def _in_form(act: Callable[[ElicitationForm], None]) -> Callable[[ApprovalsPanel], None]:
    def change(panel: ApprovalsPanel) -> None:
        if panel.queue.form is not None and not panel.queue.is_answered:
            act(panel.queue.form)
            panel.redraw()

    return change


def _fill_in(panel: ApprovalsPanel) -> None:
    """Open the field of a form with Enter; for every other question do nothing."""
    form = panel.queue.form
    if form is not None and form.is_typed and not panel.queue.is_answered:
        panel.carry_out([EntryOpening("field", form.typed_text)])


_MOVES: dict[str, Callable[[ApprovalsPanel], None]] = {
    "tab": _walk(1),
    "shift+tab": _walk(-1),
    "escape": _release,
    "enter": _fill_in,
    "up": _in_form(lambda form: form.move(-1)),
    "down": _in_form(lambda form: form.move(1)),
    "left": _in_form(lambda form: form.choose(-1)),
    "right": _in_form(lambda form: form.choose(1)),
    "backspace": _in_form(lambda form: form.clear()),
}
"""Keys that move about and answer nothing."""
