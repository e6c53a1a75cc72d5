"""The plain terminal: a session line by line, for `tertulia --plain`, and where there is no screen to draw on.

Lines are only ever appended. The session runs in a thread of its own; the main thread has the keyboard, because only
there the standard library's readline edits lines and Ctrl-C reaches it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tertulia.cli.exec.text_output import session_header
from tertulia.cli.line_history import LineHistory
from tertulia.cli.output.tables import format_count
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.plain.commands import LEAVING
from tertulia.cli.plain.last_lines import last_lines
from tertulia.cli.plain.session_thread import SessionThread
from tertulia.cli.plain.signals import LeaveSignal, Signals
from tertulia.cli.stop_signals import INTERRUPTED
from tertulia.errors import TertuliaError
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.server.sockets.session_sockets import reachable
from tertulia.session.members import require_model, require_sandbox
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings

_PROMPT = "› "
_LEAVING = "Ctrl-D or /exit leaves; Ctrl-C once more does, too"


def run_chat(
    entering: AbstractAsyncContextManager[Session],
    loaded: LoadedSettings,
    greet: Callable[[Session, TerminalOutput], Coroutine[Any, Any, None]],
) -> int:
    """Hold a conversation with the root of a session until the person leaves; returns the exit code.

    Args:
        entering: The session, closed at the end.
        loaded: The settings, for colours, warnings, and whether lines may be stored.
        greet: Shows what the session is, before the first line is read.
    """
    variables = loaded.environment.variables
    out = TerminalOutput(sys.stdout, variables)
    for warning in loaded.warnings:
        out.line(("warning: ", "yellow"), warning)
    session = SessionThread(reachable(entering), out)
    try:
        with Signals() as signals, session:
            session.call(greet(session.entered, out))
            # Readline redraws the line while it is typed; a screen reader would read it again each time.
            history = LineHistory.of(loaded) if edits_lines(variables) else None
            try:
                code = _Chat(session, out, signals).run()
            finally:
                if history is not None:
                    history.save()
    except LeaveSignal:
        out.line()
        code = INTERRUPTED
    for line in last_lines(session.board, stored=session.stored):
        out.line(line)
    return code


def edits_lines(variables: Mapping[str, str]) -> bool:
    """Whether the line that a person types may be redrawn while they type it."""
    return not variables.get("ACCESSIBLE") and variables.get("TERM") not in (None, "", "dumb")


# ---- a new session


def start_chat(loaded: LoadedSettings, instructions: str | None = None) -> int:
    """Start a new session and read messages for it; of earlier sessions only their number is shown.

    NoModelError where no model would answer. `instructions`: the base instructions of its root.
    """
    require_model(loaded.settings, loaded.environment)
    require_sandbox(loaded.settings)
    earlier = sum(entry.purpose is None for entry in list_sessions(loaded.environment.home))

    async def greet(session: Session, out: TerminalOutput) -> None:
        out.line((session_header(session), "dim"))
        if earlier:
            stored = format_count(earlier, "earlier session")
            out.line(
                (
                    f"{stored}: `tertulia resume --last` goes on with the newest, `tertulia sessions ls` lists them",
                    "dim",
                )
            )
        out.line(("/help shows what can be typed; Ctrl-C stops an answer, Ctrl-D leaves.", "dim"))

    return run_chat(_instructed(Session(loaded.settings, waits=False), instructions), loaded, greet)


@asynccontextmanager
async def _instructed(
    entering: AbstractAsyncContextManager[Session], instructions: str | None
) -> AsyncGenerator[Session]:
    async with entering as session:
        if instructions is not None:
            await session.root.set_context(base_instructions=instructions)
        yield session


# ---- the main thread: the keyboard


class _Chat:
    """Reads lines and sends each to the conversation that is talked to."""

    def __init__(self, session: SessionThread, out: TerminalOutput, signals: Signals) -> None:
        self._session = session
        self._signals = signals
        self._out = out
        self._early: list[str] = []
        """Lines that were typed before they could be read."""

    def run(self) -> int:
        """Until the person leaves; returns the exit code."""
        warned = False
        while not self._session.exchanges.left:
            try:
                line = self._read()
            except EOFError:
                self._out.line()
                return 0
            except KeyboardInterrupt:
                self._out.line()
                if warned:
                    return INTERRUPTED
                warned = True
                self._out.line((_LEAVING, "dim"))
                continue
            warned = False
            if line in LEAVING:
                return 0
            if line:
                self._do(line)
        return 0

    def _read(self) -> str:
        if self._early:
            return self._early.pop(0)
        with self._session.held():
            return input(f"{self._session.commands.name or ''}{_PROMPT}").strip()

    def _do(self, line: str) -> None:
        """Wait until the work is done; Ctrl-C stops the task, not the program."""
        working: Future[None] | None = None
        stopped = False
        while True:
            try:
                # Held, or Ctrl-C right after Enter would leave the program, or start the work twice.
                with self._signals.held():
                    working = working or self._session.begin(self._session.exchanges.work(line))
                    if stopped:
                        self._session.begin(self._session.exchanges.interrupt())
                working.result()
            except KeyboardInterrupt:
                stopped = True
            except TertuliaError as error:
                self._out.line(("refused: ", "red"), error.message)
                break
            else:
                break
        self._early += self._session.exchanges.left_over()
