"""Asks the person at the terminal what an agent may do, one question at a time, in the order in which they came.

What was typed before a question was shown is no answer to it. A question that another client answers, or that has
become pointless, is withdrawn. The end of input is a no.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tertulia.cli.output.approval_question import (
    ApprovalAnswer,
    FormField,
    answer_help,
    answer_prompt,
    elicitation_lines,
    folded_lines,
    form_fields,
    parse_answer,
    question_lines,
)
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import TertuliaError
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, ElicitationRequest, ElicitationResolved

if TYPE_CHECKING or sys.platform != "win32":
    import termios
from tertulia.sandbox.foreground import open_terminal
from tertulia.scheduler.nursery import Nursery
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.session import Session

CLIENT = "terminal"
"""Who answered, as events name it."""
_Question = ApprovalRequest | ElicitationRequest
FormEnd = Literal["deny", "cancel"]
"""How a form ends that is not sent: the server is told that the person said no, or gave no answer."""
_FORM_ENDS: dict[str, FormEnd] = {"/decline": "deny", "/cancel": "cancel"}
_ELICITATION_KEYS: dict[str, Literal["allow", "deny", "cancel"]] = {
    **dict.fromkeys(("y", "yes"), "allow"),
    **dict.fromkeys(("n", "no", "decline"), "deny"),
    **dict.fromkeys(("c", "cancel"), "cancel"),
}
T = TypeVar("T")


class TerminalInput:
    """Lines that a person types into a terminal, read only while one is awaited."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._typed = b""

    @classmethod
    def open(cls, streams: tuple[Any, Any]) -> TerminalInput | None:
        """Of the terminal that a person sits at; None where there is none. `streams`: standard input and error."""
        fd = terminal_of(streams)
        return None if fd is None else cls(fd)

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where it does not say."""
        try:
            return os.get_terminal_size(self._fd).columns or None
        except OSError:
            return None

    def forget(self) -> None:
        """Drop what was typed so far."""
        self._typed = b""
        if sys.platform != "win32":
            with suppress(termios.error):
                termios.tcflush(self._fd, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """The next line; None at the end of input."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._typed:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self._fd, lambda ready=ready: None if ready.done() else ready.set_result(None))
            try:
                await ready
            finally:
                loop.remove_reader(self._fd)
            if not (typed := _read(self._fd)):
                return None
            self._typed += typed
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace")


def terminal_of(streams: tuple[Any, Any]) -> int | None:
    """The descriptor of the terminal that a person sits at; None where there is none."""
    stdin, stderr = streams
    if stderr is None or not stderr.isatty():
        return None
    if stdin is not None and stdin.isatty():
        return stdin.fileno()
    # Standard input is a pipe or a file, and a person still watches.
    return open_terminal()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except OSError:
        # The terminal is gone.
        return b""


def form_end(typed: str) -> FormEnd | None:
    """How a form ends with this line; None: it goes on."""
    return _FORM_ENDS.get(typed.strip().lower())


class TerminalApprover:
    """Takes the events of a session, shows each question and resolves it by what is typed."""

    def __init__(self, keyboard: TerminalInput, out: TerminalOutput, pause: Callable[[], None]) -> None:
        """`pause` ends the line that a view may be writing."""
        self._keyboard = keyboard
        self._out = out
        self._pause = pause
        self._waiting: dict[str, _Question] = {}
        self._current: tuple[str, asyncio.Task[None]] | None = None
        self._nursery = Nursery()

    @property
    def asks(self) -> bool:
        """Whether a question is open here."""
        return bool(self._waiting)

    def take(self, session: Session, event: Event) -> None:
        """One event of the session, in its order."""
        match event.data:
            case ApprovalRequest() as request:
                self._waiting[request.approval_id] = request
            case ElicitationRequest() as request:
                self._waiting[request.elicitation_id] = request
            case ApprovalResolved(approval_id=question_id) | ElicitationResolved(elicitation_id=question_id):
                self._withdraw(question_id)
            case _:
                return
        self._ask_next(session)

    def _withdraw(self, question_id: str) -> None:
        if self._waiting.pop(question_id, None) is None:
            # The event reports this terminal's own answer.
            return
        if self._current is not None and self._current[0] == question_id and not self._current[1].done():
            self._current[1].cancel()
            self._out.line()
            self._out.line(("  no answer is needed any more", "dim"))

    def _ask_next(self, session: Session) -> None:
        if self._current is not None and not self._current[1].done():
            return
        if not self._waiting:
            self._current = None
            return
        question_id, question = next(iter(self._waiting.items()))
        asking = self._nursery.start(self._ask(session, question_id, question), "ask at the terminal")
        self._current = (question_id, asking)
        asking.add_done_callback(lambda _: self._ask_next(session))

    async def _ask(self, session: Session, question_id: str, question: _Question) -> None:
        self._pause()
        self._keyboard.forget()
        try:
            if isinstance(question, ApprovalRequest):
                decision, fields = await self._ask_approval(session, question)
            else:
                decision, fields = await self._ask_elicitation(question)
        finally:
            self._waiting.pop(question_id, None)
        with answering_as(CLIENT):
            try:
                answer = await session.approvals.resolve(question_id, decision, **fields)
            except TertuliaError as error:
                self._out.line(("  not taken: ", "red"), error.message)
                return
        if answer.narrowed is not None:
            self._out.line((f"  {answer.narrowed}", "yellow"))

    async def _ask_approval(self, session: Session, request: ApprovalRequest) -> tuple[str, Mapping[str, Any]]:
        for line in question_lines(request, self._keyboard.width):
            self._out.line(*line)
        while True:
            self._out.write(*answer_prompt(request))
            typed = await self._keyboard.line()
            answer = ApprovalAnswer("deny") if typed is None else parse_answer(typed, request.scopes)
            if typed is None:
                self._out.line()
            match answer:
                case None:
                    self._out.line((f"  {answer_help(request.scopes)}", "dim"))
                case ApprovalAnswer("more"):
                    await self._show_all(session, request)
                case ApprovalAnswer(decision):
                    return decision, answer.fields()

    async def _show_all(self, session: Session, request: ApprovalRequest) -> None:
        self._write_folded(await self._whole_detail(session, request))

    def _write_folded(self, text: str) -> None:
        for line in folded_lines(text, self._keyboard.width):
            self._out.line(f"  {line}")

    async def _whole_detail(self, session: Session, request: ApprovalRequest) -> str:
        """All that is asked for, also what the event left out."""
        pages: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await session.approvals.get(request.approval_id, "detail", offset)
            pages.append(page.text)
            offset = page.next_offset
        return "".join(pages)

    async def _ask_elicitation(self, request: ElicitationRequest) -> tuple[str, Mapping[str, Any]]:
        for line in elicitation_lines(request, self._keyboard.width):
            self._out.line(*line)
        decision = await self._ask_whether("answer it" if request.url is None else "I was there")
        if decision != "allow" or request.url is not None:
            return decision, {}
        content: dict[str, Any] = {}
        fields = form_fields(request)
        if fields:
            self._out.line(("  /decline or /cancel in place of a value ends the form", "dim"))
        for field in fields:
            value = await self._ask_value(field)
            if isinstance(value, str):
                return value, {}
            content.update(value)
        return "allow", {"content": content}

    async def _ask_whether(self, wanted: str) -> Literal["allow", "deny", "cancel"]:
        """Whether the person answers the server, declines, or leaves it without an answer."""
        while True:
            self._out.write((f"[y]es, {wanted}  [n]o, decline  [c]ancel", "yellow"), " › ")
            typed = await self._keyboard.line()
            decision = "deny" if typed is None else _ELICITATION_KEYS.get(typed.strip().lower())
            if decision is not None:
                return decision
            self._out.line((f"  y: {wanted}; n tells the server no; c tells it that you gave no answer", "dim"))

    async def _ask_value(self, field: FormField) -> dict[str, Any] | FormEnd:
        """The value by its name, nothing where it was left out; how the form ends, where it ends here."""
        while True:
            self._out.write(*field.prompt)
            typed = await self._keyboard.line()
            if typed is None:
                return "deny"
            if (end := form_end(typed)) is not None:
                return end
            if not typed.strip() and not field.required:
                return {}
            try:
                return {field.name: field.parse(typed)}
            except ValueError as error:
                self._out.line((f"  {error}", "red"))


async def attended(session: Session, approver: TerminalApprover, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work, while the person at the terminal answers what it asks."""
    events = session.events(attend=True)

    async def watch() -> None:
        async for event in events:
            approver.take(session, event)

    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            try:
                return await work
            finally:
                watching.cancel()
    except ExceptionGroup as several:
        # The first is the cause.
        raise several.exceptions[0] from None
