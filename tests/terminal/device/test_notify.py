"""A bell and a word for the desktop when something needs the person, and only while they look elsewhere."""

from __future__ import annotations

from typing import Any

from tertulia.protocol import events as e
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.terminal.device.notify import DesktopNotifier
from tests.cli.made_events import CHILD, ROOT, EventMaker
from tests.tables import each_row

ASKED = ApprovalRequest("a", "exec", CHILD, [CHILD], "run \x1b]0;x\x07", "rm", [], ["once"])


def notified(data: Any, conversation: ConversationId = ROOT, *, in_view: bool = False) -> list[str]:
    sent: list[str] = []
    notifier = DesktopNotifier(sent.append)
    notifier.in_view = in_view
    notifier.take(EventMaker()(data, conversation), ROOT)
    return sent


@each_row(
    "data, conversation, text",
    [
        (ASKED, CHILD, "a conversation asks you"),
        (ElicitationRequest("b", "s", "m", {}), ROOT, "a conversation asks you"),
        (e.TurnAborted("timeout"), ROOT, "stopped before the end"),
        (e.ErrorEvent("it broke", "x"), ROOT, "failed"),
    ],
)
def test_what_needs_a_person_is_told_in_words_of_ours(data: Any, conversation: ConversationId, text: str) -> None:
    assert notified(data, conversation) == [f"\a\x1b]9;Tertulia: {text}\x07"]
    assert notified(data, conversation, in_view=True) == []


@each_row("data, conversation", [(e.TurnAborted("replaced"), ROOT), (e.TurnAborted("timeout"), CHILD)])
def test_what_goes_on_by_itself_is_not_told(data: Any, conversation: ConversationId) -> None:
    assert notified(data, conversation) == []
