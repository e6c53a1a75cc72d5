"""Forms of MCP servers at a plain terminal and at that of `exec`: sent, declined, or left without an answer."""

from __future__ import annotations

import asyncio
import io
from typing import Any, cast

import pytest

from tertulia.cli.exec.terminal_approver import TerminalApprover
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.plain.approver import NumberedApprover
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import ElicitationRequest
from tests.deadlines import HANG_S
from tests.tables import each_row

REQUEST = ElicitationRequest(
    "e1",
    "tickets",
    "Which ticket?",
    {
        "properties": {"ticket": {"type": "string"}, "part": {"enum": ["basket", "till"]}},
        "required": ["ticket", "part"],
    },
)
SENT = ("allow", {"content": {"ticket": "SHOP-1", "part": "till"}})


class Typist:
    """Types these lines, then the end of input."""

    width = 80

    def __init__(self, lines: str) -> None:
        self._lines = lines.split("|") if lines else []

    def forget(self) -> None:
        """Nothing was typed before."""

    async def idle(self) -> None:
        """No line is half typed."""

    async def line(self) -> str | None:
        """The next line."""
        return self._lines.pop(0) if self._lines else None


class Answers:
    """What a session is told: its approvals, and the answers to them."""

    def __init__(self) -> None:
        self.approvals = self
        self.answer: asyncio.Future[tuple[str, dict[str, Any]]] = asyncio.get_running_loop().create_future()

    async def resolve(self, id: str, decision: str, **fields: Any) -> Any:
        """The answer to the only question."""
        self.answer.set_result((decision, fields))
        return type("Answer", (), {"narrowed": None})


async def answered(kind: str, typed: str) -> tuple[tuple[str, dict[str, Any]], str]:
    """The answer that comes of these lines, and what was written."""
    written = io.StringIO()
    keyboard, out = cast(Any, Typist(typed)), TerminalOutput(written, {})
    if kind == "exec":
        approver = TerminalApprover(keyboard, out, lambda: None)
    else:
        approver = NumberedApprover(keyboard, out, cast(Any, None))
    session = Answers()
    approver.take(cast(Any, session), cast(Event, type("Told", (), {"data": REQUEST})))
    return await asyncio.wait_for(session.answer, HANG_S), written.getvalue()


@each_row(
    "kind, typed, expected",
    [
        ("plain", "1|SHOP-1|2", SENT),
        ("plain", "2", ("deny", {})),
        ("plain", "3", ("cancel", {})),
        ("plain", "maybe|3", ("cancel", {})),
        ("plain", "1|/cancel", ("cancel", {})),
        ("plain", "1|SHOP-1|/decline", ("deny", {})),
        ("plain", "1|SHOP-1|7|/cancel", ("cancel", {})),
        ("plain", "1|SHOP-1", ("deny", {})),
        ("plain", "", ("deny", {})),
        ("exec", "y|SHOP-1|till", SENT),
        ("exec", "n", ("deny", {})),
        ("exec", "C", ("cancel", {})),
        ("exec", "what?|c", ("cancel", {})),
        ("exec", "y|/Cancel", ("cancel", {})),
        ("exec", "y|SHOP-1|/decline", ("deny", {})),
        ("exec", "y", ("deny", {})),
    ],
)
async def test_a_form_is_sent_declined_or_cancelled(kind: str, typed: str, expected: Any) -> None:
    """Issue 22, 7: a server learns whether the person said no or gave no answer."""
    answer, _ = await answered(kind, typed)
    assert answer == expected


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        ("plain", "(1) answer it (2) no, decline (3) cancel, give no answer: "),
        ("exec", "[y]es, answer it  [n]o, decline  [c]ancel › "),
    ],
)
async def test_the_ways_to_end_a_form_are_told_before_and_in_it(kind: str, choices: str) -> None:
    _, written = await answered(kind, "1|/cancel" if kind == "plain" else "y|/cancel")
    assert choices in written
    assert "/decline or /cancel in place of a value ends the form" in written
