"""What the messages of widgets do, one entry a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.message import Message

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.actions import fork_point
from tertulia.terminal.commands.runner import CommandContext, run_command
from tertulia.terminal.external_editor import open_in_editor
from tertulia.terminal.looks.themes import use_theme
from tertulia.terminal.panels.choices import CloseRequested, ConversationChosen, InterruptRequested, NewRequested
from tertulia.terminal.panels.page import Page
from tertulia.terminal.stand_ins import PlainComposer
from tertulia.terminal.transcript.messages import CopyRequested, ForkRequested, OpenFile
from tertulia.view.cells import UserCell

Handler = Callable[[CommandContext, Any], None]


def _chosen(context: CommandContext, message: ConversationChosen) -> None:
    context.scene.see(message.conversation_id)
    context.scene.run(context.actions.explain())


def _interrupt(context: CommandContext, message: InterruptRequested) -> None:
    context.scene.run(context.actions.interrupt(message.conversation_id, "branch"))


def _close(context: CommandContext, message: CloseRequested) -> None:
    context.scene.run(context.actions.close_conversation(message.conversation_id))


def _new(context: CommandContext, message: NewRequested) -> None:
    context.scene.run(context.actions.open(message.parent_id))


def _submitted(context: CommandContext, message: PlainComposer.Sent) -> None:
    context.scene.run(context.actions.send(message.text, message.how, message.attachments))


def _command(context: CommandContext, message: PlainComposer.CommandEntered) -> None:
    context.scene.run(run_command(context, message.name, message.rest))


def _copy(context: CommandContext, message: CopyRequested) -> None:
    context.scene.app.copy_to_clipboard(message.text)
    context.scene.say(f"copied {len(message.text):,} characters")


def _fork(context: CommandContext, message: ForkRequested) -> None:
    view = context.scene.board.conversations.get(message.conversation_id)
    point = None if view is None else fork_point(view, message.cell_key)
    context.scene.run(context.actions.fork_and_tell(message.conversation_id, point))


def _open_file(context: CommandContext, message: OpenFile) -> None:
    context.scene.run(open_in_editor(context.scene.app, context.scene.editor, message.path, message.line))


def _page_left(context: CommandContext, message: Page.PageLeft) -> None:
    context.scene.leave_page()


def _row_chosen(context: CommandContext, message: Page.RowChosen) -> None:
    context.scene.leave_page()
    match message.kind:
        case "palette" if message.value.startswith("go "):
            context.scene.see(ConversationId(message.value.removeprefix("go ")))
        case "palette":
            context.scene.run(run_command(context, message.value, ""))
        case "themes":
            use_theme(context.scene.app, message.value)
        case "earlier":
            _edit_earlier(context, message.value)
        case _:
            pass


def _edit_earlier(context: CommandContext, key: str) -> None:
    view = context.scene.view
    cell = None if view is None else next((cell for cell in view.cells if cell.key == key), None)
    if view is not None and isinstance(cell, UserCell):
        context.scene.panes.composer.value = cell.text


def _row_removed(context: CommandContext, message: Page.RowRemoved) -> None:
    async def revoke() -> None:
        await context.call("approval/revoke", grant_id=message.value)
        await run_command(context, "approvals", "")

    if message.kind == "grants":
        context.scene.run(revoke())


HANDLERS: dict[type[Message], Handler] = {
    ConversationChosen: _chosen,
    InterruptRequested: _interrupt,
    CloseRequested: _close,
    NewRequested: _new,
    PlainComposer.Sent: _submitted,
    PlainComposer.CommandEntered: _command,
    CopyRequested: _copy,
    ForkRequested: _fork,
    OpenFile: _open_file,
    Page.PageLeft: _page_left,
    Page.RowChosen: _row_chosen,
    Page.RowRemoved: _row_removed,
}
