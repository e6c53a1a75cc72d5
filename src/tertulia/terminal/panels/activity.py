"""The current activity of a conversation in a few words, with times from the given clock."""

from __future__ import annotations

from datetime import datetime

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.panels.lines import clean
from tertulia.view.board_state import BoardState
from tertulia.view.cells import ApprovalCell, Question
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import STATE_WORDS, duration, headline, name_of


def activity(view: ConversationView, board: BoardState, now: float) -> str:
    """What it does, or did last.

    Args:
        view: The conversation.
        board: The board that it is on.
        now: Seconds since 1970.
    """
    match view.state:
        case "asking":
            left = least_time_left(board, now, view.id)
            return "asks you" if left is None else f"asks you, {seconds_left(left)} left"
        case "waiting":
            targets = [board.conversations[id] for id in view.waiting_targets() if id in board.conversations]
            names = ", ".join(clean(name_of(target, board.root_id)) for target in targets)
            return f"waits for {names}" if names else STATE_WORDS["waiting"]
        case "running":
            call = next(reversed(view.open_calls.values()), None)
            what = "works" if call is None else clean(headline(call))
            return f"{what}{_since(view.since, now)}"
        case "idle" if view.context_tokens:
            return f"{view.context_tokens:,} tokens"
        case state:
            return STATE_WORDS[state]


def _since(timestamp: str | None, now: float) -> str:
    if timestamp is None:
        return ""
    passed = now - seconds_of(timestamp)
    # Tenths would change in every frame.
    return f", {duration(int(passed))}" if passed >= 10 else f", {max(0, int(passed))} s"


def seconds_of(timestamp: str) -> float:
    """Seconds since 1970 of a timestamp of an event."""
    return datetime.fromisoformat(timestamp).timestamp()


def seconds_left(seconds: float) -> str:
    """The remaining time as text: `41 s`, `4:12`, `1:02:03`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def least_time_left(board: BoardState, now: float, conversation_id: ConversationId | None = None) -> float | None:
    """Seconds until the first question expires; of one conversation, or of all.

    None where there is no question, or none expires.
    """
    ends = [
        seconds_of(question.request.expires_at) - now
        for question in board.questions.values()
        if isinstance(question, ApprovalCell) and question.request.expires_at is not None
        if conversation_id is None or question.request.conversation_id == conversation_id
    ]
    return min(ends, default=None)


def asking_text(board: BoardState, now: float) -> str:
    """How many questions wait, and how long the first of them still does: `2 ask, 4:12`; empty where none waits."""
    if not board.questions:
        return ""
    left = least_time_left(board, now)
    return f"{len(board.questions)} ask" + ("" if left is None else f", {seconds_left(left)}")


def asker(question: Question, board: BoardState) -> ConversationId | None:
    """The conversation that asks a question; None where it is no longer known."""
    if isinstance(question, ApprovalCell):
        return question.request.conversation_id
    return next((view.id for view in board.conversations.values() if question in view.cells[-200:]), None)
