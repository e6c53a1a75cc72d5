"""Handlers of the messages that the approvals panel posts: answers, whole texts, plans, and revoked grants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.message import Message

from tertulia.errors import TertuliaError
from tertulia.terminal.approvals import messages as q
from tertulia.terminal.approvals.grants import GrantsScreen
from tertulia.terminal.commands.runner import CommandContext
from tertulia.terminal.composer.messages import Submitted

_GO_ON = "Carry out the plan."
_DECISIONS = {"accept": "allow", "decline": "deny", "cancel": "cancel"}
"""By what the person did with a form: the word of `approval/resolve`."""


def _answered(context: CommandContext, message: q.ApprovalAnswered) -> None:
    fields = {"scope": message.scope, "ttl_s": message.ttl_s, "message": message.message}
    present = {name: value for name, value in fields.items() if value is not None}
    context.scene.run(_resolve(context, message.approval_id, message.decision, **present))


def _elicited(context: CommandContext, message: q.ElicitationAnswered) -> None:
    content = {} if message.content is None else {"content": message.content}
    context.scene.run(_resolve(context, message.elicitation_id, _DECISIONS[message.action], **content))


async def _resolve(context: CommandContext, id: str, decision: str, **fields: Any) -> None:
    """Answer a question; where that is refused, the panel says why and the person may try again."""
    try:
        await context.call("approval/resolve", approval_id=id, decision=decision, **fields)
    except TertuliaError as error:
        context.scene.panes.approvals.answer_failed(id, error.message)


def _whole_text(context: CommandContext, message: q.WholeTextRequested) -> None:
    async def read() -> None:
        panel, id = context.scene.panes.approvals, message.approval_id
        pieces: list[str] = []
        offset: int | None = 0
        try:
            while offset is not None:
                answer = await context.call("approval/get", approval_id=id, offset=offset)
                pieces.append(answer["text"])
                offset = answer.get("next_offset")
        except TertuliaError as error:
            panel.answer_failed(id, error.message)
        else:
            panel.take_whole_text(id, "".join(pieces))

    context.scene.run(read())


def _plan(context: CommandContext, message: q.PlanAnswered) -> None:
    async def go_on() -> None:
        if message.carry_out:
            await context.person.set_mode("ask")
            await context.actions.send(Submitted(message.message or _GO_ON, "message"))
        elif message.message:
            await context.actions.send(Submitted(message.message, "message"))

    context.scene.run(go_on())


def _typed(context: CommandContext, message: q.TypedThrough) -> None:
    context.scene.panes.composer.insert(message.text)
    context.scene.panes.composer.take_focus()


def _released(context: CommandContext, message: q.FocusReleased) -> None:
    context.scene.panes.composer.take_focus()


def _revoke(context: CommandContext, message: GrantsScreen.RevokeRequested) -> None:
    async def revoke() -> None:
        await context.call("approval/revoke", grant_id=message.grant_id)
        answer = await context.call("approval/grants")
        message.screen.show(answer["grants"], "taken back: the next time it is asked again")

    context.scene.run(revoke())


QUESTION_HANDLERS: dict[type[Message], Callable[[CommandContext, Any], None]] = {
    q.ApprovalAnswered: _answered,
    q.ElicitationAnswered: _elicited,
    q.WholeTextRequested: _whole_text,
    q.PlanAnswered: _plan,
    q.TypedThrough: _typed,
    q.FocusReleased: _released,
    GrantsScreen.RevokeRequested: _revoke,
}
