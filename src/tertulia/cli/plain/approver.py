"""Asks the person at a plain terminal by numbered choices, one question at a time, in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tertulia.cli.exec.terminal_approver import FormEnd, TerminalApprover, form_end
from tertulia.cli.output.approval_question import ApprovalAnswer, FormField
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.plain.keyboard import PlainKeyboard
from tertulia.cli.plain.lines import PlainLines
from tertulia.cli.plain.questions import (
    approval_choices,
    approval_lines,
    field_options,
    hidden_text,
    numbered,
    option_text,
    parse_choice,
)
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.session.session import Session

_AGAIN = "type one of the numbers 1 to {}: "
"""What is asked where no number was typed: no line is written twice."""


class NumberedApprover(TerminalApprover):
    """The approver of `--plain`: what was typed before a question was shown is no answer to it."""

    def __init__(self, keyboard: PlainKeyboard, out: TerminalOutput, lines: PlainLines) -> None:
        super().__init__(keyboard, out, lambda: None)
        self._plain_keyboard = keyboard
        self._lines = lines

    async def _ask(self, session: Session, question_id: str, question: ApprovalRequest | ElicitationRequest) -> None:
        # A person who is typing finishes the line first: it is a message, and no answer.
        await self._plain_keyboard.idle()
        await super()._ask(session, question_id, question)

    async def _ask_approval(self, session: Session, request: ApprovalRequest) -> tuple[str, Mapping[str, Any]]:
        name = self._lines.name(request.conversation_id)
        waiting = [self._lines.name(id) for id in request.chain if id != request.conversation_id][::-1]
        for line in approval_lines(request, name, waiting, self._keyboard.width):
            self._out.line(*line)
        choices = approval_choices(request, name)
        prompt = numbered([choice.text for choice in choices])
        self._out.bell()
        while True:
            self._out.write((prompt, "yellow"))
            typed = await self._keyboard.line()
            if typed is None:
                self._out.line()
                return "deny", {}
            match parse_choice(typed, choices, request.scopes):
                case None:
                    prompt = _AGAIN.format(len(choices))
                case (ApprovalAnswer("more"), _):
                    await self._show_all(session, request)
                    prompt = f"You have read all of it. {numbered([choice.text for choice in choices])}"
                case (ApprovalAnswer(decision), True):
                    return decision, {"message": await self._ask_reason()}
                case (answer, _):
                    return answer.decision, answer.fields()

    async def _show_all(self, session: Session, request: ApprovalRequest) -> None:
        """Only what was left out: its beginning and its end have been read."""
        self._write_folded(hidden_text(request.detail, await self._whole_detail(session, request)))

    async def _ask_reason(self) -> str | None:
        self._out.write(("because: ", "yellow"))
        return (await self._keyboard.line() or "").strip() or None

    async def _ask_whether(self, wanted: str) -> Literal["allow", "deny", "cancel"]:
        self._out.bell()
        number = await self._choose([wanted, "no, decline", "cancel, give no answer"])
        decisions: tuple[Literal["allow", "deny", "cancel"], ...] = ("allow", "deny", "cancel")
        return number if isinstance(number, str) else decisions[number]

    async def _ask_value(self, field: FormField) -> dict[str, Any] | FormEnd:
        options = field_options(field)
        if options is None:
            return await super()._ask_value(field)
        self._out.write((f"  {field.schema.get('title') or field.name}: ", "yellow"))
        texts = [option_text(option) for option in options]
        if not field.required:
            texts.append("leave it out")
        number = await self._choose(texts)
        if isinstance(number, str):
            return number
        return {field.name: options[number]} if number < len(options) else {}

    async def _choose(self, texts: list[str]) -> int | FormEnd:
        """The place of the chosen text; how the form ends, where it ends here."""
        prompt = numbered(texts)
        while True:
            self._out.write((prompt, "yellow"))
            typed = await self._keyboard.line()
            if typed is None:
                self._out.line()
                return "deny"
            if (end := form_end(typed)) is not None:
                return end
            word = typed.strip()
            if word.isascii() and word.isdigit() and 1 <= int(word[:4]) <= len(texts):
                return int(word[:4]) - 1
            prompt = _AGAIN.format(len(texts))
