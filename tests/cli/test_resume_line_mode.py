"""A terminal, line by line: what is typed, which keys stop what, and how one leaves."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tertulia.cli.exec.text_output import TextView
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.resume import Keyboard, LineMode
from tertulia.cli.stop_signals import INTERRUPTED
from tertulia.testing import say
from tests.session.staging import Stage, stage, ticks

DEADLINE_S = 20
CTRL_D = b"\x04"


class FakeTerminal:
    """A terminal with somebody at its keys."""

    def __init__(self) -> None:
        self._primary, self.fd = pty.openpty()

    def type(self, keys: bytes) -> None:
        os.write(self._primary, keys)

    def close(self) -> None:
        for fd in (self._primary, self.fd):
            os.close(fd)


@pytest.fixture
def terminal() -> Iterator[FakeTerminal]:
    made = FakeTerminal()
    yield made
    made.close()


def press(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


# ---- the keyboard


async def test_lines_come_one_by_one_and_end(terminal: FakeTerminal) -> None:
    keyboard = Keyboard(terminal.fd)
    terminal.type("erste\nzweite ñ\n".encode() + b"rest" + CTRL_D + CTRL_D)
    async with asyncio.timeout(DEADLINE_S):
        assert [await keyboard.line() for _ in range(4)] == ["erste\n", "zweite ñ\n", "rest\n", None]


async def test_what_is_no_unicode_is_read_as_far_as_it_goes(terminal: FakeTerminal) -> None:
    terminal.type(b"a\xffb\n")
    assert await asyncio.wait_for(Keyboard(terminal.fd).line(), DEADLINE_S) == "a\ufffdb\n"


async def test_a_terminal_that_is_gone_is_an_end() -> None:
    primary, secondary = pty.openpty()
    os.close(primary)
    assert await asyncio.wait_for(Keyboard(secondary).line(), DEADLINE_S) is None
    os.close(secondary)


@pytest.mark.parametrize(
    ("number", "meaning"), [(signal.SIGINT, "stop"), (signal.SIGTERM, "end"), (signal.SIGHUP, "end")]
)
async def test_signals_are_heard_while_somebody_listens(
    terminal: FakeTerminal, number: signal.Signals, meaning: str
) -> None:
    keyboard = Keyboard(terminal.fd)
    before = signal.getsignal(number)
    with keyboard.listening():
        press(number)
        assert await asyncio.wait_for(keyboard.line(), DEADLINE_S) == meaning
        # The next one is another one.
        terminal.type(b"still here\n")
        assert await asyncio.wait_for(keyboard.line(), DEADLINE_S) == "still here\n"
    assert signal.getsignal(number) in (before, signal.default_int_handler, signal.SIG_DFL)


# ---- the conversation


class TerminalSession:
    """A session on a terminal."""

    def __init__(self, on: Stage, terminal: FakeTerminal) -> None:
        self.on = on
        self._out = io.StringIO()
        out = TerminalOutput(self._out, {})
        self.lines = LineMode(on.session, TextView(out, out, ()), out)
        self.conversation = asyncio.create_task(self.lines.conversation(Keyboard(terminal.fd)))

    @property
    def shown(self) -> str:
        return self._out.getvalue()

    async def left(self) -> int:
        return await asyncio.wait_for(self.conversation, DEADLINE_S)


@asynccontextmanager
async def terminal_session(terminal: FakeTerminal, *replies: Any) -> AsyncIterator[TerminalSession]:
    async with stage(*replies) as on:
        made = TerminalSession(on, terminal)
        watching = on.begin(made.lines.watch())
        async with asyncio.timeout(DEADLINE_S):
            yield made
        made.conversation.cancel()
        await on.session.close()
        await watching


async def test_what_is_typed_is_answered_and_ctrl_d_leaves(terminal: FakeTerminal) -> None:
    async with terminal_session(terminal, "Good morning.", "Fine.") as at:
        terminal.type(b"hello\n\n  how are you?  \n" + CTRL_D)
        assert await at.left() == 0
        assert [entry.text for entry in await at.on.root.history()] == [
            "hello", "Good morning.", "how are you?", "Fine.",
        ]  # fmt: skip
        assert at.shown.count("› ") == 4
        assert "tokens" in at.shown


async def test_ctrl_c_stops_the_answer_and_the_conversation_goes_on(terminal: FakeTerminal) -> None:
    async with terminal_session(terminal, say("never", gate=asyncio.Event()), "Better.") as at:
        terminal.type(b"hello\n")
        await at.on.until("task_started")
        press(signal.SIGINT)
        await at.on.until("turn_aborted")
        terminal.type(b"again\n" + CTRL_D)
        assert await at.left() == 0
        assert "interrupted" in at.shown
        assert [entry.text for entry in await at.on.root.history()][-1] == "Better."


async def test_ctrl_c_at_the_prompt_says_how_to_leave_and_the_second_does(terminal: FakeTerminal) -> None:
    async with terminal_session(terminal, "Good morning.") as at:
        terminal.type(b"hello\n")
        await at.on.until("task_complete")
        while at.shown.count("› ") < 2:
            await ticks()
        press(signal.SIGINT)
        while "Ctrl-D leaves" not in at.shown:
            await ticks()
        press(signal.SIGINT)
        assert await at.left() == INTERRUPTED


async def test_being_told_to_end_stops_the_answer_and_leaves(terminal: FakeTerminal) -> None:
    async with terminal_session(terminal, say("never", gate=asyncio.Event())) as at:
        terminal.type(b"hello\n")
        await at.on.until("task_started")
        press(signal.SIGTERM)
        assert await at.left() == INTERRUPTED
        at.on.check_idle()


async def test_what_cannot_be_sent_is_refused_and_the_conversation_goes_on(terminal: FakeTerminal) -> None:
    async with terminal_session(terminal, "unused") as at:
        await at.on.session.close()
        terminal.type(b"hello\n" + CTRL_D)
        assert await at.left() == 0
        assert "refused the session is clos" in at.shown
