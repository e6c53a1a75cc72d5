"""The handlers of the messages that widgets post, one entry for each message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.message import Message

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.actions import fork_point
from tertulia.terminal.commands.runner import CommandContext, run_command
from tertulia.terminal.composer import messages as m
from tertulia.terminal.composer.earlier import EarlierMessage, EarlierScreen
from tertulia.terminal.composer.file_listing import list_files
from tertulia.terminal.composer.pictures import clipboard_picture
from tertulia.terminal.device.clipboard import copy_text
from tertulia.terminal.device.external_editor import edit_text, open_in_editor
from tertulia.terminal.looks.themes import use_theme
from tertulia.terminal.panels.choices import (
    CloseRequested,
    ConversationChosen,
    InterruptRequested,
    NewRequested,
)
from tertulia.terminal.panels.page import Page
from tertulia.terminal.question_handlers import QUESTION_HANDLERS
from tertulia.terminal.transcript.messages import (
    CopyRequested,
    ForkRequested,
    NextQuestionRequested,
    OpenFile,
    WeaveRequested,
)
from tertulia.view.cells import UserCell

Handler = Callable[[CommandContext, Any], None]


def _chosen(context: CommandContext, message: ConversationChosen) -> None:
    context.scene.see(message.conversation_id)


def _interrupt(context: CommandContext, message: InterruptRequested) -> None:
    context.scene.run(context.actions.interrupt(message.conversation_id, "branch"))


def _weave(context: CommandContext, message: WeaveRequested) -> None:
    context.scene.toggle_weave(message.conversation_id or context.scene.seen)


def _next_question(context: CommandContext, message: NextQuestionRequested) -> None:
    context.scene.app.call_later(context.scene.app.run_action, "press('next_question')")


def _close(context: CommandContext, message: CloseRequested) -> None:
    context.scene.run(context.actions.close_conversation(message.conversation_id))


def _new(context: CommandContext, message: NewRequested) -> None:
    context.scene.run(context.actions.open(message.parent_id))


def _submitted(context: CommandContext, message: m.Submitted) -> None:
    context.scene.leave_side_page()
    context.scene.run(context.actions.send(message))


def _command(context: CommandContext, message: m.CommandEntered) -> None:
    context.scene.run(run_command(context, message.name, message.rest))


def _shell(context: CommandContext, message: m.ShellEntered) -> None:
    context.scene.run(context.person.run_shell(message.command))


def _take_back(context: CommandContext, message: m.TakeBackRequested) -> None:
    context.scene.run(context.actions.take_back())


def _mode(context: CommandContext, message: m.ModeCycled) -> None:
    context.scene.run(context.person.set_mode(message.mode))


def _stop(context: CommandContext, message: m.StopRequested) -> None:
    context.scene.app.call_later(context.scene.app.run_action, "press('interrupt')")


def _edit(context: CommandContext, message: m.EditorRequested) -> None:
    async def edit() -> None:
        scene = context.scene
        scene.panes.composer.put(await edit_text(scene.app, scene.editor, message.text))

    context.scene.run(edit())


def _files(context: CommandContext, message: m.FilesWanted) -> None:
    async def list_them() -> None:
        context.scene.panes.composer.set_files(await asyncio.to_thread(list_files, Path()))

    context.scene.run(list_them())


def _transcript(context: CommandContext, message: m.TranscriptWanted) -> None:
    panes = context.scene.panes
    shown = [pane for pane in (panes.transcript, panes.page, panes.side) if pane.display]
    if shown:
        shown[0].focus()


def _clipboard(context: CommandContext, message: m.ClipboardRequested) -> None:
    async def paste() -> None:
        scene = context.scene
        picture = await asyncio.to_thread(clipboard_picture)
        if picture is not None:
            scene.panes.composer.add_picture(picture)
        elif scene.app.clipboard:
            scene.panes.composer.insert(scene.app.clipboard)
        else:
            scene.say("there is no picture to paste; your terminal's own key pastes texts of other programs")

    context.scene.run(paste())


def _earlier(context: CommandContext, message: m.EarlierRequested) -> None:
    view, composer = context.scene.view, context.scene.panes.composer
    written = [] if view is None else [cell for cell in view.cells if isinstance(cell, UserCell) and not cell.delegated]

    def edit(chosen: EarlierMessage | None) -> None:
        if chosen is not None:
            composer.put(chosen[1], fork_at=chosen[0])
            if view is not None:
                context.scene.run(context.actions.offer_files(view.id, chosen[0]))

    context.scene.app.push_screen(EarlierScreen([(cell.key, cell.text) for cell in written]), edit)


def _copy(context: CommandContext, message: CopyRequested) -> None:
    if not message.text:
        context.scene.say("there is nothing to copy here")
        return
    context.scene.run(copy_text(context.scene.app, message.text))
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
        case _:
            pass


HANDLERS: dict[type[Message], Handler] = {
    ConversationChosen: _chosen,
    InterruptRequested: _interrupt,
    WeaveRequested: _weave,
    NextQuestionRequested: _next_question,
    CloseRequested: _close,
    NewRequested: _new,
    m.Submitted: _submitted,
    m.CommandEntered: _command,
    m.ShellEntered: _shell,
    m.TakeBackRequested: _take_back,
    m.ModeCycled: _mode,
    m.StopRequested: _stop,
    m.EditorRequested: _edit,
    m.EarlierRequested: _earlier,
    m.FilesWanted: _files,
    m.TranscriptWanted: _transcript,
    m.ClipboardRequested: _clipboard,
    CopyRequested: _copy,
    ForkRequested: _fork,
    OpenFile: _open_file,
    Page.PageLeft: _page_left,
    Page.RowChosen: _row_chosen,
    **QUESTION_HANDLERS,
}
